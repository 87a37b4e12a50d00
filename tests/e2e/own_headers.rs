//! The gateway's own headers on answers of every kind and over both protocols: each once, whatever the provider says by
//! the same names.

use crate::harness::http2::Http2;
use crate::harness::{Gateway, Upstream, gateway::target, hello, reply, with};
use http::HeaderMap;
use serde_json::json;

/// The gateway's own headers on every answer that a target gave.
const OWN: [&str; 9] = [
    "x-gateway-trace-id",
    "x-gateway-retry-attempt-count",
    "x-gateway-last-used-option-index",
    "x-gateway-provider",
    "x-gateway-cache-status",
    "x-gateway-processing-us",
    "x-gateway-ratelimit-limit-requests",
    "x-gateway-ratelimit-remaining-requests",
    "x-gateway-ratelimit-reset-requests",
];
const BARE: [&str; 3] = ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"];

async fn limited() -> Gateway {
    let gateway = Gateway::start().await;
    let everyone = json!([{ "key": "api_key", "value": "*" }]);
    let policy = json!({ "name": "Many", "type": "requests", "unit": "rpd", "value": 500, "conditions": everyone,
        "group_by": [{ "key": "api_key" }] });
    gateway.admin().post("/policies/rate-limits", &policy).await.expect(200);
    gateway
}

/// The one value of each of these.
fn once<'h, const N: usize>(headers: &'h HeaderMap, names: [&str; N], what: &str) -> [&'h str; N] {
    names.map(|name| {
        let all: Vec<&str> = headers.get_all(name).iter().map(|value| value.to_str().expect("text")).collect();
        assert_eq!(all.len(), 1, "{what}: {name}: {all:?}");
        all[0]
    })
}

#[tokio::test]
async fn each_stands_once_whatever_the_provider_says() {
    let gateway = limited().await;
    let body = reply::completion("hi").to_string();
    let spoken = [
        ("content-type", "application/json"),
        ("x-gateway-provider", "theirs"),
        ("x-gateway-trace-id", "theirs"),
        ("x-ratelimit-reset-requests", "theirs"),
        ("alt-svc", "h3=\":443\""),
        ("x-request-id", "r-1"),
    ];
    let whole = reply::whole(200, &spoken, &body);
    let head = spoken.iter().skip(1).map(|(name, value)| format!("{name}: {value}\r\n")).collect::<String>();
    let stream = String::from_utf8(reply::stream(&["hi"])).expect("text").replacen("\r\n", &format!("\r\n{head}"), 1);
    let failed = reply::error(400, &spoken[1..]);
    for (what, scripted, asked, status) in [
        ("a whole answer", whole, hello(), 200),
        ("a stream", stream.into_bytes(), with(hello(), json!({ "stream": true })), 200),
        ("an error", failed, hello(), 400),
    ] {
        let upstream = Upstream::replying(move |_| scripted.clone()).await;
        let config = target(&upstream);
        let call = gateway.chat().config(&config).header("x-gateway-trace-id", "t-1").json(&asked);
        let answer = call.send().await.expect(status);
        assert!(answer.whole, "{what}");
        let config = config.to_string();
        let headers = [("x-gateway-config", config.as_str()), ("x-gateway-trace-id", "t-1")];
        let mut http2 = Http2::connect(gateway.proxy).await;
        let mut stream = http2.open("POST", "/v1/chat/completions", &headers).await;
        stream.send(asked.to_string().as_bytes(), true).await;
        let (told, over_http2) = stream.head().await;
        assert_eq!(told, status, "{what} over HTTP/2");
        for (headers, what) in [(&answer.headers, what.to_owned()), (&over_http2, format!("{what} over HTTP/2"))] {
            let [trace, retries, place, provider, cache, processing, limit, remaining, reset] =
                once(headers, OWN, &what);
            assert_eq!([trace, retries, place, provider], ["t-1", "0", "config", "openai"], "{what}");
            assert_eq!([cache, limit], ["DISABLED", "500"], "{what}");
            assert!([processing, remaining, reset].iter().all(|number| number.parse::<u64>().is_ok()), "{what}");
            let [bare_limit, bare_remaining, bare_reset] = once(headers, BARE, &what);
            assert_eq!([bare_limit, bare_remaining], [limit, remaining], "{what}");
            assert!(bare_reset.ends_with('s') && bare_reset != "theirs", "{what}: {bare_reset}");
            assert_eq!(once(headers, ["x-request-id"], &what), ["r-1"]);
            assert!(headers.get("alt-svc").is_none(), "{what}");
        }
    }
}

#[tokio::test]
async fn limits_of_the_provider_stay_by_the_bare_names() {
    let gateway = limited().await;
    let spoken = [("content-type", "application/json"), (BARE[0], "77"), (BARE[1], "76"), (BARE[2], "1m")];
    let scripted = reply::whole(200, &spoken, reply::completion("hi").to_string());
    let upstream = Upstream::replying(move |_| scripted.clone()).await;
    let answer = gateway.chat_through(&upstream).json(&hello()).send().await.expect(200);
    assert_eq!(once(&answer.headers, BARE, "theirs"), ["77", "76", "1m"]);
    assert_eq!(once(&answer.headers, [OWN[6]], "ours"), ["500"]);
}

/// Answers that are not gathered with their heads, and heads that fill more than is gathered at once.
#[tokio::test]
async fn long_heads_have_them_too() {
    let gateway = limited().await;
    let long = "l".repeat(9000);
    let spoken = [("content-type", "application/json"), ("x-long", long.as_str())];
    let said = "word ".repeat(4000);
    let scripted = reply::whole(200, &spoken, reply::completion(&said).to_string());
    let upstream = Upstream::replying(move |_| scripted.clone()).await;
    for _ in 0..2 {
        let answer = gateway.chat_through(&upstream).json(&hello()).send().await.expect(200);
        assert_eq!(once(&answer.headers, ["x-long"], "theirs"), [long.as_str()]);
        once(&answer.headers, OWN, "ours");
        assert_eq!(answer.said(), said);
    }
}
