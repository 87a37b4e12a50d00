//! Fine-tuning jobs of families whose interface for them is not OpenAI's: a client of OpenAI's asks by OpenAI's routes
//! and reads OpenAI's job. A family is one file, which says where its jobs are and how one of them reads. What it
//! cannot express is refused by the name of its field. Pure: nothing is sent, and no clock is read.

mod bedrock;
mod fireworks;
mod job;
mod job_request;
mod pages;
mod together;
mod vertex;

use crate::adapter::{BodyPieces, Call, Endpoint, Failure, ProviderRequest, Reply};
use crate::failure;
use bytes::Bytes;
use gateway_domain::path::decoded;
use gateway_domain::{Dialect, Fault, Operation};
use job::TuningJob;
use job_request::{TuningAsk, refused};
pub use pages::JobPages;
use serde_json::{Value, json};

/// Characters of an id.
const LONGEST_ID: usize = 1_011;

/// What goes up.
struct TuningCall {
    /// The path below the family's address, with its query.
    path: String,
    body: Option<Value>,
}

/// How a family's lists go on.
#[derive(Clone, Copy)]
struct Cursor {
    /// The parameter of the query that says where a page begins.
    asked: &'static str,
    /// The field of a page that says where the next one begins.
    told: &'static str,
    /// Pages begin with the newest job, so that those that nobody asked for are not read.
    newest_first: bool,
}

/// A family's interface for fine-tuning.
trait TuningFamily: Sync {
    /// What the family has beside making, listing, looking at and cancelling jobs.
    fn more(&self) -> &'static [Operation] {
        &[]
    }

    fn serves(&self, operation: Operation) -> bool {
        use Operation::{CancelFinetune, CreateFinetune, ListFinetunes, RetrieveFinetune};
        matches!(operation, CreateFinetune | ListFinetunes | RetrieveFinetune | CancelFinetune)
            || self.more().contains(&operation)
    }
    /// A new job.
    fn creation(&self, call: &Call<'_>, ask: &TuningAsk) -> Result<TuningCall, Fault>;
    /// Anything else; `id`: as the client holds it, which for a list is nothing.
    fn look(&self, call: &Call<'_>, id: &str) -> Result<TuningCall, Fault>;
    /// One job, as the family tells it.
    fn job(&self, told: &Value) -> Option<TuningJob>;
    /// Where a list has its jobs.
    fn listed<'a>(&self, told: &'a Value) -> Option<&'a Vec<Value>>;
    /// The parameter that asks for the next page of a list, and the field that names it. `None`: a list has one page.
    fn cursor(&self) -> Option<Cursor> {
        None
    }
    /// What happened to a job, as OpenAI's events.
    fn events(&self, _told: &Value) -> Vec<Value> {
        Vec::new()
    }
    /// What was kept of a job on its way, as OpenAI's checkpoints; `id`: the job's.
    fn checkpoints(&self, _id: &str, _told: &Value) -> Vec<Value> {
        Vec::new()
    }
}

fn family(slug: &str) -> Option<&'static dyn TuningFamily> {
    match slug {
        "bedrock" => Some(&bedrock::BedrockTuning),
        "fireworks-ai" => Some(&fireworks::FireworksTuning),
        "together-ai" => Some(&together::TogetherTuning),
        "vertex-ai" => Some(&vertex::VertexTuning),
        _ => None,
    }
}

/// Whether calls of it are translated at this family, or refused there: none goes up as it came.
pub(crate) fn reshapes(slug: &str, operation: Operation) -> bool {
    operation.is_about_tuning() && family(slug).is_some()
}

/// `None`: the family has no such thing. The path is the call's to say.
pub(crate) fn endpoint(slug: &str, operation: Operation) -> Option<Endpoint> {
    family(slug)?.serves(operation).then_some(Endpoint { path: "/fine_tuning".into(), headers: &[] })
}

pub(crate) fn request(slug: &'static str, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
    let unserved = || refused("model", "is of a family without fine-tuning jobs");
    let family = family(slug).ok_or_else(unserved)?;
    let made = match call.operation {
        Operation::CreateFinetune => family.creation(call, &TuningAsk::read(slug, call)?)?,
        Operation::ListFinetunes => TuningCall { path: JobPages::read_by(slug, family, call)?.path()?, body: None },
        _ => family.look(call, &id_of(call)?)?,
    };
    let body = made.body.map_or_else(Bytes::new, |body| body.to_string().into());
    Ok(ProviderRequest {
        path: Some(made.path),
        headers: Vec::new(),
        body: BodyPieces::One(body),
        adjusted: Vec::new(),
    })
}

pub(crate) fn response(slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let unreadable = || failure::unreadable(slug, "the answer", body, Dialect::OpenAi);
    let family = family(slug).ok_or_else(unreadable)?;
    // Who stops a job is often told nothing.
    let told: Value = match body.trim_ascii() {
        b"" => Value::Null,
        body => serde_json::from_slice(body).map_err(|_| unreadable())?,
    };
    let shown = match call.operation {
        Operation::ListFinetunes => {
            let mut pages = JobPages::read_by(slug, family, call).map_err(|_| unreadable())?;
            pages.read(body)?;
            pages.shown()?
        }
        Operation::ListFinetuneEvents => list(&family.events(&told)),
        Operation::ListFinetuneCheckpoints => list(&family.checkpoints(&id_of(call).unwrap_or_default(), &told)),
        Operation::CreateFinetune => {
            let mut job = family.job(&told).ok_or_else(unreadable)?;
            if let Ok(ask) = TuningAsk::read(slug, call) {
                job.complete(&ask, call.now_ms / 1_000);
            }
            job.shown()
        }
        Operation::CancelFinetune => match family.job(&told) {
            Some(job) => job.shown(),
            None => TuningJob::of(id_of(call).unwrap_or_default(), "cancelled").shown(),
        },
        Operation::ResumeFinetune => match family.job(&told) {
            Some(job) => job.shown(),
            None => TuningJob::of(id_of(call).unwrap_or_default(), "queued").shown(),
        },
        _ => family.job(&told).ok_or_else(unreadable)?.shown(),
    };
    Ok(Reply { body: shown.to_string().into(), usage: None, model: None })
}

/// The id in the path, decoded once.
fn id_of(call: &Call<'_>) -> Result<String, Fault> {
    let id = decoded(call.tail.split('/').nth(3).unwrap_or_default()).into_owned();
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:/+".contains(&byte);
    let leads = id.split('/').any(|part| part.is_empty() || matches!(part, "." | ".."));
    if id.is_empty() || id.len() > LONGEST_ID || !id.bytes().all(fits) || leads {
        return Err(refused("fine_tuning_job_id", "must be the id of a job, as it was told when it was made"));
    }
    Ok(id)
}

fn url_pairs(query: &str) -> impl Iterator<Item = (&str, String)> {
    query.split('&').filter_map(|pair| pair.split_once('=')).map(|(name, value)| (name, decoded(value).into_owned()))
}

fn list(data: &[Value]) -> Value {
    list_with(data, false)
}

fn list_with(data: &[Value], has_more: bool) -> Value {
    json!({ "object": "list", "data": data, "has_more": has_more })
}

/// An id as one segment of a path.
fn segment(id: &str) -> String {
    let mut out = String::with_capacity(id.len() + 16);
    for c in id.chars() {
        match c {
            ':' => out.push_str("%3A"),
            '/' => out.push_str("%2F"),
            '+' => out.push_str("%2B"),
            c => out.push(c),
        }
    }
    out
}
