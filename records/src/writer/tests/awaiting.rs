//! Records whose sender waits until they lie in the journal.

use super::super::AwaitedRecords;
use super::*;
use gateway_store::journal::replay;

fn in_journal(house: &House) -> Vec<Uuid> {
    let all = replay(&house.journal(), Position::default()).expect("a journal");
    all.map(|read| read.expect("whole").1.id).collect()
}

#[test]
fn who_waits_goes_on_when_they_lie_in_the_journal() {
    let house = House::new();
    house.block_store();
    let process = house.start();
    house.runtime.block_on(process.awaited.keep(vec![record(1), record(2)]));
    assert_eq!(in_journal(&house), ids([1, 2]));
    house.runtime.block_on(process.awaited.take(vec![record(3)])).expect("there is room");
    assert_eq!(in_journal(&house), ids([1, 2, 3]));
}

#[test]
fn records_of_clients_are_no_work_of_the_gateways() {
    let house = House::new();
    let process = house.start();
    house.runtime.block_on(process.awaited.take(vec![record(1)])).expect("there is room");
    assert!(process.metric("request_count") < 0.1, "a call that went elsewhere");
    house.runtime.block_on(process.awaited.keep(vec![record(2)]));
    assert!((process.metric("request_count") - 1.0).abs() < 0.1, "a call of the gateway's");
    process.stop();
    let costs: Vec<_> = house.stored().iter().map(|record| record.cost.is_some()).collect();
    assert_eq!(costs, [true, true], "both have a price");
}

#[test]
fn clients_are_told_when_the_disk_takes_none() {
    let house = House::new();
    let process = house.start();
    std::fs::remove_dir_all(house.journal()).expect("the folder goes");
    let refused = house.runtime.block_on(process.awaited.take(vec![record(1)]));
    assert!(matches!(refused, Err(StoreError::Unavailable(why)) if why.contains("journal")));
    assert_eq!(process.dropped_at_all(), 0, "who sent it knows, and comes again");
    house.runtime.block_on(process.awaited.keep(vec![record(2)]));
    assert_eq!(process.dropped("disk"), 1, "nobody comes again with this one");
}

#[test]
fn clients_that_find_no_room_are_told_at_once() {
    let house = House::new();
    let (awaited, nobody_reads) = AwaitedRecords::new();
    house.runtime.block_on(async {
        for n in 0..16 {
            let waits = tokio::time::timeout(Duration::from_millis(1), awaited.take(vec![record(n)])).await;
            assert!(waits.is_err(), "the writer has not seen it yet");
        }
        let refused = tokio::time::timeout(SOON, awaited.take(vec![record(17)])).await.expect("at once");
        assert!(matches!(refused, Err(StoreError::Unavailable(why)) if why.contains("too many")));
        drop(nobody_reads);
        assert!(awaited.take(vec![record(18)]).await.is_err());
        awaited.keep(vec![record(19)]).await;
    });
}
