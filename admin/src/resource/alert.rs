//! Alert rules: of a workspace, or of the organisation for whoever runs it. What a rule is about is a document; how it
//! stands is told with it. When rules are looked at and how messages leave is known elsewhere.

mod channels;
mod declared;
mod trial;

use super::provider::slug_of;
use super::{NewRow, Resource, ResourceRow, Slug, collect, create, delete, locate, searched, update};
use crate::actor::Actor;
use crate::change::{Action, WriteView};
use crate::input::{Edit, WholeNumber};
use crate::problem::{Problem, bad, conflict, forbidden, missing};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use channels::GivenChannel;
use gateway_domain::alert::AlertStanding;
use gateway_domain::id::WorkspaceId;
use gateway_domain::resource::alert::{AlertFilters, AlertKind, AlertRule, LatencyStatistic, MOST_ALERT_RULES};
use gateway_domain::resource::{Kind, check_name};
use gateway_domain::scope::Scope;
use gateway_domain::secret::{MASK, mask};
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use uuid::Uuid;

const LIST: &[Scope] = &[Scope::named("policies.list")];
const CREATE: &[Scope] = &[Scope::named("policies.create")];
const READ: &[Scope] = &[Scope::named("policies.read")];
const UPDATE: &[Scope] = &[Scope::named("policies.update")];
const DELETE: &[Scope] = &[Scope::named("policies.delete")];

