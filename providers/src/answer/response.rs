//! Writes steps as a response of OpenAI's Responses API: items that open, grow and close, each event numbered. The
//! last event holds the whole response, so a whole answer is that event's content.

mod echo;
mod events;
mod items;

use super::{Aside, ReplyContext, ResponseEvent};
use crate::adapter::{Call, Failure};
use crate::failure::ProviderError;
use crate::opaque::OpaqueKind;
use crate::tap::TextPlace;
use crate::wire::usage::ResponseUsage;
use bytes::{Bytes, BytesMut};
use events::{NumberedEvents, ResponseDelta};
use gateway_domain::Usage;
use items::{OpenItem, OpenItemBody, OpenItemPart};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(crate) struct ResponsesWriter {
    frame: ReplyContext,
    /// What the client asked, as far as a response repeats it.
    echo: Map<String, Value>,
    id: String,
    model: String,
    started: bool,
    /// Closed items by their place.
    output: BTreeMap<u64, Value>,
    /// Items that may still grow, with their place in the output; several only while calls are made in parallel.
    open: Vec<(u64, OpenItem)>,
    items: u64,
    status: Option<&'static str>,
    why: Option<&'static str>,
    usage: Option<Usage>,
    error: Option<Value>,
    events: NumberedEvents,
}

impl ResponsesWriter {
    pub(super) fn new(frame: ReplyContext, call: &Call<'_>) -> Self {
        Self {
            frame,
            echo: echo::of(call.body, call.keeps),
            id: frame.made_id("resp", 0),
            model: String::new(),
            started: false,
            output: BTreeMap::new(),
            open: Vec::new(),
            items: 0,
            status: None,
            why: None,
            usage: None,
            error: None,
            events: NumberedEvents::default(),
        }
    }

    /// A response that is sent whole, so that nobody hears its events.
    pub(super) fn unheard(frame: ReplyContext, call: &Call<'_>) -> Self {
        Self { events: NumberedEvents::unheard(), ..Self::new(frame, call) }
    }

    pub(super) fn drain(&mut self, out: &mut BytesMut, texts: &mut Vec<TextPlace>) {
        self.events.drain(out, texts);
    }

    pub(super) fn whole(self) -> Bytes {
        self.response().to_string().into()
    }

    pub(super) fn take(&mut self, step: &ResponseEvent<'_>) {
        if let ResponseEvent::Open { model, .. } = step {
            return self.start(model.as_deref());
        }
        if !self.started {
            self.start(None);
        }
        match step {
            ResponseEvent::Open { .. } | ResponseEvent::Choice(_) | ResponseEvent::Sources(_) => {}
            ResponseEvent::Text { block, text } => self.say(*block, text, false),
            ResponseEvent::Refusal { block, text } => self.say(*block, text, true),
            ResponseEvent::Logprobs { block, content } => self.logprobs(*block, content),
            ResponseEvent::Reasoning { block, text } => self.reason(*block, text),
            ResponseEvent::Aside { block, aside } => self.aside(*block, aside),
            ResponseEvent::ToolOpen { call, id, name, signature } => self.call(*call, id, name, signature.as_deref()),
            ResponseEvent::ToolArguments { call, fragment } => self.argue(*call, fragment),
            ResponseEvent::Finish { standard, .. } => self.finish(standard),
            ResponseEvent::End { usage } => self.end(*usage),
        }
    }

    fn start(&mut self, model: Option<&str>) {
        self.started = true;
        self.model = model.unwrap_or_default().to_owned();
        if self.events.are_unheard() {
            return;
        }
        let response = json!({ "response": self.response() });
        self.event("response.created", response.clone());
        self.event("response.in_progress", response);
    }

    fn event(&mut self, kind: &'static str, fields: Value) {
        self.events.write(kind, fields);
    }

    fn response(&self) -> Value {
        let mut response = self.echo.clone();
        let status = self.status.unwrap_or("in_progress");
        let details = self.why.map(|why| json!({ "reason": why }));
        let usage = self.usage.as_ref().map(ResponseUsage::new);
        let own = json!({
            "id": self.id, "object": "response", "created_at": self.frame.created(), "status": status,
            "error": self.error, "incomplete_details": details, "model": self.model, "output": self.output.values().collect::<Vec<_>>(),
            "provider": self.frame.provider, "usage": usage,
        });
        if let Value::Object(own) = own {
            response.extend(own);
        }
        if self.status == Some("completed") {
            response.insert("completed_at".to_owned(), self.frame.created().into());
        }
        Value::Object(response)
    }

    fn open(&mut self, body: OpenItemBody) -> u64 {
        let index = self.items;
        self.items += 1;
        let item = OpenItem { id: self.frame.made_id(body.prefix(), index), body };
        self.event("response.output_item.added", json!({ "output_index": index, "item": item.shown(true) }));
        self.open.push((index, item));
        index
    }

