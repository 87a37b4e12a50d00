//! Marked secrets in every place where a secret can be. None of them stands in clear in an answer, on the process's
//! output, in the journal, a database file, a trace, a metric, a log, or on any page of the admin port.

mod house;

use crate::harness::issuer::{FIRST, Issuer};
use crate::harness::ports::Port;
use crate::harness::{ADMIN_KEY, Answer, Gateway, Upstream, WORKSPACE_KEY, eventually, hello, reply, with};
use crate::journal::{blocking, metric};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use gateway_testing::Postgres;
use house::{House, gossip};
use serde_json::json;
use std::path::Path;

/// Secrets by the place that they were put in.
#[derive(Default)]
pub(crate) struct Planted(Vec<(String, String)>);

impl Planted {
    /// A new one. It reads alike in JSON, URLs and headers.
    pub(crate) fn at(&mut self, place: impl Into<String>) -> String {
        // It holds no word that anything else could hold, and differs from its neighbours from the start.
        let n = self.0.len();
        let secret = format!("Cq{n:03}Zkanary{:04x}", n * 2_654_435 % 65_521);
        self.0.push((place.into(), secret.clone()));
        secret
    }

    pub(crate) fn keep(&mut self, place: impl Into<String>, secret: &str) {
        self.0.push((place.into(), secret.to_owned()));
    }

    /// The secrets of places that begin so.
    pub(crate) fn only(&self, place: &str) -> Self {
        Self(self.0.iter().filter(|(of, _)| of.starts_with(place)).cloned().collect())
    }

    /// The secrets of all places but those that begin so.
    pub(crate) fn without(&self, place: &str) -> Self {
        Self(self.0.iter().filter(|(of, _)| !of.starts_with(place)).cloned().collect())
    }

    /// The places whose secret stands in `bytes`, in clear or in an encoding that anybody can undo.
    fn found_in(&self, bytes: &[u8]) -> Vec<&str> {
        let holds = |form: &[u8]| memchr::memmem::find(bytes, form).is_some();
        let told = |secret: &str| forms(secret).iter().any(|form| holds(form));
        self.0.iter().filter(|(_, secret)| told(secret)).map(|(place, _)| place.as_str()).collect()
    }
}

/// The forms of a secret that are looked for: plain, hex, and base64 at each of the three ways in which it can be cut.
fn forms(secret: &str) -> Vec<Vec<u8>> {
    let bytes = secret.as_bytes();
    let hex = bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let mut all = vec![bytes.to_vec(), hex.into_bytes()];
    for skipped in 0..3 {
        let whole = &bytes[skipped..skipped + (bytes.len() - skipped) / 3 * 3];
        all.push(STANDARD_NO_PAD.encode(whole).into_bytes());
    }
    all
}

/// Where the secret was seen.
#[derive(Default)]
pub(crate) struct Seen(Vec<(String, Vec<u8>)>);

impl Seen {
    pub(crate) fn note(&mut self, place: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.push((place.into(), bytes.into()));
    }

    pub(crate) fn answer(&mut self, place: &str, answer: &Answer) {
        let heads: String = answer.headers.iter().map(|(n, v)| format!("{n}: {v:?}\n")).collect();
        self.note(format!("the answer to {place}"), [heads.as_bytes(), &answer.body].concat());
    }

    /// Every file below, and how many bytes they had.
    pub(crate) fn folder(&mut self, folder: &Path, but: &[&str]) -> usize {
        let mut total = 0;
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                total += self.folder(&path, but);
            } else if path.is_file() && !but.iter().any(|name| path.ends_with(name)) {
                let bytes = std::fs::read(&path).unwrap_or_default();
                total += bytes.len();
                self.note(path.display().to_string(), bytes);
            }
        }
        total
    }

    #[track_caller]
    pub(crate) fn hold_none_of(&self, planted: &Planted) {
        let all = self.0.iter().filter_map(|(place, bytes)| {
            let found = planted.found_in(bytes);
            (!found.is_empty()).then(|| format!("{place} tells {found:?}"))
        });
        let all: Vec<String> = all.collect();
        assert!(all.is_empty(), "{}", all.join("\n"));
    }
}

