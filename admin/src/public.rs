//! What is answered without a key: greeting, health, metrics.

use crate::app::App;
use crate::route::{Place, Reply, Route, public};
use http::StatusCode;
use serde_json::json;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        public(Place::Root, "/", "Say what answers here", greet),
        public(Place::Root, "/v1/health", "Tell that the process serves, and its version", health),
        public(Place::Operator, "/health/live", "Tell that the process runs", live),
        public(Place::Operator, "/health/ready", "Tell whether traffic may come, and why not", ready),
        public(Place::Root, "/invite", "Show the form that an invite's link opens", invite),
        public(Place::Operator, "/metrics", "Metrics in Prometheus text format", metrics),
    ]
}

fn greet(_: &App) -> Reply {
    Reply::text("text/plain; charset=utf-8", "This is an AI gateway. Inference and Admin API live below /v1.\n")
}

fn health(app: &App) -> Reply {
    Reply::json(json!({"status": "success", "message": "Server is healthy", "version": app.status.version()}))
}

fn live(app: &App) -> Reply {
    Reply::json(json!({"status": "alive", "version": app.status.version()}))
}

fn ready(app: &App) -> Reply {
    let revision = app.live.snapshot().revision;
    match app.status.ready() {
        Ok(()) => Reply::json(json!({"status": "ready", "revision": revision})),
        Err(reason) => {
            let body = json!({"status": "not ready", "reason": reason, "revision": revision});
            Reply::json(body).with_status(StatusCode::SERVICE_UNAVAILABLE)
        }
    }
}

fn invite(_: &App) -> Reply {
    Reply::text("text/html; charset=utf-8", include_str!("public/invite.html"))
}

fn metrics(app: &App) -> Reply {
    Reply::text("text/plain; version=0.0.4; charset=utf-8", app.status.metrics())
}
