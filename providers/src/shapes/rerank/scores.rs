//! Scores as clients read them.

use super::request::RerankAsk;
use crate::adapter::{Call, Failure, Reply};
use crate::failure::{self, ProviderError};
use bytes::Bytes;
use gateway_domain::Usage;
use gateway_domain::operation::COHERES;
use gateway_domain::usage::UsageDetail;
use serde_json::{Map, Value, json};

/// How well one document fits, by its place among those that were sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scored {
    pub(crate) index: usize,
    pub(crate) score: f64,
}

/// What providers that tell no usage bill: a search for each hundred documents.
pub(crate) fn search_units(documents: usize) -> Usage {
    let search_units = u32::try_from(documents.div_ceil(100)).unwrap_or(u32::MAX);
    let detail = UsageDetail { search_units, ..UsageDetail::default() };
    Usage { estimated: true, detail, ..Usage::default() }
}

/// The scores in the client's form, sorted and cut to what it asked for; `None`: they are of no document that was sent.
pub(crate) fn render(
    slug: &'static str,
    call: &Call<'_>,
    found: &[Scored],
    (id, usage): (Option<&str>, Option<Usage>),
) -> Option<Reply> {
    let ask = RerankAsk::read(call).ok()?;
    let mut found = found.to_vec();
    if found.iter().any(|one| one.index >= ask.documents.len()) {
        return None;
    }
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    found.truncate(ask.top_n.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX));
    let result = |one: &Scored| {
        let mut told = Map::new();
        told.insert("index".to_owned(), one.index.into());
        told.insert("relevance_score".to_owned(), one.score.into());
        if ask.returns {
            told.insert("document".to_owned(), json!({ "text": ask.documents[one.index] }));
        }
        Value::Object(told)
    };
    let results: Vec<Value> = found.iter().map(result).collect();
    let made = || format!("rerank-{:016x}", call.dice);
    let id = id.map_or_else(made, str::to_owned);
    let units = usage.map_or(0, |usage| usage.detail.search_units);
    let tokens = usage.map_or(0, |usage| usage.input);
    let counted = |searches: &str, read: &str| {
        let mut told = Map::new();
        if units > 0 {
            told.insert(searches.to_owned(), units.into());
        }
        if tokens > 0 {
            told.insert(read.to_owned(), tokens.into());
        }
        Value::Object(told)
    };
    let body = if call.tail == COHERES {
        let meta =
            json!({ "api_version": { "version": "2" }, "billed_units": counted("search_units", "input_tokens") });
        json!({ "id": id, "results": results, "meta": meta })
    } else {
        json!({ "id": id, "object": "list", "results": results, "model": call.model,
                "usage": counted("search_units", "total_tokens"), "provider": slug })
    };
    Some(Reply { body: body.to_string().into(), usage, model: None })
}

pub(crate) fn unreadable(slug: &str, call: &Call<'_>, body: &Bytes) -> Failure {
    match ProviderError::read(body).filter(|trouble| !trouble.message.starts_with('{')) {
        Some(trouble) => trouble.render(slug, trouble.status(), call.dialect),
        None => failure::unreadable(slug, "the answer", body, call.dialect),
    }
}
