//! The client half with real sessions of Pingora's over streams in memory: what is noticed while a call is under way,
//! and what goes down.

use super::*;
use crate::cache::{AnswerCache, CacheKey, CacheOutcome, KeyBuilder};
use crate::proxy::body::BufferBudget;
use crate::upstream::http1::BodySource;
use gateway_domain::Timestamp;
use std::future::{pending, poll_fn, ready};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::sleep;

const PLAIN: &str = "GET /v1/x HTTP/1.1\r\nhost: g\r\n\r\n";
const HELLO: &str = "POST /v1/x HTTP/1.1\r\nhost: g\r\ncontent-length: 5\r\n\r\nhello";

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The client's end, and the session of its request.
async fn connected(request: &str) -> (DuplexStream, Session) {
    let (mut near, far) = tokio::io::duplex(1 << 16);
    near.write_all(request.as_bytes()).await.expect("room");
    let mut session = Session::new_h1(Box::new(far));
    assert!(session.downstream_session.read_request().await.expect("a request"));
    (near, session)
}

/// What went down until now.
async fn heard(near: &mut DuplexStream) -> String {
    let mut text = vec![0; 1 << 16];
    let read = tokio::time::timeout(ms(200), near.read(&mut text)).await.map_or(0, |read| read.expect("no error"));
    String::from_utf8_lossy(&text[..read]).into_owned()
}

fn head(length: Option<usize>) -> Box<ResponseHeader> {
    let mut head = Box::new(ResponseHeader::build_no_case(200, None).expect("a status"));
    if let Some(length) = length {
        head.set_content_length(length).expect("a length");
    }
    head
}

fn key(name: &str) -> CacheKey {
    let mut key = KeyBuilder::new();
    key.part(name.as_bytes());
    key.finish()
}

