//! Calls about batches of the provider's own that pass as they are, where families speak OpenAI's interface for
//! batches, or the client speaks the family's own. That one was made here is noted before its maker is told of it; what
//! answers tell of batches later is handed on, to be counted once they have ended. Reads no results.

use super::Exchange;
use crate::bookings::{BookingId, NativeMade};
use crate::clock;
use crate::proxy::deliver::Outcome;
use crate::proxy::request::Request;
use crate::proxy::watch_row::MadeBatch;
use crate::proxy::{objects, own_objects, target};
use bytes::Bytes;
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
        (Operation::Proxy, &Method::POST) if is_anthropics() && tail.ends_with("/cancel") => Some(("anthropic", false)),
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

/// Leads Anthropic's clients to the results of a batch by way of the gateway: they follow the address that they are
/// told, and take their key along. It names no host, since nobody here knows by which name a client reached the
/// gateway, or whether TLS ends in front of it; clients set it behind the address that they were given.
pub(super) fn lead_to_results(request: &Request, outcome: &mut Outcome) {
    let Outcome::Whole(answer) = outcome else { return };
    if request.caller.tenant.line.is_some() || own_words(request).is_none_or(|(family, _)| family != "anthropic") {
        return;
    }
    if let Some(led) = led_to_results(&answer.body) {
        answer.body = led;
    }
}

/// `None`: it tells of no results.
fn led_to_results(body: &[u8]) -> Option<Bytes> {
    let mut told: Value = serde_json::from_slice(body).ok()?;
    let batches = match told.get_mut("data") {
        Some(Value::Array(list)) => list.as_mut_slice(),
        _ => std::slice::from_mut(&mut told),
    };
    let mut is_led = false;
    for batch in batches.iter_mut().filter(|batch| batch["results_url"].is_string()) {
        let path = batch["id"].as_str().map(|id| format!("/v1{ANTHROPICS}/{id}/results"));
        batch["results_url"] = path.into();
        is_led = true;
    }
    is_led.then(|| told.to_string().into())
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
                continue;
            }
            let asked = (&*self.request, &self.routing);
            let client = (&self.client.view().req_header().headers, &*self.parts.delivery.settings.header_alias);
            let (id, native) = (BookingId::of_batch(&keeper, &standing.id), &*standing.id);
            MadeBatch { asked, client, id, native }.watch(&self.parts.watches).await;
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
            lines: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn addresses_of_results_lead_nowhere_else() {
        let told = |id: &str, url: &str| json!({ "id": id, "results_url": url, "type": "message_batch" });
        let led = |told: &Value| led_to_results(told.to_string().as_bytes());
        let away = "https://api.anthropic.com/v1/messages/batches/a/results";
        let here = "/v1/messages/batches/a/results";
        assert_eq!(led(&told("a", away)).unwrap(), told("a", here).to_string());
        let list = json!({ "data": [told("a", away), { "id": "b", "results_url": null }], "has_more": false });
        let expected = json!({ "data": [told("a", here), { "id": "b", "results_url": null }], "has_more": false });
        assert_eq!(led(&list).unwrap(), expected.to_string());
        // Without an id nobody can say which batch it is: better no address than one that leads elsewhere.
        assert_eq!(led(&json!({ "results_url": away })).unwrap(), json!({ "results_url": null }).to_string());
        for nothing in [json!({ "id": "a", "results_url": null }), json!({ "data": [] }), json!([1]), json!("text")] {
            assert!(led(&nothing).is_none(), "{nothing}");
        }
        assert!(led_to_results(b"no JSON").is_none());
    }
}
