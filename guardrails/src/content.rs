//! A request or an answer as guardrails see it: the texts inside it, each with the place where it stands, so that it
//! can be rewritten without touching another byte. Knows the shapes of bodies, and no check.

mod edit;
mod tape;
mod text_finder;

pub(crate) use edit::Rewrite;
pub(crate) use edit::{quoted, splice, with_last_member};
pub(crate) use tape::{JsonKind, Tape, TapeNode};

use bytes::Bytes;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// How a body is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyShape {
    Chat,
    Completions,
    Embeddings,
    Messages,
    Responses,
    /// Pictures, speech, moderations and rerank: what is asked for or looked through. Their answers have no text of a
    /// model's.
    Area,
    /// What was heard in a sound or read off pages; what was sent to be read is not looked into.
    Transcript,
    /// The body of a route that is passed through: text is found by the names of fields, and the body is never changed.
    Unknown,
    /// No JSON, or none that is read: checks that need text have none.
    Opaque,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Input,
    Output,
}

/// Who said a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageRole {
    System,
    User,
    Assistant,
    Tool,
}

/// What kind of text it is, as the parameter `scan` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scan {
    Text,
    Tool,
    Reasoning,
}

/// Where a text stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextLocation {
    /// The JSON string in the body, quotes included.
    pub(crate) outer: Range<usize>,
    /// The JSON string within the JSON that the outer one holds (arguments of tools).
    pub(crate) inner: Option<Range<usize>>,
}

#[derive(Clone, Debug)]
pub(crate) struct TextPart {
    /// The number of the message in a request, or of the choice in an answer.
    pub(crate) group: u32,
    pub(crate) role: MessageRole,
    pub(crate) scan: Scan,
    pub(crate) place: TextLocation,
    pub(crate) text: Arc<str>,
}

/// Which messages of a request are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MessageScope {
    #[default]
    LastMessage,
    LastUserMessage,
    UserMessages,
    AllMessages,
}

/// Which texts a check looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) scope: MessageScope,
    pub(crate) text: bool,
    pub(crate) tool: bool,
    pub(crate) reasoning: bool,
}

impl Selection {
    pub(crate) const TEXT: Self = Self { scope: MessageScope::LastMessage, text: true, tool: false, reasoning: false };
    pub(crate) const TEXT_AND_TOOL: Self = Self { tool: true, ..Self::TEXT };

    pub(crate) const fn takes(self, scan: Scan) -> bool {
        match scan {
            Scan::Text => self.text,
            Scan::Tool => self.tool,
            Scan::Reasoning => self.reasoning,
        }
    }
}

/// A body, and what is found in it by the first that asks. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Content(Arc<ContentInner>);

#[derive(Debug)]
struct ContentInner {
    body: Bytes,
    shape: BodyShape,
    direction: Direction,
    looked: OnceLock<LookedThrough>,
}

#[derive(Debug)]
struct LookedThrough {
    parts: Vec<TextPart>,
    /// The body is no JSON object, or too large to be looked through.
    unreadable: Option<&'static str>,
    /// Values that are no text but say something all the same: calls of tools.
    has_tool_calls: bool,
    /// The number of the last message, and of the last one of a user.
    last: Option<u32>,
    last_user: Option<u32>,
}

/// The texts of a choice, or of the chosen messages, as one.
#[derive(Clone, Debug)]
pub(crate) struct Joined {
    pub(crate) text: String,
    /// Positions in [`Content::parts`].
    pub(crate) parts: Vec<usize>,
}

impl Content {
    pub fn new(body: Bytes, shape: BodyShape, direction: Direction) -> Self {
        Self(Arc::new(ContentInner { body, shape, direction, looked: OnceLock::new() }))
    }

    fn looked(&self) -> &LookedThrough {
        let ContentInner { body, shape, direction, looked } = &*self.0;
        looked.get_or_init(|| {
            let (found, unreadable) = match text_finder::find(body, *shape, *direction) {
                Ok(found) => (found, None),
                Err(why) => (text_finder::FoundTexts::default(), Some(why)),
            };
            let text_finder::FoundTexts { parts, has_tool_calls, last, last_user, .. } = found;
            LookedThrough { parts, unreadable, has_tool_calls, last, last_user }
        })
    }

    pub fn body(&self) -> &Bytes {
        &self.0.body
    }

    pub fn shape(&self) -> BodyShape {
        self.0.shape
    }

    pub fn direction(&self) -> Direction {
        self.0.direction
    }

    pub(crate) fn parts(&self) -> &[TextPart] {
        &self.looked().parts
    }

    /// Why the body could not be looked through, which no check of text may pass over.
    pub(crate) fn unreadable(&self) -> Option<&'static str> {
        self.looked().unreadable
    }

    pub(crate) fn has_tool_calls(&self) -> bool {
        self.looked().has_tool_calls
    }

    /// Whether rewriting is possible at all.
    pub(crate) fn is_rewritable(&self) -> bool {
        !matches!(self.0.shape, BodyShape::Unknown | BodyShape::Opaque)
    }

    fn is_chosen(&self, part: &TextPart, selection: Selection) -> bool {
        if !selection.takes(part.scan) {
            return false;
        }
        if self.0.direction == Direction::Output {
            return true;
        }
        match selection.scope {
            MessageScope::LastMessage => Some(part.group) == self.looked().last,
            MessageScope::LastUserMessage => Some(part.group) == self.looked().last_user,
            MessageScope::UserMessages => part.role == MessageRole::User,
            MessageScope::AllMessages => true,
        }
    }

    /// Positions of the chosen parts, in the order in which they stand.
    pub(crate) fn chosen(&self, selection: Selection) -> Vec<usize> {
        let parts = self.looked().parts.iter().enumerate();
        parts.filter(|(_, p)| self.is_chosen(p, selection)).map(|(i, _)| i).collect()
    }

    /// What a check judges: of a request one text, of an answer one for each choice. Never empty: where there is
    /// no text, there is one empty text.
    pub(crate) fn joined(&self, selection: Selection) -> Vec<Joined> {
        let mut out: Vec<(u32, Joined)> = Vec::new();
        for at in self.chosen(selection) {
            let part = &self.looked().parts[at];
            let group = if self.0.direction == Direction::Input { 0 } else { part.group };
            match out.iter_mut().find(|(g, _)| *g == group) {
                Some((_, joined)) => {
                    joined.text.push('\n');
                    joined.text.push_str(&part.text);
                    joined.parts.push(at);
                }
                None => out.push((group, Joined { text: part.text.as_ref().to_owned(), parts: vec![at] })),
            }
        }
        if out.is_empty() {
            out.push((0, Joined { text: String::new(), parts: Vec::new() }));
        }
        out.into_iter().map(|(_, joined)| joined).collect()
    }

    /// The content with other texts in the places of some parts.
    pub(crate) fn with_texts(&self, texts: Vec<(usize, String)>) -> Self {
        let body = edit::with_texts(self, texts);
        Self::new(body, self.0.shape, self.0.direction)
    }

    pub(crate) fn with_body(&self, body: Bytes) -> Self {
        Self::new(body, self.0.shape, self.0.direction)
    }
}

#[cfg(test)]
mod tests;
