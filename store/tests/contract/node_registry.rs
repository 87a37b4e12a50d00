//! Who is there, and since when nobody heard of them.

use crate::{House, id, on_every_engine, put, row};
use gateway_domain::Timestamp;
use gateway_domain::node::Node;
use gateway_domain::ports::{ConfigStore, NodeRegistry};

on_every_engine!(nodes_are_seen_with_their_lag, beats_change_no_configuration);

fn node(n: u128, role: &str) -> Node {
    let (role, version) = (role.to_owned(), "1.2.3".to_owned());
    Node { id: id(n), role, deployment: "eu".to_owned(), version, revision: 0, started_at: Timestamp(n as i64) }
}

async fn nodes_are_seen_with_their_lag(house: House) {
    let database = house.open().await;
    assert_eq!(database.nodes().await.unwrap(), []);
    database.beat(&node(1, "proxy")).await.unwrap();
    database.beat(&node(2, "admin")).await.unwrap();
    put(&database, 0, vec![row(1, "a")]).await.unwrap();
    put(&database, 1, vec![row(2, "b")]).await.unwrap();
    database.beat(&Node { revision: 1, ..node(1, "proxy") }).await.unwrap();
    let seen = database.nodes().await.unwrap();
    let told: Vec<_> = seen.iter().map(|s| (s.node.id, s.node.revision, s.lag, s.is_live(), s.serves())).collect();
    assert_eq!(told, [(id(1), 1, 1, true, true), (id(2), 0, 2, true, false)]);
    assert_eq!((seen[0].node.version.as_str(), seen[0].node.started_at), ("1.2.3", Timestamp(1)));
    assert_eq!(seen[0].node.deployment, "eu");
    assert!(seen[0].seen_at.micros() > 1_700_000_000_000_000, "{:?}", seen[0].seen_at);
    database.leave(id(1)).await.unwrap();
    database.leave(id(7)).await.unwrap();
    assert_eq!(database.nodes().await.unwrap().len(), 1);
}

async fn beats_change_no_configuration(house: House) {
    let database = house.open().await;
    database.beat(&node(1, "all")).await.unwrap();
    assert_eq!(database.load().await.unwrap().revision, 0);
}
