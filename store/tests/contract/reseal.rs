//! A new master key, while another node runs with the old one.

use crate::{Engine, House, id, on_every_engine, put, row};
use gateway_domain::Timestamp;
use gateway_domain::ports::{Batch, ConfigStore, History, StoreError, Vault, WriteError};
use gateway_domain::resource::StoredVersion;
use gateway_store::{KeyError, MasterKey, ResealError, Resealed, SealingVault};

on_every_engine!(everything_is_sealed_anew_or_nothing, a_node_with_the_old_key_reads_on_and_writes_no_more);

fn vault() -> SealingVault {
    SealingVault::new(&MasterKey::generate())
}

fn sealed(n: u128, value: &str) -> gateway_domain::resource::Stored {
    gateway_domain::resource::Stored { doc: format!(r#"{{"key":"{value}"}}"#), ..row(n, &format!("s{n}")) }
}

fn value(doc: &str) -> &str {
    doc.split('"').nth(3).unwrap()
}

async fn everything_is_sealed_anew_or_nothing(house: House) {
    let database = house.open().await;
    let (old, new) = (vault(), vault());
    database.check_key(&old).await.unwrap();
    let version = StoredVersion {
        kind: "config".into(),
        id: id(1),
        version: 1,
        version_id: id(9),
        author: None,
        doc: format!(r#"{{"key":"{}"}}"#, old.seal("before")),
        created_at: Timestamp(1),
    };
    let rows = vec![sealed(1, &old.seal("one")), row(2, "plain")];
    let batch = Batch { rows, versions: vec![version], ..Batch::default() };
    database.write(0, Box::new(move |_| Ok(batch))).await.unwrap();
    assert!(matches!(database.reseal(&new, &vault()).await, Err(ResealError::Key(KeyError::WrongKey))));
    let done = database.reseal(&old, &new).await.unwrap();
    assert_eq!(done, Resealed { rows: 1, versions: 1, blobs: 0 });
    let news = database.since(1).await.unwrap();
    assert_eq!((news.revision, news.rows.len()), (2, 1), "nodes hear of what changed, and of nothing else");
    assert_eq!(new.open(value(&news.rows[0].doc)).unwrap().expose(), "one");
    let history = database.versions("config", id(1)).await.unwrap();
    assert_eq!(new.open(value(&history[0].doc)).unwrap().expose(), "before");
    assert!(matches!(database.check_key(&old).await, Err(KeyError::WrongKey)));
    database.check_key(&new).await.unwrap();
    // One value that does not open: all stays as it was.
    put(&database, 2, vec![sealed(3, &old.seal("lost"))]).await.unwrap();
    assert!(matches!(database.reseal(&new, &vault()).await, Err(ResealError::Closed { .. })));
    database.check_key(&new).await.unwrap();
    assert_eq!(database.load().await.unwrap().revision, 3);
}

async fn a_node_with_the_old_key_reads_on_and_writes_no_more(house: House) {
    if house.engine == Engine::Memory {
        return;
    }
    let (one, two) = (house.open().await, house.open().await);
    let (old, new) = (vault(), vault());
    one.check_key(&old).await.unwrap();
    two.check_key(&old).await.unwrap();
    put(&two, 0, vec![sealed(1, &old.seal("one"))]).await.unwrap();
    one.reseal(&old, &new).await.unwrap();
    assert_eq!(two.since(1).await.unwrap().revision, 2);
    let refused = put(&two, 2, vec![row(2, "b")]).await.unwrap_err();
    assert!(
        matches!(&refused, WriteError::Store(StoreError::Unavailable(why)) if why.contains("master key")),
        "{refused:?}"
    );
    assert_eq!(one.load().await.unwrap().revision, 2);
    two.check_key(&new).await.unwrap();
    put(&two, 2, vec![row(2, "b")]).await.unwrap();
}
