//! Sums kept beside the records are those of the records, whatever happened to them: sent twice, priced late, dropped,
//! written by two nodes or by a version that kept no sums.

use crate::logs::record;
use crate::{Engine, House, id};
pub(crate) use crate::{on_log_engines, on_rollup_engines};
use gateway_domain::analytics::{Dimension, Fact, SumCell, SumParts, SumQuery, Sums, SumsFound};
use gateway_domain::id::{KeyId, OrgId, WorkspaceId};
use gateway_domain::ports::{LogStore, NamedMetadata, StoreError};
use gateway_domain::record::{
    CacheStatus, Costed, LlmDetail, LogQuery, LogRecord, RecordedOperation, RecordedPrompt, Timings,
};
use gateway_domain::{NanoUsd, Timestamp, Usage};
use serde_json::{Value, json};
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

on_log_engines!(sums_are_those_of_the_records, a_question_without_time_is_partial, a_list_ends_when_its_time_is_up,);
on_rollup_engines!(
    many_values_lose_their_names_and_no_sums,
    what_rollups_do_not_know_is_read_from_records_within_bounds,
    a_key_that_is_named_later_is_read_from_records_before,
    days_without_sums_are_made_up_for,
    what_comes_late_to_a_day_that_is_over_is_in_its_sums,
    sums_that_wait_are_few_and_are_added_whoever_asks,
);

const HOUR: i64 = 3_600_000_000;
const DAY: i64 = 24 * HOUR;
/// Days from here on: 2024-10-04.
const FIRST: i64 = 20_000 * DAY;

struct NamedKeys(&'static [&'static str]);

impl NamedMetadata for NamedKeys {
    fn named(&self, _: OrgId) -> Arc<[SmolStr]> {
        self.0.iter().copied().map(SmolStr::new_static).collect()
    }
}

fn team() -> Option<Arc<dyn NamedMetadata>> {
    Some(Arc::new(NamedKeys(&["team"])))
}

/// Random numbers that are the same on every run (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.roll(list.len() as u64) as usize]
    }
}

fn random(n: u128, dice: &mut Dice) -> LogRecord {
    let mut metadata = serde_json::Map::new();
    for (key, values) in [("_user", ["", "ann", "bob"]), ("team", ["", "a", "b\"c"]), ("other", ["", "x", "y"])] {
        if let Some(value) = Some(dice.of(&values)).filter(|v| !v.is_empty()) {
            metadata.insert(key.to_owned(), value.into());
        }
    }
    let tokens = dice.roll(1_000);
    let prompt = dice.of(&["", "pp-a", "pp-b"]);
    let prompt = RecordedPrompt { id: id(40), slug: prompt.into(), version_id: id(41), version: 1 };
    LogRecord {
        created_at: Timestamp(FIRST + dice.roll(3 * DAY as u64) as i64),
        workspace: WorkspaceId(id(dice.of(&[2, 3]))),
        key: dice.of(&[None, Some(KeyId(id(7))), Some(KeyId(id(8)))]),
        provider: dice.of(&["openai", "anthropic"]).into(),
        model: dice.of(&["gpt-4o", "claude", ""]).into(),
        status: dice.of(&[200, 200, 429, 499, 500]),
        last: dice.roll(4) > 0,
        attempt: 1 + dice.roll(2) as u32,
        cost: dice.of(&[None, Some(NanoUsd(tokens as i64 * 17))]),
        operation: RecordedOperation::new(
            "chatComplete",
            LlmDetail {
                retries: dice.of(&[0, 0, 2, -1]),
                prompt: (!prompt.slug.is_empty()).then(|| Arc::new(prompt)),
                cache: dice.of(&[CacheStatus::Disabled, CacheStatus::Hit, CacheStatus::Miss, CacheStatus::Refresh]),
                usage: dice.of(&[None, Some(Usage { input: tokens, output: 3, ..Usage::default() })]),
                saved: dice.of(&[None, Some(NanoUsd(5))]),
                ..LlmDetail::NONE
            },
        ),
        timings: Timings { total_us: 1 + dice.roll(60_000_000), ..Timings::default() },
        metadata: Value::Object(metadata).to_string().into(),
        ..record(n)
    }
}

