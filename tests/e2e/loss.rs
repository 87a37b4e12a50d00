//! Nothing is lost in silence, under load: stored and counted as dropped are what was answered, and records are
//! dropped only where something is at its bound. A few seconds each; `make soak` runs them longer, at full load.

use crate::harness::{Gateway, WORKSPACE_KEY, hello};
use crate::journal::{blocking, metric, stored};
use gateway_testing::Postgres;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Seconds under load; the phases of a test share them.
pub(crate) fn seconds() -> f64 {
    let given = std::env::vars_os().find(|(name, _)| name == "SOAK_SECONDS").map(|(_, value)| value);
    given.map_or(3.0, |text| text.to_string_lossy().parse().expect("SOAK_SECONDS is a number"))
}

fn part(share: f64) -> Duration {
    Duration::from_secs_f64(seconds() * share)
}

/// Clients that ask one thing after the other until told to stop; each answer is noted with its time.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    clients: JoinSet<Vec<(String, Instant)>>,
    began: Instant,
}

impl Load {
    fn on(gateway: &Gateway) -> Self {
        let clients = if seconds() > 10.0 { 64 } else { 8 };
        Self::of(gateway, clients, "load")
    }

    fn of(gateway: &Gateway, clients: usize, name: &str) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut set = JoinSet::new();
        for client in 0..clients {
            let (stop, answered, name) = (stop.clone(), answered.clone(), name.to_owned());
            let (url, sender) = (gateway.url("/v1/chat/completions"), gateway.client().clone());
            set.spawn(async move {
                let mut mine = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let trace = format!("{name}-{client}-{}", mine.len());
                    let call = sender.post(&url).header("x-gateway-api-key", WORKSPACE_KEY);
                    let call = call.header("x-gateway-provider", "mock").header("x-gateway-trace-id", &trace);
                    let Ok(answer) = call.json(&hello()).send().await else { break };
                    let status = answer.status();
                    if answer.bytes().await.is_err() {
                        break;
                    }
                    assert_eq!(status, 200, "the data plane suffers");
                    answered.fetch_add(1, Ordering::Relaxed);
                    mine.push((trace, Instant::now()));
                }
                mine
            });
        }
        Self { stop, answered, clients: set, began: Instant::now() }
    }

    /// Still flowing: more answers come within a second.
    async fn goes_on(&self) {
        let (before, until) = (self.answered.load(Ordering::Relaxed), Instant::now() + Duration::from_secs(1));
        while self.answered.load(Ordering::Relaxed) == before {
            assert!(Instant::now() < until, "no request is answered any more");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Every answer that a client got.
    async fn end(mut self) -> Vec<(String, Instant)> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        while let Some(mine) = self.clients.join_next().await {
            all.extend(mine.expect("no client failed"));
        }
        let rate = all.len() as f64 / self.began.elapsed().as_secs_f64();
        eprintln!("{} answers, {rate:.0} a second", all.len());
        all
    }
}

