//! The journal: what was appended is shipped once and in order, whatever ends the process; it has a bound and says
//! what it lost; and it can be read again from any place.

use crate::logs::{full, mixed, record};
use gateway_domain::record::{LogRecord, Position};
use gateway_store::journal::{Journal, Shipper, replay};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const ROOM: u64 = 64 << 20;

fn open(dir: &TempDir) -> (Journal, Shipper) {
    open_of(dir, ROOM)
}

fn open_of(dir: &TempDir, max: u64) -> (Journal, Shipper) {
    let (journal, shipper) = Journal::open(&dir.path().join("journal"), max).unwrap();
    journal.hold(None);
    (journal, shipper)
}

fn put(journal: &mut Journal, numbers: std::ops::Range<u128>) -> Vec<Position> {
    let records: Vec<LogRecord> = numbers.map(mixed).collect();
    let mut after = Vec::new();
    let appended = journal.append(&records, &mut after);
    assert!(appended.refused.is_none(), "{appended:?}");
    assert_eq!((appended.kept, after.len()), (records.len(), records.len()));
    after
}

/// Everything that is left, confirmed as it comes.
fn ship(shipper: &mut Shipper) -> Vec<u128> {
    let mut seen = Vec::new();
    while let Some(shipment) = shipper.take(100).unwrap() {
        seen.extend(shipment.records.iter().map(|r| r.id.as_u128()));
        shipper.confirm(&shipment);
    }
    seen
}

fn files(dir: &TempDir) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(dir.path().join("journal")).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    all
}

fn again(dir: &TempDir, from: Position) -> Vec<u128> {
    replay(&dir.path().join("journal"), from).unwrap().map(|r| r.unwrap().1.id.as_u128()).collect()
}

fn range(numbers: std::ops::Range<u128>) -> Vec<u128> {
    numbers.collect()
}

#[test]
fn records_come_out_as_they_went_in() {
    let dir = TempDir::new().unwrap();
    let (mut journal, mut shipper) = open(&dir);
    let mut odd = full(3);
    odd.created_at = gateway_domain::Timestamp(-1);
    odd.request_bytes = i64::MAX as u64;
    odd.metadata = "\0é".into();
    let sent = [record(1), full(2), odd];
    let mut after = Vec::new();
    journal.append(&sent, &mut after);
    assert!(after.is_sorted() && after[0] < after[1]);
    assert_eq!(shipper.take(2).unwrap().unwrap().records, sent[..2]);
    assert_eq!(shipper.take(2).unwrap().unwrap().records, sent[2..]);
    assert!(shipper.take(2).unwrap().is_none());
}

#[test]
fn what_was_not_confirmed_is_shipped_by_the_next_process() {
    let dir = TempDir::new().unwrap();
    let (mut journal, mut shipper) = open(&dir);
    put(&mut journal, 0..250);
    let first = shipper.take(100).unwrap().unwrap();
    shipper.confirm(&first);
    shipper.take(100).unwrap().unwrap();
    let depth = journal.gauge().depth();
    assert_eq!((depth.waiting, depth.oldest), (150, Some(mixed(100).created_at)));
    drop((journal, shipper));

    let (mut journal, mut shipper) = open(&dir);
    assert_eq!(journal.gauge().depth().waiting, 150);
    put(&mut journal, 250..300);
    assert_eq!(ship(&mut shipper), range(100..300));
    drop((journal, shipper));

    let (journal, mut shipper) = open(&dir);
    assert_eq!(ship(&mut shipper), range(0..0));
    assert_eq!((files(&dir).len(), journal.lost()), (0, 0), "nothing stays for nobody");
}

#[test]
fn full_segments_follow_one_another() {
    let dir = TempDir::new().unwrap();
    let (mut journal, mut shipper) = open_of(&dir, 0);
    for n in 0..8 {
        put(&mut journal, n * 100..(n + 1) * 100);
        assert_eq!(ship(&mut shipper), range(n * 100..(n + 1) * 100));
    }
    assert_eq!((files(&dir).len(), journal.lost()), (1, 0), "only the one that is written to is left");
    assert!(journal.gauge().depth().bytes < 128 << 10);
}

#[test]
fn a_torn_end_is_cut() {
    for cut in [1, 7, 8, 9, 40] {
        let dir = TempDir::new().unwrap();
        let (mut journal, shipper) = open(&dir);
        let after = put(&mut journal, 0..3);
        drop((journal, shipper));
        let file = OpenOptions::new().write(true).open(&files(&dir)[0]).unwrap();
        file.set_len(after[1].offset + cut).unwrap();
        assert_eq!(again(&dir, Position::default()), [0, 1]);
        let (mut journal, mut shipper) = open(&dir);
        assert_eq!(std::fs::metadata(&files(&dir)[0]).unwrap().len(), after[1].offset);
        put(&mut journal, 3..5);
        assert_eq!(ship(&mut shipper), [0, 1, 3, 4], "cut at {cut}");
    }
}

