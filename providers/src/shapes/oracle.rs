//! Vectors and rerank of Oracle's own API
//! (<https://docs.oracle.com/en-us/iaas/api/#/en/generative-ai-inference/20231130/>), which wants the compartment in
//! the body and tells a shared model from an endpoint of one's own.

use super::{NativeShape, RerankAsk, Scored, refused, render};
use crate::adapter::{BodyPieces, Call, Failure, ProviderRequest, Reply};
use crate::answer::embeddings;
use crate::failure;
use crate::oracle::{begun, path};
use crate::wire::{JsonStr, read, speaks};
use bytes::Bytes;
use gateway_domain::{Fault, FaultKind, Usage};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

fn used(usage: &Value) -> Option<Usage> {
    let tokens = usage["promptTokens"].as_u64().or_else(|| usage["totalTokens"].as_u64());
    tokens.filter(|tokens| *tokens > 0).map(|input| Usage { input, ..Usage::default() })
}

#[derive(Debug)]
pub(crate) struct OracleVectors;

pub(crate) static ORACLE_EMBEDS: OracleVectors = OracleVectors;

#[derive(Deserialize)]
struct OracleInputs<'a> {
    #[serde(borrow)]
    input: &'a RawValue,
    dimensions: Option<u64>,
    #[serde(borrow)]
    user: Option<&'a RawValue>,
    /// What the vectors are for; like `truncate`, what becomes of long texts, only Cohere's models know it.
    #[serde(borrow)]
    input_type: Option<JsonStr<'a>>,
    #[serde(borrow)]
    truncate: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
struct OracleVectorList<'a> {
    #[serde(borrow)]
    embeddings: Vec<&'a RawValue>,
    usage: Option<Value>,
}

impl NativeShape for OracleVectors {
    fn path(&self) -> &'static str {
        "/20231130/actions/embedText"
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let ask: OracleInputs<'_> = serde_json::from_slice(call.body)
            .map_err(|e| Fault::new(FaultKind::BadBody, format!("the body is no embeddings request: {e}")))?;
        let one = read::<JsonStr<'_>>(ask.input.get().as_bytes()).map(|text| vec![text.0]);
        let several = || Some(read::<Vec<JsonStr<'_>>>(ask.input.get().as_bytes())?.into_iter().map(|t| t.0).collect());
        let texts: Vec<Cow<'_, str>> = one.or_else(several).ok_or_else(|| {
            refused("input", "must be a string or an array of strings: this provider takes no tokens")
        })?;
        let mut body = begun(call)?;
        body.put("inputs", &texts);
        // Here enumerations are written in capitals.
        body.put_some("inputType", ask.input_type.map(|kind| kind.0.to_uppercase()));
        body.put_some("truncate", ask.truncate.map(|end| end.0.to_uppercase()));
        body.put_some("outputDimensions", ask.dimensions);
        let adjusted = if speaks(ask.user) { vec!["user"] } else { Vec::new() };
        let path = Some(path(call, "embedText"));
        Ok(ProviderRequest { path, headers: Vec::new(), body: BodyPieces::One(body.written()), adjusted })
    }

    fn response(&self, slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        let unreadable = || failure::unreadable(slug, "the answer", body, call.dialect);
        let answer: OracleVectorList<'_> = read(body).ok_or_else(unreadable)?;
        let vectors = embeddings::wanted(call, answer.embeddings.into_iter()).ok_or_else(unreadable)?;
        Ok(embeddings::list(slug, call, vectors, answer.usage.as_ref().and_then(used)))
    }
}

#[derive(Debug)]
pub(crate) struct OracleRerank;

pub(crate) static ORACLE_RERANK: OracleRerank = OracleRerank;

impl NativeShape for OracleRerank {
    fn path(&self) -> &'static str {
        "/20231130/actions/rerankText"
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let ask = RerankAsk::read(call)?;
        let mut body = begun(call)?;
        body.put("input", &ask.query);
        body.put("documents", &ask.texts());
        body.put_some("topN", ask.top_n);
        let path = Some(path(call, "rerankText"));
        Ok(ProviderRequest { path, headers: Vec::new(), body: BodyPieces::One(body.written()), adjusted: Vec::new() })
    }

    fn response(&self, slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        let unreadable = || failure::unreadable(slug, "the answer", body, call.dialect);
        let answer: Value = serde_json::from_slice(body).map_err(|_| unreadable())?;
        let one = |rank: &Value| {
            let index = usize::try_from(rank["index"].as_u64()?).ok()?;
            Some(Scored { index, score: rank["relevanceScore"].as_f64()? })
        };
        let found = answer["documentRanks"].as_array().and_then(|all| all.iter().map(one).collect::<Option<Vec<_>>>());
        let found = found.ok_or_else(unreadable)?;
        // It tells no usage; a search is billed for each hundred documents.
        let units = RerankAsk::read(call).map_or(0, |ask| ask.documents.len());
        let usage = used(&answer["usage"]).or_else(|| Some(super::search_units(units)));
        render(slug, call, &found, (answer["id"].as_str(), usage)).ok_or_else(unreadable)
    }
}
