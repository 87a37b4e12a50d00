//! Records by the day: found across days, dropped with them, moved over from the table of before, priced later.

use crate::logs::{any, called, full, on_log_engines, record};
use crate::{Engine, House, id};
use gateway_domain::ports::LogStore;
use gateway_domain::record::{Bodies, Costed, LlmDetail, LogQuery, LogRecord, RecordedBody, RecordedMessage};
use gateway_domain::{NanoUsd, Timestamp, Usage};
use gateway_store::{Database, LogsUrl, Partitions, open_logs};
use std::sync::Arc;

on_log_engines!(
    pages_go_across_days,
    old_days_are_dropped,
    what_is_kept_of_messages_goes_sooner,
    a_look_brings_no_dropped_day_back,
    records_are_found_on_the_day_after_their_id,
    costs_come_later_and_once,
    many_nodes_begin_a_day_at_once,
);

const DAY: i64 = 86_400_000_000;

fn on(day: i64, n: u128) -> LogRecord {
    LogRecord { created_at: Timestamp(day * DAY + n as i64), ..record(n) }
}

async fn numbers(store: &dyn LogStore, query: LogQuery) -> Vec<u128> {
    store.query(&query).await.unwrap().rows.iter().map(|r| r.id.as_u128()).collect()
}

async fn pages_go_across_days(house: House) {
    let store = house.logs().await;
    // Three days, one of them empty, in one batch and out of order.
    let batch: Vec<_> = [(20_003, 7), (20_000, 1), (20_001, 4), (20_000, 2), (20_001, 5), (20_003, 8), (20_000, 3)]
        .map(|(day, n)| on(day, n))
        .into();
    store.append(&batch).await.unwrap();
    assert_eq!(numbers(&*store, any()).await, [8, 7, 5, 4, 3, 2, 1]);
    let mut seen = Vec::new();
    for page in 0..4 {
        let query = LogQuery { page, page_size: 2, ..any() };
        assert_eq!(store.query(&query).await.unwrap().total, 7);
        seen.extend(numbers(&*store, query).await);
    }
    assert_eq!(seen, [8, 7, 5, 4, 3, 2, 1]);
    let from = Some(Timestamp(20_000 * DAY + 2));
    let to = Some(Timestamp(20_001 * DAY + 4));
    assert_eq!(numbers(&*store, LogQuery { from, to, ..any() }).await, [4, 3, 2]);
    for n in [1, 4, 8] {
        assert_eq!(store.get(id(n), None).await.unwrap().unwrap().id, id(n));
    }
    // A second look by a process that has none of it open yet.
    assert_eq!(numbers(&*house.logs().await, any()).await, [8, 7, 5, 4, 3, 2, 1]);
}

async fn old_days_are_dropped(house: House) {
    let store = house.logs().await;
    store.append(&[on(20_000, 1), on(20_001, 2), on(20_002, 3)]).await.unwrap();
    let none = Timestamp(0);
    assert_eq!(store.expire(none, Timestamp(20_001 * DAY - 1)).await.unwrap(), 0, "the day is not over");
    assert_eq!(numbers(&*store, any()).await, [3, 2, 1]);
    store.expire(none, Timestamp(20_002 * DAY - 1)).await.unwrap();
    assert_eq!(numbers(&*store, any()).await, [3, 2]);
    store.expire(none, Timestamp(20_002 * DAY)).await.unwrap();
    assert_eq!((numbers(&*store, any()).await, store.get(id(1), None).await.unwrap()), (vec![3], None));
    // Late ones, from a journal that waited long, are taken and go with the next round.
    store.append(&[on(20_000, 4)]).await.unwrap();
    assert_eq!(numbers(&*store, any()).await, [3, 4]);
    store.expire(none, Timestamp(20_002 * DAY)).await.unwrap();
    assert_eq!(numbers(&*store, any()).await, [3]);
    if house.engine == Engine::File {
        let left = std::fs::read_dir(house.path("logs")).unwrap();
        let mut left: Vec<String> = left.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        left.retain(|name| !name.starts_with("2024-10-06"));
        assert_eq!(left, [""; 0], "the files are gone");
    }
}