const LOST_ALERT: &str = "the webhook of alerts cannot be reached";

/// Where nothing listens, so that the alert is told as lost.
fn webhook(planted: &mut Planted, nobody: &Port) -> String {
    let [password, token] = ["password", "query"].map(|part| planted.at(format!("the webhook's {part}")));
    format!("http://user:{password}@{}/alerts?token={token}", nobody.address)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_found_anywhere() {
    let mut planted = Planted::default();
    planted.keep("the Admin key", ADMIN_KEY);
    planted.keep("the workspace key", WORKSPACE_KEY);
    let (upstream, issuer) = (gossip().await, Issuer::publishing(&[&FIRST]).await);
    let collector = Upstream::replying(|_| reply::whole(200, &[("content-type", "application/x-protobuf")], b"")).await;
    let nobody = Port::reserve();
    // A log store and a Redis that are never there: the journal keeps every record, and errors are logged.
    let store = format!("postgres://user:{}@{}/logs", planted.at("the log store's password"), nobody.address);
    let redis = format!("redis://:{}@{}", planted.at("Redis' password"), nobody.address);
    let tenant = format!("authorization=Bearer {}", planted.at("the collector's header"));
    let endpoint = collector.url().replace("/v1", "/");
    let webhook = webhook(&mut planted, &nobody);
    let flags = [
        "--alert-webhook",
        &webhook,
        "--log-bodies",
        "all",
        "--log-level",
        "trace",
        "--otlp-endpoint",
        &*endpoint,
        "--otlp-interval",
        "200ms",
        "--otlp-headers",
        &tenant,
        "--metrics-labels",
        "model,config_name,api_key_name",
        "--redis-url",
        &redis,
    ];
    let gateway = Gateway::with(&[&flags[..], &["--log-store-url", &store]].concat()).await;
    let mut house = House { gateway, upstream, collector, planted, seen: Seen::default() };
    house.admin().await;
    house.headers().await;
    house.keys(&issuer).await;
    house.places().await;
    // The writer has the last of them in hand for a moment after the queue is empty.
    eventually("two hundred records in the journal", || async {
        let queued = metric(&house.gateway, "gateway_records_queue_depth").await;
        let kept = metric(&house.gateway, "gateway_journal_records").await;
        (queued == 0.0 && kept > 200.0).then_some(())
    })
    .await;
    let data = house.gateway.folder().join("data");
    let journal = house.seen.folder(&data.join("journal"), &[]);
    assert!(journal > 200_000, "the journal has {journal} bytes");
    for told in ["TRACE", "Fail to filter request", LOST_ALERT] {
        eventually(&format!("`{told}` in the log"), || async {
            house.gateway.process.output().contains(told).then_some(())
        })
        .await;
    }
    let output = house.gateway.process.output();
    house.seen.note("the output of the first process", output);
    // Once started again it brings the journal's records to SQLite.
    house.gateway = house.gateway.restart_with(&flags).await;
    eventually("an empty journal", || async {
        (metric(&house.gateway, "gateway_journal_records").await == 0.0).then_some(())
    })
    .await;
    house.pages().await;
    house.traces();
    let output = house.gateway.process.output();
    assert!(!output.contains("panicked"), "{output}");
    house.seen.note("the output", output);
    house.seen.folder(&data, &["master.key"]);
    house.seen.hold_none_of(&house.planted);
}

/// What the program keeps on a server, and what it keeps beside it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_found_in_postgres() {
    let mut planted = Planted::default();
    planted.keep("the Admin key", ADMIN_KEY);
    planted.keep("the workspace key", WORKSPACE_KEY);
    let (server, url) = blocking(|| {
        let server = Postgres::start();
        let url = server.url();
        (server, url)
    })
    .await;
    let password = url.split([':', '@']).nth(2).expect("a password").to_owned();
    planted.keep("the database's password", &password);
    let (upstream, issuer) = (gossip().await, Issuer::publishing(&[&FIRST]).await);
    let collector = Upstream::replying(|_| reply::whole(200, &[], b"")).await;
    let nobody = Port::reserve();
    let webhook = webhook(&mut planted, &nobody);
    let flags = ["--database-url", &url, "--log-bodies", "all", "--log-level", "trace", "--alert-webhook", &webhook];
    let gateway = Gateway::with(&flags).await;
    let mut house = House { gateway, upstream, collector, planted, seen: Seen::default() };
    house.admin().await;
    house.keys(&issuer).await;
    house.places().await;
    eventually("an empty journal", || async {
        let of = async |name: &str| metric(&house.gateway, name).await;
        (of("gateway_records_queue_depth").await + of("gateway_journal_records").await == 0.0).then_some(())
    })
    .await;
    eventually("a lost alert", || async { house.gateway.process.output().contains(LOST_ALERT).then_some(()) }).await;
    let dump = blocking(move || Postgres::dump(&url)).await;
    for table in ["resource", "resource_version", "audit", "log_entry_", "log_body_", "counter"] {
        let insert = format!("INSERT INTO public.{table}");
        assert!(memchr::memmem::find(&dump, insert.as_bytes()).is_some(), "nothing is in {table}");
    }
    house.seen.note("the dump of the database", dump);
    let data = house.gateway.folder().join("data");
    let copy =
        ["last-good.db", "last-good.db-wal"].map(|name| std::fs::metadata(data.join(name)).map_or(0, |m| m.len()));
    assert!(copy.iter().sum::<u64>() > 16_384, "the copy of the configuration has {copy:?} bytes");
    house.seen.folder(&data, &["master.key"]);
    house.seen.note("the output", house.gateway.process.output());
    let (server, bytes) = blocking(move || {
        let mut server = server;
        server.stop();
        let mut seen = Seen::default();
        let bytes = seen.folder(&server.files(), &[]);
        ((server, seen), bytes)
    })
    .await;
    let (_server, files) = server;
    assert!(bytes > 10 << 20, "the files of the server have {bytes} bytes");
    house.seen.0.extend(files.0);
    house.seen.hold_none_of(&house.planted);
}

