//! What translation costs, family by family: µs and allocations of a request, of a whole answer and of one event of a
//! stream, taken from the golden folders. Prints a table for `benches/README.md`. Knows no sockets.

#![expect(clippy::print_stdout, reason = "the table is what the program is for")]

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use gateway_domain::cloud::{CloudSettings, setting};
use gateway_domain::operation::route;
use gateway_providers::{Adapter, Call, adapter, edit};
use http::Method;
use serde_json::{Map, Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Each figure is the least of this many rounds: whatever else runs on the machine only adds to it.
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(60);

/// Family, what the client speaks, case with a whole answer, case with a stream.
const CASES: &[(&str, &str, &str, &str)] = &[
    ("openai", "chat", "unary", "stream"),
    ("openai", "Messages", "tool-call-messages", "stream-messages"),
    ("mistral-ai", "chat", "unary", "stream"),
    ("deepseek", "Responses", "unary-responses", "stream-responses-length"),
    ("anthropic", "chat", "unary", "stream"),
    ("anthropic", "Messages", "unary-messages", "stream-messages"),
    ("anthropic", "Responses", "unary-responses", "stream-responses-thinking"),
    ("google", "chat", "unary", "stream"),
    ("google", "Messages", "unary-messages", "tool-call-stream-messages"),
    ("google", "Responses", "unary-responses", "stream-responses"),
    ("vertex-ai", "chat", "unary", "stream"),
    ("cohere", "chat", "unary", "stream"),
    ("cohere", "Messages", "unary-messages", "stream-messages"),
    ("cohere", "Responses", "unary-responses", "stream-responses"),
    ("bedrock", "chat", "unary", "stream"),
    ("bedrock", "Messages", "unary-messages", "stream-messages"),
    ("bedrock", "Responses", "unary-responses", "stream-responses"),
    ("azure-openai", "chat", "unary", "stream"),
    ("azure-ai", "chat", "unary", "stream"),
    ("groq", "chat", "unary", "stream"),
    ("x-ai", "chat", "unary", "stream"),
    ("deepseek", "chat", "unary", "stream"),
    ("openrouter", "chat", "unary", "stream"),
    ("ollama", "chat", "unary", "stream"),
    ("vllm", "chat", "unary", "stream"),
];

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A golden case as far as it is needed here.
struct Case {
    path: String,
    model: Option<String>,
    body: Bytes,
    answer: Bytes,
    settings: CloudSettings,
    stream: bool,
}

impl Case {
    fn read(folder: &Path) -> Outcome<Self> {
        let asked: Value = serde_json::from_slice(&fs::read(folder.join("call.json"))?)?;
        let text = |key: &str| asked[key].as_str().map(str::to_owned);
        let mut settings = CloudSettings::default();
        for (name, value) in asked["settings"].as_object().into_iter().flatten() {
            let known = setting(name).ok_or("an unknown setting")?;
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            settings.set(known, text).map_err(|e| format!("{name}: {e:?}"))?;
        }
        let (sse, frames) = (folder.join("upstream.sse"), folder.join("upstream.frames"));
        let stream = sse.exists() || frames.exists();
        let answer = match frames.exists() {
            true => framed(&fs::read(frames)?)?,
            false => fs::read(if stream { sse } else { folder.join("upstream.json") })?,
        };
        Ok(Self {
            path: text("path").ok_or("no path")?,
            model: text("model"),
            body: asked["body"].to_string().into(),
            answer: answer.into(),
            settings,
            stream,
        })
    }

    fn call(&self) -> Outcome<Call<'_>> {
        let routed = route(&Method::POST, &self.path).ok_or("no route")?;
        let model = edit::members(&self.body)?.into_iter().rev().find(|m| m.key == "model").map(|m| m.value);
        Ok(Call {
            operation: routed.operation,
            dialect: routed.dialect,
            method: &Method::POST,
            tail: routed.tail,
            query: None,
            body: &self.body,
            model: self.model.as_deref(),
            form: None,
            sound_ms: None,
            model_span: model,
            stream: self.stream,
            wants_usage: false,
            strict: true,
            now_ms: 1_750_000_000_123,
            dice: 7,
            origin: 0x5eed,
            settings: &self.settings,
            keeps: None,
        })
    }
}

/// Microseconds and allocations of one run.
#[derive(Clone, Copy)]
struct Cost {
    micros: f64,
    allocations: f64,
}

impl Cost {
    fn shown(self, parts: f64) -> String {
        format!("{:.2} | {:.1}", self.micros / parts, self.allocations / parts)
    }
}

