//! Work under leases: due, taken once, gone on with by others, tried again, cancelled, bounded and forgotten.

use crate::{Engine, House, id, on_every_engine};
use gateway_domain::ports::{
    Enqueued, Hastened, JobBounds, JobEnd, JobStanding, JobState, Jobs, LeasedJob, MOST_JOB_BYTES, NewJob, PartBound,
    StoreError,
};
use gateway_domain::{OrgId, Timestamp};
use gateway_store::Database;
use std::collections::BTreeSet;
use std::time::Duration;

on_every_engine!(
    a_job_runs_once_and_tells_its_end,
    asking_twice_is_asking_once,
    what_is_not_due_waits,
    one_that_is_begun_is_its_makers_until_it_falls_silent,
    a_lost_lease_is_taken_over_where_it_was,
    what_is_given_back_costs_no_try,
    tries_end,
    a_job_that_loses_its_nodes_ends,
    one_that_waits_is_made_due_sooner_and_never_later,
    cancelled_while_waiting_and_while_running,
    an_organisation_has_so_many,
    a_part_and_all_together_have_so_many,
    many_takers_share_without_repeats,
    what_ended_is_forgotten,
    what_is_too_long_is_refused,
);

const ORG: u128 = 1_000;
const LONG: Duration = Duration::from_secs(3_600);
/// A lease that has run out when it is given: its node is as good as dead.
const DEAD: Duration = Duration::ZERO;

fn new_job(n: u128) -> NewJob {
    NewJob {
        id: id(n),
        kind: "batch",
        org: OrgId(id(ORG)),
        payload: format!("of {n}"),
        progress: String::new(),
        wait: Duration::ZERO,
        most_tries: 3,
        most_open: 1_000,
        bounds: JobBounds::default(),
    }
}

async fn take(database: &Database, lease: Duration) -> Option<LeasedJob> {
    database.take(&["batch", "export"], lease).await.unwrap()
}

async fn taken(database: &Database, lease: Duration) -> LeasedJob {
    take(database, lease).await.unwrap()
}

async fn state(database: &Database, n: u128) -> (JobState, String) {
    let job = database.job(OrgId(id(ORG)), id(n)).await.unwrap().unwrap();
    assert_eq!(job.state.has_ended(), job.ended_at.is_some(), "{job:?}");
    (job.state, job.note)
}

async fn a_job_runs_once_and_tells_its_end(house: House) {
    let database = house.open().await;
    assert_eq!(take(&database, LONG).await, None);
    assert_eq!(database.enqueue(&new_job(1)).await.unwrap(), Enqueued::New);
    assert_eq!(database.take(&["other"], LONG).await.unwrap(), None, "somebody else's kind");
    assert_eq!(database.take(&[], LONG).await.unwrap(), None);
    let LeasedJob { lease, job } = taken(&database, LONG).await;
    assert_eq!((job.payload.as_str(), job.progress.as_str(), job.tries, job.state), ("of 1", "", 1, JobState::Running));
    assert_eq!(take(&database, LONG).await, None, "it runs");
    let end = JobEnd::Done("12 lines".into());
    assert!(database.end(lease, &end).await.unwrap());
    assert!(!database.end(lease, &end).await.unwrap(), "once");
    assert_eq!(state(&database, 1).await, (JobState::Done, "12 lines".into()));
    assert_eq!(database.job(OrgId(id(7)), id(1)).await.unwrap(), None, "nobody else's");
    assert_eq!(database.beat(lease, None, LONG).await.unwrap(), JobStanding::Lost);
}

async fn asking_twice_is_asking_once(house: House) {
    let database = house.open().await;
    assert_eq!(database.enqueue(&new_job(1)).await.unwrap(), Enqueued::New);
    assert_eq!(database.enqueue(&new_job(1)).await.unwrap(), Enqueued::Known);
    let first = taken(&database, LONG).await;
    assert_eq!(database.enqueue(&new_job(1)).await.unwrap(), Enqueued::Known);
    database.end(first.lease, &JobEnd::Done(String::new())).await.unwrap();
    assert_eq!(database.enqueue(&new_job(1)).await.unwrap(), Enqueued::Known, "also when it has ended");
    assert_eq!(take(&database, LONG).await, None);
}

