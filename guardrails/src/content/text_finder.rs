//! Where the texts of each shape of body stand. A key that stands twice is looked at twice, so that no reader of the
//! body sees a text that no check saw.

use super::tape::TapeNode;
use super::{BodyShape, Direction, JsonKind, MessageRole, Scan, Tape, TextLocation, TextPart};
use bytes::Bytes;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Texts of one body; more are refused rather than left unseen.
const MOST_PARTS: usize = 200_000;

#[derive(Debug, Default)]
pub(super) struct FoundTexts {
    pub(super) parts: Vec<TextPart>,
    pub(super) has_tool_calls: bool,
    pub(super) last: Option<u32>,
    pub(super) last_user: Option<u32>,
    group: u32,
    too_many: bool,
}

pub(super) fn find(body: &Bytes, shape: BodyShape, direction: Direction) -> Result<FoundTexts, &'static str> {
    let mut found = FoundTexts::default();
    if shape == BodyShape::Opaque || (shape, direction) == (BodyShape::Transcript, Direction::Input) {
        return Ok(found);
    }
    let text = std::str::from_utf8(body).map_err(|_| "is no UTF-8")?;
    let tape = Tape::parse(text)?;
    let Some(root) = tape.root() else { return Err("is no JSON") };
    match (direction, shape) {
        (Direction::Input, BodyShape::Chat) => found.messages(root),
        (Direction::Input, BodyShape::Messages) => {
            found.system(root, "system");
            found.messages(root);
        }
        (Direction::Input, BodyShape::Completions) => found.plain(root, &["prompt", "suffix"]),
        (Direction::Input, BodyShape::Embeddings) => found.plain(root, &["input"]),
        (Direction::Input, BodyShape::Responses) => {
            found.system(root, "instructions");
            found.items(root, "input");
            found.variables(root);
        }
        (Direction::Input, BodyShape::Area) => found.area(root),
        (Direction::Input, BodyShape::Unknown) => found.any_request(root),
        (Direction::Output, BodyShape::Chat | BodyShape::Completions) => found.choices(root),
        (Direction::Output, BodyShape::Messages) => found.blocks_of(root, MessageRole::Assistant),
        (Direction::Output, BodyShape::Responses) => found.items(root, "output"),
        (Direction::Output, BodyShape::Transcript) => found.read_out(root),
        (Direction::Output, BodyShape::Unknown) => found.any_answer(root),
        (Direction::Output, BodyShape::Embeddings | BodyShape::Area)
        | (Direction::Input, BodyShape::Transcript)
        | (_, BodyShape::Opaque) => {}
    }
    if found.too_many { Err("has too many texts to be looked through") } else { Ok(found) }
}

/// Who said a message. Where it has two roles the user's counts: what may be the user's words is judged as such.
fn role_of(node: TapeNode<'_>) -> MessageRole {
    let role = |value: TapeNode<'_>| match value.text().as_deref() {
        Some("system" | "developer") => MessageRole::System,
        Some("assistant" | "model") => MessageRole::Assistant,
        Some("tool" | "function") => MessageRole::Tool,
        _ => MessageRole::User,
    };
    node.all("role").map(role).reduce(|a, b| if a == MessageRole::User { a } else { b }).unwrap_or(MessageRole::User)
}

/// Each sort that a part or an item is said to be.
fn types_of(node: TapeNode<'_>) -> Vec<String> {
    let mut types: Vec<String> = node.all("type").filter_map(TapeNode::text).map(Cow::into_owned).collect();
    types.sort_unstable();
    types.dedup();
    types
}

impl FoundTexts {
    fn add(&mut self, node: TapeNode<'_>, role: MessageRole, scan: Scan) {
        if let Some(text) = node.text() {
            self.push(role, scan, TextLocation { outer: node.span(), inner: None }, &text);
        }
    }

