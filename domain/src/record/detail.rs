//! What records have that is not the same for all of them: a call of a model, a call of a tool or an agent, and a batch
//! that is over have nothing in common here. Which of them a record is follows from its operation.

use super::{CacheStatus, LogRecord, RealtimeNote, RecordedPrompt};
use crate::money::NanoUsd;
use crate::price::PriceCard;
use crate::usage::Usage;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use std::sync::Arc;

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// A call of a provider, whatever it was asked for, and what clients tell of their own.
    Llm,
    /// A call of an MCP server or of an agent.
    Tool,
    /// A batch as a whole, once it is over; its lines have records of their own.
    Batch,
}

impl RecordKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Llm => "llm",
            Self::Tool => "tool",
            Self::Batch => "batch",
        }
    }

    /// The kind that the name of an operation stands for; names of older and newer programs are read as well.
    pub fn of(operation: &str) -> Self {
        match operation {
            "batch" => Self::Batch,
            name if name.starts_with("mcp.") || name.starts_with("a2a.") => Self::Tool,
            _ => Self::Llm,
        }
    }
}

/// Calls of models lie in the record itself: they are nearly all there are.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a record is one piece of memory")]
pub enum Detail {
    Llm(LlmDetail),
    Tool(ToolDetail),
    /// `None`: the record is older than this form of it, and tells in its metadata what became of the batch.
    Batch(Option<Box<BatchDetail>>),
}

/// What only a call of a provider has.
#[derive(Clone, Debug, PartialEq)]
pub struct LlmDetail {
    /// `None`: the request was no call of a saved prompt.
    pub prompt: Option<Arc<RecordedPrompt>>,
    /// Model name that the provider answered with, when it differs.
    pub response_model: Option<SmolStr>,
    pub usage: Option<Usage>,
    /// What an answer from the cache would have cost; filled by the writer.
    pub saved: Option<NanoUsd>,
    /// The price of this target where it is not what everybody pays; for the writer, not stored.
    pub card: Option<PriceCard>,
    /// Standard fields dropped or clamped in translation, comma-separated.
    pub adjusted: SmolStr,
    /// Tries after the first on this target that ended in success, -1 when all were used up.
    pub retries: i32,
    /// A hit costs nothing, whatever its usage says.
    pub cache: CacheStatus,
    /// `None` where it is of no realtime session.
    pub realtime: Option<Arc<RealtimeNote>>,
}

/// What every other record says of these.
static NONE: LlmDetail = LlmDetail::NONE;

impl LlmDetail {
    pub const NONE: Self = Self {
        prompt: None,
        response_model: None,
        usage: None,
        saved: None,
        card: None,
        adjusted: SmolStr::new_static(""),
        retries: 0,
        cache: CacheStatus::Disabled,
        realtime: None,
    };
}

impl From<LlmDetail> for Detail {
    fn from(llm: LlmDetail) -> Self {
        Self::Llm(llm)
    }
}

impl Default for LlmDetail {
    fn default() -> Self {
        Self::NONE
    }
}

/// What a call of a tool or an agent has beside its record's envelope, where the server stands in place of a managed
/// provider and the tool in place of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolDetail {
    /// How the task of an agent stood, of calls that are about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_state: Option<SmolStr>,
}

/// What became of a batch. Tokens and money are those of its lines, whose records have them too: they are told here and
/// counted there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchDetail {
    /// How the batch ended, in the words of its own document: `completed`, `failed`, `expired` or `cancelled`.
    pub status: SmolStr,
    /// Where its lines went.
    pub endpoint: SmolStr,
    pub lines: u64,
    pub completed: u64,
    pub failed: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost: NanoUsd,
}

impl Detail {
    /// Nothing is known yet.
    pub fn blank(kind: RecordKind) -> Self {
        match kind {
            RecordKind::Llm => Self::Llm(LlmDetail::NONE),
            RecordKind::Tool => Self::Tool(ToolDetail::default()),
            RecordKind::Batch => Self::Batch(None),
        }
    }

    pub const fn kind(&self) -> RecordKind {
        match self {
            Self::Llm(_) => RecordKind::Llm,
            Self::Tool(_) => RecordKind::Tool,
            Self::Batch(_) => RecordKind::Batch,
        }
    }
}

/// What was done, and what only records of its kind tell of it. The two cannot be set apart from each other, so that no
/// record has the name of one kind and the detail of another.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedOperation {
    name: &'static str,
    detail: Detail,
}

impl RecordedOperation {
    /// A call of a model that nobody knows yet.
    pub const NONE: Self = Self { name: "", detail: Detail::Llm(LlmDetail::NONE) };

