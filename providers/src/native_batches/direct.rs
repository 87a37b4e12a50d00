//! A provider's own batches as clients ask for them: by which id they are told, how they are listed, and what stands in
//! them beside how they fare. What all families tell alike, each in its own words.

use super::{BatchCall, BatchPlace, get, get_at};
use crate::stored_files::encoded;
use gateway_domain::Timestamp;
use gateway_domain::cloud::CloudService;
use serde_json::Value;

/// What a provider tells of a batch beside its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchFacts {
    /// When it was made, in seconds since 1970, like the two below.
    pub created: Option<i64>,
    pub ended: Option<i64>,
    /// When the provider stops working on it.
    pub expires: Option<i64>,
    pub model: Option<String>,
    /// The endpoint, where the provider knows it.
    pub endpoint: Option<String>,
    /// What it reads.
    pub input: Option<String>,
    /// Where its results lie, on a cloud.
    pub output: Option<String>,
    /// Lines in all, answered, and failed.
    pub counts: [u64; 3],
}

impl BatchFacts {
    /// Lines that were answered well.
    pub const fn answered(&self) -> u64 {
        let [_, answered, _] = self.counts;
        answered
    }
}

/// What a client calls it: the last part of the provider's name.
pub fn public_id(native: &str) -> &str {
    native.rsplit('/').next().unwrap_or(native)
}

/// The provider's name for it; `None`: it can be none.
pub fn native_id(slug: &str, place: &BatchPlace, told: &str) -> Option<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !(1..=128).contains(&told.len()) || !told.bytes().all(fits) {
        return None;
    }
    Some(match slug {
        "fireworks-ai" => format!("{}/batchInferenceJobs/{told}", place.parent.as_deref()?),
        "google" => format!("batches/{told}"),
        "vertex-ai" => format!("{}/batchPredictionJobs/{told}", place.parent.as_deref()?),
        _ => told.to_owned(),
    })
}

/// A page of all that there are, behind what the page before told.
pub fn list(slug: &str, place: &BatchPlace, page: Option<&str>) -> Option<BatchCall> {
    let with = |path: &str, name: &str| match page {
        Some(page) => format!("{path}&{name}={}", encoded(page, b"")),
        None => path.to_owned(),
    };
    Some(match slug {
        "anthropic" => get(with("/messages/batches?limit=100", "after_id")),
        "bedrock" => get_at(CloudService::Control, with("/model-invocation-jobs?maxResults=100", "nextToken")),
        "fireworks-ai" => {
            let path =
                format!("/v1/{}/batchInferenceJobs?pageSize=200&orderBy=create_time%20desc", place.parent.as_deref()?);
            get_at(CloudService::Control, with(&path, "pageToken"))
        }
        "google" => get(with("/v1beta/batches?pageSize=100", "pageToken")),
        "mistral-ai" => get(with("/batch/jobs?page_size=100", "page")),
        "vertex-ai" => {
            get(with(&format!("/v1/{}/batchPredictionJobs?pageSize=100", place.parent.as_deref()?), "pageToken"))
        }
        "x-ai" => get(with("/batches?limit=100", "pagination_token")),
        _ => return None,
    })
}

