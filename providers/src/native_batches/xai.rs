//! xAI's batches: lines go up as a file of OpenAI's lines, each with its own model, and the batch is made of that file
//! in one call. A batch has no word for how it stands but counts of its requests, and its results are told page by
//! page. Requests can be added to a batch that is there as well; that is not done here, as nobody could say which were
//! added already where an answer is lost.

mod results;

use super::{BatchBody, BatchCall, LinesForm, NativeBatches, NativeLine, NativeStanding, NativeState, ToldBatches};
use super::{NewBatchAsk, NewLine, PageReader, ResultsPage, get, is_printable, post};
use crate::stored_files::encoded;
use gateway_domain::cloud::CloudService;
use gateway_domain::{Operation, Timestamp};
use http::Method;
use results::line_of;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

pub(super) struct XaiBatches;

const PATH: &str = "/batches";
/// The query for a list of batches.
const ON_PAGE: &str = "?limit=100";
/// Results on a page: as many as xAI's own clients ask for. Where those are more bytes than are held of a page, as with
/// pictures in them, the same page is asked for again with fewer.
const MOST_ON_PAGE: u32 = 1000;
/// Bytes of a page of results.
const MOST_PAGE: usize = 64 << 20;
/// Stands between the parts of the form by which lines go up. No line of JSON begins like it.
const BOUNDARY: &str = "gateway-batch-6f1b0c5e7d";
const DAY_SECS: i64 = 86_400;

#[derive(Serialize)]
struct RequestLine<'a> {
    custom_id: &'a str,
    method: &'static str,
    url: &'static str,
    body: &'a RawValue,
}

#[derive(Deserialize)]
struct XaiBatch {
    batch_id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    expire_time: Option<String>,
    #[serde(default)]
    cancel_time: Option<String>,
    /// Why xAI itself ended it: most often it could not read the file.
    #[serde(default)]
    cancel_by_xai_message: Option<String>,
    #[serde(default)]
    state: Option<BatchCounters>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct BatchCounters {
    num_requests: u64,
    num_pending: u64,
    num_success: u64,
    num_error: u64,
    num_cancelled: u64,
}

#[derive(Deserialize)]
struct XaiBatchList {
    #[serde(default)]
    batches: Vec<XaiBatch>,
    #[serde(default)]
    pagination_token: Option<String>,
}

#[derive(Deserialize)]
struct XaiResults<'a> {
    #[serde(borrow)]
    results: Vec<&'a RawValue>,
    #[serde(default)]
    pagination_token: Option<String>,
}

#[derive(Deserialize)]
struct FileId {
    id: String,
}

/// Which page is asked for: the path up to how many results it has, and what stands behind.
fn place_of(path: &str) -> (&str, &str) {
    path.find('&').map_or((path, ""), |at| path.split_at(at))
}

/// The page behind the one at `path`, as long as that; `Err(())`: it is the same one again.
fn behind(path: &str, token: Option<String>) -> Result<Option<BatchCall>, ()> {
    let Some(token) = token.filter(|token| !token.is_empty()) else { return Ok(None) };
    let next = format!("{}&pagination_token={}", place_of(path).0, encoded(&token, b""));
    if next == path { Err(()) } else { Ok(Some(get(next))) }
}

fn results_page(path: &str, body: &[u8]) -> Option<ResultsPage> {
    let told: XaiResults<'_> = serde_json::from_slice(body).ok()?;
    let lines = told.results.into_iter().map(|result| line_of(result.get())).collect();
    Some(ResultsPage { lines, next: behind(path, told.pagination_token).ok()? })
}

/// The page that begins where the one at `path` does, with fewer results.
fn smaller_page(path: &str) -> Option<BatchCall> {
    let (front, token) = place_of(path);
    let (base, number) = front.rsplit_once('=')?;
    let fewer = number.parse::<u32>().ok()? / 10;
    (fewer > 0).then(|| get(format!("{base}={fewer}{token}")))
}

impl NativeBatches for XaiBatches {
    fn serves(&self, operation: Operation) -> bool {
        operation == Operation::ChatCompletions
    }

    fn serves_of_file(&self, operation: Operation) -> bool {
        matches!(operation, Operation::ChatCompletions | Operation::Responses | Operation::ImagesGenerate)
    }

    fn has_one_model(&self) -> bool {
        false
    }

    fn takes_name(&self, name: &str) -> bool {
        is_printable(name)
    }

    fn line(&self, line: &NewLine<'_>) -> Vec<u8> {
        let (method, url) = ("POST", "/v1/chat/completions");
        let line = RequestLine { custom_id: line.name, method, url, body: line.body };
        serde_json::to_vec(&line).unwrap_or_default()
    }

    fn upload(&self, _new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        let part = "content-disposition: form-data; name=\"file\"; filename=\"batch.jsonl\"";
        let form = LinesForm {
            content_type: format!("multipart/form-data; boundary={BOUNDARY}"),
            front: format!("--{BOUNDARY}\r\n{part}\r\ncontent-type: application/jsonl\r\n\r\n"),
            between: "\n",
            back: format!("\r\n--{BOUNDARY}--\r\n"),
        };
        Some(BatchCall {
            begins: false,
            at: CloudService::Api,
            method: Method::POST,
            path: "/files".to_owned(),
            body: BatchBody::Lines(form),
        })
    }

