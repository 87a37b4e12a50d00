//! xAI's batches: lines go up as a file of OpenAI's lines, each with its own model, and the batch is made of that file in one
//! call. A batch has no word for how it stands but counts of its requests, and its results are told page by page. Requests
//! can be added to a batch that is there as well; that is not done here, as nobody could say which were added already
//! where an answer is lost.

use super::google::http_status;
use super::{BatchBody, BatchCall, LinesForm, NativeBatches, NativeLine, NativeStanding, NativeState, ToldBatches};
use super::{LineEnd, NewBatchAsk, NewLine, PageReader, ResultsPage, get, is_printable, post};
use crate::stored_files::encoded;
use bytes::Bytes;
use gateway_domain::Operation;
use gateway_domain::cloud::CloudService;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

pub(super) struct XaiBatches;

const PATH: &str = "/batches";
/// Of a list of batches, and of their results: few enough that a page can be held.
const ON_PAGE: &str = "?limit=100";
/// Bytes of a page of results.
const MOST_PAGE: usize = 64 << 20;
/// Between the parts of the form by which lines go up. No line of JSON begins like it.
const BOUNDARY: &str = "gateway-batch-6f1b0c5e7d";

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
struct RequestResult<'a> {
    batch_request_id: String,
    #[serde(borrow, default)]
    batch_result: Option<RequestEnd<'a>>,
    #[serde(default)]
    error_message: Option<String>,
}

#[derive(Default, Deserialize)]
struct RequestEnd<'a> {
    #[serde(borrow, default)]
    response: Option<RequestAnswer<'a>>,
    #[serde(default)]
    error: Option<RequestTrouble>,
}

#[derive(Deserialize)]
struct RequestAnswer<'a> {
    #[serde(borrow, default)]
    chat_get_completion: Option<&'a RawValue>,
}

/// A number of `google.rpc.Code`, of which 0 is no trouble, or a word.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RequestTrouble {
    code: Value,
    message: Option<String>,
}

#[derive(Deserialize)]
struct FileId {
    id: String,
}

impl RequestTrouble {
    fn number(&self) -> Option<u64> {
        self.code.as_u64().or_else(|| self.code.as_str()?.parse().ok())
    }

    fn is_none(&self) -> bool {
        match &self.code {
            Value::Null => self.message.as_ref().is_none_or(String::is_empty),
            _ => self.number() == Some(0),
        }
    }

    fn end(self, message: Option<String>) -> LineEnd {
        let number = self.number();
        if number == Some(1) || self.code.as_str().is_some_and(|word| word.eq_ignore_ascii_case("cancelled")) {
            return LineEnd::Cancelled;
        }
        let message = message.or(self.message).unwrap_or_default();
        let body = json!({ "error": { "message": message, "code": self.code.as_str() } });
        LineEnd::Answered { status: number.map_or(500, http_status), body: body.to_string().into() }
    }
}

/// The page behind the one at `path`; `Err(())`: it is the same one again.
fn behind(path: &str, token: Option<String>) -> Result<Option<BatchCall>, ()> {
    let Some(token) = token.filter(|token| !token.is_empty()) else { return Ok(None) };
    let base = path.split('?').next().unwrap_or_default();
    let next = format!("{base}{ON_PAGE}&pagination_token={}", encoded(&token, b""));
    if next == path { Err(()) } else { Ok(Some(get(next))) }
}

fn results_page(path: &str, body: &[u8]) -> Option<ResultsPage> {
    let told: XaiResults<'_> = serde_json::from_slice(body).ok()?;
    let lines = told.results.into_iter().filter_map(|result| line_of(result.get().as_bytes())).collect();
    Some(ResultsPage { lines, next: behind(path, told.pagination_token).ok()? })
}

fn line_of(text: &[u8]) -> Option<NativeLine> {
    let told: RequestResult<'_> = serde_json::from_slice(text).ok()?;
    let RequestEnd { response, error } = told.batch_result.unwrap_or_default();
    let message = told.error_message.filter(|message| !message.is_empty());
    let trouble = error.filter(|trouble| !trouble.is_none());
    let end = match (trouble, message, response.and_then(|response| response.chat_get_completion)) {
        (None, None, Some(answer)) => {
            LineEnd::Answered { status: 200, body: Bytes::copy_from_slice(answer.get().as_bytes()) }
        }
        (None, None, None) => return None,
        (trouble, message, _) => trouble.unwrap_or_default().end(message),
    };
    Some(NativeLine { name: told.batch_request_id, end })
}

impl NativeBatches for XaiBatches {
    fn serves(&self, operation: Operation) -> bool {
        operation == Operation::ChatCompletions
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

impl ToldBatches for XaiBatches {
    fn standing(&self, body: &[u8]) -> Option<NativeStanding> {
        let batch: XaiBatch = serde_json::from_slice(body).ok()?;
        let counts = batch.state.unwrap_or_default();
        let why = batch.cancel_by_xai_message.filter(|why| !why.is_empty());
        let is_cancelled = batch.cancel_time.is_some() || why.is_some();
        let state = match counts {
            BatchCounters { num_success: 0, num_error: 0, .. } if why.is_some() => NativeState::Failed,
            BatchCounters { num_pending: 0, .. } if is_cancelled => NativeState::Cancelled,
            _ if is_cancelled => NativeState::Cancelling,
            // The file is read once the batch is made.
            BatchCounters { num_requests: 0, .. } => NativeState::Validating,
            BatchCounters { num_pending: 0, .. } => NativeState::Completed,
            _ => NativeState::InProgress,
        };
        let has_results = state.has_ended() && state != NativeState::Failed;
        let results = has_results.then(|| get(format!("{PATH}/{}/results{ON_PAGE}", batch.batch_id)));
        let (results, problems) = (results.into_iter().collect(), why.into_iter().collect());
        Some(NativeStanding { id: batch.batch_id, state, problems, results, told: Vec::new() })
    }

    fn pages(&self) -> Option<PageReader> {
        Some(PageReader { most: MOST_PAGE, read: results_page })
    }

    fn answer(&self, line: &[u8]) -> Option<NativeLine> {
        line_of(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULTS: &str = "/batches/b/results?limit=100";

    fn page(path: &str, token: &Value) -> Option<ResultsPage> {
        let answer = json!({ "batch_request_id": "a", "batch_result": { "response": { "chat_get_completion": {} } } });
        let nothing = json!({ "batch_request_id": "b", "batch_result": {} });
        let told = json!({ "results": [answer, nothing], "pagination_token": token });
        results_page(path, told.to_string().as_bytes())
    }

    #[test]
    fn results_are_followed_from_page_to_page() {
        let first = page(RESULTS, &json!("a/b c")).expect("a page");
        assert_eq!(first.lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), ["a"]);
        let second = first.next.expect("one more").path;
        assert_eq!(second, "/batches/b/results?limit=100&pagination_token=a%2Fb%20c");
        let third = page(&second, &json!("d")).and_then(|page| page.next).expect("one more").path;
        assert_eq!(third, "/batches/b/results?limit=100&pagination_token=d");
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
}
