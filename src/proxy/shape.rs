//! What the config changes in a body before a target sees it: `override_params`, set in place.

use super::request::{Content, Request};
use gateway_domain::bounds::peek;
use gateway_domain::config::Leaf;
use gateway_domain::{Fault, FaultKind};
use gateway_providers::edit::set_top_level;
use std::borrow::Cow;
use std::sync::Arc;

/// The request's content as this target gets it. Raw calls and empty bodies are never touched.
pub(crate) fn content<'a>(request: &'a Request, leaf: &Leaf) -> Result<Cow<'a, Content>, Fault> {
    let content = &request.content;
    // A lone `model` is spliced by the adapter, for nothing.
    let only_model = leaf.overrides.iter().all(|(k, _)| k == "model") && leaf.model.is_some();
    if leaf.overrides.is_empty() || only_model || request.route.raw || content.bytes.is_empty() {
        return Ok(Cow::Borrowed(content));
    }
    let changes: Vec<(&str, Option<&str>)> =
        leaf.overrides.iter().map(|(k, v)| (k.as_str(), Some(v.as_str()))).collect();
    let bytes = set_top_level(&content.bytes, &changes)
        .map_err(|e| Fault::new(FaultKind::BadBody, format!("The request body is not a JSON object: {e}")))?;
    // The override may have changed model or stream, and is held to the same bounds.
    let found = peek(request.route.operation, &bytes).map_err(|f| {
        Fault::new(FaultKind::BadConfig, format!("override_params: {}", f.message())).on("override_params")
    })?;
    let shaped = Content {
        model: found.model.as_deref().map(Arc::from),
        model_span: found.model_span.clone(),
        stream: found.stream,
        wants_usage: found.wants_usage,
        unread: false,
        bytes: bytes.clone(),
    };
    Ok(Cow::Owned(shaped))
}
