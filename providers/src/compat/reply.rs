//! Whole answers of OpenAI-like providers: passed as they are once they are seen to be what was asked for.

use super::image_tool::DrawnBeside;
use super::{audio, vectors};
use crate::adapter::{Call, Failure, Reply};
use crate::convert::steps::from_chat::ChatReader;
use crate::edit;
use crate::failure::{self, ProviderError};
use crate::translate::{self, EventError};
use crate::wire::members::{MemberCursor, UsualKey};
use crate::wire::usage::{OpenAiUsage, filter_reported_cost, served};
use crate::wire::{JsonStr, read, speaks};
use bytes::Bytes;
use gateway_domain::usage::{PictureSize, UsageDetail};
use gateway_domain::{AnswerForm, Dialect, NanoUsd, Operation, Usage};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct OpenAiReplySummary<'a> {
    #[serde(borrow)]
    model: Option<JsonStr<'a>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    service_tier: Option<&'a RawValue>,
    choices: Option<IgnoredAny>,
}

/// The order of what OpenAI's chat completions have; any other is read as well, only slower.
const USUAL: [UsualKey; 8] = [
    UsualKey::new(",\"id\":"),
    UsualKey::new(",\"object\":"),
    UsualKey::new(",\"created\":"),
    UsualKey::new(",\"model\":"),
    UsualKey::new(",\"choices\":"),
    UsualKey::new(",\"usage\":"),
    UsualKey::new(",\"service_tier\":"),
    UsualKey::new(",\"system_fingerprint\":"),
];

/// The common answer of chat and completions, of which only what is asked for here is read. Whatever is odd about it is
/// `None`, and looked at again the thorough way.
fn common_reply(body: &Bytes) -> Option<Reply> {
    let mut members = MemberCursor::of(std::str::from_utf8(body).ok()?).ok()?;
    let (mut model, mut tier, mut usage) = (None, None, OpenAiUsage::default());
    let (mut used, mut chosen) = (false, false);
    let mut usual = USUAL.iter();
    while let Some(key) = members.key_as(usual.next()).ok()? {
        match key {
            "usage" if !used => {
                usage.skim(&mut members)?;
                used = true;
            }
            "choices" if !chosen => chosen = members.value().ok()?.starts_with('['),
            "model" if model.is_none() => model = Some(members.value().ok()?),
            "service_tier" if tier.is_none() => tier = Some(members.value().ok()?),
            "usage" | "choices" | "model" | "service_tier" | "error" => return None,
            _ => drop(members.value().ok()?),
        }
    }
    members.end().ok()?;
    let usage = (used && chosen).then(|| served(tier, usage.split()))?;
    // It may stand among what was passed by.
    let model = match model?.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(plain) if !plain.bytes().any(|byte| byte == b'\\' || byte < b' ') => Some(plain.to_owned()),
        _ => serde_json::from_str::<Option<String>>(model?).ok()?,
    };
    Some(Reply { body: body.clone(), usage, model })
}

/// Images are counted, not read.
#[derive(Deserialize)]
struct Pictures<'a> {
    #[serde(default)]
    data: Vec<IgnoredAny>,
    usage: Option<OpenAiUsage>,
    #[serde(borrow)]
    svg_usage: Option<&'a RawValue>,
    #[serde(borrow)]
    quality: Option<JsonStr<'a>>,
    #[serde(borrow)]
    size: Option<JsonStr<'a>>,
}

/// What an answer with pictures used.
pub(crate) fn drawn(slug: &str, body: &[u8]) -> Option<Usage> {
    let told = read::<Pictures<'_>>(body)?;
    let text = |text: &Option<JsonStr<'_>>| text.as_ref().map_or_else(String::new, |text| text.0.to_string());
    let (quality, size) = (text(&told.quality), text(&told.size));
    vectors::charged(slug, pictured(told.usage, told.data.len() as u64, &quality, &size), told.svg_usage)
}

