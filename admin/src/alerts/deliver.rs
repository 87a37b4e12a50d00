//! Brings a message to where it is to go. Each channel that has it is noted before the next has its turn, so that
//! whoever goes on after a death sends to the others only; the channel that was under way then may get it twice, under
//! one id.

use super::message;
use crate::app::App;
use crate::change::{ChangeOrigin, commit};
use gateway_domain::alert::{AlertMessage, AlertProgress};
use gateway_domain::id::{OrgId, WorkspaceId};
use gateway_domain::ports::{
    Batch, JobEnd, JobLease, JobStanding, LeasedJob, Mail, MailError, OutsideCall, OutsideError,
};
use gateway_domain::resource::Kind;
use gateway_domain::resource::alert::{AlertChannel, AlertRule};
use http::{HeaderName, HeaderValue, Method, header};
use serde_json::{Map, Value, json};
use std::time::Duration;
use uuid::Uuid;

/// How long a node may take from one channel to the next; after that another node takes the message over.
pub const ALERT_LEASE: Duration = Duration::from_secs(15);
/// How long the call of one channel's hook may take.
const WITHIN: Duration = Duration::from_secs(10);
/// What hooks answer is read to its end, and not looked at.
const MOST_REPLY: usize = 64 << 10;
/// Tries without any channel taking it: the last is about an hour behind the first.
pub(super) const TRIES: u32 = 6;
/// Pauses between tries, in seconds.
pub(super) const PAUSES: [u64; 5] = [5, 30, 120, 600, 1_800];

/// What came of one channel, to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveredAlert {
    pub channel: &'static str,
    pub is_sent: bool,
}

enum Undelivered {
    /// Another try may do better.
    Later(String),
    /// It never will.
    Never(String),
}

/// Runs a job of alerts to its end, or as far as it comes.
pub async fn deliver_alert(app: &App, leased: LeasedJob) -> Vec<DeliveredAlert> {
    let LeasedJob { lease, job } = leased;
    let mut counted = Vec::new();
    let end = match serde_json::from_str::<AlertMessage>(&job.payload) {
        Err(error) => Some(JobEnd::Failed(format!("the message cannot be read: {error}"))),
        Ok(message) => {
            let progress = serde_json::from_str(&job.progress).unwrap_or_default();
            let mut run =
                DeliveryRun { app, lease, message: &message, progress, tries: job.tries, counted: &mut counted };
            run.go().await
        }
    };
    if let Some(end) = end
        && let Err(error) = app.jobs.end(lease, &end).await
    {
        tracing::warn!(%error, job = %job.id, "the end of an alert cannot be told: channels may get it twice");
    }
    counted
}

struct DeliveryRun<'a> {
    app: &'a App,
    lease: JobLease,
    message: &'a AlertMessage,
    progress: AlertProgress,
    tries: u32,
    counted: &'a mut Vec<DeliveredAlert>,
}

impl DeliveryRun<'_> {
    /// `None`: the job is another's now.
    async fn go(&mut self) -> Option<JobEnd> {
        let snapshot = self.app.live.snapshot();
        let rule = snapshot.org(self.message.org).and_then(|org| org.alerts().get(&self.message.rule).cloned());
        // Whoever takes a rule back wants to hear no more of it.
        let Some(rule) = rule.filter(|rule| rule.active) else {
            return Some(JobEnd::Done("the rule is gone".to_owned()));
        };
        if !self.progress.is_noted {
            let event = if self.message.over_since.is_some() { "alert_recovered" } else { "alert_fired" };
            self.note(event, &[]).await;
            self.progress.is_noted = true;
            self.beat().await?;
        }
        let mut later = None;
        for channel in &rule.rule.channels {
            let key = channel.key();
            if self.progress.done.contains(&key) {
                continue;
            }
            let sent = send(self.app, channel, self.message).await;
            self.counted.push(DeliveredAlert { channel: channel.name(), is_sent: sent.is_ok() });
            match sent {
                Ok(()) => {}
                Err(Undelivered::Later(why)) => {
                    later = Some(format!("{}: {why}", channel.name()));
                    continue;
                }
                Err(Undelivered::Never(why)) => self.progress.refused.push(format!("{}: {why}", channel.name())),
            }
            self.progress.done.insert(key);
            self.beat().await?;
        }
        Some(self.end(later).await)
    }

    async fn end(&self, later: Option<String>) -> JobEnd {
        let is_last = self.tries >= TRIES;
        let mut lost = self.progress.refused.clone();
        match later {
            Some(why) if !is_last => {
                let pause = PAUSES[(self.tries.max(1) as usize - 1).min(PAUSES.len() - 1)];
                return JobEnd::Again { after: Duration::from_secs(pause), why };
            }
            Some(why) => lost.push(why),
            None => {}
        }
        if lost.is_empty() {
            return JobEnd::Done(String::new());
        }
        tracing::warn!(rule = %self.message.rule, why = lost.join("; "), "an alert did not reach all its channels");
        self.note("alert_undelivered", &lost).await;
        JobEnd::Failed(lost.join("; "))
    }

    async fn beat(&self) -> Option<()> {
        let progress = serde_json::to_string(&self.progress).ok()?;
        match self.app.jobs.beat(self.lease, Some(&progress), ALERT_LEASE).await {
            Ok(JobStanding::Held | JobStanding::Cancelled) => Some(()),
            Ok(JobStanding::Lost) => None,
            // The lease ends by itself, and another goes on.
            Err(error) => {
                tracing::warn!(%error, "how far an alert has come cannot be noted");
                None
            }
        }
    }

    /// Notes in the audit trail that a message came up, or which channels did not take it. An entry that cannot be
    /// written costs nobody the message.
    async fn note(&self, event: &str, lost: &[String]) {
        let told = json!({
            "message": self.message.id,
            "type": self.message.kind,
            "value": self.message.value,
            "threshold": self.message.threshold,
            "undelivered": lost,
        });
        let Value::Object(told) = told else { return };
        if let Err(why) = write_row(self.app, self.message, event, &told).await {
            tracing::warn!(event, rule = %self.message.rule, why, "an alert is missing in the audit trail");
        }
    }
}

