//! Bedrock's own API, passed through untouched: usage is read beside the bytes, of Converse and of models that answer
//! as Anthropic's do.

use super::stream::unwrap;
use crate::adapter::{Call, Ending, Failure, Progress, Reply, StreamTranslator};
use crate::convert::steps::from_converse::ConverseReader;
use crate::convert::steps::from_messages::MessageReader;
use crate::frames::{FrameKind, Frames};
use crate::passthrough::ReplyStreamState;
use crate::raw;
use crate::translate::EventReader;
use crate::wire::read;
use crate::wire::usage::{AnthropicUsage, ConverseUsage};
use bytes::Bytes;
use gateway_domain::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct BedrockReplySummary<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    /// Tokens of the input, as Titan's embedding models tell them.
    #[serde(rename = "inputTextTokenCount")]
    embedded: Option<u64>,
}

pub(super) fn response(call: &Call<'_>, body: &Bytes) -> Reply {
    let said = read::<BedrockReplySummary<'_>>(body);
    let embedded = said.as_ref().and_then(|s| s.embedded).map(|input| Usage { input, ..Usage::default() });
    let usage = said.and_then(|s| s.usage).map(|raw| raw.get().as_bytes());
    let converse = usage.and_then(|u| read::<ConverseUsage>(u)?.split());
    let claude = || usage.and_then(|u| read::<AnthropicUsage>(u)?.split());
    let reply = raw::response(call, body);
    Reply { usage: converse.or_else(claude).or(embedded).or(reply.usage), ..reply }
}

pub(super) struct Overheard {
    frames: Frames,
    converse: ConverseReader,
    claude: MessageReader,
    seen: ReplyStreamState,
    /// What came is no stream of frames; nothing more is read.
    deaf: bool,
}

impl Overheard {
    pub(super) fn new() -> Self {
        let (converse, claude) = (ConverseReader::new(None), MessageReader::default());
        Self { frames: Frames::default(), converse, claude, seen: ReplyStreamState::new(), deaf: false }
    }

    fn hear(&mut self) {
        loop {
            let frame = match self.frames.next_frame() {
                Ok(Some(frame)) if frame.kind == FrameKind::Event => frame,
                Ok(Some(_)) => continue,
                Ok(None) => return,
                Err(_) => {
                    self.deaf = true;
                    return;
                }
            };
            let wrapped = (frame.name == "chunk").then(|| unwrap(&frame)).flatten();
            let mut steps = Vec::new();
            // What is not understood is not counted.
            let _ = match &wrapped {
                Some(data) => self.claude.event(data, &mut steps),
                None => self.converse.named(&frame.name, &frame.payload, &mut steps),
            };
            steps.iter().filter_map(|step| step.said()).for_each(|text| self.seen.said.push(text));
        }
    }
}

impl StreamTranslator for Overheard {
    fn push(&mut self, chunk: Bytes) -> Result<Bytes, Failure> {
        if self.seen.quiet() && !chunk.is_empty() {
            self.seen.begin();
        }
        if !self.deaf {
            self.frames.push(&chunk);
            self.hear();
        }
        Ok(chunk)
    }

    fn progress(&self) -> Progress {
        self.seen.progress
    }

    /// There is no end mark to wait for: the end of the body is the end.
    fn finish(&mut self) -> Bytes {
        self.seen.progress = Progress::Complete;
        Bytes::new()
    }

    /// An error has no place among frames that are not ours: the body just ends early.
    fn abort(&mut self, _failure: &Failure) -> Bytes {
        Bytes::new()
    }

    fn ending(&self) -> Ending {
        let claude = self.claude.usage();
        let uncounted = claude.is_some() && self.claude.uncounted();
        let model = self.claude.model().map(str::to_owned);
        Ending { usage: self.converse.usage().or(claude), uncounted, model, ..self.seen.ending() }
    }

    fn said_chars(&self) -> u64 {
        self.seen.said.chars()
    }

    fn held(&self) -> usize {
        self.frames.held()
    }
}
