//! Large bytes in pieces: sealed, resumed, bounded, found by their owner only, and gone when their time is over; in
//! rows, in a folder and in a bucket alike.

mod outside;

use crate::{Engine, House, id};
use gateway_domain::ports::{BlobBounds, BlobError, Blobs, BlobsKept, MOST_BLOB_PIECE, NewBlob};
use gateway_domain::{OrgId, Timestamp};
use gateway_store::{BlobPlaces, Database, MasterKey, RowBlobs, SealingVault};
use gateway_testing::Bucket;
use sqlx::Row;
use std::sync::Arc;

/// Runs each named test once per place that bytes can lie in.
macro_rules! on_every_place {
    ($($test:ident),+ $(,)?) => {
        on_every_place!(@ file rows File: $($test),+);
        on_every_place!(@ memory rows Memory: $($test),+);
        on_every_place!(@ postgres rows Postgres: $($test),+);
        on_every_place!(@ folder folder File: $($test),+);
        on_every_place!(@ bucket bucket File: $($test),+);
        on_every_place!(@ shared_bucket bucket Postgres: $($test),+);
    };
    (@ $module:ident $home:ident $engine:ident: $($test:ident),+) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    super::$test(super::Home::$home(crate::Engine::$engine)).await;
                }
            )+
        }
    };
}

on_every_place!(
    what_is_written_is_read_from_any_place,
    a_blob_of_many_small_pieces_is_read_whole,
    a_writer_goes_on_from_where_it_was,
    bounds_hold_and_free_themselves,
    what_expired_or_was_abandoned_goes,
    a_list_is_walked_page_by_page,
    a_new_master_key_opens_what_was_kept,
);

const ORG: OrgId = OrgId(uuid::Uuid::from_u128(1_000));
/// Later than any object that is about to be written.
const LATER: Timestamp = Timestamp(i64::MAX);

/// A database, and what lies beside it.
pub(super) struct Home {
    house: House,
    bucket: Option<Bucket>,
    urls: Vec<String>,
}

impl Home {
    fn rows(engine: Engine) -> Self {
        Self { house: House::new(engine), bucket: None, urls: Vec::new() }
    }

    fn folder(engine: Engine) -> Self {
        let house = House::new(engine);
        let urls = vec![format!("file://{}", house.path("blobs").display())];
        Self { house, bucket: None, urls }
    }

    fn bucket(engine: Engine) -> Self {
        let bucket = Bucket::start();
        let urls = vec![bucket.url()];
        Self { house: House::new(engine), bucket: Some(bucket), urls }
    }

    async fn open(&self) -> Database {
        self.house.open().await
    }

    fn places(&self) -> BlobPlaces {
        BlobPlaces::open(&self.urls, &[]).unwrap()
    }

    fn blobs(&self, database: &Database) -> RowBlobs {
        RowBlobs::new(database.clone(), vault(), BlobBounds::default()).with_places(self.places())
    }

    /// All that nothing names goes; what is left outside the database.
    async fn collected(&self, blobs: &RowBlobs) -> usize {
        while blobs.collect(LATER).await.unwrap() > 0 {}
        assert_eq!(blobs.kept().await.unwrap().unnamed, 0);
        let files = || walk(&self.house.path("blobs"));
        self.bucket.as_ref().map_or_else(files, |bucket| bucket.objects().len())
    }

    fn is_outside(&self) -> bool {
        !self.urls.is_empty()
    }
}

/// Files below a folder.
fn walk(folder: &std::path::Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.flatten().map(|entry| if entry.path().is_dir() { walk(&entry.path()) } else { 1 }).sum()
}

fn new_blob(n: u128) -> NewBlob {
    NewBlob { id: id(n), org: ORG, kind: "file", expires_at: None }
}

fn vault() -> Arc<SealingVault> {
    Arc::new(SealingVault::new(&MasterKey::generate()))
}

/// All that is there, piece by piece.
async fn all(blobs: &RowBlobs, n: u128) -> Vec<u8> {
    let mut read = Vec::new();
    loop {
        let piece = blobs.read(id(n), read.len() as u64).await.unwrap();
        assert!(piece.len() <= MOST_BLOB_PIECE);
        if piece.is_empty() {
            return read;
        }
        read.extend(piece);
    }
}

