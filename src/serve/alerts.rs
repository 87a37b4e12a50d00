//! Alerts: rules are looked at again and again, and what they have to say is brought to where it is to go, by each node
//! that serves the Admin API. What one has done, the others find done.

use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::upstream::SmtpMailer;
use gateway_admin::{ALERT_LEASE, App, MAIL_JOB, check_alerts, deliver_alert, deliver_mail};
use gateway_domain::alert::ALERT_JOB;
use gateway_domain::ports::Mailer;
use gateway_domain::resource::alert::AlertKind;
use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// The pause between two looks for messages while there are none.
const IDLE: Duration = Duration::from_secs(2);
/// The pause before the next try when the store was away.
const SOON: Duration = Duration::from_secs(10);
/// Less would ask the store all the time.
const SHORTEST: Duration = Duration::from_secs(1);
/// How a rule stood that nobody looked at for so long is forgotten: it was removed, or archived.
const KEPT_MICROS: i64 = 60 * 86_400 * 1_000_000;

const SENT: &str = "sent";
const FAILED: &str = "failed";

/// `None`: no mail server is named.
pub(super) fn mailer(settings: &Settings) -> Result<Option<Arc<dyn Mailer>>, String> {
    match (&settings.smtp_url, &settings.smtp_from) {
        (None, None) => Ok(None),
        (Some(url), Some(from)) => {
            let mailer = SmtpMailer::new(url, from).map_err(|why| format!("--smtp-url and --smtp-from: {why}"))?;
            Ok(Some(Arc::new(mailer)))
        }
        (Some(_), None) => Err("--smtp-url needs --smtp-from: mails come from somebody".to_owned()),
        (None, Some(_)) => Err("--smtp-from needs --smtp-url: no server takes the mails".to_owned()),
    }
}

struct AlertCounts {
    rules: IntGauge,
    fired: IntCounterVec,
    over: IntCounterVec,
    failed: IntCounter,
    deliveries: IntCounterVec,
}

impl AlertCounts {
    fn new(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let counts = Self {
            rules: IntGauge::new("gateway_alert_rules", "Alert rules in force, 100 of an organisation at most")?,
            fired: IntCounterVec::new(
                Opts::new("gateway_alerts_total", "Alerts that this node found to be told"),
                &["type"],
            )?,
            over: IntCounterVec::new(
                Opts::new("gateway_alerts_over_total", "Alerts that this node found to be over"),
                &["type"],
            )?,
            failed: IntCounter::new("gateway_alert_checks_failed_total", "Looks at alert rules that came to nothing")?,
            deliveries: IntCounterVec::new(
                Opts::new("gateway_alert_deliveries_total", "Tries to bring an alert to a channel"),
                &["channel", "outcome"],
            )?,
        };
        // There from the start: what is not there cannot be seen to grow.
        for kind in AlertKind::ALL {
            counts.fired.with_label_values(&[kind.name()]).inc_by(0);
            counts.over.with_label_values(&[kind.name()]).inc_by(0);
        }
        for channel in ["webhook", "slack", "email"] {
            for outcome in [SENT, FAILED] {
                counts.deliveries.with_label_values(&[channel, outcome]).inc_by(0);
            }
        }
        metrics.register(Box::new(counts.rules.clone()))?;
        metrics.register(Box::new(counts.fired.clone()))?;
        metrics.register(Box::new(counts.over.clone()))?;
        metrics.register(Box::new(counts.failed.clone()))?;
        metrics.register(Box::new(counts.deliveries.clone()))?;
        Ok(counts)
    }
}

pub(super) fn start(runtime: &Handle, app: App, every: Duration, metrics: &Metrics) -> Result<(), String> {
    let counts = AlertCounts::new(metrics).map_err(|e| format!("metrics cannot be set up: {e}"))?;
    let counts = Arc::new(counts);
    runtime.spawn(look(app.clone(), every.max(SHORTEST), counts.clone()));
    runtime.spawn(async move {
        loop {
            let pause = match app.jobs.take(&[ALERT_JOB, MAIL_JOB], ALERT_LEASE).await {
                Ok(Some(leased)) => {
                    let is_mail = leased.job.kind == MAIL_JOB;
                    let told =
                        if is_mail { deliver_mail(&app, leased).await } else { deliver_alert(&app, leased).await };
                    for told in told {
                        let outcome = if told.is_sent { SENT } else { FAILED };
                        counts.deliveries.with_label_values(&[told.channel, outcome]).inc();
                    }
                    continue;
                }
                Ok(None) => IDLE,
                Err(error) => {
                    tracing::warn!(%error, "alerts have to wait");
                    SOON
                }
            };
            tokio::time::sleep(pause).await;
        }
    });
    Ok(())
}

async fn look(app: App, every: Duration, counts: Arc<AlertCounts>) {
    // Nodes that look at the same pace find each other's looks fresh.
    let fresh = every * 3 / 4;
    let mut rounds = 0_u64;
    loop {
        match check_alerts(&app, fresh).await {
            Ok(round) => {
                counts.rules.set(i64::try_from(round.rules).unwrap_or(i64::MAX));
                counts.failed.inc_by(round.failed);
                for kind in &round.fired {
                    counts.fired.with_label_values(&[kind.name()]).inc();
                }
                for kind in &round.over {
                    counts.over.with_label_values(&[kind.name()]).inc();
                }
            }
            Err(error) => {
                counts.failed.inc();
                tracing::warn!(%error, "alert rules have to wait");
            }
        }
        if rounds.is_multiple_of(1_000)
            && let Err(error) = app.alerts.forget_alerts(crate::clock::now().plus_micros(-KEPT_MICROS)).await
        {
            tracing::debug!(%error, "how old alert rules stood cannot be forgotten");
        }
        rounds += 1;
        tokio::time::sleep(every).await;
    }
}
