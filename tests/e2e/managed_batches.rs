//! Batches that a provider runs, of files that the gateway keeps: they go up once, and what came of them is counted
//! once.

use crate::batches::{CHAT, ask, asked, batch, ended, file, line, results, text};
use crate::family_batches::{FAST, cost};
use crate::harness::{Answer, Gateway, Seen, Upstream, eventually, gateway::target, hello, reply, with};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// A provider with batches of its own: its batch ends when it was looked at so many times.
#[derive(Default)]
pub(crate) struct NativeProvider {
    looks: AtomicUsize,
    until: usize,
    made: AtomicUsize,
    cancelled: AtomicBool,
    /// The answer to the first batch that is asked for is lost.
    silent: AtomicBool,
    metadata: Mutex<Value>,
    /// What each line is answered, where that is no text.
    drawn: Option<Value>,
}

impl NativeProvider {
    pub(crate) async fn start(until: usize) -> (Arc<Self>, Upstream) {
        Self { until, ..Self::default() }.serve().await
    }

    pub(crate) fn made(&self) -> usize {
        self.made.load(SeqCst)
    }

    async fn serve(self) -> (Arc<Self>, Upstream) {
        let provider = Arc::new(self);
        let playing = provider.clone();
        let upstream = Upstream::scripted(move |mut peer| {
            let provider = playing.clone();
            async move {
                while let Some(seen) = peer.request().await {
                    let answer = provider.answer(&seen);
                    if answer.is_empty() {
                        peer.pause(60_000).await;
                    }
                    if !peer.send(answer).await {
                        return;
                    }
                }
            }
        });
        (provider, upstream.await)
    }

    fn batch_json(&self, status: &str, files: bool) -> Value {
        let (output, error) = if files { (json!("file-out"), json!("file-err")) } else { (Value::Null, Value::Null) };
        json!({ "id": "batch_native", "object": "batch", "status": status, "output_file_id": output,
                "error_file_id": error, "metadata": *self.metadata.lock().expect("held by nobody") })
    }

    fn answer(&self, seen: &Seen) -> Vec<u8> {
        match (seen.method.as_str(), path(seen)) {
            ("POST", "/files") => reply::json(200, &json!({ "id": "file-in", "object": "file", "purpose": "batch" })),
            ("POST", "/batches") => {
                self.made.fetch_add(1, SeqCst);
                *self.metadata.lock().expect("held by nobody") = seen.json()["metadata"].clone();
                if self.silent.swap(false, SeqCst) {
                    return Vec::new();
                }
                reply::json(200, &self.batch_json("validating", false))
            }
            ("GET", "/batches") => {
                let other = json!({ "id": "batch_other", "status": "completed" });
                reply::json(200, &json!({ "object": "list", "data": [other, self.batch_json("in_progress", false)] }))
            }
            ("POST", "/batches/batch_native/cancel") => {
                self.cancelled.store(true, SeqCst);
                reply::json(200, &self.batch_json("cancelling", false))
            }
            ("GET", "/batches/batch_native") => {
                let looks = self.looks.fetch_add(1, SeqCst) + 1;
                let told = match (self.cancelled.load(SeqCst), looks >= self.until) {
                    (true, _) => self.batch_json("cancelled", true),
                    (false, true) => self.batch_json("completed", true),
                    (false, false) => self.batch_json("in_progress", false),
                };
                reply::json(200, &told)
            }
            ("GET", "/files/file-out/content") => {
                // Lines come in an order of the provider's own.
                let of = |n: usize| self.drawn.clone().unwrap_or_else(|| reply::completion(&format!("line-{n}")));
                let lines = [2, 0].map(|n| answered(n, 200, &of(n)));
                reply::whole(200, &[("content-type", "application/octet-stream")], lines.concat())
            }
            ("GET", "/files/file-err/content") => {
                let error = json!({ "error": { "message": "too long" } });
                reply::whole(200, &[("content-type", "application/octet-stream")], answered(1, 400, &error))
            }
            ("DELETE", "/files/file-in") => reply::json(200, &json!({ "id": "file-in", "deleted": true })),
            other => panic!("nobody asks {other:?}"),
        }
    }
}

fn path(seen: &Seen) -> &str {
    seen.target.split('?').next().unwrap_or_default().trim_start_matches("/v1")
}

fn answered(n: usize, status: u16, body: &Value) -> String {
    let response = json!({ "status_code": status, "request_id": "r", "body": body });
    json!({ "id": format!("native_{n}"), "custom_id": format!("line-{n}"), "response": response, "error": null })
        .to_string()
        + "\n"
}

