//! Rate limits and budgets in bodies and views: of keys, workspaces, providers, integrations and policies alike.
//! What was used comes from whoever counts; nothing is counted here.

use super::row::{Resource, ResourceRow};
use crate::input::{Edit, Flag, JsonBody, WholeNumber};
use crate::problem::{Problem, bad};
use crate::route::AdminCall;
use gateway_domain::ports::{Entity, Holder, Which};
use gateway_domain::resource::budget::{Amount, Budget, Reset, Spend, Week, midnight};
use gateway_domain::resource::limits::{RateLimit, ResourceLimits};
use gateway_domain::resource::policy::{Measure, Unit};
use gateway_domain::time::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::num::NonZeroU32;

/// What an update says about a budget; absent keeps, null clears.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BudgetEdit {
    #[serde(rename = "type")]
    pub(super) spend: Option<Spend>,
    #[serde(default)]
    pub(super) credit_limit: Edit<Amount>,
    #[serde(default)]
    pub(super) alert_threshold: Edit<Amount>,
    #[serde(default)]
    pub(super) periodic_reset: Edit<Reset>,
    #[serde(default)]
    pub(super) periodic_reset_days: Edit<WholeNumber>,
    #[serde(default)]
    pub(super) next_usage_reset_at: Edit<Timestamp>,
}

impl BudgetEdit {
    /// A budget that begins now. The rules on its numbers are checked with the document.
    pub(super) fn fresh(self, under: &str, now: Timestamp) -> Result<Budget, Problem> {
        let credit_limit = match self.credit_limit {
            Edit::Set(limit) => limit,
            Edit::Keep | Edit::Clear => return Err(bad(format_args!("{under}credit_limit"), "is required")),
        };
        let mut budget = Budget {
            spend: self.spend.unwrap_or_default(),
            credit_limit,
            alert_threshold: None,
            periodic_reset: None,
            periodic_reset_days: None,
            first_reset_at: None,
            since: now,
        };
        self.onto(under, &mut budget, now)?;
        Ok(budget)
    }

    /// `under`: where it stands in the body, with a dot at its end.
    pub(super) fn onto(self, under: &str, budget: &mut Budget, now: Timestamp) -> Result<(), Problem> {
        if let Some(limit) = self.credit_limit.required(&format!("{under}credit_limit"))? {
            budget.credit_limit = limit;
        }
        self.alert_threshold.onto(&mut budget.alert_threshold);
        // One way to reset replaces the other; both at once are for the document to refuse.
        let (named, counted) =
            (matches!(self.periodic_reset, Edit::Set(_)), matches!(self.periodic_reset_days, Edit::Set(_)));
        if named && !counted {
            budget.periodic_reset_days = None;
        }
        if counted && !named {
            budget.periodic_reset = None;
        }
        self.periodic_reset.onto(&mut budget.periodic_reset);
        match self.periodic_reset_days {
            Edit::Keep => {}
            Edit::Clear => budget.periodic_reset_days = None,
            Edit::Set(days) => budget.periodic_reset_days = Some(u16::try_from(days.0).unwrap_or(u16::MAX)),
        }
        match self.next_usage_reset_at {
            Edit::Keep => {}
            Edit::Clear => budget.first_reset_at = None,
            Edit::Set(at) if midnight(at) <= now => {
                let rule = "must be in the future at its midnight, UTC";
                return Err(bad(format_args!("{under}next_usage_reset_at"), rule));
            }
            Edit::Set(at) => budget.first_reset_at = Some(midnight(at)),
        }
        if budget.periodic_reset.is_none()
            && budget.periodic_reset_days.is_none()
            && !matches!(self.next_usage_reset_at, Edit::Set(_))
        {
            budget.first_reset_at = None;
        }
        Ok(())
    }
}

/// What a holder may be given.
#[derive(Clone, Copy)]
pub(super) struct AllowedLimits {
    pub(super) rates: usize,
    pub(super) budgets: usize,
    /// Whether a rate may be in requests per second.
    pub(super) seconds: bool,
}

