//! Whole answers of OpenAI-like providers: passed as they are once they are seen to be what was asked for.

use crate::adapter::{Call, Failure, Reply};
use crate::convert::steps::from_chat::ChatReader;
use crate::edit;
use crate::failure::{self, Trouble};
use crate::translate::{self, Bad};
use crate::wire::members::members;
use crate::wire::usage::OpenAiUsage;
use crate::wire::{Text, read, speaks};
use bytes::Bytes;
use gateway_domain::{Dialect, Operation, Usage};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    model: Option<Text<'a>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    choices: Option<IgnoredAny>,
}

/// The common answer of chat and completions: one pass that reads the model and usage and passes the choices by. Whatever
/// is odd about it is `None`, and looked at again the thorough way.
fn common_reply(body: &Bytes) -> Option<Reply> {
    let (mut model, mut usage, mut choices) = (None, None, None);
    let (mut is_twice, mut speaks_of_error) = (false, false);
    members(std::str::from_utf8(body).ok()?, |key, value| match key {
        "model" => is_twice |= model.replace(value).is_some(),
        "usage" => is_twice |= usage.replace(value).is_some(),
        "choices" => is_twice |= choices.replace(value).is_some(),
        "error" => speaks_of_error |= value != "null",
        _ => {}
    })
    .ok()?;
    if is_twice || speaks_of_error || !choices?.starts_with('[') {
        return None;
    }
    let model = match model {
        Some(text) => serde_json::from_str::<Option<String>>(text).ok()?,
        None => None,
    };
    let usage = OpenAiUsage::skim(usage?)?.split();
    Some(Reply { body: body.clone(), usage, model })
}

/// Images are counted, not read.
#[derive(Deserialize)]
struct Pictures {
    data: Vec<IgnoredAny>,
}

pub(crate) fn openai_reply(slug: &str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let plain = matches!(call.operation, Operation::ChatCompletions | Operation::Completions);
    if let Some(reply) = plain.then(|| common_reply(body)).flatten() {
        return Ok(reply);
    }
    if matches!(call.operation, Operation::Speech | Operation::Transcription | Operation::Translation) {
        // Audio, or text in a format that the client chose; JSON is one of them and may report usage.
        let usage = read::<Answer<'_>>(body).and_then(|a| usage_of(a.usage));
        return Ok(Reply { body: body.clone(), usage, model: None });
    }
    let answer = read::<Answer<'_>>(body).filter(|_| body.trim_ascii_start().starts_with(b"{"));
    let Some(answer) = answer else {
        return match call.operation {
            // A bare list is how some providers answer these.
            Operation::ListModels | Operation::Rerank | Operation::Moderations
                if read::<IgnoredAny>(body).is_some() =>
            {
                Ok(Reply { body: body.clone(), usage: None, model: None })
            }
            _ => Err(failure::unreadable(slug, "the answer", body, Dialect::OpenAi)),
        };
    };
    let generates = matches!(call.operation, Operation::ChatCompletions | Operation::Completions);
    if speaks(answer.error) && answer.choices.is_none() && (generates || call.operation == Operation::Embeddings) {
        // Some providers send errors with status 200; they must reach the fallback rules as what they are.
        let trouble = Trouble::read(body).unwrap_or_default();
        return Err(trouble.verbatim(trouble.status(), body.clone()));
    }
    // A response that is told again was counted when it was made.
    let mut usage = usage_of(answer.usage).filter(|_| !call.operation.is_about_kept_response());
    if usage.is_none() && call.operation == Operation::ImagesGenerate {
        usage = read::<Pictures>(body).map(|p| Usage { images: p.data.len() as u64, ..Usage::default() });
    }
    Ok(Reply { body: body.clone(), usage, model: answer.model.map(|m| m.0.into_owned()) })
}

/// A completion for a client that speaks something else.
pub(super) fn adapted(slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let (mut reader, mut steps) = (ChatReader::default(), Vec::with_capacity(8));
    match reader.completion(body, &mut steps) {
        Ok(()) => Ok(translate::whole(call, slug, &reader, &steps)),
        Err(Bad::Trouble(trouble)) => Err(trouble.tell(slug, trouble.status(), call.dialect)),
        Err(Bad::Unreadable) => Err(failure::unreadable(slug, "the answer", body, call.dialect)),
    }
}

fn usage_of(raw: Option<&RawValue>) -> Option<Usage> {
    read::<OpenAiUsage>(raw?.get().as_bytes())?.split()
}

/// OpenAI's error shape goes through as it is; any other is put into it.
pub(crate) fn openai_failure(slug: &str, status: u16, body: &Bytes) -> Failure {
    #[derive(Deserialize)]
    struct Shape {
        #[serde(rename = "error")]
        _error: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        #[serde(rename = "message")]
        _message: IgnoredAny,
    }
    match Trouble::read(body) {
        Some(trouble) if read::<Shape>(body).is_some() => trouble.verbatim(status, named(slug, body)),
        Some(trouble) => trouble.tell(slug, status, Dialect::OpenAi),
        None => without_json(slug, status, body, Dialect::OpenAi),
    }
}

/// Whose error it is stands beside it (`spec/errors.md`, E4); all else stays as it was spelled.
fn named(slug: &str, body: &Bytes) -> Bytes {
    let name = format!("\"{slug}\"");
    edit::set_top_level(body, &[("provider", Some(&name))]).unwrap_or_else(|_| body.clone())
}

/// An error that is no JSON: a proxy's page, plain text, or nothing.
pub(crate) fn without_json(slug: &str, status: u16, body: &[u8], dialect: Dialect) -> Failure {
    let text = String::from_utf8_lossy(body);
    let message = match text.trim() {
        "" => format!("status {status} without a body"),
        text => text.to_owned(),
    };
    Trouble::new(message).tell(slug, status, dialect)
}
