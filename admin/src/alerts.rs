//! Alerts: whether a rule applies is looked at beside the requests, from sums that are kept anyway; what is to be told
//! becomes a job, so that it is told by one node, and by another where that one dies. Says nothing of where rules come
//! from.

mod budgets;
mod deliver;
mod finding;
mod mail;
mod measure;
mod message;

pub use deliver::{ALERT_LEASE, DeliveredAlert, deliver_alert};
pub(crate) use deliver::{MessageTrial, try_channels};
pub use mail::{BudgetMail, MAIL_JOB, deliver_mail, mail_budget};

use crate::app::App;
use finding::AlertFinding;
use gateway_domain::alert::{ALERT_JOB, AlertMessage, AlertStanding};
use gateway_domain::ports::{Enqueued, JobBounds, NewJob, StoreError};
use gateway_domain::resource::alert::AlertKind;
use gateway_domain::snapshot::SavedAlert;
use gateway_domain::time::Timestamp;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Messages of an organisation that have not arrived. More are dropped, and tried again while the rule applies.
const MOST_UNDER_WAY: u32 = 200;

/// What came of a look at all rules.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AlertRound {
    /// Rules that are in force, whichever node looks at them.
    pub rules: u64,
    /// Kinds of the rules that fired: one entry for each message that a threshold is reached.
    pub fired: Vec<AlertKind>,
    /// Kinds of the rules that recovered: one entry for each message that an alert is over.
    pub over: Vec<AlertKind>,
    /// Rules that could not be looked at.
    pub failed: u64,
}

/// Looks at every rule that no node has looked at for so long.
pub async fn check_alerts(app: &App, every: Duration) -> Result<AlertRound, StoreError> {
    let snapshot = app.live.snapshot();
    let active = |rule: &&Arc<SavedAlert>| rule.active;
    let rules: Vec<Arc<SavedAlert>> =
        snapshot.orgs().flat_map(|org| org.alerts().values().filter(active).cloned().collect::<Vec<_>>()).collect();
    let mut round = AlertRound { rules: rules.len() as u64, ..AlertRound::default() };
    if rules.is_empty() {
        return Ok(round);
    }
    let ids: Vec<Uuid> = rules.iter().map(|rule| rule.id).collect();
    let standings = app.alerts.alert_standings(&ids).await?;
    let known: HashMap<Uuid, &AlertStanding> = standings.iter().map(|standing| (standing.rule, standing)).collect();
    let every = i64::try_from(every.as_micros()).unwrap_or(i64::MAX);
    for rule in &rules {
        let standing = known.get(&rule.id).copied();
        let now = app.now();
        let is_fresh = standing.is_some_and(|s| s.checked_at.plus_micros(every) > now && s.checked_at <= now);
        if is_fresh {
            continue;
        }
        match look(app, rule, standing, now).await {
            Ok(Some(LookTold::Fired)) => round.fired.push(rule.rule.kind),
            Ok(Some(LookTold::Over)) => round.over.push(rule.rule.kind),
            Ok(None) => {}
            Err(error) => {
                round.failed += 1;
                tracing::warn!(%error, rule = %rule.id, "an alert rule cannot be looked at");
            }
        }
    }
    Ok(round)
}

/// What a look has to say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LookTold {
    Fired,
    Over,
}

/// What is told by this node from now on.
async fn look(
    app: &App,
    rule: &SavedAlert,
    standing: Option<&AlertStanding>,
    now: Timestamp,
) -> Result<Option<LookTold>, StoreError> {
    if !app.alerts.claim_alert(rule.id, standing.map(|s| s.checked_at), now).await? {
        return Ok(None);
    }
    let found = measure::measure(app, rule, now).await?;
    app.alerts.note_alert(rule.id, found.value).await?;
    let fired_at = standing.and_then(|s| s.fired_at);
    let rests = |at: Timestamp| now < at.plus_micros(i64::from(rule.rule.cool_down_minutes) * 60_000_000);
    if found.value.is_none_or(|value| value < rule.rule.threshold) {
        // What could not be read whole may still be as it was.
        let told = standing.and_then(AlertStanding::is_told).filter(|_| !found.is_partial);
        let Some(since) = told else { return Ok(None) };
        return notify_once(app, rule, (&message(rule, found, MessageTime::Over { since, now }), fired_at)).await;
    }
    if fired_at.is_some_and(rests) {
        return Ok(None);
    }
    notify_once(app, rule, (&message(rule, found, MessageTime::Fired { before: fired_at, now }), fired_at)).await
}

/// What a message follows, and when it is told.
#[derive(Clone, Copy)]
enum MessageTime {
    Fired { before: Option<Timestamp>, now: Timestamp },
    Over { since: Timestamp, now: Timestamp },
}

fn message(rule: &SavedAlert, found: AlertFinding, time: MessageTime) -> AlertMessage {
    let (id, at, over_since) = match time {
        MessageTime::Fired { before, now } => (AlertMessage::id_after(rule.id, before), now, None),
        MessageTime::Over { since, now } => (AlertMessage::id_of_end(rule.id, since), now, Some(since)),
    };
    AlertMessage {
        id,
        rule: rule.id,
        name: rule.name.to_string(),
        org: rule.org,
        workspace: rule.workspace,
        kind: rule.rule.kind,
        threshold: rule.rule.threshold,
        value: found.value,
        window_minutes: rule.rule.window_minutes,
        calls: found.calls,
        is_partial: found.is_partial,
        budgets: found.budgets,
        at,
        is_test: false,
        over_since,
    }
}

/// First the message, then the note that it was told: a node that dies in between leaves a message that the next look
/// finds there already, since it has the same id.
async fn notify_once(
    app: &App,
    rule: &SavedAlert,
    (message, before): (&AlertMessage, Option<Timestamp>),
) -> Result<Option<LookTold>, StoreError> {
    let payload = serde_json::to_string(message).map_err(|e| StoreError::Broken(e.to_string()))?;
    let job = NewJob {
        id: message.id,
        kind: ALERT_JOB,
        org: rule.org,
        payload,
        progress: String::new(),
        wait: Duration::ZERO,
        most_tries: deliver::TRIES,
        most_open: MOST_UNDER_WAY,
        bounds: JobBounds::default(),
    };
    let is_new = match app.jobs.enqueue(&job).await? {
        Enqueued::New => true,
        Enqueued::Known => false,
        Enqueued::Full => return Err(StoreError::Unavailable("too many messages of the organisation wait".to_owned())),
    };
    // Told by a node that could not note it: then it was told when that job was made.
    let made = if is_new { None } else { app.jobs.job(rule.org, message.id).await?.map(|job| job.created_at) };
    let at = made.map_or(message.at, |made| made.min(message.at));
    let told = match message.over_since {
        None => {
            app.alerts.fire_alert(rule.id, before, at).await?;
            LookTold::Fired
        }
        Some(since) => {
            app.alerts.end_alert(rule.id, since, at).await?;
            LookTold::Over
        }
    };
    Ok(is_new.then_some(told))
}
