//! Web pages that call MCP servers: those of allowed origins may, and read what they need of the answer; what is theirs
//! alone opens no other route.

use crate::harness::call::Call;
use crate::mcp_script::{Script, Served, initialize, request};
use serde_json::json;

const PAGE: &str = "https://app.example.com";

fn preflight(served: &Served, path: &str, origin: &str, method: &str) -> Call {
    let call = served.gateway.call("OPTIONS", path).without("x-gateway-api-key").header("origin", origin);
    let call = call.header("access-control-request-method", method);
    call.header("access-control-request-headers", "authorization,content-type,mcp-protocol-version,mcp-session-id")
}

#[tokio::test]
async fn a_page_of_an_allowed_origin_calls_and_reads_session_and_challenge() {
    let served = Served::with(Script::default(), &["--mcp-allowed-origins", PAGE]).await;
    for method in ["POST", "GET", "DELETE"] {
        let asked = preflight(&served, "/files/mcp", PAGE, method).send().await.expect(204);
        assert_eq!(asked.header("access-control-allow-origin"), Some(PAGE), "{method}");
        assert!(asked.header("access-control-allow-methods").is_some_and(|all| all.contains(method)), "{method}");
        let named = asked.header("access-control-allow-headers");
        assert!(named.is_some_and(|all| all.contains("mcp-session-id") && all.contains("authorization")), "{named:?}");
        assert_eq!(asked.header("access-control-allow-credentials"), None);
    }
    let opened = served.call("POST").header("origin", PAGE).json(&initialize("2025-06-18")).send().await.expect(200);
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    assert_eq!(opened.header("access-control-allow-origin"), Some(PAGE));
    // A star shows all headers where no cookies go along, and none do.
    assert_eq!(opened.header("access-control-expose-headers"), Some("*"));
    assert_eq!(opened.header("vary"), Some("origin"));
    let list = request("tools/list", json!({}));
    for (answer, status) in [
        (served.call("POST").header("mcp-session-id", &session).json(&list), 200),
        (served.call("POST").key("nobody-knows-it").json(&list), 401),
        (served.call("POST").header("mcp-session-id", "unknown").json(&list), 404),
        (served.call("GET").header("mcp-session-id", &session), 405),
        (served.call("DELETE").header("mcp-session-id", &session), 204),
    ] {
        let answer = answer.header("origin", PAGE).send().await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (status, Some(PAGE)));
    }
    assert!(
        served.mcp.upstream.seen().iter().all(|seen| seen.header("origin").is_none()),
        "the server hears of no page"
    );
}

#[tokio::test]
async fn what_is_granted_for_mcp_servers_is_granted_nowhere_else() {
    let served = Served::with(Script::default(), &["--mcp-allowed-origins", PAGE]).await;
    for (path, origin) in [
        ("/files/mcp", "https://evil.example"),
        ("/files/mcp", "null"),
        ("/v1/chat/completions", PAGE),
        ("/v1/configs", PAGE),
        ("/files/mcp/more", PAGE),
    ] {
        let asked = preflight(&served, path, origin, "POST").send().await;
        assert!(asked.status >= 400, "{path} of {origin}: {}", asked.status);
        assert_eq!(asked.header("access-control-allow-origin"), None, "{path} of {origin}");
    }
    let evil = served.call("POST").header("origin", "https://evil.example").json(&request("ping", json!({})));
    assert_eq!(evil.send().await.expect(403).header("access-control-allow-origin"), None);
    let without = Served::start(Script::default()).await;
    let asked = preflight(&without, "/files/mcp", PAGE, "POST").send().await;
    assert!(asked.status >= 400 && asked.header("access-control-allow-origin").is_none(), "{}", asked.status);
}
