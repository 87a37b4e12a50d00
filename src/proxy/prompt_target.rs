//! A target that names a saved prompt: for its turn the request becomes the one that the prompt says, and its own again
//! for the next target. What a prompt says is read from the request's own snapshot; how targets are walked is not known
//! here.

use super::body::{BufferBudget, Permit};
use super::content::look;
use super::request::{PromptAsk, PromptVerb, Request, RequestContent};
use bytes::Bytes;
use gateway_domain::config::{Leaf, ProviderRef};
use gateway_domain::prompt::{PromptCall, RenderedPrompt, render};
use gateway_domain::{Fault, FaultKind, Operation};
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// What the request asked for itself, while it asks for what a prompt says.
#[derive(Debug)]
pub(crate) struct OwnAsk {
    content: RequestContent,
    prompt: Option<Box<PromptAsk>>,
    provider: Option<Arc<str>>,
    virtual_key: Option<Arc<str>>,
    /// Memory for the request that the prompt was rendered to.
    held: Permit,
}

impl OwnAsk {
    fn of(request: &Request, budget: &Arc<BufferBudget>) -> Box<Self> {
        let (ask, mut held) = (&request.ask, Permit::new(budget));
        held.charge(request.caller.tenant.key.id.0);
        let (provider, virtual_key) = (ask.headers.provider.clone(), ask.headers.virtual_key.clone());
        Box::new(Self { content: ask.content.clone(), prompt: ask.prompt.clone(), provider, virtual_key, held })
    }

    fn restore(&self, request: &mut Request) {
        let ask = &mut request.ask;
        ask.content = self.content.clone();
        ask.prompt.clone_from(&self.prompt);
        ask.headers.provider.clone_from(&self.provider);
        ask.headers.virtual_key.clone_from(&self.virtual_key);
        ask.reckoned = OnceLock::new();
    }
}

/// Whether the turn of this target makes another request of it.
pub(crate) fn changes(own: Option<&OwnAsk>, leaf: &Leaf) -> bool {
    own.is_some() || leaf.prompt.is_some()
}

/// Makes the request what this target is to be asked. A fault is this target's: the request is its own then.
pub(crate) async fn ask(
    own: &mut Option<Box<OwnAsk>>,
    request: &mut Request,
    leaf: &Leaf,
    budget: &Arc<BufferBudget>,
) -> Result<(), Fault> {
    if let Some(before) = own.take() {
        before.restore(request);
    }
    let Some(name) = &leaf.prompt else { return Ok(()) };
    if request.ask.route.raw || request.ask.route.operation != Operation::ChatCompletions {
        let why = "A target with prompt_id answers chat completions and calls of prompts, and nothing else";
        return Err(Fault::new(FaultKind::BadConfig, why).on("prompt_id"));
    }
    let mut kept = OwnAsk::of(request, budget);
    let made = rendered(request, name).await?;
    let bytes = Bytes::from(Value::Object(made.request).to_string());
    kept.held.grow_to(bytes.len())?;
    let found = look(&bytes, Operation::ChatCompletions).await?;
    let waited_us = request.ask.content.waited_us;
    request.ask.content = RequestContent { bytes, waited_us, ..found };
    request.ask.reckoned = OnceLock::new();
    let mut asked = request.ask.prompt.take().unwrap_or_else(|| {
        let (path, sent) = (request.ask.route.path.clone(), Bytes::new());
        Box::new(PromptAsk { path, name: name.to_string(), verb: PromptVerb::Complete, sent, found: None })
    });
    asked.found = Some(made.found);
    request.ask.prompt = Some(asked);
    if let (ProviderRef::FromRequest, Some(slug)) = (&leaf.provider, made.provider) {
        request.ask.headers.virtual_key = None;
        request.ask.headers.provider = Some(format!("@{slug}").into());
    }
    *own = Some(kept);
    Ok(())
}

/// Where it does not hold up other connections: what it takes is bounded, and still a while.
async fn rendered(request: &Request, name: &Arc<str>) -> Result<RenderedPrompt, Fault> {
    let (tenant, name) = (request.caller.tenant.clone(), name.clone());
    let called = request.ask.prompt.as_ref().map(|ask| (ask.sent.clone(), ask.name.clone()));
    let own = request.ask.content.bytes.clone();
    let work = move || {
        let call = match called {
            Some((sent, of)) => PromptCall::read(&sent, &of)?,
            None => PromptCall::of_chat(&own)?,
        };
        render(tenant.world.snapshot.shelf_of(&tenant.workspace), &name, call.at_target())
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Fault::new(FaultKind::Internal, "The prompt could not be rendered")))
}
