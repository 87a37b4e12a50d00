//! What came of a batch, by the batch, at families that speak OpenAI's interface for batches: these give it as a file
//! alone, so that the batch is asked for its file. Its bytes pass as they are.

use super::batches::FoundBatch;
use super::service::{ServiceCall, Services};
use super::{DirectAnswer, DirectStop, bad, own_objects};
use gateway_domain::cloud::CloudService;
use gateway_providers::native_batches::{OPENAI_BATCHES, passed_batches};
use http::Method;
use url::form_urlencoded;

/// The most bytes of the JSON that tells of a batch.
const MOST_TOLD: usize = 1 << 20;

/// `ended`: whoever reads it without a look at the batch pays for it all the same.
pub(super) async fn opened(
    services: &Services<'_>,
    id: &str,
    ended: &mut Option<FoundBatch>,
) -> Result<DirectAnswer<'static>, DirectStop> {
    let id: String = form_urlencoded::byte_serialize(id.as_bytes()).collect();
    let get = |path: String| ServiceCall::bare(CloudService::Api, Method::GET, path);
    let told = services.fetch(get(format!("/batches/{id}")), MOST_TOLD).await?;
    let batch = passed_batches(&told).into_iter().next().ok_or_else(own_objects::unknown)?;
    let file = batch["output_file_id"].as_str().filter(|file| !file.is_empty());
    let file = file.ok_or_else(|| bad("batch_id", "has no output, or none yet"))?;
    let file: String = form_urlencoded::byte_serialize(file.as_bytes()).collect();
    let response = services.open(get(format!("/files/{file}/content"))).await?;
    *ended = FoundBatch::passed(OPENAI_BATCHES, &batch).filter(FoundBatch::has_results);
    Ok(DirectAnswer::Bytes(Box::new(response)))
}
