//! Blobs as rows: pieces, each sealed with a key of its blob, which the vault seals. A new master key so needs the keys
//! sealed anew and no piece. What a piece is sealed with names its blob and place, so that none can stand for another.

mod piece;

use crate::database::{Database, Side};
use crate::session::{Row, Session, Value};
use crate::work::now;
use gateway_domain::ports::{
    BlobBounds, BlobError, Blobs, BlobsKept, Fut, MOST_BLOB_PIECE, NewBlob, StoreError, StoredBlob, Vault,
};
use gateway_domain::{OrgId, Timestamp};
use piece::PieceKey;
use sqlx::Error;
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

const MARK: &str = "SELECT key_check FROM meta WHERE id = 1";
const BEGIN: &str = "INSERT INTO blob (id, org, kind, bytes, whole, sealed_key, created_at, expires_at) \
    VALUES ($1, $2, $3, 0, 0, $4, $5, $6) ON CONFLICT (id) DO NOTHING RETURNING id";
const BEGUN: &str = "SELECT COUNT(*) FROM blob WHERE id = $1 AND org = $2 AND kind = $3 AND whole = 0";
const FIRST_USE: &str = "INSERT INTO blob_use (org, blobs, bytes) VALUES ($1, 0, 0) ON CONFLICT (org) DO NOTHING";
const COUNT_ONE: &str = "UPDATE blob_use SET blobs = blobs + 1 WHERE org = $1 AND blobs < $2 RETURNING blobs";
/// Locks the blob against other writers.
const GROW: &str = "UPDATE blob SET bytes = $1 WHERE id = $2 AND whole = 0 RETURNING org";
const WRITABLE: &str = "SELECT bytes, sealed_key FROM blob WHERE id = $1 AND whole = 0";
const CUT: &str = "DELETE FROM blob_piece WHERE blob = $1 AND place >= $2 RETURNING place";
const PUT: &str = "INSERT INTO blob_piece (blob, place, bytes, sealed) VALUES ($1, $2, $3, $4)";
const COUNT_BYTES: &str = "UPDATE blob_use SET bytes = bytes + $1 \
    WHERE org = $2 AND ($1 <= 0 OR bytes + $1 <= $3) RETURNING bytes";
const FINISH: &str = "UPDATE blob SET whole = 1 WHERE id = $1 AND whole = 0 \
    RETURNING id, org, kind, bytes, whole, created_at, expires_at";
const ONE: &str = "SELECT id, org, kind, bytes, whole, created_at, expires_at FROM blob WHERE id = $1 AND org = $2";
const LIST: &str = "SELECT id, org, kind, bytes, whole, created_at, expires_at FROM blob \
    WHERE org = $1 AND kind = $2 AND (created_at < $3 OR (created_at = $3 AND id < $4)) \
    ORDER BY created_at DESC, id DESC LIMIT $5";
const READ: &str = "SELECT b.sealed_key, p.place, p.sealed FROM blob b JOIN blob_piece p ON p.blob = b.id \
    WHERE b.id = $1 AND b.whole = 1 AND p.place <= $2 ORDER BY p.place DESC LIMIT 1";
const IS_WHOLE: &str = "SELECT COUNT(*) FROM blob WHERE id = $1 AND whole = 1";
const DELETE: &str = "DELETE FROM blob WHERE id = $1 AND org = $2 RETURNING bytes";
const DELETE_PIECES: &str = "DELETE FROM blob_piece WHERE blob = $1";
const UNCOUNT: &str = "UPDATE blob_use SET blobs = blobs - 1, bytes = bytes - $1 WHERE org = $2";
const OVER: &str = "SELECT id, org FROM blob \
    WHERE expires_at <= $1 OR (whole = 0 AND created_at < $2) LIMIT 50";
const KEPT: &str =
    "SELECT COALESCE(CAST(SUM(blobs) AS BIGINT), 0), COALESCE(CAST(SUM(bytes) AS BIGINT), 0) FROM blob_use";

/// Most rows of a list.
const MOST_LISTED: u32 = 1_000;

/// Blobs in the database of the configuration.
pub struct RowBlobs {
    database: Database,
    vault: Arc<dyn Vault>,
    bounds: BlobBounds,
}

impl RowBlobs {
    pub fn new(database: Database, vault: Arc<dyn Vault>, bounds: BlobBounds) -> Self {
        Self { database, vault, bounds }
    }

