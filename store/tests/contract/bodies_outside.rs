//! What is kept of messages, in a bucket or a folder beside any log store: found by its record, sent twice and there
//! once, gone with its day, and nothing is stored while the bucket is away.

use crate::logs::{any, mixed};
use crate::{House, id, on_log_engines};
use flate2::read::MultiGzDecoder;
use gateway_domain::Timestamp;
use gateway_domain::ports::{LogStore, RecordAppend as _, RecordQuery as _, Retention as _, StoreError};
use gateway_domain::record::{Bodies, LogRecord, RecordedBody, RecordedMessage};
use gateway_store::{BlobPlaces, BodiesOutside};
use gateway_testing::Bucket;
use std::io::Read as _;
use std::sync::Arc;

const DAY: i64 = 86_400_000_000;

on_log_engines!(
    messages_lie_outside_and_are_found_by_their_record,
    messages_go_with_their_day_and_the_way_back_is_open,
    a_bucket_that_is_away_keeps_records_waiting,
);

fn on(day: i64, n: u128) -> LogRecord {
    let message = RecordedMessage {
        body: RecordedBody::of(&format!("{{\"canary\":{n}}}").into_bytes().into()),
        ..RecordedMessage::default()
    };
    let bodies = Bodies { request: message.clone(), response: Some(message), ..Bodies::default() };
    LogRecord { created_at: Timestamp(day * DAY + n as i64), bodies: Some(bodies.into()), ..mixed(n) }
}

fn bare(record: &LogRecord) -> LogRecord {
    LogRecord { bodies: None, ..record.clone() }
}

fn outside(inner: &Arc<dyn LogStore>, urls: &[&str]) -> BodiesOutside {
    let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
    BodiesOutside::new(inner.clone(), BlobPlaces::open(&urls, &[]).unwrap())
}

async fn messages_lie_outside_and_are_found_by_their_record(house: House) {
    let (inner, bucket) = (house.logs().await, Bucket::start());
    let store = outside(&inner, &[&bucket.url()]);
    let batch = [on(20_000, 1), bare(&on(20_000, 2)), on(20_000, 3), on(20_001, 4)];
    store.append(&batch).await.unwrap();
    for record in &batch {
        assert_eq!(store.get(record.id, None).await.unwrap().as_ref(), Some(record));
    }
    let objects = bucket.objects();
    assert_eq!(objects.len(), 2, "one for each day: {objects:?}");
    assert!(objects.iter().all(|name| name.starts_with("kept/here/days/2024-10-0") && name.ends_with(".jsonl.gz")));
    let mut lines = String::new();
    MultiGzDecoder::new(&bucket.object(&objects[0])[..]).read_to_string(&mut lines).unwrap();
    assert!(lines.contains("canary") && lines.lines().all(|line| line.contains("\"id\":")), "{lines}");
    // The log store says where they lie, and no word of what they say.
    let kept = inner.get(id(1), None).await.unwrap().unwrap().bodies.unwrap();
    assert!(kept.outside.is_some() && kept.request == RecordedMessage::default());
    // Sent again, by a node that did not hear that it was stored.
    store.append(&batch).await.unwrap();
    assert_eq!(store.get(id(3), None).await.unwrap(), Some(on(20_000, 3)));
    assert_eq!(store.query(&any()).await.unwrap().total, 4);
}

async fn messages_go_with_their_day_and_the_way_back_is_open(house: House) {
    let (inner, folder) = (house.logs().await, tempfile::tempdir().unwrap());
    let there = format!("file://{}", folder.path().display());
    // What was stored before the flag was set is found as it lies.
    inner.append(&[on(20_000, 1)]).await.unwrap();
    let store = outside(&inner, &[&there]);
    store.append(&[on(20_000, 2), on(20_001, 3)]).await.unwrap();
    assert_eq!(store.get(id(1), None).await.unwrap(), Some(on(20_000, 1)));
    // It works the other way round too: new ones go to the log store, old ones are still fetched.
    let back = outside(&inner, &["rows:", &there]);
    back.append(&[on(20_001, 4)]).await.unwrap();
    assert_eq!(back.get(id(3), None).await.unwrap(), Some(on(20_001, 3)));
    assert_eq!(inner.get(id(4), None).await.unwrap(), Some(on(20_001, 4)));
    // A place that nobody names any more is told of, not passed over.
    let refused = outside(&inner, &["rows:"]).get(id(3), None).await.unwrap_err().to_string();
    assert!(refused.contains(&there), "{refused}");

    store.expire(Timestamp(20_001 * DAY), Timestamp(0)).await.unwrap();
    assert_eq!(store.get(id(2), None).await.unwrap(), Some(bare(&on(20_000, 2))));
    assert_eq!(store.get(id(3), None).await.unwrap(), Some(on(20_001, 3)));
    let days: Vec<String> = std::fs::read_dir(folder.path().join("days"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|day| std::fs::read_dir(day).unwrap().next().is_some())
        .map(|day| day.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(days, ["2024-10-05"]);
}

async fn a_bucket_that_is_away_keeps_records_waiting(house: House) {
    let (inner, bucket) = (house.logs().await, Bucket::start());
    let store = outside(&inner, &[&bucket.url()]);
    store.append(&[on(20_000, 1)]).await.unwrap();
    bucket.cut();
    let refused = store.append(&[on(20_000, 2)]).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    assert_eq!(inner.query(&any()).await.unwrap().total, 1, "the record waits with its messages");
    store.append(&[bare(&on(20_000, 3))]).await.unwrap();
    let refused = store.get(id(1), None).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused:?}");
    bucket.mend();
    store.append(&[on(20_000, 2)]).await.unwrap();
    assert_eq!(store.get(id(2), None).await.unwrap(), Some(on(20_000, 2)));
    assert_eq!(store.get(id(1), None).await.unwrap(), Some(on(20_000, 1)));
}
