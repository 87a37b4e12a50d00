//! Records are never lost in silence: the log store may be away, slow or gone for good, the disk full, the process
//! killed. What was answered is stored once, or counted as dropped.

use crate::harness::{Gateway, eventually, hello};
use gateway_testing::Postgres;
use serde_json::Value;

/// Servers start and stop by blocking calls.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("no panic")
}

async fn ask(gateway: &Gateway, times: usize) {
    for _ in 0..times {
        gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    }
}

/// Records that the logs route counts; `None` while the store is away.
pub(crate) async fn stored(gateway: &Gateway) -> Option<u64> {
    let list = gateway.admin().get("/logs?page_size=1").await;
    (list.status == 200).then(|| list.json()["total"].as_u64()).flatten()
}

pub(crate) async fn stored_come_to(gateway: &Gateway, count: u64) {
    eventually(&format!("{count} records"), || async {
        let found = stored(gateway).await?;
        assert!(found <= count, "{found} records of {count}");
        (found == count).then_some(())
    })
    .await;
}

/// The value of a metric, all its labels together.
pub(crate) async fn metric(gateway: &Gateway, name: &str) -> f64 {
    let text = gateway.client().get(gateway.admin_url("/metrics")).send().await.expect("metrics");
    let text = text.text().await.expect("text");
    let lines = text.lines().filter(|l| l.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])));
    lines.filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_stops_without_its_store_leaves_its_records_to_the_next() {
    let (mut postgres, url) = blocking(|| {
        let postgres = Postgres::start();
        let url = postgres.url();
        (postgres, url)
    })
    .await;
    let flags = ["--database-url", &*url];
    let gateway = Gateway::with(&flags).await;
    ask(&gateway, 3).await;
    stored_come_to(&gateway, 3).await;
    assert_eq!(metric(&gateway, "gateway_records_stored_total").await, 3.0);
    postgres = blocking(move || {
        postgres.stop();
        postgres
    })
    .await;
    ask(&gateway, 20).await;
    eventually("records that wait", || async {
        (metric(&gateway, "gateway_journal_records").await == 20.0).then_some(())
    })
    .await;
    // Twice, so that what was left is also left by one who only found it.
    let gateway = gateway.restart_with(&flags).await;
    ask(&gateway, 4).await;
    let gateway = gateway.restart_with(&flags).await;
    ask(&gateway, 3).await;
    let postgres = blocking(move || {
        postgres.resume();
        postgres
    })
    .await;
    stored_come_to(&gateway, 30).await;
    assert_eq!(metric(&gateway, "gateway_records_dropped_total").await, 0.0);
    eventually("an empty journal", || async {
        (metric(&gateway, "gateway_journal_records").await == 0.0).then_some(())
    })
    .await;
    let ids = gateway.admin().get("/logs?page_size=50").await.expect(200).json();
    let mut ids: Vec<&Value> = ids["data"].as_array().expect("rows").iter().map(|r| &r["id"]).collect();
    ids.sort_by_key(|id| id.to_string());
    ids.dedup();
    assert_eq!(ids.len(), 30);
    drop(postgres);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_go_where_they_are_told_to() {
    let (_postgres, url) = blocking(|| (Postgres::shared(), Postgres::shared().create("logs_apart"))).await;
    let gateway = Gateway::with(&["--log-store-url", &url]).await;
    ask(&gateway, 3).await;
    stored_come_to(&gateway, 3).await;
    assert!(!gateway.folder().join("data/logs").exists(), "the configuration is in a file, records are not");
    let gateway = gateway.restart_with(&["--log-store-url", "null:"]).await;
    ask(&gateway, 2).await;
    stored_come_to(&gateway, 2).await;
    let gateway = gateway.restart_with(&[]).await;
    ask(&gateway, 1).await;
    stored_come_to(&gateway, 1).await;
    let gateway = gateway.restart_with(&["--log-store-url", &url]).await;
    stored_come_to(&gateway, 3).await;
}

/// The name of the day so long ago.
fn day(ago: i64) -> String {
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    today.saturating_sub(jiff::Span::new().days(ago)).to_string()
}

#[tokio::test]
async fn what_was_kept_long_enough_is_dropped_by_the_day() {
    let flags = ["--log-bodies", "all"];
    let gateway = Gateway::with(&flags).await;
    ask(&gateway, 1).await;
    stored_come_to(&gateway, 1).await;
    let logs = gateway.folder().join("data/logs");
    let file = |ago: i64, tail: &str| logs.join(format!("{}{tail}", day(ago)));
    let gateway = gateway.restart_with(&["--log-retention-days", "0", "--metrics-retention-days", "0"]).await;
    // Days of long ago, as they lie on the disks of those who ran it then.
    for ago in [89, 91, 364, 367] {
        for tail in [".db", ".bodies.db"] {
            std::fs::copy(file(0, tail), file(ago, tail)).expect("copied");
        }
    }
    let gateway = gateway.restart_with(&flags).await;
    let there = |ago: i64| (file(ago, ".db").exists(), file(ago, ".bodies.db").exists());
    eventually("old days to go", || async { (!there(367).0 && !there(91).1).then_some(()) }).await;
    assert_eq!([89, 91, 364, 367].map(there), [(true, true), (true, false), (true, false), (false, false)]);
    drop(gateway);
}
