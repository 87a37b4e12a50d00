//! Objects that the gateway keeps: each of its workspace and kind alone, changed by version, gone with their time.

use crate::{House, id, on_every_engine};
use gateway_domain::Timestamp;
use gateway_domain::id::{OrgId, WorkspaceId};
use gateway_domain::ports::{OwnedObject, OwnedObjects, OwnedPlace};
use uuid::Uuid;

on_every_engine!(
    each_is_of_its_place,
    of_two_changes_the_second_is_told,
    lists_go_on_behind_the_last,
    what_is_over_goes
);

const FILES: OwnedPlace<'static> = OwnedPlace { workspace: WorkspaceId(Uuid::from_u128(2)), kind: "file" };

fn object(n: u128) -> OwnedObject {
    OwnedObject {
        id: id(n),
        org: OrgId(id(1)),
        workspace: FILES.workspace,
        kind: "file".to_owned(),
        document: format!("{{\"n\":{n}}}"),
        version: 1,
        created_at: Timestamp(i64::try_from(n).unwrap()),
        expires_at: Timestamp(1_000 + i64::try_from(n).unwrap()),
    }
}

async fn each_is_of_its_place(house: House) {
    let database = house.open().await;
    assert!(database.add(&object(5)).await.unwrap());
    assert!(!database.add(&OwnedObject { document: "other".into(), ..object(5) }).await.unwrap());
    assert_eq!(database.owned(FILES, id(5)).await.unwrap(), Some(object(5)));
    let elsewhere = OwnedPlace { workspace: WorkspaceId(id(3)), ..FILES };
    for place in [elsewhere, OwnedPlace { kind: "batch", ..FILES }] {
        assert_eq!(database.owned(place, id(5)).await.unwrap(), None);
        assert!(database.list_owned(place, None, 10).await.unwrap().is_empty());
        assert!(!database.remove(place, id(5)).await.unwrap());
    }
    assert!(database.remove(FILES, id(5)).await.unwrap() && !database.remove(FILES, id(5)).await.unwrap());
}

async fn of_two_changes_the_second_is_told(house: House) {
    let database = house.open().await;
    database.add(&object(5)).await.unwrap();
    assert!(database.change(id(5), 1, "first").await.unwrap());
    assert!(!database.change(id(5), 1, "second").await.unwrap());
    assert!(!database.change(id(6), 1, "nothing").await.unwrap());
    let found = database.owned(FILES, id(5)).await.unwrap().unwrap();
    assert_eq!((found.document.as_str(), found.version), ("first", 2));
}

async fn lists_go_on_behind_the_last(house: House) {
    let database = house.open().await;
    for n in 1..=5 {
        database.add(&object(n)).await.unwrap();
    }
    let ids = async |after: Option<u128>, most| {
        let found = database.list_owned(FILES, after.map(id), most).await.unwrap();
        found.iter().map(|object| object.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(None, 2).await, [id(5), id(4)]);
    assert_eq!(ids(Some(4), 10).await, [id(3), id(2), id(1)]);
    assert!(ids(Some(1), 10).await.is_empty());
}

async fn what_is_over_goes(house: House) {
    let database = house.open().await;
    for n in 1..=3 {
        database.add(&object(n)).await.unwrap();
    }
    assert_eq!(database.expire_owned(Timestamp(1_002)).await.unwrap(), 2);
    assert_eq!(database.expire_owned(Timestamp(1_002)).await.unwrap(), 0);
    assert_eq!(database.list_owned(FILES, None, 10).await.unwrap(), [object(3)]);
}