    /// Closes what stands open, but for calls whose arguments are still coming unless `all`.
    fn close(&mut self, all: bool) {
        let (keep, done): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(|(_, item)| !all && item.grows());
        self.open = keep;
        for (index, mut item) in done {
            self.settle(index, &mut item);
            let shown = item.shown(false);
            self.event("response.output_item.done", json!({ "output_index": index, "item": shown }));
            self.output.insert(index, shown);
        }
    }

    /// The events that say an item's text, summary or arguments are whole.
    fn settle(&mut self, index: u64, item: &mut OpenItem) {
        let at = |more: Value| placed(&item.id, index, more);
        match &item.body {
            OpenItemBody::Message { parts } => {
                if let Some(part) = parts.last() {
                    self.close_part(index, &item.id, parts.len() - 1, part);
                }
            }
            OpenItemBody::Reasoning { text, .. } if !text.is_empty() => {
                let part = json!({ "type": "summary_text", "text": text });
                let done = at(json!({ "summary_index": 0, "text": text }));
                self.event("response.reasoning_summary_text.done", done);
                let done = at(json!({ "summary_index": 0, "part": part }));
                self.event("response.reasoning_summary_part.done", done);
            }
            OpenItemBody::Reasoning { .. } => {}
            OpenItemBody::Call { arguments, name, .. } => {
                let done = at(json!({ "name": name, "arguments": arguments }));
                self.event("response.function_call_arguments.done", done);
            }
        }
    }

    fn close_part(&mut self, index: u64, id: &str, content_index: usize, part: &OpenItemPart) {
        let at = |more: Value| placed(id, index, merged(json!({ "content_index": content_index }), more));
        let (kind, done) = if part.refusal {
            ("response.refusal.done", json!({ "refusal": part.text }))
        } else {
            ("response.output_text.done", json!({ "text": part.text, "logprobs": part.logprobs }))
        };
        self.event(kind, at(done));
        self.event("response.content_part.done", at(json!({ "part": part.shown() })));
    }

    /// The open message with `part` of this block as its last; makes what is missing.
    fn part(&mut self, block: u64, refusal: bool) {
        let message = self.open.last().map(|(index, item)| (*index, item));
        if let Some((_, OpenItem { body: OpenItemBody::Message { parts }, .. })) = message
            && parts.last().is_some_and(|part| part.block == block && part.refusal == refusal)
        {
            return;
        }
        let (index, id, count, last) = match message {
            Some((index, OpenItem { id, body: OpenItemBody::Message { parts } })) => {
                (index, id.clone(), parts.len(), parts.last().cloned())
            }
            _ => {
                self.close(true);
                let index = self.open(OpenItemBody::Message { parts: Vec::new() });
                let id = self.open.last().map(|(_, item)| item.id.clone()).unwrap_or_default();
                (index, id, 0, None)
            }
        };
        if let Some(last) = &last {
            self.close_part(index, &id, count - 1, last);
        }
        let part = OpenItemPart { block, refusal, ..OpenItemPart::default() };
        let added = json!({ "content_index": count, "part": part.shown() });
        self.event("response.content_part.added", placed(&id, index, added));
        if let Some((_, OpenItem { body: OpenItemBody::Message { parts }, .. })) = self.open.last_mut() {
            parts.push(part);
        }
    }

    /// What events about the last part say, and the part itself.
    fn last_part(&mut self) -> Option<(Value, &mut OpenItemPart)> {
        let (index, OpenItem { id, body: OpenItemBody::Message { parts } }) = self.open.last_mut()? else {
            return None;
        };
        let at = placed(id, *index, json!({ "content_index": parts.len().saturating_sub(1) }));
        parts.last_mut().map(|part| (at, part))
    }

    fn say(&mut self, block: u64, text: &str, refusal: bool) {
        self.part(block, refusal);
        let Some((index, OpenItem { id, body: OpenItemBody::Message { parts } })) = self.open.last_mut() else {
            return;
        };
        let Some(place) = parts.len().checked_sub(1) else { return };
        parts[place].text.push_str(text);
        let delta = if refusal { ResponseDelta::Refusal } else { ResponseDelta::Text };
        self.events.delta(delta, (id, *index), place as u64, text);
    }

    fn logprobs(&mut self, block: u64, content: &RawValue) {
        let new: Vec<Value> = serde_json::from_str(content.get()).unwrap_or_default();
        let Some((at, part)) = self.last_part().filter(|(_, part)| part.block == block) else { return };
        part.logprobs.extend(new.iter().cloned());
        self.event("response.output_text.delta", merged(at, json!({ "delta": "", "logprobs": new })));
    }

