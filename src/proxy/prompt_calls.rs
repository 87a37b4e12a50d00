//! Calls of saved prompts, made into the chat requests that they stand for once their bodies are here. From there on
//! they go the way of every chat request, with all that holds for one; only to show what would be sent is answered
//! here. What a prompt says is read from the request's own snapshot.

use super::body::{self, BodyError, BodyLimits, Permit, WholeBody};
use super::content::look;
use super::deliver::ReplyNames;
use super::record::PendingRecords;
use super::recorded_answer::{self, RecordedAnswer};
use super::request::{PromptVerb, Request, RequestContent};
use bytes::Bytes;
use gateway_domain::prompt::{PromptCall, RenderedPrompt, render};
use gateway_domain::{Fault, FaultKind, Operation};
use pingora::proxy::Session;
use serde_json::{Value, json};

/// Reads the body of the call, and gives that of the request that it stands for.
pub(crate) async fn read_content(
    session: &mut Session,
    request: &mut Request,
    limits: BodyLimits,
    held: &mut Permit,
) -> Result<RequestContent, BodyError> {
    let WholeBody { bytes: sent, waited } = body::read(&mut session.downstream_session, limits, held).await?;
    let waited_us = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
    let made = rendered(request, sent.clone()).await.map_err(|fault| BodyError::Invalid(fault, sent.clone()))?;
    let bytes = Bytes::from(Value::Object(made.request).to_string());
    held.grow_to(sent.len() + bytes.len()).map_err(BodyError::Refused)?;
    name_provider(request, made.provider);
    if let Some(ask) = &mut request.ask.prompt {
        ask.found = Some(made.found);
        ask.sent = sent;
        if ask.verb == PromptVerb::Render {
            return Ok(RequestContent { bytes, waited_us, ..RequestContent::default() });
        }
    }
    let found = look(&bytes, Operation::ChatCompletions).await;
    let found = found.map_err(|fault| BodyError::Invalid(fault, bytes.clone()))?;
    Ok(RequestContent { bytes, waited_us, ..found })
}

/// Where it does not hold up other connections: what it takes is bounded, and still a while.
async fn rendered(request: &Request, sent: Bytes) -> Result<RenderedPrompt, Fault> {
    let name = request.ask.prompt.as_ref().map(|ask| ask.name.clone()).unwrap_or_default();
    let tenant = request.caller.tenant.clone();
    let work = move || {
        let shelf = tenant.world.snapshot.shelf_of(&tenant.workspace);
        render(shelf, &name, PromptCall::read(&sent, &name)?)
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Fault::new(FaultKind::Internal, "The prompt could not be rendered")))
}

/// The prompt's provider is asked where the request names none. A key that is held to its config asks what that says.
fn name_provider(request: &mut Request, provider: Option<String>) {
    let held = request.is_held_to_config();
    let headers = &mut request.ask.headers;
    if !held && headers.provider.is_none() && headers.virtual_key.is_none() {
        headers.provider = provider.map(|slug| format!("@{slug}").into());
    }
}

/// Shows what would be sent.
pub(crate) async fn show(
    names: &ReplyNames,
    session: &mut Session,
    request: &Request,
    records: &mut PendingRecords,
) -> pingora::Result<bool> {
    let made: Value = serde_json::from_slice(&request.ask.content.bytes).unwrap_or_default();
    let body = json!({"success": true, "data": made});
    recorded_answer::deliver(names, session, RecordedAnswer { request, routing: None, body }, records).await
}
