//! Walks `tests/golden/<provider>/<case>/`: what a client sends, what must go upstream, what the provider answers,
//! what the client must see. No case has code here. `UPDATE_GOLDEN=1` writes what is expected from what is.
//!
//! | file | holds |
//! |---|---|
//! | `call.json` | `method`, `path` (with query), `model`, `strict`, `status` of the answer, `body` or `form`, `settings` |
//! | `upstream.http` | expected request, or `refused.json` |
//! | `upstream.json`, `.sse`, `.txt`, `.frames` | the provider's answer, in the words of its documentation; frames of AWS as
//! lines of JSON, `{"name": payload}`, that are framed here |
//! | `source` | where that is documented, `unverified: ` and why, or `made up: …` where it is nothing that the provider says |
//! | `client.json`, `.sse`, `.txt` | expected answer to the client |
//! | `usage.json` | expected usage, its cost at a fixed card, and how the stream went |

mod replay;

use crate::adapter::{Adapter, Call, ProviderRequest};
use crate::{Raw, adapter, compat, edit, registry};
use bytes::Bytes;
use gateway_domain::catalog::AuthStyle;
use gateway_domain::cloud::{CloudSettings, base_url, setting};
use gateway_domain::form::ClientForm;
use gateway_domain::money::PicoRate;
use gateway_domain::operation::route;
use gateway_domain::price::{PriceCard, PriceClass, PriceList, TierRates, price};
use gateway_domain::{Fault, Timestamp, Usage};
use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const NOW_MS: i64 = 1_750_000_000_123;
/// What every provider with a dialect or a quirk of its own has to show, as the start of a case's name.
const NEEDED: &[&str] = &["unary", "stream", "tool-call", "error"];

#[derive(Deserialize)]
struct GoldenRequest {
    #[serde(default = "post")]
    method: String,
    path: String,
    model: Option<String>,
    #[serde(default = "yes")]
    strict: bool,
    /// The status of the provider's answer.
    #[serde(default = "ok")]
    status: u16,
    body: Option<Box<RawValue>>,
    /// A form in place of a body: fields as name and text, files as name, text and file name.
    #[serde(default)]
    form: Vec<Vec<String>>,
    /// Settings of the provider's cloud, by name.
    #[serde(default)]
    settings: BTreeMap<String, Value>,
}

fn post() -> String {
    "POST".to_owned()
}

fn yes() -> bool {
    true
}

fn ok() -> u16 {
    200
}

/// The part of a body that the gateway's own peek reads.
#[derive(Default, Deserialize)]
struct GoldenPeek {
    #[serde(default)]
    stream: bool,
    stream_options: Option<GoldenStreamOptions>,
}

#[derive(Deserialize)]
struct GoldenStreamOptions {
    #[serde(default)]
    include_usage: bool,
}

struct GoldenCase {
    dir: PathBuf,
    provider: String,
    asked: GoldenRequest,
    body: Bytes,
    form: Option<ClientForm>,
    settings: CloudSettings,
}

impl GoldenCase {
    fn read(provider: &str, dir: PathBuf) -> Self {
        let text = fs::read_to_string(dir.join("call.json")).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        let asked: GoldenRequest = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        let body = asked.body.as_ref().map_or_else(Bytes::new, |raw| Bytes::copy_from_slice(raw.get().as_bytes()));
        let mut settings = CloudSettings::default();
        for (name, value) in &asked.settings {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            settings.set(setting(name).expect("a setting"), text).expect("a valid setting");
        }
        let (body, form) = if asked.form.is_empty() { (body, None) } else { written(&asked.form) };
        Self { dir, provider: provider.to_owned(), asked, body, form, settings }
    }

    fn name(&self) -> String {
        let case = self.dir.file_name().unwrap_or_default().to_string_lossy();
        format!("{}/{case}", self.provider)
    }

    fn answer(&self) -> Option<(&'static str, Bytes)> {
        ["json", "sse", "txt", "frames"].into_iter().find_map(|kind| {
            let bytes = fs::read(self.dir.join(format!("upstream.{kind}"))).ok()?;
            Some((kind, if kind == "frames" { replay::framed(&bytes) } else { bytes.into() }))
        })
    }

    /// Whether the call passes untouched. The route table says so, which is asked before the adapters.
    fn is_raw(&self) -> bool {
        let method: Method = self.asked.method.parse().expect("method");
        let path = self.asked.path.split('?').next().unwrap_or_default();
        let routed = route(&method, path).expect("below /v1");
        let reshapes = adapter(&self.provider).is_some_and(|adapter| adapter.reshapes(routed.operation));
        routed.raw && !reshapes
    }