/// The batches of a page, and by what the next one is asked for; `number`: that of this page, from 0.
pub fn listed(slug: &str, body: &[u8], number: usize) -> Option<(Vec<Value>, Option<String>)> {
    let mut told: Value = serde_json::from_slice(body).ok()?;
    let field = match slug {
        "bedrock" => "invocationJobSummaries",
        "fireworks-ai" => "batchInferenceJobs",
        "google" => "operations",
        "vertex-ai" => "batchPredictionJobs",
        "x-ai" => "batches",
        _ => "data",
    };
    let Value::Array(batches) = told[field].take() else { return Some((Vec::new(), None)) };
    let token = |name: &str| told[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let next = match slug {
        "anthropic" => token("last_id").filter(|_| told["has_more"] == true),
        "mistral-ai" => (batches.len() == 100).then(|| (number + 1).to_string()),
        "x-ai" => token("pagination_token"),
        _ => token("nextToken").or_else(|| token("nextPageToken")),
    };
    Some((batches, next))
}

pub fn facts(batch: &Value) -> BatchFacts {
    let inner = &batch["metadata"];
    let time = |names: &[&str]| names.iter().find_map(|name| seconds(&batch[*name]).or_else(|| seconds(&inner[*name])));
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let last = |value: &Value| value.as_str().map(|name| public_id(name).to_owned());
    let uri = |config: &str, inner: &str| text(&batch[config][inner]["s3Uri"]);
    let gcs = || text(&batch["outputConfig"]["gcsDestination"]["outputUriPrefix"]);
    let is_invoked = batch["modelInvocationType"] == "InvokeModel";
    let embeds = || is_invoked.then(|| "/v1/embeddings".to_owned());
    BatchFacts {
        created: time(&["created_at", "submitTime", "createTime", "create_time"]),
        ended: time(&["ended_at", "completed_at", "endTime", "updateTime", "cancel_time"]),
        expires: time(&["expires_at", "expire_time"]),
        model: ["model", "modelId"].iter().find_map(|name| text(&batch[*name]).or_else(|| text(&inner[*name]))),
        endpoint: text(&batch["endpoint"]).or_else(embeds),
        input: uri("inputDataConfig", "s3InputDataConfig")
            .or_else(|| text(&batch["inputConfig"]["gcsSource"]["uris"][0]))
            .or_else(|| text(&batch["input_files"][0]))
            .or_else(|| text(&batch["input_file_id"]))
            .or_else(|| last(&batch["inputDatasetId"]))
            .or_else(|| last(&inner["inputConfig"]["fileName"])),
        output: uri("outputDataConfig", "s3OutputDataConfig").or_else(gcs),
        counts: counts(batch),
    }
}

fn seconds(value: &Value) -> Option<i64> {
    let parsed = || value.as_str()?.parse::<Timestamp>().ok().map(Timestamp::secs);
    value.as_i64().or_else(parsed)
}

fn counts(batch: &Value) -> [u64; 3] {
    let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_default();
    let (own, vertex, gemini) = (&batch["request_counts"], &batch["completionStats"], &batch["metadata"]["batchStats"]);
    let sum = |of: &Value, names: &[&str]| names.iter().map(|name| number(&of[*name])).sum::<u64>();
    if batch["jobProgress"].is_object() {
        let told = &batch["jobProgress"];
        // What was declared and what was found to be there may differ.
        let total = sum(told, &["totalInputRequests"]).max(sum(told, &["totalProcessedRequests"]));
        return [total, sum(told, &["successfullyProcessedRequests"]), sum(told, &["failedRequests"])];
    }
    if own.is_object() {
        let failed = ["errored", "canceled", "expired"];
        let [good, bad] = [sum(own, &["succeeded"]), sum(own, &failed)];
        return [good + bad + sum(own, &["processing"]), good, bad];
    }
    if vertex.is_object() {
        let [good, bad] = [sum(vertex, &["successfulCount"]), sum(vertex, &["failedCount"])];
        return [good + bad + sum(vertex, &["incompleteCount"]), good, bad];
    }
    if gemini.is_object() {
        return [["requestCount"], ["successfulRequestCount"], ["failedRequestCount"]].map(|names| sum(gemini, &names));
    }
    if batch["state"].is_object() {
        return [&["num_requests"][..], &["num_success"], &["num_error", "num_cancelled"]]
            .map(|names| sum(&batch["state"], names));
    }
    if batch["total_requests"].is_u64() {
        return [["total_requests"], ["succeeded_requests"], ["failed_requests"]].map(|names| sum(batch, &names));
    }
    [["totalRecordCount"], ["successRecordCount"], ["errorRecordCount"]].map(|names| sum(batch, &names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_batch_is_called_by_the_last_part_of_its_name() {
        let place = BatchPlace { bucket: None, parent: Some("projects/p/locations/l".to_owned()) };
        for (slug, native) in [
            ("vertex-ai", "projects/p/locations/l/batchPredictionJobs/456"),
            ("google", "batches/abc"),
            ("bedrock", "abcdefgh1234"),
            ("anthropic", "msgbatch_1"),
        ] {
            assert_eq!(native_id(slug, &place, public_id(native)).as_deref(), Some(native));
        }
        for bad in ["", "a/b", "..", "a%2Fb", "a?b", &"a".repeat(129)] {
            assert_eq!(native_id("bedrock", &place, bad), None, "{bad}");
        }
    }

    #[test]
    fn times_are_seconds_and_counts_are_read_from_each_familys_words() {
        let bedrock = json!({ "submitTime": "2025-01-01T00:00:00Z", "modelInvocationType": "InvokeModel", "modelId": "m",
            "inputDataConfig": { "s3InputDataConfig": { "s3Uri": "s3://b/in" } }, "totalRecordCount": 3, "successRecordCount": 2,
            "errorRecordCount": 1 });
        let told = facts(&bedrock);
        assert_eq!((told.created, told.model.as_deref(), told.counts), (Some(1_735_689_600), Some("m"), [3, 2, 1]));
        assert_eq!((told.endpoint.as_deref(), told.input.as_deref()), (Some("/v1/embeddings"), Some("s3://b/in")));
        let claude = json!({ "request_counts": { "processing": 1, "succeeded": 2, "errored": 1, "expired": 1 } });
        assert_eq!(facts(&claude).counts, [5, 2, 2]);
        let gemini =
            json!({ "metadata": { "createTime": "2025-01-01T00:00:00Z", "batchStats": { "requestCount": "4" } } });
        assert_eq!((facts(&gemini).created, facts(&gemini).counts), (Some(1_735_689_600), [4, 0, 0]));
        let mistral = json!({ "created_at": 7, "total_requests": 2, "succeeded_requests": 1, "failed_requests": 1 });
        assert_eq!((facts(&mistral).created, facts(&mistral).counts), (Some(7), [2, 1, 1]));
        let grok = json!({ "batch_id": "batch_1", "create_time": "2025-01-01", "input_file_id": "file_1", "cancel_time": null,
            "expire_time": "2025-01-31",
            "state": { "num_requests": 5, "num_pending": 1, "num_success": 2, "num_error": 1, "num_cancelled": 1 } });
        let told = facts(&grok);
        assert_eq!((told.created, told.ended, told.counts), (Some(1_735_689_600), None, [5, 2, 2]));
        assert_eq!((told.input.as_deref(), told.expires), (Some("file_1"), Some(1_738_281_600)));
    }

    #[test]
    fn pages_are_followed_as_each_family_wants_it() {
        let place = BatchPlace::default();
        assert!(list("vertex-ai", &place, None).is_none() && list("openai", &place, None).is_none());
        let next = list("bedrock", &place, Some("a b")).expect("a call");
        assert_eq!(next.path, "/model-invocation-jobs?maxResults=100&nextToken=a%20b");
        let body = json!({ "invocationJobSummaries": [{}], "nextToken": "t" }).to_string();
        assert_eq!(listed("bedrock", body.as_bytes(), 0), Some((vec![json!({})], Some("t".to_owned()))));
        let body = json!({ "data": [{}], "has_more": false, "last_id": "x" }).to_string();
        assert_eq!(listed("anthropic", body.as_bytes(), 0), Some((vec![json!({})], None)));
        let next = list("x-ai", &place, Some("a b")).expect("a call");
        assert_eq!(next.path, "/batches?limit=100&pagination_token=a%20b");
        let body = json!({ "batches": [{}], "pagination_token": "t" }).to_string();
        assert_eq!(listed("x-ai", body.as_bytes(), 0), Some((vec![json!({})], Some("t".to_owned()))));
    }
}
