//! What holds of places outside the database only: they can be away, a process can die between them and the database,
//! and what lies in one can be brought to another.

use super::{Home, LATER, all, new_blob, put, vault};
use crate::{Engine, House, id, on_every_engine};
use gateway_domain::Timestamp;
use gateway_domain::ports::{BlobBounds, BlobError, Blobs, MOST_BLOB_PIECE, StoreError};
use gateway_store::{BlobPlaces, Database, Relocated, RowBlobs, SealingVault};
use gateway_testing::Bucket;
use std::sync::Arc;
use std::time::Duration;

fn nodes(database: &Database, vault: &Arc<SealingVault>, urls: &[String]) -> RowBlobs {
    let places = BlobPlaces::open(urls, &[]).unwrap();
    RowBlobs::new(database.clone(), vault.clone(), BlobBounds::default()).with_places(places)
}

fn bytes(seed: usize) -> Vec<u8> {
    (0..MOST_BLOB_PIECE + 5_000).map(|n| ((n + seed) % 251) as u8).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_tell_nothing_and_another_node_reads_them() {
    let home = Home::bucket(Engine::Postgres);
    let (one, other, vault) = (home.open().await, home.open().await, vault());
    let (one, other) = (nodes(&one, &vault, &home.urls), nodes(&other, &vault, &home.urls));
    put(&one, &new_blob(1), b"a very secret text").await.unwrap();
    assert_eq!(all(&other, 1).await, b"a very secret text");
    let bucket = home.bucket.as_ref().unwrap();
    let objects = bucket.objects();
    assert_eq!(objects.len(), 1);
    assert!(objects[0].starts_with("kept/here/"), "{objects:?}");
    let lies = bucket.object(&objects[0]);
    assert!(lies.len() > 18 && !lies.windows(6).any(|part| part == b"secret"));
    assert!(other.delete(super::ORG, id(1)).await.unwrap());
    assert!(matches!(one.read(id(1), 0).await, Err(BlobError::Unknown)));
    // Two nodes that collect at once do not disturb each other.
    let (here, there) = tokio::join!(one.collect(LATER), other.collect(LATER));
    assert!(here.unwrap() + there.unwrap() >= 1);
    assert!(bucket.objects().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_is_away_is_told_and_loses_nothing() {
    let home = Home::bucket(Engine::File);
    let database = home.open().await;
    let blobs = home.blobs(&database);
    let bucket = home.bucket.as_ref().unwrap();
    put(&blobs, &new_blob(1), b"kept").await.unwrap();
    blobs.begin(&new_blob(2)).await.unwrap();
    blobs.write(id(2), 0, b"first ").await.unwrap();
    bucket.cut();
    let refused = blobs.write(id(2), 6, b"second").await;
    assert!(matches!(refused, Err(BlobError::Store(StoreError::Unavailable(_)))), "{refused:?}");
    let refused = blobs.read(id(1), 0).await.unwrap_err();
    assert!(matches!(refused, BlobError::Store(StoreError::Unavailable(_))), "{refused:?}");
    let told = refused.to_string();
    assert!(told.contains("s3://blobs/kept/here/") && !told.contains("secret"), "{told}");
    // Rows answer as before, and what is over goes as soon as it can.
    assert_eq!(blobs.blob(super::ORG, id(1)).await.unwrap().unwrap().bytes, 4);
    assert!(blobs.delete(super::ORG, id(1)).await.unwrap());
    blobs.collect(LATER).await.unwrap_err();
    assert!(blobs.kept().await.unwrap().unnamed >= 1, "it is not forgotten");
    bucket.mend();
    blobs.write(id(2), 6, b"second").await.unwrap();
    blobs.finish(id(2)).await.unwrap();
    assert_eq!(all(&blobs, 2).await, b"first second");
    assert_eq!(home.collected(&blobs).await, 2);
}

/// A process that dies while an object is on its way is a future that is dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_dies_leaves_nothing_that_is_served_or_stays() {
    let home = Home::bucket(Engine::File);
    let database = home.open().await;
    let blobs = home.blobs(&database);
    let bucket = home.bucket.as_ref().unwrap();
    blobs.begin(&new_blob(1)).await.unwrap();
    bucket.stall();
    {
        let write = blobs.write(id(1), 0, b"half");
        tokio::pin!(write);
        while !bucket.was_asked() {
            let pending = tokio::time::timeout(Duration::from_millis(20), &mut write).await;
            assert!(pending.is_err(), "nothing answered it: {pending:?}");
        }
    }
    bucket.mend();
    assert_eq!(blobs.kept().await.unwrap().unnamed, 1);
    assert_eq!(blobs.collect(Timestamp(0)).await.unwrap(), 0, "it may still be on its way");
    blobs.finish(id(1)).await.unwrap();
    assert!(all(&blobs, 1).await.is_empty());
    assert_eq!(home.collected(&blobs).await, 0);
}

/// A writer that stood still until others took it for dead names nothing that is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_comes_too_late_is_refused() {
    let home = Home::bucket(Engine::File);
    let database = home.open().await;
    let blobs = home.blobs(&database);
    blobs.begin(&new_blob(1)).await.unwrap();
    let mut plain = home.house.sqlite().await;
    let early = "CREATE TRIGGER early AFTER INSERT ON blob_unnamed BEGIN UPDATE blob_unnamed SET doomed = 1; END";
    sqlx::query(early).execute(&mut plain).await.unwrap();
    let late = blobs.write(id(1), 0, b"late").await;
    assert!(matches!(late, Err(BlobError::Store(StoreError::Unavailable(_)))), "{late:?}");
    blobs.finish(id(1)).await.unwrap();
    assert!(all(&blobs, 1).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lies_in_a_place_that_nobody_named_is_told_by_its_name() {
    let home = Home::bucket(Engine::File);
    let (database, vault) = (home.open().await, vault());
    put(&nodes(&database, &vault, &home.urls), &new_blob(1), b"there").await.unwrap();
    let refused = nodes(&database, &vault, &[]).read(id(1), 0).await.unwrap_err().to_string();
    assert!(refused.contains("s3://blobs/kept/here") && refused.contains("none of the places"), "{refused}");
}

async fn moved(blobs: &RowBlobs) -> Relocated {
    blobs.relocate(&mut |_| ()).await.unwrap()
}

async fn rows_go_to_a_bucket_to_another_and_back(house: House) {
    let (bucket, vault) = (Bucket::start(), vault());
    let database = house.open().await;
    let (first, second) = (bucket.url(), bucket.url_below("elsewhere"));
    let rows = nodes(&database, &vault, &[]);
    for n in 1..=3 {
        put(&rows, &new_blob(n as u128), &bytes(n)).await.unwrap();
    }
    rows.begin(&new_blob(4)).await.unwrap();
    rows.write(id(4), 0, b"begun ").await.unwrap();
    let total = bytes(0).len() as u64 * 3 + 6;
    let places: [&[String]; 3] =
        [std::slice::from_ref(&first), &[second.clone(), first.clone()], &["rows:".to_owned(), second, first.clone()]];
    for (urls, below) in places.into_iter().zip([Some("kept/here/"), Some("elsewhere/"), None]) {
        let blobs = nodes(&database, &vault, urls);
        assert_eq!(moved(&blobs).await, Relocated { pieces: 7, bytes: total, overtaken: 0 });
        assert_eq!(moved(&blobs).await, Relocated::default(), "all is there already");
        while blobs.collect(LATER).await.unwrap() > 0 {}
        let there = bucket.objects();
        assert_eq!(there.len(), if below.is_some() { 7 } else { 0 });
        assert!(there.iter().all(|object| below.is_some_and(|below| object.starts_with(below))), "{there:?}");
        for n in 1..=3 {
            assert!(all(&blobs, n as u128).await == bytes(n), "{n}");
        }
    }
    let blobs = nodes(&database, &vault, &[]);
    blobs.write(id(4), 6, b"and ended").await.unwrap();
    blobs.finish(id(4)).await.unwrap();
    assert_eq!(all(&blobs, 4).await, b"begun and ended");
}

on_every_engine!(rows_go_to_a_bucket_to_another_and_back);

/// Killed in the middle, with the bucket away, and again until it is done, while somebody reads and writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_is_cut_goes_on_and_disturbs_nobody() {
    let home = Home::bucket(Engine::Postgres);
    let (database, vault) = (home.open().await, vault());
    let bucket = home.bucket.as_ref().unwrap();
    let rows = nodes(&database, &vault, &[]);
    for n in 1..=40 {
        put(&rows, &new_blob(n as u128), &bytes(n)[..50_000]).await.unwrap();
    }
    let blobs = nodes(&database, &vault, &home.urls);
    // Dropped after its first step, as by a kill.
    let (heard, hears) = tokio::sync::oneshot::channel();
    let mut heard = Some(heard);
    let mut told = move |_| {
        if let Some(heard) = heard.take() {
            heard.send(()).unwrap();
        }
    };
    tokio::select! {
        done = blobs.relocate(&mut told) => panic!("it has more than one step: {done:?}"),
        _ = async { hears.await.unwrap() } => {}
    }
    bucket.cut();
    blobs.relocate(&mut |_| ()).await.unwrap_err();
    bucket.mend();
    let readers = async {
        for n in 1..=40 {
            assert!(all(&blobs, n as u128).await == bytes(n)[..50_000], "{n}");
        }
    };
    let writers = async {
        blobs.begin(&new_blob(99)).await.unwrap();
        for n in 0..10_u64 {
            blobs.write(id(99), 0, format!("again {n}").as_bytes()).await.unwrap();
        }
        blobs.finish(id(99)).await.unwrap();
    };
    let (_, (), ()) = tokio::join!(moved(&blobs), readers, writers);
    assert_eq!(moved(&blobs).await, Relocated::default());
    assert_eq!(all(&blobs, 99).await, b"again 9");
    for n in 1..=40 {
        assert!(all(&blobs, n as u128).await == bytes(n)[..50_000], "{n}");
    }
    assert_eq!(home.collected(&blobs).await, 41);
}
