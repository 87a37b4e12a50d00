//! Calls about batches of the provider's own that pass as they are, where families speak OpenAI's interface for batches, or
//! the client speaks the family's own. That one was made here is noted before its maker is told of it; what answers tell of
//! batches later is handed on, to be counted once they have ended. Reads no results.

use super::Exchange;
use crate::bookings::NativeMade;
use crate::clock;
use crate::proxy::deliver::Outcome;
use crate::proxy::request::Request;
use crate::proxy::{objects, own_objects, target};
use gateway_domain::Operation;
use gateway_providers::native_batches::{OPENAI_BATCHES, ToldBatches, native_batches, passed_batches};
use http::Method;
use serde_json::Value;

/// What an answer told.
pub(super) struct PassedAnswer {
    makes: bool,
    family: &'static dyn ToldBatches,
    told: Vec<Value>,
}

/// Batches that an answer told of, some of which may have ended.
pub(crate) struct LookedAt {
    pub(crate) family: &'static dyn ToldBatches,
    pub(crate) told: Vec<Value>,
}

/// Where Anthropic has its batches, and how Gemini is asked for one.
const ANTHROPICS: &str = "/messages/batches";
const GEMINIS: &str = ":batchGenerateContent";

/// The family in whose own words a batch is asked for, or looked at where that tells no results.
fn own_words(request: &Request) -> Option<(&'static str, bool)> {
    let (route, method) = (&request.ask.route, &request.ask.method);
    let tail = route.tail();
    let is_anthropics = || tail.strip_prefix(ANTHROPICS).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    match (route.operation, method) {
        (Operation::Proxy, &Method::POST) if tail == ANTHROPICS => Some(("anthropic", true)),
        (Operation::Proxy, &Method::POST) if tail.ends_with(GEMINIS) => Some(("google", true)),
        (Operation::Proxy, &Method::GET) if is_anthropics() && !tail.ends_with("/results") => {
            Some(("anthropic", false))
        }
        _ => None,
    }
}

/// The call is about such batches: its answer must be read whole.
pub(super) fn reads(request: &Request) -> bool {
    use Operation::{CancelBatch, ListBatches, RetrieveBatch};
    let is_openais = matches!(request.ask.route.operation, CancelBatch | ListBatches | RetrieveBatch);
    request.caller.tenant.line.is_none() && (is_openais || own_words(request).is_some())
}

/// `None`: it is about something else, or no answer.
pub(super) fn seen(request: &Request, provider: &str, outcome: &Outcome) -> Option<PassedAnswer> {
    let makes_openais = request.ask.route.operation == Operation::CreateBatch;
    let Outcome::Whole(answer) = outcome else { return None };
    let is_good = (200..300).contains(&answer.head.status.as_u16()) && request.caller.tenant.line.is_none();
    if !is_good || !(makes_openais || reads(request)) {
        return None;
    }
    let (makes, family): (bool, &'static dyn ToldBatches) = match (own_words(request), native_batches(provider)) {
        (Some((own, makes)), Some(family)) if own == provider => (makes, family),
        (None, None) => (makes_openais, OPENAI_BATCHES),
        _ => return None,
    };
    Some(PassedAnswer { makes, family, told: passed_batches(&answer.original) })
}

impl Exchange<'_> {
    /// What was made is noted; what was looked at is left to whoever counts.
    pub(super) async fn note_passed(&mut self, answer: PassedAnswer) {
        let PassedAnswer { makes, family, told } = answer;
        if !makes {
            self.looked_at = Some(Box::new(LookedAt { family, told }));
            return;
        }
        let Ok(aim) = target::resolve_place(self.routing.plan.leaf(), self.routing.inline, self.request) else {
            return;
        };
        let (keeper, owner) = (objects::keeper_of(&aim, self.request), own_objects::owner(self.request));
        for batch in told {
            let Some(standing) = family.standing(batch.to_string().as_bytes()) else { continue };
            let made = self.made(&batch);
            if let Err(e) = self.parts.bookings.note_made(owner, (&keeper, &standing.id), &made).await {
                let batch = standing.id;
                tracing::warn!(batch, error = %e, "that a provider's batch was made here is not noted: it will not be counted");
            }
        }
    }

    /// What was asked for, as far as it is not told again.
    fn made(&self, batch: &Value) -> NativeMade {
        let asked: Value = serde_json::from_slice(&self.request.ask.content.bytes).unwrap_or_default();
        let text = |name: &str| batch[name].as_str().or_else(|| asked[name].as_str()).map(str::to_owned);
        NativeMade {
            endpoint: text("endpoint").unwrap_or_default(),
            input: text("input_file_id").unwrap_or_default(),
            model: None,
            metadata: Value::Null,
            created: clock::now().secs(),
        }
    }
}
