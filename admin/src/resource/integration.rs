//! Integrations: a provider family with its sealed credential. At organisation level they serve every
//! workspace; in a workspace, that one. A new one brings a managed provider along unless told not to.

mod access;
mod declared;
pub(super) mod mappings;
mod models;
pub(super) mod pricing;
mod scopes;
pub(super) mod settings;
pub(super) mod trial;

pub(super) use scopes::{READ, UPDATE};

use super::provider::{AUTO, slug_of, tagged};
use super::{NewRow, Resource, ResourceRow, Slug, collect, draft, edit, everything, get, locate, searched};
use crate::actor::Actor;
use crate::change::{Action, WriteView, audit};
use crate::input::{Edit, Flag};
use crate::problem::{Problem, bad, conflict};
use crate::resource::config;
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::catalog::ended;
use gateway_domain::id::{IntegrationId, WorkspaceId};
use gateway_domain::ports::{Batch, ResourceQuery};
use gateway_domain::resource::integration::{Access, Configurations, Integration, Models};
use gateway_domain::resource::limits::ResourceLimits;
use gateway_domain::resource::provider::Provider;
use gateway_domain::resource::{Kind, Stored, check_name};
use http::Method;
use scopes::{CREATE, DELETE, LIST};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(crate) fn routes() -> Vec<AdminRoute> {
    let own = vec![
        authed(Method::GET, "/integrations", LIST, "List integrations of the organisation and the workspace", list)
            .asks(&["type", "workspace_id", "search", "current_page", "page_size"]),
        authed(Method::POST, "/integrations", CREATE, "Connect a provider family with its credential", create)
            .takes::<NewIntegration>()
            .and(&["workspace_id", "create_default_provider", "default_provider_slug"])
            .asks(trial::TRIED),
        authed(Method::GET, "/integrations/{id}", READ, "Show an integration by slug or id", get::<Integration>)
            .asks(HERE),
        authed(Method::PUT, "/integrations/{id}", UPDATE, "Change an integration or its credential", update)
            .takes::<IntegrationPatch>()
            .asks(&["workspace_id", "test", "test_model"]),
        authed(
            Method::DELETE,
            "/integrations/{id}",
            DELETE,
            "Delete an integration that no provider borrows from",
            delete,
        )
        .asks(HERE),
    ];
    own.into_iter().chain(models::routes()).chain(access::routes()).chain(trial::routes(UPDATE)).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewIntegration {
    name: String,
    slug: Option<String>,
    ai_provider_id: String,
    key: Option<String>,
    description: Option<String>,
    configurations: Option<Map<String, Value>>,
    tags: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pricing_adjustments: Edit<Map<String, Value>>,
    #[serde(default)]
    secret_mappings: Edit<Vec<Map<String, Value>>>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IntegrationPatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    key: Edit<String>,
    #[serde(default)]
    description: Edit<String>,
    #[serde(default)]
    configurations: Edit<Map<String, Value>>,
    #[serde(default)]
    tags: Edit<BTreeMap<String, String>>,
    #[serde(default)]
    pricing_adjustments: Edit<Map<String, Value>>,
    #[serde(default)]
    secret_mappings: Edit<Vec<Map<String, Value>>>,
}

impl Resource for Integration {
    const KIND: Kind = Kind::Integration;
    const NOUN: &'static str = "integration";
    const SHARED: bool = true;
    const LATER: &'static [&'static str] = &[];
    type Create = NewIntegration;
    type Patch = IntegrationPatch;

    fn create(input: NewIntegration, home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        check_name("name", &input.name)?;
        let (sealed_key, masked_key) = settings::credential(input.key, None, call)?.unzip();
        let mut doc = Self {
            ai_provider_id: input.ai_provider_id,
            description: input.description,
            sealed_key,
            masked_key,
            configurations: Configurations::default(),
            models: Models::default(),
            access: Access::default(),
            price_factors: None,
            secret_mappings: Vec::new(),
            rest: tagged(Map::new(), Some(input.tags.unwrap_or_default()))?,
        };
        settings::merge(&mut doc.configurations, input.configurations.unwrap_or_default(), call)?;
        mappings::merge(&mut doc, input.secret_mappings, call)?;
        settings::check_family(&doc, home, call)?;
        pricing::adjust(&mut doc.price_factors, input.pricing_adjustments)?;
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, home, Some(call.actor.key.0), doc);
        let slug =
            Slug::given("slug", input.slug)?.unwrap_or_else(|| Slug::Derived(slug_of(&input.name, "integration")));
        row.name = input.name;
        Ok(NewRow { row, slug })
    }

    fn patch(row: &mut ResourceRow<Self>, input: IntegrationPatch, call: &AdminCall) -> Result<(), Problem> {
        if let Some(name) = input.name.required("name")? {
            check_name("name", &name)?;
            row.name = name;
        }
        match input.key {
            Edit::Keep => {}
            Edit::Clear => (row.doc.sealed_key, row.doc.masked_key) = (None, None),
            Edit::Set(key) => {
                let before = row.doc.sealed_key.clone().zip(row.doc.masked_key.clone());
                (row.doc.sealed_key, row.doc.masked_key) = settings::credential(Some(key), before, call)?.unzip();
            }
        }
        input.description.onto(&mut row.doc.description);
        match input.configurations {
            Edit::Keep => {}
            Edit::Clear => row.doc.configurations = Configurations::default(),
            Edit::Set(given) => settings::merge(&mut row.doc.configurations, given, call)?,
        }
        row.doc.rest = tagged(std::mem::take(&mut row.doc.rest), input.tags.or_default())?;
        pricing::adjust(&mut row.doc.price_factors, input.pricing_adjustments)?;
        mappings::merge(&mut row.doc, input.secret_mappings, call)?;
        settings::check_family(&row.doc, row.workspace, call)
    }

    fn check(_row: &ResourceRow<Self>, _around: &WriteView<'_>) -> Result<(), Problem> {
        Ok(())
    }

    fn view(row: &ResourceRow<Self>, call: &AdminCall) -> Value {
        let mut view = brief(row);
        let snapshot = call.snapshot();
        let workspaces = snapshot.workspaces().filter(|w| w.org == row.org && row.doc.access.allow(w.id)).count();
        let more = json!({
            "masked_key": row.doc.masked_key,
            "configurations": settings::masked(&row.doc.configurations, call),
            "global_workspace_access_settings":
                access::shown(row.workspace.is_none() && row.doc.access.global, &row.doc.access.limits, call),
            "allow_all_models": row.doc.models.allow_all,
            "workspace_count": if row.workspace.is_none() { workspaces } else { 1 },
            "secret_mappings": mappings::shown(&row.doc.secret_mappings),
            "pricing_adjustments": pricing::adjustments(row.doc.price_factors.as_ref()),
            "notice": notice(&row.doc),
        });
        view.extend(more.as_object().cloned().unwrap_or_default());
        Value::Object(view)
    }

    fn home(named: Option<WorkspaceId>, _default: WorkspaceId) -> Option<WorkspaceId> {
        named
    }

    /// Those of the organisation ask for the organisation's scope, those of a workspace for either.
    fn allow(row: &ResourceRow<Self>, actor: &Actor, action: Action) -> Result<(), Problem> {
        let either = match action {
            Action::Create => CREATE,
            Action::Read => READ,
            Action::Update | Action::Publish | Action::Rotate | Action::Warn => UPDATE,
            Action::Delete => DELETE,
        };
        actor.require(if row.workspace.is_some() { either } else { &either[..1] })
    }

    fn mask(body: &mut Map<String, Value>) {
        settings::blank(body);
    }

    fn forget(&mut self) {
        self.sealed_key = None;
        self.configurations.custom_headers.clear();
        self.configurations.cloud.clear();
        self.models.list.values_mut().for_each(|m| m.custom_headers.clear());
    }
}

