//! Blobs as rows: pieces, each sealed with a key of its blob, which the vault seals. A new master key so needs the keys
//! sealed anew and no piece. What a piece is sealed with names its blob and place, so that none can stand for another.
//! The bytes of a piece lie in its row, or in an object outside that the row names. Such an object is noted before it
//! is put and until a piece names it, so that none is ever forgotten, whenever a process dies.

mod collect;
mod http;
mod object_storage;
mod piece;
mod relocate;

use crate::database::{Database, Side};
use crate::session::{DatabaseRow, Session, Value};
use crate::time_limit::now;
use gateway_domain::ports::{
    BlobBounds, BlobError, Blobs, BlobsKept, Fut, MOST_BLOB_PIECE, NewBlob, StoreError, StoredBlob, Vault,
};
use gateway_domain::{OrgId, Timestamp};
pub(crate) use object_storage::Lost;
pub use object_storage::{BadBlobUrl, BlobPlaces, ObjectPlace};
use piece::{PieceKey, SEALED_PIECE};
pub use relocate::Relocated;
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
const WRITABLE: &str = "SELECT bytes, sealed_key, kind FROM blob WHERE id = $1 AND whole = 0";
const ROOM: &str = "SELECT b.bytes, b.sealed_key, b.kind, u.bytes FROM blob b JOIN blob_use u ON u.org = b.org \
    WHERE b.id = $1 AND b.whole = 0";
const CUT: &str = "DELETE FROM blob_piece WHERE blob = $1 AND place >= $2 RETURNING place";
const PUT: &str = "INSERT INTO blob_piece (blob, place, bytes, sealed) VALUES ($1, $2, $3, $4)";
const PUT_OBJECT: &str = "INSERT INTO blob_piece (blob, place, bytes, sealed, object) VALUES ($1, $2, $3, '', $4)";
const COUNT_BYTES: &str = "UPDATE blob_use SET bytes = bytes + $1 \
    WHERE org = $2 AND ($1 <= 0 OR bytes + $1 <= $3) RETURNING bytes";
const FINISH: &str = "UPDATE blob SET whole = 1 WHERE id = $1 AND whole = 0 \
    RETURNING id, org, kind, bytes, whole, created_at, expires_at";
const ONE: &str = "SELECT id, org, kind, bytes, whole, created_at, expires_at FROM blob WHERE id = $1 AND org = $2";
const LIST: &str = "SELECT id, org, kind, bytes, whole, created_at, expires_at FROM blob \
    WHERE org = $1 AND kind = $2 AND (created_at < $3 OR (created_at = $3 AND id < $4)) \
    ORDER BY created_at DESC, id DESC LIMIT $5";
const READ: &str = "SELECT b.sealed_key, p.place, p.sealed, p.object FROM blob b JOIN blob_piece p ON p.blob = b.id \
    WHERE b.id = $1 AND b.whole = 1 AND p.place <= $2 ORDER BY p.place DESC LIMIT 1";
/// Small ones behind a place: a blob that was written line by line is read many lines at a time.
const READ_BEHIND: &str = "SELECT place, sealed FROM blob_piece \
    WHERE blob = $1 AND place >= $2 AND bytes <= $3 AND object IS NULL ORDER BY place LIMIT $4";
const IS_WHOLE: &str = "SELECT COUNT(*) FROM blob WHERE id = $1 AND whole = 1";
const DELETE: &str = "DELETE FROM blob WHERE id = $1 AND org = $2 RETURNING bytes";
const DELETE_PIECES: &str = "DELETE FROM blob_piece WHERE blob = $1";
const UNCOUNT: &str = "UPDATE blob_use SET blobs = blobs - 1, bytes = bytes - $1 WHERE org = $2";
const OVER: &str = "SELECT id, org FROM blob \
    WHERE expires_at <= $1 OR (whole = 0 AND created_at < $2) LIMIT 50";
const KEPT: &str = "SELECT COALESCE(CAST(SUM(blobs) AS BIGINT), 0), COALESCE(CAST(SUM(bytes) AS BIGINT), 0), \
    COALESCE(MAX(bytes), 0), (SELECT COUNT(*) FROM blob_unnamed) FROM blob_use";