async fn kept(blobs: &RowBlobs) -> (u64, u64) {
    let BlobsKept { blobs, bytes, .. } = blobs.kept().await.unwrap();
    (blobs, bytes)
}

async fn put(blobs: &RowBlobs, blob: &NewBlob, bytes: &[u8]) -> Result<(), BlobError> {
    blobs.begin(blob).await?;
    for (number, piece) in bytes.chunks(MOST_BLOB_PIECE).enumerate() {
        blobs.write(blob.id, (number * MOST_BLOB_PIECE) as u64, piece).await?;
    }
    blobs.finish(blob.id).await.map(drop)
}

async fn what_is_written_is_read_from_any_place(home: Home) {
    let database = home.open().await;
    let blobs = home.blobs(&database);
    let bytes: Vec<u8> = (0..MOST_BLOB_PIECE * 2 + 1_000).map(|n| (n % 251) as u8).collect();
    put(&blobs, &new_blob(1), &bytes).await.unwrap();
    assert!(all(&blobs, 1).await == bytes);
    for from in [0, 1, MOST_BLOB_PIECE - 1, MOST_BLOB_PIECE, MOST_BLOB_PIECE * 2 + 999] {
        let piece = blobs.read(id(1), from as u64).await.unwrap();
        assert!(!piece.is_empty() && bytes[from..].starts_with(&piece), "from {from}");
    }
    for past in [bytes.len() as u64, u64::MAX] {
        assert!(blobs.read(id(1), past).await.unwrap().is_empty());
    }
    let stored = blobs.blob(ORG, id(1)).await.unwrap().unwrap();
    assert_eq!((stored.bytes, stored.is_whole, stored.kind.as_str()), (bytes.len() as u64, true, "file"));
    assert_eq!(blobs.blob(OrgId(id(7)), id(1)).await.unwrap(), None, "nobody else's");
    // One without a byte is one all the same.
    put(&blobs, &new_blob(2), b"").await.unwrap();
    assert!(blobs.read(id(2), 0).await.unwrap().is_empty());
    assert!(matches!(blobs.read(id(3), 0).await, Err(BlobError::Unknown)));
    assert!(!blobs.delete(OrgId(id(7)), id(1)).await.unwrap());
    assert!(blobs.delete(ORG, id(1)).await.unwrap());
    assert!(!blobs.delete(ORG, id(1)).await.unwrap());
    assert!(matches!(blobs.read(id(1), 0).await, Err(BlobError::Unknown)));
}

/// The pieces are those of a log that is written line by line, with a large one among them.
async fn a_blob_of_many_small_pieces_is_read_whole(home: Home) {
    let database = home.open().await;
    let blobs = home.blobs(&database);
    let count = if home.is_outside() { 12 } else { 700 };
    blobs.begin(&new_blob(1)).await.unwrap();
    let mut bytes = Vec::new();
    for n in 0..count {
        let piece = vec![(n % 251) as u8; if n == count / 2 { 20_000 } else { 1 + n % 90 }];
        blobs.write(id(1), bytes.len() as u64, &piece).await.unwrap();
        bytes.extend(piece);
    }
    blobs.finish(id(1)).await.unwrap();
    let (mut read, mut asked) = (Vec::new(), 0);
    while read.len() < bytes.len() {
        let piece = blobs.read(id(1), read.len() as u64).await.unwrap();
        assert!(!piece.is_empty() && piece.len() <= MOST_BLOB_PIECE);
        read.extend(piece);
        asked += 1;
    }
    assert!(read == bytes);
    assert!(asked <= if home.is_outside() { count } else { 13 }, "{asked}");
    for from in [1, 5_000, bytes.len() - 1] {
        let piece = blobs.read(id(1), from as u64).await.unwrap();
        assert!(!piece.is_empty() && bytes[from..].starts_with(&piece), "from {from}");
    }
}

