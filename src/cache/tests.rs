//! Hits, expiry, bounds, and one flight for many.

use super::*;
use bytes::Bytes;

fn key(text: &str) -> CacheKey {
    let mut builder = KeyBuilder::new();
    builder.part(text.as_bytes());
    builder.finish()
}

const HOUR: Duration = Duration::from_secs(3600);

fn head() -> AnswerHead {
    AnswerHead { status: 200, content_type: "application/json".into(), stream: false }
}

async fn lead(cache: &Arc<AnswerCache>, name: &str, now: i64) -> Leader {
    match cache.find(key(name), HOUR, false, Timestamp(now)).await {
        CacheOutcome::Leader(lead) => lead,
        other => panic!("{other:?}"),
    }
}

async fn answer(cache: &Arc<AnswerCache>, name: &str, body: &[u8], good: bool) {
    let mut lead = lead(cache, name, 0).await;
    lead.begin(head());
    lead.push(&Bytes::copy_from_slice(body));
    assert!(lead.end(good, None, None, Timestamp(0)).is_none(), "no shared shelf");
}

async fn follow(cache: &Arc<AnswerCache>, name: &str) -> Follower {
    match cache.find(key(name), HOUR, false, Timestamp(0)).await {
        CacheOutcome::Follower(follow) => follow,
        other => panic!("{other:?}"),
    }
}

#[test]
fn parts_never_run_together() {
    let of = |parts: &[&str]| {
        let mut builder = KeyBuilder::new();
        for part in parts {
            builder.part(part.as_bytes());
        }
        builder.finish()
    };
    assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
    assert_ne!(of(&["a", ""]), of(&["a"]));
    let mut pieces = KeyBuilder::new();
    pieces.pieces([&b"ab"[..], b"c"].into_iter());
    assert_eq!(pieces.finish(), of(&["abc"]));
}

#[tokio::test]
async fn what_was_answered_is_found_until_it_expires() {
    let cache = AnswerCache::new(1 << 20, None);
    answer(&cache, "q", b"yes", true).await;
    match cache.find(key("q"), HOUR, false, Timestamp(1)).await {
        CacheOutcome::Hit(entry) => assert_eq!((&entry.body[..], entry.status), (&b"yes"[..], 200)),
        other => panic!("{other:?}"),
    }
    let later = i64::try_from(HOUR.as_micros()).expect("fits");
    drop(lead(&cache, "q", later).await);
    assert!(matches!(cache.find(key("q"), HOUR, true, Timestamp(1)).await, CacheOutcome::Leader(_)), "a fresh call");
}

#[tokio::test]
async fn bad_and_oversized_answers_are_not_kept() {
    let cache = AnswerCache::new(64 * 1024, None);
    answer(&cache, "broken", b"half", false).await;
    drop(lead(&cache, "broken", 0).await);
    answer(&cache, "large", &vec![b'x'; 9000], true).await;
    drop(lead(&cache, "large", 0).await);
}

#[tokio::test]
async fn random_keys_never_exceed_the_bound() {
    let most = 256 * 1024;
    let cache = AnswerCache::new(most, None);
    for n in 0..2000 {
        answer(&cache, &format!("q{n}"), &vec![b'x'; 1000 + n % 3000], true).await;
        assert!(cache.shelf.weight() <= most as u64, "{}", cache.shelf.weight());
    }
    assert!(cache.shelf.weight() > most as u64 / 2, "it is used");
}

#[tokio::test]
async fn followers_hear_all_of_it_whenever_they_join() {
    let cache = AnswerCache::new(1 << 20, None);
    let mut lead = lead(&cache, "q", 0).await;
    let mut early = follow(&cache, "q").await;
    lead.begin(head());
    lead.push(&Bytes::from_static(b"one "));
    let mut late = follow(&cache, "q").await;
    assert!(lead.followed());
    lead.push(&Bytes::from_static(b"two"));
    lead.end(true, None, Some("m".into()), Timestamp(0));
    for follow in [&mut early, &mut late] {
        assert!(matches!(follow.next().await, FollowerEvent::Begun(h) if h == head()));
        let mut text = Vec::new();
        let model = loop {
            match follow.next().await {
                FollowerEvent::Piece(piece) => text.extend_from_slice(&piece),
                FollowerEvent::Ended { model, .. } => break model,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((&text[..], model.as_deref()), (&b"one two"[..], Some("m")));
    }
    assert_eq!(cache.collapsed.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_lost_leader_frees_its_followers_and_its_place() {
    let cache = AnswerCache::new(1 << 20, None);
    let first = lead(&cache, "q", 0).await;
    let mut waiting = follow(&cache, "q").await;
    drop(first);
    assert!(matches!(waiting.next().await, FollowerEvent::Lost));
    drop(lead(&cache, "q", 0).await);
}

#[tokio::test]
async fn a_leader_learns_when_the_last_follower_has_left() {
    let cache = AnswerCache::new(1 << 20, None);
    let lead = lead(&cache, "q", 0).await;
    let (one, two) = (follow(&cache, "q").await, follow(&cache, "q").await);
    let leaving = async {
        drop(one);
        tokio::task::yield_now().await;
        assert!(lead.followed());
        drop(two);
    };
    tokio::join!(lead.without_followers(), leaving);
    assert!(!lead.followed());
}

#[test]
fn entries_travel_to_the_shared_shelf_and_back() {
    let entry = CacheEntry {
        status: 200,
        content_type: "text/event-stream".into(),
        body: Bytes::from_static(b"data: 1\n\ndata: [DONE]\n\n"),
        stream: true,
        usage: None,
        model: Some("m".into()),
        expires: Timestamp(7),
    };
    let bytes = entry.encode().expect("encodes");
    assert_eq!(CacheEntry::decode(bytes), Some(entry));
    for damaged in [&b""[..], b"no line", b"{}\nx", b"\n"] {
        assert_eq!(CacheEntry::decode(damaged.to_vec()), None);
    }
}
