//! Tokens against an endpoint that plays a script.

use super::*;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::post;
use gateway_domain::Secret;
use gateway_domain::cloud::{self, Assertion, ClientCredentials, SignIn};
use gateway_domain::egress::Trusted;
use http::HeaderValue;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

const SECRET: &str = "sk-long-secret-99";

/// What the endpoint does at its nth call, counted from 1.
type Script = fn(usize) -> (StatusCode, String);

#[derive(Clone)]
struct TokenEndpoint {
    calls: Arc<AtomicUsize>,
    script: Script,
}

async fn play(State(endpoint): State<TokenEndpoint>, form: String) -> impl IntoResponse {
    assert_eq!(form, "grant_type=client_credentials&client_id=i&client_secret=sk-long-secret-99&scope=all");
    let call = endpoint.calls.fetch_add(1, SeqCst) + 1;
    // Long enough for others to come while it is under way.
    tokio::time::sleep(Duration::from_millis(30)).await;
    (endpoint.script)(call)
}

fn good(call: usize, lives: u64) -> (StatusCode, String) {
    (StatusCode::OK, format!(r#"{{"access_token":"t{call}","token_type":"Bearer","expires_in":{lives}}}"#))
}

async fn stage(script: Script) -> (Arc<Credentials>, Arc<Grant>, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let endpoint = format!("http://{}/token", listener.local_addr().expect("bound"));
    let calls = Arc::<AtomicUsize>::default();
    let app = Router::new().route("/token", post(play)).with_state(TokenEndpoint { calls: calls.clone(), script });
    Handle::current().spawn(async move { axum::serve(listener, app).await });
    let outbound = Outbound::new(Arc::new(Trusted::parse(&["127.0.0.1"]).expect("valid"))).expect("builds");
    let places = Places {
        google_metadata: String::new(),
        azure_metadata: String::new(),
        azure_identity: None,
        azure_authority: String::new(),
        azure_token_file: None,
        aws: Platform::default(),
    };
    let secret = Assertion::Secret(Secret::new(SECRET.into()));
    let endpoint = cloud::SignInEndpoint::Url(endpoint);
    let (scope, client_id) = (Some("all".into()), "i".into());
    let client = ClientCredentials { endpoint, client_id, secret, scope, resource: None, audience: None };
    let grant = Arc::new(Grant::new(SignIn::ClientCredentials(client)));
    (Arc::new(Credentials::new(outbound, places, Handle::current())), grant, calls)
}

fn header(pass: Pass) -> HeaderValue {
    match pass {
        Pass::Header(header) => header,
        Pass::Keys(..) | Pass::Oci(_) => panic!("no header"),
    }
}

async fn crowd(credentials: &Arc<Credentials>, grant: &Arc<Grant>, size: usize) -> Vec<Result<HeaderValue, Fault>> {
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..size {
        let (credentials, grant) = (credentials.clone(), grant.clone());
        all.spawn(async move { credentials.token(&grant).await.map(header) });
    }
    all.join_all().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_costs_one_fetch() {
    let (credentials, grant, calls) = stage(|call| good(call, 3600)).await;
    for told in crowd(&credentials, &grant, 200).await {
        assert_eq!(told.expect("a token"), "Bearer t1");
    }
    assert_eq!(header(credentials.token(&grant).await.expect("kept")), "Bearer t1");
    assert_eq!(calls.load(SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_used_token_is_renewed_ahead_of_its_end_and_nobody_waits() {
    let (credentials, grant, calls) = stage(|call| good(call, 2)).await;
    credentials.token(&grant).await.expect("a token");
    let (until, mut slowest) = (Instant::now() + Duration::from_secs(4), Duration::ZERO);
    while Instant::now() < until {
        let started = Instant::now();
        credentials.token(&grant).await.expect("a token");
        slowest = slowest.max(started.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!((3..=5).contains(&calls.load(SeqCst)), "{calls:?} fetches of a token of two seconds in four");
    assert!(slowest < Duration::from_millis(25), "a fetch takes 30 ms, and somebody waited {slowest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_token_holds_a_failed_renewal_is_nobodys_business() {
    let script: Script = |call| if call == 2 { (StatusCode::BAD_GATEWAY, "<html>".into()) } else { good(call, 6) };
    let (credentials, grant, calls) = stage(script).await;
    let until = Instant::now() + Duration::from_millis(6500);
    let mut seen = Vec::new();
    while Instant::now() < until {
        let token = header(credentials.token(&grant).await.expect("the old token, or the next"));
        if !seen.contains(&token) {
            seen.push(token);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(seen, ["Bearer t1", "Bearer t3"]);
    assert_eq!(calls.load(SeqCst), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_told_to_all_and_not_hammered() {
    let refuse: Script =
        |_| (StatusCode::UNAUTHORIZED, r#"{"error":"invalid_client","error_description":"gone"}"#.to_owned());
    let (credentials, grant, calls) = stage(refuse).await;
    for told in crowd(&credentials, &grant, 50).await {
        let fault = told.expect_err("refused");
        assert_eq!(fault.status(), 401);
        assert!(fault.message().ends_with("invalid_client: gone"), "{}", fault.message());
    }
    assert_eq!(calls.load(SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_quotes_the_secret_does_not_make_us_tell_it() {
    for far in [0, 290] {
        let quote: Script = if far == 0 {
            |_| (StatusCode::UNAUTHORIZED, json!({"error": "invalid_client", "error_description": SECRET}).to_string())
        } else {
            // Where the message is cut, in the middle of it.
            |_| (StatusCode::UNAUTHORIZED, json!({"error": format!("{}{SECRET}", "x".repeat(290))}).to_string())
        };
        let (credentials, grant, _) = stage(quote).await;
        let fault = credentials.token(&grant).await.expect_err("refused");
        assert!(!fault.message().contains("sk-"), "{}", fault.message());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_a_502_and_ends_with_itself() {
    let (credentials, grant, calls) =
        stage(|call| if call == 1 { (StatusCode::BAD_GATEWAY, "<html>".into()) } else { good(call, 3600) }).await;
    assert_eq!(credentials.token(&grant).await.expect_err("down").status(), 502);
    let until = Instant::now() + Duration::from_secs(5);
    let token = loop {
        match credentials.token(&grant).await {
            Ok(token) => break header(token),
            Err(fault) => assert!(Instant::now() < until, "{}", fault.message()),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!((token, calls.load(SeqCst)), (HeaderValue::from_static("Bearer t2"), 2));
}