pub(crate) fn routes() -> Vec<AdminRoute> {
    const ALL: &str = "/alerts";
    const ONE: &str = "/alerts/{id}";
    let own = vec![
        authed(Method::GET, ALL, LIST, "List the alert rules of a workspace or of the organisation", list).asks(&[
            "workspace_id",
            "organisation_id",
            "status",
            "type",
            "search",
            "current_page",
            "page_size",
        ]),
        authed(Method::POST, ALL, CREATE, "Say what somebody is to be told of, and how", create::<AlertRule>)
            .takes::<NewAlert>()
            .and(&["workspace_id", "organisation_id"]),
        authed(Method::GET, ONE, READ, "Show an alert rule and how it stands", show).asks(HERE),
        authed(Method::PUT, ONE, UPDATE, "Change an alert rule, or archive one", update::<AlertRule>)
            .takes::<AlertPatch>()
            .and(&["workspace_id"])
            .asks(HERE),
        authed(Method::DELETE, ONE, DELETE, "Delete an alert rule", delete::<AlertRule>).asks(HERE),
    ];
    own.into_iter().chain(trial::routes()).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAlert {
    name: String,
    description: Option<String>,
    #[serde(rename = "type")]
    kind: AlertKind,
    threshold: f64,
    #[serde(default)]
    statistic: Edit<LatencyStatistic>,
    #[serde(default)]
    window_minutes: Edit<WholeNumber>,
    #[serde(default)]
    minimum_count: Edit<WholeNumber>,
    #[serde(default)]
    cool_down_minutes: Edit<WholeNumber>,
    #[serde(default)]
    filters: Edit<GivenFilters>,
    channels: Vec<GivenChannel>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AlertPatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    description: Edit<String>,
    // Clients that send the whole object back may, as long as it is as it was.
    #[serde(rename = "type")]
    kind: Option<AlertKind>,
    #[serde(default)]
    threshold: Edit<f64>,
    #[serde(default)]
    statistic: Edit<LatencyStatistic>,
    #[serde(default)]
    window_minutes: Edit<WholeNumber>,
    #[serde(default)]
    minimum_count: Edit<WholeNumber>,
    #[serde(default)]
    cool_down_minutes: Edit<WholeNumber>,
    #[serde(default)]
    filters: Edit<GivenFilters>,
    #[serde(default)]
    channels: Edit<Vec<GivenChannel>>,
    #[serde(default)]
    status: Edit<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenFilters {
    #[serde(default)]
    ai_org: Vec<String>,
    #[serde(default)]
    ai_model: Vec<String>,
    #[serde(default)]
    virtual_keys: Vec<String>,
}

impl GivenFilters {
    const fn is_empty(&self) -> bool {
        self.ai_org.is_empty() && self.ai_model.is_empty() && self.virtual_keys.is_empty()
    }

    fn read(self) -> AlertFilters {
        AlertFilters { ai_org: self.ai_org, ai_model: self.ai_model, virtual_keys: self.virtual_keys }
    }
}

/// What a rule may say or leave out.
struct AlertEdit {
    statistic: Edit<LatencyStatistic>,
    window_minutes: Edit<WholeNumber>,
    minimum_count: Edit<WholeNumber>,
    cool_down_minutes: Edit<WholeNumber>,
    filters: Edit<GivenFilters>,
}

impl AlertEdit {
    /// What a kind has no use for is refused rather than kept and ignored.
    fn check(&self, kind: AlertKind) -> Result<(), Problem> {
        let given = |is_there: bool, field: &str, only: &str| {
            if is_there { Err(bad(field, format_args!("is of alerts of the type {only}"))) } else { Ok(()) }
        };
        let is_windowed = kind != AlertKind::Budget;
        let windowed = "spend, error_rate or latency";
        given(matches!(self.statistic, Edit::Set(_)) && kind != AlertKind::Latency, "statistic", "latency")?;
        given(matches!(self.window_minutes, Edit::Set(_)) && !is_windowed, "window_minutes", windowed)?;
        given(matches!(self.minimum_count, Edit::Set(_)) && !is_windowed, "minimum_count", windowed)?;
        let filtered = matches!(&self.filters, Edit::Set(given) if !given.is_empty());
        given(filtered && !is_windowed, "filters", windowed)
    }

    fn onto(self, doc: &mut AlertRule) -> Result<(), Problem> {
        self.check(doc.kind)?;
        if let Some(statistic) = self.statistic.or_default() {
            doc.statistic = statistic;
        }
        let follows = doc.cool_down_minutes == cool_down(doc.kind, doc.window_minutes);
        if let Some(window) = minutes("window_minutes", &self.window_minutes, AlertRule::HOUR)? {
            doc.window_minutes = window;
        }
        if follows {
            doc.cool_down_minutes = cool_down(doc.kind, doc.window_minutes);
        }
        let usual = cool_down(doc.kind, doc.window_minutes);
        if let Some(minutes) = minutes("cool_down_minutes", &self.cool_down_minutes, usual)? {
            doc.cool_down_minutes = minutes;
        }
        match self.minimum_count {
            Edit::Keep => {}
            Edit::Clear => doc.minimum_count = 0,
            Edit::Set(WholeNumber(count)) => doc.minimum_count = count,
        }
        if let Some(filters) = self.filters.or_default() {
            doc.filters = filters.read();
        }
        Ok(())
    }
}

/// The usual minutes between two messages of a rule: its window, so that the same calls are not told twice, or a day
/// for a budget.
const fn cool_down(kind: AlertKind, window: u32) -> u32 {
    if matches!(kind, AlertKind::Budget) { AlertRule::DAY } else { window }
}

fn minutes(field: &str, given: &Edit<WholeNumber>, usual: u32) -> Result<Option<u32>, Problem> {
    match given {
        Edit::Keep => Ok(None),
        Edit::Clear => Ok(Some(usual)),
        Edit::Set(WholeNumber(minutes)) => {
            u32::try_from(*minutes).map(Some).map_err(|_| bad(field, "must be at most a month of minutes"))
        }
    }
}

impl Resource for AlertRule {
    const KIND: Kind = Kind::Alert;
    const NOUN: &'static str = "alert rule";
    const SHARED: bool = true;
    const LEVELS: bool = true;
    const LATER: &'static [&'static str] = &[];
    type Create = NewAlert;
    type Patch = AlertPatch;

    fn create(input: NewAlert, home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        check_name("name", &input.name)?;
        let mut doc = Self {
            description: input.description,
            kind: input.kind,
            threshold: input.threshold,
            statistic: LatencyStatistic::default(),
            window_minutes: Self::HOUR,
            minimum_count: 0,
            cool_down_minutes: cool_down(input.kind, Self::HOUR),
            filters: AlertFilters::default(),
            channels: channels::read(input.channels, &[], call)?,
            rest: Map::new(),
        };
        let edit = AlertEdit {
            statistic: input.statistic,
            window_minutes: input.window_minutes,
            minimum_count: input.minimum_count,
            cool_down_minutes: input.cool_down_minutes,
            filters: input.filters,
        };
        edit.onto(&mut doc)?;
        doc.check()?;
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, home, Some(call.actor.key.0), doc);
        row.name = input.name;
        let slug = slug_of(&row.name, &format!("alert-{}", call.app.tail::<6>()));
        Ok(NewRow { row, slug: Slug::Derived(slug) })
    }

    fn patch(row: &mut ResourceRow<Self>, input: AlertPatch, call: &AdminCall) -> Result<(), Problem> {
        if input.kind.is_some_and(|kind| kind != row.doc.kind) {
            return Err(bad("type", "cannot be changed"));
        }
        if let Some(name) = input.name.required("name")? {
            check_name("name", &name)?;
            row.name = name;
        }
        input.description.onto(&mut row.doc.description);
        if let Some(threshold) = input.threshold.required("threshold")? {
            row.doc.threshold = threshold;
        }
        let edit = AlertEdit {
            statistic: input.statistic,
            window_minutes: input.window_minutes,
            minimum_count: input.minimum_count,
            cool_down_minutes: input.cool_down_minutes,
            filters: input.filters,
        };
        edit.onto(&mut row.doc)?;
        if let Some(given) = input.channels.required("channels")? {
            row.doc.channels = channels::read(given, &row.doc.channels, call)?;
        }
        if let Some(status) = input.status.required("status")? {
            if !matches!(status.as_str(), "active" | "archived") {
                return Err(bad("status", "must be active or archived"));
            }
            row.status = status;
        }
        Ok(())
    }

    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        row.doc.check()?;
        let org = around.snapshot.org(row.org).ok_or_else(|| missing("organisation"))?;
        if row.is_one_too_many(org.alerts().len(), org.alerts().contains_key(&row.id), MOST_ALERT_RULES) {
            return Err(conflict(format!(
                "the organisation has {MOST_ALERT_RULES} alert rules, archived ones included, and may have no more"
            )));
        }
        Ok(())
    }

    fn view(row: &ResourceRow<Self>, call: &AdminCall) -> Value {
        let shown =
            |sealed: &str| call.app.vault.open(sealed).map_or_else(|_| MASK.to_owned(), |plain| mask(plain.expose()));
        let channels: Vec<_> = row.doc.channels.iter().map(|channel| channel.masked(shown)).collect();
        let mut view = row.common("alert");
        let is_windowed = row.doc.kind != AlertKind::Budget;
        let more = json!({
            "description": row.doc.description,
            "type": row.doc.kind,
            "threshold": row.doc.threshold,
            "unit": row.doc.kind.unit(),
            "statistic": (row.doc.kind == AlertKind::Latency).then_some(row.doc.statistic),
            "window_minutes": is_windowed.then_some(row.doc.window_minutes),
            "minimum_count": is_windowed.then_some(row.doc.minimum_count),
            "cool_down_minutes": row.doc.cool_down_minutes,
            "filters": row.doc.filters,
            "channels": channels,
            "owner_id": row.owner,
            "state": null,
        });
        view.extend(more.as_object().cloned().unwrap_or_default());
        Value::Object(view)
    }

    /// Rules of the organisation are for its Admin keys: to the others there are none.
    fn allow(row: &ResourceRow<Self>, actor: &Actor, action: Action) -> Result<(), Problem> {
        match action {
            _ if row.workspace.is_some() || actor.workspace.is_none() => Ok(()),
            Action::Create => Err(forbidden("alert rules of the organisation are made with its Admin keys")),
            _ => Err(missing(Self::NOUN)),
        }
    }

    fn mask(body: &mut Map<String, Value>) {
        channels::blank(body);
    }

    fn forget(&mut self) {
        self.channels.clear();
    }
}

