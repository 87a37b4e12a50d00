//! Models of OpenAI's that serve Responses and no chat (<https://platform.openai.com/docs/models>): clients of chat and
//! of Messages are served by way of Responses.

use super::CompatRow;
use crate::adapter::{BodyPieces, Call, Failure, ProviderRequest, Reply};
use crate::convert::chat::{self as chat_request};
use crate::convert::request;
use crate::convert::responses::from_chat::{self, ResponsesRoom};
use crate::convert::steps::from_responses::ResponsesReader;
use crate::failure;
use crate::translate::{self, EventError};
use crate::wire::chat;
use crate::wire::tree::Tree;
use bytes::Bytes;
use gateway_domain::{Fault, FaultKind, Operation};

const ROOM: ResponsesRoom = ResponsesRoom { provider: "OpenAI's Responses API", tuning: true, files: true, text: true };

/// Families of names; a date or more may follow.
const NAMES: &[&str] =
    &["o1-pro", "o3-pro", "o3-deep-research", "o4-mini-deep-research", "codex-mini", "computer-use-"];

pub(super) fn is_one(model: &str) -> bool {
    let named = NAMES.iter().any(|name| model.starts_with(name));
    named || (model.starts_with("gpt-5") && model.split('-').skip(2).any(|part| matches!(part, "pro" | "codex")))
}

pub(super) fn request(row: &CompatRow, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
    let asked = chat_request::asked(call, chat_request::ChatForm::Extended)?;
    let ask: chat::ChatRequest<'_> = request::parsed(&asked.body)?;
    request::refuse_spoken(&[("web_search_options", ask.web_search_options)], ROOM.provider)?;
    let made = from_chat::request(&ask, ROOM, call.stream)?;
    let mut members = vec![("model", Tree::text(call.model.unwrap_or_default()))];
    members.extend(made.members);
    let body = serde_json::to_vec(&Tree::Map(members)).map_err(|e| Fault::new(FaultKind::Internal, e.to_string()))?;
    let mut adjusted = made.adjusted;
    adjusted.extend(asked.adjusted);
    let path = Some([row.prefix, Operation::Responses.facts().base].concat());
    Ok(ProviderRequest { path, headers: Vec::new(), body: BodyPieces::One(body.into()), adjusted })
}

/// A whole response for a client of chat or of Messages.
pub(crate) fn answer(slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let (mut reader, mut steps) = (ResponsesReader::new(slug), Vec::with_capacity(8));
    match reader.whole(body, &mut steps) {
        Ok(()) => Ok(translate::whole(call, slug, &reader, &steps)),
        Err(EventError::ProviderError(trouble)) => Err(trouble.render(slug, trouble.status(), call.dialect)),
        Err(EventError::Unreadable) => Err(failure::unreadable(slug, "the answer", body, call.dialect)),
    }
}

#[cfg(test)]
mod tests {
    use super::is_one;

    #[test]
    fn models_without_chat() {
        for model in
            ["o1-pro", "o3-pro-2025-06-10", "gpt-5-pro", "gpt-5.2-pro-2025-12-11", "gpt-5-codex", "gpt-5.1-codex-mini"]
        {
            assert!(is_one(model), "{model}");
        }
        for model in ["o1", "o3", "gpt-5", "gpt-5.1", "gpt-5-mini", "gpt-4o", "gpt-50-x", "process-pro", "o3-mini"] {
            assert!(!is_one(model), "{model}");
        }
    }
}
