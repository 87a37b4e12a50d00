//! Alerts of budgets: a line in the audit trail and a call to the operator's webhook, once for each time that a
//! threshold or a limit is reached, on one of all nodes. Looks at what changed, never at a request.

use crate::clock;
use crate::outbound::{self, Outbound};
use crate::runtime_config::ConfigHandle;
use gateway_admin::{Alert, App, BudgetMail};
use gateway_domain::counters::Measured;
use gateway_domain::ports::{Fut, Holder, Live as _, StoreError};
use gateway_domain::resource::budget::{Amount, Budget, Spend};
use gateway_domain::resource::limits::ResourceLimits;
use gateway_domain::snapshot::Snapshot;
use gateway_records::usage_checkpoint::{CountWatch, is_budget};
use gateway_store::{Count, Database};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// Seconds to wait after each try of a webhook that does not answer well.
const PAUSES: [u64; 4] = [1, 5, 30, 120];

pub(crate) struct BudgetAlerts {
    pub(crate) app: App,
    pub(crate) live: Arc<ConfigHandle>,
    /// Where the operator wants to hear of them.
    pub(crate) webhook: Option<(String, Outbound)>,
    pub(crate) runtime: Handle,
}

const NOTHING: i64 = 0;
const THRESHOLD: i64 = 1;
const LIMIT: i64 = 2;

impl CountWatch for BudgetAlerts {
    fn look<'a>(&'a self, database: &'a Database, changed: &'a [Count]) -> Fut<'a, Result<(), StoreError>> {
        Box::pin(self.look_at(database, changed))
    }
}

impl BudgetAlerts {
    async fn look_at(&self, database: &Database, changed: &[Count]) -> Result<(), StoreError> {
        let now = clock::now();
        let snapshot = self.live.snapshot();
        for count in changed.iter().filter(|count| is_budget(count, now)) {
            let Some(owner) = &count.owner else { continue };
            let Some(budget) = budget(&snapshot, owner.holder, count.measured) else { continue };
            let due = due(&budget, count.used.max(0).unsigned_abs());
            if due == count.told {
                continue;
            }
            // Before it is noted that they are told: a node that dies in between has asked for what another finds
            // there.
            for level in self.levels(count, &budget, due) {
                self.mail(&snapshot, count, (&budget, level)).await?;
            }
            if !database.mark_alerted(count.slot, count.told, due).await? {
                continue;
            }
            // Raising a limit takes the alert back, so that it can come again.
            for level in self.levels(count, &budget, due) {
                self.send(count, &budget, level).await;
            }
        }
        Ok(())
    }

    /// What is to be told now.
    fn levels(&self, count: &Count, budget: &Budget, due: i64) -> Vec<i64> {
        (count.told + 1..=due).filter(|level| *level == LIMIT || budget.threshold().is_some()).collect()
    }

    /// Sends an e-mail to the addresses that the key names, if it names any.
    async fn mail(
        &self,
        snapshot: &Snapshot,
        count: &Count,
        (budget, level): (&Budget, i64),
    ) -> Result<(), StoreError> {
        let Some(owner) = &count.owner else { return Ok(()) };
        let to = emails(snapshot, owner.holder);
        let Holder::Key(id) = owner.holder else { return Ok(()) };
        let Some(key) = snapshot.key_by_id(id).filter(|_| !to.is_empty()) else { return Ok(()) };
        // A budget that was set back, or has another limit, is reached anew.
        let event = format!(
            "{id} {} {} {level} {} {:?} {:?}",
            count.slot.key,
            count.slot.began.micros(),
            budget.limit(),
            budget.threshold(),
            count.reset_at,
        );
        let used = Amount::shown(count.used.max(0).unsigned_abs(), budget.spend);
        let name = key.name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
        let (what, of) =
            if level == LIMIT { ("is exhausted", "limit") } else { ("has reached its threshold", "threshold") };
        let bound = if level == LIMIT { Some(budget.credit_limit) } else { budget.alert_threshold };
        let told = |amount: Amount| json!(amount).to_string();
        let unit = match budget.spend {
            Spend::Cost => "USD",
            Spend::Tokens => "tokens",
            Spend::Requests => "requests",
        };
        let said = format!("The budget of the key {name} {what}");
        let bound = bound.map(told).unwrap_or_default();
        let text = format!("{said}.\n{} {unit} are used, the {of} is {bound} {unit}.\nKey {id}.", told(used));
        let subject = format!("[gateway] {said}").chars().take(200).collect();
        let mail = BudgetMail { event, to, subject, text };
        gateway_admin::mail_budget(&self.app, key.org, &mail).await
    }

