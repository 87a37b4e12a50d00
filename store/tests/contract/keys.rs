//! The master key of a database, and the last good configuration on disk.

use crate::{Engine, House, on_every_engine, put, row};
use gateway_domain::Timestamp;
use gateway_domain::ports::{Changes, ConfigStore, Vault};
use gateway_store::{KeyError, LastGood, MasterKey, SealingVault};

on_every_engine!(another_key_is_refused, a_damaged_mark_is_told);

fn vault() -> SealingVault {
    SealingVault::new(&MasterKey::generate())
}

async fn another_key_is_refused(house: House) {
    let database = house.open().await;
    let (mine, other) = (vault(), vault());
    database.check_key(&mine).await.unwrap();
    database.check_key(&mine).await.unwrap();
    let refused = database.check_key(&other).await.unwrap_err();
    assert!(matches!(refused, KeyError::WrongKey), "{refused}");
    database.check_key(&mine).await.unwrap();
    if house.engine != Engine::Memory {
        let again = house.open().await;
        assert!(matches!(again.check_key(&other).await, Err(KeyError::WrongKey)));
        again.check_key(&mine).await.unwrap();
    }
}

/// Stands for a vault whose marks this one cannot read at all.
struct Plain;

impl Vault for Plain {
    fn seal(&self, plain: &str) -> String {
        plain.to_owned()
    }

    fn open(&self, sealed: &str) -> Result<gateway_domain::Secret<String>, gateway_domain::ports::VaultError> {
        Ok(sealed.to_owned().into())
    }
}

async fn a_damaged_mark_is_told(house: House) {
    let database = house.open().await;
    database.check_key(&Plain).await.unwrap();
    let refused = database.check_key(&vault()).await.unwrap_err();
    assert!(matches!(refused, KeyError::Damaged), "{refused}");
}

fn sorted(mut changes: Changes) -> Changes {
    changes.rows.sort_by_key(|row| row.id);
    changes
}

#[tokio::test]
async fn the_last_good_state_follows_the_database() {
    let house = House::new(Engine::File);
    let (database, vault) = (house.open().await, vault());
    let kept = LastGood::open(&house.path("last-good.db"), &vault).await.unwrap();
    assert!(kept.load().await.unwrap().is_none());

    put(&database, 0, vec![row(1, "a"), row(2, "b")]).await.unwrap();
    let all = database.load().await.unwrap();
    kept.save(&all).await.unwrap();
    assert_eq!(sorted(kept.load().await.unwrap().unwrap()).rows, sorted(all).rows);

    let mut gone = row(1, "a");
    gone.deleted_at = Some(Timestamp(9));
    put(&database, 1, vec![gone, row(3, "a")]).await.unwrap();
    kept.apply(&database.since(1).await.unwrap()).await.unwrap();
    let (mine, theirs) = (sorted(kept.load().await.unwrap().unwrap()), sorted(database.load().await.unwrap()));
    assert_eq!((mine.revision, mine.rows), (theirs.revision, theirs.rows));

    // A slug that passed on while nobody looked, the heir first.
    let handed = Changes { revision: 3, rows: vec![row(2, "a"), row(3, "b")] };
    kept.apply(&handed).await.unwrap();
    assert_eq!(sorted(kept.load().await.unwrap().unwrap()).rows, handed.rows);

    // A whole state takes the place of what was there, also an older one: a restored database.
    kept.save(&Changes { revision: 1, rows: vec![row(7, "z")] }).await.unwrap();
    let again = LastGood::open(&house.path("last-good.db"), &vault).await.unwrap();
    let found = again.load().await.unwrap().unwrap();
    assert_eq!((found.revision, found.rows[0].slug.as_str(), found.rows.len()), (1, "z", 1));
}

#[tokio::test]
async fn an_unusable_last_good_state_is_thrown_away() {
    let house = House::new(Engine::File);
    let path = house.path("last-good.db");
    let state = Changes { revision: 3, rows: vec![row(1, "a")] };
    let kept = LastGood::open(&path, &vault()).await.unwrap();
    kept.save(&state).await.unwrap();
    // Sealed with another key: its secrets could never be opened.
    let mine = vault();
    let other = LastGood::open(&path, &mine).await.unwrap();
    assert!(other.load().await.unwrap().is_none());
    other.save(&state).await.unwrap();
    drop(other);
    assert!(LastGood::open(&path, &mine).await.unwrap().load().await.unwrap().is_some());
    // Not a database at all. A file of its own: a connection that is still closing writes into the old one.
    for name in ["last-good.db", "last-good.db-wal", "last-good.db-shm"] {
        let _ = std::fs::remove_file(house.path(name));
    }
    std::fs::write(&path, "half a file that somebody copied over it").unwrap();
    assert!(LastGood::open(&path, &mine).await.unwrap().load().await.unwrap().is_none());
    let nowhere = LastGood::open(&house.path("no/such/last-good.db"), &mine).await;
    assert!(nowhere.is_err());
}