    fn push(&mut self, role: MessageRole, scan: Scan, place: TextLocation, text: &str) {
        if self.parts.len() >= MOST_PARTS {
            self.too_many = true;
            return;
        }
        self.parts.push(TextPart { group: self.group, role, scan, place, text: Arc::from(text) });
    }

    fn add_all(&mut self, node: TapeNode<'_>, key: &str, role: MessageRole, scan: Scan) {
        for value in node.all(key) {
            self.add(value, role, scan);
        }
    }

    /// One message is done; what comes is of the next.
    fn message_ends(&mut self, role: MessageRole) {
        self.last = Some(self.group);
        if role == MessageRole::User {
            self.last_user = Some(self.group);
        }
        self.group += 1;
    }

    /// A text beside the messages that sets how all of them are answered: never the last message.
    fn system(&mut self, root: TapeNode<'_>, key: &str) {
        for node in root.all(key) {
            self.text_or_parts(node, MessageRole::System);
            self.group += 1;
        }
    }

    fn messages(&mut self, root: TapeNode<'_>) {
        for messages in root.all("messages") {
            for message in messages.elements() {
                let role = role_of(message);
                self.blocks_of(message, role);
                self.message_ends(role);
            }
        }
    }

    /// A message's content, calls and reasoning, in the words of Chat and Messages alike.
    fn blocks_of(&mut self, message: TapeNode<'_>, role: MessageRole) {
        for (key, value) in message.members() {
            match &*key {
                "content" => self.text_or_parts(value, role),
                "refusal" => self.add(value, role, Scan::Text),
                "reasoning_content" | "reasoning" => self.add(value, role, Scan::Reasoning),
                "audio" => self.add_all(value, "transcript", role, Scan::Text),
                "tool_calls" => value.elements().for_each(|call| self.chat_call(call, role)),
                "function_call" => self.call(value, "arguments", role),
                "content_blocks" => value.elements().for_each(|block| self.block(block, role)),
                _ => {}
            }
        }
    }

    fn chat_call(&mut self, call: TapeNode<'_>, role: MessageRole) {
        self.has_tool_calls = true;
        for function in call.all("function") {
            self.call(function, "arguments", role);
        }
        for custom in call.all("custom") {
            self.call(custom, "input", role);
        }
    }

    /// Arguments are JSON as text, or an object. Strings within are texts; what is no JSON is one text.
    fn call(&mut self, node: TapeNode<'_>, key: &str, role: MessageRole) {
        if node.kind() != JsonKind::Object {
            return;
        }
        self.has_tool_calls = true;
        for arguments in node.all(key) {
            self.arguments(arguments, role);
        }
    }

    fn arguments(&mut self, node: TapeNode<'_>, role: MessageRole) {
        let Some(text) = node.text() else { return self.strings(node, role, None) };
        match Tape::parse(&text) {
            Ok(tape) => {
                if let Some(root) = tape.root() {
                    self.strings(root, role, Some(node.span()));
                }
            }
            Err(_) => self.push(role, Scan::Tool, TextLocation { outer: node.span(), inner: None }, &text),
        }
    }

    /// Every string value within `node`; `outer` is the string that holds it, if one does. Depth is bounded by the
    /// parser that found the body to be JSON.
    fn strings(&mut self, node: TapeNode<'_>, role: MessageRole, outer: Option<Range<usize>>) {
        match node.kind() {
            JsonKind::Text => {
                let place = match outer {
                    None => TextLocation { outer: node.span(), inner: None },
                    Some(outer) => TextLocation { outer, inner: Some(node.span()) },
                };
                self.push(role, Scan::Tool, place, &node.text().unwrap_or_default());
            }
            JsonKind::Array => node.elements().for_each(|n| self.strings(n, role, outer.clone())),
            JsonKind::Object => node.members().for_each(|(_, n)| self.strings(n, role, outer.clone())),
            JsonKind::Other => {}
        }
    }

