//! A batch that a client made at a provider by way of the gateway is counted though nobody looks at it again: once,
//! whoever looks, dies, or is asked meanwhile.

use crate::batches::{CHAT, text};
use crate::direct_batches::{call, counted};
use crate::family_batches::{jsonl, prompt, used};
use crate::harness::{Gateway, Seen, Upstream, eventually, reply};
use gateway_testing::Postgres;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// A look at once, and again and again.
pub(crate) const WATCHED: &[&str] = &["--batch-watch", "100ms", "--batch-lease", "1s"];

/// How all batches of a provider stand.
#[derive(Clone, Copy)]
enum Stands {
    Running,
    Done,
    Fails(u16),
}

/// A provider with OpenAI's batches, called `batch_0` and so on. Each has two lines.
struct Provider {
    upstream: Upstream,
    stands: Arc<Mutex<Stands>>,
}

fn path(seen: &Seen) -> &str {
    let path = seen.target.split('?').next().unwrap_or_default();
    let from = ["/files", "/batches", "/chat"].iter().find_map(|root| path.find(root));
    from.map_or(path, |from| &path[from..])
}

fn batch_json(id: &str, is_done: bool) -> Value {
    let file = if is_done { json!(format!("out-{id}")) } else { Value::Null };
    json!({ "id": id, "object": "batch", "status": if is_done { "completed" } else { "in_progress" }, "endpoint": CHAT,
            "input_file_id": "file-in", "output_file_id": file, "error_file_id": null, "model": "gpt-5.5", "created_at": 1 })
}

fn line(n: usize) -> Value {
    let response = json!({ "status_code": 200, "request_id": "r", "body": used(1) });
    json!({ "id": "r", "custom_id": format!("line-{n}"), "response": response, "error": null })
}

impl Provider {
    async fn start() -> Self {
        let (stands, made) = (Arc::new(Mutex::new(Stands::Running)), AtomicUsize::new(0));
        let now = stands.clone();
        let upstream = Upstream::replying(move |seen| match (seen.method.as_str(), path(seen)) {
            ("POST", "/batches") => {
                reply::json(200, &batch_json(&format!("batch_{}", made.fetch_add(1, SeqCst)), false))
            }
            ("POST", "/chat/completions") => reply::json(200, &used(1)),
            ("GET", path) if path.starts_with("/files/out-") => jsonl(&[line(0), line(1)]),
            ("GET", path) => match (path.strip_prefix("/batches/"), *now.lock()) {
                (Some(_), Stands::Fails(status)) => reply::error(status, &[]),
                (Some(id), stands) => reply::json(200, &batch_json(id, matches!(stands, Stands::Done))),
                (None, _) => reply::error(404, &[]),
            },
            _ => reply::error(404, &[]),
        });
        Self { upstream: upstream.await, stands }
    }

    fn now(&self, stands: Stands) {
        *self.stands.lock() = stands;
    }

    fn config(&self) -> Value {
        json!({ "provider": "openai", "api_key": "sk-upstream", "custom_host": self.upstream.url() })
    }

    /// Looks at a batch, or at a file.
    fn asked(&self, wanted: &str) -> usize {
        let own = |seen: &Seen| seen.method == "GET" && path(seen) == wanted;
        self.upstream.seen().iter().filter(|seen| own(seen)).count()
    }
}

fn asked() -> Value {
    json!({ "input_file_id": "file-in", "endpoint": CHAT, "completion_window": "24h" })
}

async fn made(gateway: &Gateway, config: &Value, key: &str) -> String {
    let made = gateway.post("/v1/batches").config(config).key(key).json(&asked()).send().await.expect(200);
    text(&made.json(), "id")
}

/// A key with a budget of so many tokens.
async fn limited(gateway: &Gateway, tokens: u64) -> (String, String) {
    let limits = json!({ "type": "tokens", "credit_limit": tokens });
    gateway.admin().workspace_key("limited", json!({ "usage_limits": limits })).await
}

fn own_tokens() -> u64 {
    used(1)["usage"]["total_tokens"].as_u64().expect("a count")
}

async fn spends(gateway: &Gateway, id: &str, tokens: u64) {
    let spent = || async {
        let key = gateway.admin().get(&format!("/api-keys/{id}")).await.expect(200).json();
        (key["usage_limits"]["current_usage"] == tokens).then_some(())
    };
    eventually("the lines are paid for once", spent).await;
}

