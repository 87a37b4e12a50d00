//! Diagnostics on standard error, and what is made of the settings of metrics and traces. Standard output belongs to
//! the access log and to what a command prints.

use crate::clock;
use crate::health::HealthComponents;
use crate::ids;
use crate::metrics::{Metrics, MetricsOptions, labels};
use crate::otlp::{self, Exporter, Otlp, OtlpTarget};
use crate::outbound::Outbound;
use crate::settings::{LogFormat, Settings};
use gateway_admin::ComponentStatus;
use gateway_domain::egress::Trusted;
use serde_json::json;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::sync::Arc;
use tracing_subscriber::EnvFilter;

pub(crate) fn init(format: Option<LogFormat>, level: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(format!("{level},pingora_core=warn,pingora_proxy=warn"))
        .map_err(|e| format!("--log-level `{level}`: {e}"))?;
    let text = match format {
        Some(format) => format == LogFormat::Text,
        None => std::io::stderr().is_terminal(),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    let builder = builder.with_ansi(std::io::stderr().is_terminal());
    let set = if text { builder.try_init() } else { builder.json().flatten_event(true).try_init() };
    set.map_err(|e| format!("logging cannot be set up: {e}"))?;
    std::panic::set_hook(Box::new(report));
    Ok(())
}

/// A panic is told by its place. Its message may quote what a client sent (an index into a text quotes that text), so
/// only the part before the first value is.
fn report(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let (thread, at) = (thread.name().unwrap_or("?"), panic.location().map(ToString::to_string));
    let at = at.as_deref().unwrap_or("?");
    let trace = Backtrace::capture();
    let trace = (trace.status() == BacktraceStatus::Captured).then(|| trace.to_string());
    let said = panic.payload();
    let said = said.downcast_ref::<&str>().copied().or_else(|| said.downcast_ref::<String>().map(String::as_str));
    tracing::error!(thread, at, why = said.map(unquoted), trace, "panicked");
}

fn unquoted(message: &str) -> &str {
    let ends = [": ", "\"", " of `", "\n"].into_iter().filter_map(|end| message.find(end));
    ends.min().map_or(message, |end| &message[..end])
}

/// The reason why the program ends, for a person.
pub(crate) fn complain(why: &str) {
    // When even standard error is closed there is no one to tell.
    let _ = writeln!(std::io::stderr(), "gateway: {why}");
}

/// What a command was asked to print.
pub(crate) fn print(text: &str) {
    // A reader that went away is its own business.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

pub(crate) fn metrics(settings: &Settings) -> Result<Metrics, String> {
    let listed = settings.metrics_const_labels.join(",");
    let constant = otlp::pairs(&listed).ok_or("--metrics-const-labels must be name=value,name=value")?;
    let shape = MetricsOptions {
        extra: labels::parse(&settings.metrics_labels)?,
        constant: constant.into_iter().collect(),
        conventions: settings.otlp_endpoint.is_some(),
    };
    Metrics::new(shape).map_err(|e| format!("metrics cannot be set up: {e}"))
}

/// `None` without a collector.
pub(crate) fn otlp(
    settings: &Settings,
    trusted: &Arc<Trusted>,
    metrics: &Metrics,
    parts: &HealthComponents,
) -> Result<Option<(Otlp, Exporter)>, String> {
    let Some(endpoint) = &settings.otlp_endpoint else { return Ok(None) };
    let given =
        otlp::pairs(&settings.otlp_resource.join(",")).ok_or("--otlp-resource must be name=value,name=value")?;
    let resource = otlp::resource("gateway", ids::next(clock::now()), given);
    let (headers, interval) = (settings.otlp_headers.as_deref(), settings.otlp_interval.0);
    let mut target = OtlpTarget::parse(endpoint, headers, interval, resource, clock::now)?;
    if settings.tls_cert.is_some() {
        target.scheme = "https";
    }
    let outbound = Outbound::new(trusted.clone()).map_err(|e| format!("the outbound client: {e}"))?;
    let made = Otlp::new(target, outbound, metrics).map_err(|e| format!("metrics cannot be set up: {e}"))?;
    let state = made.0.watcher();
    parts.add(move || {
        let now = state();
        let facts = json!({ "records": now.waiting, "exported": now.exported, "dropped": now.dropped });
        ComponentStatus::new("otlp", facts).troubled(now.trouble)
    });
    Ok(Some(made))
}

#[cfg(test)]
mod tests {
    use super::unquoted;

    #[test]
    fn panics_quote_nothing() {
        let caught = |what: fn()| {
            let panic = std::panic::catch_unwind(what).expect_err("it panics");
            panic.downcast::<String>().map_or_else(|p| (*p.downcast::<&str>().expect("a text")).to_owned(), |s| *s)
        };
        let kept = [
            caught(|| drop("sécret"[2..].to_owned())),
            caught(|| drop("secret"[99..].to_owned())),
            caught(|| assert_ne!("secret".parse::<u8>().map_err(|_| "secret").unwrap(), 0)),
            caught(|| assert_ne!("secret".parse::<u8>().map_err(|_| "secret").expect("a number"), 0)),
            caught(|| assert_eq!("secret", "other", "a secret")),
            caught(|| panic!("plain")),
        ];
        let kept: Vec<&str> = kept.iter().map(|message| unquoted(message)).collect();
        assert!(kept.iter().all(|k| !k.contains("cret") && k.len() > 4), "{kept:?}");
        assert_eq!(kept[3..], ["a number", "assertion `left == right` failed", "plain"]);
    }
}