async fn a_writer_goes_on_from_where_it_was(home: Home) {
    let database = home.open().await;
    let blobs = home.blobs(&database);
    let (new, at) = (new_blob(1), id(1));
    blobs.begin(&new).await.unwrap();
    blobs.write(at, 0, b"one ").await.unwrap();
    blobs.write(at, 4, b"two ").await.unwrap();
    blobs.write(at, 8, b"three ").await.unwrap();
    assert!(matches!(blobs.read(at, 0).await, Err(BlobError::Unknown)), "not before it is whole");
    // Killed, and begun again from what it had noted: place 4.
    blobs.begin(&new).await.unwrap();
    blobs.write(at, 4, b"zwei").await.unwrap();
    for (place, piece) in [(3, &b"x"[..]), (9, b"x"), (8, b""), (8, &vec![0; MOST_BLOB_PIECE + 1])] {
        let refused = blobs.write(at, place, piece).await;
        assert!(matches!(refused, Err(BlobError::Misplaced)), "{place}: {refused:?}");
    }
    blobs.write(at, 8, b" end").await.unwrap();
    assert_eq!(blobs.finish(at).await.unwrap().bytes, 12);
    assert_eq!(all(&blobs, 1).await, b"one zwei end");
    assert!(matches!(blobs.write(at, 12, b"more").await, Err(BlobError::Unknown)));
    assert!(matches!(blobs.begin(&new).await, Err(BlobError::Unknown)));
    assert!(matches!(blobs.finish(at).await, Err(BlobError::Unknown)));
    // What was written twice is left once.
    assert_eq!(home.collected(&blobs).await, if home.is_outside() { 3 } else { 0 });
    assert_eq!(all(&blobs, 1).await, b"one zwei end");
    let theirs = NewBlob { org: OrgId(id(7)), ..new_blob(2) };
    blobs.begin(&theirs).await.unwrap();
    assert!(matches!(blobs.begin(&new_blob(2)).await, Err(BlobError::Unknown)), "an id of another's");
}

async fn bounds_hold_and_free_themselves(home: Home) {
    let database = home.open().await;
    let bounds = BlobBounds { bytes_of_one: 10, bytes_of_org: 25, blobs_of_org: 3, never_refused: &["late"] };
    let blobs = RowBlobs::new(database, vault(), bounds).with_places(home.places());
    assert!(matches!(put(&blobs, &new_blob(1), &[1; 11]).await, Err(BlobError::TooMuch(_))));
    // What was refused left an empty one behind, which can be filled.
    for n in 1..=2 {
        put(&blobs, &new_blob(n), &[1; 10]).await.unwrap();
    }
    assert!(matches!(put(&blobs, &new_blob(3), &[1; 6]).await, Err(BlobError::TooMuch(_))));
    put(&blobs, &new_blob(3), &[1; 5]).await.unwrap();
    assert!(matches!(blobs.begin(&new_blob(4)).await, Err(BlobError::TooMuch(_))));
    assert_eq!(blobs.blob(ORG, id(4)).await.unwrap(), None, "nothing of it stays");
    assert_eq!(kept(&blobs).await, (3, 25));
    put(&blobs, &NewBlob { org: OrgId(id(7)), ..new_blob(5) }, &[1; 10]).await.unwrap();
    assert!(blobs.delete(ORG, id(1)).await.unwrap());
    put(&blobs, &new_blob(4), &[1; 10]).await.unwrap();
    assert_eq!(kept(&blobs).await, (4, 35));
    // What was refused or is gone leaves nothing outside.
    assert_eq!(home.collected(&blobs).await, if home.is_outside() { 4 } else { 0 });
    // A kind that is never refused is written beyond every bound, and counts for the others.
    put(&blobs, &NewBlob { kind: "late", ..new_blob(6) }, &[1; 30]).await.unwrap();
    assert_eq!((kept(&blobs).await, blobs.kept().await.unwrap().most_of_org), ((5, 65), 55));
    assert!(blobs.delete(ORG, id(4)).await.unwrap());
    assert!(matches!(put(&blobs, &new_blob(4), &[1]).await, Err(BlobError::TooMuch(_))));
}

