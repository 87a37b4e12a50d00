//! A server that goes away fails calls soon and plainly, and serves them again once it is back.

use crate::{options, put, row};
use gateway_domain::OrgId;
use gateway_domain::ports::{ConfigStore, Directory, ResourceQuery, StoreError, WriteError};
use gateway_domain::resource::Kind;
use gateway_store::{DatabaseOptions, DatabaseUrl, OpenError, migrate, open, open_later};
use gateway_testing::Postgres;
use sqlx::{Connection, Executor, PgConnection};
use std::time::{Duration, Instant};
use tokio::time::timeout;
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_goes_away_and_comes_back() {
    let mut server = Postgres::start();
    let url = DatabaseUrl::parse(&server.url()).unwrap();
    let limits =
        DatabaseOptions { connect_timeout: Duration::from_secs(1), call_timeout: Duration::from_secs(2), ..options() };
    let database = open(&url, &limits).await.unwrap();
    put(&database, 0, vec![row(1, "a")]).await.unwrap();
    timeout(Duration::from_secs(5), database.wake()).await.unwrap();

    server.stop();
    for _ in 0..3 {
        let begun = Instant::now();
        let read = database.since(0).await;
        assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
        let written = put(&database, 1, vec![row(2, "b")]).await;
        assert!(matches!(written, Err(WriteError::Store(StoreError::Unavailable(_)))), "{written:?}");
        assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    }

    server.resume();
    assert_eq!(database.since(0).await.unwrap().revision, 1);
    let written = put(&database, 1, vec![row(2, "b")]).await.unwrap();
    assert_eq!(written.revision, 2);
    // The ear is back as well: the wait after the reconnection ends by a notice.
    timeout(Duration::from_secs(10), database.wake()).await.unwrap();
    while timeout(Duration::from_millis(200), database.wake()).await.is_ok() {}
    let (woken, written) =
        tokio::join!(timeout(Duration::from_secs(2), database.wake()), put(&database, 2, vec![row(3, "c")]));
    woken.unwrap();
    assert_eq!(written.unwrap().revision, 3);
}

/// A call that runs out of time must not leave its connection, still busy, to the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_call_is_given_up_and_blocks_nobody() {
    let server = Postgres::shared();
    let url = server.create("slow");
    let limits = DatabaseOptions { pool_size: 1, call_timeout: Duration::from_millis(300), ..options() };
    let database = open(&DatabaseUrl::parse(&url).unwrap(), &limits).await.unwrap();
    // Another node that hangs in the middle of a write.
    let mut holder = PgConnection::connect(&url).await.unwrap();
    holder.execute("BEGIN; UPDATE meta SET revision = revision + 1").await.unwrap();
    for _ in 0..3 {
        let blocked = put(&database, 0, vec![row(2, "blocked")]).await;
        assert!(matches!(blocked, Err(WriteError::Store(StoreError::Unavailable(_)))), "{blocked:?}");
        assert_eq!(database.since(0).await.unwrap().revision, 0, "the only connection is usable");
    }
    holder.execute("ROLLBACK").await.unwrap();
    assert_eq!(put(&database, 0, vec![row(2, "later")]).await.unwrap().revision, 1);
}

/// A node that starts while the server is away: it serves its last good state and catches up later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_may_start_before_its_server() {
    let mut server = Postgres::start();
    let url = DatabaseUrl::parse(&server.url()).unwrap();
    let limits = DatabaseOptions { connect_timeout: Duration::from_millis(500), ..options() };
    server.stop();
    let refused = open(&url, &limits).await.unwrap_err();
    assert!(matches!(refused, OpenError::Unreachable { .. }), "{refused}");
    let database = open_later(&url, &limits).await.unwrap();
    let read = database.since(0).await;
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    server.resume();
    migrate(&database).await.unwrap();
    assert_eq!(put(&database, 0, vec![row(1, "a")]).await.unwrap().revision, 1);
}

/// At the end of a program the last handle may outlive the runtime that its connections ran on.
#[test]
fn a_handle_may_outlive_its_runtime() {
    let server = Postgres::shared();
    let dir = tempfile::tempdir().unwrap();
    for url in [server.create("outlived"), format!("sqlite:{}", dir.path().join("outlived.db").display())] {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let database = runtime.block_on(async {
            let database = open(&DatabaseUrl::parse(&url).unwrap(), &options()).await.unwrap();
            let _ = timeout(Duration::from_millis(500), database.wake()).await;
            put(&database, 0, vec![row(1, "a")]).await.unwrap();
            database
        });
        drop(runtime);
        drop(database);
    }
}

/// Whoever waits for an answer is told at once that there is none, once the server is known to be away; and gets
/// answers again soon after it is back, though nothing else looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_do_not_wait_for_a_server_that_is_known_to_be_away() {
    let mut server = Postgres::start();
    let url = DatabaseUrl::parse(&server.url()).unwrap();
    let database = open(&url, &options()).await.unwrap();
    put(&database, 0, vec![row(1, "a")]).await.unwrap();
    let query = ResourceQuery { page_size: 10, ..ResourceQuery::all(Kind::Config, OrgId(Uuid::nil())) };
    assert_eq!(database.trouble(), None);
    server.stop();
    // The first finds out, in its own time.
    database.list(&query).await.unwrap_err();
    let begun = Instant::now();
    for _ in 0..50 {
        let read = database.list(&query).await;
        assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    }
    // One of them may have looked again.
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert!(database.trouble().unwrap().contains("cannot be reached"));
    server.resume();
    let begun = Instant::now();
    while database.list(&query).await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(10), "nobody looked again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(database.trouble(), None);
}