fn question(edges: &[i64]) -> SumQuery {
    SumQuery {
        of: LogQuery { org: Some(OrgId(id(1))), ..LogQuery::default() },
        edges: edges.iter().copied().map(Timestamp).collect(),
        by: Vec::new(),
        parts: SumParts::ALL,
        most_records: 100_000,
        time: Duration::from_secs(60),
    }
}

fn value(record: &LogRecord, by: &Dimension) -> SmolStr {
    let metadata: Value = serde_json::from_str(&record.metadata).unwrap();
    let text = |key: &str| metadata[key].as_str().unwrap_or_default().into();
    match by {
        Dimension::Workspace => record.workspace.to_string().into(),
        Dimension::Key => record.key.map(|k| k.to_string()).unwrap_or_default().into(),
        Dimension::User => text("_user"),
        Dimension::Provider => record.provider.clone(),
        Dimension::VirtualKey => record.virtual_key.clone(),
        Dimension::Model => record.model.clone(),
        Dimension::Status => record.status.to_string().into(),
        Dimension::Config => record.config.clone(),
        Dimension::Prompt => record.prompt_slug().cloned().unwrap_or_default(),
        Dimension::Trace => (&*record.trace_id).into(),
        Dimension::Metadata(key) => text(key),
    }
}

/// What a question comes to, from plain records.
fn expected(records: &BTreeMap<Uuid, LogRecord>, query: &SumQuery) -> Vec<SumCell> {
    let mut cells: BTreeMap<(usize, Vec<SmolStr>), Sums> = BTreeMap::new();
    let edges = &query.edges;
    for record in records.values() {
        let metadata: Value = serde_json::from_str(&record.metadata).unwrap();
        let of = &query.of;
        let inside = record.created_at >= edges[0] && record.created_at < edges[edges.len() - 1];
        let fits = inside
            && (of.workspaces.is_empty() || of.workspaces.contains(&record.workspace))
            && (of.models.is_empty() || of.models.iter().any(|m| *m == record.model))
            && (of.statuses.is_empty() || of.statuses.contains(&record.status))
            && (of.prompts.is_empty() || of.prompts.iter().any(|slug| value(record, &Dimension::Prompt) == *slug))
            && (of.cache_statuses.is_empty() || of.cache_statuses.contains(&record.cache()))
            && (of.trace_ids.is_empty() || of.trace_ids.iter().any(|trace| *record.trace_id == **trace))
            && of.metadata.iter().all(|(key, value)| metadata[key] == json!(value));
        if fits {
            let span = edges.iter().rposition(|edge| *edge <= record.created_at).unwrap();
            let values = query.by.iter().map(|by| value(record, by)).collect();
            cells.entry((span, values)).or_default().add(&Fact::of(record));
        }
    }
    cells.into_iter().map(|((span, values), sums)| SumCell { span, values, sums }).collect()
}

fn questions() -> Vec<SumQuery> {
    let whole = [FIRST, FIRST + DAY, FIRST + 2 * DAY, FIRST + 3 * DAY];
    let ragged = [FIRST + 7, FIRST + 5 * HOUR, FIRST + 5 * HOUR + HOUR / 2, FIRST + 2 * DAY + 3 * HOUR + 99];
    let metadata = |key: &str, value: &str| vec![(key.to_owned(), value.to_owned())];
    let with = |of: LogQuery| SumQuery { of: LogQuery { org: Some(OrgId(id(1))), ..of }, ..question(&ragged) };
    let mut all = vec![
        question(&whole),
        question(&ragged),
        with(LogQuery { workspaces: vec![WorkspaceId(id(3))], ..LogQuery::default() }),
        with(LogQuery { statuses: vec![200, 429], models: vec!["claude".into()], ..LogQuery::default() }),
        with(LogQuery { metadata: metadata("_user", "ann"), ..LogQuery::default() }),
        with(LogQuery { metadata: metadata("team", "b\"c"), ..LogQuery::default() }),
        with(LogQuery { prompts: vec!["pp-b".into(), "pp-none".into()], ..LogQuery::default() }),
        // All from records alone.
        with(LogQuery { cache_statuses: vec![CacheStatus::Hit, CacheStatus::Disabled], ..LogQuery::default() }),
        with(LogQuery { trace_ids: vec!["t1".into(), "none".into()], ..LogQuery::default() }),
        with(LogQuery { metadata: metadata("other", "x"), ..LogQuery::default() }),
        with(LogQuery { operations: vec!["chatComplete".into()], ..LogQuery::default() }),
    ];
    for by in [
        vec![Dimension::Workspace],
        vec![Dimension::Key],
        vec![Dimension::User, Dimension::Status],
        vec![Dimension::Provider, Dimension::Model],
        vec![Dimension::VirtualKey, Dimension::Config],
        vec![Dimension::Metadata("team".into())],
        vec![Dimension::Metadata("other".into())],
        vec![Dimension::Prompt, Dimension::Model],
        vec![Dimension::Trace, Dimension::Prompt],
    ] {
        all.push(SumQuery { by, ..question(&[FIRST, FIRST + 30 * HOUR + 11, FIRST + 3 * DAY]) });
    }
    all
}