    fn text_or_parts(&mut self, node: TapeNode<'_>, role: MessageRole) {
        match node.kind() {
            JsonKind::Text => self.add(node, role, Scan::Text),
            JsonKind::Array => node.elements().for_each(|block| self.block(block, role)),
            // One part without its list, which some readers take.
            JsonKind::Object => self.block(node, role),
            JsonKind::Other => {}
        }
    }

    fn block(&mut self, block: TapeNode<'_>, role: MessageRole) {
        if block.kind() == JsonKind::Text {
            return self.add(block, role, Scan::Text);
        }
        // Whatever it is said to be, a text in it may be read.
        self.add_all(block, "text", role, Scan::Text);
        for kind in types_of(block) {
            match kind.as_str() {
                "tool_use" | "server_tool_use" | "mcp_tool_use" => self.call(block, "input", role),
                "tool_result" | "mcp_tool_result" => {
                    block.all("content").for_each(|content| self.text_or_parts(content, role));
                }
                "thinking" => self.add_all(block, "thinking", role, Scan::Reasoning),
                "document" => self.document(block, role),
                "refusal" => self.add_all(block, "refusal", role, Scan::Text),
                _ => {}
            }
        }
    }

    /// A document that stands in the message as text; what is encoded is no text here.
    fn document(&mut self, block: TapeNode<'_>, role: MessageRole) {
        self.add_all(block, "title", role, Scan::Text);
        self.add_all(block, "context", role, Scan::Text);
        for source in block.all("source") {
            source.all("content").for_each(|content| self.text_or_parts(content, role));
            if types_of(source).iter().any(|t| t == "text") {
                self.add_all(source, "data", role, Scan::Text);
            }
        }
    }

    /// Texts without messages: one, or a list; numbers are tokens and no text.
    fn plain(&mut self, root: TapeNode<'_>, keys: &[&str]) {
        for value in keys.iter().flat_map(|key| root.all(key)) {
            self.add(value, MessageRole::User, Scan::Text);
            value.elements().for_each(|element| self.add(element, MessageRole::User, Scan::Text));
        }
        self.message_ends(MessageRole::User);
    }

    /// What is to be drawn, said, judged or looked for, and through what.
    fn area(&mut self, root: TapeNode<'_>) {
        for value in ["prompt", "input", "query", "documents"].iter().flat_map(|key| root.all(key)) {
            self.add(value, MessageRole::User, Scan::Text);
            self.add_all(value, "text", MessageRole::User, Scan::Text);
            for element in value.elements() {
                self.add(element, MessageRole::User, Scan::Text);
                self.add_all(element, "text", MessageRole::User, Scan::Text);
            }
        }
        self.message_ends(MessageRole::User);
    }

    /// Transcripts, and pages as they were read.
    fn read_out(&mut self, root: TapeNode<'_>) {
        self.add_all(root, "text", MessageRole::Assistant, Scan::Text);
        for segment in root.all("segments").flat_map(TapeNode::elements) {
            self.add_all(segment, "text", MessageRole::Assistant, Scan::Text);
        }
        for page in root.all("pages").flat_map(TapeNode::elements) {
            self.add_all(page, "markdown", MessageRole::Assistant, Scan::Text);
        }
        self.add_all(root, "document_annotation", MessageRole::Assistant, Scan::Text);
        self.message_ends(MessageRole::Assistant);
    }

    /// Items of Responses, in requests and in answers.
    fn items(&mut self, root: TapeNode<'_>, key: &str) {
        for list in root.all(key) {
            if list.kind() == JsonKind::Text {
                self.add(list, MessageRole::User, Scan::Text);
                self.message_ends(MessageRole::User);
                continue;
            }
            for item in list.elements() {
                let role = self.item(item);
                if key == "input" {
                    self.message_ends(role);
                }
            }
        }
    }