    /// The detail is to be of the kind that the name says; of another one nothing is kept.
    pub fn new(name: &'static str, detail: impl Into<Detail>) -> Self {
        let (kind, detail) = (RecordKind::of(name), detail.into());
        debug_assert_eq!(kind, detail.kind(), "the detail of {name}");
        if kind == detail.kind() { Self { name, detail } } else { Self::blank(name) }
    }

    /// Nothing is known of it yet.
    pub fn blank(name: &'static str) -> Self {
        Self { name, detail: Detail::blank(RecordKind::of(name)) }
    }

    pub const fn name(&self) -> &'static str {
        self.name
    }

    pub const fn detail(&self) -> &Detail {
        &self.detail
    }

    pub const fn kind(&self) -> RecordKind {
        self.detail.kind()
    }

    /// Another name for what was done. The detail stays where it is one of that kind, and is blank else.
    pub fn rename(&mut self, name: &'static str) {
        let kind = RecordKind::of(name);
        if kind != self.kind() {
            self.detail = Detail::blank(kind);
        }
        self.name = name;
    }

    pub const fn llm(&self) -> Option<&LlmDetail> {
        match &self.detail {
            Detail::Llm(llm) => Some(llm),
            Detail::Tool(_) | Detail::Batch(_) => None,
        }
    }

    pub const fn llm_mut(&mut self) -> Option<&mut LlmDetail> {
        match &mut self.detail {
            Detail::Llm(llm) => Some(llm),
            Detail::Tool(_) | Detail::Batch(_) => None,
        }
    }
}

impl LogRecord {
    pub const fn llm(&self) -> Option<&LlmDetail> {
        self.operation.llm()
    }

    pub const fn llm_mut(&mut self) -> Option<&mut LlmDetail> {
        self.operation.llm_mut()
    }

    /// What is known of the call of a model; for other records as if nothing were known, for whoever shows or stores
    /// all of them alike.
    pub fn llm_or_none(&self) -> &LlmDetail {
        self.llm().unwrap_or(&NONE)
    }

    /// What was used of a model.
    pub const fn usage(&self) -> Option<&Usage> {
        match self.llm() {
            Some(llm) => llm.usage.as_ref(),
            None => None,
        }
    }

    /// The slug of the saved prompt that the request came from.
    pub fn prompt_slug(&self) -> Option<&SmolStr> {
        self.llm()?.prompt.as_deref().map(|prompt| &prompt.slug)
    }

    pub fn cache(&self) -> CacheStatus {
        self.llm().map_or(CacheStatus::Disabled, |llm| llm.cache)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;

    #[test]
    fn the_kind_follows_from_the_operation() {
        let kind = |operation: Operation| RecordKind::of(operation.name());
        for operation in [Operation::ChatCompletions, Operation::CreateBatch, Operation::Finetune, Operation::Proxy] {
            assert_eq!(kind(operation), RecordKind::Llm, "{}", operation.name());
        }
        for operation in [Operation::McpSession, Operation::McpCallTool, Operation::A2aCard, Operation::A2aOlderSend] {
            assert_eq!(kind(operation), RecordKind::Tool, "{}", operation.name());
        }
        assert_eq!((kind(Operation::Batch), RecordKind::of("log")), (RecordKind::Batch, RecordKind::Llm));
        let kinds = [RecordKind::Llm, RecordKind::Tool, RecordKind::Batch];
        assert!(kinds.iter().all(|kind| Detail::blank(*kind).kind() == *kind));
    }

    #[test]
    fn a_name_of_another_kind_takes_no_detail_along() {
        let known = LlmDetail { retries: 2, ..LlmDetail::NONE };
        let mut operation = RecordedOperation::new("messages", known.clone());
        operation.rename("chatCompletions");
        assert_eq!((operation.name(), operation.llm()), ("chatCompletions", Some(&known)));
        operation.rename("mcp.tools/call");
        assert_eq!((operation.kind(), operation.llm()), (RecordKind::Tool, None));
        operation.rename("batch");
        assert_eq!(operation, RecordedOperation::blank("batch"));
        operation.rename("messages");
        assert_eq!(operation.llm(), Some(&LlmDetail::NONE));
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "the detail of batch")]
    fn a_detail_of_another_kind_is_a_mistake() {
        RecordedOperation::new("batch", LlmDetail::NONE);
    }

    /// A record is one piece of memory that crosses threads: kinds that are few take no room in the others.
    #[test]
    fn other_kinds_do_not_make_records_larger() {
        assert_eq!(size_of::<Detail>(), size_of::<LlmDetail>());
        assert!(size_of::<LogRecord>() <= 928, "{}", size_of::<LogRecord>());
    }
}
