//! A new master key: everything that was sealed with the old one is sealed with the new, in one transaction.
//! Documents are text here; a sealed value is found by its form and replaced in its place, the rest is not touched.

use crate::database::{Database, Side};
use crate::master_key::{KeyError, PROBE};
use crate::notices::CHANNEL;
use crate::session::{DatabaseRow, Session, failure};
use gateway_domain::ports::{StoreError, Vault, VaultError};
use sqlx::Error;
use std::time::Duration;
use tokio::time::timeout;

/// A million rows take a while.
const LIMIT: Duration = Duration::from_secs(3600);
const OPENING: &str = "\"sealed:v1:";

const LOCK: &str = "UPDATE meta SET revision = revision + 1 RETURNING revision";
const ROWS: &str = "SELECT kind, id, version, doc FROM resource WHERE doc LIKE '%\"sealed:v1:%'";
const VERSIONS: &str = "SELECT kind, id, version, doc FROM resource_version WHERE doc LIKE '%\"sealed:v1:%'";
const PUT_ROW: &str = "UPDATE resource SET doc = $1, revision = $2 WHERE kind = $3 AND id = $4";
const BLOBS: SealedColumn = SealedColumn {
    of: "blob",
    select: "SELECT id, sealed_key FROM blob",
    put: "UPDATE blob SET sealed_key = $1 WHERE id = $2",
};
const ANSWERS: SealedColumn = SealedColumn {
    of: "kept answer",
    select: "SELECT id, answer FROM kept_answer WHERE answer IS NOT NULL",
    put: "UPDATE kept_answer SET answer = $1 WHERE id = $2",
};
const ACCOUNTS: SealedColumn = SealedColumn {
    of: "account at an MCP server",
    select: "SELECT id, sealed FROM mcp_account WHERE sealed <> ''",
    put: "UPDATE mcp_account SET sealed = $1 WHERE id = $2",
};
const SERVER_CLIENTS: SealedColumn = SealedColumn {
    of: "client of an MCP server",
    select: "SELECT id, sealed FROM mcp_server_client",
    put: "UPDATE mcp_server_client SET sealed = $1 WHERE id = $2",
};
/// Payloads of jobs that hold a secret. Other jobs have nothing that is sealed.
const PAYLOADS: SealedColumn = SealedColumn {
    of: "job",
    select: "SELECT id, payload FROM job WHERE payload LIKE 'sealed:v1:%'",
    put: "UPDATE job SET payload = $1 WHERE id = $2",
};
const PUT_VERSION: &str = "UPDATE resource_version SET doc = $1 WHERE kind = $2 AND id = $3 AND version = $4";

