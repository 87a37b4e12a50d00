//! The upstream as an MCP server of one tool, for calls that come one by one and by themselves (2026-07-28): it says
//! what it offers, and answers each call with the same text.

use memchr::memmem;

const VERSION: &str = "2026-07-28";
const TEXT: &str = "It is one door to many servers of tools: it knows who calls, what they may use and how often, hides what is not \
for them, and writes down what every call was and took. ";
/// How often the text stands in an answer, so that it has about the bytes of a chat completion.
const REPEATS: usize = 4;

/// What answers this body; `None`: it is no message of JSON-RPC.
pub(crate) fn answer(body: &[u8]) -> Option<String> {
    let start = &body[..body.len().min(64)];
    memmem::find(start, b"\"jsonrpc\"")?;
    let id = id(body)?;
    let says = |method: &[u8]| memmem::find(body, method).is_some();
    let result = if says(b"\"tools/call\"") {
        format!(r#"{{"resultType":"complete","content":[{{"type":"text","text":"{}"}}]}}"#, TEXT.repeat(REPEATS))
    } else if says(b"\"tools/list\"") {
        let schema = r#"{"type":"object","properties":{"text":{"type":"string"}}}"#;
        format!(
            r#"{{"resultType":"complete","tools":[{{"name":"bench","inputSchema":{schema}}}],"ttlMs":0,"cacheScope":"public"}}"#
        )
    } else if says(b"\"server/discover\"") {
        let info = r#"{"name":"bench","version":"1"}"#;
        format!(
            r#"{{"resultType":"complete","supportedVersions":["{VERSION}"],"capabilities":{{"tools":{{}}}},"serverInfo":{info},"ttlMs":0,"cacheScope":"public"}}"#
        )
    } else {
        return Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"not served"}}}}"#));
    };
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}

/// A number, as it stands in the body.
fn id(body: &[u8]) -> Option<&str> {
    const NAME: &[u8] = b"\"id\":";
    let rest = body.get(memmem::find(body, NAME)? + NAME.len()..)?.trim_ascii_start();
    let end = rest.iter().position(|b| !b.is_ascii_digit())?;
    std::str::from_utf8(&rest[..end]).ok().filter(|id| !id.is_empty())
}

/// A call of the tool with arguments that make the body this long, or as long as it must be.
pub(crate) fn call_body(size: usize) -> String {
    let meta = format!(
        r#"{{"io.modelcontextprotocol/protocolVersion":"{VERSION}","io.modelcontextprotocol/clientInfo":{{"name":"load","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{{}}}}"#
    );
    let open = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bench","arguments":{"text":""#;
    let close = format!(r#""}},"_meta":{meta}}}}}"#);
    let room = size.saturating_sub(open.len() + close.len()).max(1);
    let text: String = TEXT.chars().cycle().take(room).collect();
    format!("{open}{text}{close}")
}

/// The headers that repeat what the body says.
pub(crate) fn call_headers() -> Vec<String> {
    let told = [("mcp-protocol-version", VERSION), ("mcp-method", "tools/call"), ("mcp-name", "bench")];
    let told = told.map(|(name, value)| format!("{name}: {value}"));
    told.into_iter().chain(["accept: application/json, text/event-stream".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn calls_are_answered_and_other_bodies_are_not() {
        let body = call_body(1024);
        assert_eq!(body.len(), 1024);
        serde_json::from_str::<Value>(&body).unwrap();
        let told: Value = serde_json::from_str(&answer(body.as_bytes()).unwrap()).unwrap();
        assert_eq!((&told["id"], &told["result"]["content"][0]["type"]), (&1.into(), &"text".into()));
        for (method, member) in [("tools/list", "tools"), ("server/discover", "capabilities"), ("other", "")] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":72,"method":"{method}"}}"#);
            let told: Value = serde_json::from_str(&answer(body.as_bytes()).unwrap()).unwrap();
            assert_eq!((&told["id"], told["result"][member].is_null()), (&72.into(), member.is_empty()), "{method}");
        }
        assert_eq!(answer(br#"{"model":"m","messages":[]}"#), None);
    }
}
