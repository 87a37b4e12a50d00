//! Rerank of Bedrock's, at the address of its agents
//! (<https://docs.aws.amazon.com/bedrock/latest/APIReference/API_agent-runtime_Rerank.html>). No usage is told: what is
//! billed is a search for each hundred documents.

use super::refused;
use crate::adapter::{Call, Failure, Reply};
use crate::failure;
use crate::shapes::{RerankAsk, Scored, refuse_more_than, render, search_units};
use bytes::Bytes;
use gateway_domain::Fault;
use serde_json::{Value, json};

pub(super) fn request(call: &Call<'_>, model: &str) -> Result<Vec<u8>, Fault> {
    let ask = RerankAsk::read(call)?;
    refuse_more_than(1000, &ask)?;
    let arn = match call.settings.get("aws_region") {
        _ if model.starts_with("arn:") => model.to_owned(),
        Some(region) => format!("arn:{}:bedrock:{region}::foundation-model/{model}", partition(region)),
        None => return Err(refused("model", "must be the ARN of a model where no region is set")),
    };
    let source = |text: &&str| {
        let document = json!({ "type": "TEXT", "textDocument": { "text": text } });
        json!({ "type": "INLINE", "inlineDocumentSource": document })
    };
    let sources: Vec<Value> = ask.texts().iter().map(source).collect();
    let mut configuration = json!({ "modelConfiguration": { "modelArn": arn } });
    if let Some(top) = ask.top_n {
        configuration["numberOfResults"] = top.into();
    }
    let body = json!({
        "queries": [{ "type": "TEXT", "textQuery": { "text": ask.query } }],
        "sources": sources,
        "rerankingConfiguration": { "type": "BEDROCK_RERANKING_MODEL", "bedrockRerankingConfiguration": configuration },
    });
    Ok(body.to_string().into_bytes())
}

fn partition(region: &str) -> &'static str {
    match region {
        region if region.starts_with("cn-") => "aws-cn",
        region if region.starts_with("us-gov-") => "aws-us-gov",
        _ => "aws",
    }
}

pub(super) fn response(slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let unreadable = || failure::unreadable(slug, "the answer", body, call.dialect);
    let answer: Value = serde_json::from_slice(body).map_err(|_| unreadable())?;
    let one = |entry: &Value| {
        let index = usize::try_from(entry["index"].as_u64()?).ok()?;
        Some(Scored { index, score: entry["relevanceScore"].as_f64()? })
    };
    let found = answer["results"].as_array().and_then(|all| all.iter().map(one).collect::<Option<Vec<_>>>());
    let documents = RerankAsk::read(call).map_or(0, |ask| ask.documents.len());
    let found = found.ok_or_else(unreadable)?;
    render(slug, call, &found, (None, Some(search_units(documents)))).ok_or_else(unreadable)
}