async fn what_expired_or_was_abandoned_goes(home: Home) {
    let database = home.open().await;
    let blobs = home.blobs(&database);
    put(&blobs, &NewBlob { expires_at: Some(Timestamp(1_000)), ..new_blob(1) }, b"short").await.unwrap();
    put(&blobs, &NewBlob { expires_at: Some(Timestamp(2_000)), ..new_blob(2) }, b"longer").await.unwrap();
    put(&blobs, &new_blob(3), b"for ever").await.unwrap();
    blobs.begin(&new_blob(4)).await.unwrap();
    assert_eq!(blobs.expire(Timestamp(999), Timestamp(0)).await.unwrap(), 0);
    assert_eq!(blobs.expire(Timestamp(1_000), Timestamp(0)).await.unwrap(), 1);
    assert_eq!(blobs.blob(ORG, id(1)).await.unwrap(), None);
    assert_eq!(blobs.expire(Timestamp(5_000), Timestamp(i64::MAX)).await.unwrap(), 2);
    assert_eq!(all(&blobs, 3).await, b"for ever");
    assert_eq!(kept(&blobs).await, (1, 8));
    assert_eq!(home.collected(&blobs).await, usize::from(home.is_outside()));
    assert_eq!(all(&blobs, 3).await, b"for ever");
}

async fn a_list_is_walked_page_by_page(home: Home) {
    let database = home.open().await;
    let blobs = home.blobs(&database);
    for n in 1..=5 {
        put(&blobs, &new_blob(n), b"x").await.unwrap();
    }
    put(&blobs, &NewBlob { kind: "export", ..new_blob(6) }, b"x").await.unwrap();
    let (mut seen, mut last) = (Vec::new(), None);
    loop {
        let page = blobs.list(ORG, "file", last.as_ref(), 2).await.unwrap();
        assert!(page.len() <= 2);
        let Some(end) = page.last() else { break };
        last = Some(end.clone());
        seen.extend(page.into_iter().map(|blob| blob.id));
    }
    assert_eq!(seen, [5, 4, 3, 2, 1].map(id));
    assert!(blobs.list(OrgId(id(7)), "file", None, 10).await.unwrap().is_empty());
}

/// Pieces stay as they are; their keys are sealed anew.
async fn a_new_master_key_opens_what_was_kept(home: Home) {
    let database = home.open().await;
    let (old, new) = (vault(), vault());
    database.check_key(&*old).await.unwrap();
    let before = RowBlobs::new(database.clone(), old.clone(), BlobBounds::default()).with_places(home.places());
    put(&before, &new_blob(1), b"kept").await.unwrap();
    before.begin(&new_blob(2)).await.unwrap();
    assert_eq!(database.reseal(&*old, &*new).await.unwrap().blobs, 2);
    let refused = before.begin(&new_blob(3)).await;
    assert!(refused.is_err_and(|e| e.to_string().contains("master key")), "a node with the old key");
    database.check_key(&*new).await.unwrap();
    let after = RowBlobs::new(database, new, BlobBounds::default()).with_places(home.places());
    assert_eq!(all(&after, 1).await, b"kept");
    after.write(id(2), 0, b"begun before").await.unwrap();
    after.finish(id(2)).await.unwrap();
    assert_eq!(all(&after, 2).await, b"begun before");
    assert!(before.read(id(1), 0).await.is_err(), "the old key opens nothing");
}

/// What lies in the database tells nothing, and a piece put in another's place does not open.
#[tokio::test]
async fn pieces_are_sealed_and_stay_where_they_are() {
    let home = Home::rows(Engine::File);
    let database = home.open().await;
    let blobs = home.blobs(&database);
    put(&blobs, &new_blob(1), b"a very secret text").await.unwrap();
    put(&blobs, &new_blob(2), b"another secret one").await.unwrap();
    let mut plain = home.house.sqlite().await;
    let rows = sqlx::query("SELECT sealed FROM blob_piece UNION ALL SELECT sealed_key FROM blob");
    for row in rows.fetch_all(&mut plain).await.unwrap() {
        assert!(!row.get::<String, _>(0).contains("secret"));
    }
    let swap = "UPDATE blob_piece SET sealed = (SELECT sealed FROM blob_piece p WHERE p.blob <> blob_piece.blob)";
    sqlx::query(swap).execute(&mut plain).await.unwrap();
    assert!(matches!(blobs.read(id(1), 0).await, Err(BlobError::Store(_))));
}