/// A metric, once it has this value.
async fn wait_for_metric(gateway: &Gateway, metric: &str, value: usize) {
    let line = format!("{metric} {value}\n");
    eventually(&line, || async { gateway.metrics().await.contains(&line).then_some(()) }).await;
}

fn looks(outcome: &str) -> String {
    format!("gateway_batch_watch_looks_total{{outcome=\"{outcome}\"}}")
}

/// The key may make two calls, which looks are none of, and has a budget that two lines exceed.
#[tokio::test]
async fn a_batch_that_nobody_looks_at_is_paid_for_once() {
    let (gateway, provider) = (Gateway::with(WATCHED).await, Provider::start().await);
    let config = provider.config();
    let limits = json!({ "usage_limits": { "type": "tokens", "credit_limit": own_tokens() },
                         "rate_limits": [{ "type": "requests", "unit": "rpw", "value": 2 }] });
    let (id, key) = gateway.admin().workspace_key("limited", limits).await;
    let batch = made(&gateway, &config, &key).await;
    eventually("it is looked at", || async { (provider.asked("/batches/batch_0") >= 3).then_some(()) }).await;
    provider.now(Stands::Done);
    let costs = counted(&gateway, &batch, 2).await;
    assert!(costs.values().all(|cost| *cost > 0.0), "{costs:?}");
    spends(&gateway, &id, 2 * own_tokens()).await;
    wait_for_metric(&gateway, &looks("counted"), 1).await;
    let chat = call(&gateway, &config, "POST", "/v1/chat/completions").key(&key).json(&prompt("gpt-5.5", 0));
    chat.send().await.expect(412);
    let seen = provider.asked("/batches/batch_0");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!((provider.asked("/batches/batch_0"), provider.asked("/files/out-batch_0/content")), (seen, 1));
    counted(&gateway, &batch, 2).await;
    spends(&gateway, &id, 2 * own_tokens()).await;
}

#[tokio::test]
async fn one_that_somebody_looked_at_is_not_asked_for_again() {
    let (gateway, provider) = (Gateway::with(&["--batch-watch", "2s"]).await, Provider::start().await);
    let config = provider.config();
    let (id, key) = limited(&gateway, 1_000_000_000).await;
    let batch = made(&gateway, &config, &key).await;
    provider.now(Stands::Done);
    call(&gateway, &config, "GET", &format!("/v1/batches/{batch}")).key(&key).send().await.expect(200);
    counted(&gateway, &batch, 2).await;
    wait_for_metric(&gateway, &looks("counted"), 1).await;
    spends(&gateway, &id, 2 * own_tokens()).await;
    assert_eq!((provider.asked("/batches/batch_0"), provider.asked("/files/out-batch_0/content")), (1, 1));
}

/// Its node dies before it has ended, and comes back with the same data.
#[tokio::test]
async fn one_whose_node_is_killed_is_counted_by_the_next() {
    let (gateway, provider) = (Gateway::with(WATCHED).await, Provider::start().await);
    let (id, key) = limited(&gateway, 1_000_000_000).await;
    let batch = made(&gateway, &provider.config(), &key).await;
    let gateway = gateway.restart_after_kill(WATCHED).await;
    provider.now(Stands::Done);
    counted(&gateway, &batch, 2).await;
    spends(&gateway, &id, 2 * own_tokens()).await;
    wait_for_metric(&gateway, &looks("counted"), 1).await;
    assert_eq!(provider.asked("/files/out-batch_0/content"), 1);
}

#[tokio::test]
async fn two_nodes_look_at_many_and_count_each_once() {
    const BATCHES: usize = 12;
    let shared =
        tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("watched_batches"))).await;
    let (_postgres, url): (Arc<Postgres>, String) = shared.expect("no panic");
    let one = Gateway::with(&[WATCHED, &["--database-url", &url]].concat()).await;
    let key = one.folder().join("data/master.key").display().to_string();
    let other = Gateway::with(&[WATCHED, &["--database-url", &url, "--master-key-file", &key]].concat()).await;
    let provider = Provider::start().await;
    let config = provider.config();
    for n in 0..BATCHES {
        let made_by = if n % 2 == 0 { &one } else { &other };
        made_by.post("/v1/batches").config(&config).json(&asked()).send().await.expect(200);
    }
    provider.now(Stands::Done);
    for n in 0..BATCHES {
        counted(&one, &format!("batch_{n}"), 2).await;
        assert_eq!(provider.asked(&format!("/files/out-batch_{n}/content")), 1, "batch {n}");
    }
    let ended = || async {
        let mut all = 0;
        for gateway in [&one, &other] {
            let metrics = gateway.metrics().await;
            let line = metrics.lines().find(|line| line.starts_with(&looks("counted"))).unwrap_or_default().to_owned();
            all += line.rsplit(' ').next().and_then(|count| count.parse::<usize>().ok()).unwrap_or_default();
        }
        (all == BATCHES).then_some(())
    };
    eventually("each watch ends once", ended).await;
}