    fn uploaded(&self, _new: &NewBatchAsk<'_>, body: &[u8]) -> Option<String> {
        serde_json::from_slice::<FileId>(body).ok().map(|file| file.id)
    }

    fn removal(&self, file: &str) -> Option<BatchCall> {
        Some(BatchCall { method: Method::DELETE, ..get(format!("/files/{}", encoded(file, b""))) })
    }

    fn creation(&self, new: &NewBatchAsk<'_>) -> BatchCall {
        let body = json!({ "name": new.own_id, "input_file_id": new.file });
        BatchCall { begins: true, ..post(PATH.to_owned(), body) }
    }

    fn creation_of_file(&self, new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        Some(self.creation(new))
    }

    fn search(&self, _new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        Some(get(format!("{PATH}{ON_PAGE}")))
    }

    fn search_further(&self, path: &str, body: &[u8]) -> Option<BatchCall> {
        let list: XaiBatchList = serde_json::from_slice(body).ok()?;
        behind(path, list.pagination_token).unwrap_or_default()
    }

    fn found(&self, body: &[u8], own_id: &str) -> Option<String> {
        let list: XaiBatchList = serde_json::from_slice(body).ok()?;
        list.batches.into_iter().find(|batch| batch.name.as_deref() == Some(own_id)).map(|batch| batch.batch_id)
    }

    fn look(&self, id: &str) -> BatchCall {
        get(format!("{PATH}/{id}"))
    }

    fn file_content(&self, file: &str) -> Option<BatchCall> {
        Some(get(format!("/files/{}/content", encoded(file, b""))))
    }

    fn holds(&self, body: &[u8], lines: u64) -> bool {
        let batch = serde_json::from_slice::<XaiBatch>(body).ok();
        batch.is_some_and(|batch| batch.state.unwrap_or_default().num_requests >= lines)
    }

    fn cancel(&self, id: &str) -> BatchCall {
        post(format!("{PATH}/{id}:cancel"), json!({}))
    }

    fn runs_on(&self) -> bool {
        true
    }
}

impl XaiBatch {
    fn state(&self) -> NativeState {
        let counts = self.state.unwrap_or_default();
        let is_said = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        let was_stopped = is_said(&self.cancel_by_xai_message);
        let is_cancelled = is_said(&self.cancel_time) || was_stopped;
        match counts {
            BatchCounters { num_success: 0, num_error: 0, .. } if was_stopped => NativeState::Failed,
            BatchCounters { num_pending: 0, .. } if is_cancelled => NativeState::Cancelled,
            _ if is_cancelled => NativeState::Cancelling,
            // The file is read once the batch is made.
            BatchCounters { num_requests: 0, .. } => NativeState::Validating,
            BatchCounters { num_pending: 0, .. } => NativeState::Completed,
            _ => NativeState::InProgress,
        }
    }

    /// Whether xAI does no more of it. A bare date may be any moment of that day.
    fn is_over(&self, now_secs: i64) -> bool {
        let Some(text) = self.expire_time.as_deref() else { return false };
        let Ok(at) = text.parse::<Timestamp>() else { return false };
        let spare = if text.contains(['T', 't', ' ']) { 0 } else { DAY_SECS };
        now_secs >= at.secs().saturating_add(spare)
    }

    fn standing(self, state: NativeState) -> NativeStanding {
        let has_results = state.has_ended() && state != NativeState::Failed;
        let path = || format!("{PATH}/{}/results?limit={MOST_ON_PAGE}", self.batch_id);
        let results = has_results.then(|| get(path())).into_iter().collect();
        let why = self.cancel_by_xai_message.filter(|why| !why.is_empty());
        NativeStanding { id: self.batch_id, state, problems: why.into_iter().collect(), results, told: Vec::new() }
    }
}

impl ToldBatches for XaiBatches {
    fn standing(&self, body: &[u8]) -> Option<NativeStanding> {
        let batch: XaiBatch = serde_json::from_slice(body).ok()?;
        let state = batch.state();
        Some(batch.standing(state))
    }

    /// xAI tells until when it works on a batch, and has no word for one that it gave up.
    fn standing_at(&self, body: &[u8], now_secs: i64) -> Option<NativeStanding> {
        let batch: XaiBatch = serde_json::from_slice(body).ok()?;
        let (state, counts) = (batch.state(), batch.state.unwrap_or_default());
        let was_given_up = !state.has_ended() || (state == NativeState::Completed && counts.num_cancelled > 0);
        let state = if was_given_up && batch.is_over(now_secs) { NativeState::Expired } else { state };
        Some(batch.standing(state))
    }

    fn pages(&self) -> Option<PageReader> {
        Some(PageReader { most: MOST_PAGE, read: results_page, smaller: smaller_page })
    }

