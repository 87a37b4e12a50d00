//! Objects that providers keep belong to workspaces: each to its own alone, a bounded number, gone with their time.

use crate::{House, id, on_every_engine};
use gateway_domain::Timestamp;
use gateway_domain::id::WorkspaceId;
use gateway_domain::ports::{KeptObject, KeptObjects, MOST_KEPT_ASKED};
use uuid::Uuid;

on_every_engine!(
    each_is_of_its_workspace,
    at_the_bound_the_oldest_go,
    what_is_over_is_forgotten,
    many_are_asked_at_once
);

const OURS: WorkspaceId = WorkspaceId(Uuid::from_u128(2));
const THEIRS: WorkspaceId = WorkspaceId(Uuid::from_u128(3));

fn object(workspace: WorkspaceId, n: u128) -> KeptObject {
    let time = i64::try_from(n).unwrap();
    KeptObject { workspace, mark: id(n), created_at: Timestamp(time), expires_at: Timestamp(1_000 + time) }
}

fn sorted(mut marks: Vec<Uuid>) -> Vec<Uuid> {
    marks.sort_unstable();
    marks
}

async fn each_is_of_its_workspace(house: House) {
    let database = house.open().await;
    let noted = [object(OURS, 1), object(THEIRS, 2), object(OURS, 3), object(OURS, 1)];
    assert_eq!(database.note_kept(&noted, 10).await.unwrap(), 0);
    assert_eq!(database.note_kept(&noted, 10).await.unwrap(), 0, "noted again they stay as they are");
    let all = [id(1), id(2), id(3), id(4)];
    assert_eq!(sorted(database.kept_among(OURS, &all).await.unwrap()), [id(1), id(3)]);
    assert_eq!(database.kept_among(THEIRS, &all).await.unwrap(), [id(2)]);
    assert!(database.kept_among(OURS, &[]).await.unwrap().is_empty());
    assert!(!database.forget_kept(OURS, id(2)).await.unwrap(), "it is another's");
    assert!(database.forget_kept(THEIRS, id(2)).await.unwrap() && !database.forget_kept(THEIRS, id(2)).await.unwrap());
    assert_eq!(database.count_kept().await.unwrap(), 2);
}

async fn at_the_bound_the_oldest_go(house: House) {
    let database = house.open().await;
    database.note_kept(&[object(THEIRS, 1)], 3).await.unwrap();
    for n in 1..=3 {
        assert_eq!(database.note_kept(&[object(OURS, n)], 3).await.unwrap(), 0, "the bound is not passed");
    }
    assert_eq!(database.note_kept(&[object(OURS, 4), object(OURS, 5)], 3).await.unwrap(), 2);
    let all: Vec<Uuid> = (1..=5).map(id).collect();
    assert_eq!(sorted(database.kept_among(OURS, &all).await.unwrap()), [id(3), id(4), id(5)]);
    assert_eq!(database.kept_among(THEIRS, &all).await.unwrap(), [id(1)], "each workspace has its own bound");
}

async fn what_is_over_is_forgotten(house: House) {
    let database = house.open().await;
    database.note_kept(&[object(OURS, 1), object(OURS, 2), object(OURS, 3), object(THEIRS, 2)], 10).await.unwrap();
    assert_eq!(database.expire_kept(Timestamp(1_002)).await.unwrap(), 3);
    assert_eq!(database.expire_kept(Timestamp(1_002)).await.unwrap(), 0);
    assert_eq!(database.kept_among(OURS, &[id(1), id(2), id(3)]).await.unwrap(), [id(3)]);
}

async fn many_are_asked_at_once(house: House) {
    let database = house.open().await;
    let noted: Vec<KeptObject> = (1..=1_200).map(|n| object(OURS, n)).collect();
    database.note_kept(&noted, 10_000).await.unwrap();
    let marks: Vec<Uuid> = (701..).take(MOST_KEPT_ASKED).map(id).collect();
    assert_eq!(database.kept_among(OURS, &marks).await.unwrap().len(), 500);
    assert!(database.kept_among(OURS, &[marks, vec![id(1)]].concat()).await.is_err());
}
