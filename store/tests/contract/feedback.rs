//! Opinions of calls: kept once, changed by their own workspace alone, bounded by trace, gone with their time.

use crate::{House, id, on_every_engine};
use gateway_domain::Timestamp;
use gateway_domain::feedback::{FeedbackQuery, MOST_OF_TRACE, Opinion, TraceFeedback};
use gateway_domain::id::{OrgId, WorkspaceId};
use gateway_domain::ports::{FeedbackKept, FeedbackPlace, Feedbacks};

on_every_engine!(
    kept_once_and_changed_by_whose_it_is,
    those_of_guardrails_come_in_batches,
    a_trace_has_so_many,
    what_is_old_goes
);

const HERE: FeedbackPlace = FeedbackPlace { org: OrgId(id_of(1)), workspace: WorkspaceId(id_of(2)) };

const fn id_of(n: u128) -> uuid::Uuid {
    uuid::Uuid::from_u128(n)
}

fn feedback(n: u128, trace: &str) -> TraceFeedback {
    TraceFeedback {
        id: id(n),
        org: HERE.org,
        workspace: HERE.workspace,
        trace_id: trace.to_owned(),
        opinion: Opinion { value: 5_000, weight: 500_000, metadata: "{}".to_owned() },
        model: "gpt-4o".into(),
        source: "client".into(),
        created_at: Timestamp(n as i64 * 1_000),
    }
}

fn all() -> FeedbackQuery {
    FeedbackQuery { org: Some(HERE.org), most: 1_000, ..FeedbackQuery::default() }
}

async fn kept_once_and_changed_by_whose_it_is(house: House) {
    let database = house.open().await;
    for _ in 0..2 {
        assert_eq!(database.keep(&feedback(1, "a")).await.unwrap(), FeedbackKept::Kept);
    }
    database.keep(&feedback(2, "b")).await.unwrap();
    assert_eq!(database.feedbacks(&all()).await.unwrap(), [feedback(2, "b"), feedback(1, "a")]);
    let better = Opinion { value: -10_000, weight: 0, metadata: r#"{"why":"x"}"#.to_owned() };
    let elsewhere = FeedbackPlace { workspace: WorkspaceId(id(3)), ..HERE };
    let foreign = FeedbackPlace { org: OrgId(id(9)), ..HERE };
    for (place, id_given, changes) in [(elsewhere, 1, false), (foreign, 1, false), (HERE, 7, false), (HERE, 1, true)] {
        assert_eq!(database.change(place, id(id_given), &better, Timestamp(9)).await.unwrap(), changes);
    }
    let found = database.feedbacks(&FeedbackQuery { trace_ids: vec!["a".into()], ..all() }).await.unwrap();
    assert_eq!(found, [TraceFeedback { opinion: better, ..feedback(1, "a") }]);
    let range = FeedbackQuery { from: Some(Timestamp(1_001)), to: Some(Timestamp(2_001)), ..all() };
    assert_eq!(database.feedbacks(&range).await.unwrap().len(), 1);
    let other = FeedbackQuery { workspaces: vec![WorkspaceId(id(3))], ..all() };
    assert_eq!(database.feedbacks(&other).await.unwrap(), []);
}

async fn those_of_guardrails_come_in_batches(house: House) {
    let database = house.open().await;
    let batch: Vec<TraceFeedback> = (1..=200).map(|n| feedback(n, "a\0b")).collect();
    for _ in 0..2 {
        database.keep_all(&batch).await.unwrap();
    }
    let found = database.feedbacks(&all()).await.unwrap();
    assert_eq!((found.len(), found[0].id), (200, id(200)));
    database.keep_all(&[]).await.unwrap();
}

async fn a_trace_has_so_many(house: House) {
    let database = house.open().await;
    for n in 0..u128::from(MOST_OF_TRACE) {
        assert_eq!(database.keep(&feedback(n, "a")).await.unwrap(), FeedbackKept::Kept);
    }
    assert_eq!(database.keep(&feedback(1_000, "a")).await.unwrap(), FeedbackKept::Full);
    // Feedback that is told again takes no more room, and another trace has its own.
    assert_eq!(database.keep(&feedback(5, "a")).await.unwrap(), FeedbackKept::Kept);
    assert_eq!(database.keep(&feedback(1_000, "b")).await.unwrap(), FeedbackKept::Kept);
}

async fn what_is_old_goes(house: House) {
    let database = house.open().await;
    for n in 1..=3 {
        database.keep(&feedback(n, "a")).await.unwrap();
    }
    assert_eq!(database.forget_feedback(Timestamp(3_000)).await.unwrap(), 2);
    assert_eq!(database.forget_feedback(Timestamp(3_000)).await.unwrap(), 0);
    assert_eq!(database.feedbacks(&all()).await.unwrap(), [feedback(3, "a")]);
}
