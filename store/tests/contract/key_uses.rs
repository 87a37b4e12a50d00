//! When keys were last used: the latest stands, whichever node tells it first, and what waits is bounded.

use crate::{House, id, on_every_engine};
use gateway_domain::Timestamp;
use gateway_domain::id::KeyId;
use gateway_domain::ports::KeyUses;
use gateway_store::KeyUseLog;
use std::collections::HashMap;

on_every_engine!(the_latest_use_stands_on_every_node, what_waits_is_bounded_and_counted);

fn key(n: u128) -> KeyId {
    KeyId(id(n))
}

async fn the_latest_use_stands_on_every_node(house: House) {
    let database = house.open().await;
    let (one, other) = (KeyUseLog::new(database.clone(), 10_000), KeyUseLog::new(database.clone(), 10_000));
    one.keep(key(1), Timestamp(50));
    let asked = [key(1), key(2)];
    assert_eq!(one.last_uses(&asked).await.unwrap(), HashMap::from([(key(1), Timestamp(50))]), "its own node knows");
    assert!(other.last_uses(&asked).await.unwrap().is_empty());
    one.flush().await.unwrap();
    assert_eq!((one.waiting(), other.last_uses(&asked).await.unwrap()[&key(1)]), (0, Timestamp(50)));
    other.keep(key(1), Timestamp(40));
    assert_eq!(other.last_uses(&asked).await.unwrap()[&key(1)], Timestamp(50), "an earlier one takes nothing back");
    other.flush().await.unwrap();
    assert_eq!(one.last_uses(&asked).await.unwrap()[&key(1)], Timestamp(50));
    other.keep(key(1), Timestamp(60));
    other.keep(key(1), Timestamp(55));
    other.flush().await.unwrap();
    assert_eq!(one.last_uses(&asked).await.unwrap()[&key(1)], Timestamp(60));
    // More than one statement takes, by two nodes at once.
    for n in 10..1_210 {
        one.keep(key(n), Timestamp(70));
        other.keep(key(n), Timestamp(71));
    }
    let (first, second) = tokio::join!(one.flush(), other.flush());
    first.unwrap();
    second.unwrap();
    let all: Vec<KeyId> = (10..1_210).map(key).collect();
    let found = one.last_uses(&all).await.unwrap();
    assert!(found.len() == 1_200 && found.values().all(|at| *at == Timestamp(71)), "{}", found.len());
    assert!(one.last_uses(&[]).await.unwrap().is_empty());
}

async fn what_waits_is_bounded_and_counted(house: House) {
    let database = house.open().await;
    let uses = KeyUseLog::new(database.clone(), 2);
    for n in 1..=4 {
        uses.keep(key(n), Timestamp(1));
        uses.keep(key(1), Timestamp(2));
    }
    assert_eq!((uses.waiting(), uses.dropped()), (2, 2), "those that wait already are told further");
    database.close().await;
    assert!(uses.flush().await.is_err());
    assert_eq!((uses.waiting(), uses.dropped()), (2, 2), "what cannot be stored waits on");
}