async fn what_is_kept_of_messages_goes_sooner(house: House) {
    let store = house.logs().await;
    let message = RecordedMessage { body: RecordedBody::of(&b"{}".to_vec().into()), ..RecordedMessage::default() };
    let bodies = Bodies { request: message, ..Bodies::default() };
    let with = |day, n| LogRecord { bodies: Some(bodies.clone().into()), ..on(day, n) };
    store.append(&[with(20_000, 1), with(20_001, 2)]).await.unwrap();
    assert_eq!(store.get(id(1), None).await.unwrap(), Some(with(20_000, 1)));
    store.expire(Timestamp(20_001 * DAY), Timestamp(0)).await.unwrap();
    assert_eq!(store.get(id(1), None).await.unwrap(), Some(on(20_000, 1)));
    assert_eq!(store.get(id(2), None).await.unwrap(), Some(with(20_001, 2)));
    assert_eq!(numbers(&*store, any()).await, [2, 1]);
}

async fn a_look_brings_no_dropped_day_back(house: House) {
    let store = house.logs().await;
    let days = 20_000..20_012;
    let batch: Vec<_> = days.clone().map(|day| on(day, day as u128)).collect();
    store.append(&batch).await.unwrap();
    // Each of them goes while others go through all that there are.
    for day in days {
        let before = Timestamp((day + 1) * DAY);
        let query = any();
        // Looked at in this order, so that each has its list of days before one of them goes.
        let (page, groups, one, dropped) =
            tokio::join!(store.query(&query), store.unpriced(), store.get(id(1), None), store.expire(before, before));
        assert!(dropped.unwrap() > 0);
        assert!(page.unwrap().total >= (20_011 - day) as u64 && groups.unwrap().is_empty() && one.unwrap().is_none());
        let left = numbers(&*store, any()).await;
        assert_eq!(left, ((day as u128 + 1)..20_012).rev().collect::<Vec<_>>());
        assert_eq!(store.expire(before, before).await.unwrap(), 0, "it was there again");
    }
}

async fn records_are_found_on_the_day_after_their_id(house: House) {
    let store = house.logs().await;
    // Asked a second before midnight, answered after it.
    let asked = 20_000 * 86_400 - 1;
    let made = uuid::Uuid::new_v7(uuid::Timestamp::from_unix_time(asked, 0, 0, 0));
    let late = LogRecord { id: made, ..on(20_000, 5) };
    store.append(&[on(19_990, 1), late.clone(), on(20_002, 2)]).await.unwrap();
    assert_eq!(store.get(made, None).await.unwrap(), Some(late));
}

async fn costs_come_later_and_once(house: House) {
    let store = house.logs().await;
    let used = |day, n, model: &str| LogRecord {
        operation: called(LlmDetail { usage: Some(Usage { input: 5, ..Usage::default() }), ..LlmDetail::NONE }),
        model: model.into(),
        ..on(day, n)
    };
    let priced = LogRecord { cost: Some(NanoUsd(3)), ..used(20_000, 9, "new") };
    let batch = [used(20_000, 1, "new"), used(20_001, 2, "new"), used(20_001, 3, "other"), on(20_001, 4), priced];
    store.append(&batch).await.unwrap();
    let mut groups = store.unpriced().await.unwrap();
    groups.sort_by(|a, b| a.model.cmp(&b.model));
    assert_eq!(groups.iter().map(|g| &*g.model).collect::<Vec<_>>(), ["new", "other"]);
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let page = store.unpriced_of(&groups[0], after).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.created_at, last.id));
        seen.extend(page.iter().map(|r| r.id.as_u128()));
    }
    assert_eq!(seen, [1, 2]);
    let cost = |day: i64, n: u128, cost| Costed { id: id(n), created_at: on(day, n).created_at, cost: NanoUsd(cost) };
    store.set_costs(&[cost(20_000, 1, 7), cost(20_001, 2, 0), cost(20_000, 9, 8)]).await.unwrap();
    store.set_costs(&[cost(20_000, 1, 70)]).await.unwrap();
    for (n, want) in [(1, Some(7)), (2, Some(0)), (3, None), (9, Some(3))] {
        assert_eq!(store.get(id(n), None).await.unwrap().unwrap().cost, want.map(NanoUsd), "{n}");
    }
    assert_eq!(store.unpriced().await.unwrap(), groups[1..]);
}

