//! Pictures that a response's tool draws. What they use is told beside what the model of the response does: the tokens
//! of all pictures together, and of each that comes as vectors what its own model took. Both are charged at the price
//! of the models that drew them.
//!
//! Names are those of <https://platform.openai.com/docs/api-reference/responses/object>.

use super::vectors::{charge, charge_of, put_beside};
use crate::wire::usage::OpenAiUsage;
use crate::wire::{JsonStr, read, speaks};
use gateway_domain::{NanoUsd, Usage};
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The parts of a response that tell of its tools.
#[derive(Deserialize)]
pub(super) struct DrawnBeside<'a> {
    #[serde(borrow)]
    tool_usage: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct HostedTools {
    image_gen: Option<OpenAiUsage>,
}

#[derive(Deserialize)]
struct HostedTool<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<JsonStr<'a>>,
    #[serde(borrow)]
    model: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
struct DrawnItem<'a> {
    #[serde(borrow)]
    svg_usage: Option<&'a RawValue>,
}

impl DrawnBeside<'_> {
    /// Whether a response may tell of pictures at all; most do not.
    pub(super) fn may_be_in(body: &[u8]) -> bool {
        memmem::find(body, b"\"image_gen").is_some()
    }

    /// `usage` with what was drawn.
    pub(super) fn charged(&self, slug: &str, usage: Option<Usage>) -> Option<Usage> {
        let mut usage = usage?;
        if let Some(charge) = self.pictures(slug) {
            put_beside(&mut usage, charge);
        }
        let items = self.output.filter(|output| memmem::find(output.get().as_bytes(), b"\"svg_usage\"").is_some());
        let items = items.and_then(|output| read::<Vec<&RawValue>>(output.get().as_bytes())).unwrap_or_default();
        for item in items {
            let item = read::<DrawnItem<'_>>(item.get().as_bytes());
            if let Some(vectors) = item.and_then(|item| item.svg_usage).filter(|raw| speaks(Some(*raw))) {
                put_beside(&mut usage, charge(slug, vectors));
            }
        }
        Some(usage)
    }

    /// `None`: none was drawn; `Some(None)`: nobody knows what they cost.
    fn pictures(&self, slug: &str) -> Option<Option<NanoUsd>> {
        let told = read::<HostedTools>(self.tool_usage?.get().as_bytes())?;
        let used = told.image_gen?.of_pictures()?;
        Some(self.model().and_then(|model| charge_of(slug, &model, &used)))
    }

    /// The one that draws; of several nobody is told which drew what.
    fn model(&self) -> Option<String> {
        let tools = read::<Vec<HostedTool<'_>>>(self.tools?.get().as_bytes())?;
        let draws = |tool: &HostedTool<'_>| tool.kind.as_ref().is_some_and(|kind| kind.0 == "image_generation");
        let mut models = tools.into_iter().filter(draws).map(|tool| tool.model.map(|model| model.0.into_owned()));
        let first = models.next()??;
        models.all(|model| model.as_deref() == Some(&*first)).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::usage::ServiceTier;
    use serde_json::json;

    fn charged(response: &serde_json::Value) -> Usage {
        let body = response.to_string();
        assert!(DrawnBeside::may_be_in(body.as_bytes()), "{body}");
        let drawn: DrawnBeside<'_> = serde_json::from_str(&body).expect("JSON");
        drawn.charged("openai", Some(Usage { input: 3, ..Usage::default() })).expect("usage")
    }

    #[test]
    fn what_a_tool_drew_is_charged_at_the_price_of_its_models() {
        let tool = json!({ "type": "image_generation", "model": "gpt-image-2" });
        let pictures = json!({ "image_gen": { "input_tokens": 0, "output_tokens": 1_000, "total_tokens": 1_000,
            "output_tokens_details": { "image_tokens": 1_000, "text_tokens": 0 } }, "web_search": { "num_requests": 0 } });
        let drawn = charged(&json!({ "tools": [{ "type": "function" }, tool], "tool_usage": pictures }));
        // $30 a million.
        assert_eq!((drawn.input, drawn.detail.beside), (3, Some(NanoUsd(30_000_000))));
        let vectors = json!({ "type": "image_generation_call",
            "svg_usage": { "model": "gpt-4o", "input_tokens": 1_000, "output_tokens": 100, "total_tokens": 1_100 } });
        let both = charged(&json!({ "tools": [tool], "tool_usage": pictures,
            "output": [{ "type": "message", "content": [] }, vectors, vectors] }));
        assert_eq!(both.detail.beside, Some(NanoUsd(30_000_000 + 2 * 3_500_000)));
        let other = json!({ "type": "image_generation", "model": "gpt-image-1" });
        for tools in [json!([tool, other]), json!([{ "type": "image_generation" }]), json!(null)] {
            let unknown = charged(&json!({ "tools": tools, "tool_usage": pictures }));
            assert_eq!((unknown.detail.beside, unknown.detail.tier), (None, ServiceTier::Unknown), "{tools}");
        }
        let none = json!({ "image_gen": { "input_tokens": 0, "output_tokens": 0, "total_tokens": 0 } });
        let quiet = charged(&json!({ "tools": [tool], "tool_usage": none }));
        assert_eq!((quiet.detail.beside, quiet.detail.tier), (None, ServiceTier::Standard));
    }
}
