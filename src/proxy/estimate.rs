//! What a call may use, from its body alone: tokens that go in, guessed, and the most that may come out, as far as
//! the body bounds it. Asked only when some limit counts tokens or money.

use super::request::{Request, RequestContent};
use super::token_estimate::Reckoned;
use gateway_domain::config::Leaf;
use gateway_domain::{Operation, Uses};
use gateway_policies::Estimate;

/// About so many bytes of text are a token.
const BYTES_OF_A_TOKEN: usize = 4;

/// A session uses nothing by being opened: each of its responses is asked for when it begins. `None`: a call that uses
/// neither tokens nor money by its nature, such as a look at a file.
pub(crate) fn of<'a>(
    request: &Request,
    content: &RequestContent,
    leaves: impl Iterator<Item = &'a Leaf>,
) -> Option<Estimate> {
    let facts = request.ask.route.operation.facts();
    // The gateway's own calls about a provider's batch need nothing left of limits, but for the one that makes it:
    // lines count by themselves.
    if let (Operation::Proxy, Some(begins)) = (request.ask.route.asked(), request.begins_batch()) {
        return begins.then_some(Estimate { prompt: 0, output: Some(0) });
    }
    let looks = matches!(request.ask.method, http::Method::GET | http::Method::DELETE);
    if facts.uses == Uses::Nothing || (looks && !facts.opens_session) {
        return None;
    }
    if matches!(facts.uses, Uses::Units | Uses::Later) || (looks && facts.opens_session) {
        return Some(Estimate { prompt: 0, output: Some(0) });
    }
    if let Some(form) = &content.form {
        // Its files are no text: what they come to is known when the answer tells it.
        let texts = form.parts().iter().filter(|part| part.filename.is_none());
        let bytes: usize = texts.map(|part| part.value.len()).sum();
        let output = (facts.uses == Uses::Prompt).then_some(0);
        return Some(Estimate { prompt: (bytes / BYTES_OF_A_TOKEN) as u64, output });
    }
    if content.unread && content.bytes.is_empty() {
        return Some(Estimate { prompt: 0, output: None });
    }
    // It is asked for the caller and for each target, mostly of the body as it came.
    let reckoned = match std::ptr::eq(&*content.bytes, &*request.ask.content.bytes) {
        true => *request.ask.reckoned.get_or_init(|| Reckoned::of(&content.bytes)),
        false => Reckoned::of(&content.bytes),
    };
    let most = leaves.filter_map(overridden).max();
    let output = if facts.uses == Uses::PromptAndAnswer { most.or(reckoned.output) } else { Some(0) };
    Some(Estimate { prompt: reckoned.prompt, output })
}

/// What a config sets in place of the body's.
fn overridden(leaf: &Leaf) -> Option<u64> {
    let names = ["max_completion_tokens", "max_tokens", "max_output_tokens"];
    let set = leaf.overrides.iter().filter(|(k, _)| names.contains(&k.as_str()));
    set.filter_map(|(_, v)| v.parse().ok()).max()
}
