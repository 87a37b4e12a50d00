//! Rerank: a query and documents in the words of each provider, and scores back in the form that the client reads: the
//! one of OpenAI-like clients, or Cohere's where its own path was asked. Scores come highest first; `index` is the
//! client's, and documents are put back from what it sent.

mod request;
mod scores;

pub(crate) use request::RerankAsk;
pub(crate) use scores::{Scored, render, search_units, unreadable};

use super::object::Object;
use super::{NativeShape, in_path, refused};
use crate::adapter::{BodyPieces, Call, Failure, ProviderRequest, Reply};
use crate::model;
use bytes::Bytes;
use gateway_domain::usage::UsageDetail;
use gateway_domain::{Fault, Usage};
use serde_json::Value;

/// A provider's words for a request, and where its scores stand.
#[derive(Debug)]
pub(crate) struct Reranker {
    path: &'static str,
    /// The request is the client's own: what else it holds (pictures) is between it and the provider.
    as_it_is: bool,
    /// The model stands in the body.
    names_model: bool,
    /// It stands at the path's end.
    named_in_path: bool,
    /// Its name of `top_n`; `None`: the cut is made here.
    top: Option<&'static str>,
    /// Its names of the query and of the documents.
    names: (&'static str, &'static str),
    /// A list of one query.
    queries: bool,
    found: fn(&Value) -> Option<Vec<Scored>>,
    used: fn(&Value) -> Option<Usage>,
}

const PLAIN: Reranker = Reranker {
    path: "/rerank",
    as_it_is: false,
    names_model: true,
    named_in_path: false,
    top: Some("top_n"),
    names: ("query", "documents"),
    queries: false,
    found: |answer| scored(&answer["results"], "relevance_score"),
    used: tokens,
};

fn scored(list: &Value, score: &str) -> Option<Vec<Scored>> {
    let one = |entry: &Value| {
        Some(Scored { index: usize::try_from(entry["index"].as_u64()?).ok()?, score: entry[score].as_f64()? })
    };
    list.as_array()?.iter().map(one).collect()
}

fn count(value: &Value) -> Option<u64> {
    value.as_u64().filter(|count| *count > 0)
}

fn tokens(answer: &Value) -> Option<Usage> {
    let (usage, meta) = (&answer["usage"], &answer["meta"]);
    let told = count(&usage["total_tokens"]).or_else(|| count(&usage["prompt_tokens"]));
    let told = told.or_else(|| count(&meta["billed_units"]["input_tokens"]));
    let input = told.or_else(|| count(&meta["tokens"]["input_tokens"]))?;
    Some(Usage { input, ..Usage::default() })
}

/// Searches, and beside them the tokens that newer models bill.
fn billed_units(answer: &Value) -> Option<Usage> {
    let billed = &answer["meta"]["billed_units"];
    let units = count(&billed["search_units"]).and_then(|units| u32::try_from(units).ok()).unwrap_or_default();
    let input = count(&billed["input_tokens"]).unwrap_or_default();
    let detail = UsageDetail { search_units: units, ..UsageDetail::default() };
    (units > 0 || input > 0).then(|| Usage { input, detail, ..Usage::default() })
}

/// <https://jina.ai/reranker/>, <https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html>,
/// <https://docs.together.ai/reference/rerank>, <https://docs.siliconflow.com/en/api-reference/rerank/create-rerank>
pub(crate) static RERANK: Reranker = Reranker { path: "", as_it_is: true, ..PLAIN };

/// <https://docs.cohere.com/reference/rerank>
pub(crate) static COHERE_RERANK: Reranker = Reranker { path: "/v2/rerank", used: billed_units, ..PLAIN };

/// <https://docs.voyageai.com/reference/reranker-api>
pub(crate) static VOYAGE: Reranker =
    Reranker { top: Some("top_k"), found: |answer| scored(&answer["data"], "relevance_score"), ..PLAIN };

/// <https://docs.fireworks.ai/api-reference/rerank-documents>
pub(crate) static FIREWORKS_RERANK: Reranker =
    Reranker { found: |answer| scored(&answer["data"], "relevance_score"), ..PLAIN };

/// <https://deepinfra.com/docs/inference>; one score for each document, in the order that these have.
pub(crate) static DEEPINFRA_RERANK: Reranker = Reranker {
    path: "/v1/inference/",
    names_model: false,
    named_in_path: true,
    top: None,
    names: ("queries", "documents"),
    queries: true,
    found: |answer| {
        let scores = answer["scores"].as_array()?;
        scores.iter().enumerate().map(|(index, score)| Some(Scored { index, score: score.as_f64()? })).collect()
    },
    used: |answer| Some(Usage { input: count(&answer["input_tokens"])?, ..Usage::default() }),
    ..PLAIN
};

/// <https://huggingface.github.io/text-embeddings-inference/>, which tells no usage.
pub(crate) static TEI: Reranker = Reranker {
    names_model: false,
    top: None,
    names: ("query", "texts"),
    found: |answer| scored(answer, "score"),
    used: |_| None,
    ..PLAIN
};

impl NativeShape for Reranker {
    fn path(&self) -> &'static str {
        self.path
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        if self.as_it_is {
            let body = model::replaced(call, model::changed(call, call.model)?, "")?;
            return Ok(ProviderRequest { path: None, headers: Vec::new(), body, adjusted: Vec::new() });
        }
        let ask = RerankAsk::read(call)?;
        let path = if self.named_in_path { Some([self.path, in_path(call)?].concat()) } else { None };
        let mut body = Object::new();
        if self.names_model {
            body.put_some("model", call.model);
        }
        let (query, documents) = self.names;
        if self.queries {
            body.put(query, &[&ask.query]);
        } else {
            body.put(query, &ask.query);
        }
        body.put(documents, &ask.texts());
        if let Some(top) = self.top {
            body.put_some(top, ask.top_n);
        }
        ask.put_own(&mut body);
        Ok(ProviderRequest { path, headers: Vec::new(), body: BodyPieces::One(body.written()), adjusted: Vec::new() })
    }

    fn response(&self, slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        let answer: Value = serde_json::from_slice(body).map_err(|_| unreadable(slug, call, body))?;
        let found = (self.found)(&answer).ok_or_else(|| unreadable(slug, call, body))?;
        let usage = (self.used)(&answer);
        if self.as_it_is && RerankAsk::read(call).is_err() {
            return Ok(Reply { body: body.clone(), usage, model: None });
        }
        render(slug, call, &found, (answer["id"].as_str(), usage)).ok_or_else(|| unreadable(slug, call, body))
    }
}

/// The one thing that providers of another form have no room for.
pub(crate) fn refuse_more_than(most: usize, ask: &RerankAsk<'_>) -> Result<(), Fault> {
    if ask.documents.len() > most {
        return Err(refused("documents", format!("must be at most {most} at this provider")));
    }
    Ok(())
}
