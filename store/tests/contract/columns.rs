//! What is ClickHouse's alone: who it lets in, over which certificate, and tables that are not as they were left.

use crate::logs::{any, full, record};
use crate::{Engine, House, options};
use gateway_domain::ports::{LogStore, StoreError};
use gateway_store::{BadColumnsUrl, ColumnStore, ColumnsUrl, DatabaseOptions, LogsUrl, OpenError, open_logs};
use gateway_testing::ClickHouse;
use std::time::Duration;

fn store(url: &str) -> Box<dyn LogStore> {
    Box::new(ColumnStore::open(&ColumnsUrl::parse(url).unwrap(), &options()).unwrap())
}

async fn refused(store: Box<dyn LogStore>) -> String {
    match store.append(&[record(1)]).await {
        Err(StoreError::Unavailable(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_wait_for_a_server_that_is_away_or_lets_nobody_in() {
    let mut server = ClickHouse::start();
    let url = server.url();
    let why = refused(store(&url.replace("test-password", "s3cret-wrong"))).await;
    assert!(why.contains("516") && !why.contains("s3cret"), "{why}");
    let why = refused(store(&format!("{}nowhere", url.trim_end_matches("default")))).await;
    assert!(why.contains("nowhere"), "{why}");

    let limits = DatabaseOptions { call_timeout: Duration::from_secs(5), ..options() };
    let open = || ColumnStore::open(&ColumnsUrl::parse(&url).unwrap(), &limits).unwrap();
    let store: Box<dyn LogStore> = Box::new(open());
    store.append(&[record(1)]).await.unwrap();
    server.stop();
    let why = refused(Box::new(open())).await;
    assert!(!why.contains("test-password"), "{why}");
    assert!(matches!(store.query(&any()).await, Err(StoreError::Unavailable(_))));
    server.resume();
    store.append(&[record(1), full(2)]).await.unwrap();
    assert_eq!(store.query(&any()).await.unwrap().rows, [full(2), record(1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_checked() {
    let server = ClickHouse::start_secured();
    let trusting = store(&server.secured_url("ca.pem"));
    trusting.append(&[record(1)]).await.unwrap();
    assert_eq!(trusting.query(&any()).await.unwrap().rows, [record(1)]);
    refused(store(&server.secured_url("other.pem"))).await;
    refused(store(&server.secured_url("ca.pem").replace("localhost", "127.0.0.1"))).await;
    let no_authority = ColumnsUrl::parse(&server.secured_url("server.key")).unwrap();
    let told = ColumnStore::open(&no_authority, &options()).map(drop).unwrap_err();
    assert!(matches!(told, BadColumnsUrl::Authority(_)), "{told}");
    let opened = open_logs(&LogsUrl::ClickHouse(Box::new(no_authority)), &options(), None).await;
    let told = opened.map(drop).unwrap_err();
    assert!(matches!(told, OpenError::Columns { .. }) && !told.to_string().contains("test-password"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_given_what_they_lack() {
    let house = House::new(Engine::ClickHouse);
    let columns = house.columns.as_ref().unwrap();
    let left = house.logs().await;
    left.append(&[full(1)]).await.unwrap();
    // The table is left as by a version that did not know this column.
    columns.server.ask(&columns.name, "ALTER TABLE log_entry DROP COLUMN saved");
    let later = house.logs().await;
    later.append(&[full(2)]).await.unwrap();
    let mut before = full(1);
    before.llm_mut().unwrap().saved = None;
    assert_eq!(later.query(&any()).await.unwrap().rows, [full(2), before]);
    columns.server.ask(&columns.name, "DROP TABLE log_entry");
    assert!(later.query(&any()).await.is_err(), "it was there");
    later.append(&[record(3)]).await.unwrap();
    assert_eq!(later.query(&any()).await.unwrap().rows, [record(3)]);
}
