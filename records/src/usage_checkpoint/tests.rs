//! Counts of limits with a real journal, a real ledger and a real database in a file.

use super::*;
use gateway_domain::counters::{Change, CounterKey, Measured, Owner};
use gateway_domain::id::KeyId;
use gateway_domain::ports::{EntityQuery, Holder, RecordLedger as _, Standings, Which};
use gateway_store::journal::{self, Journal, Shipper};
use gateway_store::{DatabaseOptions, DatabaseUrl, open};
use sqlx::{Connection, Executor, SqliteConnection};
use tempfile::TempDir;
use uuid::Uuid;

const NOW: Timestamp = Timestamp(1_769_860_800_000_000);
const NODE: &str = "here";

fn clock() -> Timestamp {
    NOW
}

fn charge(counter: u64, used: u64) -> Charge {
    Charge {
        slot: Slot { key: CounterKey(counter, 1), began: Timestamp(0) },
        ends: NOW.plus_micros(3_600_000_000),
        measured: Measured::Cost,
        keep: Keep::Node,
        used,
        owner: None,
    }
}

fn holder() -> Holder {
    Holder::Key(KeyId(Uuid::from_u128(5)))
}

/// A charge to a budget, which all nodes spend together.
fn shared(counter: u64, used: u64) -> Charge {
    let owner = Owner { holder: holder(), value_key: "".into() };
    Charge { keep: Keep::Shared, owner: Some(Arc::new(owner)), ..charge(counter, used) }
}

fn record(charges: Vec<Charge>) -> LogRecord {
    LogRecord { charges, ..LogRecord::blank() }
}

struct House {
    dir: TempDir,
    database: Database,
}

/// What one process counts by.
struct Process {
    checkpoint: UsageCheckpoint,
    ledger: Arc<Ledger>,
    journal: Journal,
    _shipper: Shipper,
}

impl House {
    async fn new() -> Self {
        let dir = TempDir::new().expect("a folder");
        let options = DatabaseOptions { call_timeout: Duration::from_millis(500), ..DatabaseOptions::default() };
        let url = DatabaseUrl::sqlite_file(dir.path().join("gateway.db"));
        Self { database: open(&url, &options).await.expect("a database"), dir }
    }

    /// A process on this node that has not recovered yet.
    fn boot(&self, node: &str) -> Process {
        let dir = self.dir.path().join(node);
        let segments = journal::segments(&dir).unwrap_or_default();
        let (journal, shipper) = Journal::open(&dir, 64 << 20).expect("a journal");
        let ledger = Arc::new(Ledger::default());
        let counting = UsageCounting { ledger: ledger.clone(), counters: ledger.clone() };
        let place = NodePlace { node: node.to_owned(), left: LeftSegments { dir, segments } };
        let checkpoint = UsageCheckpoint::new(self.database.clone(), counting, place, clock);
        Process { checkpoint, ledger, journal, _shipper: shipper }
    }

    async fn start(&self, node: &str) -> Process {
        let process = self.boot(node);
        process.checkpoint.recover_soon().await;
        process
    }

    /// What the database holds of a counter.
    async fn kept(&self, node: &str, counter: u64) -> Option<i64> {
        let counts = self.database.counts(node, -1, NOW).await.expect("read");
        let mut of = counts.iter().filter(|count| count.slot == charge(counter, 0).slot);
        let found = of.next().map(|count| count.used);
        assert!(of.next().is_none(), "one row for a counter");
        found
    }

    /// Nobody else can write while it lives.
    async fn lock(&self) -> SqliteConnection {
        let path = self.dir.path().join("gateway.db");
        let mut other = SqliteConnection::connect(&format!("sqlite:{}", path.display())).await.expect("opened");
        other.execute("BEGIN IMMEDIATE").await.expect("the lock");
        other
    }
}

impl Process {
    /// Spends the way calls do: counted at once, and charged to a record that the journal keeps.
    fn spend(&mut self, charges: &[Charge]) {
        let changes: Vec<Change> = charges
            .iter()
            .map(|charge| Change {
                slot: charge.slot,
                ends: charge.ends,
                limit: u64::MAX,
                measured: charge.measured,
                keep: charge.keep,
                back: 0,
                more: 0,
                used: i64::try_from(charge.used).expect("small"),
                owes: false,
            })
            .collect();
        self.ledger.settle(&changes);
        let (batch, mut after) = ([record(charges.to_vec())], Vec::new());
        assert_eq!(self.journal.append(&batch, &mut after).kept, 1);
        self.checkpoint.settle(&batch, &after);
    }

    fn level(&self, counter: u64) -> Option<u64> {
        self.ledger.level(charge(counter, 0).slot).map(|(used, _)| used)
    }
}

#[tokio::test]
async fn each_charge_is_added_once() {
    let house = House::new().await;
    let mut process = house.start(NODE).await;
    process.spend(&[charge(1, 3), charge(2, 10)]);
    process.spend(&[charge(1, 4)]);
    for _ in 0..3 {
        process.checkpoint.flush().await.expect("written");
        assert_eq!((house.kept(NODE, 1).await, house.kept(NODE, 2).await), (Some(7), Some(10)));
    }
    process.spend(&[charge(1, 5)]);
    process.checkpoint.flush().await.expect("written");
    assert_eq!((house.kept(NODE, 1).await, process.level(1)), (Some(12), Some(12)));
}