/// Bytes of a piece that is small, and how many of them are read at once: together as many as one large one.
const SMALL_PIECE: usize = 4 << 10;
const SMALL_AT_ONCE: usize = MOST_BLOB_PIECE / SMALL_PIECE - 1;

/// Most rows of a list.
const MOST_LISTED: u32 = 1_000;

/// Blobs in the database of the configuration, and their bytes there or outside.
pub struct RowBlobs {
    database: Database,
    vault: Arc<dyn Vault>,
    bounds: BlobBounds,
    outside: BlobPlaces,
}

/// A piece on its way: into its row, unless an object has it already.
#[derive(Clone, Copy)]
struct NewPiece<'p> {
    blob: Uuid,
    at: u64,
    bytes: &'p [u8],
    object: Option<&'p str>,
}

impl NewPiece<'_> {
    fn end(&self) -> u64 {
        self.at.saturating_add(self.bytes.len() as u64)
    }
}

/// Where the bytes of a piece are.
enum PieceBytes {
    Row(String),
    Object(String),
}

const NO_ROOM: BlobError = BlobError::TooMuch("the organisation keeps as many bytes as it may (--file-store-max)");

impl RowBlobs {
    pub fn new(database: Database, vault: Arc<dyn Vault>, bounds: BlobBounds) -> Self {
        Self { database, vault, bounds, outside: BlobPlaces::default() }
    }

    /// Adds places outside the database, where pieces are found and new ones may go.
    #[must_use]
    pub fn with_places(self, outside: BlobPlaces) -> Self {
        Self { outside, ..self }
    }

