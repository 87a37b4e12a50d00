//! What is answered without a key: greeting, health, metrics.

use crate::app::{App, ComponentStatus};
use crate::route::{AdminReply, AdminRoute, MountPoint, public};
use http::StatusCode;
use serde_json::{Map, Value, json};

pub(crate) fn routes() -> Vec<AdminRoute> {
    vec![
        public(MountPoint::Root, "/", "Say what answers here", greet),
        public(MountPoint::Root, "/v1/health", "Tell that the process serves, and its version", health),
        public(MountPoint::Operator, "/health/live", "Tell that the process runs", live),
        public(MountPoint::Operator, "/health/ready", "Tell whether traffic may come, and why not", ready),
        public(MountPoint::Operator, "/health/status", "Tell how each part of the process does", status),
        public(MountPoint::Root, "/invite", "Show the form that an invite's link opens", invite),
        public(MountPoint::Operator, "/metrics", "Metrics in Prometheus text format", metrics),
    ]
}

fn greet(_: &App) -> AdminReply {
    AdminReply::text("text/plain; charset=utf-8", "This is an AI gateway. Inference and Admin API live below /v1.\n")
}

fn health(app: &App) -> AdminReply {
    AdminReply::json(json!({"status": "success", "message": "Server is healthy", "version": app.status.version()}))
}

fn live(app: &App) -> AdminReply {
    AdminReply::json(json!({"status": "alive", "version": app.status.version()}))
}

fn ready(app: &App) -> AdminReply {
    let revision = app.live.snapshot().revision;
    match app.status.ready() {
        Ok(()) => AdminReply::json(json!({"status": "ready", "revision": revision})),
        Err(reason) => {
            let body = json!({"status": "not ready", "reason": reason, "revision": revision});
            AdminReply::json(body).with_status(StatusCode::SERVICE_UNAVAILABLE)
        }
    }
}

/// 200 whatever it tells: whether traffic may come is readiness' to say.
fn status(app: &App) -> AdminReply {
    let parts = app.status.parts();
    let well = parts.iter().all(|part| part.trouble.is_none());
    let parts: Map<String, Value> = parts.into_iter().map(|part| (part.name.to_owned(), render_part(part))).collect();
    let not_ready = app.status.ready().err();
    AdminReply::json(json!({
        "status": if well { "ok" } else { "degraded" },
        "ready": not_ready.is_none(),
        "reason": not_ready,
        "version": app.status.version(),
        "limits": app.status.counting().precision(),
        "components": parts,
    }))
}

fn render_part(part: ComponentStatus) -> Value {
    let mut facts = part.facts;
    facts.insert("status".into(), if part.trouble.is_some() { "degraded" } else { "ok" }.into());
    if let Some(why) = part.trouble {
        facts.insert("reason".into(), why.into());
    }
    Value::Object(facts)
}

fn invite(_: &App) -> AdminReply {
    AdminReply::text("text/html; charset=utf-8", include_str!("public/invite.html"))
}

fn metrics(app: &App) -> AdminReply {
    AdminReply::text("text/plain; version=0.0.4; charset=utf-8", app.status.metrics())
}
