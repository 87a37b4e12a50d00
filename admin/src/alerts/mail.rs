//! Mails to those whom a key names, when its budget reaches a threshold or its end: jobs, so that one node sends each,
//! and another where that one dies. The same event has the same id, whichever node finds it.

use super::deliver::{DeliveredAlert, PAUSES, TRIES};
use crate::app::App;
use gateway_domain::alert::AlertMessage;
use gateway_domain::id::OrgId;
use gateway_domain::ports::{Enqueued, JobBounds, JobEnd, LeasedJob, Mail, MailError, NewJob, StoreError};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The kind of job that sends one mail.
pub const MAIL_JOB: &str = "alert_mail";
/// Mails of an organisation that have not left; an address list is far below what a job may hold.
const MOST_WAITING: u32 = 1_000;

/// What is to be mailed.
#[derive(Debug, Serialize, Deserialize)]
pub struct BudgetMail {
    /// Says which event it is, so that it is mailed once.
    #[serde(skip)]
    pub event: String,
    pub to: Vec<String>,
    pub subject: String,
    pub text: String,
}

/// Once for each event, however often and by whomever it is asked for.
pub async fn mail_budget(app: &App, org: OrgId, mail: &BudgetMail) -> Result<(), StoreError> {
    let payload = serde_json::to_string(mail).map_err(|e| StoreError::Broken(e.to_string()))?;
    let job = NewJob {
        id: AlertMessage::id_of_mail(&mail.event),
        kind: MAIL_JOB,
        org,
        payload,
        progress: String::new(),
        wait: Duration::ZERO,
        most_tries: TRIES,
        most_open: MOST_WAITING,
        bounds: JobBounds::default(),
    };
    if app.jobs.enqueue(&job).await? == Enqueued::Full {
        tracing::warn!(%org, "as many mails of budgets wait as may: one is left out");
    }
    Ok(())
}

/// Sends it, or says when to try again. A gateway without a mail server leaves it to whoever hears the webhook.
pub async fn deliver_mail(app: &App, leased: LeasedJob) -> Vec<DeliveredAlert> {
    let LeasedJob { lease, job } = leased;
    let mut counted = Vec::new();
    let end = match (serde_json::from_str::<BudgetMail>(&job.payload), &app.mailer) {
        (Err(error), _) => JobEnd::Failed(format!("the mail cannot be read: {error}")),
        (Ok(_), None) => JobEnd::Done("this gateway has no mail server (--smtp-url)".to_owned()),
        (Ok(mail), Some(mailer)) => {
            let mail = Mail { id: job.id, to: mail.to, subject: mail.subject, text: mail.text };
            let sent = mailer.send(&mail).await;
            counted.push(DeliveredAlert { channel: "email", is_sent: sent.is_ok() });
            match sent {
                Ok(()) => JobEnd::Done(String::new()),
                Err(MailError::Failed(why)) if job.tries < TRIES => {
                    let pause = PAUSES[(job.tries.max(1) as usize - 1).min(PAUSES.len() - 1)];
                    JobEnd::Again { after: Duration::from_secs(pause), why }
                }
                Err(MailError::Failed(why) | MailError::Refused(why)) => {
                    tracing::warn!(why, "a mail of a budget did not leave; the audit trail has the alert");
                    JobEnd::Failed(why)
                }
            }
        }
    };
    if let Err(error) = app.jobs.end(lease, &end).await {
        tracing::warn!(%error, job = %job.id, "the end of a mail cannot be told: it may come twice");
    }
    counted
}