#[test]
fn garbage_behind_the_last_record_is_no_record() {
    let dir = TempDir::new().unwrap();
    let (mut journal, shipper) = open(&dir);
    put(&mut journal, 0..3);
    drop((journal, shipper));
    let mut file = OpenOptions::new().append(true).open(&files(&dir)[0]).unwrap();
    file.write_all(&[0; 4096]).unwrap();
    let (_journal, mut shipper) = open(&dir);
    assert_eq!(ship(&mut shipper), [0, 1, 2]);
}

#[test]
fn a_damaged_record_costs_the_rest_of_its_segment_only() {
    let dir = TempDir::new().unwrap();
    let (mut journal, mut shipper) = open_of(&dir, 0);
    let after = put(&mut journal, 0..300);
    put(&mut journal, 300..400);
    assert_eq!(files(&dir).len(), 2, "two segments");
    let file = OpenOptions::new().write(true).open(&files(&dir)[0]).unwrap();
    file.write_all_at(b"!", after[9].offset + 12).unwrap();
    let seen = ship(&mut shipper);
    assert_eq!(seen, [range(0..10), range(300..400)].concat());
    assert_eq!(journal.lost(), 290);
    assert_eq!(files(&dir).len(), 1, "it does not stay for ever");
}

#[test]
fn a_damaged_mark_ships_again_rather_than_lose() {
    let dir = TempDir::new().unwrap();
    let (mut journal, mut shipper) = open(&dir);
    put(&mut journal, 0..3);
    let first = shipper.take(2).unwrap().unwrap();
    shipper.confirm(&first);
    drop((journal, shipper));
    OpenOptions::new().write(true).open(&files(&dir)[0]).unwrap().write_all_at(&[9], 16).unwrap();
    let (_journal, mut shipper) = open(&dir);
    assert_eq!(ship(&mut shipper), [0, 1, 2]);
}

/// Stored and lost together are what was appended, however the bound is met.
#[test]
fn beyond_the_bound_the_oldest_go_and_are_counted() {
    let dir = TempDir::new().unwrap();
    let (mut journal, mut shipper) = open_of(&dir, 256 << 10);
    put(&mut journal, 0..100);
    // A shipper that cannot deliver has these in its hands, so they are not lost with their segment.
    let held = shipper.take(30).unwrap().unwrap();
    for n in 1..50 {
        put(&mut journal, n * 100..(n + 1) * 100);
        assert!(journal.gauge().depth().bytes <= 256 << 10);
    }
    assert!(!shipper.keeps(&held));
    shipper.confirm(&held);
    let seen = ship(&mut shipper);
    assert_eq!(held.records.len() as u64 + seen.len() as u64 + journal.lost(), 5_000);
    assert_eq!(seen, range(5_000 - seen.len() as u128..5_000), "the newest stayed, in order");
    assert!(seen.len() > 300, "{} are left", seen.len());
    assert_eq!(journal.lost(), 0, "told once");
}

#[test]
fn replay_goes_on_from_any_place() {
    let dir = TempDir::new().unwrap();
    let (mut journal, mut shipper) = open_of(&dir, 2 << 20);
    journal.hold(Some(Position::default()));
    let after: Vec<Position> = (0..10).flat_map(|n| put(&mut journal, n * 200..(n + 1) * 200)).collect();
    assert!(files(&dir).len() > 2, "several segments");
    ship(&mut shipper);
    assert_eq!(again(&dir, Position::default()), range(0..2_000));
    for n in [0, 199, 200, 321, 1_999] {
        assert_eq!(again(&dir, after[n]), range(n as u128 + 1..2_000));
    }
    journal.hold(Some(after[1_500]));
    assert_eq!(again(&dir, after[1_500]), range(1_501..2_000), "what is needed stays though it was shipped");
    assert!(again(&dir, Position::default()).len() < 2_000, "what is not needed goes");
    drop((journal, shipper));
    let (mut journal, _shipper) = Journal::open(&dir.path().join("journal"), ROOM).unwrap();
    put(&mut journal, 2_000..2_001);
    assert_eq!(again(&dir, after[1_500]), range(1_501..2_001), "over a restart, before anybody said what is needed");
    journal.hold(None);
    assert_eq!(files(&dir).len(), 1);
    assert!(replay(Path::new("/nowhere/at/all"), Position::default()).unwrap().next().is_none());
}

/// While a process hands over to its successor, both have the folder open.
#[test]
fn two_processes_do_not_touch_each_others_segments() {
    let dir = TempDir::new().unwrap();
    let (mut old, mut old_shipper) = open(&dir);
    put(&mut old, 0..10);
    let (mut new, mut new_shipper) = open(&dir);
    put(&mut new, 20..30);
    put(&mut old, 10..20);
    assert_eq!(ship(&mut new_shipper), range(20..30));
    let part = old_shipper.take(5).unwrap().unwrap();
    old_shipper.confirm(&part);
    new_shipper.adopt().unwrap();
    assert_eq!(ship(&mut new_shipper), range(0..0));
    drop((old, old_shipper));
    new_shipper.adopt().unwrap();
    assert_eq!(ship(&mut new_shipper), range(5..20), "what the old one left");
    assert_eq!(new.lost(), 0);
}