/// What whoever sets it up should know: that the service at the family's own address is no more.
fn notice(doc: &Integration) -> Option<&'static str> {
    ended(&doc.ai_provider_id).filter(|_| doc.configurations.custom_host.is_none()).map(|service| service.says)
}

fn brief(row: &ResourceRow<Integration>) -> Map<String, Value> {
    let mut view = row.common("integration");
    view.insert("ai_provider_id".into(), row.doc.ai_provider_id.as_str().into());
    view.insert("description".into(), json!(row.doc.description));
    view.insert("tags".into(), row.doc.rest.get("tags").cloned().unwrap_or_else(|| json!({})));
    view.insert("owner_id".into(), json!(row.owner));
    view
}

/// Two shelves at once, so the pages are cut here: integrations are few.
async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let kind = call.query.one_of("type", &["workspace", "organisation", "all"])?.unwrap_or("all");
    let named = call.actor.named(&call.snapshot(), call.query.text("workspace_id"))?;
    let paging = call.query.paging()?;
    if kind == "organisation" {
        call.actor.require(&LIST[..1])?;
    }
    let shelf = named.map(Some).filter(|_| kind == "workspace");
    let rows = collect::<Integration>(&call, searched::<Integration>(&call, shelf)).await?;
    let shared = call.actor.require(&LIST[..1]).is_ok() && kind != "workspace";
    let shown = |r: &&ResourceRow<Integration>| match r.workspace {
        None => shared,
        Some(own) => kind != "organisation" && named.is_none_or(|w| w == own),
    };
    let rows: Vec<_> = rows.iter().filter(shown).collect();
    let start = usize::try_from(paging.page * paging.size).unwrap_or(usize::MAX);
    let page = rows.iter().skip(start).take(usize::try_from(paging.size).unwrap_or(usize::MAX));
    let data = page.map(|row| Value::Object(brief(row))).collect();
    Ok(AdminReply::json(Integration::listed(rows.len() as u64, data)))
}

