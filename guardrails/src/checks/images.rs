//! `inlineImageUrls`: images that a request names by address are fetched and put into it, for providers that fetch
//! none themselves.

use super::BuiltJudge;
use crate::check::{Case, CheckError, CheckOutcome, Judge, JudgeStep};
use crate::content::{BodyShape, Content, JsonKind, Rewrite, Tape, TapeNode, quoted, splice};
use crate::external_call::{CheckQuery, CheckReply, CheckRequest, Sign};
use crate::parameters::Parameters;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Method;
use serde_json::json;
use std::ops::Range;

const MOST_IMAGES: usize = 32;
const REDIRECTS: u8 = 3;
const LARGEST: u64 = 20_971_520;

#[derive(Debug)]
struct InlineImages {
    providers: Vec<String>,
    most_bytes: usize,
    timeout_ms: u32,
}

pub(super) fn make(p: &Parameters<'_>) -> BuiltJudge {
    let providers = p.texts("providers", 200).unwrap_or_default();
    let most_bytes = p.number("maxSizeBytes", LARGEST, 1..=LARGEST) as usize;
    let timeout_ms = p.number("timeoutMs", 30_000, 1..=60_000) as u32;
    Some(Box::new(InlineImages { providers, most_bytes, timeout_ms }))
}

/// An image that is named by its address.
struct FoundImage {
    url: String,
    /// What is replaced: the address, or the whole source in Messages.
    range: Range<usize>,
    is_source: bool,
}

fn images(content: &Content) -> Option<Vec<FoundImage>> {
    let body = std::str::from_utf8(content.body()).ok()?;
    let tape = Tape::parse(body).ok()?;
    let root = tape.root()?;
    let key = if content.shape() == BodyShape::Responses { "input" } else { "messages" };
    let mut found = Vec::new();
    for message in root.all(key).flat_map(TapeNode::elements) {
        for part in message.all("content").flat_map(TapeNode::elements) {
            collect(part, &mut found);
        }
    }
    Some(found)
}

fn collect(part: TapeNode<'_>, found: &mut Vec<FoundImage>) {
    let mut add = |node: TapeNode<'_>, range: Range<usize>, is_source: bool| {
        let url = node.text().filter(|u| u.starts_with("https://") || u.starts_with("http://"));
        found.extend(url.map(|url| FoundImage { url: url.into_owned(), range, is_source }));
    };
    for image in part.all("image_url") {
        // Responses give the address itself, Chat an object around it.
        add(image, image.span(), false);
        image.all("url").for_each(|url| add(url, url.span(), false));
    }
    for source in part.all("source").filter(|s| s.kind() == JsonKind::Object) {
        if part.get("type").and_then(TapeNode::text).as_deref() == Some("image") {
            source.all("url").for_each(|url| add(url, source.span(), true));
        }
    }
    for inner in part.all("content").flat_map(TapeNode::elements) {
        collect(inner, found);
    }
}

impl Judge for InlineImages {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        let is_meant = self.providers.is_empty() || self.providers.contains(&case.facts.provider);
        let told = |explanation: &str| json!({"explanation": explanation, "inlinedImages": 0});
        if !case.is_input() || !is_meant {
            return CheckOutcome::new(true, told("Nothing is inlined here")).into();
        }
        let is_known = matches!(case.content.shape(), BodyShape::Chat | BodyShape::Messages | BodyShape::Responses);
        let found = if is_known { images(case.content).unwrap_or_default() } else { Vec::new() };
        if found.is_empty() {
            return CheckOutcome::new(true, told("No image is named by its address")).into();
        }
        if found.len() > MOST_IMAGES {
            let message = format!("The request names more than {MOST_IMAGES} images");
            return CheckError::closed("ImageLimit", message).into();
        }
        let ask = |image: &FoundImage| {
            CheckQuery::Call(Box::new(CheckRequest {
                method: Method::GET,
                url: image.url.clone(),
                headers: Vec::new(),
                body: Bytes::new(),
                timeout_ms: self.timeout_ms,
                most_reply: self.most_bytes,
                redirects: REDIRECTS,
                sign: Sign::Nothing,
            }))
        };
        JudgeStep::Ask(found.iter().map(ask).collect())
    }

    fn read(&self, case: &Case<'_>, answers: &[CheckReply]) -> JudgeStep {
        let found = images(case.content).unwrap_or_default();
        let mut edits = Vec::new();
        for (image, answer) in found.iter().zip(answers) {
            let (content_type, body) = match answer {
                CheckReply::Media { content_type, body } => (content_type, body),
                CheckReply::Failed(failure) => return CheckError::from(failure).into(),
                _ => return CheckError::open("HttpError", "An image could not be fetched").into(),
            };
            let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            if !matches!(kind.as_str(), "image/png" | "image/jpeg" | "image/gif" | "image/webp") {
                return CheckError::open("InvalidReply", "An address that is named as an image holds none").into();
            }
            let data = STANDARD.encode(body);
            let written = match image.is_source {
                true => format!("{{\"type\":\"base64\",\"media_type\":{},\"data\":\"{data}\"}}", quoted(&kind)),
                false => format!("\"data:{kind};base64,{data}\""),
            };
            edits.push((image.range.clone(), written));
        }
        let count = edits.len();
        let Ok(body) = std::str::from_utf8(case.content.body()) else {
            return CheckError::closed("UnreadableBody", "The body is no UTF-8").into();
        };
        let rewritten = splice(body, edits);
        let data = json!({"explanation": "Images were put into the request", "inlinedImages": count});
        CheckOutcome::rewriting(true, data, Some(Rewrite::Body(rewritten.into()))).into()
    }

    fn rewrites(&self) -> bool {
        true
    }
}