    fn with_call<T>(&self, then: impl FnOnce(&Call<'_>) -> T) -> T {
        let method: Method = self.asked.method.parse().expect("method");
        let (path, query) = self.asked.path.split_once('?').map_or((&*self.asked.path, None), |(p, q)| (p, Some(q)));
        let routed = route(&method, path).expect("below /v1");
        let mut peek: GoldenPeek = serde_json::from_slice(&self.body).unwrap_or_default();
        peek.stream |= self.asked.form.iter().any(|field| field[..2] == ["stream", "true"]);
        let found = edit::members(&self.body).unwrap_or_default();
        let model_span = found.iter().rev().find(|m| m.key == "model").map(|m| m.value.clone());
        then(&Call {
            operation: routed.operation,
            dialect: routed.dialect,
            method: &method,
            tail: routed.tail,
            query,
            body: &self.body,
            form: self.form.as_ref(),
            sound_ms: None,
            model: self.asked.model.as_deref(),
            model_span,
            stream: peek.stream,
            wants_usage: peek.stream_options.is_some_and(|o| o.include_usage),
            strict: self.asked.strict,
            now_ms: NOW_MS,
            dice: 7,
            origin: 0x5eed,
            settings: &self.settings,
            keeps: None,
        })
    }
}

fn written(fields: &[Vec<String>]) -> (Bytes, Option<ClientForm>) {
    let mut out = String::new();
    for field in fields {
        let file = field.get(2).map(|name| format!("; filename=\"{name}\"")).unwrap_or_default();
        out += &format!("--b\r\ncontent-disposition: form-data; name=\"{}\"{file}\r\n\r\n{}\r\n", field[0], field[1]);
    }
    out += "--b--\r\n";
    let form = ClientForm::read("multipart/form-data; boundary=b", out.as_bytes()).expect("a form");
    (out.into(), Some(form))
}

/// Method, address, headers in order, body: as it would go over the wire.
fn request_text(case: &GoldenCase, adapter: &dyn Adapter, call: &Call<'_>, out: &ProviderRequest) -> String {
    let info = adapter.info();
    let endpoint = adapter.endpoint(call.operation, call.dialect).expect("served");
    let mut headers: Vec<String> = endpoint.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    headers.extend(out.headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().expect("text"))));
    headers.extend(match adapter.auth(case.is_raw().then_some(call.tail)) {
        AuthStyle::Bearer | AuthStyle::Snowflake => Some("authorization: Bearer <key>".to_owned()),
        AuthStyle::Header(name) => Some(format!("{name}: <key>")),
        AuthStyle::Scheme(scheme) => Some(format!("authorization: {scheme} <key>")),
        AuthStyle::BearerIn(name) => Some(format!("{name}: Bearer <key>")),
        AuthStyle::None => None,
    });
    headers.sort();
    let path = out.path.as_deref().unwrap_or(&endpoint.path);
    let made = base_url(info.slug, call.settings).ok().flatten();
    let url = format!("{}{path}", info.base_url.or(made.as_deref()).unwrap_or("<custom host>"));
    let adjusted =
        if out.adjusted.is_empty() { String::new() } else { format!("adjusted: {}\n", out.adjusted.join(", ")) };
    let body = out.body.join();
    let body = String::from_utf8_lossy(&body);
    format!("{} {url}\n{}\n\n{body}\n{adjusted}", call.method, headers.join("\n"))
}

fn refusal(fault: &Fault) -> String {
    pretty(&json!({ "status": fault.status(), "param": fault.param(), "message": fault.message() }))
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("JSON") + "\n"
}

/// A card of its own, so that new prices change no golden file: 1, 0.1, 1.25 and 5 dollars per million,
/// and a cent for a search.
fn cost(usage: &Usage) -> Option<i64> {
    let rates = [
        (PriceClass::Input, 1_000_000),
        (PriceClass::CacheRead, 100_000),
        (PriceClass::CacheWrite, 1_250_000),
        (PriceClass::Output, 5_000_000),
        (PriceClass::WebSearch, 10_000_000_000),
    ];
    let rates = rates.into_iter().map(|(class, rate)| (class, PicoRate(rate))).collect();
    let standard = TierRates { rates, ..TierRates::default() };
    let card = PriceCard::public(PriceList { standard, ..PriceList::default() });
    price(usage, Some(&card), Timestamp(0)).map(|nano| nano.0)
}

fn usage_text(usage: Option<Usage>, rest: Value) -> String {
    let mut all = json!({ "usage": usage, "cost_nanodollars": usage.as_ref().and_then(cost) });
    if let (Value::Object(all), Value::Object(rest)) = (&mut all, rest) {
        all.extend(rest);
    }
    pretty(&all)
}

