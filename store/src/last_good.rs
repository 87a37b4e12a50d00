//! The configuration as this node last read it, on its own disk: what it starts with when the database is away.
//! A SQLite file of the same shape, so secrets lie in it as sealed as in the database. It is a copy:
//! one that cannot be read, or is of another key, is thrown away and told, never trusted.

use crate::database::{Database, DatabaseOptions, OpenError, open};
use crate::master_key::KeyError;
use crate::url::DatabaseUrl;
use gateway_domain::ports::{Changes, ConfigStore, StoreError, Vault};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

/// Nobody waits for this file but its own writer, and a whole configuration may hold a million rows.
const LIMIT: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub struct LastGood {
    file: Database,
}

#[derive(Debug, thiserror::Error)]
pub enum LastGoodError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("{} cannot be removed: {source}", path.display())]
    Remove { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl LastGood {
    pub async fn open(path: &Path, vault: &dyn Vault) -> Result<Self, LastGoodError> {
        match Self::try_open(path, vault).await {
            Ok(kept) => Ok(kept),
            Err(error @ LastGoodError::Open(OpenError::Create { .. })) => Err(error),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the last good configuration is unusable and thrown away");
                remove(path)?;
                Self::try_open(path, vault).await
            }
        }
    }

    /// `None` when nothing was ever kept.
    pub async fn load(&self) -> Result<Option<Changes>, StoreError> {
        let kept = self.file.load().await?;
        Ok((kept.revision > 0).then_some(kept))
    }

    /// After a load: everything, in place of what was kept.
    pub async fn save(&self, all: &Changes) -> Result<(), StoreError> {
        self.file.keep(all, true).await
    }

    /// After `since` or a write: only what changed; costs as little as the change is small.
    pub async fn apply(&self, changes: &Changes) -> Result<(), StoreError> {
        self.file.keep(changes, false).await
    }

    async fn try_open(path: &Path, vault: &dyn Vault) -> Result<Self, LastGoodError> {
        let patient = DatabaseOptions { call_timeout: LIMIT, ..DatabaseOptions::default() };
        let file = open(&DatabaseUrl::sqlite_file(path), &patient).await?;
        if let Err(error) = file.check_key(vault).await {
            file.close().await;
            return Err(error.into());
        }
        Ok(Self { file })
    }
}

/// The journal files go with the database, or SQLite would play them into the next one.
fn remove(path: &Path) -> Result<(), LastGoodError> {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match fs::remove_file(&name) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(LastGoodError::Remove { path: name.into(), source });
            }
            _ => {}
        }
    }
    Ok(())
}
