//! Records go from the queue of the hot path to the journal: in batches, in order, and never with a wait.

use super::*;
use gateway_domain::record::Hooked;
use gateway_store::journal::replay;
use tokio::sync::mpsc::channel;

#[test]
fn what_was_sent_is_stored_once() {
    let house = House::new();
    let process = house.start();
    process.send(1..=20);
    eventually("all are stored", || process.metrics.stored() == 20);
    assert_eq!(house.stored_ids(), ids(1..=20));
    let kept = &house.stored()[6];
    assert_eq!((&*kept.trace_id, &*kept.model, kept.status), ("trace-7", "gpt-4o", 200));
    assert_eq!(kept.usage().map(|usage| (usage.input, usage.output)), Some((10, 5)));
    assert_eq!(process.dropped_at_all(), 0);
    process.stop();
    assert_eq!(house.stored_ids(), ids(1..=20));
}

#[test]
fn a_lone_record_does_not_wait_for_others() {
    let house = House::new();
    let process = house.start();
    process.send([1]);
    eventually("it was written down", || process.listener.sizes() == [1]);
    eventually("it was stored", || process.metrics.stored() == 1);
}

#[test]
fn what_waits_is_written_in_batches_of_a_bounded_size() {
    let house = House::new();
    let process = house.start();
    let held = process.listener.gate.lock();
    process.send([1]);
    eventually("the writer is held up", || process.listener.at_gate.load(Ordering::SeqCst) == 1);
    process.send(2..=2_501);
    assert!((process.metric("gateway_records_queue_depth") - 2_500.0).abs() < 0.1, "what waits is told");
    assert!(process.listener.sizes().is_empty(), "nobody was waited for");
    drop(held);
    eventually("all were written down", || process.listener.heard().len() == 2_501);
    assert_eq!(process.listener.sizes(), [1, 1_024, 1_024, 452]);
    assert!(process.metric("gateway_records_queue_depth") < 0.1);
}

#[test]
fn it_rests_only_when_nothing_waits() {
    let house = House::new();
    let process = house.start();
    eventually("it rests", || process.listener.rests.load(Ordering::SeqCst) > 0);
    let held = process.listener.gate.lock();
    process.send([1]);
    eventually("the writer is held up", || process.listener.at_gate.load(Ordering::SeqCst) == 1);
    process.send(2..=2_000);
    let before = process.listener.rests.load(Ordering::SeqCst);
    drop(held);
    eventually("it rests again", || process.listener.rests.load(Ordering::SeqCst) > before);
    assert_eq!(process.listener.heard().len(), 2_000, "all was settled before");
}

#[test]
fn each_sender_keeps_its_order() {
    let house = House::new();
    let process = house.start();
    let senders: Vec<_> = (0..4_u128)
        .map(|sender| {
            let records = process.records.clone();
            std::thread::spawn(move || {
                (1..=500).for_each(|n| records.send(Box::new(record(sender * 1_000 + n)), None));
            })
        })
        .collect();
    senders.into_iter().for_each(|sender| sender.join().expect("sends"));
    eventually("all are stored", || process.metrics.stored() == 2_000);
    for came in [process.listener.heard(), process.store.came.lock().clone()] {
        for sender in 0..4_u128 {
            let of_sender = |id: &&Uuid| id.as_u128() / 1_000 == sender;
            let its: Vec<Uuid> = came.iter().filter(of_sender).copied().collect();
            assert_eq!(its, ids(sender * 1_000 + 1..=sender * 1_000 + 500));
        }
    }
}