async fn create(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let mut body = call.body()?;
    let wanted = DefaultProvider::take(&mut body.0)?;
    let (mut new, told) = draft::<Integration>(&call, body)?;
    trial::before_saving(&call, &new.row).await?;
    new.settle(&call).await?;
    let mut along = wanted.provider(&call, &new.row)?;
    if let Some(provider) = &mut along {
        provider.settle(&call).await?;
    }
    let decide = |around: &WriteView<'_>| {
        new.enter(around)?;
        let mut rows = vec![new.row.stored()?];
        if let Some(provider) = &mut along {
            provider.enter(&around.plus(&rows)?)?;
            rows.push(provider.row.stored()?);
        }
        let audit = rows.iter().map(|row| audit(&call, Action::Create, row, &told)).collect();
        call.promise(|| Integration::created(&new.row));
        Ok(Batch { rows, audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(Integration::created(&new.row)).at(revision))
}

async fn update(call: AdminCall) -> Result<AdminReply, Problem> {
    let body = call.body()?;
    trial::before_change(&call, &body).await?;
    let (row, revision) = edit::<Integration>(&call, body).await?;
    Ok(AdminReply::json(Integration::updated(&row)).at(revision))
}

/// The managed provider that comes with a new integration.
struct DefaultProvider {
    make: bool,
    slug: Option<Slug>,
}

impl DefaultProvider {
    fn take(body: &mut Map<String, Value>) -> Result<Self, Problem> {
        let make = match body.shift_remove("create_default_provider") {
            None | Some(Value::Null) => true,
            Some(v) => Flag::deserialize(v).map_err(|e| bad("create_default_provider", e))?.0,
        };
        let slug = match body.shift_remove("default_provider_slug") {
            None | Some(Value::Null) => None,
            Some(Value::String(slug)) => Slug::given("default_provider_slug", Some(slug))?,
            Some(_) => return Err(bad("default_provider_slug", "must be a string")),
        };
        Ok(Self { make, slug })
    }

    fn provider(self, call: &AdminCall, of: &ResourceRow<Integration>) -> Result<Option<NewRow<Provider>>, Problem> {
        if !self.make {
            return Ok(None);
        }
        let home = of.workspace.map_or_else(|| call.actor.default_workspace(&call.snapshot()), Ok)?;
        let mut rest = Map::new();
        rest.insert(AUTO.into(), "auto".into());
        let doc = Provider {
            integration_id: IntegrationId(of.id),
            note: None,
            expires_at: None,
            limits: ResourceLimits::default(),
            max_parallel: None,
            rest,
        };
        let mut row = ResourceRow::fresh(&call.app, of.org, Some(home), Some(call.actor.key.0), doc);
        row.name.clone_from(&of.name);
        let slug = self.slug.unwrap_or_else(|| Slug::Derived(of.slug.clone()));
        Ok(Some(NewRow { row, slug }))
    }
}

async fn delete(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let row = locate::<Integration>(&call, call.query.text("workspace_id"), Action::Delete).await?;
    let auto = made_along(&call, &row).await?;
    let decide = |around: &WriteView<'_>| {
        let row = around.newest(row)?;
        let mut rows = Vec::new();
        for provider in providers_of(&row, around, &auto)? {
            rows.push(around.newest(provider)?.tombstone(call.now)?);
        }
        rows.push(row.tombstone(call.now)?);
        let audit = rows.iter().map(|gone: &Stored| audit(&call, Action::Delete, gone, &Map::new())).collect();
        Ok(Batch { rows, audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(json!({})).at(revision))
}

/// Providers that were made with this integration and never touched since.
async fn made_along(call: &AdminCall, row: &ResourceRow<Integration>) -> Result<Vec<ResourceRow<Provider>>, Problem> {
    let snapshot = call.snapshot();
    let ours = snapshot.workspaces().filter(|w| w.org == row.org).flat_map(|w| w.providers());
    let ids: Vec<_> = ours.filter(|p| p.integration.0 == row.id).map(|p| p.id.0).collect();
    let mut rows = Vec::new();
    for ids in ids.chunks(1000) {
        let query = ResourceQuery { ids: ids.to_vec(), ..everything::<Provider>(call, None) };
        rows.extend(collect::<Provider>(call, query).await?);
    }
    rows.retain(|r| r.doc.rest.contains_key(AUTO));
    Ok(rows)
}

/// Those of `auto` that still borrow from the integration. Any other that does, or that a config names, is
/// in the way.
fn providers_of(
    row: &ResourceRow<Integration>,
    around: &WriteView<'_>,
    auto: &[ResourceRow<Provider>],
) -> Result<Vec<ResourceRow<Provider>>, Problem> {
    let (mut along, mut blocking) = (Vec::new(), Vec::new());
    for workspace in around.snapshot.workspaces().filter(|w| w.org == row.org) {
        for provider in workspace.providers().filter(|p| p.integration.0 == row.id) {
            let unused = config::naming(workspace, &provider.slug, &provider.id.to_string()).is_empty();
            match auto.iter().find(|a| a.id == provider.id.0).filter(|_| unused) {
                Some(a) => along.push(a.clone()),
                None => blocking.push(format!("`{}` of workspace `{}`", provider.slug, workspace.slug)),
            }
        }
    }
    if blocking.is_empty() {
        return Ok(along);
    }
    blocking.truncate(10);
    Err(conflict(format!("the integration is used by the providers {}", blocking.join(", "))))
}
