//! What translation costs, family by family: µs and allocations of a request, of a whole answer and of one event of a
//! stream, taken from the golden folders. Prints a table for `benches/README.md`. Knows no sockets.

#![expect(clippy::print_stdout, reason = "the table is what the program is for")]

use bytes::Bytes;
use gateway_domain::cloud::{Settings, setting};
use gateway_domain::operation::route;
use gateway_providers::{Adapter, Call, adapter, edit};
use http::Method;
use serde_json::Value;
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
    ("mistral-ai", "Responses", "unary-responses", "stream-responses-length"),
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
];

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A golden case as far as it is needed here.
struct Case {
    path: String,
    model: Option<String>,
    body: Bytes,
    answer: Bytes,
    settings: Settings,
    stream: bool,
}

impl Case {
    fn read(folder: &Path) -> Outcome<Self> {
        let asked: Value = serde_json::from_slice(&fs::read(folder.join("call.json"))?)?;
        let text = |key: &str| asked[key].as_str().map(str::to_owned);
        let mut settings = Settings::default();
        for (name, value) in asked["settings"].as_object().into_iter().flatten() {
            let known = setting(name).ok_or("an unknown setting")?;
            settings.set(known, value.as_str().unwrap_or_default().to_owned()).map_err(|e| format!("{name}: {e:?}"))?;
        }
        let stream = folder.join("upstream.sse").exists();
        let answer = fs::read(folder.join(if stream { "upstream.sse" } else { "upstream.json" }))?;
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
            raw: routed.raw,
            body: &self.body,
            model: self.model.as_deref(),
            model_span: model,
            stream: self.stream,
            wants_usage: false,
            strict: true,
            now_ms: 1_750_000_000_123,
            dice: 7,
            origin: 0x5eed,
            settings: &self.settings,
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

/// As sockets bring it: one event at a time.
fn events(answer: &Bytes) -> Vec<Bytes> {
    let ends = memchr::memmem::find_iter(answer, b"\n\n").map(|at| at + 2);
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

fn main() -> Outcome<()> {
    let golden: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../providers/tests/golden");
    println!("| family | client | request µs | allocations | answer µs | allocations | event µs | allocations |");
    println!("|---|---|---|---|---|---|---|---|");
    for (slug, client, whole, stream) in CASES {
        let adapter = adapter(slug).ok_or("no such family")?;
        let read = |case: &str| Case::read(&golden.join(slug).join(case)).map_err(|e| format!("{slug}/{case}: {e}"));
        println!("{}", row(adapter, client, &read(whole)?, &read(stream)?)?);
    }
    Ok(())
}