async fn write_row(app: &App, message: &AlertMessage, event: &str, told: &Map<String, Value>) -> Result<(), String> {
    let found = app.directory.get(Kind::Alert, message.org, None, &message.rule.to_string()).await;
    let Some(row) = found.map_err(|e| e.to_string())? else { return Ok(()) };
    let audit = vec![ChangeOrigin::of_upkeep(app).audit_event(event, &row, told)];
    let seen = app.live.snapshot().revision;
    let written = commit(app, seen, |_| Ok(Batch { audit, ..Batch::default() })).await;
    written.map(|_| ()).map_err(|problem| problem.message)
}

async fn send(app: &App, channel: &AlertChannel, message: &AlertMessage) -> Result<(), Undelivered> {
    match channel {
        AlertChannel::Webhook { url, headers } => {
            let mut opened = Vec::with_capacity(headers.len());
            for (name, sealed) in headers {
                opened.push(header(app, name, sealed).map_err(Undelivered::Never)?);
            }
            call(app, url.clone(), opened, (message, message::document(message))).await
        }
        AlertChannel::Slack { url } => {
            let url = app.vault.open(url).map_err(|e| Undelivered::Never(e.to_string()))?;
            call(app, url.expose().clone(), Vec::new(), (message, message::slack(message))).await
        }
        AlertChannel::Email { to } => {
            let none = || Undelivered::Never("this gateway has no mail server (--smtp-url)".to_owned());
            let mailer = app.mailer.as_ref().ok_or_else(none)?;
            let (subject, text) = (message::subject(message), message::lines(message));
            let mail = Mail { id: message.id, to: to.clone(), subject, text };
            mailer.send(&mail).await.map_err(|error| match error {
                MailError::Refused(why) => Undelivered::Never(why),
                MailError::Failed(why) => Undelivered::Later(why),
            })
        }
    }
}

fn header(app: &App, name: &str, sealed: &str) -> Result<(HeaderName, HeaderValue), String> {
    let plain = app.vault.open(sealed).map_err(|e| e.to_string())?;
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|e| e.to_string())?;
    let mut value = HeaderValue::from_str(plain.expose()).map_err(|e| e.to_string())?;
    value.set_sensitive(true);
    Ok((name, value))
}

async fn call(
    app: &App,
    url: String,
    mut headers: Vec<(HeaderName, HeaderValue)>,
    (message, body): (&AlertMessage, Value),
) -> Result<(), Undelivered> {
    let none = || Undelivered::Never("nothing here calls addresses".to_owned());
    let outside = app.outside.as_ref().ok_or_else(none)?;
    headers.push((header::CONTENT_TYPE, HeaderValue::from_static("application/json")));
    if let Ok(id) = HeaderValue::from_str(&message.id.to_string()) {
        headers.push((HeaderName::from_static("x-gateway-alert-id"), id));
    }
    let call = OutsideCall {
        method: Method::POST,
        url,
        headers,
        body: body.to_string().into(),
        within: WITHIN,
        most_reply: MOST_REPLY,
        redirects: 0,
    };
    match outside.call(call).await {
        // It was taken, however much is said about it.
        Err(OutsideError::TooLong(_)) => Ok(()),
        Err(OutsideError::Forbidden(why)) => Err(Undelivered::Never(format!("the address {why}"))),
        Err(error) => Err(Undelivered::Later(error.to_string())),
        Ok(reply) => match reply.status {
            200..=299 => Ok(()),
            status @ (408 | 425 | 429 | 500..) => Err(Undelivered::Later(format!("the hook answered {status}"))),
            status => Err(Undelivered::Never(format!("the hook answered {status}"))),
        },
    }
}

/// A rule whose channels are to be tried.
pub(crate) struct MessageTrial<'a> {
    pub(crate) rule: Uuid,
    pub(crate) name: &'a str,
    pub(crate) org: OrgId,
    pub(crate) workspace: Option<WorkspaceId>,
    pub(crate) doc: &'a AlertRule,
}

/// What came of one channel that was tried: why it has no message, if so.
pub(crate) type TriedChannel = (&'static str, Result<(), String>);

pub(crate) async fn try_channels(app: &App, trial: &MessageTrial<'_>) -> Vec<TriedChannel> {
    let message = AlertMessage {
        id: app.id(),
        rule: trial.rule,
        name: trial.name.to_owned(),
        org: trial.org,
        workspace: trial.workspace,
        kind: trial.doc.kind,
        threshold: trial.doc.threshold,
        value: Some(0.0),
        window_minutes: trial.doc.window_minutes,
        calls: 0,
        is_partial: false,
        budgets: Vec::new(),
        at: app.now(),
        is_test: true,
        over_since: None,
    };
    let tries = trial.doc.channels.iter().map(|channel| {
        let message = &message;
        async move {
            let sent = send(app, channel, message).await;
            let sent = sent.map_err(|error| match error {
                Undelivered::Later(why) | Undelivered::Never(why) => why,
            });
            (channel.name(), sent)
        }
    });
    futures_util::future::join_all(tries).await
}