    fn answer(&self, line: &[u8]) -> Option<NativeLine> {
        std::str::from_utf8(line).ok().map(line_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    const RESULTS: &str = "/batches/b/results?limit=1000";

    fn page(path: &str, token: &Value) -> Option<ResultsPage> {
        let answer = json!({ "batch_request_id": "a", "batch_result": { "response": { "chat_get_completion": {} } } });
        let nothing = json!({ "batch_request_id": "b", "batch_result": {} });
        let told = json!({ "results": [answer, nothing], "pagination_token": token });
        results_page(path, told.to_string().as_bytes())
    }

    #[test]
    fn results_are_followed_from_page_to_page() {
        let first = page(RESULTS, &json!("a/b c")).expect("a page");
        assert_eq!(first.lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let second = first.next.expect("one more").path;
        assert_eq!(second, "/batches/b/results?limit=1000&pagination_token=a%2Fb%20c");
        let third = page(&second, &json!("d")).and_then(|page| page.next).expect("one more").path;
        assert_eq!(third, "/batches/b/results?limit=1000&pagination_token=d");
        for end in [Value::Null, json!("")] {
            assert!(page(&third, &end).expect("a page").next.is_none(), "{end}");
        }
        assert!(page(&third, &json!("d")).is_none(), "a page that leads to itself is none");
        assert!(results_page(RESULTS, b"{\"code\":\"x\"}").is_none());
    }

    #[test]
    fn a_batch_is_found_by_its_name_on_whichever_page() {
        let (first, own) = (XaiBatches.search(&ask()).expect("a call").path, "gw_batch_1");
        let list = |name: &str, token: Value| {
            let batch = json!({ "batch_id": "batch_1", "name": name });
            json!({ "batches": [{ "batch_id": "batch_0" }, batch], "pagination_token": token }).to_string()
        };
        let told = list("other", json!("t"));
        assert_eq!(XaiBatches.found(told.as_bytes(), own), None);
        let next = XaiBatches.search_further(&first, told.as_bytes()).expect("one more").path;
        assert_eq!(next, "/batches?limit=100&pagination_token=t");
        let told = list(own, Value::Null);
        assert_eq!(XaiBatches.found(told.as_bytes(), own).as_deref(), Some("batch_1"));
        assert!(XaiBatches.search_further(&next, told.as_bytes()).is_none());
    }

    fn ask() -> NewBatchAsk<'static> {
        let (options, place) = (Box::leak(Box::default()), Box::leak(Box::default()));
        let operation = Operation::ChatCompletions;
        NewBatchAsk { own_id: "gw_batch_1", operation, model: None, options, file: Some("file_1"), place }
    }

    #[test]
    fn a_batch_holds_its_lines_once_its_file_was_read() {
        let told = json!({ "batch_id": "b", "state": { "num_requests": 3, "num_pending": 0 } }).to_string();
        assert!(XaiBatches.holds(told.as_bytes(), 3) && !XaiBatches.holds(told.as_bytes(), 4));
    }

    #[test]
    fn a_page_that_is_too_large_is_asked_for_again_with_fewer_results_and_so_are_those_behind_it() {
        let fewer = smaller_page("/batches/b/results?limit=1000&pagination_token=t").expect("a page").path;
        assert_eq!(fewer, "/batches/b/results?limit=100&pagination_token=t");
        let behind = page(&fewer, &json!("u")).and_then(|page| page.next).expect("one more").path;
        assert_eq!(behind, "/batches/b/results?limit=100&pagination_token=u");
        let one = smaller_page("/batches/b/results?limit=10").expect("a page").path;
        assert_eq!(one, "/batches/b/results?limit=1");
        assert!(smaller_page(&one).is_none(), "one result is as few as there are");
    }

    #[test]
    fn a_batch_that_is_not_done_by_its_time_has_expired_and_keeps_what_was_answered() {
        let [noon, evening] = ["2025-12-11T12:00:00Z", "2025-12-11T22:00:00Z"];
        let at = |text: &str| text.parse::<Timestamp>().expect("a time").secs();
        let state = |expires: &str, counts: [u64; 3], now: &str| {
            let [all, pending, cancelled] = counts;
            let state = json!({ "num_requests": all, "num_pending": pending, "num_success": 1,
                                "num_cancelled": cancelled });
            let told = json!({ "batch_id": "b", "expire_time": expires, "state": state }).to_string();
            let standing = XaiBatches.standing_at(told.as_bytes(), at(now)).expect("a batch");
            (standing.state, standing.results.len())
        };
        assert_eq!(state(noon, [3, 2, 0], "2025-12-11T11:59:59Z"), (NativeState::InProgress, 0));
        assert_eq!(state(noon, [3, 2, 0], evening), (NativeState::Expired, 1));
        // Which moment of the day is not told.
        assert_eq!(state("2025-12-11", [3, 2, 0], evening), (NativeState::InProgress, 0));
        assert_eq!(state("2025-12-11", [3, 2, 0], "2025-12-12T00:00:00Z"), (NativeState::Expired, 1));
        // What was done in time is done; what xAI cancelled then was not.
        assert_eq!(state(noon, [3, 0, 0], evening), (NativeState::Completed, 1));
        assert_eq!(state(noon, [3, 0, 2], evening), (NativeState::Expired, 1));
    }
}
