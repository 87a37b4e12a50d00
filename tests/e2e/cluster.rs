//! Several nodes on one Postgres: who is there, and what they promise together.

use crate::harness::{Gateway, Wire, eventually, hello};
use futures_util::{StreamExt, stream};
use gateway_testing::Postgres;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) async fn database(name: &'static str) -> (Arc<Postgres>, String) {
    let made = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create(name))).await;
    made.expect("no panic")
}

async fn nodes(gateway: &Gateway) -> Vec<Value> {
    let list = gateway.admin().get("/nodes").await.expect(200).json();
    list["data"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn a_node_alone_knows_itself() {
    let gateway = Gateway::start().await;
    let seen = eventually("itself", || async { Some(nodes(&gateway).await).filter(|n| !n.is_empty()) }).await;
    assert_eq!(seen.len(), 1);
    assert_eq!((&seen[0]["role"], &seen[0]["status"]), (&json!("all"), &json!("live")));
    assert_eq!(seen[0]["version"], env!("CARGO_PKG_VERSION"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_know_each_other_until_they_leave() {
    let (_postgres, url) = database("nodes").await;
    let one = Gateway::with(&["--database-url", &url]).await;
    let key = one.folder().join("data/master.key").display().to_string();
    let shared = ["--database-url", &url, "--master-key-file", &key];
    let mut two = Gateway::with(&[&shared[..], &["--role", "proxy"]].concat()).await;
    let serving = async |count: &str| {
        let metrics = one.client().get(one.admin_url("/metrics")).send().await.expect("metrics");
        metrics.text().await.expect("text").contains(&format!("gateway_nodes {count}\n"))
    };
    let seen = eventually("both", || async { Some(nodes(&one).await).filter(|n| n.len() == 2) }).await;
    let roles: Vec<&Value> = seen.iter().map(|n| &n["role"]).collect();
    assert_eq!(roles, ["all", "proxy"]);
    eventually("no lag", || async { nodes(&one).await.iter().all(|n| n["lag"] == 0).then_some(()) }).await;
    eventually("two that serve", || async { serving("2").await.then_some(()) }).await;
    two.process.signal("TERM");
    two.process.exit(Duration::from_secs(20)).await;
    eventually("a farewell", || async { (nodes(&one).await.len() == 1).then_some(()) }).await;
    eventually("one that serves", || async { serving("1").await.then_some(()) }).await;
}

#[tokio::test]
async fn a_node_tells_its_settings_with_their_sources_and_no_secret() {
    const TOKEN: &str = "data-service-token-0123456789-0123456789";
    let gateway = Gateway::with(&["--data-service-token", TOKEN, "--idle-timeout", "17s"]).await;
    let answer = gateway.admin().get("/nodes/settings").await.expect(200);
    let told = answer.json();
    let one = |name: &str| {
        let rows = told["data"].as_array().expect("a list").iter();
        rows.clone().find(|s| s["name"] == name).unwrap_or_else(|| panic!("no {name}: {told}"))
    };
    let (idle, total) = (one("idle-timeout"), one("total-timeout"));
    assert_eq!((&idle["value"], &idle["source"]), (&json!("17s"), &json!("flag")), "{idle}");
    assert_eq!(total["source"], "default", "{total}");
    assert_eq!((&one("data-service-token")["value"], answer.text().contains(TOKEN)), (&json!("***"), false));
    for secret in [crate::harness::ADMIN_KEY, crate::harness::WORKSPACE_KEY] {
        assert!(!answer.text().contains(secret));
    }
    let own = gateway.admin().with_key(crate::harness::WORKSPACE_KEY);
    own.get("/nodes/settings").await.expect(403);

    // Its holder lists configs, on both ports, and may do nothing else.
    let slug = gateway.admin().config("main", &json!({ "provider": "mock" })).await;
    let service = gateway.admin().with_key(TOKEN);
    assert_eq!(service.get("/configs").await.expect(200).json()["data"][0]["slug"], json!(slug));
    gateway.get("/v2/configs").key(TOKEN).send().await.expect(200);
    service.get(&format!("/configs/{slug}")).await.expect(403);
    service.post("/configs", &json!({ "name": "c", "config": { "provider": "mock" } })).await.expect(403);
    service.get("/providers").await.expect(403);
    service.get("/nodes").await.expect(403);
    gateway.chat().key(TOKEN).provider("mock").json(&hello()).send().await.expect(401);
    let without = Gateway::start().await;
    without.admin().with_key(TOKEN).get("/configs").await.expect(401);
}

/// Two nodes of each half; the second proxy reaches the database over a wire that can be cut.
struct Cluster {
    admins: [Gateway; 2],
    proxies: [Gateway; 2],
    wire: Wire,
    _postgres: Arc<Postgres>,
}

impl Cluster {
    async fn start(name: &'static str) -> Self {
        let (postgres, url) = database(name).await;
        let wire = Wire::to(postgres.port()).await;
        let over = url.replace(&format!(":{}/", postgres.port()), &format!(":{}/", wire.port));
        let first = Gateway::with(&["--database-url", &url, "--role", "admin"]).await;
        let key = first.folder().join("data/master.key").display().to_string();
        let node = async |url: &str, role: &str| {
            Gateway::with(&["--database-url", url, "--master-key-file", &key, "--role", role]).await
        };
        let second = node(&url, "admin").await;
        let proxies = [node(&url, "proxy").await, node(&over, "proxy").await];
        Self { admins: [first, second], proxies, wire, _postgres: postgres }
    }

    fn nodes(&self) -> [&Gateway; 4] {
        [&self.admins[0], &self.admins[1], &self.proxies[0], &self.proxies[1]]
    }

    /// A key that every proxy lets in.
    async fn key(&self) -> (String, String) {
        let (id, key) = self.admins[0].admin().workspace_key("k", json!({})).await;
        for proxy in &self.proxies {
            eventually("the key opens", || async { (ask(proxy, &key).await == 200).then_some(()) }).await;
        }
        (id, key)
    }

    async fn revoke(&self, id: &str) {
        self.admins[1].admin().delete(&format!("/api-keys/{id}")).await.expect(200);
    }
}

async fn ask(proxy: &Gateway, key: &str) -> u16 {
    proxy.chat().key(key).provider("mock").json(&hello()).send().await.status
}

/// How long after `since` the key was refused.
async fn refused(proxy: &Gateway, key: &str, since: Instant) -> Duration {
    eventually("the key is refused", || async { (ask(proxy, key).await == 401).then_some(()) }).await;
    since.elapsed()
}

async fn revision(node: &Gateway) -> i64 {
    let metrics = node.client().get(node.admin_url("/metrics")).send().await.expect("metrics");
    let text = metrics.text().await.expect("text");
    let line = text.lines().find_map(|l| l.strip_prefix("gateway_config_revision ")).expect("the metric");
    line.parse().expect("a number")
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_writes_at_once_lose_nothing() {
    let cluster = Cluster::start("thousand").await;
    let admins = [cluster.admins[0].admin(), cluster.admins[1].admin()];
    let mut slugs = Vec::new();
    for i in 0..5 {
        slugs.push(admins[0].config(&format!("c{i}"), &json!({ "provider": "mock" })).await);
    }
    let before = revision(&cluster.admins[0]).await;
    // Half make keys, half change the same few configs; every second one goes to the other node.
    let write = async |i: usize| {
        let admin = &admins[i % 2];
        let answer = if i % 4 < 2 {
            let body = json!({ "name": format!("k{i}"), "scopes": ["completions.write"] });
            admin.post("/api-keys/workspace/service", &body).await
        } else {
            let body = json!({ "config": { "provider": "mock", "override_params": { "user": format!("u{i}") } }, "name": format!("n{i}") });
            admin.put(&format!("/configs/{}", slugs[i % 5]), &body).await
        };
        let answer = answer.expect(200);
        answer.header("x-config-revision").expect("its revision").parse::<i64>().expect("a number")
    };
    let revisions: Vec<i64> = stream::iter(0..1000).map(write).buffer_unordered(24).collect().await;
    let each: BTreeSet<i64> = revisions.iter().copied().collect();
    assert_eq!(each, (before + 1..=before + 1000).collect(), "each write has a revision of its own, without gaps");
    for node in cluster.nodes() {
        eventually("all nodes are equal", || async { (revision(node).await == before + 1000).then_some(()) }).await;
    }
    let keys = admins[1].get("/api-keys?page_size=1000").await.expect(200).json();
    let names = keys["data"].as_array().expect("a list").iter().filter_map(|k| k["name"].as_str());
    assert_eq!(names.filter(|n| n.starts_with('k')).collect::<BTreeSet<_>>().len(), 500);
    for slug in &slugs {
        let versions = admins[0].get(&format!("/configs/{slug}/versions?page_size=1000")).await.expect(200).json();
        assert_eq!(versions["data"].as_array().map(Vec::len), Some(101), "{slug}: every change is a version");
    }
    let lags = nodes(&cluster.admins[0]).await;
    assert_eq!(lags.len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_is_refused_within_a_second() {
    let cluster = Cluster::start("revoked").await;
    let [one, two] = &cluster.proxies;
    let (id, key) = cluster.key().await;
    cluster.revoke(&id).await;
    let since = Instant::now();
    for proxy in [one, two] {
        let took = refused(proxy, &key, since).await;
        assert!(took < SECOND, "{took:?}");
    }
    // A node that stood still.
    let (id, key) = cluster.key().await;
    one.process.signal("STOP");
    cluster.revoke(&id).await;
    refused(two, &key, Instant::now()).await;
    one.process.signal("CONT");
    let took = refused(one, &key, Instant::now()).await;
    assert!(took < SECOND, "{took:?} after it went on");
    // A node that was cut off: it serves on by what it knew, and hears of it when it is back.
    let (id, key) = cluster.key().await;
    cluster.wire.cut();
    cluster.revoke(&id).await;
    refused(one, &key, Instant::now()).await;
    assert_eq!(ask(two, &key).await, 200);
    cluster.wire.mend();
    let took = refused(two, &key, Instant::now()).await;
    assert!(took < SECOND, "{took:?} after it was back");
}