/// Waits until the journal is empty; then stored and dropped are what was answered.
async fn balance(gateway: &Gateway, answered: usize) -> u64 {
    let until = Instant::now() + Duration::from_secs(60);
    let answered = answered as u64;
    loop {
        let dropped = metric(gateway, "gateway_records_dropped_total").await as u64;
        let found = stored(gateway).await.unwrap_or_default();
        assert!(found + dropped <= answered, "{found} stored and {dropped} dropped of {answered}");
        if found + dropped == answered {
            eprintln!("{answered} answered = {found} stored + {dropped} dropped");
            assert_eq!(metric(gateway, "gateway_journal_records").await, 0.0);
            return dropped;
        }
        assert!(Instant::now() < until, "{found} stored and {dropped} dropped of {answered}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn server() -> (Postgres, String) {
    blocking(|| {
        let server = Postgres::start();
        let url = server.url();
        (server, url)
    })
    .await
}

async fn change(mut server: Postgres, how: impl FnOnce(&mut Postgres) + Send + 'static) -> Postgres {
    blocking(move || {
        how(&mut server);
        server
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_slow_away_and_back_costs_no_record() {
    let (server, url) = server().await;
    let gateway = Gateway::with(&["--log-store-url", &url, "--access-log", "false"]).await;
    let load = Load::on(&gateway);
    tokio::time::sleep(part(0.15)).await;
    let server = change(server, |s| s.freeze()).await;
    tokio::time::sleep(part(0.2)).await;
    load.goes_on().await;
    let server = change(server, |s| s.wake()).await;
    tokio::time::sleep(part(0.15)).await;
    let server = change(server, Postgres::stop).await;
    tokio::time::sleep(part(0.2)).await;
    load.goes_on().await;
    let server = change(server, Postgres::resume).await;
    tokio::time::sleep(part(0.3)).await;
    let answered = load.end().await;
    assert_eq!(balance(&gateway, answered.len()).await, 0, "nothing was at its bound");
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beyond_the_journals_bound_what_goes_is_counted() {
    let (server, url) = server().await;
    // Under full load a larger bound is met as well.
    let bound = if seconds() > 10.0 { "16MiB" } else { "256KiB" };
    let flags = ["--log-store-url", &*url, "--access-log", "false", "--journal-max", bound];
    let gateway = Gateway::with(&flags).await;
    let server = change(server, Postgres::stop).await;
    let load = Load::on(&gateway);
    let until = Instant::now() + Duration::from_secs_f64(seconds() * 10.0);
    while metric(&gateway, "gateway_records_dropped_total{reason=\"journal\"}").await == 0.0 {
        assert!(Instant::now() < until, "the journal has no bound");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let most = if seconds() > 10.0 { 16 << 20 } else { 256 << 10 };
    assert!(metric(&gateway, "gateway_journal_bytes").await <= f64::from(most));
    load.goes_on().await;
    let server = change(server, Postgres::resume).await;
    tokio::time::sleep(part(0.3)).await;
    let answered = load.end().await;
    assert!(balance(&gateway, answered.len()).await > 0);
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_sheds_counts_and_recovers() {
    let folder = tempfile::tempdir().expect("a folder");
    let logs = format!("sqlite:{}", folder.path().join("logs").display());
    let flags = ["--log-store-url", &*logs, "--access-log", "false"];
    let gateway = Gateway::on_small_disk(64 << 20, &flags).await;
    let load = Load::on(&gateway);
    tokio::time::sleep(part(0.2)).await;
    let filler = gateway.small_disk().join("filler");
    let mut file = std::fs::File::create(&filler).expect("a file");
    // The file grows until nothing goes in any more.
    for size in [1 << 20, 1 << 12, 1] {
        while std::io::Write::write_all(&mut file, &vec![0; size]).is_ok() {}
    }
    let until = Instant::now() + Duration::from_secs(20);
    while metric(&gateway, "gateway_records_dropped_total{reason=\"disk\"}").await == 0.0 {
        assert!(Instant::now() < until, "the disk is not full");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let page = gateway.client().get(gateway.admin_url("/health/status")).send().await.expect("an answer");
    let page: serde_json::Value = page.json().await.expect("JSON");
    assert_eq!(page["components"]["journal"]["status"], "degraded", "{page}");
    tokio::time::sleep(part(0.2)).await;
    load.goes_on().await;
    drop(file);
    std::fs::remove_file(&filler).expect("room again");
    tokio::time::sleep(part(0.1)).await;
    let shed = metric(&gateway, "gateway_records_dropped_total").await;
    tokio::time::sleep(part(0.3)).await;
    load.goes_on().await;
    let answered = load.end().await;
    let dropped = balance(&gateway, answered.len()).await;
    assert!(dropped > 0);
    assert_eq!(dropped as f64, shed, "with room again nothing more is dropped");
    assert!(stored(&gateway).await.expect("a list") > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_costs_answers_of_the_last_second_at_most() {
    let gateway = Gateway::with(&["--access-log", "false"]).await;
    let load = Load::of(&gateway, 4, "kill");
    tokio::time::sleep(part(0.7)).await;
    let killed = Instant::now();
    let gateway = gateway.restart_after_kill(&["--access-log", "false"]).await;
    let answered = load.end().await;
    let seen = traces(&gateway).await;
    let twice: Vec<_> = seen.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "stored twice: {twice:?}");
    let missing: Vec<_> = answered.iter().filter(|(trace, _)| !seen.contains_key(trace)).collect();
    eprintln!("{} of {} answers are missing", missing.len(), answered.len());
    for (trace, at) in missing {
        let before = killed.saturating_duration_since(*at);
        assert!(before < Duration::from_secs(1), "{trace} was answered {before:?} before the kill");
    }
}

/// How often each trace is stored, once no more come.
async fn traces(gateway: &Gateway) -> HashMap<String, u32> {
    let mut last = None;
    loop {
        let now = (stored(gateway).await, metric(gateway, "gateway_journal_records").await);
        if last == Some(now) && now.1 == 0.0 {
            break;
        }
        last = Some(now);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let mut seen = HashMap::new();
    for page in 0.. {
        let path = format!("/logs?page_size=1000&current_page={page}");
        let list = gateway.admin().get(&path).await.expect(200).json();
        let rows = list["data"].as_array().expect("rows");
        if rows.is_empty() {
            break;
        }
        for row in rows {
            let trace = row["trace_id"].as_str().filter(|t| t.starts_with("kill-")).unwrap_or_default();
            *seen.entry(trace.to_owned()).or_default() += 1;
        }
    }
    assert_eq!(seen.get(""), None, "records of others");
    seen
}