async fn many_nodes_begin_a_day_at_once(house: House) {
    let mut nodes = tokio::task::JoinSet::new();
    for n in 0..6 {
        let store = house.logs().await;
        nodes.spawn(async move { store.append(&[on(20_000, n), on(20_001, 10 + n), on(20_000, 99)]).await });
    }
    for stored in nodes.join_all().await {
        stored.unwrap();
    }
    assert_eq!(house.logs().await.query(&any()).await.unwrap().total, 13);
}

/// Leaves records behind as a version before the partitions did.
async fn leave_old(house: &House, count: u128) -> Database {
    let database = house.open().await;
    for n in 1..=count {
        let r = full(n);
        let day = 20_000 + (n as i64 % 3);
        let sql = format!(
            "INSERT INTO log_record (id, created_at, trace_id, attempt, last, org, workspace, workspace_slug, config, \
             virtual_key, provider, model, operation, method, path, status, stream, retries, option_index, strategy, \
             total_us, upstream_us, first_byte_us, gateway_us, request_bytes, response_bytes, client_ip, metadata, \
             adjusted) VALUES ('{}', {}, 't', 1, 1, '{}', '{}', 'w', '', '', 'openai', 'm', 'chatComplete', 'POST', '/', \
             200, 0, 0, '', 'single', 1, 1, 1, 1, 1, 1, '', '{{}}', '')",
            r.id,
            day * DAY + n as i64,
            r.org.0,
            r.workspace.0,
        );
        match house.engine {
            Engine::Postgres => {
                sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut house.postgres().await).await.map(drop)
            }
            _ => sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut house.sqlite().await).await.map(drop),
        }
        .unwrap();
    }
    database
}

async fn moved(house: House) {
    let database = leave_old(&house, 7).await;
    let store: Arc<dyn LogStore> = match house.engine {
        // The log store is in the same database, as by default.
        Engine::Postgres => Arc::new(Partitions::over(database.clone(), None)),
        _ => open_logs(&LogsUrl::Files(house.path("logs")), &crate::options(), None).await.unwrap(),
    };
    assert_eq!(database.move_old_records(&*store).await.unwrap(), 7);
    assert_eq!(database.move_old_records(&*store).await.unwrap(), 0);
    let page = store.query(&any()).await.unwrap();
    let mut numbers: Vec<_> = page.rows.iter().map(|r| r.id.as_u128()).collect();
    numbers.sort_unstable();
    assert_eq!((page.total, numbers), (7, (1..=7).collect()));
    assert_eq!((&*page.rows[0].path, page.rows[0].usage()), ("/", None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_before_are_moved_on_a_server() {
    moved(House::new(Engine::Postgres)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_before_are_moved_out_of_a_file() {
    moved(House::new(Engine::File)).await;
}

/// Only SQLite has files that one day can spoil.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_day_hides_nothing_but_itself() {
    let house = House::new(Engine::File);
    let unpriced = LlmDetail { usage: Some(Usage::default()), ..LlmDetail::NONE };
    let used = |day, n| LogRecord { operation: called(unpriced.clone()), cost: None, ..on(day, n) };
    house.logs().await.append(&[used(20_000, 1), used(20_002, 3)]).await.unwrap();
    let file = house.path("logs").join(format!("{}.db", &Timestamp(20_001 * DAY).to_string()[..10]));
    std::fs::write(&file, "no database, but long enough to be taken for one. ".repeat(200)).unwrap();
    let store = house.logs().await;
    let page = store.query(&any()).await.unwrap();
    assert_eq!(page.missing, [Timestamp(20_001 * DAY).to_string()[..10].to_owned()]);
    assert_eq!((page.total, page.rows.len()), (2, 2));
    assert_eq!(store.get(id(1), None).await.unwrap().unwrap().id, id(1));
    store.get(id(2), None).await.expect_err("nobody knows whether it is there");
    assert!(!store.unpriced().await.unwrap().is_empty(), "the others get their costs");
    let of_it = LogQuery { from: Some(Timestamp(20_001 * DAY)), to: Some(Timestamp(20_002 * DAY - 1)), ..any() };
    store.query(&of_it).await.expect_err("there is nothing else to tell");
}