async fn one_that_is_begun_is_its_makers_until_it_falls_silent(house: House) {
    let database = house.open().await;
    let first = database.begin_job(&new_job(1), LONG).await.unwrap().unwrap();
    assert_eq!(database.begin_job(&new_job(1), LONG).await.unwrap(), None, "it is known");
    let second = database.begin_job(&new_job(2), LONG).await.unwrap().unwrap();
    assert_eq!(
        database.begin_job(&NewJob { most_open: 2, ..new_job(3) }, LONG).await.unwrap(),
        None,
        "as many as may be"
    );
    assert_eq!((take(&database, LONG).await, state(&database, 1).await.0), (None, JobState::Running));
    assert_eq!(database.beat_all(&[], DEAD).await.unwrap(), []);
    assert_eq!(database.beat_all(&[first], DEAD).await.unwrap(), [first]);
    let taken = taken(&database, LONG).await;
    assert_eq!((taken.job.id, taken.job.tries, taken.job.payload.as_str()), (id(1), 2, "of 1"));
    assert_eq!(database.beat_all(&[first, second], LONG).await.unwrap(), [second], "the other is somebody else's");
    assert!(!database.drop_job(first).await.unwrap());
    assert!(database.drop_job(taken.lease).await.unwrap() && !database.drop_job(taken.lease).await.unwrap());
    assert_eq!(database.job(OrgId(id(ORG)), id(1)).await.unwrap(), None, "nobody knows of it any more");
}

async fn what_is_not_due_waits(house: House) {
    let database = house.open().await;
    database.enqueue(&NewJob { wait: LONG, ..new_job(1) }).await.unwrap();
    assert_eq!(take(&database, LONG).await, None);
    database.enqueue(&new_job(2)).await.unwrap();
    database.enqueue(&new_job(3)).await.unwrap();
    assert_eq!(taken(&database, LONG).await.job.id, id(2), "the one that waited longest");
    let backlog = database.backlog().await.unwrap();
    let told: Vec<_> = backlog.iter().map(|b| (b.kind.as_str(), b.state, b.jobs)).collect();
    assert_eq!(told, [("batch", JobState::Running, 1), ("batch", JobState::Waiting, 2)]);
    assert!(backlog[1].overdue < Duration::from_secs(60), "{backlog:?}");
}

/// One node is killed in the middle. The other goes on from its last note, and what the first says later is not heard.
async fn a_lost_lease_is_taken_over_where_it_was(house: House) {
    let first_node = house.open().await;
    let second_node = if house.engine == Engine::Memory { first_node.clone() } else { house.open().await };
    first_node.enqueue(&new_job(1)).await.unwrap();
    let first = taken(&first_node, LONG).await;
    assert_eq!(first_node.beat(first.lease, Some("line 40"), LONG).await.unwrap(), JobStanding::Held);
    assert_eq!(take(&second_node, LONG).await, None);
    // Its last sign of life.
    assert_eq!(first_node.beat(first.lease, None, DEAD).await.unwrap(), JobStanding::Held);
    let second = taken(&second_node, LONG).await;
    assert_eq!((second.job.progress.as_str(), second.job.tries), ("line 40", 2));
    assert_ne!(second.lease, first.lease);
    assert_eq!(first_node.beat(first.lease, Some("line 41"), LONG).await.unwrap(), JobStanding::Lost);
    for end in [
        JobEnd::Done("twice".into()),
        JobEnd::Failed("no".into()),
        JobEnd::Again { after: LONG, why: "no".into() },
        JobEnd::Back { after: LONG },
        JobEnd::Stopped,
    ] {
        assert!(!first_node.end(first.lease, &end).await.unwrap(), "{end:?}");
    }
    assert_eq!(second_node.beat(second.lease, Some("line 60"), LONG).await.unwrap(), JobStanding::Held);
    assert!(second_node.end(second.lease, &JobEnd::Done("once".into())).await.unwrap());
    assert_eq!(state(&first_node, 1).await, (JobState::Done, "once".into()));
}

