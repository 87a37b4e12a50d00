//! Chat messages in the making: parts, calls and results, put together as chat wants them.

use super::{Adjusted, ChatForm};
use crate::adapter::Call;
use crate::opaque::{self, OpaqueKind, Opened};
use crate::wire::JsonStr;
use crate::wire::tree::Tree;
use gateway_domain::{Fault, FaultKind};
use serde_json::value::RawValue;
use std::borrow::Cow;

pub(super) fn text<'a>(text: Cow<'a, str>) -> Tree<'a> {
    Tree::map([("type", Tree::text("text")), ("text", Tree::Text(text))])
}

pub(super) fn image<'a>(url: Cow<'a, str>, detail: Option<JsonStr<'a>>) -> Tree<'a> {
    let url = Tree::map([("url", Tree::Text(url))]).with("detail", detail.map(|d| Tree::Text(d.0)));
    Tree::map([("type", Tree::text("image_url")), ("image_url", url)])
}

pub(super) fn data_url(media_type: &str, data: &str) -> Cow<'static, str> {
    Cow::Owned(["data:", media_type, ";base64,", data].concat())
}

pub(super) fn file<'a>(key: &'static str, data: Cow<'a, str>, name: Option<Cow<'a, str>>) -> Tree<'a> {
    let file = Tree::map([(key, Tree::Text(data))]).with("filename", name.map(Tree::Text));
    Tree::map([("type", Tree::text("file")), ("file", file)])
}

/// The parts of one message: a lone text becomes a string, which every server reads.
#[derive(Debug, Default)]
pub(super) struct Parts<'a>(pub(super) Vec<BuiltPart<'a>>);

#[derive(Debug)]
pub(super) struct BuiltPart<'a> {
    /// The text, when it is nothing but text.
    pub(super) text: Option<Cow<'a, str>>,
    pub(super) tree: Option<Tree<'a>>,
    pub(super) cache_control: Option<&'a RawValue>,
}

impl<'a> Parts<'a> {
    pub(super) fn push_text(&mut self, text: Cow<'a, str>, cache_control: Option<&'a RawValue>) {
        self.0.push(BuiltPart { text: Some(text), tree: None, cache_control });
    }

    pub(super) fn push(&mut self, tree: Tree<'a>, cache_control: Option<&'a RawValue>) {
        self.0.push(BuiltPart { text: None, tree: Some(tree), cache_control });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes out what is no text, for messages that can hold nothing else.
    pub(super) fn take_others(&mut self) -> Self {
        let (others, texts) = std::mem::take(&mut self.0).into_iter().partition(|part| part.text.is_none());
        self.0 = texts;
        Self(others)
    }

    /// `joined`: texts alone become one string, lines between them. `None` when there is nothing.
    pub(super) fn content(self, joined: bool) -> Option<Tree<'a>> {
        let texts = self.0.iter().filter(|part| part.text.is_some() && part.cache_control.is_none()).count();
        let only_text = texts == self.0.len();
        let mut all = self.0;
        match all.len() {
            0 => None,
            1 if only_text => all.pop().and_then(|part| part.text).map(Tree::Text),
            _ if joined && only_text => {
                let texts: Vec<Cow<'a, str>> = all.into_iter().filter_map(|part| part.text).collect();
                Some(Tree::text(texts.join("\n")))
            }
            _ => Some(Tree::List(all.into_iter().filter_map(BuiltPart::whole).collect())),
        }
    }
}

impl<'a> BuiltPart<'a> {
    fn whole(self) -> Option<Tree<'a>> {
        let tree = self.tree.or_else(|| self.text.map(text))?;
        Some(tree.with("cache_control", self.cache_control.map(Tree::Raw)))
    }
}

/// An earlier answer in the making.
#[derive(Debug, Default)]
pub(super) struct AssistantMessageBuilder<'a> {
    pub(super) parts: Parts<'a>,
    pub(super) refusal: Option<Cow<'a, str>>,
    calls: Vec<Tree<'a>>,
    blocks: Vec<Tree<'a>>,
    /// Thinking without a signature.
    reasoning: String,
    /// Stood before the call that it belongs to.
    call_signature: Option<Cow<'a, str>>,
}

/// Reasoning of an earlier answer; `opaque` goes back to its maker only, and only with it the text.
pub(super) struct EarlierReasoning<'a> {
    pub(super) said: Cow<'a, str>,
    pub(super) opaque: Option<Cow<'a, str>>,
    /// Where it stands in the request.
    pub(super) field: &'static str,
}

impl<'a> AssistantMessageBuilder<'a> {
    pub(super) fn is_empty(&self) -> bool {
        let silent = self.parts.is_empty() && self.refusal.is_none();
        silent && self.calls.is_empty() && self.blocks.is_empty() && self.reasoning.is_empty()
    }

    pub(super) fn called(&self) -> bool {
        !self.calls.is_empty()
    }

    pub(super) fn say(&mut self, said: Cow<'a, str>, cache_control: Option<&'a RawValue>) {
        self.parts.push_text(said, cache_control);
    }