fn by_provider(file: &str) -> Value {
    with(asked(file), json!({ "completion_window": "24h" }))
}

pub(crate) fn three(model: &str) -> String {
    let body = |n: usize| json!({ "model": model, "messages": [ask(n)] });
    (0..3).map(|n| line(&format!("line-{n}"), CHAT, &body(n))).collect()
}

async fn make(gateway: &Gateway, config: &Value, body: &Value) -> Answer {
    gateway.post("/v1/batches").config(config).json(body).send().await
}

pub(crate) fn calls(upstream: &Upstream, method: &str, path: &str) -> Vec<Seen> {
    upstream.seen().into_iter().filter(|seen| seen.method == method && self::path(seen) == path).collect()
}

#[tokio::test]
async fn a_provider_runs_the_lines_and_each_is_counted_once_at_its_price_for_batches() {
    let gateway = Gateway::with(FAST).await;
    let (_, upstream) = NativeProvider::start(3).await;
    let file = file(&gateway, &three("gpt-4o-mini")).await;
    let body = with(by_provider(&file), json!({ "provider_options": { "job_name": "nightly" } }));
    let id = text(&make(&gateway, &target(&upstream), &body).await.expect(200).json(), "id");
    let batch = ended(&gateway, &id, "completed").await;
    assert_eq!(batch["request_counts"], json!({ "total": 3, "completed": 2, "failed": 1 }));
    assert_eq!((&batch["provider_job_id"], &batch["usage"]["input_tokens"]), (&json!("batch_native"), &json!(10)));
    let (good, bad) =
        (results(&gateway, &batch, "output_file_id").await, results(&gateway, &batch, "error_file_id").await);
    assert_eq!(good.keys().collect::<Vec<_>>(), ["line-0", "line-2"]);
    assert_eq!(bad["line-1"]["response"]["status_code"], 400);
    // What went up is the client's file, and the provider's batch is of it.
    let up = calls(&upstream, "POST", "/files")[0].text();
    assert!(up.contains("name=\"purpose\"\r\n\r\nbatch") && up.contains("line-2"), "{up}");
    let made = calls(&upstream, "POST", "/batches");
    let made = made[0].json();
    assert_eq!(
        (&made["input_file_id"], &made["endpoint"], &made["job_name"]),
        (&json!("file-in"), &json!(CHAT), &json!("nightly"))
    );
    assert_eq!((&made["completion_window"], &made["metadata"]["gateway_batch_id"]), (&json!("24h"), &json!(id)));
    eventually("the file to go", || async { (calls(&upstream, "DELETE", "/files/file-in").len() == 1).then_some(()) })
        .await;
    // Outside of a batch a call costs twice as much.
    let plain = Upstream::replying(|_| reply::chat("hi")).await;
    let full = gateway.chat().config(&target(&plain)).header("x-gateway-trace-id", "full");
    full.json(&with(hello(), json!({ "model": "gpt-4o-mini" }))).send().await.expect(200);
    let cost = async |trace: &str| {
        let found = eventually(trace, || async {
            let list = gateway.admin().get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
            (list["total"] == 1).then(|| list["data"][0]["metrics"].clone())
        });
        let told = found.await;
        (told["cost"].as_f64().unwrap_or_default(), told["operation"].clone())
    };
    let (full, (first, operation)) = (cost("full").await.0, cost(&format!("{id}-1")).await);
    assert!(full > 0.0 && (first * 2.0 - full).abs() < 1e-9, "{first} in a batch, {full} outside");
    assert_eq!((operation, cost(&format!("{id}-2")).await.0), (json!("chatComplete"), 0.0));
    assert_eq!(cost(&id).await.1, "batch");
}