#[test]
fn a_full_queue_drops_and_counts_and_waits_for_nobody() {
    let metrics = Metrics::new(MetricsOptions::default()).expect("metrics");
    let (queue, mut nobody_reads) = channel(2);
    let records = Records { queue, metrics: metrics.clone(), off: false };
    (1..=5).for_each(|n| records.send(Box::new(record(n)), None));
    assert_eq!(metrics.dropped()["queue"], 3);
    let waiting = std::iter::from_fn(|| nobody_reads.try_recv().ok()).map(|queued| queued.record.id);
    assert_eq!(waiting.collect::<Vec<_>>(), ids([1, 2]), "those that were there first stay");
    records.send(Box::new(record(6)), None);
    assert_eq!(metrics.dropped()["queue"], 3, "there is room again");
    drop(nobody_reads);
    records.send(Box::new(record(7)), None);
    assert_eq!(metrics.dropped()["queue"], 4, "the writer is gone");
}

#[test]
fn switched_off_nothing_is_kept_and_nothing_lost() {
    let house = House::new();
    let process = house.start_with(|path| path.off = true);
    process.send(1..=3);
    let metrics = process.stop();
    assert_eq!((metrics.stored(), metrics.dropped().values().sum::<u64>()), (0, 0));
    assert!(house.stored().is_empty());
}

#[test]
fn the_end_empties_the_queue_into_the_store() {
    let house = House::new();
    let process = house.start();
    let held = process.listener.gate.lock();
    process.send(1..=3_000);
    drop(held);
    let metrics = process.stop();
    assert_eq!((metrics.stored(), metrics.journal().waiting), (3_000, 0));
    assert_eq!(house.stored_ids(), ids(1..=3_000));
}

#[derive(Debug)]
struct Words(Option<&'static str>);

impl HookWords for Words {
    fn into_told(self: Box<Self>) -> Option<Box<Hooked>> {
        self.0.map(|json| Box::new(Hooked { json: json.to_owned(), ..Hooked::default() }))
    }
}

#[test]
fn what_guardrails_said_is_put_into_words_on_the_way() {
    let house = House::new();
    let process = house.start();
    process.records.send(Box::new(record(1)), Some(Box::new(Words(Some(r#"{"before_request_hooks":[]}"#)))));
    process.records.send(Box::new(record(2)), Some(Box::new(Words(None))));
    eventually("both are written down", || process.listener.heard().len() == 2);
    process.stop();
    let told = |n| house.runtime.block_on(house.files().get(Uuid::from_u128(n), None)).expect("read").expect("there");
    assert_eq!(told(1).hooks.map(|hooks| hooks.json).as_deref(), Some(r#"{"before_request_hooks":[]}"#));
    assert_eq!(told(2).hooks, None);
}

#[test]
fn segments_that_the_ledger_may_ask_for_stay() {
    /// Has put nothing down yet.
    struct Behind;
    impl RecordLedger for Behind {
        fn settle(&self, _: &[LogRecord], _: &[Position]) {}
        fn needs(&self) -> Option<Position> {
            Some(Position::default())
        }
    }
    let house = House::new();
    let process = house.start_with(|path| path.ledger = Some(Arc::new(Behind)));
    process.send(1..=10);
    let metrics = process.stop();
    assert_eq!((metrics.stored(), metrics.journal().waiting), (10, 0));
    let again = replay(&house.journal(), Position::default()).expect("a journal");
    let again: Vec<Uuid> = again.map(|read| read.expect("whole").1.id).collect();
    assert_eq!(again, ids(1..=10), "what was stored can be replayed all the same");
}

#[test]
fn rounds_are_closer_the_faster_records_come() {
    let ms = Duration::from_millis;
    for (found, took, expected) in [
        (0, ms(50), PAUSE),
        (1, ms(50), PAUSE),
        (128, ms(50), PAUSE),
        (512, ms(50), Duration::from_micros(12_500)),
        (128, ms(8), ms(8)),
        (1024, ms(8), SHORTEST_PAUSE),
        (usize::MAX, ms(8), SHORTEST_PAUSE),
        (1, Duration::ZERO, SHORTEST_PAUSE),
    ] {
        assert_eq!(pause(found, took), expected, "{found} in {took:?}");
    }
}