    /// As [`Database::on`], for work that has more ways to fail than the database.
    async fn within<T: Send>(
        &self,
        work: impl AsyncFnOnce(Session<'_>) -> Result<Result<T, BlobError>, Error>,
    ) -> Result<T, BlobError> {
        self.database.on(Side::Write, work).await?
    }

    async fn begun(&self, mut session: Session<'_>, blob: &NewBlob) -> Result<Result<(), BlobError>, Error> {
        let now = now(&mut session).await?;
        let sealed_key = self.vault.seal(&PieceKey::generate().to_text());
        let mut transaction = session.begin().await?;
        let mut inside = transaction.session();
        // Held until the end, so that a change of the master key sees this blob or is seen here.
        let mark = if matches!(inside, Session::Postgres(_)) { format!("{MARK} FOR SHARE") } else { MARK.to_owned() };
        let mark = inside.fetch_text(mark, vec![]).await?;
        if self.database.mark().is_some_and(|own| own != mark) {
            let why = "the master key was changed: start this node again with the new one";
            return Ok(Err(StoreError::Unavailable(why.to_owned()).into()));
        }
        let values = vec![
            blob.id.into(),
            blob.org.0.into(),
            blob.kind.into(),
            sealed_key.into(),
            now.into(),
            blob.expires_at.into(),
        ];
        if inside.fetch(BEGIN, values, |_| Ok(())).await?.is_empty() {
            let same = vec![blob.id.into(), blob.org.0.into(), blob.kind.into()];
            let is_same = inside.fetch_int(BEGUN, same).await? > 0;
            return Ok(if is_same { Ok(()) } else { Err(BlobError::Unknown) });
        }
        inside.run(FIRST_USE, vec![blob.org.0.into()]).await?;
        let most = vec![blob.org.0.into(), whole(self.bounds.blobs_of_org).into()];
        if inside.fetch(COUNT_ONE, most, |_| Ok(())).await?.is_empty() {
            return Ok(Err(BlobError::TooMuch("the organisation keeps as many as it may")));
        }
        transaction.commit().await?;
        Ok(Ok(()))
    }

    async fn written(
        &self,
        mut session: Session<'_>,
        id: Uuid,
        at: u64,
        piece: &[u8],
    ) -> Result<Result<(), BlobError>, Error> {
        let mut transaction = session.begin().await?;
        let mut inside = transaction.session();
        let wait = if matches!(inside, Session::Postgres(_)) { " FOR UPDATE" } else { "" };
        let found = inside.fetch(format!("{WRITABLE}{wait}"), vec![id.into()], |row| {
            let mut columns = row.columns();
            Ok((columns.int()?, columns.text()?.to_owned()))
        });
        let Some((had, sealed_key)) = found.await?.into_iter().next() else { return Ok(Err(BlobError::Unknown)) };
        let end = at.saturating_add(piece.len() as u64);
        if end > self.bounds.bytes_of_one {
            return Ok(Err(BlobError::TooMuch("it is larger than one may be")));
        }
        let (at, end) = (whole(at), whole(end));
        if at < had {
            let gone = inside.fetch(CUT, vec![id.into(), at.into()], |row| row.columns().int()).await?;
            if !gone.contains(&at) {
                return Ok(Err(BlobError::Misplaced));
            }
        } else if at > had {
            return Ok(Err(BlobError::Misplaced));
        }
        let org = inside.fetch_text(GROW, vec![end.into(), id.into()]).await?;
        let counted = vec![(end - had).into(), org.into(), whole(self.bounds.bytes_of_org).into()];
        if inside.fetch(COUNT_BYTES, counted, |_| Ok(())).await?.is_empty() {
            return Ok(Err(BlobError::TooMuch("the organisation keeps as many bytes as it may")));
        }
        let key = match self.key(&sealed_key) {
            Ok(key) => key,
            Err(why) => return Ok(Err(why)),
        };
        let sealed = key.seal(id, at, piece);
        let values: Vec<Value<'_>> = vec![id.into(), at.into(), (end - at).into(), sealed.into()];
        inside.run(PUT, values).await?;
        transaction.commit().await?;
        Ok(Ok(()))
    }

    fn key(&self, sealed: &str) -> Result<PieceKey, BlobError> {
        let closed = || BlobError::Store(StoreError::Broken("the key of a blob does not open".to_owned()));
        let text = self.vault.open(sealed).map_err(|_| closed())?;
        PieceKey::parse(text.expose()).ok_or_else(closed)
    }

    async fn piece(&self, id: Uuid, from: u64) -> Result<Vec<u8>, BlobError> {
        let found = self.database.rows(READ, vec![id.into(), whole(from).into()], |row| {
            let mut columns = row.columns();
            Ok((columns.text()?.to_owned(), columns.int()?, columns.text()?.to_owned()))
        });
        let Some((sealed_key, place, sealed)) = found.await?.into_iter().next() else {
            // One without any byte has no piece.
            let is_whole = self.database.rows(IS_WHOLE, vec![id.into()], |row| row.columns().int()).await?;
            return if is_whole.first() == Some(&1) { Ok(Vec::new()) } else { Err(BlobError::Unknown) };
        };
        let mut piece = self.key(&sealed_key)?.open(id, place, &sealed)?;
        let behind = usize::try_from(whole(from).saturating_sub(place)).unwrap_or(usize::MAX);
        Ok(piece.split_off(behind.min(piece.len())))
    }
}

impl Blobs for RowBlobs {
    fn begin<'a>(&'a self, blob: &'a NewBlob) -> Fut<'a, Result<(), BlobError>> {
        Box::pin(self.within(async move |session| self.begun(session, blob).await))
    }