/// Everything that a case says, by file name.
fn outcome(case: &GoldenCase) -> Vec<(String, String)> {
    let adapter = adapter(&case.provider).unwrap_or_else(|| panic!("no provider {}", case.provider));
    let adapter = adapter.at(&case.settings).unwrap_or(adapter);
    let raw = Raw(adapter);
    let adapter = if case.is_raw() { &raw } else { adapter };
    case.with_call(|call| {
        let mut files = Vec::new();
        match adapter.request(call) {
            Ok(out) => files.push(("upstream.http".to_owned(), request_text(case, adapter, call, &out))),
            Err(fault) => {
                files.push(("refused.json".to_owned(), refusal(&fault)));
                return files;
            }
        }
        let Some((kind, answer)) = case.answer() else { return files };
        let (client, usage) = if matches!(kind, "sse" | "frames") {
            if !case.is_raw() {
                replay::texts_are_told(adapter, call, &answer, &case.name());
            }
            replay::stream(adapter, call, &answer, &case.name())
        } else if case.asked.status >= 400 {
            let f = adapter.failure(call, case.asked.status, &answer);
            (f.body.to_vec(), usage_text(None, json!({ "status": f.status, "message": f.message })))
        } else {
            match adapter.response(call, &answer) {
                Ok(reply) => (reply.body.to_vec(), usage_text(reply.usage, json!({ "model": reply.model }))),
                Err(f) => (f.body.to_vec(), usage_text(None, json!({ "status": f.status, "message": f.message }))),
            }
        };
        let kind = if kind == "frames" { "sse" } else { kind };
        files.push((format!("client.{kind}"), String::from_utf8(client).expect("UTF-8")));
        files.push(("usage.json".to_owned(), usage));
        files
    })
}

fn folders(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut all: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| p.is_dir()).collect();
    all.sort();
    all
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// JSON that the client gets unformatted is kept formatted in the file, for whoever reads a diff.
fn shown(name: &str, text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(value) if name == "client.json" => pretty(&value),
        _ => text.to_owned(),
    }
}

#[test]
fn golden() {
    #[expect(clippy::disallowed_methods, reason = "the one switch of this test")]
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let (mut wrong, mut unverified, mut count) = (Vec::new(), Vec::new(), 0);
    for provider in folders(&root()) {
        for dir in folders(&provider) {
            let case = GoldenCase::read(&name_of(&provider), dir);
            count += 1;
            let expected = ["upstream.http", "refused.json", "client.json", "client.sse", "client.txt", "usage.json"];
            let outcome = outcome(&case);
            for (name, text) in &outcome {
                let (path, text) = (case.dir.join(name), shown(name, text));
                if update {
                    fs::write(&path, text).expect("writable");
                } else if fs::read_to_string(&path).unwrap_or_default() != text {
                    wrong.push(format!("{}/{name} should be:\n{text}", case.name()));
                }
            }
            for name in expected.iter().filter(|n| outcome.iter().all(|(made, _)| made != *n)) {
                if update {
                    let _ = fs::remove_file(case.dir.join(name));
                } else if case.dir.join(name).exists() {
                    wrong.push(format!("{}/{name} is there, but nothing of the kind happens", case.name()));
                }
            }
            if case.answer().is_some() {
                match fs::read_to_string(case.dir.join("source")) {
                    Ok(source) if source.starts_with("unverified: ") => unverified.push(case.name()),
                    Ok(source) if source.starts_with("http") || source.starts_with("made up: ") => {}
                    _ => wrong.push(format!(
                        "{}/source must hold the address of the documentation, `unverified: …` or `made up: …`",
                        case.name()
                    )),
                }
            }
        }
    }
    println!("{count} golden cases, {} unverified: {unverified:?}", unverified.len());
    assert!(wrong.is_empty(), "{} differ\n\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn whoever_is_special_shows_the_four_cases() {
    let quirks = compat::ROWS.iter().filter(|row| row.quirk.is_some()).map(|row| row.info.slug);
    // The first has none by definition; the rows beside the quirks have ways of their own that rows tell as data.
    let rows = ["openai", "mistral-ai", "groq", "x-ai", "deepseek", "ollama", "vllm", "openrouter"];
    let rows = rows.into_iter().chain(["ai21", "cortex", "github", "huggingface", "reka-ai", "workers-ai"]);
    let own = registry::OWN.iter().map(|adapter| adapter.info().slug);
    let special = quirks.chain(rows).chain(own);
    let mut missing = Vec::new();
    for slug in special {
        let dir = root().join(slug);
        let cases: Vec<String> =
            if dir.is_dir() { folders(&dir).iter().map(|p| name_of(p)).collect() } else { Vec::new() };
        let lacks = NEEDED.iter().filter(|need| cases.iter().all(|case| !case.starts_with(*need)));
        missing.extend(lacks.map(|need| format!("{slug}/{need}")));
    }
    assert!(missing.is_empty(), "no golden case: {missing:?}");
}

#[test]
fn no_secret_in_a_fixture() {
    fn files(dir: &Path, found: &mut Vec<PathBuf>) {
        for path in fs::read_dir(dir).expect("folder").filter_map(|e| Some(e.ok()?.path())) {
            if path.is_dir() { files(&path, found) } else { found.push(path) }
        }
    }
    let mut all = Vec::new();
    files(&root(), &mut all);
    for path in all {
        let text = fs::read_to_string(&path).unwrap_or_default();
        for word in text.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_')) {
            let like_a_key =
                ["sk-", "gsk_", "xai-", "hf_"].iter().any(|mark| word.starts_with(mark)) && word.len() > 24;
            assert!(!like_a_key, "{} holds what looks like a key", path.display());
        }
    }
}