#[tokio::test]
async fn what_a_killed_process_did_not_put_down_is_replayed() {
    let house = House::new().await;
    let mut killed = house.start(NODE).await;
    killed.spend(&[charge(1, 3)]);
    killed.spend(&[charge(1, 4)]);
    killed.checkpoint.flush().await.expect("written");
    killed.spend(&[charge(1, 5), charge(2, 1)]);
    drop(killed);
    assert_eq!((house.kept(NODE, 1).await, house.kept(NODE, 2).await), (Some(7), None));

    let next = house.start(NODE).await;
    assert_eq!((next.level(1), next.level(2)), (Some(12), Some(1)), "before anything is put down");
    next.checkpoint.flush().await.expect("written");
    assert_eq!((house.kept(NODE, 1).await, house.kept(NODE, 2).await), (Some(12), Some(1)));
    drop(next);

    let third = house.start(NODE).await;
    third.checkpoint.flush().await.expect("written");
    assert_eq!((house.kept(NODE, 1).await, third.level(1), third.level(2)), (Some(12), Some(12), Some(1)));
}

#[tokio::test]
async fn what_cannot_be_put_down_waits_and_is_added_once() {
    let house = House::new().await;
    let mut process = house.start(NODE).await;
    process.spend(&[charge(1, 3)]);
    process.checkpoint.flush().await.expect("written");
    let safe = process.checkpoint.needs();
    let mut lock = house.lock().await;
    process.spend(&[charge(1, 4)]);
    for _ in 0..2 {
        let away = process.checkpoint.flush().await;
        assert!(matches!(away, Err(StoreError::Unavailable(_))), "{away:?}");
        assert_eq!(process.checkpoint.needs(), safe, "a replay would have to start before it");
    }
    process.spend(&[charge(1, 5)]);
    lock.execute("ROLLBACK").await.expect("the lock goes");
    process.checkpoint.flush().await.expect("written");
    assert_eq!((house.kept(NODE, 1).await, process.level(1)), (Some(12), Some(12)));
    assert!(process.checkpoint.needs() > safe);
}

#[tokio::test]
async fn the_journal_keeps_what_is_not_put_down_yet() {
    let house = House::new().await;
    let mut process = house.boot(NODE);
    assert_eq!(process.checkpoint.needs(), Some(Position::default()), "nothing is known before it recovered");
    process.checkpoint.recover_soon().await;
    process.spend(&[]);
    let first = process.checkpoint.needs();
    assert!(first > Some(Position::default()), "records without a charge need no replay");
    process.spend(&[charge(1, 1)]);
    assert!(process.checkpoint.needs() < first, "behind what is in the database, which is nothing");
    process.checkpoint.flush().await.expect("written");
    assert!(process.checkpoint.needs() > first);
}

#[tokio::test]
async fn nodes_hear_of_each_others_budgets() {
    let house = House::new().await;
    let (mut here, mut there) = (house.start(NODE).await, house.start("there").await);
    here.spend(&[shared(1, 5), charge(2, 1)]);
    there.spend(&[shared(1, 7)]);
    here.checkpoint.flush().await.expect("written");
    there.checkpoint.flush().await.expect("written");
    assert_eq!((there.level(1), there.level(2)), (Some(12), None), "what a node keeps for itself is its own");
    here.checkpoint.flush().await.expect("heard");
    assert_eq!((here.level(1), house.kept(NODE, 1).await), (Some(12), Some(12)));
}

#[tokio::test]
async fn a_budget_that_is_set_back_begins_at_nothing() {
    let house = House::new().await;
    let mut process = house.start(NODE).await;
    let query = EntityQuery { holder: holder(), limit: 9, exhausted: None, search: None, page: 0, page_size: 10 };
    let nobody = Holder::Key(KeyId(Uuid::from_u128(6)));
    process.spend(&[shared(1, 9)]);
    let used = process.checkpoint.entities(&query).await.expect("read").rows;
    let used: Vec<_> = used.iter().map(|entity| (entity.used, entity.exhausted, entity.last_reset_at)).collect();
    assert_eq!(used, [(9, true, None)], "counted a moment ago, and there already");
    assert!(!process.checkpoint.reset(nobody, Which::All).await.expect("read"));
    assert!(process.checkpoint.reset(holder(), Which::All).await.expect("written"));
    assert_eq!((process.level(1), house.kept(NODE, 1).await), (Some(0), Some(0)));
    process.spend(&[shared(1, 2)]);
    let used = process.checkpoint.entities(&query).await.expect("read").rows;
    let used: Vec<_> = used.iter().map(|entity| (entity.used, entity.exhausted, entity.last_reset_at)).collect();
    assert_eq!(used, [(2, false, Some(NOW))]);
}

/// Remembers what it was told of.
#[derive(Default)]
struct RecordedCounts(Mutex<Vec<(Slot, i64)>>);

impl CountWatch for RecordedCounts {
    fn look<'a>(&'a self, _: &'a Database, changed: &'a [Count]) -> Fut<'a, Result<(), StoreError>> {
        self.0.lock().extend(changed.iter().map(|count| (count.slot, count.used)));
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn once_started_it_puts_down_by_itself_and_tells_what_changed() {
    let house = House::new().await;
    let Process { checkpoint, mut journal, .. } = house.boot(NODE);
    let (checkpoint, heard) = (Arc::new(checkpoint), Arc::<RecordedCounts>::default());
    let (batch, mut after) = ([record(vec![shared(1, 6)])], Vec::new());
    journal.append(&batch, &mut after);
    checkpoint.settle(&batch, &after);
    checkpoint.start(&Handle::current(), heard.clone());
    let end = Instant::now() + Duration::from_secs(30);
    while house.kept(NODE, 1).await != Some(6) || heard.0.lock().is_empty() {
        assert!(Instant::now() < end, "not in time");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(*heard.0.lock(), [(shared(1, 0).slot, 6)]);
}
