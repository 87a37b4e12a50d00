//! Requests that are supposed and not made: they go through a pipe into the door of this very process, where they are
//! told instead of followed.

use crate::batches::LineRoad;
use gateway_domain::ports::{Explanations, Fut, SupposedRequest, Unexplained};
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};

/// The road is there once the process serves requests.
#[derive(Default)]
pub(crate) struct Explainer(OnceLock<Arc<LineRoad>>);

impl Explainer {
    pub(crate) fn open(&self, road: Arc<LineRoad>) {
        // A process opens its door once.
        let _ = self.0.set(road);
    }
}

impl Explanations for Explainer {
    fn explain<'a>(&'a self, request: &'a SupposedRequest) -> Fut<'a, Result<Value, Unexplained>> {
        Box::pin(async move {
            let away = || Unexplained("This process serves no requests: ask one that does".to_owned());
            let road = self.0.get().ok_or_else(away)?;
            let reply = road.suppose(request).await.map_err(|e| Unexplained(e.to_string()))?;
            let told: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
            if reply.status == 200 {
                return Ok(told);
            }
            // Errors have their message in one of two places, by the dialect of the path.
            let message = told["error"]["message"].as_str().or_else(|| told["message"].as_str());
            Ok(json!({ "refused": { "status": reply.status, "message": message.unwrap_or_default() } }))
        })
    }
}
