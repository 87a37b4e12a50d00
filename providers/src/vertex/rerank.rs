//! Rerank of Google's Discovery Engine, at an address of its own
//! (<https://cloud.google.com/generative-ai-app-builder/docs/ranking>). Documents go by their place, and scores are
//! read whatever else comes back; a search is billed for each hundred of them.

use crate::adapter::{BodyPieces, Call, Failure, ProviderRequest, Reply};
use crate::failure;
use crate::shapes::{RerankAsk, Scored, refuse_more_than, render, search_units};
use bytes::Bytes;
use gateway_domain::cloud::vertex_project;
use gateway_domain::{Fault, FaultKind};
use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};

pub(super) fn request(call: &Call<'_>) -> Result<ProviderRequest, Fault> {
    let ask = RerankAsk::read(call)?;
    refuse_more_than(200, &ask)?;
    let needed = || Fault::new(FaultKind::Refused, "vertex_project_id is needed: it is part of this provider's path");
    let project = vertex_project(call.settings).ok_or_else(|| needed().on("vertex_project_id"))?;
    let record = |(index, text): (usize, &&str)| json!({ "id": index.to_string(), "content": text });
    let records: Vec<Value> = ask.texts().iter().enumerate().map(record).collect();
    let mut body = json!({ "query": ask.query, "records": records, "ignoreRecordDetailsInResponse": true });
    if let Some(model) = call.model {
        body["model"] = model.strip_prefix("google/").unwrap_or(model).into();
    }
    if let Some(top) = ask.top_n {
        body["topN"] = top.into();
    }
    let payer = HeaderValue::from_str(&project).ok();
    Ok(ProviderRequest {
        path: Some(format!("/v1/projects/{project}/locations/global/rankingConfigs/default_ranking_config:rank")),
        headers: payer.map(|payer| (HeaderName::from_static("x-goog-user-project"), payer)).into_iter().collect(),
        body: BodyPieces::One(body.to_string().into()),
        adjusted: Vec::new(),
    })
}

pub(super) fn response(slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let unreadable = || failure::unreadable(slug, "the answer", body, call.dialect);
    let answer: Value = serde_json::from_slice(body).map_err(|_| unreadable())?;
    let one =
        |record: &Value| Some(Scored { index: record["id"].as_str()?.parse().ok()?, score: record["score"].as_f64()? });
    let found = answer["records"].as_array().and_then(|all| all.iter().map(one).collect::<Option<Vec<_>>>());
    let documents = RerankAsk::read(call).map_or(0, |ask| ask.documents.len());
    let found = found.ok_or_else(unreadable)?;
    render(slug, call, &found, (None, Some(search_units(documents)))).ok_or_else(unreadable)
}