    fn item(&mut self, item: TapeNode<'_>) -> MessageRole {
        let mut role = role_of(item);
        let mut is_reasoning = false;
        for kind in types_of(item) {
            match kind.as_str() {
                "function_call" => self.call(item, "arguments", MessageRole::Assistant),
                "custom_tool_call" => self.call(item, "input", MessageRole::Assistant),
                "function_call_output" | "custom_tool_call_output" => {
                    item.all("output").for_each(|output| self.text_or_parts(output, MessageRole::Tool));
                    role = MessageRole::Tool;
                    continue;
                }
                "reasoning" => {
                    is_reasoning = true;
                    for part in ["summary", "content"].iter().flat_map(|key| item.all(key)).flat_map(TapeNode::elements)
                    {
                        self.add_all(part, "text", MessageRole::Assistant, Scan::Reasoning);
                    }
                }
                _ => continue,
            }
            role = MessageRole::Assistant;
        }
        if !is_reasoning || types_of(item).len() > 1 {
            item.all("content").for_each(|content| self.text_or_parts(content, role));
        }
        role
    }

    /// What is filled into a prompt that the provider keeps belongs to the last message.
    fn variables(&mut self, root: TapeNode<'_>) {
        let next = self.group;
        self.group = self.last.unwrap_or(next);
        for variables in root.all("prompt").flat_map(|prompt| prompt.all("variables").collect::<Vec<_>>()) {
            for (_, value) in variables.members() {
                self.text_or_parts(value, MessageRole::User);
            }
        }
        if self.last.is_none() {
            self.message_ends(MessageRole::User);
        } else {
            self.group = next;
        }
    }

    /// Each choice is a group of its own.
    fn choices(&mut self, root: TapeNode<'_>) {
        for choice in root.all("choices").flat_map(TapeNode::elements) {
            self.add_all(choice, "text", MessageRole::Assistant, Scan::Text);
            for message in choice.all("message") {
                self.blocks_of(message, MessageRole::Assistant);
            }
            self.group += 1;
        }
    }

    fn contents(&mut self, root: TapeNode<'_>) {
        for contents in root.all("contents") {
            let single = (contents.kind() == JsonKind::Object).then_some(contents);
            for content in contents.elements().chain(single) {
                let role = role_of(content);
                self.gemini_parts(content, role);
                self.message_ends(role);
            }
            if contents.kind() == JsonKind::Text {
                self.add(contents, MessageRole::User, Scan::Text);
                self.message_ends(MessageRole::User);
            }
        }
    }

    fn gemini_parts(&mut self, content: TapeNode<'_>, role: MessageRole) {
        for part in content.all("parts").flat_map(TapeNode::elements) {
            self.add_all(part, "text", role, Scan::Text);
            for call in part.all("functionCall") {
                self.call(call, "args", role);
            }
        }
    }

    fn any_request(&mut self, root: TapeNode<'_>) {
        for key in ["system", "instructions", "systemInstruction", "system_instruction"] {
            for node in root.all(key) {
                self.text_or_parts(node, MessageRole::System);
                self.gemini_parts(node, MessageRole::System);
                self.group += 1;
            }
        }
        self.messages(root);
        self.contents(root);
        if root.get("prompt").is_some() {
            self.plain(root, &["prompt", "suffix"]);
        }
        let objects = |list: TapeNode<'_>| list.elements().any(|e| e.kind() == JsonKind::Object);
        match root.get("input") {
            Some(input) if objects(input) => self.items(root, "input"),
            Some(_) => self.plain(root, &["input"]),
            None => {}
        }
    }

    fn any_answer(&mut self, root: TapeNode<'_>) {
        self.choices(root);
        self.blocks_of(root, MessageRole::Assistant);
        self.items(root, "output");
        for candidate in root.all("candidates").flat_map(TapeNode::elements) {
            for content in candidate.all("content") {
                self.gemini_parts(content, MessageRole::Assistant);
            }
            self.group += 1;
        }
    }
}