/// The answers of lines that ask for pictures tell no model, and their usage in words of their own, or not at all.
#[tokio::test]
async fn pictures_that_a_provider_drew_cost_half() {
    const DRAW: &str = "/v1/images/generations";
    let gateway = Gateway::with(FAST).await;
    let plain = json!({ "created": 1, "data": [{ "b64_json": "AAAA" }], "quality": "low", "size": "1024x1024" });
    let tokens = json!({ "usage": { "input_tokens": 100, "output_tokens": 4000, "total_tokens": 4100 } });
    for (trace, drawn) in [("piece", plain.clone()), ("tokens", with(plain, tokens))] {
        let provider = NativeProvider { until: 1, drawn: Some(drawn.clone()), ..NativeProvider::default() };
        let (_, upstream) = provider.serve().await;
        let ask = json!({ "model": "gpt-image-1", "prompt": "a cat", "quality": "low", "size": "1024x1024" });
        let lines: String = (0..3).map(|n| line(&format!("line-{n}"), DRAW, &ask)).collect();
        let body = with(by_provider(&file(&gateway, &lines).await), json!({ "endpoint": DRAW }));
        let id = text(&make(&gateway, &target(&upstream), &body).await.expect(200).json(), "id");
        ended(&gateway, &id, "completed").await;
        let other = Upstream::replying(move |_| reply::json(200, &drawn)).await;
        let call = gateway.post(DRAW).config(&target(&other)).header("x-gateway-trace-id", trace);
        call.json(&ask).send().await.expect(200);
        let (full, own) = (cost(&gateway, trace).await, cost(&gateway, &format!("{id}-1")).await);
        assert!(full > 0.0 && (own * 2.0 - full).abs() < 1e-9, "{own} in a batch, {full} outside: {trace}");
    }
}

#[tokio::test]
async fn lines_of_a_provider_count_for_budgets() {
    let gateway = Gateway::with(FAST).await;
    let (_, upstream) = NativeProvider::start(1).await;
    let limits = json!({ "usage_limits": { "credit_limit": 10, "type": "tokens" } });
    let (_, key) = gateway.admin().workspace_key("small", limits).await;
    let content = three("gpt-4o-mini");
    let parts = [("purpose", None, b"batch".as_slice()), ("file", Some("f"), content.as_bytes())];
    let form = crate::area_forms::form(&parts);
    let made = gateway.post("/v1/files").key(&key).body(crate::area_forms::FORM, form).send().await.expect(200).json();
    let call = gateway.post("/v1/batches").key(&key).config(&target(&upstream));
    let made = call.json(&by_provider(&text(&made, "id"))).send().await.expect(200).json();
    ended(&gateway, &text(&made, "id"), "completed").await;
    // Two lines of eight tokens each: more than there was, as nobody can stop a provider in the middle.
    let plain = Upstream::replying(|_| reply::chat("hi")).await;
    gateway.chat().key(&key).config(&target(&plain)).json(&hello()).send().await.expect(412);
}

#[tokio::test]
async fn a_cancelled_one_is_cancelled_at_its_provider_too() {
    let gateway = Gateway::with(FAST).await;
    let (provider, upstream) = NativeProvider::start(usize::MAX).await;
    let file = file(&gateway, &three("gpt-4o-mini")).await;
    let id = text(&make(&gateway, &target(&upstream), &by_provider(&file)).await.expect(200).json(), "id");
    eventually("a look", || async { (provider.looks.load(SeqCst) > 1).then_some(()) }).await;
    assert_eq!(batch(&gateway, &id).await["status"], "in_progress");
    gateway.post(&format!("/v1/batches/{id}/cancel")).send().await.expect(200);
    let batch = ended(&gateway, &id, "cancelled").await;
    let kept = results(&gateway, &batch, "output_file_id").await.len();
    assert_eq!((kept, provider.cancelled.load(SeqCst)), (2, true), "what was answered is kept");
}

#[tokio::test]
async fn one_that_was_asked_for_by_a_process_that_died_is_found_again() {
    let gateway = Gateway::with(FAST).await;
    let (provider, upstream) =
        NativeProvider { until: 2, silent: true.into(), ..NativeProvider::default() }.serve().await;
    let file = file(&gateway, &three("gpt-4o-mini")).await;
    let id = text(&make(&gateway, &target(&upstream), &by_provider(&file)).await.expect(200).json(), "id");
    eventually("it to be asked for", || async { (provider.made.load(SeqCst) == 1).then_some(()) }).await;
    let gateway = gateway.restart_after_kill(FAST).await;
    let batch = ended(&gateway, &id, "completed").await;
    assert_eq!(batch["request_counts"]["total"], 3);
    assert_eq!((provider.made.load(SeqCst), calls(&upstream, "POST", "/files").len()), (1, 1), "neither is made twice");
}

