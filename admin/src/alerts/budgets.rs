//! How much of budgets is used, wherever they are set: keys, providers, the workspace itself, integrations and usage
//! policies. The rule applies once one of them has reached its share; a message names those furthest on.

use super::finding::AlertFinding;
use crate::app::App;
use gateway_domain::alert::{BudgetTold, MOST_BUDGETS_TOLD};
use gateway_domain::ports::{EntityQuery, Holder, StoreError};
use gateway_domain::resource::budget::Budget;
use gateway_domain::resource::limits::ResourceLimits;
use gateway_domain::snapshot::{SavedAlert, Snapshot, WorkspaceEntry};
use std::sync::Arc;

/// Budgets that one look asks for; where there are more, it says that it has not seen all.
const MOST_ASKED: usize = 2_000;

/// A budget, and whose it is.
struct HeldBudget {
    holder: Holder,
    budget: Budget,
}

pub(super) async fn measure(app: &App, rule: &SavedAlert) -> Result<AlertFinding, StoreError> {
    let snapshot = app.live.snapshot();
    let mut held = plain(&snapshot, rule);
    let mut policies = of_policies(&snapshot, rule);
    let is_partial = held.len() + policies.len() > MOST_ASKED;
    policies.truncate(MOST_ASKED);
    held.truncate(MOST_ASKED - policies.len());
    let mut told = Vec::new();
    let asked: Vec<(Holder, &Budget)> = held.iter().map(|one| (one.holder, &one.budget)).collect();
    for (one, entity) in held.iter().zip(app.standings.totals(&asked).await?) {
        let Some(entity) = entity else { continue };
        told.push(share(one, String::new(), entity.used));
    }
    for one in &policies {
        // Only those that are as far as the rule says: a policy may count for very many.
        let limit = portion(one.budget.limit(), rule.rule.threshold);
        let page_size = MOST_BUDGETS_TOLD as u64;
        let query = EntityQuery { holder: one.holder, limit, exhausted: Some(true), search: None, page: 0, page_size };
        let page = app.standings.entities(&query).await?;
        told.extend(page.rows.into_iter().map(|entity| share(one, entity.value_key, entity.used)));
    }
    told.sort_by(|a, b| b.percent.total_cmp(&a.percent).then_with(|| a.holder.cmp(&b.holder)));
    let value = told.first().map(|budget| budget.percent);
    told.retain(|budget| budget.percent >= rule.rule.threshold);
    told.truncate(MOST_BUDGETS_TOLD);
    Ok(AlertFinding { value, calls: 0, is_partial, budgets: told })
}

fn share(of: &HeldBudget, value_key: String, used: u64) -> BudgetTold {
    let limit = of.budget.limit();
    #[expect(clippy::cast_precision_loss, reason = "told to people, never counted with")]
    let percent = if limit == 0 { 100.0 } else { used as f64 * 100.0 / limit as f64 };
    BudgetTold { holder: of.holder.to_string(), value_key, percent: (percent * 100.0).round() / 100.0 }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a number that is not negative"
)]
fn portion(limit: u64, percent: f64) -> u64 {
    (limit as f64 * percent / 100.0).ceil() as u64
}

/// Workspaces that the rule is about.
fn workspaces<'s>(snapshot: &'s Snapshot, rule: &SavedAlert) -> Vec<&'s Arc<WorkspaceEntry>> {
    let is_meant = |w: &&Arc<WorkspaceEntry>| w.org == rule.org && rule.workspace.is_none_or(|one| one == w.id);
    snapshot.workspaces().filter(is_meant).collect()
}

fn plain(snapshot: &Snapshot, rule: &SavedAlert) -> Vec<HeldBudget> {
    let mut held = Vec::new();
    let mut add = |holder: Holder, limits: Option<&Arc<ResourceLimits>>| {
        let budgets = limits.into_iter().flat_map(|limits| limits.usage_limits.iter());
        held.extend(budgets.map(|budget| HeldBudget { holder, budget: budget.clone() }));
    };
    for workspace in workspaces(snapshot, rule) {
        add(Holder::Workspace(workspace.id), workspace.limits.as_ref());
        for provider in workspace.providers() {
            add(Holder::Provider(provider.id), provider.limits.as_ref());
        }
        for upstream in snapshot.upstreams().filter(|upstream| upstream.org == rule.org) {
            add(Holder::Integration(upstream.integration, Some(workspace.id)), upstream.limits_of(workspace.id));
        }
    }
    if rule.workspace.is_none() {
        for upstream in snapshot.upstreams().filter(|upstream| upstream.org == rule.org) {
            add(Holder::Integration(upstream.integration, None), upstream.limits());
        }
    }
    let ours = |key: &&Arc<gateway_domain::snapshot::Key>| {
        key.org == rule.org && rule.workspace.is_none_or(|one| key.workspace == Some(one))
    };
    for key in snapshot.keys().filter(ours) {
        add(Holder::Key(key.id), key.limits.as_ref());
    }
    held
}

fn of_policies(snapshot: &Snapshot, rule: &SavedAlert) -> Vec<HeldBudget> {
    let policies = workspaces(snapshot, rule).into_iter().flat_map(|w| w.usage_policies().iter());
    let held =
        policies.map(|(id, policy)| HeldBudget { holder: Holder::Policy(*id), budget: policy.rule.budget.clone() });
    held.collect()
}