async fn one_that_waits_is_made_due_sooner_and_never_later(house: House) {
    let database = house.open().await;
    let hasten = async |n: u128, wait: Duration| database.hasten(OrgId(id(ORG)), id(n), wait).await.unwrap();
    assert_eq!(hasten(1, Duration::ZERO).await, Hastened::Absent);
    database.enqueue(&NewJob { wait: LONG, ..new_job(1) }).await.unwrap();
    assert_eq!(database.hasten(OrgId(id(7)), id(1), Duration::ZERO).await.unwrap(), Hastened::Absent, "not theirs");
    assert_eq!(hasten(1, LONG / 2).await, Hastened::Due);
    assert_eq!(take(&database, LONG).await, None, "it waits for as long as was said");
    assert_eq!(hasten(1, Duration::ZERO).await, Hastened::Due);
    assert_eq!(hasten(1, LONG).await, Hastened::Due, "it is due sooner anyway");
    let run = taken(&database, LONG).await;
    assert_eq!(hasten(1, Duration::ZERO).await, Hastened::Running);
    assert_eq!(take(&database, LONG).await, None, "nobody takes what runs");
    database.end(run.lease, &JobEnd::Done(String::new())).await.unwrap();
    assert_eq!(hasten(1, Duration::ZERO).await, Hastened::Absent);
}

async fn what_is_given_back_costs_no_try(house: House) {
    let database = house.open().await;
    database.enqueue(&new_job(1)).await.unwrap();
    for _ in 0..10 {
        let LeasedJob { lease, job } = taken(&database, LONG).await;
        assert_eq!(job.tries, 1);
        assert!(database.end(lease, &JobEnd::Back { after: Duration::ZERO }).await.unwrap());
    }
    let last = taken(&database, LONG).await;
    database.end(last.lease, &JobEnd::Back { after: LONG }).await.unwrap();
    assert_eq!(take(&database, LONG).await, None, "not before its time");
    assert_eq!(state(&database, 1).await.0, JobState::Waiting);
}

async fn tries_end(house: House) {
    let database = house.open().await;
    database.enqueue(&new_job(1)).await.unwrap();
    let again = JobEnd::Again { after: Duration::ZERO, why: "the provider is away".into() };
    for tries in 1..=2 {
        let LeasedJob { lease, job } = taken(&database, LONG).await;
        assert_eq!(job.tries, tries);
        assert!(database.end(lease, &again).await.unwrap());
        assert_eq!(state(&database, 1).await.0, JobState::Waiting);
    }
    // Progress begins the count anew; the same word again is none.
    let third = taken(&database, LONG).await;
    for _ in 0..2 {
        database.beat(third.lease, Some("half"), LONG).await.unwrap();
    }
    database.end(third.lease, &again).await.unwrap();
    for tries in 2..=3 {
        let LeasedJob { lease, job } = taken(&database, LONG).await;
        assert_eq!((job.tries, job.progress.as_str()), (tries, "half"));
        database.beat(lease, Some("half"), LONG).await.unwrap();
        database.end(lease, &again).await.unwrap();
    }
    assert_eq!(state(&database, 1).await, (JobState::Failed, "the provider is away".into()));
    assert_eq!(take(&database, LONG).await, None);
    database.enqueue(&new_job(2)).await.unwrap();
    let fatal = taken(&database, LONG).await;
    database.end(fatal.lease, &JobEnd::Failed("the file is gone".into())).await.unwrap();
    assert_eq!(state(&database, 2).await, (JobState::Failed, "the file is gone".into()));
}

