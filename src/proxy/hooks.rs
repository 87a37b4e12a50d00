//! Which guardrails stand before a target and behind it for one request: those of its config, then the defaults of its
//! workspace, then those of its organisation, each once. Judges nothing, and knows no answer.

use super::body::{BufferBudget, Permit};
use super::headers::suffix_of;
use super::request::{DefaultGuardrail, Request};
use super::routing::Routing;
use super::target::Aim;
use crate::guardrails::{Guardrails, HeldRoom, Moderator, Room, TargetGuards};
use gateway_domain::catalog::AuthStyle;
use gateway_domain::config::Leaf;
use gateway_domain::snapshot::SavedGuardrail;
use gateway_domain::{AnswerForm, Dialect, Fault, FaultKind, Operation};
use gateway_guardrails::definition::ListedGuardrail;
use gateway_guardrails::{BodyShape, Facts, Guardrail};
use http::{HeaderMap, HeaderValue};
use std::sync::Arc;
use uuid::Uuid;

/// Nothing is judged here: the one question that a request without guardrails pays for.
pub(crate) fn is_unguarded(request: &Request, leaf: &Leaf) -> bool {
    request.caller.tenant.guardrails.is_none() && leaf.hooks.is_empty()
}

/// All that is looked at to say what guards a target.
pub(crate) struct GuardSearch<'a> {
    pub(crate) guardrails: &'a Guardrails,
    pub(crate) request: &'a Request,
    pub(crate) routing: &'a Routing,
    pub(crate) leaf: &'a Leaf,
    pub(crate) aim: &'a Aim,
    /// What the client sent.
    pub(crate) client: &'a HeaderMap,
    /// Prefixes of the gateway's own headers.
    pub(crate) aliases: &'a [String],
    pub(crate) budget: &'a Arc<BufferBudget>,
}

/// What guardrails hold of a request counts with its bodies, for its key.
#[derive(Debug)]
struct RoomOfKey {
    budget: Arc<BufferBudget>,
    key: Uuid,
}

impl Room for RoomOfKey {
    fn open(&self) -> Box<dyn HeldRoom> {
        let mut permit = Permit::new(&self.budget);
        permit.charge(self.key);
        Box::new(permit)
    }
}

impl HeldRoom for Permit {
    fn grow_to(&mut self, total: usize) -> bool {
        Self::grow_to(self, total).is_ok()
    }

    fn spare(&mut self, total: usize) -> bool {
        Self::spare(self, total)
    }
}

/// What the target that is aimed at is guarded by; `None`: by nothing that judges on this route.
pub(crate) async fn guarded(search: GuardSearch<'_>) -> Result<Option<Box<TargetGuards>>, Fault> {
    let GuardSearch { guardrails, request, routing, leaf, aim, client, aliases, budget } = search;
    let mut chosen = ChosenGuards { guardrails, request, routing, digest: Vec::new() };
    let defaults = request.caller.tenant.guardrails.as_deref();
    let input = chosen.of(leaf.hooks.input, defaults.map(|d| &d.input[..])).await?;
    chosen.digest.clear();
    let output = chosen.of(leaf.hooks.output, defaults.map(|d| &d.output[..])).await?;
    if input.is_empty() && output.is_empty() {
        return Ok(None);
    }
    let moderates = input.iter().any(|g| g.checks().iter().any(|check| is_moderation(check.id())));
    let moderator = if moderates { moderator(request).map(Arc::new) } else { None };
    Ok(Some(Box::new(TargetGuards {
        moderator,
        input,
        output,
        digest: chosen.digest,
        shape: shape(request),
        facts: Arc::new(facts(request, aim, client, aliases)),
        request: None,
        request_is_transformed: false,
        room: room(budget, request),
    })))
}

fn is_moderation(check: &str) -> bool {
    check.rsplit('.').next().is_some_and(|name| name.eq_ignore_ascii_case("moderateContent"))
}

/// Room that counts with the bodies of this request, for its key.
pub(crate) fn room(budget: &Arc<BufferBudget>, request: &Request) -> Arc<dyn Room> {
    Arc::new(RoomOfKey { budget: budget.clone(), key: request.caller.tenant.key.id.0 })
}

/// The first managed provider of the workspace that serves moderations and is signed in to by a key.
pub(crate) fn moderator(request: &Request) -> Option<Moderator> {
    let tenant = &request.caller.tenant;
    let mut providers: Vec<_> = tenant.workspace.providers().collect();
    providers.sort_by(|a, b| a.slug.cmp(&b.slug));
    providers.into_iter().find_map(|provider| {
        let upstream = tenant.world.snapshot.upstream(provider.integration)?;
        let is_usable = provider.active && provider.expires_at.is_none_or(|end| end > request.caller.at);
        let can_be_called = upstream.grant.is_none() && upstream.missing.is_none();
        if !is_usable || !upstream.open_to(tenant.workspace.id) || !can_be_called {
            return None;
        }
        let endpoint = gateway_providers::adapter(upstream.provider.slug)?
            .endpoint(Operation::Moderations, Dialect::OpenAi)
            .filter(|_| upstream.provider.auth == AuthStyle::Bearer)?;
        let key = upstream.credential.as_ref()?;
        let mut authorization = HeaderValue::from_str(&format!("Bearer {}", key.expose())).ok()?;
        authorization.set_sensitive(true);
        let base = upstream.base.clone()?;
        let target = format!("{}{}", base.path, endpoint.path);
        Some(Moderator { base, target, authorization })
    })
}

