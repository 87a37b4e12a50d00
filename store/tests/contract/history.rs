//! Versions of documents and the audit trail.

use crate::{House, id, on_every_engine, row};
use gateway_domain::Timestamp;
use gateway_domain::ports::{Batch, ConfigStore, History, HistoryStep, MOST_VERSIONS, StoreError, WriteError};
use gateway_domain::resource::{Audit, AuditQuery, Stored, StoredVersion};

on_every_engine!(versions_are_kept, the_audit_trail_is_filtered, a_history_is_bounded_and_goes_with_its_row);

fn version(n: i64) -> StoredVersion {
    StoredVersion {
        kind: "config".into(),
        id: id(1),
        version: n,
        version_id: id(100 + n as u128),
        author: (n > 1).then(|| id(5)),
        doc: format!("{{\"v\": {n}}}"),
        created_at: Timestamp(n),
    }
}

async fn versions_are_kept(house: House) {
    let database = house.open().await;
    for n in 1..=2 {
        let written = Batch { rows: vec![row(1, "a")], versions: vec![version(n)], ..Batch::default() };
        database.write(n - 1, Box::new(|_| Ok(written))).await.unwrap();
    }
    assert_eq!(database.versions("config", id(1)).await.unwrap(), vec![version(2), version(1)]);
    assert_eq!(database.versions("config", id(2)).await.unwrap(), vec![]);
    assert_eq!(database.versions("provider", id(1)).await.unwrap(), vec![]);
    let again = Batch { versions: vec![version(2)], ..Batch::default() };
    match database.write(2, Box::new(|_| Ok(again))).await {
        Err(WriteError::Store(StoreError::Conflict(what))) => assert!(what.contains("version 2"), "{what}"),
        other => panic!("{other:?}"),
    }
}

/// Every state of every row.
fn keep(before: &Stored, after: &Stored, _told: &Audit) -> Option<HistoryStep> {
    (after.deleted_at.is_none()).then(|| HistoryStep { first: version(before.version), next: version(after.version) })
}

async fn a_history_is_bounded_and_goes_with_its_row(house: House) {
    let database = house.open().await;
    let most = i64::try_from(MOST_VERSIONS).unwrap();
    let change = async |n: i64, deleted: bool| {
        let at = deleted.then_some(Timestamp(n));
        let rows = vec![Stored { version: n, deleted_at: at, ..row(1, "a") }];
        let told = Audit { resource_kind: "config".into(), resource_id: id(1).to_string(), ..entry(n as u128) };
        let batch = Batch { rows, audit: vec![told], history: Some(keep), ..Batch::default() };
        database.write(n - 1, Box::new(|_| Ok(batch))).await.unwrap();
    };
    change(1, false).await;
    assert_eq!(database.versions("config", id(1)).await.unwrap(), vec![], "it has changed from nothing");
    change(2, false).await;
    assert_eq!(database.versions("config", id(1)).await.unwrap(), vec![version(2), version(1)]);
    for n in 3..=most + 5 {
        change(n, false).await;
    }
    let kept = database.versions("config", id(1)).await.unwrap();
    assert_eq!((kept.len(), &kept[0], &kept[kept.len() - 1]), (MOST_VERSIONS, &version(most + 5), &version(6)));
    change(most + 6, true).await;
    assert_eq!(database.versions("config", id(1)).await.unwrap(), vec![]);
}

fn entry(n: u128) -> Audit {
    let odd = |a: &str, b: &str| if n % 2 == 1 { a.to_owned() } else { b.to_owned() };
    Audit {
        id: id(n),
        at: Timestamp(n as i64 * 10),
        org: id(if n == 4 { 8 } else { 7 }),
        workspace: (n == 2).then(|| id(20)),
        actor: odd("alice", "bob"),
        api_key: String::new(),
        actor_kind: odd("user", "api_key"),
        action: odd("create", "delete"),
        resource_kind: odd("config", "api_key"),
        resource_id: n.to_string(),
        method: odd("POST", "DELETE"),
        uri: format!("/v1/things/{n}"),
        client_ip: format!("10.0.0.{n}"),
        status: if n == 3 { 403 } else { 200 },
        details: format!("{{\"request_id\":\"{}\",\"name\":\"x\"}}", id(100 + n)),
    }
}

async fn the_audit_trail_is_filtered(house: House) {
    let database = house.open().await;
    let written = Batch { audit: (1..=4).map(entry).collect(), ..Batch::default() };
    assert_eq!(database.write(0, Box::new(|_| Ok(written))).await.unwrap().revision, 0);

    let any = AuditQuery { page_size: 10, ..AuditQuery::default() };
    let ids = async |query: AuditQuery| {
        let page = database.audit(&query).await.unwrap();
        assert!(page.total >= page.rows.len() as u64);
        page.rows.iter().map(|a| a.resource_id.parse().unwrap()).collect::<Vec<u32>>()
    };
    assert_eq!(database.audit(&any).await.unwrap().rows[3], entry(1));
    assert_eq!(ids(any.clone()).await, [4, 3, 2, 1]);
    assert_eq!(ids(AuditQuery { org: Some(id(7)), ..any.clone() }).await, [3, 2, 1]);
    assert_eq!(ids(AuditQuery { workspace: Some(id(20)), ..any.clone() }).await, [2]);
    let (from, to) = (Some(Timestamp(20)), Some(Timestamp(30)));
    assert_eq!(ids(AuditQuery { from, to, ..any.clone() }).await, [3, 2]);
    assert_eq!(ids(AuditQuery { actor: Some("alice".into()), ..any.clone() }).await, [3, 1]);
    assert_eq!(ids(AuditQuery { actor_kind: Some("api_key".into()), ..any.clone() }).await, [4, 2]);
    assert_eq!(ids(AuditQuery { action: Some("create".into()), ..any.clone() }).await, [3, 1]);
    assert_eq!(ids(AuditQuery { resource_kind: Some("config".into()), ..any.clone() }).await, [3, 1]);
    assert_eq!(ids(AuditQuery { method: Some("DELETE".into()), ..any.clone() }).await, [4, 2]);
    assert_eq!(ids(AuditQuery { uri: Some("/v1/things/3".into()), ..any.clone() }).await, [3]);
    assert_eq!(ids(AuditQuery { client_ip: Some("10.0.0.1".into()), ..any.clone() }).await, [1]);
    assert_eq!(ids(AuditQuery { status: Some(403), ..any.clone() }).await, [3]);
    assert_eq!(ids(AuditQuery { request_id: Some(id(103)), ..any.clone() }).await, [3]);
    assert_eq!(ids(AuditQuery { request_id: Some(id(3)), ..any.clone() }).await, [0_u32; 0]);
    let second = database.audit(&AuditQuery { page: 1, page_size: 3, ..any }).await.unwrap();
    assert_eq!((second.total, second.rows.len()), (4, 1));
}