/// A thread that cannot be made is a panic of the runtime in the middle of a request.
#[tokio::test]
async fn no_secret_is_found_in_a_panic() {
    let mut planted = Planted::default();
    planted.keep("the workspace key", WORKSPACE_KEY);
    let gateway = Gateway::with(&["--log-level", "trace"]).await;
    // Whatever a worker makes once it has made then, so that nothing but a new thread wants memory of the system's.
    let warm = (0..32).map(|_| async { gateway.chat().provider("mock").json(&hello()).send().await.expect(200) });
    futures_util::future::join_all(warm).await;
    let id = gateway.process.id();
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("/proc");
    let size = status.lines().find_map(|l| l.strip_prefix("VmSize:")).expect("a size");
    let size: u64 = size.trim().trim_end_matches(" kB").parse().expect("kilobytes");
    let mut limit = std::process::Command::new("prlimit");
    limit.args(["--pid", &id.to_string(), &format!("--as={}", (size + 64) * 1024)]);
    assert!(limit.status().expect("prlimit runs").success());
    // Long enough to be looked at on a thread of its own.
    let content = format!("{}{}", planted.at("a message"), "x".repeat(300 << 10));
    let body = with(
        hello(),
        json!({ "api_key": planted.at("a field"), "user": planted.at("the user"),
        "messages": [{ "role": "user", "content": content }] }),
    );
    let call = gateway.post(&format!("/v1/chat/completions?key={}", planted.at("a query"))).provider("mock");
    let broken = call.header("cookie", &planted.at("a cookie")).json(&body).attempt().await;
    assert!(broken.is_err(), "the connection ends with the request: {broken:?}");
    gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    let output = gateway.process.output();
    assert!(output.contains("panicked") && output.contains("OS can't spawn worker thread"), "{output}");
    let mut seen = Seen::default();
    seen.note("the output", output);
    seen.note("the metrics", gateway.metrics().await);
    seen.folder(&gateway.folder().join("data"), &["master.key"]);
    seen.hold_none_of(&planted);
}