async fn agree(store: &dyn LogStore, records: &BTreeMap<Uuid, LogRecord>, when: &str) {
    for query in questions() {
        let found = store.sums(&query).await.unwrap();
        assert!(!found.is_partial && !found.is_cut, "{when}: {query:?}");
        let want = expected(records, &query);
        for (got, want) in found.cells.iter().zip(&want) {
            assert_eq!(got, want, "{when}: {query:?}");
        }
        assert_eq!(found.cells.len(), want.len(), "{when}: {query:?}");
        listed(store, &query, &want, when).await;
    }
}

/// A list of the same counts as many.
async fn listed(store: &dyn LogStore, query: &SumQuery, want: &[SumCell], when: &str) {
    let [first, .., last] = &query.edges[..] else { panic!("a range") };
    let to = Some(Timestamp(last.micros() - 1));
    let page = store.query(&LogQuery { from: Some(*first), to, page_size: 1, ..query.of.clone() }).await.unwrap();
    let records: i64 = want.iter().map(|cell| cell.sums.records).sum();
    assert_eq!((page.total, page.rows.len()), (records as u64, usize::from(records > 0)), "{when}: {query:?}");
}

/// Sums that are not made in the write of their records are made at any moment.
async fn made_meanwhile(house: &House, store: &dyn LogStore) -> Result<u64, StoreError> {
    if house.engine == Engine::ClickHouse { store.make_up(Timestamp(FIRST + 4 * DAY)).await } else { Ok(0) }
}

