//! MiniMax tells what went wrong in `base_resp` of an answer that is a 200, whole or streamed, and beside every answer
//! that went well that nothing did. Its codes: <https://platform.minimax.io/docs/api-reference/errorcode>.

use super::chunks::ChunkGrammar;
use crate::adapter::{Call, Failure};
use crate::answer::ResponseEvent;
use crate::failure::ProviderError;
use crate::passthrough::{EventVerdict, Grammar, ReplyStreamState};
use crate::sse;
use crate::translate::{EventError, EventReader};
use crate::wire::{JsonStr, read};
use bytes::Bytes;
use gateway_domain::{Dialect, Usage};
use memchr::memmem;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct WithBaseResp<'a> {
    #[serde(borrow)]
    base_resp: Option<BaseResp<'a>>,
}

#[derive(Deserialize)]
struct BaseResp<'a> {
    #[serde(default)]
    status_code: i64,
    #[serde(borrow)]
    status_msg: Option<JsonStr<'a>>,
}

/// What an answer, or an event of one, says went wrong.
pub(crate) fn trouble(body: &[u8]) -> Option<ProviderError> {
    memmem::find(body, b"\"base_resp\"")?;
    let told = read::<WithBaseResp<'_>>(body)?.base_resp.filter(|told| told.status_code != 0)?;
    let said = told.status_msg.map_or_else(|| "no reason was told".to_owned(), |said| said.0.into_owned());
    let kind = kind(told.status_code).to_owned();
    Some(ProviderError { kind: Some(kind), code: json!(told.status_code.to_string()), ..ProviderError::new(said) })
}

/// The type of the error in the words of OpenAI's API, each of which stands for a status.
fn kind(code: i64) -> &'static str {
    match code {
        1004 | 2049 => "authentication_error",
        1008 => "billing_error",
        1002 | 1039 | 1041 | 2045 | 2056 => "rate_limit_error",
        1001 => "timeout_error",
        1026 | 1027 | 1042 | 1043 | 1044 | 2013 | 2037 | 2039 | 2048 => "invalid_request_error",
        2038 | 2042 => "permission_error",
        _ => "api_error",
    }
}

/// Chunks for clients of chat.
pub(super) struct CheckedChunks {
    slug: &'static str,
    chunks: ChunkGrammar,
}

impl CheckedChunks {
    pub(super) fn new(slug: &'static str, call: &Call<'_>) -> Self {
        Self { slug, chunks: ChunkGrammar::new(slug, call) }
    }
}

/// What is like an event that told of no trouble, and passes unread, tells of none.
impl Grammar for CheckedChunks {
    fn read(&mut self, event: &[u8], seen: &mut ReplyStreamState) -> EventVerdict {
        let told = sse::data(event).and_then(|data| trouble(&data));
        match told {
            Some(trouble) => EventVerdict::Fail(trouble.render(self.slug, trouble.status(), Dialect::OpenAi)),
            None => self.chunks.read(event, seen),
        }
    }

    fn error(&self, failure: &Failure) -> Bytes {
        self.chunks.error(failure)
    }

    fn dialect(&self) -> Dialect {
        self.chunks.dialect()
    }

    fn errors_pass(&self) -> bool {
        false
    }

    fn end(&self) -> Option<Bytes> {
        self.chunks.end()
    }
}

/// Steps for clients of other dialects.
pub(super) struct CheckedReader<R>(pub(super) R);

impl<R: EventReader> EventReader for CheckedReader<R> {
    fn event<'a>(&mut self, data: &'a [u8], steps: &mut Vec<ResponseEvent<'a>>) -> Result<(), EventError> {
        match trouble(data) {
            Some(trouble) => Err(EventError::trouble(trouble)),
            None => self.0.event(data, steps),
        }
    }

    fn close(&mut self, steps: &mut Vec<ResponseEvent<'static>>) {
        self.0.close(steps);
    }

    fn usage(&self) -> Option<Usage> {
        self.0.usage()
    }

    fn model(&self) -> Option<&str> {
        self.0.model()
    }
}