    fn cite(&mut self, block: u64, citation: &RawValue) {
        self.part(block, false);
        let Some((at, part)) = self.last_part() else { return };
        let Some(annotation) = items::annotation(citation, &part.text) else { return };
        let number = part.annotations.len();
        part.annotations.push(annotation.clone());
        let added = merged(at, json!({ "annotation_index": number, "annotation": annotation }));
        self.event("response.output_text.annotation.added", added);
    }

    /// The open reasoning item of this block; makes it.
    fn reasoning(&mut self, block: u64) {
        let same = |item: &OpenItem| matches!(item.body, OpenItemBody::Reasoning { block: b, .. } if b == block);
        if !self.open.last().is_some_and(|(_, item)| same(item)) {
            self.close(true);
            self.open(OpenItemBody::Reasoning { block, text: String::new(), encrypted: None });
        }
    }

    fn reason(&mut self, block: u64, more: &str) {
        self.reasoning(block);
        let Some((index, OpenItem { id, body: OpenItemBody::Reasoning { text, .. } })) = self.open.last_mut() else {
            return;
        };
        if text.is_empty() {
            let part = json!({ "summary_index": 0, "part": { "type": "summary_text", "text": "" } });
            self.events.write("response.reasoning_summary_part.added", placed(id, *index, part));
        }
        text.push_str(more);
        self.events.delta(ResponseDelta::Summary, (id, *index), 0, more);
    }

    fn aside(&mut self, block: u64, aside: &Aside<'_>) {
        match aside {
            Aside::Signature(signature) => self.seal(block, OpaqueKind::Signature, signature),
            Aside::Redacted(data) => self.seal(block, OpaqueKind::Redacted, data),
            Aside::Citation(citation) => self.cite(block, citation),
            // Only a tool of the provider's own makes these, and this dialect has no way to ask for one.
            Aside::Block(_) | Aside::Input(_) => {}
        }
    }

    fn seal(&mut self, block: u64, kind: OpaqueKind, text: &str) {
        self.reasoning(block);
        let stamped = self.frame.stamp(kind, text);
        if let Some((_, OpenItem { body: OpenItemBody::Reasoning { encrypted, .. }, .. })) = self.open.last_mut() {
            *encrypted = Some(stamped);
        }
    }

    fn call(&mut self, call: u64, id: &str, name: &str, signature: Option<&str>) {
        if let Some(signature) = signature {
            // The signature gets a reasoning item of its own, since a call has no place for it.
            self.close(false);
            let encrypted = Some(self.frame.stamp(OpaqueKind::Call, signature));
            self.open(OpenItemBody::Reasoning { block: u64::MAX, text: String::new(), encrypted });
        }
        self.close(false);
        let (call_id, name) = (id.to_owned(), name.to_owned());
        self.open(OpenItemBody::Call { call, call_id, name, arguments: String::new() });
    }

    fn argue(&mut self, call: u64, fragment: &str) {
        let open = self.open.iter_mut().find_map(|(index, item)| match &mut item.body {
            OpenItemBody::Call { call: c, arguments, .. } if *c == call => Some((*index, &item.id, arguments)),
            _ => None,
        });
        let Some((index, id, arguments)) = open else { return };
        arguments.push_str(fragment);
        self.events.delta(ResponseDelta::Arguments, (id, index), 0, fragment);
    }

    fn finish(&mut self, standard: &str) {
        self.why = match standard {
            "length" => Some("max_output_tokens"),
            "content_filter" => Some("content_filter"),
            _ => None,
        };
    }

    fn end(&mut self, usage: Option<Usage>) {
        self.close(true);
        self.usage = usage;
        let (status, kind) = match self.why {
            None => ("completed", "response.completed"),
            Some(_) => ("incomplete", "response.incomplete"),
        };
        self.status = Some(status);
        if !self.events.are_unheard() {
            let response = self.response();
            self.event(kind, json!({ "response": response }));
        }
    }

    /// The stream broke. `error` is what SDKs raise on, `response.failed` is how the life of a response ends.
    pub(super) fn fail(&mut self, failure: &Failure) {
        if !self.started {
            self.start(None);
        }
        let t = ProviderError::read(&failure.body).unwrap_or_default();
        let code = t.code.as_str().map(str::to_owned).or(t.kind).unwrap_or_else(|| "server_error".to_owned());
        self.event("error", json!({ "code": code, "message": t.message, "param": t.param }));
        self.status = Some("failed");
        self.error = Some(json!({ "code": code, "message": t.message }));
        let response = self.response();
        self.event("response.failed", json!({ "response": response }));
    }
}

fn placed(id: &str, index: u64, more: Value) -> Value {
    merged(json!({ "item_id": id, "output_index": index }), more)
}

fn merged(mut all: Value, more: Value) -> Value {
    if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
        all.extend(more);
    }
    all
}
