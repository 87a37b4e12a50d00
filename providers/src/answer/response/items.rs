//! Output items of a response as they grow, and how they are shown.

use serde_json::value::RawValue;
use serde_json::{Value, json};

#[derive(Debug)]
pub(super) struct OpenItem {
    pub(super) id: String,
    pub(super) body: OpenItemBody,
}

#[derive(Debug)]
pub(super) enum OpenItemBody {
    Message {
        parts: Vec<OpenItemPart>,
    },
    Reasoning {
        block: u64,
        text: String,
        /// Stamped.
        encrypted: Option<String>,
    },
    Call {
        call: u64,
        call_id: String,
        name: String,
        arguments: String,
    },
}

/// Content of a message.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenItemPart {
    /// The provider's number of the block it stands for.
    pub(super) block: u64,
    pub(super) refusal: bool,
    pub(super) text: String,
    pub(super) annotations: Vec<Value>,
    pub(super) logprobs: Vec<Value>,
}

impl OpenItemPart {
    pub(super) fn shown(&self) -> Value {
        if self.refusal {
            return json!({ "type": "refusal", "refusal": self.text });
        }
        json!({
            "type": "output_text", "text": self.text, "annotations": self.annotations, "logprobs": self.logprobs,
        })
    }
}

impl OpenItemBody {
    pub(super) fn prefix(&self) -> &'static str {
        match self {
            Self::Message { .. } => "msg",
            Self::Reasoning { .. } => "rs",
            Self::Call { .. } => "fc",
        }
    }
}

impl OpenItem {
    /// A call whose arguments are not whole JSON yet, while another one begins.
    pub(super) fn grows(&self) -> bool {
        match &self.body {
            OpenItemBody::Call { arguments, .. } => serde_json::from_str::<&RawValue>(arguments).is_err(),
            _ => false,
        }
    }

    /// `growing`: as it is shown when it was added.
    pub(super) fn shown(&self, growing: bool) -> Value {
        let status = if growing { "in_progress" } else { "completed" };
        match &self.body {
            OpenItemBody::Message { parts } => {
                let content: Vec<Value> = parts.iter().map(OpenItemPart::shown).collect();
                json!({ "id": self.id, "type": "message", "role": "assistant", "status": status, "content": content })
            }
            OpenItemBody::Reasoning { text, encrypted, .. } => {
                let summary =
                    if text.is_empty() { json!([]) } else { json!([{ "type": "summary_text", "text": text }]) };
                let mut item = json!({ "id": self.id, "type": "reasoning", "summary": summary });
                if let (Some(encrypted), Value::Object(item)) = (encrypted, &mut item) {
                    item.insert("encrypted_content".to_owned(), encrypted.as_str().into());
                }
                item
            }
            OpenItemBody::Call { call_id, name, arguments, .. } => json!({
                "id": self.id, "type": "function_call", "status": status,
                "call_id": call_id, "name": name, "arguments": arguments,
            }),
        }
    }
}

/// An annotation from a citation of Anthropic's, or one that is an annotation already.
pub(super) fn annotation(citation: &RawValue, text: &str) -> Option<Value> {
    let cited: Value = serde_json::from_str(citation.get()).ok()?;
    let own = cited["type"].as_str().is_some_and(|kind| matches!(kind, "url_citation" | "file_citation" | "file_path"));
    if own {
        return Some(cited);
    }
    let title = [&cited["title"], &cited["document_title"]].into_iter().find_map(Value::as_str).unwrap_or_default();
    let length = text.chars().count();
    Some(match cited["url"].as_str() {
        Some(url) => {
            json!({ "type": "url_citation", "url": url, "title": title, "start_index": 0, "end_index": length })
        }
        None => json!({ "type": "file_citation", "file_id": "", "filename": title, "index": length }),
    })
}