    fn write<'a>(&'a self, id: Uuid, at: u64, piece: &'a [u8]) -> Fut<'a, Result<(), BlobError>> {
        Box::pin(async move {
            if piece.is_empty() || piece.len() > MOST_BLOB_PIECE {
                return Err(BlobError::Misplaced);
            }
            self.within(async |session| self.written(session, id, at, piece).await).await
        })
    }

    fn finish(&self, id: Uuid) -> Fut<'_, Result<StoredBlob, BlobError>> {
        Box::pin(self.within(async move |mut session| {
            let finished = session.fetch(FINISH, vec![id.into()], stored).await?;
            Ok(finished.into_iter().next().ok_or(BlobError::Unknown))
        }))
    }

    fn blob(&self, org: OrgId, id: Uuid) -> Fut<'_, Result<Option<StoredBlob>, StoreError>> {
        Box::pin(async move {
            let found = self.database.rows(ONE, vec![id.into(), org.0.into()], stored).await?;
            Ok(found.into_iter().next())
        })
    }

    fn read(&self, id: Uuid, from: u64) -> Fut<'_, Result<Vec<u8>, BlobError>> {
        Box::pin(self.piece(id, from))
    }

    fn list<'a>(
        &'a self,
        org: OrgId,
        kind: &'a str,
        after: Option<&'a StoredBlob>,
        most: u32,
    ) -> Fut<'a, Result<Vec<StoredBlob>, StoreError>> {
        let (time, id) = after.map_or((i64::MAX, Uuid::max()), |blob| (blob.created_at.micros(), blob.id));
        let most = i64::from(most.min(MOST_LISTED));
        Box::pin(async move {
            let values = vec![org.0.into(), kind.into(), time.into(), id.into(), most.into()];
            self.database.rows(LIST, values, stored).await
        })
    }

    fn delete(&self, org: OrgId, id: Uuid) -> Fut<'_, Result<bool, StoreError>> {
        Box::pin(self.database.on(Side::Write, async move |session| delete(session, org, id).await))
    }

    fn expire(&self, now: Timestamp, abandoned: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            let over = self.database.rows(OVER, vec![now.into(), abandoned.into()], |row| {
                let mut columns = row.columns();
                Ok((columns.uuid()?, OrgId(columns.uuid()?)))
            });
            let mut gone = 0;
            for (id, org) in over.await? {
                gone += u64::from(self.delete(org, id).await?);
            }
            Ok(gone)
        })
    }

    fn kept(&self) -> Fut<'_, Result<BlobsKept, StoreError>> {
        Box::pin(async move {
            let kept = self.database.rows(KEPT, vec![], |row| {
                let mut columns = row.columns();
                Ok(BlobsKept {
                    blobs: columns.int()?.max(0).unsigned_abs(),
                    bytes: columns.int()?.max(0).unsigned_abs(),
                })
            });
            Ok(kept.await?.first().copied().unwrap_or_default())
        })
    }
}

impl fmt::Debug for RowBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowBlobs").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

async fn delete(mut session: Session<'_>, org: OrgId, id: Uuid) -> Result<bool, Error> {
    let mut transaction = session.begin().await?;
    let mut inside = transaction.session();
    let gone = inside.fetch(DELETE, vec![id.into(), org.0.into()], |row| row.columns().int()).await?;
    let Some(bytes) = gone.into_iter().next() else { return Ok(false) };
    inside.run(DELETE_PIECES, vec![id.into()]).await?;
    inside.run(UNCOUNT, vec![bytes.into(), org.0.into()]).await?;
    transaction.commit().await?;
    Ok(true)
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn stored(row: &Row) -> Result<StoredBlob, Error> {
    let mut columns = row.columns();
    Ok(StoredBlob {
        id: columns.uuid()?,
        org: OrgId(columns.uuid()?),
        kind: columns.text()?.to_owned(),
        bytes: columns.int()?.max(0).unsigned_abs(),
        is_whole: columns.int()? != 0,
        created_at: columns.time()?,
        expires_at: columns.opt_int()?.map(Timestamp),
    })
}
