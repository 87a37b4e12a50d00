//! Batches of families whose interface for them is not OpenAI's: what is asked of the provider, and what it tells. A
//! line goes up as the family's translator made it, and its answer comes back through that translator; neither is known
//! here. A family is one file. Pure: nothing is sent, and no clock is read.

mod anthropic;
mod bedrock;
pub mod direct;
mod fireworks;
mod google;
mod mistral;
mod openai;
mod vertex;
mod xai;

pub use openai::{OPENAI_BATCHES, passed_batches};

use bytes::Bytes;
use gateway_domain::Operation;
use gateway_domain::cloud::{CloudService, CloudSettings, vertex_project};
use gateway_domain::money::NanoUsd;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Reads addresses elsewhere in what a provider tells.
pub type ReadAddresses = fn(&[u8]) -> Vec<String>;

/// How results are read that a family tells page by page.
#[derive(Clone, Copy, Debug)]
pub struct PageReader {
    /// Bytes of a page.
    pub most: usize,
    /// Reads the page at a path; `None`: it is none.
    pub read: fn(&str, &[u8]) -> Option<ResultsPage>,
    /// The page that begins where the one at a path does, with fewer results, for one that has more bytes; `None`:
    /// there is none.
    pub smaller: fn(&str) -> Option<BatchCall>,
}

#[derive(Debug)]
pub struct ResultsPage {
    pub lines: Vec<NativeLine>,
    /// The one behind it.
    pub next: Option<BatchCall>,
}

/// A call of the provider, by a path below the address of one of its services.
#[derive(Clone, Debug)]
pub struct BatchCall {
    /// It makes the batch, which is paid for later.
    pub begins: bool,
    pub at: CloudService,
    pub method: Method,
    pub path: String,
    pub body: BatchBody,
}

#[derive(Clone, Debug)]
pub enum BatchBody {
    None,
    Json(Value),
    /// The lines of the batch, with something around them.
    Lines(LinesForm),
}

/// What stands around lines and between them on their way up.
#[derive(Clone, Debug)]
pub struct LinesForm {
    pub content_type: String,
    pub front: String,
    pub between: &'static str,
    pub back: String,
}

/// A line of the batch, as the family's translator made it.
#[derive(Debug)]
pub struct NewLine<'a> {
    /// What the provider is to call it.
    pub name: &'a str,
    pub body: &'a RawValue,
}

/// A batch that is to be made.
#[derive(Debug)]
pub struct NewBatchAsk<'a> {
    /// The gateway's own name for it, by which it is found again.
    pub own_id: &'a str,
    pub operation: Operation,
    /// That of all lines, where the family has one for a batch.
    pub model: Option<&'a str>,
    /// The options for this provider that the client gave with its batch.
    pub options: &'a Map<String, Value>,
    /// What went up before, where the family takes lines as a file.
    pub file: Option<&'a str>,
    pub place: &'a BatchPlace,
}

/// What the settings of a target say of where its batches are, on a cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchPlace {
    pub bucket: Option<String>,
    /// What paths begin with: project and region as Google's name them, or the account.
    pub parent: Option<String>,
}

impl BatchPlace {
    pub fn of(settings: &CloudSettings) -> Self {
        let bucket = settings.get("aws_s3_bucket").or_else(|| settings.get("vertex_storage_bucket_name"));
        let located = settings.get("vertex_region").and_then(|region| Some((vertex_project(settings)?, region)));
        let project = located.map(|(project, region)| format!("projects/{project}/locations/{region}"));
        let account = || settings.get("fireworks_account_id").map(|account| format!("accounts/{account}"));
        Self { bucket: bucket.map(str::to_owned), parent: project.or_else(account) }
    }
}

/// How a batch stands at its provider, in the words of OpenAI's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeState {
    Validating,
    InProgress,
    Finalizing,
    Completed,
    Failed,
    Expired,
    Cancelling,
    Cancelled,
}

