//! Records go from any log store to any other, with what was kept of their messages, and none is lost, doubled or
//! changed, though half of them are there already.

use crate::logs::{any, called, mixed};
use crate::{Engine, House, options};
use gateway_domain::analytics::{SumParts, SumQuery};
use gateway_domain::ports::LogStore;
use gateway_domain::record::{Bodies, Costed, LlmDetail, LogQuery, LogRecord, RecordedBody, RecordedMessage};
use gateway_domain::{NanoUsd, Timestamp, Usage};
use gateway_store::LogSource;
use std::time::Duration;

const DAY: i64 = 86_400_000_000;

fn on(n: u128) -> LogRecord {
    let message = RecordedMessage {
        body: RecordedBody::of(&format!("{{\"n\":{n}}}").into_bytes().into()),
        ..RecordedMessage::default()
    };
    let bodies = Bodies { request: message, ..Bodies::default() };
    LogRecord {
        created_at: Timestamp((20_000 + n as i64 % 3) * DAY + n as i64 / 2),
        bodies: n.is_multiple_of(7).then(|| bodies.into()),
        ..mixed(n)
    }
}

async fn sums(store: &dyn LogStore) -> gateway_domain::analytics::SumsFound {
    let query = SumQuery {
        of: LogQuery::default(),
        edges: vec![Timestamp(20_000 * DAY), Timestamp(20_001 * DAY), Timestamp(20_004 * DAY)],
        by: Vec::new(),
        parts: SumParts::ALL,
        most_records: 1_000_000,
        time: Duration::from_secs(60),
    };
    let found = store.sums(&query).await.unwrap();
    assert!(!found.is_partial);
    gateway_domain::analytics::SumsFound { records_read: 0, ..found }
}

async fn moves(from: Engine, to: Engine) {
    let (from, to) = (House::new(from), House::new(to));
    let all: Vec<LogRecord> = (1..=1_500).map(on).collect();
    let source = LogSource::open(&from.logs_url(), &options()).await.unwrap().unwrap();
    let target = to.logs().await;
    source.records.append(&all).await.unwrap();
    // What an earlier run left that was killed, one of it before its price came, and a record of another's.
    let used = LlmDetail { usage: Some(Usage { input: 4, ..Usage::default() }), ..LlmDetail::NONE };
    let priced = LogRecord { operation: called(used), cost: None, ..on(2_000) };
    source.records.append(std::slice::from_ref(&priced)).await.unwrap();
    target.append(&all[..700]).await.unwrap();
    target.append(&[priced.clone(), on(3_000)]).await.unwrap();
    let cost = Costed { id: priced.id, created_at: priced.created_at, cost: NanoUsd(9) };
    source.records.set_costs(&[cost]).await.unwrap();

    let mut days = Vec::new();
    let done = source.transfer(&*target, &mut |day, written| days.push((day.to_owned(), written))).await.unwrap();
    assert_eq!((done.days, done.written), (3, 800), "{days:?}");
    assert_eq!((done.source.records, done.target.records), (1_501, 1_502));
    let again = source.transfer(&*target, &mut |_, _| ()).await.unwrap();
    assert_eq!((again.days, again.written), (3, 0));

    source.records.append(&[on(3_000)]).await.unwrap();
    assert_eq!(sums(&*source.records).await, sums(&*target).await);
    for page in 0..2 {
        let query = LogQuery { page, ..any() };
        let [want, got] = [source.records.query(&query).await.unwrap(), target.query(&query).await.unwrap()];
        assert_eq!((got.total, got.rows), (want.total, want.rows));
    }
    for record in all.iter().filter(|r| r.bodies.is_some()).step_by(40) {
        assert_eq!(target.get(record.id, None).await.unwrap().as_ref(), Some(record));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_files_to_clickhouse() {
    moves(Engine::File, Engine::ClickHouse).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_clickhouse_to_postgres() {
    moves(Engine::ClickHouse, Engine::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_postgres_to_files() {
    moves(Engine::Postgres, Engine::File).await;
}