    /// Does work like [`Database::on`], where it has more ways to fail than the database.
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
        let most = vec![blob.org.0.into(), whole(self.bounds_of(blob.kind).blobs_of_org).into()];
        if inside.fetch(COUNT_ONE, most, |_| Ok(())).await?.is_empty() {
            return Ok(Err(BlobError::TooMuch("the organisation keeps as many as it may")));
        }
        transaction.commit().await?;
        Ok(Ok(()))
    }

    /// Notes an object that is about to be put; the key to seal it with. What would be refused afterwards is refused
    /// here, before its bytes go anywhere.
    async fn announced(
        &self,
        mut session: Session<'_>,
        piece: NewPiece<'_>,
    ) -> Result<Result<PieceKey, BlobError>, Error> {
        let now = now(&mut session).await?;
        let mut transaction = session.begin().await?;
        let mut inside = transaction.session();
        let found = inside.fetch(ROOM, vec![piece.blob.into()], |row| {
            let mut columns = row.columns();
            let (had, sealed_key) = (columns.int()?, columns.text()?.to_owned());
            Ok((had, sealed_key, columns.text()?.to_owned(), columns.int()?))
        });
        let Some((had, sealed_key, kind, used)) = found.await?.into_iter().next() else {
            return Ok(Err(BlobError::Unknown));
        };
        let bounds = self.bounds_of(&kind);
        if let Err(why) = fits(piece, bounds) {
            return Ok(Err(why));
        }
        if whole(piece.at) > had {
            return Ok(Err(BlobError::Misplaced));
        }
        if whole(piece.end()) > had && used.saturating_add(whole(piece.end()) - had) > whole(bounds.bytes_of_org) {
            return Ok(Err(NO_ROOM));
        }
        collect::announce(&mut inside, piece.object.unwrap_or_default(), now).await?;
        transaction.commit().await?;
        Ok(self.key(&sealed_key))
    }

    /// What one of this kind is held to.
    fn bounds_of(&self, kind: &str) -> BlobBounds {
        if !self.bounds.never_refused.contains(&kind) {
            return self.bounds;
        }
        BlobBounds { bytes_of_one: u64::MAX, bytes_of_org: u64::MAX, blobs_of_org: u64::MAX, ..self.bounds }
    }

    async fn written(&self, mut session: Session<'_>, piece: NewPiece<'_>) -> Result<Result<(), BlobError>, Error> {
        let mut transaction = session.begin().await?;
        let mut inside = transaction.session();
        let id = piece.blob;
        let wait = if matches!(inside, Session::Postgres(_)) { " FOR UPDATE" } else { "" };
        let found = inside.fetch(format!("{WRITABLE}{wait}"), vec![id.into()], |row| {
            let mut columns = row.columns();
            Ok((columns.int()?, columns.text()?.to_owned(), columns.text()?.to_owned()))
        });
        let Some((had, sealed_key, kind)) = found.await?.into_iter().next() else { return Ok(Err(BlobError::Unknown)) };
        let bounds = self.bounds_of(&kind);
        if let Err(why) = fits(piece, bounds) {
            return Ok(Err(why));
        }
        let (at, end) = (whole(piece.at), whole(piece.end()));
        if at < had {
            collect::doom_pieces(&mut inside, id, at).await?;
            let gone = inside.fetch(CUT, vec![id.into(), at.into()], |row| row.columns().int()).await?;
            if !gone.contains(&at) {
                return Ok(Err(BlobError::Misplaced));
            }
        } else if at > had {
            return Ok(Err(BlobError::Misplaced));
        }
        let org = inside.fetch_text(GROW, vec![end.into(), id.into()]).await?;
        let counted = vec![(end - had).into(), org.into(), whole(bounds.bytes_of_org).into()];
        if inside.fetch(COUNT_BYTES, counted, |_| Ok(())).await?.is_empty() {
            return Ok(Err(NO_ROOM));
        }
        let mut values: Vec<Value<'_>> = vec![id.into(), at.into(), (end - at).into()];
        if let Some(object) = piece.object {
            if !collect::name(&mut inside, object).await? {
                return Ok(Err(late()));
            }
            values.push(object.into());
            inside.run(PUT_OBJECT, values).await?;
        } else {
            let key = match self.key(&sealed_key) {
                Ok(key) => key,
                Err(why) => return Ok(Err(why)),
            };
            values.push(key.seal(id, at, piece.bytes).into());
            inside.run(PUT, values).await?;
        }
        transaction.commit().await?;
        Ok(Ok(()))
    }

    /// The object stands before its row does: a reader never finds a name without bytes.
    async fn written_outside(&self, place: &ObjectPlace, piece: NewPiece<'_>) -> Result<(), BlobError> {
        let object = place.new_object(piece.blob, piece.at);
        let piece = NewPiece { object: Some(&object), ..piece };
        let key = self.within(async |session| self.announced(session, piece).await).await?;
        place.put(&object, key.close(piece.blob, whole(piece.at), piece.bytes)).await?;
        let noted = self.within(async |session| self.written(session, piece).await).await;
        if matches!(noted, Err(BlobError::Unknown | BlobError::TooMuch(_) | BlobError::Misplaced)) {
            // Should this fail, it is doomed when its time is over.
            let _ = self.database.on(Side::Write, async |mut session| collect::doom(&mut session, &object).await).await;
        }
        noted
    }

    fn key(&self, sealed: &str) -> Result<PieceKey, BlobError> {
        let closed = || BlobError::Store(StoreError::Broken("the key of a blob does not open".to_owned()));
        let text = self.vault.open(sealed).map_err(|_| closed())?;
        PieceKey::parse(text.expose()).ok_or_else(closed)
    }

    async fn piece(&self, id: Uuid, from: u64) -> Result<Vec<u8>, BlobError> {
        // A piece that moves, or is written anew, has another object the next time that it is looked up.
        for is_last in [false, false, true] {
            let Some(found) = self.row_of(id, from).await? else {
                // One without any byte has no piece.
                let is_whole = self.database.rows(IS_WHOLE, vec![id.into()], |row| row.columns().int()).await?;
                return if is_whole.first() == Some(&1) { Ok(Vec::new()) } else { Err(BlobError::Unknown) };
            };
            let key = self.key(&found.sealed_key)?;
            let mut piece = match &found.kept {
                PieceBytes::Row(sealed) => key.open(id, found.place, sealed)?,
                PieceBytes::Object(object) => match self.outside.of(object)?.get(object, SEALED_PIECE).await {
                    Ok(sealed) => key.reveal(id, found.place, &sealed)?,
                    Err(Lost::Missing) if !is_last => continue,
                    Err(Lost::Missing) => break,
                    Err(Lost::Store(why)) => return Err(why.into()),
                },
            };
            if let (PieceBytes::Row(_), 1..=SMALL_PIECE) = (&found.kept, piece.len()) {
                self.add_behind(id, &key, (found.place, &mut piece)).await?;
            }
            let behind = usize::try_from(whole(from).saturating_sub(found.place)).unwrap_or(usize::MAX);
            return Ok(piece.split_off(behind.min(piece.len())));
        }
        Err(StoreError::Broken("the object of a piece is not there".to_owned()).into())
    }

    /// Small pieces that follow one at this place without a gap.
    async fn add_behind(
        &self,
        id: Uuid,
        key: &PieceKey,
        (place, piece): (i64, &mut Vec<u8>),
    ) -> Result<(), StoreError> {
        let end = |piece: &Vec<u8>| place.saturating_add(i64::try_from(piece.len()).unwrap_or(i64::MAX));
        let [small, most] = [SMALL_PIECE, SMALL_AT_ONCE].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
        let values = vec![id.into(), end(piece).into(), small.into(), most.into()];
        let found = self.database.rows(READ_BEHIND, values, |row| {
            let mut columns = row.columns();
            Ok((columns.int()?, columns.text()?.to_owned()))
        });
        for (next, sealed) in found.await? {
            if next != end(piece) {
                break;
            }
            piece.extend(key.open(id, next, &sealed)?);
        }
        Ok(())
    }

    async fn row_of(&self, id: Uuid, from: u64) -> Result<Option<FoundPiece>, StoreError> {
        let found = self.database.rows(READ, vec![id.into(), whole(from).into()], |row| {
            let mut columns = row.columns();
            let (sealed_key, place) = (columns.text()?.to_owned(), columns.int()?);
            let sealed = columns.text()?.to_owned();
            let kept =
                columns.opt_text()?.map_or(PieceBytes::Row(sealed), |object| PieceBytes::Object(object.to_owned()));
            Ok(FoundPiece { sealed_key, place, kept })
        });
        Ok(found.await?.into_iter().next())
    }
}