impl NativeState {
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Expired | Self::Cancelled)
    }
}

/// What the provider tells of a batch.
#[derive(Clone, Debug)]
pub struct NativeStanding {
    pub id: String,
    pub state: NativeState,
    /// Why it failed.
    pub problems: Vec<String>,
    /// How its results are read, once there are some.
    pub results: Vec<BatchCall>,
    /// The results themselves, where the provider tells them with the batch.
    pub told: Vec<NativeLine>,
}

/// What came of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeLine {
    pub name: String,
    pub end: LineEnd,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineEnd {
    /// The provider's answer to the line as it came: the translator reads it.
    Answered {
        status: u16,
        body: Bytes,
    },
    /// An answer to something else than lines of its batch are said to ask.
    Other(OtherAnswer),
    Cancelled,
    Expired,
}

/// An answer in a batch whose lines may ask for different things, each by its own URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherAnswer {
    /// What has answers like it; `None`: nobody here knows the kind, and it is told as it is.
    pub endpoint: Option<&'static str>,
    pub body: Bytes,
    /// What the provider says that it cost, for one that has no price here.
    pub cost: Option<NanoUsd>,
}

/// What a family tells of its batches.
pub trait ToldBatches: Sync {
    /// `None`: this tells of no batch.
    fn standing(&self, body: &[u8]) -> Option<NativeStanding>;
    /// What is told at this time, for a provider that only says when its batches end, and not that one has.
    fn standing_at(&self, body: &[u8], _now_secs: i64) -> Option<NativeStanding> {
        self.standing(body)
    }
    /// Addresses elsewhere at which results are, where the family tells those in their place.
    fn addresses(&self) -> Option<ReadAddresses> {
        None
    }
    /// Where results come page by page, and not line by line.
    fn pages(&self) -> Option<PageReader> {
        None
    }
    /// A line of the results; `None`: it tells of none.
    fn answer(&self, line: &[u8]) -> Option<NativeLine>;
}