/// A job that kills whoever runs it must not kill all nodes in turn for ever.
async fn a_job_that_loses_its_nodes_ends(house: House) {
    let database = house.open().await;
    database.enqueue(&new_job(1)).await.unwrap();
    for tries in 1..=3 {
        assert_eq!(taken(&database, DEAD).await.job.tries, tries);
    }
    assert_eq!(take(&database, LONG).await, None);
    let (ended, note) = state(&database, 1).await;
    assert!(ended == JobState::Failed && note.contains("lost"), "{ended:?} {note}");
}

async fn cancelled_while_waiting_and_while_running(house: House) {
    let database = house.open().await;
    let org = OrgId(id(ORG));
    database.enqueue(&new_job(1)).await.unwrap();
    assert!(!database.cancel(OrgId(id(7)), id(1)).await.unwrap(), "not theirs");
    assert!(database.cancel(org, id(1)).await.unwrap());
    assert_eq!(state(&database, 1).await.0, JobState::Cancelled);
    assert!(!database.cancel(org, id(1)).await.unwrap(), "it has ended");
    assert_eq!(take(&database, LONG).await, None);
    // One that runs hears of it.
    database.enqueue(&new_job(2)).await.unwrap();
    let running = taken(&database, LONG).await;
    assert!(database.cancel(org, id(2)).await.unwrap());
    assert_eq!(state(&database, 2).await.0, JobState::Running);
    assert_eq!(database.beat(running.lease, None, LONG).await.unwrap(), JobStanding::Cancelled);
    assert!(database.end(running.lease, &JobEnd::Stopped).await.unwrap());
    assert_eq!(state(&database, 2).await.0, JobState::Cancelled);
    // One whose node died, or that would have another try, is not begun again.
    database.enqueue(&new_job(3)).await.unwrap();
    taken(&database, DEAD).await;
    assert!(database.cancel(org, id(3)).await.unwrap());
    assert_eq!(take(&database, LONG).await, None);
    assert_eq!(state(&database, 3).await.0, JobState::Cancelled);
    for (n, end) in
        [(4, JobEnd::Again { after: Duration::ZERO, why: String::new() }), (5, JobEnd::Back { after: Duration::ZERO })]
    {
        database.enqueue(&new_job(n)).await.unwrap();
        let running = taken(&database, LONG).await;
        database.cancel(org, id(n)).await.unwrap();
        database.end(running.lease, &end).await.unwrap();
        assert_eq!(state(&database, n).await.0, JobState::Cancelled);
    }
    // One that was done all the same is done.
    database.enqueue(&new_job(6)).await.unwrap();
    let running = taken(&database, LONG).await;
    database.cancel(org, id(6)).await.unwrap();
    database.end(running.lease, &JobEnd::Done("all".into())).await.unwrap();
    assert_eq!(state(&database, 6).await.0, JobState::Done);
}

async fn an_organisation_has_so_many(house: House) {
    let database = house.open().await;
    let bounded = |n| NewJob { most_open: 2, ..new_job(n) };
    for n in 1..=2 {
        assert_eq!(database.enqueue(&bounded(n)).await.unwrap(), Enqueued::New);
    }
    assert_eq!(database.enqueue(&bounded(3)).await.unwrap(), Enqueued::Full);
    assert_eq!(database.enqueue(&bounded(2)).await.unwrap(), Enqueued::Known);
    let elsewhere = NewJob { org: OrgId(id(7)), ..bounded(4) };
    assert_eq!(database.enqueue(&elsewhere).await.unwrap(), Enqueued::New, "each has its own bound");
    assert_eq!(database.enqueue(&NewJob { kind: "export", ..bounded(5) }).await.unwrap(), Enqueued::New);
    let first = taken(&database, LONG).await;
    assert_eq!(database.enqueue(&bounded(3)).await.unwrap(), Enqueued::Full, "one that runs counts");
    database.end(first.lease, &JobEnd::Done(String::new())).await.unwrap();
    assert_eq!(database.enqueue(&bounded(3)).await.unwrap(), Enqueued::New);
}

