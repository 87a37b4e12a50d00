//! Names of records: the first time stands, whoever names them again, and they go when their time is over.

use crate::{House, id, on_every_engine};
use gateway_domain::Timestamp;
use gateway_domain::ports::RecordClaims;

on_every_engine!(
    the_first_time_stands,
    what_is_named_twice_at_once_has_one_time,
    one_alone_is_the_first_whatever_the_time,
    old_names_are_forgotten,
);

async fn the_first_time_stands(house: House) {
    let database = house.open().await;
    let names = [id(1), id(2)];
    assert_eq!(database.claim(&names, Timestamp(5)).await.unwrap(), [Timestamp(5), Timestamp(5)]);
    let again = [id(3), id(2), id(3)];
    assert_eq!(database.claim(&again, Timestamp(9)).await.unwrap(), [Timestamp(9), Timestamp(5), Timestamp(9)]);
    assert_eq!(database.claim(&[], Timestamp(9)).await.unwrap(), []);
    let many: Vec<_> = (1..=1_200).map(id).collect();
    let first = database.claim(&many, Timestamp(20)).await.unwrap();
    assert_eq!((first[0], first[2], first[3], first.len()), (Timestamp(5), Timestamp(9), Timestamp(20), 1_200));
}

async fn what_is_named_twice_at_once_has_one_time(house: House) {
    let one = house.open().await;
    let other = one.clone();
    let names: Vec<_> = (1..=50).map(id).collect();
    let backwards: Vec<_> = names.iter().rev().copied().collect();
    let (first, second) = tokio::join!(one.claim(&names, Timestamp(1)), other.claim(&backwards, Timestamp(2)));
    let (first, mut second) = (first.unwrap(), second.unwrap());
    second.reverse();
    assert_eq!(first, second);
}

/// Clocks of two nodes may tell the same microsecond.
async fn one_alone_is_the_first_whatever_the_time(house: House) {
    let database = house.open().await;
    for name in (1..=20).map(id) {
        let mut asked = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let database = database.clone();
            asked.spawn(async move { database.claim_first(name, Timestamp(5)).await.unwrap() });
        }
        let first = asked.join_all().await.into_iter().filter(|is_first| *is_first).count();
        assert_eq!(first, 1, "{name}");
    }
    assert!(!database.claim_first(id(1), Timestamp(9)).await.unwrap());
    assert_eq!(database.claim(&[id(1)], Timestamp(9)).await.unwrap(), [Timestamp(5)]);
    assert_eq!(database.forget_claims(Timestamp(6)).await.unwrap(), 20);
    assert!(database.claim_first(id(1), Timestamp(9)).await.unwrap(), "what was forgotten is new");
}

async fn old_names_are_forgotten(house: House) {
    let database = house.open().await;
    database.claim(&[id(1)], Timestamp(5)).await.unwrap();
    database.claim(&[id(2)], Timestamp(8)).await.unwrap();
    assert_eq!(database.forget_claims(Timestamp(8)).await.unwrap(), 1);
    assert_eq!(database.claim(&[id(1), id(2)], Timestamp(9)).await.unwrap(), [Timestamp(9), Timestamp(8)]);
}
