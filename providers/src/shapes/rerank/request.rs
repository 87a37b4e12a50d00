//! A request for rerank as it is read.

use super::super::object::Object;
use super::super::refused;
use crate::adapter::Call;
use crate::edit::{self, MemberSpan};
use crate::model;
use crate::wire::{JsonStr, read};
use gateway_domain::{Fault, FaultKind};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt::Write;

/// What is read here; all else goes up as it was written.
const READ: &[&str] = &["model", "query", "documents", "top_n", "return_documents", "rank_fields"];

#[derive(Deserialize)]
struct RerankFields<'a> {
    #[serde(borrow)]
    query: &'a RawValue,
    #[serde(borrow)]
    documents: Vec<&'a RawValue>,
    top_n: Option<u64>,
    return_documents: Option<bool>,
    #[serde(borrow)]
    rank_fields: Option<Vec<JsonStr<'a>>>,
}

/// A query and its documents, whose texts are found.
#[derive(Debug)]
pub(crate) struct RerankAsk<'c> {
    call: &'c Call<'c>,
    members: Vec<MemberSpan<'c>>,
    pub(crate) query: Cow<'c, str>,
    pub(crate) documents: Vec<Cow<'c, str>>,
    pub(crate) top_n: Option<u64>,
    pub(crate) returns: bool,
}

impl<'c> RerankAsk<'c> {
    pub(crate) fn read(call: &'c Call<'c>) -> Result<Self, Fault> {
        let fields: RerankFields<'c> = serde_json::from_slice(call.body)
            .map_err(|e| Fault::new(FaultKind::BadBody, format!("the body is no request for rerank: {e}")))?;
        let query = read::<JsonStr<'c>>(fields.query.get().as_bytes());
        let query = query.ok_or_else(|| refused("query", "must be a string at this provider"))?.0;
        let chosen: Vec<&str> = fields.rank_fields.iter().flatten().map(|field| &*field.0).collect();
        let text = |raw: &&'c RawValue| text_of(raw, &chosen);
        let documents: Option<Vec<Cow<'c, str>>> = fields.documents.iter().map(text).collect();
        let documents = documents.ok_or_else(|| {
            refused("documents", "must be strings or objects with a text (or the rank_fields) at this provider")
        })?;
        let members = edit::members(call.body).map_err(|e| model::not_an_object(&e))?;
        let returns = fields.return_documents == Some(true);
        Ok(Self { call, members, query, documents, top_n: fields.top_n, returns })
    }

    pub(crate) fn texts(&self) -> Vec<&str> {
        self.documents.iter().map(|document| &**document).collect()
    }

    pub(super) fn put_own(&self, body: &mut Object) {
        let own = self.members.iter().filter(|member| !READ.contains(&&*member.key));
        own.for_each(|member| body.raw(&member.key, &self.call.body[member.value.clone()]));
    }
}

/// A document's text: itself, its `text`, or the fields that count, a line each.
fn text_of<'c>(raw: &'c RawValue, chosen: &[&str]) -> Option<Cow<'c, str>> {
    if let Some(text) = read::<JsonStr<'c>>(raw.get().as_bytes()) {
        return Some(text.0);
    }
    let Value::Object(fields) = serde_json::from_str(raw.get()).ok()? else { return None };
    if chosen.is_empty() {
        return fields.get("text")?.as_str().map(|text| text.to_owned().into());
    }
    let mut out = String::new();
    for name in chosen {
        let value = fields.get(*name)?;
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let _ = writeln!(out, "{name}: {shown}");
    }
    Some(out.into())
}