    async fn send(&self, count: &Count, budget: &Budget, level: i64) {
        let Some(owner) = &count.owner else { return };
        let event = if level == LIMIT { "budget.exhausted" } else { "budget.threshold_reached" };
        let told = json!({
            "event": event,
            "holder": owner.holder.to_string(),
            "value_key": owner.value_key,
            "type": budget.spend,
            "current_usage": Amount::shown(count.used.max(0).unsigned_abs(), budget.spend),
            "credit_limit": budget.credit_limit,
            "alert_threshold": budget.alert_threshold,
        });
        let Value::Object(told) = told else { return };
        let alert = Alert { holder: owner.holder, exhausted: level == LIMIT, told: &told };
        let subject = match gateway_admin::alert(&self.app, &alert).await {
            Ok(subject) => subject,
            Err(why) => {
                tracing::warn!(event, holder = %owner.holder, why, "an alert is missing in the audit trail");
                None
            }
        };
        if let Some((url, outbound)) = &self.webhook {
            let mut body = told;
            body.insert("alert_emails".into(), json!(emails(&self.live.snapshot(), owner.holder)));
            body.insert("at".into(), json!(clock::now()));
            body.insert("subject".into(), subject.unwrap_or_default());
            self.runtime.spawn(call(url.clone(), outbound.clone(), Value::Object(body).to_string()));
        }
    }
}

async fn call(url: String, outbound: Outbound, body: String) {
    for pause in PAUSES {
        let request = outbound.operator_request(http::Method::POST, &url);
        let request = request.header(http::header::CONTENT_TYPE, "application/json").body(body.clone());
        match outbound::send(request).await {
            Ok(answer) if (200..300).contains(&answer.status) => return,
            Ok(answer) => tracing::warn!(status = answer.status, "the webhook of alerts refused one"),
            Err(error) => tracing::warn!(%error, "the webhook of alerts cannot be reached"),
        }
        tokio::time::sleep(Duration::from_secs(pause)).await;
    }
    tracing::error!("an alert did not reach its webhook; the audit trail has it");
}

fn due(budget: &Budget, used: u64) -> i64 {
    if used >= budget.limit() {
        LIMIT
    } else if budget.threshold().is_some_and(|threshold| used >= threshold) {
        THRESHOLD
    } else {
        NOTHING
    }
}

/// The budget as it stands now, wherever it is set.
fn budget(snapshot: &Snapshot, holder: Holder, measured: Measured) -> Option<Budget> {
    let of = |limits: Option<&Arc<ResourceLimits>>| {
        let spends = |b: &&Budget| measured == counted(b.spend);
        limits.and_then(|limits| limits.usage_limits.iter().find(spends)).cloned()
    };
    match holder {
        Holder::Policy(id) => {
            let found = snapshot.workspaces().find_map(|w| w.usage_policies().get(&id));
            found.map(|policy| policy.rule.budget.clone())
        }
        Holder::Key(id) => of(snapshot.key_by_id(id)?.limits.as_ref()),
        Holder::Workspace(id) => of(snapshot.workspace(id)?.limits.as_ref()),
        Holder::Provider(id) => {
            let name = id.to_string();
            let found = snapshot.workspaces().find_map(|w| w.provider(&name));
            of(found?.limits.as_ref())
        }
        Holder::Integration(id, None) => of(snapshot.upstream(id)?.limits()),
        Holder::Integration(id, Some(workspace)) => of(snapshot.upstream(id)?.limits_of(workspace)),
        // Who issues tokens hears of their limits from nobody here: a threshold cannot be set.
        Holder::Claim(_) => None,
    }
}

/// Who is to be mailed. Only API keys name anybody.
fn emails(snapshot: &Snapshot, holder: Holder) -> Vec<String> {
    let Holder::Key(id) = holder else { return Vec::new() };
    let limits = snapshot.key_by_id(id).and_then(|key| key.limits.as_ref());
    limits.map(|limits| limits.alert_emails.clone()).unwrap_or_default()
}

const fn counted(spend: Spend) -> Measured {
    match spend {
        Spend::Cost => Measured::Cost,
        Spend::Tokens => Measured::Tokens,
        Spend::Requests => Measured::Requests,
    }
}
