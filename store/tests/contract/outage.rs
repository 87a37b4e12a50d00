//! A server that goes away fails calls soon and plainly, and serves them again once it is back.

use crate::{options, put, row};
use gateway_domain::ports::{ConfigStore, StoreError, WriteError};
use gateway_store::{DatabaseUrl, Options, open};
use gateway_testing::Postgres;
use std::time::{Duration, Instant};
use tokio::time::timeout;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_goes_away_and_comes_back() {
    let mut server = Postgres::start();
    let url = DatabaseUrl::parse(&server.url()).unwrap();
    let limits = Options { connect_timeout: Duration::from_secs(1), call_timeout: Duration::from_secs(2), ..options() };
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
    let url = DatabaseUrl::parse(&server.create("slow")).unwrap();
    let limits = Options { pool_size: 1, call_timeout: Duration::from_millis(300), ..options() };
    let database = open(&url, &limits).await.unwrap();
    let patient = open(&url, &options()).await.unwrap();
    // A writer that holds the row of the revision until it is told to go on.
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let (inside, entered) = tokio::sync::oneshot::channel();
    let holder = tokio::spawn(async move {
        let decide = move |_: &gateway_domain::ports::Changes| {
            inside.send(()).unwrap();
            gate.recv().unwrap();
            Ok(crate::batch(vec![row(1, "slow")]))
        };
        patient.write(0, Box::new(decide)).await
    });
    entered.await.unwrap();
    let blocked = put(&database, 0, vec![row(2, "blocked")]).await;
    assert!(matches!(blocked, Err(WriteError::Store(StoreError::Unavailable(_)))), "{blocked:?}");
    assert_eq!(database.since(0).await.unwrap().revision, 0, "the only connection is usable");
    go.send(()).unwrap();
    assert_eq!(holder.await.unwrap().unwrap().revision, 1);
    assert_eq!(put(&database, 1, vec![row(2, "later")]).await.unwrap().revision, 2);
}
