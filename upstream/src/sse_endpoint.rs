//! Where messages are sent to a server whose first event says so (Model Context Protocol 2024-11-05, HTTP with SSE): a
//! place on the origin of the stream itself. Any other would lead credentials elsewhere, or the gateway inside.

use gateway_domain::egress::BaseUrl;
use url::Url;

const LONGEST: usize = 4096;

/// Path and query of what a server told. `target`: path and query of its stream. The `Err` is the rest of a sentence.
pub fn sse_endpoint(base: &BaseUrl, target: &str, told: &str) -> Result<String, &'static str> {
    let told = told.trim();
    if told.is_empty() || told.len() > LONGEST || told.bytes().any(|b| b.is_ascii_control() || b == b' ' || b == b'\\')
    {
        return Err("names an endpoint that is no address");
    }
    let scheme = if base.tls { "https" } else { "http" };
    let stream = Url::parse(&format!("{scheme}://{}{target}", base.authority()));
    let stream = stream.map_err(|_| "has an address that nothing can be below")?;
    let url = stream.join(told).map_err(|_| "names an endpoint that is no address")?;
    let is_bare = url.username().is_empty() && url.password().is_none();
    if url.origin() != stream.origin() || !is_bare {
        return Err("names an endpoint on another origin");
    }
    let query = url.query().map_or_else(String::new, |query| format!("?{query}"));
    Ok(format!("{}{query}", url.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_lie_on_the_origin_of_the_stream() {
        let base = BaseUrl::parse("http://mcp.example.com:8080").expect("a base");
        let of = |told: &str| sse_endpoint(&base, "/a/sse?x=1", told);
        for (told, path) in [
            ("/messages?sessionId=1", "/messages?sessionId=1"),
            ("messages", "/a/messages"),
            ("?sessionId=2", "/a/sse?sessionId=2"),
            ("../m", "/m"),
            ("http://mcp.example.com:8080/m?s=1", "/m?s=1"),
            ("//mcp.example.com:8080/m", "/m"),
        ] {
            assert_eq!(of(told).as_deref(), Ok(path), "{told}");
        }
        for told in [
            "http://169.254.169.254/latest",
            "http://mcp.example.com/m",
            "https://mcp.example.com:8080/m",
            "//evil.example/m",
            "http://mcp.example.com:8080@evil.example/m",
            "http://user@mcp.example.com:8080/m",
            "file:///etc/passwd",
            "/\\evil.example/m",
            "",
            "/a b",
            &"x".repeat(LONGEST + 1),
        ] {
            assert!(of(told).is_err(), "{told}");
        }
    }
}
