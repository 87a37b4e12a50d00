//! What holds of every backend of the port for calls outside: run by a function of the port, over real sockets.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::any;
use gateway_domain::egress::Trusted;
use gateway_domain::ports::{Outside, OutsideCall, OutsideError};
use gateway_upstream::{AfterErrors, CheckedCalls, Dialer, Dns};
use http::Method;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::Handle;

const AMPLE: Duration = Duration::from_secs(20);

fn checked(trusted: &[&str], after_errors: AfterErrors) -> CheckedCalls {
    let trusted = Arc::new(Trusted::parse(trusted).unwrap());
    let dialer = Dialer::new(Dns::new(trusted.clone(), Handle::current()), Duration::from_secs(2), None);
    CheckedCalls::new(Arc::new(dialer), trusted, after_errors)
}

fn get(url: impl Into<String>) -> OutsideCall {
    let (method, url) = (Method::GET, url.into());
    OutsideCall { method, url, headers: vec![], body: Bytes::new(), within: AMPLE, most_reply: 1 << 20, redirects: 0 }
}

/// A service on loopback; gives its address, and counts what it is asked.
async fn service() -> (String, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let app = Router::new().fallback(any(answer)).with_state(asked.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    Handle::current().spawn(async move { axum::serve(listener, app).await });
    (url, asked)
}

async fn answer(State(asked): State<Arc<AtomicUsize>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    asked.fetch_add(1, Ordering::Relaxed);
    match uri.path() {
        "/echo" => {
            let mark = headers.get("x-mark").cloned().unwrap();
            (StatusCode::IM_A_TEAPOT, [("x-mark", mark)], [uri.query().unwrap().as_bytes(), &body].concat())
                .into_response()
        }
        "/bytes" => "x".repeat(uri.query().unwrap().parse().unwrap()).into_response(),
        "/silent" => pending().await,
        "/half" => {
            ([(header::CONTENT_LENGTH, "10")], Body::from_stream(futures_util::stream::iter([Ok("half"), Err("gone")])))
                .into_response()
        }
        "/error" => StatusCode::BAD_GATEWAY.into_response(),
        "/to" => Redirect::temporary(uri.query().unwrap()).into_response(),
        _ => "here".into_response(),
    }
}

async fn refused(outside: &dyn Outside, call: OutsideCall) -> OutsideError {
    outside.call(call).await.unwrap_err()
}

/// Every backend that may call 127.0.0.1 and nothing else that is private.
async fn keeps_its_word(outside: &dyn Outside) {
    let (url, asked) = service().await;
    goes_and_comes_back(outside, &url).await;
    holds_to_the_rules_for_addresses(outside, &url, &asked).await;
    is_bounded(outside, &url).await;
    follows_as_far_as_it_may(outside, &url, &asked).await;
}

async fn goes_and_comes_back(outside: &dyn Outside, url: &str) {
    let mark = (http::HeaderName::from_static("x-mark"), http::HeaderValue::from_static("m"));
    let call = OutsideCall {
        method: Method::POST,
        headers: vec![mark],
        body: Bytes::from_static(b"+body"),
        ..get(format!("{url}/echo?q=1"))
    };
    assert!(!format!("{call:?}").contains("q=1"), "queries hold secrets: {call:?}");
    for _ in 0..3 {
        let reply = outside.call(call.clone()).await.unwrap();
        assert_eq!((reply.status, &reply.body[..]), (418, &b"q=1+body"[..]), "whatever the status");
        assert_eq!(reply.headers["x-mark"], "m");
    }
    assert!(outside.resolves("127.0.0.1").await);
    assert!(!outside.resolves("10.0.0.1").await && !outside.resolves("nobody.invalid").await);
}

async fn holds_to_the_rules_for_addresses(outside: &dyn Outside, url: &str, asked: &AtomicUsize) {
    let before = asked.load(Ordering::Relaxed);
    let port = url.rsplit(':').next().unwrap();
    for wrong in [
        format!("http://10.0.0.1:{port}/"),
        format!("http://[::ffff:10.0.0.1]:{port}/"),
        "http://169.254.169.254/latest/meta-data".to_owned(),
        format!("http://me:secret@127.0.0.1:{port}/"),
        "ftp://127.0.0.1/".to_owned(),
        "no address".to_owned(),
    ] {
        let error = refused(outside, get(&wrong)).await;
        assert!(matches!(error, OutsideError::Forbidden(_)), "{wrong}: {error:?}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    assert_eq!(asked.load(Ordering::Relaxed), before, "nobody was asked");
}

async fn is_bounded(outside: &dyn Outside, url: &str) {
    let within_bound = OutsideCall { most_reply: 5_000, ..get(format!("{url}/bytes?5000")) };
    assert_eq!(outside.call(within_bound).await.unwrap().body.len(), 5_000);
    let beyond = OutsideCall { most_reply: 5_000, ..get(format!("{url}/bytes?5001")) };
    assert_eq!(refused(outside, beyond).await, OutsideError::TooLong(5_000));
    let begun = Instant::now();
    let short = Duration::from_millis(200);
    let silent = OutsideCall { within: short, ..get(format!("{url}/silent")) };
    assert_eq!(refused(outside, silent).await, OutsideError::Timeout(short));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let half = refused(outside, get(format!("{url}/half"))).await;
    assert!(matches!(half, OutsideError::Unreachable(_)), "{half:?}");
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = refused(outside, get(format!("http://{nobody}/?token=secret"))).await;
    assert!(matches!(&error, OutsideError::Unreachable(why) if !why.contains("secret")), "{error:?}");
}

async fn follows_as_far_as_it_may(outside: &dyn Outside, url: &str, asked: &AtomicUsize) {
    let call = |redirects, to: &str| OutsideCall { redirects, ..get(format!("{url}/to?{to}")) };
    assert_eq!(outside.call(call(0, "/there")).await.unwrap().status, 307, "told, not followed");
    assert_eq!(&outside.call(call(1, "/there")).await.unwrap().body[..], b"here");
    assert_eq!(outside.call(call(1, "/to?/there")).await.unwrap().status, 307, "one was followed");
    let before = asked.load(Ordering::Relaxed);
    let error = refused(outside, call(3, "http://10.0.0.1/")).await;
    assert!(matches!(error, OutsideError::Forbidden(_)), "each is checked: {error:?}");
    assert_eq!(asked.load(Ordering::Relaxed), before + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checked_calls_keep_their_word() {
    for after_errors in [AfterErrors::Rest, AfterErrors::GoOn] {
        keeps_its_word(&checked(&["127.0.0.1"], after_errors)).await;
    }
}

#[tokio::test]
async fn without_trust_loopback_is_forbidden() {
    let (url, asked) = service().await;
    let error = refused(&checked(&[], AfterErrors::Rest), get(&url)).await;
    assert!(matches!(error, OutsideError::Forbidden(_)), "{error:?}");
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_host_rests_after_errors_only_for_those_who_wait() {
    let (url, asked) = service().await;
    for (after_errors, reached) in [(AfterErrors::Rest, 5), (AfterErrors::GoOn, 8)] {
        let calls = checked(&["127.0.0.1"], after_errors);
        asked.store(0, Ordering::Relaxed);
        let mut rested = 0;
        for _ in 0..8 {
            match calls.call(get(format!("{url}/error"))).await {
                Ok(reply) => assert_eq!(reply.status, 502),
                Err(OutsideError::Resting) => rested += 1,
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!((asked.load(Ordering::Relaxed), rested), (reached, 8 - reached));
    }
}