#[tokio::test]
async fn one_that_its_provider_does_not_know_is_asked_for_four_times() {
    let (gateway, provider) = (Gateway::with(WATCHED).await, Provider::start().await);
    provider.now(Stands::Fails(404));
    gateway.post("/v1/batches").config(&provider.config()).json(&asked()).send().await.expect(200);
    wait_for_metric(&gateway, &looks("gone"), 1).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(provider.asked("/batches/batch_0"), 4);
}

#[tokio::test]
async fn a_provider_that_fails_is_asked_less_and_less_and_counted_once_it_is_back() {
    let (gateway, provider) = (Gateway::with(WATCHED).await, Provider::start().await);
    provider.now(Stands::Fails(500));
    let batch = gateway.post("/v1/batches").config(&provider.config()).json(&asked()).send().await.expect(200).json();
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let seen = provider.asked("/batches/batch_0");
    assert!((2..=6).contains(&seen), "after 0.1, 0.2, 0.4 and 0.8 s: {seen}");
    provider.now(Stands::Done);
    counted(&gateway, &text(&batch, "id"), 2).await;
    wait_for_metric(&gateway, &looks("counted"), 1).await;
}

#[tokio::test]
async fn one_that_does_not_end_is_given_up_after_its_time() {
    let flags = [WATCHED, &["--batch-watch-time", "1s"]].concat();
    let (gateway, provider) = (Gateway::with(&flags).await, Provider::start().await);
    gateway.post("/v1/batches").config(&provider.config()).json(&asked()).send().await.expect(200);
    wait_for_metric(&gateway, &looks("given_up"), 1).await;
    let seen = provider.asked("/batches/batch_0");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(provider.asked("/batches/batch_0"), seen);
}

/// A batch beyond the bound of a workspace is counted when somebody looks, as all were before.
#[tokio::test]
async fn so_many_of_a_workspace_are_watched_and_no_more() {
    const MOST: usize = 1_000;
    let (gateway, provider) = (Gateway::with(&["--batch-watch", "1h"]).await, Provider::start().await);
    let config = provider.config();
    for _ in 0..MOST / 50 {
        let some = (0..50).map(|_| gateway.post("/v1/batches").config(&config).json(&asked()).send());
        for answer in futures_util::future::join_all(some).await {
            answer.expect(200);
        }
    }
    let unwatched = "gateway_batches_unwatched_total{why=\"full\"}";
    wait_for_metric(&gateway, unwatched, 0).await;
    let last = gateway.post("/v1/batches").config(&config).json(&asked()).send().await.expect(200).json();
    wait_for_metric(&gateway, unwatched, 1).await;
    provider.now(Stands::Done);
    let path = format!("/v1/batches/{}", text(&last, "id"));
    call(&gateway, &config, "GET", &path).send().await.expect(200);
    counted(&gateway, &text(&last, "id"), 2).await;
}

#[tokio::test]
async fn what_a_key_made_is_counted_though_the_key_is_gone() {
    let (gateway, provider) = (Gateway::with(WATCHED).await, Provider::start().await);
    let (id, key) = limited(&gateway, 1_000_000_000).await;
    let batch = made(&gateway, &provider.config(), &key).await;
    gateway.admin().delete(&format!("/api-keys/{id}")).await.expect(200);
    provider.now(Stands::Done);
    counted(&gateway, &batch, 2).await;
    wait_for_metric(&gateway, &looks("counted"), 1).await;
}

#[tokio::test]
async fn with_an_interval_of_zero_nobody_looks() {
    let (gateway, provider) = (Gateway::with(&["--batch-watch", "0s"]).await, Provider::start().await);
    gateway.post("/v1/batches").config(&provider.config()).json(&asked()).send().await.expect(200);
    provider.now(Stands::Done);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(provider.asked("/batches/batch_0"), 0);
}
