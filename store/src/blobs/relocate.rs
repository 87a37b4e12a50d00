//! Brings all pieces to where new ones go: out of rows into objects, back, or from one place outside to another. Each
//! piece is opened with its key, written, read back and compared, and only then its row is changed, if it is still what
//! was copied: so a run that is killed goes on where it was, and a gateway may serve and write meanwhile.

use super::collect;
use super::object_storage::Lost;
use super::piece::{SEALED_PIECE, as_text, from_text};
use super::{PieceBytes, RowBlobs};
use crate::database::Side;
use crate::time_limit::now;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use gateway_domain::ports::StoreError;
use uuid::Uuid;

/// Those that are not where they belong, behind the last that was looked at. A place of rows has no name.
const ELSEWHERE: &str = "SELECT p.blob, p.place, p.bytes, p.sealed, p.object, b.sealed_key \
    FROM blob_piece p JOIN blob b ON b.id = p.blob \
    WHERE (p.blob > $1 OR (p.blob = $1 AND p.place > $2)) \
    AND ((p.object IS NULL AND $4 <> '') OR (p.object IS NOT NULL AND ($4 = '' OR SUBSTR(p.object, 1, CAST($3 AS INTEGER)) <> $4))) \
    ORDER BY p.blob, p.place LIMIT 32";
const TO_OBJECT: &str = "UPDATE blob_piece SET sealed = '', object = $1 \
    WHERE blob = $2 AND place = $3 AND sealed = $4 AND COALESCE(object, '') = $5 RETURNING place";
const TO_ROW: &str = "UPDATE blob_piece SET sealed = $1, object = NULL \
    WHERE blob = $2 AND place = $3 AND sealed = $4 AND COALESCE(object, '') = $5 RETURNING place";
const NAMED: &str = "SELECT COALESCE(object, '') FROM blob_piece WHERE blob = $1 AND place = $2";

const AT_ONCE: usize = 8;

/// What was brought elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relocated {
    pub pieces: u64,
    pub bytes: u64,
    /// Written anew or removed by somebody else while they were copied.
    pub overtaken: u64,
}

struct FarPiece {
    blob: Uuid,
    place: i64,
    bytes: u64,
    kept: PieceBytes,
    sealed_key: String,
}

impl FarPiece {
    /// What its row says as long as nobody changes it.
    fn row(&self) -> (&str, &str) {
        match &self.kept {
            PieceBytes::Row(sealed) => (sealed, ""),
            PieceBytes::Object(object) => ("", object),
        }
    }
}

impl RowBlobs {
    /// Brings pieces to where new ones go until none lies elsewhere; `told` hears how far it is.
    pub async fn relocate(&self, told: &mut (dyn FnMut(Relocated) + Send)) -> Result<Relocated, StoreError> {
        let mut done = Relocated::default();
        loop {
            let before = done.overtaken;
            self.pass(&mut done, told).await?;
            // What was written meanwhile is looked at once more.
            if done.overtaken == before {
                return Ok(done);
            }
        }
    }

    async fn pass(&self, done: &mut Relocated, told: &mut (dyn FnMut(Relocated) + Send)) -> Result<(), StoreError> {
        let mut last = (Uuid::nil(), -1);
        loop {
            let far = self.elsewhere(last).await?;
            let Some(end) = far.last() else { return Ok(()) };
            last = (end.blob, end.place);
            let moves =
                stream::iter(far).map(async |piece| Ok::<_, StoreError>((self.bring(&piece).await?, piece.bytes)));
            let brought: Vec<(bool, u64)> = moves.buffer_unordered(AT_ONCE).try_collect().await?;
            for (was_brought, bytes) in brought {
                done.overtaken += u64::from(!was_brought);
                done.pieces += u64::from(was_brought);
                done.bytes += if was_brought { bytes } else { 0 };
            }
            told(*done);
        }
    }