#[derive(Debug, thiserror::Error)]
pub enum ResealError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("{kind} {id} holds a sealed value that the master key does not open; nothing was changed")]
    Closed { kind: String, id: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How many documents hold sealed values, and how many blobs have a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resealed {
    pub rows: usize,
    pub versions: usize,
    pub blobs: usize,
}

/// A column that is sealed whole.
struct SealedColumn {
    of: &'static str,
    select: &'static str,
    put: &'static str,
}

struct Sealed {
    kind: String,
    id: String,
    version: i64,
    doc: String,
}

impl Database {
    /// All or nothing. Nodes that run with the old key hear of the new state: they serve on by what they have
    /// opened before, say so, and write no more, until they are started with the new key.
    pub async fn reseal(&self, old: &dyn Vault, new: &dyn Vault) -> Result<Resealed, ResealError> {
        self.check_key(old).await?;
        let mut lease = self.lease(Side::Write).await?;
        let outcome = timeout(LIMIT, reseal(lease.session(), old, new)).await;
        let done = lease.finish(outcome)?;
        self.notices().notify();
        Ok(done)
    }
}

fn store(error: &Error) -> ResealError {
    ResealError::Store(failure(error))
}

async fn reseal(mut session: Session<'_>, old: &dyn Vault, new: &dyn Vault) -> Result<Resealed, ResealError> {
    let mut transaction = session.begin().await.map_err(|e| store(&e))?;
    let mut inside = transaction.session();
    let revision = inside.fetch_int(LOCK, vec![]).await.map_err(|e| store(&e))?;
    // The mark is read under the lock, since another rotation may have come first.
    let mark = inside.fetch_text("SELECT key_check FROM meta", vec![]).await.map_err(|e| store(&e))?;
    if old.open(&mark).is_err() {
        return Err(KeyError::WrongKey.into());
    }
    let rows = inside.fetch(ROWS, vec![], sealed).await.map_err(|e| store(&e))?;
    for row in &rows {
        let doc = anew(row, old, new)?;
        let values = vec![doc.into(), revision.into(), row.kind.as_str().into(), row.id.as_str().into()];
        inside.run(PUT_ROW, values).await.map_err(|e| store(&e))?;
    }
    let versions = inside.fetch(VERSIONS, vec![], sealed).await.map_err(|e| store(&e))?;
    for row in &versions {
        let doc = anew(row, old, new)?;
        let values = vec![doc.into(), row.kind.as_str().into(), row.id.as_str().into(), row.version.into()];
        inside.run(PUT_VERSION, values).await.map_err(|e| store(&e))?;
    }
    // The pieces of a blob stay as they are: they are sealed with its own key.
    let blobs = reseal_column(&mut inside, &BLOBS, old, new).await?;
    for column in [&ANSWERS, &ACCOUNTS, &SERVER_CLIENTS, &PAYLOADS] {
        reseal_column(&mut inside, column, old, new).await?;
    }
    let mark = new.seal(PROBE);
    inside.run("UPDATE meta SET key_check = $1", vec![mark.into()]).await.map_err(|e| store(&e))?;
    if let Session::Postgres(_) = inside {
        let told = vec![CHANNEL.into(), revision.to_string().into()];
        inside.fetch("SELECT pg_notify($1, $2)", told, |_| Ok(())).await.map_err(|e| store(&e))?;
    }
    transaction.commit().await.map_err(|e| store(&e))?;
    Ok(Resealed { rows: rows.len(), versions: versions.len(), blobs })
}

async fn reseal_column(
    inside: &mut Session<'_>,
    column: &SealedColumn,
    old: &dyn Vault,
    new: &dyn Vault,
) -> Result<usize, ResealError> {
    let read = |row: &DatabaseRow| {
        let mut columns = row.columns();
        Ok((columns.text()?.to_owned(), columns.text()?.to_owned()))
    };
    let all = inside.fetch(column.select, vec![], read).await.map_err(|e| store(&e))?;
    for (id, sealed) in &all {
        let key = old.open(sealed).map_err(|_| ResealError::Closed { kind: column.of.to_owned(), id: id.clone() })?;
        let values = vec![new.seal(key.expose()).into(), id.as_str().into()];
        inside.run(column.put, values).await.map_err(|e| store(&e))?;
    }
    Ok(all.len())
}

fn sealed(row: &DatabaseRow) -> Result<Sealed, Error> {
    let mut columns = row.columns();
    Ok(Sealed {
        kind: columns.text()?.to_owned(),
        id: columns.text()?.to_owned(),
        version: columns.int()?,
        doc: columns.text()?.to_owned(),
    })
}

/// The document with each sealed value sealed anew.
fn anew(row: &Sealed, old: &dyn Vault, new: &dyn Vault) -> Result<String, ResealError> {
    let mut out = String::with_capacity(row.doc.len());
    let mut rest = row.doc.as_str();
    while let Some(at) = rest.find(OPENING) {
        let (before, from) = rest.split_at(at + 1);
        out.push_str(before);
        let end = from.find('"').unwrap_or(from.len());
        match old.open(&from[..end]) {
            Ok(plain) => out.push_str(&new.seal(plain.expose())),
            // Text that only looks like one is nobody's secret.
            Err(VaultError::Malformed) => out.push_str(&from[..end]),
            Err(VaultError::WrongKey) => {
                return Err(ResealError::Closed { kind: row.kind.clone(), id: row.id.clone() });
            }
        }
        rest = &from[end..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::master_key::MasterKey;
    use crate::vault::SealingVault;

    fn row(doc: &str) -> Sealed {
        Sealed { kind: "config".into(), id: "1".into(), version: 0, doc: doc.into() }
    }

    #[test]
    fn only_sealed_values_change() {
        let (old, new) = (SealingVault::new(&MasterKey::generate()), SealingVault::new(&MasterKey::generate()));
        let doc = format!(
            r#"{{"a":"{}","n":1.50,"b":["{}","sealed:v1:x"],"t":"say \"sealed:v1:y\" aloud"}}"#,
            old.seal("one"),
            old.seal("two")
        );
        let made = anew(&row(&doc), &old, &new).unwrap();
        let read: serde_json::Value = serde_json::from_str(&made).unwrap();
        let opened = |v: &serde_json::Value| new.open(v.as_str().unwrap()).unwrap().expose().clone();
        assert_eq!((opened(&read["a"]), opened(&read["b"][0])), ("one".to_owned(), "two".to_owned()));
        assert!(made.ends_with(r#","sealed:v1:x"],"t":"say \"sealed:v1:y\" aloud"}"#) && made.contains("1.50"));
        let foreign = format!(r#"{{"a":"{}"}}"#, new.seal("x"));
        assert!(matches!(anew(&row(&foreign), &old, &new), Err(ResealError::Closed { .. })));
    }
}