async fn a_part_and_all_together_have_so_many(house: House) {
    let database = house.open().await;
    let (of, other) = (PartBound { part: id(50), most: 2 }, PartBound { part: id(51), most: 2 });
    let bounded = |n, part, all| NewJob { bounds: JobBounds { part: Some(part), all }, ..new_job(n) };
    for n in 1..=2 {
        assert_eq!(database.enqueue(&bounded(n, of, None)).await.unwrap(), Enqueued::New);
    }
    assert_eq!(database.enqueue(&bounded(3, of, None)).await.unwrap(), Enqueued::Full);
    assert_eq!(database.begin_job(&bounded(3, of, None), LONG).await.unwrap(), None);
    assert_eq!(database.enqueue(&bounded(2, of, None)).await.unwrap(), Enqueued::Known);
    assert_eq!(database.enqueue(&bounded(3, other, Some(3))).await.unwrap(), Enqueued::New, "each has its own bound");
    let elsewhere = NewJob { org: OrgId(id(7)), ..bounded(4, other, Some(3)) };
    assert_eq!(database.enqueue(&elsewhere).await.unwrap(), Enqueued::Full, "all organisations have one");
    assert_eq!(database.enqueue(&NewJob { kind: "export", ..elsewhere.clone() }).await.unwrap(), Enqueued::New);
    let first = taken(&database, LONG).await;
    assert_eq!(database.enqueue(&bounded(5, of, None)).await.unwrap(), Enqueued::Full, "one that runs counts");
    assert!(database.drop_job(first.lease).await.unwrap());
    assert_eq!(database.enqueue(&bounded(5, of, Some(3))).await.unwrap(), Enqueued::New);
}

async fn many_takers_share_without_repeats(house: House) {
    let database = house.open().await;
    for n in 1..=40 {
        database.enqueue(&new_job(n)).await.unwrap();
    }
    let mut takers = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let node = if house.engine == Engine::Memory { database.clone() } else { house.open().await };
        takers.spawn(async move {
            let mut mine = Vec::new();
            while let Some(taken) = take(&node, LONG).await {
                assert!(node.end(taken.lease, &JobEnd::Done(String::new())).await.unwrap());
                mine.push(taken.job.id);
            }
            mine
        });
    }
    let all: Vec<_> = takers.join_all().await.concat();
    assert_eq!(all.len(), 40, "each was taken once");
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), 40);
}

async fn what_ended_is_forgotten(house: House) {
    let database = house.open().await;
    for n in 1..=3 {
        database.enqueue(&new_job(n)).await.unwrap();
    }
    for _ in 0..2 {
        let taken = taken(&database, LONG).await;
        database.end(taken.lease, &JobEnd::Done(String::new())).await.unwrap();
    }
    assert_eq!(database.forget(Timestamp(1)).await.unwrap(), 0, "they ended just now");
    assert_eq!(database.forget(Timestamp(i64::MAX)).await.unwrap(), 2);
    assert_eq!(database.forget(Timestamp(i64::MAX)).await.unwrap(), 0, "one that waits stays");
    assert_eq!(taken(&database, LONG).await.job.id, id(3));
}

async fn what_is_too_long_is_refused(house: House) {
    let database = house.open().await;
    let long = "x".repeat(MOST_JOB_BYTES + 1);
    let refused = database.enqueue(&NewJob { payload: long.clone(), ..new_job(1) }).await;
    assert!(matches!(refused, Err(StoreError::Broken(_))), "{refused:?}");
    database.enqueue(&NewJob { payload: long[1..].to_owned(), ..new_job(1) }).await.unwrap();
    let LeasedJob { lease, job } = taken(&database, LONG).await;
    assert_eq!(job.payload.len(), MOST_JOB_BYTES);
    let refused = database.beat(lease, Some(&long), LONG).await;
    assert!(matches!(refused, Err(StoreError::Broken(_))), "{refused:?}");
    database.end(lease, &JobEnd::Failed(long)).await.unwrap();
    assert_eq!(state(&database, 1).await.1.len(), 8_000);
}