/// What pictures are billed by: the tokens that were told, or else their number.
pub(super) fn pictured(told: Option<OpenAiUsage>, count: u64, quality: &str, size: &str) -> Option<Usage> {
    let detail = UsageDetail { picture: PictureSize::named(quality, size), ..UsageDetail::default() };
    let counted = || (count > 0).then(|| Usage { images: count, detail, ..Usage::default() });
    told.and_then(|usage| usage.of_pictures()).or_else(counted)
}

pub(crate) fn openai_reply(slug: &str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    if matches!(call.operation, Operation::Transcription | Operation::Translation) {
        return Ok(audio::transcript(call, body));
    }
    let plain = matches!(call.operation, Operation::ChatCompletions | Operation::Completions);
    let reply = match plain.then(|| common_reply(body)).flatten() {
        Some(reply) => reply,
        None => thorough_reply(slug, call.operation, body)?,
    };
    let usage = if is_free(slug, call.operation) { Some(free()) } else { filter_reported_cost(slug, reply.usage) };
    Ok(Reply { usage, ..reply })
}

/// OpenAI takes nothing for moderations (<https://platform.openai.com/docs/guides/moderation>).
fn is_free(slug: &str, operation: Operation) -> bool {
    slug == "openai" && operation == Operation::Moderations
}

fn free() -> Usage {
    Usage { detail: UsageDetail { told: Some(NanoUsd(0)), ..UsageDetail::default() }, ..Usage::default() }
}

fn thorough_reply(slug: &str, operation: Operation, body: &Bytes) -> Result<Reply, Failure> {
    if operation.facts().answer == AnswerForm::Sound {
        // Audio, or text in a format that the client chose; JSON is one of them and may report usage.
        let usage = read::<OpenAiReplySummary<'_>>(body).and_then(|a| usage_of(a.usage));
        return Ok(Reply { body: body.clone(), usage, model: None });
    }
    let answer = read::<OpenAiReplySummary<'_>>(body).filter(|_| body.trim_ascii_start().starts_with(b"{"));
    let Some(answer) = answer else {
        return match operation {
            // A bare list is how some providers answer these.
            Operation::ListModels | Operation::Rerank | Operation::Moderations
                if read::<IgnoredAny>(body).is_some() =>
            {
                Ok(Reply { body: body.clone(), usage: None, model: None })
            }
            _ => Err(failure::unreadable(slug, "the answer", body, Dialect::OpenAi)),
        };
    };
    let generates = matches!(operation, Operation::ChatCompletions | Operation::Completions);
    if speaks(answer.error) && answer.choices.is_none() && (generates || operation == Operation::Embeddings) {
        // Some providers send errors with status 200; they must reach the fallback rules as what they are.
        let trouble = ProviderError::read(body).unwrap_or_default();
        return Err(trouble.verbatim(trouble.status(), body.clone()));
    }
    // A response that is told again was counted when it was made.
    let usage = usage_of(answer.usage).filter(|_| !operation.facts().about_kept_response);
    let mut usage = served(answer.service_tier.map(RawValue::get), usage);
    if matches!(operation, Operation::ImagesGenerate | Operation::ImagesEdit | Operation::ImagesVary) {
        usage = drawn(slug, body);
    }
    if operation == Operation::Responses && DrawnBeside::may_be_in(body) {
        usage = read::<DrawnBeside<'_>>(body).map_or(usage, |drawn| drawn.charged(slug, usage));
    }
    Ok(Reply { body: body.clone(), usage, model: answer.model.map(|m| m.0.into_owned()) })
}

/// A completion for a client that speaks something else.
pub(super) fn adapted(slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let (mut reader, mut steps) = (ChatReader::default(), Vec::with_capacity(8));
    match reader.completion(body, &mut steps) {
        Ok(()) => Ok(translate::whole(call, slug, &reader, &steps)),
        Err(EventError::ProviderError(trouble)) => Err(trouble.render(slug, trouble.status(), call.dialect)),
        Err(EventError::Unreadable) => Err(failure::unreadable(slug, "the answer", body, call.dialect)),
    }
}