async fn sums_are_those_of_the_records(house: House) {
    // The engine behind the test's HTTP does one statement after the other.
    let seeds = if house.engine == Engine::ClickHouse { 1 } else { 3 };
    for seed in 1..=seeds {
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
        let mut stores = [house.logs_by(team()).await, house.logs_by(team()).await];
        let mut records: BTreeMap<Uuid, LogRecord> = BTreeMap::new();
        let (mut next, mut dropped) = (seed as u128 * 1_000_000, 0);
        for step in 0..14 {
            let mut batch = |dice: &mut Dice, records: &mut BTreeMap<Uuid, LogRecord>| {
                let mut batch: Vec<LogRecord> =
                    (0..dice.roll(60)).map(|n| random(next + u128::from(n), dice)).collect();
                next += 100;
                // Again what was there, and one of its own twice.
                let known: Vec<LogRecord> = records.values().cloned().collect();
                if !known.is_empty() && dice.roll(2) == 0 {
                    (0..5).for_each(|_| batch.push(known[dice.roll(known.len() as u64) as usize].clone()));
                    batch.extend(batch.first().cloned());
                }
                // Days that are gone stay gone in this story.
                batch.retain(|r| r.created_at.micros() >= FIRST + dropped * DAY);
                batch
            };
            match dice.roll(10) {
                0..=5 => {
                    let (one, two) = (batch(&mut dice, &mut records), batch(&mut dice, &mut records));
                    // Meanwhile sums are made of what is there: of which records, nobody knows.
                    let making = made_meanwhile(&house, &*stores[step % 2]);
                    let (a, b, made) = tokio::join!(stores[0].append(&one), stores[1].append(&two), making);
                    a.unwrap();
                    b.unwrap();
                    made.unwrap();
                    for record in one.into_iter().chain(two) {
                        records.entry(record.id).or_insert(record);
                    }
                }
                6..=7 => {
                    let costs: Vec<Costed> = records
                        .values()
                        .filter(|_| dice.roll(3) == 0)
                        .map(|r| Costed { id: r.id, created_at: r.created_at, cost: NanoUsd(999) })
                        .collect();
                    let making = made_meanwhile(&house, &*stores[step % 2]);
                    let (set, made) = tokio::join!(stores[step % 2].set_costs(&costs), making);
                    set.unwrap();
                    made.unwrap();
                    // A second node that found the same.
                    stores[(step + 1) % 2].set_costs(&costs).await.unwrap();
                    for cost in costs {
                        records.get_mut(&cost.id).unwrap().cost.get_or_insert(cost.cost);
                    }
                }
                8 => stores[step % 2] = house.logs_by(team()).await,
                _ if step > 8 && dropped == 0 => {
                    dropped = 1;
                    let before = Timestamp(FIRST + DAY);
                    stores[step % 2].expire(before, before).await.unwrap();
                    records.retain(|_, r| r.created_at >= before);
                }
                _ => drop(stores[step % 2].make_up(Timestamp(FIRST + 10 * DAY)).await.unwrap()),
            }
        }
        agree(&*stores[0], &records, &format!("seed {seed}")).await;
        agree(&*stores[1], &records, &format!("seed {seed}, the other node")).await;
        stores[0].make_up(Timestamp(FIRST + 10 * DAY)).await.unwrap();
        agree(&*stores[1], &records, &format!("seed {seed}, days that are over")).await;
        let after_all = Timestamp(FIRST + 10 * DAY);
        stores[0].expire(after_all, after_all).await.unwrap();
        agree(&*stores[1], &BTreeMap::new(), "all dropped").await;
    }
}

/// Only ClickHouse makes sums apart from the write of their records.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_of_hours_are_made_once_and_are_believed_until_a_write() {
    let house = House::new(Engine::ClickHouse);
    let server = house.columns.as_ref().unwrap().server.clone();
    let store = house.logs().await;
    let of = |n: u128, at: i64| LogRecord { created_at: Timestamp(FIRST + at), ..record(n) };
    store.append(&[of(1, 1), of(2, HOUR - 1), of(3, HOUR), of(4, 2 * HOUR + 5)]).await.unwrap();
    store.make_up(Timestamp(FIRST + 2 * HOUR + 9)).await.unwrap();
    // What is told without its records was read from their sums.
    let name = house.columns.as_ref().unwrap().name.clone();
    server.ask(&name, "ALTER TABLE log_entry DELETE WHERE 1 SETTINGS mutations_sync = 1");
    let asked = question(&[FIRST, FIRST + HOUR, FIRST + 2 * HOUR, FIRST + 3 * HOUR]);
    let calls = async |store: &dyn LogStore| {
        let found = totals(store, &asked).await;
        found.cells.iter().map(|cell| (cell.span, cell.sums.calls)).collect::<Vec<_>>()
    };
    assert_eq!(calls(&*store).await, [(0, 2), (1, 1)], "the last hour was not over");
    // A write to an hour, and its sums are not believed any more; the others are.
    store.append(&[of(5, 7)]).await.unwrap();
    assert_eq!(calls(&*store).await, [(0, 1), (1, 1)]);
    store.make_up(Timestamp(FIRST + 3 * HOUR)).await.unwrap();
    assert_eq!(calls(&*store).await, [(0, 1), (1, 1)]);
    // A price that was being written when its process was killed: no sums are made of that hour.
    let now = Timestamp::from_secs(i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap());
    let begun = format!("INSERT INTO log_touch VALUES ({}, 'x', 1, {})", FIRST + HOUR, now.micros());
    server.ask(&name, &begun);
    store.make_up(Timestamp(FIRST + 3 * HOUR)).await.unwrap();
    assert_eq!(calls(&*store).await, [(0, 1)]);
    // An hour later nobody is writing it any more.
    let ended = format!("INSERT INTO log_touch VALUES ({}, 'x', 1, {})", FIRST + HOUR, now.micros() - HOUR);
    server.ask(&name, "TRUNCATE TABLE log_touch");
    server.ask(&name, &ended);
    store.append(&[of(6, HOUR + 3), of(7, HOUR + 4)]).await.unwrap();
    store.make_up(Timestamp(FIRST + 3 * HOUR)).await.unwrap();
    server.ask(&name, "ALTER TABLE log_entry DELETE WHERE 1 SETTINGS mutations_sync = 1");
    assert_eq!(calls(&*store).await, [(1, 2)]);
}