/// How each stands, put into its view.
async fn render_rules(rows: &[ResourceRow<AlertRule>], call: &AdminCall) -> Result<Vec<Value>, Problem> {
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let standings = call.app.alerts.alert_standings(&ids).await?;
    let known: HashMap<Uuid, &AlertStanding> = standings.iter().map(|standing| (standing.rule, standing)).collect();
    let view = |row: &ResourceRow<AlertRule>| {
        let mut view = AlertRule::view(row, call);
        if let Some(standing) = known.get(&row.id) {
            view["state"] = json!({
                "last_checked_at": standing.checked_at,
                "last_value": standing.value,
                "last_fired_at": standing.fired_at,
                "last_recovered_at": standing.over_at,
            });
        }
        view
    };
    Ok(rows.iter().map(view).collect())
}

async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<AlertRule>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let view = render_rules(std::slice::from_ref(&row), &call).await?.pop().unwrap_or_default();
    Ok(AdminReply::json(view))
}

/// Lists the rules of one level: the organisation's where only that is named. They are few, so that pages are cut here.
async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let (workspace, organisation) = (call.query.text("workspace_id"), call.query.text("organisation_id"));
    if organisation.is_some_and(|id| id != call.actor.org.to_string()) {
        return Err(missing("organisation"));
    }
    let of_organisation = workspace.is_none() && organisation.is_some() && call.actor.workspace.is_none();
    let shelf = if of_organisation { None } else { Some(call.actor.home(&call.snapshot(), workspace)?) };
    let status = call.query.one_of("status", &["active", "archived"])?;
    let kind = call.query.one_of("type", &AlertKind::ALL.map(AlertKind::name))?;
    let paging = call.query.paging()?;
    let mut rows = collect::<AlertRule>(&call, searched::<AlertRule>(&call, Some(shelf))).await?;
    rows.retain(|row| status.is_none_or(|s| row.status == s) && kind.is_none_or(|k| row.doc.kind.name() == k));
    let total = rows.len() as u64;
    let data = render_rules(paging.cut(&rows), &call).await?;
    Ok(AdminReply::json(AlertRule::listed(total, data)))
}
