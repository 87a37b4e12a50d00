//! Web pages of other origins (CORS): let in where `--cors-origins` names them, on every route and in every kind of
//! answer, and strangers to the proxy port where it does not.

use crate::harness::call::Call;
use crate::harness::{Answer, Gateway, Upstream, eventually, hello, reply, with};
use serde_json::json;

const PAGE: &str = "https://app.example.com";

fn preflight(gateway: &Gateway, path: &str, origin: &str) -> Call {
    let call = gateway.call("OPTIONS", path).without("x-gateway-api-key").header("origin", origin);
    let call = call.header("access-control-request-method", "POST");
    call.header("access-control-request-headers", "authorization,content-type,x-stainless-os")
}

fn granted(answer: &Answer) -> Option<&str> {
    answer.header("access-control-allow-origin")
}

/// Says of itself that every page may read it.
async fn open_hearted() -> Upstream {
    let body = reply::completion("hi").to_string();
    Upstream::replying(move |seen| {
        if seen.json()["stream"] == json!(true) {
            return reply::stream(&["hi"]);
        }
        let own = [
            ("content-type", "application/json"),
            ("access-control-allow-origin", "*"),
            ("access-control-allow-credentials", "true"),
        ];
        reply::whole(200, &own, &body)
    })
    .await
}

#[tokio::test]
async fn a_page_of_a_named_origin_may_call_and_no_other() {
    let gateway = Gateway::with(&["--cors-origins", "http://localhost:3000, https://App.example.com"]).await;
    let upstream = open_hearted().await;
    for path in ["/v1/chat/completions", "/v1/proxy/anything", "/v1/models", "/v1/configs"] {
        let answer = preflight(&gateway, path, PAGE).send().await.expect(204);
        assert_eq!(granted(&answer), Some(PAGE), "{path}");
        assert_eq!(answer.header("access-control-allow-headers"), Some("authorization,content-type,x-stainless-os"));
        assert!(
            answer.header("access-control-allow-methods").is_some_and(|m| m.contains("POST") && m.contains("DELETE"))
        );
        assert_eq!(answer.header("access-control-max-age"), Some("7200"));
        assert_eq!(answer.header("vary"), Some("origin"));
        assert_eq!(answer.header("access-control-allow-credentials"), None);
    }
    let stranger = preflight(&gateway, "/v1/chat/completions", "https://evil.example").send().await;
    assert!(stranger.status >= 400 && granted(&stranger).is_none(), "{}", stranger.status);

    // Answers of a provider, whole and streamed, of the gateway itself, and refusals.
    let call = |origin: &str| gateway.chat_through(&upstream).header("origin", origin);
    let streamed = with(hello(), json!({ "stream": true }));
    for (answer, status) in [
        (call(PAGE).json(&hello()).send().await, 200),
        (call(PAGE).json(&streamed).send().await, 200),
        (call(PAGE).key("nobody-knows-it").json(&hello()).send().await, 401),
        (call(PAGE).bytes("{").send().await, 400),
        (gateway.get("/v1/models").header("origin", PAGE).send().await, 200),
        (gateway.get("/v1/health").header("origin", PAGE).send().await, 200),
        (gateway.get("/v1/configs").header("origin", PAGE).send().await, 200),
    ] {
        assert_eq!((answer.status, granted(&answer)), (status, Some(PAGE)), "{}", answer.text());
        assert_eq!(answer.header("access-control-expose-headers"), Some("*"));
        assert_eq!(answer.header("access-control-allow-credentials"), None, "the provider's is dropped");
    }
    // Pages that are not named may not read, whatever the provider says; programs have no origin and are as ever.
    let other = call("https://evil.example").json(&hello()).send().await.expect(200);
    assert_eq!((granted(&other), other.header("vary")), (None, Some("origin")));
    let program = gateway.chat_through(&upstream).json(&hello()).send().await.expect(200);
    assert_eq!(granted(&program), None);
    assert!(upstream.seen().iter().all(|seen| seen.header("origin").is_none()));
}

#[tokio::test]
async fn early_comments_are_read_by_pages_too() {
    let gateway = Gateway::with(&["--cors-origins", "*", "--stream-keepalive", "50ms"]).await;
    let upstream = Upstream::scripted(|mut peer| async move {
        if peer.request().await.is_some() {
            peer.gone().await;
        }
    })
    .await;
    let call = gateway.chat_through(&upstream).header("origin", PAGE).header("x-gateway-early-keepalive", "true");
    let mut open = call.json(&with(hello(), json!({ "stream": true }))).open().await;
    assert_eq!(open.headers().get("access-control-allow-origin").and_then(|v| v.to_str().ok()), Some("*"));
    assert!(open.chunk().await.expect("a comment").is_some_and(|comment| comment.starts_with(b":")));
    drop(open);
    eventually("the call to end", || async { (upstream.open() == 0).then_some(()) }).await;
}

#[tokio::test]
async fn without_the_flag_there_is_no_word_of_it() {
    let gateway = Gateway::start().await;
    let answer = preflight(&gateway, "/v1/chat/completions", PAGE).send().await.expect(404);
    assert_eq!(granted(&answer), None);
    let answer = gateway.chat().provider("mock").header("origin", PAGE).json(&hello()).send().await.expect(200);
    assert_eq!((granted(&answer), answer.header("vary")), (None, None));
}