async fn a_question_without_time_is_partial(house: House) {
    let store = house.logs().await;
    store.append(&[LogRecord { created_at: Timestamp(FIRST), ..record(1) }]).await.unwrap();
    let mut asked = question(&[FIRST, FIRST + DAY]);
    asked.of.operations = vec!["chatComplete".to_owned()];
    let found = totals(&*store, &asked).await;
    assert_eq!((found.is_partial, found.cells.len()), (false, 1));
    let found = totals(&*store, &SumQuery { time: Duration::ZERO, ..asked }).await;
    assert!(found.is_partial && found.cells.is_empty());
}

async fn totals(store: &dyn LogStore, query: &SumQuery) -> SumsFound {
    store.sums(query).await.unwrap()
}

async fn many_values_lose_their_names_and_no_sums(house: House) {
    let store = house.logs_by(team()).await;
    let user = |n: u128| LogRecord {
        created_at: Timestamp(FIRST + n as i64),
        metadata: json!({"_user": format!("user-{n}"), "team": "a"}).to_string().into(),
        cost: Some(NanoUsd(1)),
        ..record(n)
    };
    const KEPT: u64 = 10_000;
    for start in (0..12_000).step_by(3_000) {
        let batch: Vec<_> = (start..start + 3_000).map(user).collect();
        store.append(&batch).await.unwrap();
    }
    // A node that has just started keeps to the same bound.
    house.logs_by(team()).await.append(&[user(20_000)]).await.unwrap();
    let by_user = SumQuery { by: vec![Dimension::User], ..question(&[FIRST, FIRST + DAY]) };
    let found = totals(&*store, &by_user).await;
    assert!(found.is_cut && !found.is_partial);
    assert_eq!(found.cells.len() as u64, KEPT + 1);
    assert_eq!(found.cells.iter().map(|c| c.sums.cost).sum::<i64>(), 12_001);
    assert_eq!((found.cells[0].values[0].as_str(), found.cells[0].sums.calls), ("", 2_001));
    let all = totals(&*store, &question(&[FIRST, FIRST + DAY])).await;
    assert!(!all.is_cut && all.records_read == 0);
    assert_eq!(all.cells[0].sums.calls, 12_001);
    // Where days that are over have sums of their own, they say the same.
    store.make_up(Timestamp(FIRST + 10 * DAY)).await.unwrap();
    let again = totals(&*store, &by_user).await;
    assert!(again.is_cut && again.cells == found.cells);
    assert_eq!(totals(&*store, &question(&[FIRST, FIRST + DAY])).await.cells, all.cells);
    // One who lost the name is found all the same.
    let mut one = question(&[FIRST, FIRST + DAY]);
    one.of.metadata = vec![("_user".to_owned(), "user-11999".to_owned())];
    let found = totals(&*store, &one).await;
    assert_eq!((found.cells[0].sums.calls, found.records_read), (1, 1));
}

