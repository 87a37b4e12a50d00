//! Pages that are read: Mistral's request and answer, wherever its models are served
//! (<https://docs.mistral.ai/api/endpoint/ocr>), and Cohere's parser in their place. What is billed is pages, at a rate
//! of their own where their contents are told in a form of the client's. Documents are fetched by the provider, never
//! here.

use super::object::Object;
use super::{NativeShape, refused};
use crate::adapter::{BodyPieces, Call, Failure, ProviderRequest, Reply};
use crate::failure::{self, ProviderError};
use crate::model;
use crate::wire::{read, speaks};
use bytes::Bytes;
use gateway_domain::usage::UsageDetail;
use gateway_domain::{Fault, FaultKind, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct OcrAsk<'a> {
    #[serde(borrow)]
    document: &'a RawValue,
    #[serde(borrow)]
    bbox_annotation_format: Option<&'a RawValue>,
    #[serde(borrow)]
    document_annotation_format: Option<&'a RawValue>,
}

impl OcrAsk<'_> {
    fn annotates(&self) -> bool {
        speaks(self.bbox_annotation_format) || speaks(self.document_annotation_format)
    }
}

#[derive(Deserialize)]
struct OcrAnswer<'a> {
    #[serde(default, borrow)]
    pages: Option<Vec<&'a RawValue>>,
    usage_info: Option<OcrUsage>,
    model: Option<String>,
}

#[derive(Deserialize)]
struct OcrUsage {
    pages_processed: Option<u32>,
}

fn pages(call: &Call<'_>, pages: u32) -> Usage {
    let annotated = read::<OcrAsk<'_>>(call.body).is_some_and(|ask| ask.annotates());
    let (pages, pages_annotated) = if annotated { (0, pages) } else { (pages, 0) };
    let detail = UsageDetail { pages, pages_annotated, ..UsageDetail::default() };
    Usage { detail, ..Usage::default() }
}

fn unreadable(slug: &str, call: &Call<'_>, body: &Bytes) -> Failure {
    match ProviderError::read(body).filter(|trouble| !trouble.message.starts_with('{')) {
        Some(trouble) => trouble.render(slug, trouble.status(), call.dialect),
        None => failure::unreadable(slug, "the answer", body, call.dialect),
    }
}

/// Mistral's own answer, as it came.
pub(crate) fn mistrals(slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let answer: OcrAnswer<'_> = read(body).ok_or_else(|| unreadable(slug, call, body))?;
    let listed = answer.pages.ok_or_else(|| unreadable(slug, call, body))?;
    let told = answer.usage_info.and_then(|usage| usage.pages_processed);
    let usage = match told {
        Some(told) => pages(call, told),
        None => Usage { estimated: true, ..pages(call, u32::try_from(listed.len()).unwrap_or(u32::MAX)) },
    };
    Ok(Reply { body: body.clone(), usage: Some(usage), model: answer.model })
}

/// Mistral's request, with the model in its place.
pub(crate) fn asked(call: &Call<'_>) -> Result<BodyPieces, Fault> {
    model::replaced(call, model::changed(call, call.model)?, "")
}

#[derive(Debug)]
pub(crate) struct MistralOcr;

pub(crate) static OCR: MistralOcr = MistralOcr;

impl NativeShape for MistralOcr {
    fn path(&self) -> &'static str {
        "/ocr"
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        Ok(ProviderRequest { path: None, headers: Vec::new(), body: asked(call)?, adjusted: Vec::new() })
    }

    fn response(&self, slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        mistrals(slug, call, body)
    }
}

/// Cohere's parser: pictures of pages in, their text out (<https://docs.cohere.com/reference/parse>).
#[derive(Debug)]
pub(crate) struct CohereParse;

pub(crate) static COHERE_PARSE: CohereParse = CohereParse;

impl NativeShape for CohereParse {
    fn path(&self) -> &'static str {
        "/v2/parse"
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let ask: OcrAsk<'_> = serde_json::from_slice(call.body)
            .map_err(|e| Fault::new(FaultKind::BadBody, format!("the body is no request for OCR: {e}")))?;
        if ask.annotates() {
            let field = if speaks(ask.bbox_annotation_format) {
                "bbox_annotation_format"
            } else {
                "document_annotation_format"
            };
            return Err(refused(field, "is not known to this provider: it tells the text of pages and no more"));
        }
        let document: Value = serde_json::from_str(ask.document.get()).unwrap_or_default();
        if document["type"] != "image_url" {
            return Err(refused("document", "must be of type image_url at this provider"));
        }
        let mut body = Object::new();
        body.put_some("model", call.model);
        body.raw("document", ask.document.get().as_bytes());
        body.put("output_format", &"markdown");
        Ok(ProviderRequest {
            path: None,
            headers: Vec::new(),
            body: BodyPieces::One(body.written()),
            adjusted: Vec::new(),
        })
    }

    fn response(&self, slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        let answer: Value = serde_json::from_slice(body).map_err(|_| unreadable(slug, call, body))?;
        let listed = answer["pages"].as_array().ok_or_else(|| unreadable(slug, call, body))?;
        let text = |page: &Value| {
            ["markdown", "content", "text"].iter().find_map(|key| page[*key].as_str().map(str::to_owned))
        };
        let page = |(index, page): (usize, &Value)| json!({ "index": index, "markdown": text(page).unwrap_or_default(), "images": [], "dimensions": null });
        let told: Vec<Value> = listed.iter().enumerate().map(page).collect();
        let billed = answer["meta"]["billed_units"]["pages"].as_u64().and_then(|pages| u32::try_from(pages).ok());
        let count = billed.unwrap_or_else(|| u32::try_from(told.len()).unwrap_or(u32::MAX));
        let usage = Usage { estimated: billed.is_none(), ..pages(call, count) };
        let body = json!({ "pages": told, "model": call.model, "usage_info": { "pages_processed": count },
                           "document_annotation": null, "provider": slug });
        Ok(Reply { body: body.to_string().into(), usage: Some(usage), model: None })
    }
}