    async fn elsewhere(&self, (blob, place): (Uuid, i64)) -> Result<Vec<FarPiece>, StoreError> {
        let name = self.outside.current().map_or("", |place| place.name());
        let length = i64::try_from(name.chars().count()).unwrap_or(i64::MAX);
        let values = vec![blob.into(), place.into(), length.into(), name.into()];
        let found = self.database.rows(ELSEWHERE, values, |row| {
            let mut columns = row.columns();
            let (blob, place, bytes) = (columns.uuid()?, columns.int()?, columns.int()?.max(0).unsigned_abs());
            let sealed = columns.text()?.to_owned();
            let kept =
                columns.opt_text()?.map_or(PieceBytes::Row(sealed), |object| PieceBytes::Object(object.to_owned()));
            Ok(FarPiece { blob, place, bytes, kept, sealed_key: columns.text()?.to_owned() })
        });
        found.await
    }

    /// False: somebody was faster.
    async fn bring(&self, piece: &FarPiece) -> Result<bool, StoreError> {
        let sealed = match &piece.kept {
            PieceBytes::Row(sealed) => from_text(sealed)?,
            PieceBytes::Object(object) => match self.outside.of(object)?.get(object, SEALED_PIECE).await {
                Ok(sealed) => sealed,
                Err(Lost::Missing) => return self.is_overtaken(piece).await,
                Err(Lost::Store(why)) => return Err(why),
            },
        };
        let opened = self.key(&piece.sealed_key).and_then(|key| Ok(key.reveal(piece.blob, piece.place, &sealed)?));
        let opened = opened.map_err(|e| StoreError::Broken(e.to_string()))?;
        if opened.len() as u64 != piece.bytes {
            return Err(StoreError::Broken(format!("a piece of blob {} is not as long as its row says", piece.blob)));
        }
        match self.outside.current() {
            Some(_) => self.to_object(piece, sealed).await,
            None => self.change_row(piece, as_text(&sealed), None).await,
        }
    }

    async fn to_object(&self, piece: &FarPiece, sealed: Vec<u8>) -> Result<bool, StoreError> {
        let Some(place) = self.outside.current() else { return Ok(false) };
        let object = place.new_object(piece.blob, piece.place.max(0).unsigned_abs());
        let announced = self.database.on(Side::Write, async |mut session| {
            let now = now(&mut session).await?;
            collect::announce(&mut session, &object, now).await
        });
        announced.await?;
        place.put(&object, sealed.clone()).await?;
        let back = place.get(&object, SEALED_PIECE).await.map_err(|lost| match lost {
            Lost::Missing => StoreError::Broken(format!("{} does not have what it took", place.name())),
            Lost::Store(why) => why,
        })?;
        if back != sealed {
            return Err(StoreError::Broken(format!("{} gives back other bytes than it took", place.name())));
        }
        self.change_row(piece, object.clone(), Some(&object)).await
    }

    /// `new` is the sealed text, or the name of the object that was announced.
    async fn change_row(&self, piece: &FarPiece, new: String, announced: Option<&str>) -> Result<bool, StoreError> {
        let changed = self.database.on(Side::Write, async |mut session| {
            let mut transaction = session.begin().await?;
            let mut inside = transaction.session();
            let (sealed, object) = piece.row();
            let sql = if announced.is_some() { TO_OBJECT } else { TO_ROW };
            let values = vec![new.into(), piece.blob.into(), piece.place.into(), sealed.into(), object.into()];
            let is_same = !inside.fetch(sql, values, |_| Ok(())).await?.is_empty();
            if let Some(object) = announced {
                if !is_same {
                    collect::doom(&mut inside, object).await?;
                } else if !collect::name(&mut inside, object).await? {
                    return Ok(false);
                }
            }
            if is_same && let PieceBytes::Object(object) = &piece.kept {
                collect::doom_named(&mut inside, object).await?;
            }
            transaction.commit().await?;
            Ok(is_same)
        });
        changed.await
    }

    /// An object that is not there is lost, unless its piece names another by now.
    async fn is_overtaken(&self, piece: &FarPiece) -> Result<bool, StoreError> {
        let named = self.database.rows(NAMED, vec![piece.blob.into(), piece.place.into()], |row| {
            row.columns().text().map(ToOwned::to_owned)
        });
        let is_same = named.await?.first().is_some_and(|named| named == piece.row().1);
        if is_same {
            return Err(StoreError::Broken(format!("an object of blob {} is not there", piece.blob)));
        }
        Ok(false)
    }
}