    pub(super) fn call(
        &mut self,
        (id, name): (Cow<'a, str>, Cow<'a, str>),
        arguments: Cow<'a, str>,
        cache_control: Option<&'a RawValue>,
    ) {
        let function = Tree::map([("name", Tree::Text(name)), ("arguments", Tree::Text(arguments))]);
        let call = Tree::map([("id", Tree::Text(id)), ("type", Tree::text("function")), ("function", function)]);
        let extra = self
            .call_signature
            .take()
            .map(|signature| Tree::map([("google", Tree::map([("thought_signature", Tree::Text(signature))]))]));
        let cache_control = cache_control.map(Tree::Raw);
        self.calls.push(call.with("extra_content", extra).with("cache_control", cache_control));
    }

    pub(super) fn reason(
        &mut self,
        earlier: EarlierReasoning<'a>,
        (call, room): (&Call<'_>, ChatForm),
        adjusted: &mut Adjusted,
    ) {
        let EarlierReasoning { said, opaque, field } = earlier;
        if room == ChatForm::OpenAi {
            return adjusted.note(field);
        }
        let thinking = |said: Cow<'a, str>, signature: Cow<'a, str>| {
            Tree::map([
                ("type", Tree::text("thinking")),
                ("thinking", Tree::Text(said)),
                ("signature", Tree::Text(signature)),
            ])
        };
        match opaque.map(|opaque| opaque::open(call.origin, opaque)) {
            Some(Opened::Own(OpaqueKind::Call, signature)) => self.call_signature = Some(signature),
            Some(Opened::Own(OpaqueKind::Redacted, data)) => {
                self.blocks.push(Tree::map([("type", Tree::text("redacted_thinking")), ("data", Tree::Text(data))]));
            }
            Some(Opened::Own(OpaqueKind::Signature, signature) | Opened::Bare(signature)) if !signature.is_empty() => {
                self.blocks.push(thinking(said, signature));
            }
            Some(Opened::Foreign) => adjusted.note(field),
            _ => self.reasoning.push_str(&said),
        }
    }

    /// Redacted thinking as a client of Messages sends it back.
    pub(super) fn redacted(
        &mut self,
        data: Cow<'a, str>,
        (call, room): (&Call<'_>, ChatForm),
        adjusted: &mut Adjusted,
    ) {
        if room == ChatForm::OpenAi {
            return adjusted.note("messages.redacted_thinking");
        }
        match opaque::open(call.origin, data) {
            Opened::Own(OpaqueKind::Call, signature) => self.call_signature = Some(signature),
            Opened::Own(_, data) | Opened::Bare(data) => {
                self.blocks.push(Tree::map([("type", Tree::text("redacted_thinking")), ("data", Tree::Text(data))]));
            }
            Opened::Foreign => adjusted.note("messages.redacted_thinking"),
        }
    }

    pub(super) fn message(self) -> Option<Tree<'a>> {
        if self.is_empty() {
            return None;
        }
        let content = self.parts.content(true);
        let mut message = Tree::map([("role", Tree::text("assistant"))]);
        if content.is_none() && self.calls.is_empty() && self.refusal.is_none() {
            message = message.with("content", Some(Tree::text("")));
        }
        let some = |list: Vec<Tree<'a>>| (!list.is_empty()).then_some(Tree::List(list));
        let reasoning = (!self.reasoning.is_empty()).then(|| Tree::text(self.reasoning));
        let message = message
            .with("content", content)
            .with("refusal", self.refusal.map(Tree::Text))
            .with("reasoning_content", reasoning)
            .with("content_blocks", some(self.blocks))
            .with("tool_calls", some(self.calls));
        Some(message)
    }
}

/// A result of a tool, and the message that must follow with what results cannot hold.
pub(super) fn result<'a>(
    id: Cow<'a, str>,
    mut parts: Parts<'a>,
    room: ChatForm,
    cache_control: Option<&'a RawValue>,
) -> (Tree<'a>, Parts<'a>) {
    // In OpenAI's own form a result is text alone.
    let others = if room == ChatForm::OpenAi { parts.take_others() } else { Parts::default() };
    if parts.is_empty() && !others.is_empty() {
        parts.push_text(Cow::Borrowed("See the next message for the result."), None);
    }
    let content = parts.content(room == ChatForm::OpenAi).unwrap_or_else(|| Tree::text(""));
    let message = Tree::map([("role", Tree::text("tool")), ("tool_call_id", Tree::Text(id)), ("content", content)]);
    (message.with("cache_control", cache_control.map(Tree::Raw)), others)
}

pub(super) fn user(parts: Parts<'_>) -> Option<Tree<'_>> {
    let content = parts.content(false)?;
    Some(Tree::map([("role", Tree::text("user")), ("content", content)]))
}

/// The request with its model in front, so that its place is known.
pub(super) fn finish(
    call: &Call<'_>,
    model: Option<Cow<'_, str>>,
    members: Vec<(&'static str, Tree<'_>)>,
    adjusted: Adjusted,
) -> Result<super::ChatRequestBody<'static>, Fault> {
    let internal = |e: serde_json::Error| Fault::new(FaultKind::Internal, e.to_string());
    let model = call.model.map(Cow::Borrowed).or(model);
    let rest = serde_json::to_vec(&Tree::Map(members)).map_err(internal)?;
    let (body, model_span) = match model {
        None => (rest, None),
        Some(model) => {
            let model = serde_json::to_string(&model).map_err(internal)?;
            let head = b"{\"model\":";
            let span = head.len()..head.len() + model.len();
            ([head, model.as_bytes(), b",", &rest[1..]].concat(), Some(span))
        }
    };
    Ok(super::ChatRequestBody { body: Cow::Owned(body.into()), model_span, adjusted: adjusted.0 })
}