async fn what_rollups_do_not_know_is_read_from_records_within_bounds(house: House) {
    let store = house.logs_by(team()).await;
    let batch: Vec<_> = (1..=50).map(|n| LogRecord { created_at: Timestamp(FIRST + n as i64), ..record(n) }).collect();
    store.append(&batch).await.unwrap();
    let mut unnamed = question(&[FIRST, FIRST + DAY]);
    unnamed.of.operations = vec!["chatComplete".into()];
    let found = totals(&*store, &unnamed).await;
    assert_eq!((found.is_partial, found.records_read, found.cells[0].sums.calls), (false, 50, 50));
    let found = totals(&*store, &SumQuery { most_records: 20, ..unnamed.clone() }).await;
    assert_eq!((found.is_partial, found.records_read, found.cells[0].sums.calls), (true, 20, 20));
    // The newest are those that were read.
    assert_eq!(found.cells[0].sums.first_seen, FIRST + 31);
    let found = totals(&*store, &SumQuery { time: Duration::ZERO, ..unnamed }).await;
    assert!(found.is_partial);
}

async fn a_key_that_is_named_later_is_read_from_records_before(house: House) {
    let of = |n: u128, at: i64| LogRecord {
        created_at: Timestamp(FIRST + at),
        metadata: json!({"team": "a"}).to_string().into(),
        ..record(n)
    };
    house.logs_by(None).await.append(&[of(1, 0), of(2, HOUR)]).await.unwrap();
    let store = house.logs_by(team()).await;
    store.append(&[of(3, HOUR + 1), of(4, DAY)]).await.unwrap();
    let mut asked = question(&[FIRST, FIRST + DAY, FIRST + 2 * DAY]);
    asked.of.metadata = vec![("team".to_owned(), "a".to_owned())];
    let found = totals(&*store, &asked).await;
    let calls: Vec<i64> = found.cells.iter().map(|c| c.sums.calls).collect();
    assert!(calls == [3, 1] && !found.is_partial, "{found:?}");
    asked.edges.remove(0);
    assert_eq!(totals(&*store, &asked).await.records_read, 0);
}

async fn days_without_sums_are_made_up_for(house: House) {
    let store = house.logs_by(team()).await;
    let mut dice = Dice(77);
    let batch: Vec<_> = (1..=300).map(|n| random(n, &mut dice)).collect();
    store.append(&batch).await.unwrap();
    let mut records: BTreeMap<Uuid, LogRecord> = batch.into_iter().map(|r| (r.id, r)).collect();
    // The days are left as by an older version, without sums.
    for day in ["2024-10-04", "2024-10-05"] {
        if house.engine == Engine::Postgres {
            let sql = format!("DROP TABLE log_rollup_{}", day.replace('-', ""));
            sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut house.postgres().await).await.unwrap();
        } else {
            let url = format!("sqlite:{}", house.path(&format!("logs/{day}.db")).display());
            let mut file = <sqlx::SqliteConnection as sqlx::Connection>::connect(&url).await.unwrap();
            sqlx::raw_sql("DROP TABLE log_rollup; PRAGMA user_version = 0").execute(&mut file).await.unwrap();
        }
    }
    let store = house.logs_by(team()).await;
    agree(&*store, &records, "before").await;
    // Records that come to such a day, and costs, are found in it afterwards.
    let late: Vec<_> = (1_001..=1_050).map(|n| random(n, &mut dice)).collect();
    store.append(&late).await.unwrap();
    records.extend(late.into_iter().map(|r| (r.id, r)));
    let costs: Vec<Costed> =
        records.values().map(|r| Costed { id: r.id, created_at: r.created_at, cost: NanoUsd(3) }).collect();
    store.set_costs(&costs).await.unwrap();
    for record in records.values_mut() {
        record.cost.get_or_insert(NanoUsd(3));
    }
    agree(&*store, &records, "with late ones").await;
    let ended = Timestamp(FIRST + 5 * DAY);
    assert_eq!(store.make_up(ended).await.unwrap(), 2);
    assert_eq!(store.make_up(ended).await.unwrap(), 0);
    agree(&*store, &records, "made up for").await;
    store.append(&[random(2_000, &mut Dice(5))]).await.unwrap();
    let last = random(2_000, &mut Dice(5));
    records.insert(last.id, last);
    agree(&*store, &records, "and kept").await;
    let whole = question(&[FIRST, FIRST + 3 * DAY]);
    assert_eq!(totals(&*store, &whole).await.records_read, 0);
}