fn usage_of(raw: Option<&RawValue>) -> Option<Usage> {
    read::<OpenAiUsage>(raw?.get().as_bytes())?.split()
}

/// OpenAI's error shape goes through as it is; any other is put into it.
pub(crate) fn openai_failure(slug: &str, status: u16, body: &Bytes) -> Failure {
    #[derive(Deserialize)]
    struct ErrorReplyProbe {
        #[serde(rename = "error")]
        _error: ErrorMessageProbe,
    }
    #[derive(Deserialize)]
    struct ErrorMessageProbe {
        #[serde(rename = "message")]
        _message: IgnoredAny,
    }
    match ProviderError::read(body) {
        Some(trouble) if read::<ErrorReplyProbe>(body).is_some() => trouble.verbatim(status, named(slug, body)),
        Some(trouble) => trouble.render(slug, status, Dialect::OpenAi),
        None => without_json(slug, status, body, Dialect::OpenAi),
    }
}

/// The error's body with the provider's name added beside the error; all else stays as it was spelled.
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
    ProviderError::new(message).render(slug, status, dialect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_look_sees_what_a_thorough_one_sees() {
        let usage = r#""usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}"#;
        let choices = r#""choices":[{"index":0,"message":{"content":"the \"usage\": {}"}}]"#;
        let plain = [
            format!(r#"{{"id":"c","model":"m",{choices},{usage},"system_fingerprint":null}}"#),
            format!("{{\n  \"model\" : null,\n  {choices} ,\n  {usage}\n}}\n"),
            format!(r#"{{"id":"c",{choices},{usage},"model":"m"}}"#),
            format!(r#"{{"model":"\u006d","choices":[],{usage}}}"#),
            format!(r#"{{"model":"m",{choices},{usage},"service_tier":"default"}}"#),
            format!(r#"{{"model":"m",{choices},"service_tier":null,{usage}}}"#),
            format!(r#"{{"model":"m",{choices},{usage},"service_tier":"priority"}}"#),
            format!(r#"{{"id":"c",{usage},"model":"m",{choices}}}"#),
            format!(r#"{{"id":"c",{choices},"model":"m",{usage}}}"#),
            format!(r#"{{"model":"m","choices":[{{{usage}}}],{usage}}}"#),
            format!(r#"{{"model":"m","choices":[{{"a":"usage","error":{{"message":"no"}}}}],{usage}}}"#),
        ];
        let odd = [
            format!(r#"{{"model":"m","choices":[{{{usage}}}]}}"#),
            format!(r#"{{"model":"m",{choices},{usage},{usage}}}"#),
            format!(r#"{{"model":"m",{choices},{choices},{usage}}}"#),
            format!(r#"{{"model":"m",{choices},{usage},"error":{{"message":"no"}}}}"#),
            format!(r#"{{"model":"m",{choices},"error":{{"message":"no"}},{usage}}}"#),
            format!(r#"{{"model":"m","choices":null,{usage}}}"#),
            format!(r#"{{"model":"m",{choices},"usage":null}}"#),
            format!(r#"{{"model":"m",{choices}}}"#),
            format!(r#"{{"model":"m",{choices},{usage}"#),
            format!(r#"{{"model":"m",{choices},{usage}}} x"#),
            format!(r#"{{"model":7,{choices},{usage}}}"#),
            format!(r#"[{{"model":"m",{choices},{usage}}}]"#),
            "<html>".into(),
            String::new(),
        ];
        let look = |body: &str| (common_reply(&Bytes::from(body.to_owned())), Bytes::from(body.to_owned()));
        for body in &plain {
            let (quick, bytes) = look(body);
            let thorough = thorough_reply("openai", Operation::ChatCompletions, &bytes).expect(body);
            let quick = quick.expect(body);
            assert_eq!(
                (quick.usage, &quick.model, &quick.body),
                (thorough.usage, &thorough.model, &thorough.body),
                "{body}"
            );
        }
        for body in &odd {
            assert!(look(body).0.is_none(), "{body}");
        }
    }
}
