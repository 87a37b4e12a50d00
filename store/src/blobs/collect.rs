//! Objects outside the database that no piece names: those that are about to be written, and those whose piece is gone.
//! The list is kept with the rows, in the transactions that write them, so that a bucket never has to be listed. An
//! object is doomed before it is removed, and one that is doomed can be named no more: neither a slow writer nor two
//! nodes that collect at once lose anything.

use super::object_storage::{BlobPlaces, ObjectPlace};
use crate::database::{Database, Side};
use crate::session::Session;
use futures_util::{StreamExt as _, stream};
use gateway_domain::Timestamp;
use gateway_domain::ports::StoreError;
use sqlx::Error;
use uuid::Uuid;

const ANNOUNCE: &str = "INSERT INTO blob_unnamed (object, due, doomed) VALUES ($1, $2, 0)";
const NAME: &str = "DELETE FROM blob_unnamed WHERE object = $1 AND doomed = 0 RETURNING object";
const DOOM: &str = "UPDATE blob_unnamed SET due = 0, doomed = 1 WHERE object = $1";
const DOOM_NAMED: &str = "INSERT INTO blob_unnamed (object, due, doomed) VALUES ($1, 0, 1)";
const DOOM_PIECES: &str = "INSERT INTO blob_unnamed (object, due, doomed) \
    SELECT object, 0, 1 FROM blob_piece WHERE blob = $1 AND place >= $2 AND object IS NOT NULL";
/// Marks what is to be removed from one place: a node removes only what it can reach.
const DOOM_DUE: &str = "UPDATE blob_unnamed SET doomed = 1 WHERE object IN (SELECT object FROM blob_unnamed \
    WHERE due <= $1 AND SUBSTR(object, 1, CAST($2 AS INTEGER)) = $3 ORDER BY due LIMIT 200) RETURNING object";
const GONE: &str = "DELETE FROM blob_unnamed WHERE object = $1 AND doomed = 1";

/// Far longer than all tries to put an object take.
const ANNOUNCED_MICROS: i64 = 3_600 * 1_000_000;
/// Objects that are removed side by side.
const AT_ONCE: usize = 8;

pub(super) async fn announce(session: &mut Session<'_>, object: &str, now: i64) -> Result<(), Error> {
    session.run(ANNOUNCE, vec![object.into(), now.saturating_add(ANNOUNCED_MICROS).into()]).await
}

/// Notes that a piece names the object from now on. False: the object is doomed.
pub(super) async fn name(session: &mut Session<'_>, object: &str) -> Result<bool, Error> {
    Ok(!session.fetch(NAME, vec![object.into()], |_| Ok(())).await?.is_empty())
}

/// Dooms an object that was announced and will not be named.
pub(super) async fn doom(session: &mut Session<'_>, object: &str) -> Result<(), Error> {
    session.run(DOOM, vec![object.into()]).await
}

/// Dooms an object whose piece now lies elsewhere.
pub(super) async fn doom_named(session: &mut Session<'_>, object: &str) -> Result<(), Error> {
    session.run(DOOM_NAMED, vec![object.into()]).await
}

/// Dooms the objects of a blob's pieces from a place on, which are about to go.
pub(super) async fn doom_pieces(session: &mut Session<'_>, blob: Uuid, from: i64) -> Result<(), Error> {
    session.run(DOOM_PIECES, vec![blob.into(), from.into()]).await
}

/// Removes some of what is due; how many. What a place does not give away now is due still.
pub(super) async fn collect(database: &Database, outside: &BlobPlaces, now: Timestamp) -> Result<u64, StoreError> {
    let mut removed = 0;
    for place in outside.places.iter() {
        removed += collect_at(database, place, now).await?;
    }
    Ok(removed)
}

async fn collect_at(database: &Database, place: &ObjectPlace, now: Timestamp) -> Result<u64, StoreError> {
    let doomed = database.on(Side::Write, async |mut session| {
        let length = i64::try_from(place.name().chars().count()).unwrap_or(i64::MAX);
        let values = vec![now.into(), length.into(), place.name().into()];
        session.fetch(DOOM_DUE, values, |row| row.columns().text().map(ToOwned::to_owned)).await
    });
    let removals = stream::iter(doomed.await?).map(async |object| (place.delete(&object).await, object));
    let outcomes: Vec<(Result<(), StoreError>, String)> = removals.buffer_unordered(AT_ONCE).collect().await;
    let (gone, kept): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(|(outcome, _)| outcome.is_ok());
    database
        .on(Side::Write, async |mut session| {
            let mut transaction = session.begin().await?;
            for (_, object) in &gone {
                transaction.session().run(GONE, vec![object.as_str().into()]).await?;
            }
            transaction.commit().await
        })
        .await?;
    match kept.into_iter().find_map(|(outcome, _)| outcome.err()) {
        Some(why) => Err(why),
        None => Ok(gone.len() as u64),
    }
}