/// A leader of a call that others may follow, and the cache that knows of it.
async fn leader() -> (std::sync::Arc<AnswerCache>, Leader) {
    let cache = AnswerCache::new(1 << 20, None);
    match cache.find(key("k"), Duration::from_secs(1), false, Timestamp(0)).await {
        CacheOutcome::Leader(leader) => (cache, leader),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn work_that_ends_is_given_back() {
    let (_near, mut session) = connected(PLAIN).await;
    let mut client = Client::new(&mut session);
    assert_eq!(client.during(None, ready(7)).await.ok(), Some(7));
    assert_eq!(client.during(None, async { sleep(ms(5)).await }).await.ok(), Some(()), "as often as it is asked");
}

#[tokio::test]
async fn a_client_that_closes_ends_the_work() {
    let (near, mut session) = connected(PLAIN).await;
    let mut client = Client::new(&mut session);
    drop(near);
    assert!(matches!(client.during(None, pending::<()>()).await, Err(ClientLeft::Gone(_))));
}

#[tokio::test]
async fn work_that_is_done_counts_though_the_client_has_closed() {
    let (near, mut session) = connected(PLAIN).await;
    let mut client = Client::new(&mut session);
    drop(near);
    assert_eq!(client.during(None, ready(7)).await.ok(), Some(7));
}

/// What hedging needs: two calls of which the first to answer does, while one client is watched.
#[tokio::test]
async fn two_calls_can_run_for_one_client() {
    let (near, mut session) = connected(PLAIN).await;
    let mut client = Client::new(&mut session);
    let race = async {
        tokio::select! {
            () = sleep(ms(60_000)) => "slow",
            () = sleep(ms(5)) => "quick",
        }
    };
    assert_eq!(client.during(None, race).await.ok(), Some("quick"));
    drop(near);
    let both = async { tokio::join!(pending::<()>(), pending::<()>()) };
    assert!(client.during(None, both).await.is_err());
}

#[tokio::test]
async fn work_given_up_is_dropped_where_it_stands() {
    struct Guard<'a>(&'a std::cell::Cell<bool>);
    impl Drop for Guard<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let (near, mut session) = connected(PLAIN).await;
    let mut client = Client::new(&mut session);
    let dropped = std::cell::Cell::new(false);
    drop(near);
    let work = async {
        let _guard = Guard(&dropped);
        pending::<()>().await;
    };
    assert!(client.during(None, work).await.is_err());
    assert!(dropped.get(), "an upstream call ends with the client that wanted it");
}

#[tokio::test]
async fn a_leader_without_followers_leaves_with_its_client() {
    let (near, mut session) = connected(PLAIN).await;
    let mut client = Client::new(&mut session);
    let (_cache, leader) = leader().await;
    drop(near);
    assert!(client.during(Some(&leader), pending::<()>()).await.is_err());
}

#[tokio::test]
async fn a_leader_goes_on_for_its_followers() {
    let (near, mut session) = connected(PLAIN).await;
    let mut client = Client::new(&mut session);
    let (cache, leader) = leader().await;
    let CacheOutcome::Follower(follower) = cache.find(key("k"), ms(9), false, Timestamp(0)).await else {
        panic!("a follower")
    };
    drop(near);
    let work = async {
        sleep(ms(30)).await;
        "done"
    };
    assert_eq!(client.during(Some(&leader), work).await.ok(), Some("done"));
    drop(follower);
    assert!(client.during(Some(&leader), pending::<()>()).await.is_err(), "until the last of them has left");
}

#[tokio::test]
async fn comments_go_down_while_an_answer_is_awaited_and_begin_it() {
    let (mut near, mut session) = connected(PLAIN).await;
    let mut client = Client::new(&mut session);
    client.set_early_keepalive(Some(EarlyKeepalive::new(ms(20), head(None))));
    assert!(!client.has_begun());
    assert!(client.during(None, sleep(ms(50))).await.is_ok());
    assert!(client.has_begun());
    let told = heard(&mut near).await;
    assert!(told.starts_with("HTTP/1.1 200") && told.contains(": keep-alive\n\n"), "{told}");
    let comments = told.matches(": keep-alive\n\n").count() as u64;
    assert_eq!(client.bytes_before(), comments * COMMENT.len() as u64);
    client.begin(head(None), Some(Bytes::from_static(b"data: 1\n\n")), true).await.expect("room");
    let rest = heard(&mut near).await;
    assert!(rest.contains("data: 1") && !rest.contains("HTTP/1.1"), "one head only: {rest}");
}

#[tokio::test]
async fn no_comment_goes_down_for_a_quick_answer() {
    let (mut near, mut session) = connected(PLAIN).await;
    let mut client = Client::new(&mut session);
    client.set_early_keepalive(Some(EarlyKeepalive::new(ms(60_000), head(None))));
    assert!(client.during(None, sleep(ms(5))).await.is_ok());
    assert_eq!((client.has_begun(), client.bytes_before()), (false, 0));
    client.whole(head(None), Bytes::from_static(b"{}")).await.expect("room");
    let told = heard(&mut near).await.to_ascii_lowercase();
    assert!(told.contains("content-length: 2") && told.ends_with("{}"), "{told}");
}

#[tokio::test]
async fn a_body_is_read_only_as_far_as_a_call_asks_for_it() {
    let (_near, mut session) = connected(HELLO).await;
    let mut upload = Upload::of(&mut session.downstream_session, ms(60_000), &BufferBudget::new(1 << 20, 1 << 20));
    let mut client = Client::new(&mut session);
    client.set_upload(upload.clone());
    assert!(client.during(None, sleep(ms(5))).await.is_ok());
    assert!(!upload.has_ended(), "nobody asked for it");
    let call = async {
        let mut body = Vec::new();
        while let Some(part) = poll_fn(|cx| upload.poll_part(cx, 2)).await {
            body.push(String::from_utf8_lossy(&part).into_owned());
        }
        body
    };
    assert_eq!(client.during(None, call).await.ok(), Some(vec!["he".to_owned(), "ll".to_owned(), "o".to_owned()]));
    assert!(upload.has_ended() && client.can_repeat());
}

#[tokio::test]
async fn a_client_that_sends_no_more_of_its_body_is_told_apart_from_one_that_left() {
    let half = &HELLO[..HELLO.len() - 3];
    let (near, mut session) = connected(half).await;
    let mut upload = Upload::of(&mut session.downstream_session, ms(40), &BufferBudget::new(1 << 20, 1 << 20));
    let mut client = Client::new(&mut session);
    client.set_upload(upload.clone());
    let hungry = async { while poll_fn(|cx| upload.poll_part(cx, 99)).await.is_some() {} };
    assert!(matches!(client.during(None, hungry).await, Err(ClientLeft::Silent)));
    assert!(!client.can_repeat(), "nothing of it can be sent again");
    drop(near);
    let (near, mut session) = connected(half).await;
    let mut upload = Upload::of(&mut session.downstream_session, ms(60_000), &BufferBudget::new(1 << 20, 1 << 20));
    let mut client = Client::new(&mut session);
    client.set_upload(upload.clone());
    drop(near);
    let hungry = async { while poll_fn(|cx| upload.poll_part(cx, 99)).await.is_some() {} };
    assert!(matches!(client.during(None, hungry).await, Err(ClientLeft::Gone(_))));
}

#[tokio::test]
async fn pieces_without_a_length_are_framed() {
    let (mut near, mut session) = connected(PLAIN).await;
    let mut client = Client::new(&mut session);
    client.begin(head(None), Some(Bytes::from_static(b"one")), false).await.expect("room");
    client.piece(Some(Bytes::from_static(b"two")), true).await.expect("room");
    let told = heard(&mut near).await.to_ascii_lowercase();
    assert!(told.contains("transfer-encoding: chunked"), "{told}");
    assert!(told.contains("3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"), "{told}");
}

#[tokio::test]
async fn an_old_client_knows_no_chunks() {
    let (mut near, mut session) = connected("GET /v1/x HTTP/1.0\r\n\r\n").await;
    let mut client = Client::new(&mut session);
    client.begin(head(None), Some(Bytes::from_static(b"one")), true).await.expect("room");
    let told = heard(&mut near).await.to_ascii_lowercase();
    assert!(!told.contains("chunked") && told.ends_with("\r\n\r\none"), "{told}");
}

#[tokio::test]
async fn the_answer_to_head_has_a_length_and_no_body() {
    let (mut near, mut session) = connected("HEAD /v1/x HTTP/1.1\r\nhost: g\r\n\r\n").await;
    let mut client = Client::new(&mut session);
    client.whole(head(None), Bytes::from_static(b"12345")).await.expect("room");
    let told = heard(&mut near).await.to_ascii_lowercase();
    assert!(told.contains("content-length: 5") && told.ends_with("\r\n\r\n"), "{told}");
}

#[tokio::test]
async fn an_answer_that_is_cut_off_has_no_end() {
    let (mut near, mut session) = connected(PLAIN).await;
    let mut client = Client::new(&mut session);
    client.begin(head(None), Some(Bytes::from_static(b"one")), false).await.expect("room");
    client.cut().await;
    drop(session);
    let told = heard(&mut near).await;
    assert!(told.ends_with("3\r\none\r\n"), "no last chunk: {told}");
}