fn measure(mut work: impl FnMut()) -> Cost {
    work();
    let region = Region::new(ALLOCATOR);
    work();
    let seen = region.change();
    let mut micros = f64::INFINITY;
    for _ in 0..ROUNDS {
        let (begin, mut runs) = (Instant::now(), 0_u32);
        while begin.elapsed() < ROUND {
            work();
            runs += 1;
        }
        micros = micros.min(begin.elapsed().as_secs_f64() * 1e6 / f64::from(runs));
    }
    let allocations = u32::try_from(seen.allocations + seen.reallocations).unwrap_or(u32::MAX);
    Cost { micros, allocations: f64::from(allocations) }
}

/// Lines of `{"name": payload}` as AWS frames them; the payload of a `chunk` is wrapped as InvokeModel wraps it.
fn framed(lines: &[u8]) -> Outcome<Vec<u8>> {
    let text = |value: &str| HeaderValue::String(value.to_owned().into());
    let mut out = Vec::new();
    for line in lines.split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
        let one: Map<String, Value> = serde_json::from_slice(line)?;
        let (name, payload) = one.iter().next().ok_or("a line without a name")?;
        let wrapped = || json!({ "bytes": STANDARD.encode(payload.to_string()) }).to_string();
        let payload = if name == "chunk" { wrapped() } else { payload.to_string() };
        let message = Message::new(Bytes::from(payload))
            .add_header(Header::new(":event-type", text(name)))
            .add_header(Header::new(":content-type", text("application/json")))
            .add_header(Header::new(":message-type", text("event")));
        write_message_to(&message, &mut out)?;
    }
    Ok(out)
}

/// The answer as sockets bring it: one event at a time.
fn events(answer: &Bytes) -> Vec<Bytes> {
    if answer.starts_with(&[0]) {
        let (mut at, mut all) = (0, Vec::new());
        while let Some((length, _)) = answer[at..].split_first_chunk::<4>() {
            let end = at + u32::from_be_bytes(*length) as usize;
            all.push(answer.slice(at..end));
            at = end;
        }
        return all;
    }
    // Google's lines end with both.
    let blank: &[u8] = if memchr::memmem::find(answer, b"\n\n").is_some() { b"\n\n" } else { b"\r\n\r\n" };
    let ends = memchr::memmem::find_iter(answer, blank).map(|at| at + blank.len());
    let mut from = 0;
    ends.map(|end| answer.slice(std::mem::replace(&mut from, end)..end)).collect()
}

fn row(adapter: &dyn Adapter, client: &str, whole: &Case, stream: &Case) -> Outcome<String> {
    let (call, streamed) = (whole.call()?, stream.call()?);
    // What cannot be done at all must not look fast.
    adapter.request(&call).map_err(|fault| fault.message().to_owned())?;
    adapter.response(&call, &whole.answer).map_err(|failure| failure.message)?;
    let request = measure(|| drop(adapter.request(&call)));
    let answer = measure(|| drop(adapter.response(&call, &whole.answer)));
    let events = events(&stream.answer);
    let flow = measure(|| {
        let mut translator = adapter.stream(&streamed);
        for event in &events {
            drop(translator.push(event.clone()));
        }
        drop(translator.finish());
    });
    let count = f64::from(u32::try_from(events.len())?);
    let slug = adapter.info().slug;
    Ok(format!("| `{slug}` | {client} | {} | {} | {} |", request.shown(1.0), answer.shown(1.0), flow.shown(count)))
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../providers/tests/golden")
}

fn main() -> Outcome<()> {
    let golden = golden();
    println!("| family | client | request µs | allocations | answer µs | allocations | event µs | allocations |");
    println!("|---|---|---|---|---|---|---|---|");
    for (slug, client, whole, stream) in CASES {
        let family = adapter(slug).ok_or("no such family")?;
        let read = |case: &str| Case::read(&golden.join(slug).join(case)).map_err(|e| format!("{slug}/{case}: {e}"));
        let (whole, stream) = (read(whole)?, read(stream)?);
        println!("{}", row(family.at(&whole.settings).unwrap_or(family), client, &whole, &stream)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden folders are renamed by people who think of translators and not of this table.
    #[test]
    fn each_case_is_a_golden_folder() {
        for (slug, _, whole, stream) in CASES {
            for case in [whole, stream] {
                assert!(golden().join(slug).join(case).is_dir(), "{slug}/{case}");
            }
        }
    }
}