fn fits(piece: NewPiece<'_>, bounds: BlobBounds) -> Result<(), BlobError> {
    let fits = piece.end() <= bounds.bytes_of_one;
    if fits { Ok(()) } else { Err(BlobError::TooMuch("it is larger than one may be")) }
}

struct FoundPiece {
    sealed_key: String,
    place: i64,
    kept: PieceBytes,
}

/// Its writer stood still for so long that it was taken for dead.
fn late() -> BlobError {
    StoreError::Unavailable("the object of a piece was removed before the piece was noted".to_owned()).into()
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
            let piece = NewPiece { blob: id, at, bytes: piece, object: None };
            match self.outside.current() {
                Some(place) => self.written_outside(place, piece).await,
                None => self.within(async |session| self.written(session, piece).await).await,
            }
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

    fn collect(&self, now: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(collect::collect(&self.database, &self.outside, now))
    }

    fn kept(&self) -> Fut<'_, Result<BlobsKept, StoreError>> {
        Box::pin(async move {
            let kept = self.database.rows(KEPT, vec![], |row| {
                let mut columns = row.columns();
                Ok(BlobsKept {
                    blobs: columns.int()?.max(0).unsigned_abs(),
                    bytes: columns.int()?.max(0).unsigned_abs(),
                    most_of_org: columns.int()?.max(0).unsigned_abs(),
                    unnamed: columns.int()?.max(0).unsigned_abs(),
                })
            });
            Ok(kept.await?.first().copied().unwrap_or_default())
        })
    }
}

impl fmt::Debug for RowBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RowBlobs");
        shown.field("bounds", &self.bounds).field("outside", &self.outside).finish_non_exhaustive()
    }
}

async fn delete(mut session: Session<'_>, org: OrgId, id: Uuid) -> Result<bool, Error> {
    let mut transaction = session.begin().await?;
    let mut inside = transaction.session();
    let gone = inside.fetch(DELETE, vec![id.into(), org.0.into()], |row| row.columns().int()).await?;
    let Some(bytes) = gone.into_iter().next() else { return Ok(false) };
    collect::doom_pieces(&mut inside, id, 0).await?;
    inside.run(DELETE_PIECES, vec![id.into()]).await?;
    inside.run(UNCOUNT, vec![bytes.into(), org.0.into()]).await?;
    transaction.commit().await?;
    Ok(true)
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn stored(row: &DatabaseRow) -> Result<StoredBlob, Error> {
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
