//! The disk or the store is away, or refuses what it gets: records wait, or are counted as lost.

use super::*;
use sqlx::{Connection, Executor, SqliteConnection};

#[test]
fn records_wait_in_the_journal_while_the_store_is_away() {
    let house = House::new();
    house.block_store();
    let process = house.start();
    process.send(1..=5);
    eventually("the store is told to be away", || process.trouble.away.get().is_some());
    process.send(6..=8);
    eventually("all lie in the journal", || process.metrics.journal().waiting == 8);
    assert_eq!((process.metrics.stored(), process.dropped_at_all()), (0, 0));
    house.unblock_store();
    eventually("all are stored", || process.metrics.stored() == 8);
    assert_eq!(process.trouble.away.get(), None);
    eventually("the journal is empty", || process.metrics.journal().waiting == 0);
    assert_eq!(house.stored_ids(), ids(1..=8));
    let mut came = process.store.came.lock().clone();
    came.dedup();
    assert_eq!(came[came.len() - 3..], ids(6..=8), "the later ones come after the earlier ones");
}

#[test]
fn what_a_process_leaves_the_next_one_stores() {
    let house = House::new();
    house.block_store();
    let mut first = house.start();
    first.send(1..=3);
    first.writer.stop(Duration::from_millis(300));
    assert_eq!((first.metrics.stored(), first.dropped_at_all()), (0, 0));
    drop(first);
    house.unblock_store();
    let second = house.start();
    second.send([4]);
    eventually("all are stored", || second.metrics.stored() == 4);
    assert_eq!(house.stored_ids(), ids(1..=4));
    assert_eq!(*second.store.came.lock(), ids(1..=4), "the older ones first");
}

#[test]
fn the_end_does_not_wait_longer_than_it_may() {
    let house = House::new();
    house.block_store();
    let mut process = house.start();
    process.send(1..=3);
    eventually("the store is told to be away", || process.trouble.away.get().is_some());
    let began = Instant::now();
    process.writer.stop(Duration::from_millis(100));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn an_id_that_comes_twice_is_stored_once() {
    let house = House::new();
    let process = house.start();
    process.send([1, 2, 1]);
    eventually("all were shipped", || process.metrics.stored() == 3);
    process.send([2]);
    eventually("it was shipped, too", || process.metrics.stored() == 4);
    assert_eq!(house.stored_ids(), ids([1, 2]));
}

#[test]
fn what_a_killed_process_stored_and_did_not_confirm_is_stored_once() {
    let house = House::new();
    {
        let (mut journal, mut shipper) = Journal::open(&house.journal(), 64 << 20).expect("a journal");
        let kept = journal.append(&[record(1), record(2)], &mut Vec::new());
        assert_eq!(kept.kept, 2);
        let shipment = shipper.take(10).expect("read").expect("two records");
        house.runtime.block_on(house.files().append(&shipment.records)).expect("stored");
    }
    assert_eq!(house.stored_ids(), ids([1, 2]));
    let next = house.start();
    eventually("they came again", || *next.store.came.lock() == ids([1, 2]));
    eventually("they are confirmed", || next.metrics.journal().waiting == 0);
    assert_eq!(house.stored_ids(), ids([1, 2]));
}

/// Makes the store refuse the records of one model for good, from here on.
fn refuse_poison(house: &House) {
    run(
        house,
        "CREATE TRIGGER refuse BEFORE INSERT ON log_entry WHEN NEW.model = 'poison' \
         BEGIN SELECT RAISE(ABORT, 'not this one'); END",
    );
}

fn run(house: &House, sql: &'static str) {
    house.runtime.block_on(async {
        let mut day = SqliteConnection::connect(&format!("sqlite:{}", house.day().display())).await.expect("opened");
        day.execute(sql).await.expect("done");
        day.close().await.expect("closed");
    });
}

fn poison(n: u128) -> LogRecord {
    LogRecord { model: "poison".into(), ..record(n) }
}

#[test]
fn a_record_that_is_refused_holds_up_no_other() {
    let house = House::new();
    let process = house.start();
    process.send([1]);
    eventually("there is a file", || process.metrics.stored() == 1);
    refuse_poison(&house);
    let batch = vec![record(2), record(3), poison(4), record(5), record(6), record(7)];
    house.runtime.block_on(process.awaited.keep(batch));
    eventually("the others are stored", || process.metrics.stored() == 6);
    assert_eq!((process.dropped("store"), process.dropped_at_all()), (1, 1));
    assert_eq!(house.stored_ids(), ids([1, 2, 3, 5, 6, 7]));
    eventually("none waits", || process.metrics.journal().waiting == 0);
    assert_eq!(process.trouble.away.get(), None, "the store is well");
}

#[test]
fn a_store_that_refuses_all_is_broken_and_the_records_are_kept() {
    let house = House::new();
    let process = house.start();
    process.send([1]);
    eventually("there is a file", || process.metrics.stored() == 1);
    refuse_poison(&house);
    house.runtime.block_on(process.awaited.keep(vec![poison(2), poison(3)]));
    eventually("it is told", || process.trouble.away.get().is_some_and(|why| why.contains("refuses every record")));
    assert_eq!((process.dropped_at_all(), process.metrics.journal().waiting), (0, 2));
    run(&house, "DROP TRIGGER refuse");
    eventually("they are stored", || process.metrics.stored() == 3);
    assert_eq!((house.stored_ids(), process.trouble.away.get()), (ids([1, 2, 3]), None));
}

#[test]
fn a_disk_that_takes_no_records_loses_them_and_says_so() {
    let house = House::new();
    let process = house.start();
    std::fs::remove_dir_all(house.journal()).expect("the folder goes");
    process.send(1..=3);
    eventually("they are counted", || process.dropped("disk") == 3);
    assert!(process.trouble.shedding.get().is_some_and(|why| why.contains("records are dropped")));
    assert_eq!(process.listener.heard(), ids(1..=3), "what they used is counted all the same");
    std::fs::create_dir_all(house.journal()).expect("a folder");
    process.send([4]);
    eventually("it is stored", || process.metrics.stored() == 1);
    assert_eq!((process.trouble.shedding.get(), process.dropped_at_all()), (None, 3));
    assert_eq!(house.stored_ids(), ids([4]));
}
