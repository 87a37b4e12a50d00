//! Tests who finds a kept response, how long it stays, how much is kept, and what a second node finds.

use super::*;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use uuid::Uuid;

const HOUR: Duration = Duration::from_secs(3600);
const STEM: &str = "019aafcc6780000000000000001f";

/// Enough to show that what lies outside is sealed.
struct Reversed;

impl IdSeal for Reversed {
    fn seal(&self, plain: &[u8]) -> String {
        plain.iter().rev().map(|byte| format!("{byte:02x}")).collect()
    }

    fn open(&self, sealed: &str) -> Option<Vec<u8>> {
        let byte = |at| u8::from_str_radix(sealed.get(at..at + 2)?, 16).ok();
        (0..sealed.len()).step_by(2).rev().map(byte).collect()
    }
}

/// What nodes share; `None` in the place of all: it cannot be reached.
#[derive(Debug, Default)]
struct Table(Mutex<Option<HashMap<CacheKey, Vec<u8>>>>);

#[async_trait::async_trait]
impl SharedCache for Table {
    async fn get(&self, key: &CacheKey) -> Option<Vec<u8>> {
        self.0.lock().as_ref()?.get(key).cloned()
    }

    async fn put(&self, key: &CacheKey, value: Vec<u8>, _: Duration) {
        if let Some(table) = self.0.lock().as_mut() {
            table.insert(*key, value);
        }
    }
}

fn shelf(bytes: usize, shared: Option<Arc<Table>>) -> Arc<KeptResponses> {
    let shared = shared.map(|table| table as Arc<dyn SharedCache>);
    KeptResponses::new(KeepBounds { time: HOUR, bytes }, shared, Arc::new(Reversed))
}

fn owner(workspace: u128, key: u128) -> ResponseOwner {
    ResponseOwner { workspace: WorkspaceId(Uuid::from_u128(workspace)), key: KeyId(Uuid::from_u128(key)) }
}

fn response(text: &str) -> KeptResponse {
    KeptResponse::new(Bytes::from_static(b"[]"), Bytes::copy_from_slice(text.as_bytes()))
}

async fn found(shelf: &KeptResponses, owner: ResponseOwner, now: i64) -> Option<String> {
    let found = shelf.find(owner, STEM, Timestamp::from_secs(now)).await?;
    Some(String::from_utf8(found.response.to_vec()).unwrap())
}

#[tokio::test]
async fn only_whoever_made_it_finds_it() {
    let shelf = shelf(1 << 20, None);
    shelf.keep(owner(1, 1), STEM, response("mine"), Timestamp(0)).await;
    assert_eq!(found(&shelf, owner(1, 1), 1).await.as_deref(), Some("mine"));
    assert_eq!(found(&shelf, owner(1, 2), 1).await, None, "another key");
    assert_eq!(found(&shelf, owner(2, 1), 1).await, None, "another workspace");
}

#[tokio::test]
async fn it_goes_when_its_time_is_over_or_it_is_deleted() {
    let shelf = shelf(1 << 20, None);
    shelf.keep(owner(1, 1), STEM, response("a"), Timestamp(0)).await;
    assert!(found(&shelf, owner(1, 1), 3599).await.is_some());
    assert!(found(&shelf, owner(1, 1), 3600).await.is_none());
    shelf.keep(owner(1, 1), STEM, response("b"), Timestamp(0)).await;
    shelf.forget(owner(1, 1), STEM).await;
    assert!(found(&shelf, owner(1, 1), 1).await.is_none());
}

#[tokio::test]
async fn no_more_is_kept_than_may_be() {
    let shelf = shelf(64 * 1024, None);
    let largest = shelf.largest();
    shelf.keep(owner(1, 1), STEM, response(&"x".repeat(largest)), Timestamp(0)).await;
    assert!(found(&shelf, owner(1, 1), 1).await.is_none(), "too large");
    for n in 0..1000 {
        let stem = format!("{n:028x}");
        shelf.keep(owner(1, 1), &stem, response(&"x".repeat(1000)), Timestamp(0)).await;
    }
    assert!(shelf.shelf.weight() <= 64 * 1024 && shelf.shelf.weight() > 32 * 1024, "{}", shelf.shelf.weight());
}

#[tokio::test]
async fn another_node_finds_it_and_hears_that_it_is_gone() {
    let table = Arc::new(Table(Mutex::new(Some(HashMap::new()))));
    let (one, two) = (shelf(1 << 20, Some(table.clone())), shelf(1 << 20, Some(table.clone())));
    one.keep(owner(1, 1), STEM, response("a secret"), Timestamp(0)).await;
    let lies = table.0.lock().as_ref().unwrap().values().next().cloned().unwrap();
    assert!(!String::from_utf8_lossy(&lies).contains("secret"), "it lies there sealed");
    assert_eq!(found(&two, owner(1, 1), 1).await.as_deref(), Some("a secret"));
    assert!(found(&two, owner(1, 1), 3600).await.is_none());
    two.forget(owner(1, 1), STEM).await;
    assert_eq!(found(&one, owner(1, 1), 1).await, None, "though this node had it");
}

#[tokio::test]
async fn a_node_alone_goes_on_by_itself() {
    let shelf = shelf(1 << 20, Some(Arc::default()));
    shelf.keep(owner(1, 1), STEM, response("a"), Timestamp(0)).await;
    assert_eq!(found(&shelf, owner(1, 1), 1).await.as_deref(), Some("a"));
}

#[test]
fn what_is_written_reads_back() {
    let whole = KeptResponse::new(Bytes::from_static(b"[1]"), Bytes::from_static(b"{}")).until(Timestamp(7));
    assert_eq!(KeptResponse::decode(&whole.encode()), Some(whole.clone()));
    let mut other = whole.encode();
    other[0] = 9;
    assert_eq!(KeptResponse::decode(&other), None, "of another version");
    for end in 0..20 {
        assert_eq!(KeptResponse::decode(&whole.encode()[..end]), None, "{end}");
    }
}