/// A family's interface for batches.
pub trait NativeBatches: ToldBatches {
    /// What lines may ask.
    fn serves(&self, operation: Operation) -> bool;
    /// What lines of a file may ask that a client made in the provider's own form.
    fn serves_of_file(&self, operation: Operation) -> bool {
        self.serves(operation)
    }
    /// Whether all lines of a batch ask for one model, which stands beside them.
    fn has_one_model(&self) -> bool;
    /// Whether a line may be called so.
    fn takes_name(&self, name: &str) -> bool;
    /// Fields that the client may give for the batch at this provider.
    fn options(&self) -> &'static [&'static str] {
        &[]
    }
    /// Bytes of all lines of a batch, with what stands around them.
    fn most_up(&self) -> u64 {
        256 << 20
    }
    /// Bytes of what the provider tells of a batch.
    fn most_told(&self) -> usize {
        1 << 20
    }
    /// What cannot be done without, and is not there.
    fn lacks(&self, _new: &NewBatchAsk<'_>) -> Option<&'static str> {
        None
    }
    /// A line as it goes up, without what stands between lines.
    fn line(&self, line: &NewLine<'_>) -> Vec<u8>;
    /// What is asked for before a file goes up, once for each: that it is there already is no fault.
    fn ahead(&self, _new: &NewBatchAsk<'_>, _lines: u64) -> Option<BatchCall> {
        None
    }
    /// How lines go up ahead of the batch, as a file of the provider's; `None`: they go with it.
    fn upload(&self, _new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        None
    }
    /// Whether what goes up has its name already, and is refused with a 409 where it is there.
    fn takes_once(&self) -> bool {
        false
    }
    /// What the provider calls the file that went up.
    fn uploaded(&self, _new: &NewBatchAsk<'_>, _body: &[u8]) -> Option<String> {
        None
    }
    /// Asks whether what went up can be read yet.
    fn readiness(&self, _file: &str) -> Option<BatchCall> {
        None
    }
    fn is_ready(&self, _body: &[u8]) -> bool {
        true
    }
    /// Removes what went up.
    fn removal(&self, _file: &str) -> Option<BatchCall> {
        None
    }
    fn creation(&self, new: &NewBatchAsk<'_>) -> BatchCall;
    /// Makes a batch of a file that lies at the provider already; `None`: the family reads none.
    fn creation_of_file(&self, _new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        None
    }
    /// Lists batches, among which is the one that may have been asked for before; `None`: asked for again it is the
    /// same.
    fn search(&self, _new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        None
    }
    /// The page of that list behind the one that was told at a path.
    fn search_further(&self, _path: &str, _body: &[u8]) -> Option<BatchCall> {
        None
    }
    /// Whether one that the gateway asked for can be told from all others.
    fn names_batches(&self) -> bool {
        true
    }
    /// Where it cannot: those that may be it, of so many lines and made since then.
    fn doubted(&self, _body: &[u8], _lines: u64, _since: &str) -> Vec<String> {
        Vec::new()
    }
    /// The one that was made with this name of the gateway's.
    fn found(&self, _body: &[u8], _own_id: &str) -> Option<String> {
        None
    }
    fn look(&self, id: &str) -> BatchCall;
    /// Whether the provider has taken up so many lines: where it does so by and by, one that it tells has nothing left
    /// to do may have some to come.
    fn holds(&self, _body: &[u8], _lines: u64) -> bool {
        true
    }
    /// Reads a file of which a batch is made, where that must be counted for [`holds`](Self::holds).
    fn file_content(&self, _file: &str) -> Option<BatchCall> {
        None
    }
    fn cancel(&self, id: &str) -> BatchCall;
    /// Whether it goes on for longer than the gateway waits, unless it is cancelled then.
    fn runs_on(&self) -> bool {
        false
    }
    /// Whether one that was cancelled is not there any more.
    fn forgets_cancelled(&self) -> bool {
        false
    }
}

/// The interface of a family; `None`: it is OpenAI's, or there is none.
pub fn native_batches(slug: &str) -> Option<&'static dyn NativeBatches> {
    match slug {
        "anthropic" => Some(&anthropic::AnthropicBatches),
        "bedrock" => Some(&bedrock::BedrockBatches),
        "fireworks-ai" => Some(&fireworks::FireworksBatches),
        "google" => Some(&google::GoogleBatches),
        "mistral-ai" => Some(&mistral::MistralBatches),
        "vertex-ai" => Some(&vertex::VertexBatches),
        "x-ai" => Some(&xai::XaiBatches),
        _ => None,
    }
}

fn get(path: String) -> BatchCall {
    get_at(CloudService::Api, path)
}

fn get_at(at: CloudService, path: String) -> BatchCall {
    BatchCall { begins: false, at, method: Method::GET, path, body: BatchBody::None }
}

fn post(path: String, body: Value) -> BatchCall {
    post_at(CloudService::Api, path, body)
}

fn post_at(at: CloudService, path: String, body: Value) -> BatchCall {
    BatchCall { begins: false, at, method: Method::POST, path, body: BatchBody::Json(body) }
}

fn delete_at(at: CloudService, path: String) -> BatchCall {
    BatchCall { begins: false, at, method: Method::DELETE, path, body: BatchBody::None }
}

/// The lines, each as it was made, as an object of a bucket.
fn store_lines(path: String) -> BatchCall {
    let form = LinesForm {
        content_type: "application/jsonl".to_owned(),
        front: String::new(),
        between: "\n",
        back: "\n".to_owned(),
    };
    let body = BatchBody::Lines(form);
    BatchCall { begins: false, at: CloudService::Storage, method: Method::PUT, path, body }
}

/// What clouds take as the name of a record.
fn is_printable(name: &str) -> bool {
    (1..=256).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests;
