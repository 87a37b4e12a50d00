//! `addPrefix`: a text before the first message of a role. Changes requests only.

use super::BuiltJudge;
use crate::check::{Case, CheckError, CheckOutcome, Judge, JudgeStep};
use crate::content::{BodyShape, Content, JsonKind, Rewrite, Tape, TapeNode, quoted, splice, with_last_member};
use crate::parameters::Parameters;
use serde_json::json;

const LONGEST: usize = 64 * 1024;

#[derive(Debug)]
struct AddPrefix {
    prefix: String,
    role: &'static str,
    to_existing: bool,
    only_if_empty: bool,
}

pub(super) fn make(p: &Parameters<'_>) -> BuiltJudge {
    let prefix = p.required_text("prefix").to_owned();
    if prefix.len() > LONGEST {
        p.problem("prefix", format!("must have at most {LONGEST} bytes"));
    }
    let role = p.choice("applyToRole", &["user", "system", "assistant", "developer", "tool"]);
    let (to_existing, only_if_empty) = (p.flag("addToExisting", true), p.flag("onlyIfEmpty", false));
    Some(Box::new(AddPrefix { prefix, role, to_existing, only_if_empty }))
}

impl AddPrefix {
    /// The body with the prefix in it; `None` where nothing is to be changed.
    fn rewritten(&self, content: &Content) -> Option<String> {
        let body = std::str::from_utf8(content.body()).ok()?;
        let tape = Tape::parse(body).ok()?;
        let root = tape.root().filter(|r| r.kind() == JsonKind::Object)?;
        match content.shape() {
            BodyShape::Chat => self.messages(body, root, "messages"),
            BodyShape::Messages if self.role == "system" => self.beside(body, root, "system"),
            BodyShape::Messages => self.messages(body, root, "messages"),
            BodyShape::Responses if self.role == "system" && root.get("instructions").is_some() => {
                self.beside(body, root, "instructions")
            }
            BodyShape::Responses => match root.get("input")?.kind() {
                JsonKind::Text if self.role == "user" => self.before(body, root.get("input")?),
                JsonKind::Text => self.beside(body, root, "instructions"),
                _ => self.messages(body, root, "input"),
            },
            BodyShape::Completions => self.prompt(body, root.get("prompt")?),
            BodyShape::Embeddings
            | BodyShape::Area
            | BodyShape::Transcript
            | BodyShape::Unknown
            | BodyShape::Opaque => None,
        }
    }

    /// The field that holds what Chat says in a system message.
    fn beside(&self, body: &str, root: TapeNode<'_>, key: &str) -> Option<String> {
        match root.get(key).filter(|n| !n.is_null()) {
            Some(found) => self.before(body, found),
            None if root.get(key).is_some() => Some(splice(body, vec![(root.get(key)?.span(), quoted(&self.prefix))])),
            None => with_last_member(body, key, &quoted(&self.prefix)),
        }
    }

    fn prompt(&self, body: &str, prompt: TapeNode<'_>) -> Option<String> {
        match prompt.kind() {
            JsonKind::Text => self.before(body, prompt),
            JsonKind::Array => {
                let texts = prompt.elements().filter(|e| e.kind() == JsonKind::Text);
                let edits: Vec<_> =
                    texts.filter_map(|e| Some((e.span(), quoted(&format!("{}{}", self.prefix, e.text()?))))).collect();
                (!edits.is_empty()).then(|| splice(body, edits))
            }
            _ => None,
        }
    }

    /// Before a text, or before the parts of a content.
    fn before(&self, body: &str, content: TapeNode<'_>) -> Option<String> {
        match content.kind() {
            JsonKind::Text => {
                let text = content.text()?;
                if self.only_if_empty && !text.trim().is_empty() {
                    return None;
                }
                Some(splice(body, vec![(content.span(), quoted(&format!("{}{text}", self.prefix)))]))
            }
            JsonKind::Array => {
                let Some(first) = content.elements().next() else {
                    let at = content.span().start + 1;
                    return Some(splice(
                        body,
                        vec![(at..at, format!("{{\"type\":\"text\",\"text\":{}}}", quoted(&self.prefix)))],
                    ));
                };
                if self.only_if_empty {
                    return None;
                }
                if let Some(text) = first.get("text").filter(|t| t.kind() == JsonKind::Text) {
                    return self.before(body, text);
                }
                let at = first.span().start;
                Some(splice(body, vec![(at..at, format!("{{\"type\":\"text\",\"text\":{}}},", quoted(&self.prefix)))]))
            }
            _ => Some(splice(body, vec![(content.span(), quoted(&self.prefix))])),
        }
    }

    fn messages(&self, body: &str, root: TapeNode<'_>, key: &str) -> Option<String> {
        let list = root.get(key).filter(|l| l.kind() == JsonKind::Array)?;
        let is_role = |m: &TapeNode<'_>| m.get("role").and_then(TapeNode::text).as_deref() == Some(self.role);
        let found = list.elements().find(is_role);
        let message = format!("{{\"role\":{},\"content\":{}}}", quoted(self.role), quoted(&self.prefix));
        let (at, written) = match (found, list.elements().next(), list.elements().last()) {
            (Some(found), ..) if self.to_existing => {
                return match found.get("content") {
                    Some(content) => self.before(body, content),
                    None => with_last_member(found.raw(), "content", &quoted(&self.prefix))
                        .map(|m| splice(body, vec![(found.span(), m)])),
                };
            }
            (Some(_), ..) if self.only_if_empty => return None,
            (Some(found), ..) => (found.span().start, format!("{message},")),
            (None, Some(first), _) if matches!(self.role, "system" | "developer") => {
                (first.span().start, format!("{message},"))
            }
            (None, _, Some(last)) => (last.span().end, format!(",{message}")),
            (None, ..) => (list.span().start + 1, message),
        };
        Some(splice(body, vec![(at..at, written)]))
    }
}

impl Judge for AddPrefix {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        let data = json!({"prefix": self.prefix, "requestType": case.facts.request_type, "applyToRole": self.role,
            "addToExisting": self.to_existing, "onlyIfEmpty": self.only_if_empty});
        if !case.is_input() {
            return CheckOutcome::new(true, data).into();
        }
        if matches!(case.content.shape(), BodyShape::Unknown | BodyShape::Opaque) {
            return CheckError::closed("UnchangeableBody", "The body of this route is never changed").into();
        }
        let rewrite = self.rewritten(case.content).map(|body| Rewrite::Body(body.into()));
        CheckOutcome::rewriting(true, data, rewrite).into()
    }

    fn rewrites(&self) -> bool {
        true
    }
}