async fn what_comes_late_to_a_day_that_is_over_is_in_its_sums(house: House) {
    let stores = [house.logs_by(team()).await, house.logs_by(team()).await];
    let mut dice = Dice(4_711);
    let mut records: BTreeMap<Uuid, LogRecord> = BTreeMap::new();
    let over = Timestamp(FIRST + 5 * DAY);
    for round in 0..3 {
        let batch: Vec<_> = (0..80).map(|n| random(1_000 * (round + 1) + n, &mut dice)).collect();
        stores[0].append(&batch).await.unwrap();
        records.extend(batch.into_iter().map(|r| (r.id, r)));
        agree(&*stores[1], &records, "before they are made up").await;
        stores[1].make_up(over).await.unwrap();
        agree(&*stores[0], &records, "made up").await;
        let costs: Vec<Costed> = records
            .values()
            .filter(|_| dice.roll(5) == 0)
            .map(|r| Costed { id: r.id, created_at: r.created_at, cost: NanoUsd(7) })
            .collect();
        stores[1].set_costs(&costs).await.unwrap();
        for cost in costs {
            records.get_mut(&cost.id).unwrap().cost.get_or_insert(cost.cost);
        }
        agree(&*stores[0], &records, "priced late").await;
        stores[1].make_up(over).await.unwrap();
        agree(&*stores[0], &records, "and made up again").await;
    }
}

async fn sums_that_wait_are_few_and_are_added_whoever_asks(house: House) {
    const MOST: u64 = 64;
    let (store, mut dice) = (house.logs_by(team()).await, Dice(815));
    let mut records: BTreeMap<Uuid, LogRecord> = BTreeMap::new();
    let (mut most, mut begun) = (0, 0);
    let one_day = |n: u128, dice: &mut Dice| LogRecord { created_at: Timestamp(FIRST + n as i64), ..random(n, dice) };
    for n in 1..=150 {
        let record = one_day(n, &mut dice);
        store.append(std::slice::from_ref(&record)).await.unwrap();
        records.insert(record.id, record);
        most = most.max(store.sums_waiting());
        begun += u32::from(store.sums_waiting() == 0);
    }
    assert_eq!((most, begun), (MOST - 1, 2), "each sixty-fourth write adds all that waits");
    // One that is killed leaves what waits to whoever asks next.
    assert_eq!(store.sums_waiting(), 150 - 2 * MOST);
    drop(store);
    let stores = [house.logs_by(team()).await, house.logs_by(team()).await];
    agree(&*stores[0], &records, "after a start").await;
    // The other node's are added as well, of more combinations than one transaction adds.
    for at in 0..2 {
        let batch = (0..4_500).map(|n| {
            let user = json!({"_user": format!("user-{at}-{n}")}).to_string().into();
            LogRecord { metadata: user, ..one_day(10_000 * (at + 1) + n, &mut dice) }
        });
        let batch: Vec<_> = batch.collect();
        stores[at as usize].append(&batch).await.unwrap();
        records.extend(batch.into_iter().map(|r| (r.id, r)));
    }
    assert_eq!((stores[0].sums_waiting(), stores[1].sums_waiting()), (1, 1));
    let found = totals(&*stores[0], &question(&[FIRST, FIRST + DAY])).await;
    assert_eq!((found.cells[0].sums.records, found.records_read), (records.len() as i64, 0));
    assert_eq!(stores[0].sums_waiting(), 0);
}

async fn a_list_ends_when_its_time_is_up(house: House) {
    let store = house.logs_by(team()).await;
    let batch: Vec<_> = (1..=50).map(|n| LogRecord { created_at: Timestamp(FIRST + n as i64), ..record(n) }).collect();
    store.append(&batch).await.unwrap();
    let dear = LogQuery { min_cost: Some(NanoUsd(1)), page_size: 10, ..question(&[FIRST, FIRST + DAY]).of };
    let page = store.query(&LogQuery { time: Some(Duration::ZERO), ..dear.clone() }).await.unwrap();
    assert!(page.is_partial && page.rows.is_empty() && page.resume.is_none(), "{page:?}");
    let page = store.query(&LogQuery { time: Some(Duration::from_secs(60)), ..dear }).await.unwrap();
    assert!(!page.is_partial, "{page:?}");
}
