//! Diagnostics on standard error; standard output belongs to the access log and to what a command prints.

use crate::settings::LogFormat;
use std::io::{IsTerminal, Write};
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
    set.map_err(|e| format!("logging cannot be set up: {e}"))
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