/// The guardrails of one side, as they are found.
struct ChosenGuards<'a> {
    guardrails: &'a Guardrails,
    request: &'a Request,
    routing: &'a Routing,
    digest: Vec<u8>,
}

impl ChosenGuards<'_> {
    async fn of(
        &mut self,
        place: Option<usize>,
        defaults: Option<&[DefaultGuardrail]>,
    ) -> Result<Vec<Arc<Guardrail>>, Fault> {
        let mut out: Vec<Arc<Guardrail>> = Vec::new();
        let list = place.and_then(|place| self.routing.guards.as_ref()?.at(place));
        if let Some(list) = list {
            self.digest.extend_from_slice(&list.digest);
            for entry in &list.entries {
                match entry {
                    ListedGuardrail::Inline(guardrail) => out.push(guardrail.clone()),
                    ListedGuardrail::Saved(name) => {
                        let tenant = &self.request.caller.tenant;
                        let saved = tenant.world.snapshot.guardrail(&tenant.workspace, name);
                        self.add(saved.ok_or_else(|| unknown(name))?, &mut out).await?;
                    }
                }
            }
        }
        for default in defaults.into_iter().flatten() {
            let saved = default.saved.as_ref().ok_or_else(|| unknown(&default.slug))?;
            self.add(saved, &mut out).await?;
        }
        Ok(out)
    }

    /// Each saved one once, however often it is named.
    async fn add(&mut self, saved: &Arc<SavedGuardrail>, out: &mut Vec<Arc<Guardrail>>) -> Result<(), Fault> {
        let guardrail = self.guardrails.of_saved(saved, &self.request.caller.tenant.org).await?;
        if !out.iter().any(|known| Arc::ptr_eq(known, &guardrail)) {
            self.digest.extend_from_slice(saved.id.0.as_bytes());
            self.digest.extend_from_slice(&saved.revision.to_le_bytes());
            out.push(guardrail);
        }
        Ok(())
    }
}

/// What a request names and its workspace does not have.
pub(crate) fn unknown(name: &str) -> Fault {
    let shown: String = name.chars().take(64).collect();
    Fault::new(FaultKind::BadConfig, format!("No guardrail `{shown}` in this workspace")).on("guardrails")
}

/// How the request's body is laid out, as far as guardrails look into it.
fn shape(request: &Request) -> BodyShape {
    if request.ask.upload.is_some() || request.ask.content.bytes.is_empty() {
        return BodyShape::Opaque;
    }
    match request.ask.route.operation {
        _ if request.ask.route.raw => BodyShape::Unknown,
        Operation::ChatCompletions => BodyShape::Chat,
        Operation::Completions => BodyShape::Completions,
        Operation::Embeddings => BodyShape::Embeddings,
        Operation::Messages => BodyShape::Messages,
        Operation::Responses => BodyShape::Responses,
        Operation::Transcription | Operation::Translation if request.ask.content.form.is_some() => {
            BodyShape::Transcript
        }
        _ if request.ask.content.form.is_some() => BodyShape::Opaque,
        Operation::ImagesGenerate
        | Operation::ImagesEdit
        | Operation::Speech
        | Operation::Moderations
        | Operation::Rerank => BodyShape::Area,
        Operation::Ocr => BodyShape::Transcript,
        _ => BodyShape::Opaque,
    }
}

fn facts(request: &Request, aim: &Aim, client: &HeaderMap, aliases: &[String]) -> Facts {
    let mut headers = client.clone();
    // The gateway's own headers are nobody else's, under whichever prefix, but for what tells of traces.
    let own: Vec<_> = headers.keys().filter(|name| is_own(name.as_str(), aliases)).cloned().collect();
    own.iter().for_each(|name| drop(headers.remove(name)));
    Facts {
        request_type: request.ask.route.operation.name().to_owned(),
        streams: request.ask.content.stream,
        provider: aim.adapter.info().slug.to_owned(),
        model: aim.model.as_deref().unwrap_or_default().to_owned(),
        asked_model: request.ask.content.model.as_deref().unwrap_or_default().to_owned(),
        metadata: request.caller.metadata.clone(),
        headers,
        trace_id: request.caller.trace.to_string(),
    }
}

fn is_own(name: &str, aliases: &[String]) -> bool {
    suffix_of(name, aliases).is_some_and(|suffix| !matches!(suffix, "trace-id" | "span-id"))
}

/// Whether a client that asks for a stream reads nothing but one.
pub(crate) fn answers_in_events(operation: Operation) -> bool {
    operation.facts().answer == AnswerForm::JsonOrEvents
}
