//! Alert rules among several nodes: each is looked at by one, and told once.

use crate::{House, on_every_engine};
use gateway_domain::Timestamp;
use gateway_domain::ports::AlertStandings;
use uuid::Uuid;

on_every_engine!(a_rule_is_looked_at_and_told_by_one);

async fn a_rule_is_looked_at_and_told_by_one(house: House) {
    let one = house.open().await;
    let other = one.clone();
    let rule = Uuid::from_u128(7);
    assert_eq!(one.alert_standings(&[rule]).await.unwrap(), []);
    let (first, second) = (Timestamp(1_000), Timestamp(2_000));
    let claims = (one.claim_alert(rule, None, first).await.unwrap(), other.claim_alert(rule, None, first).await);
    assert_eq!((claims.0, claims.1.unwrap()), (true, false), "of two that saw nothing one has it");
    assert!(!other.claim_alert(rule, Some(second), second).await.unwrap(), "it is not as it was seen");
    assert!(other.claim_alert(rule, Some(first), second).await.unwrap());

    other.note_alert(rule, Some(12.25)).await.unwrap();
    assert!(one.fire_alert(rule, None, second).await.unwrap());
    assert!(!other.fire_alert(rule, None, second).await.unwrap(), "it was told by the other");
    let standing = one.alert_standings(&[rule, Uuid::from_u128(8)]).await.unwrap();
    assert_eq!(standing.len(), 1);
    assert_eq!((standing[0].checked_at, standing[0].value, standing[0].fired_at), (second, Some(12.25), Some(second)));
    assert_eq!(standing[0].is_told(), Some(second));
    let third = Timestamp(3_000);
    assert!(!other.end_alert(rule, first, third).await.unwrap(), "that was never told");
    assert!(one.end_alert(rule, second, third).await.unwrap());
    assert!(!other.end_alert(rule, second, third).await.unwrap(), "the other said so");
    let standing = one.alert_standings(&[rule]).await.unwrap();
    assert_eq!((standing[0].over_at, standing[0].is_told()), (Some(third), None));
    let fourth = Timestamp(4_000);
    assert!(one.fire_alert(rule, Some(second), fourth).await.unwrap());
    assert_eq!(one.alert_standings(&[rule]).await.unwrap()[0].is_told(), Some(fourth), "told anew");
    // A clock that is behind ends it all the same.
    assert!(one.end_alert(rule, fourth, third).await.unwrap());
    assert_eq!(one.alert_standings(&[rule]).await.unwrap()[0].is_told(), None);
    other.note_alert(rule, None).await.unwrap();
    assert_eq!(one.alert_standings(&[rule]).await.unwrap()[0].value, None);

    assert_eq!(one.forget_alerts(second).await.unwrap(), 0);
    assert_eq!(one.forget_alerts(Timestamp(2_001)).await.unwrap(), 1);
    assert_eq!(one.alert_standings(&[rule]).await.unwrap(), []);
}