/// Alone or in a list.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum LimitsInput {
    One(Map<String, Value>),
    Many(Vec<Map<String, Value>>),
}

/// An item with its place in the body, a dot at the end.
type PlacedItem = (String, Map<String, Value>);

impl LimitsInput {
    fn items(self, field: &str, most: usize) -> Result<Vec<PlacedItem>, Problem> {
        let list = match self {
            Self::One(one) if one.is_empty() => return Ok(Vec::new()),
            Self::One(one) => return Ok(vec![(format!("{field}."), one)]),
            Self::Many(list) => list,
        };
        if list.len() > most {
            return Err(bad(field, format_args!("must hold at most {most} items")));
        }
        Ok(list.into_iter().enumerate().map(|(i, item)| (format!("{field}[{i}]."), item)).collect())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RateLimitInput {
    #[serde(rename = "type")]
    measure: Measure,
    unit: Unit,
    value: WholeNumber,
}

/// What an update says about the limits of a holder.
#[derive(Default)]
pub(super) struct LimitsEdit {
    pub(super) rate_limits: Edit<LimitsInput>,
    pub(super) usage_limits: Edit<LimitsInput>,
}

impl LimitsEdit {
    /// `under`: where they stand in the body, with a dot at its end.
    pub(super) fn onto(
        self,
        under: &str,
        limits: &mut ResourceLimits,
        shape: AllowedLimits,
        now: Timestamp,
    ) -> Result<(), Problem> {
        match self.rate_limits {
            Edit::Keep => {}
            Edit::Clear => limits.rate_limits.clear(),
            Edit::Set(sent) => {
                let items = sent.items(&format!("{under}rate_limits"), shape.rates)?;
                limits.rate_limits = items.into_iter().map(|(at, i)| rate(&at, i, shape)).collect::<Result<_, _>>()?;
            }
        }
        match self.usage_limits {
            Edit::Keep => {}
            Edit::Clear => limits.usage_limits.clear(),
            Edit::Set(sent) => {
                let items = sent.items(&format!("{under}usage_limits"), shape.budgets)?;
                let before = std::mem::take(&mut limits.usage_limits);
                for (at, item) in items {
                    limits.usage_limits.push(budget(&at, item, &before, now)?);
                }
            }
        }
        limits.check(under)?;
        Ok(())
    }
}

fn rate(under: &str, item: Map<String, Value>, shape: AllowedLimits) -> Result<RateLimit, Problem> {
    let rate: RateLimitInput = JsonBody(item).read_under(under)?;
    if rate.unit == Unit::Second && !shape.seconds {
        return Err(bad(format_args!("{under}unit"), "must be one of rpm, rph, rpd, rpw"));
    }
    Ok(RateLimit { measure: rate.measure, unit: rate.unit, value: rate.value.0 })
}

/// Fields that reads add, so clients send them back.
const SHOWN: &[&str] = &["id", "current_usage", "last_reset_at", "status"];

/// Reads a budget on top of the stored one of its type, if there is one.
fn budget(under: &str, item: Map<String, Value>, before: &[Budget], now: Timestamp) -> Result<Budget, Problem> {
    let mut body = JsonBody(item);
    for name in SHOWN {
        body.0.shift_remove(*name);
    }
    let edit: BudgetEdit = body.read_under(under)?;
    let same = |b: &&Budget| match edit.spend {
        Some(spend) => b.spend == spend,
        None => before.len() == 1,
    };
    match before.iter().find(same).cloned() {
        None => edit.fresh(under, now),
        Some(mut budget) => {
            edit.onto(under, &mut budget, now)?;
            Ok(budget)
        }
    }
}

const MOST_PARALLEL: u32 = 1_000_000;

/// How many calls may be under way at once; null takes the bound away.
pub(super) fn parallel(given: &Edit<WholeNumber>, kept: &mut Option<NonZeroU32>) -> Result<(), Problem> {
    match given {
        Edit::Keep => {}
        Edit::Clear => *kept = None,
        Edit::Set(most) => {
            let most = u32::try_from(most.0).ok().filter(|n| *n <= MOST_PARALLEL).and_then(NonZeroU32::new);
            *kept = Some(most.ok_or_else(|| bad("max_parallel", "must be 1..1000000"))?);
        }
    }
    Ok(())
}

/// A budget as it stands, before anything was counted.
pub(super) fn view(budget: &Budget, week: Week, now: Timestamp) -> Value {
    let period = budget.period(week, now);
    json!({
        "type": budget.spend,
        "credit_limit": budget.credit_limit,
        "alert_threshold": budget.alert_threshold,
        "periodic_reset": budget.periodic_reset,
        "periodic_reset_days": budget.periodic_reset_days,
        "next_usage_reset_at": period.ends,
        "last_reset_at": (period.starts > budget.since).then_some(period.starts),
        "current_usage": 0,
        "status": "active",
    })
}

/// Budgets of a holder in a list.
pub(super) fn views(limits: &ResourceLimits, now: Timestamp) -> Vec<Value> {
    limits.usage_limits.iter().map(|b| view(b, Week::Sunday, now)).collect()
}

/// The budget of a holder of at most one.
pub(super) fn only(limits: &ResourceLimits, now: Timestamp) -> Value {
    limits.usage_limits.first().map_or(Value::Null, |b| view(b, Week::Sunday, now))
}

/// What a counter says, put into the view of its budget.
fn fill(view: &mut Value, entity: &Entity, spend: Spend) {
    view["current_usage"] = json!(Amount::shown(entity.used, spend));
    if entity.exhausted {
        view["status"] = "exhausted".into();
    }
    if let Some(at) = entity.last_reset_at {
        view["last_reset_at"] = json!(at);
    }
}

/// Puts what was used into the views of rows.
pub(super) async fn count<R: Resource>(
    call: &AdminCall,
    rows: &[ResourceRow<R>],
    views: &mut [Value],
) -> Result<(), Problem> {
    // Either every row of a kind has budgets or none has.
    let holders: Vec<_> = rows.iter().filter_map(|row| R::budgets(row)).collect();
    count_all(call, &holders, views).await
}

/// Puts what was used into views, each with its holder; `usage_limits` of a view is a list or a single budget.
pub(super) async fn count_all(
    call: &AdminCall,
    holders: &[(Holder, &ResourceLimits)],
    views: &mut [Value],
) -> Result<(), Problem> {
    let mut asked = Vec::new();
    let mut places = Vec::new();
    for (at, (holder, limits)) in holders.iter().enumerate() {
        for (i, budget) in limits.usage_limits.iter().enumerate() {
            asked.push((*holder, budget));
            places.push((at, i));
        }
    }
    if asked.is_empty() {
        return Ok(());
    }
    let found = call.app.standings.totals(&asked).await?;
    for (((_, budget), (at, i)), entity) in asked.iter().zip(places).zip(found) {
        let (Some(view), Some(entity)) = (views.get_mut(at), entity) else { continue };
        let limits = &mut view["usage_limits"];
        fill(if limits.is_array() { &mut limits[i] } else { limits }, &entity, budget.spend);
        if entity.exhausted && view["status"] == "active" {
            view["status"] = "exhausted".into();
        }
    }
    Ok(())
}

/// Whether an update wants what was used forgotten.
pub(super) fn wants_reset(body: &JsonBody) -> Result<bool, Problem> {
    match body.0.get("reset_usage") {
        None | Some(Value::Null) => Ok(false),
        Some(v) => Ok(Flag::deserialize(v.clone()).map_err(|e| bad("reset_usage", e))?.0),
    }
}

/// Sets the counters of a holder to nothing; that there are none is as good.
pub(super) async fn reset(call: &AdminCall, holder: Holder) -> Result<(), Problem> {
    call.app.standings.reset(holder, Which::All).await?;
    Ok(())
}