#[tokio::test]
async fn what_cannot_be_a_providers_batch_fails_by_name() {
    let gateway = Gateway::with(FAST).await;
    let upstream = Upstream::replying(|_| reply::error(400, &[])).await;
    let own = target(&upstream);
    let several = json!({ "strategy": { "mode": "fallback" }, "targets": [own, own] });
    let without = with(own.clone(), json!({ "provider": "cohere" }));
    let file = file(&gateway, &three("gpt-4o-mini")).await;
    for (config, why) in [(several, "one target"), (own, "scripted 400"), (without, "not supported")] {
        let id = text(&make(&gateway, &config, &by_provider(&file)).await.expect(200).json(), "id");
        let failed = ended(&gateway, &id, "failed").await;
        let told = &failed["errors"]["data"][0];
        assert!(told["code"] == "provider_refused" && text(told, "message").contains(why), "{why}: {told}");
    }
    assert_eq!(upstream.seen().len(), 1, "only what may be sent is");
    for (body, name) in [
        (json!({ "provider_options": { "endpoint": "/v1/x" } }), "provider_options.endpoint"),
        (json!({ "gateway_options": { "colour": "red" } }), "gateway_options.colour"),
        (json!({ "gateway_options": { "provider": 7 } }), "gateway_options.provider"),
        (json!({ "completion_window": "immediate", "provider_options": { "job_name": "x" } }), "provider_options"),
    ] {
        let told = make(&gateway, &target(&upstream), &with(by_provider(&file), body)).await.expect(400).error();
        assert!(told.contains(name), "{name}: {told}");
    }
    let nobody = gateway.post("/v1/batches").json(&by_provider(&file)).send().await.expect(400).error();
    assert!(nobody.contains("completion_window"), "{nobody}");
}

#[tokio::test]
async fn the_batch_itself_may_say_whose_it_is() {
    let gateway = Gateway::with(FAST).await;
    let (_, upstream) = NativeProvider::start(1).await;
    gateway.admin().provider("own", "openai", Some(&upstream.url())).await;
    let other = json!({ "x-gateway-config": target(&upstream) });
    for (model, options) in [("@own/gpt-4o-mini", json!({ "provider": "@own" })), ("gpt-4o-mini", other)] {
        let file = file(&gateway, &three(model)).await;
        let body = with(by_provider(&file), json!({ "gateway_options": options }));
        let made = gateway.post("/v1/batches").json(&body).send().await.expect(200).json();
        ended(&gateway, &text(&made, "id"), "completed").await;
    }
    for up in calls(&upstream, "POST", "/files") {
        assert!(up.text().contains(r#""model":"gpt-4o-mini""#) && !up.text().contains("@own"), "{}", up.text());
    }
}

/// Before anything is kept of the batch, and not when its first line runs.
#[tokio::test]
async fn a_provider_that_cannot_run_the_batch_is_refused_when_it_is_made() {
    let gateway = Gateway::with(FAST).await;
    let upstream = Upstream::replying(|_| reply::error(500, &[])).await;
    let admin = gateway.admin();
    for (slug, family) in [("own", "openai"), ("claude", "anthropic"), ("grok", "x-ai"), ("rank", "cohere")] {
        admin.provider(slug, family, Some(&upstream.url())).await;
    }
    let file = file(&gateway, &three("gpt-4o-mini")).await;
    let make = async |window: &str, endpoint: &str, provider: &str| {
        let more =
            json!({ "completion_window": window, "endpoint": endpoint, "gateway_options": { "provider": provider } });
        gateway.post("/v1/batches").json(&with(by_provider(&file), more)).send().await
    };
    for (window, endpoint, provider, why) in [
        ("24h", "/v1/chat/completions", "@nobody", "No provider @nobody"),
        ("immediate", "/v1/chat/completions", "@nobody", "No provider @nobody"),
        ("24h", "/v1/chat/completions", "opeenai", "no family"),
        ("24h", "/v1/embeddings", "@claude", "runs no batches of /v1/embeddings"),
        ("immediate", "/v1/embeddings", "@claude", "does not serve /v1/embeddings"),
        ("24h", "/v1/responses", "@grok", "runs no batches of /v1/responses"),
        ("24h", "/v1/chat/completions", "@rank", "runs no batches of /v1/chat/completions"),
    ] {
        let told = make(window, endpoint, provider).await.expect(400).json();
        let said = text(&told["error"], "message");
        let is_named = told["error"]["param"] == "gateway_options.provider";
        assert!(is_named && said.contains(why) && said.starts_with("gateway_options.provider"), "{provider}: {told}");
    }
    for (window, endpoint, provider) in [
        ("24h", "/v1/embeddings", "@own"),
        ("immediate", "/v1/responses", "@claude"),
        ("24h", "/v1/chat/completions", "@grok"),
    ] {
        make(window, endpoint, provider).await.expect(200);
    }
    let made = gateway.get("/v1/batches").send().await.expect(200).json();
    assert_eq!(made["data"].as_array().map(Vec::len), Some(3), "{made}");
}
