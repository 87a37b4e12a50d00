//! The request that is sent over and over: made once, as the bytes that go on the wire.

use std::io::{Error, ErrorKind};

use bytes::Bytes;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) authority: String,
    pub(crate) path: String,
}

impl std::str::FromStr for Url {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let rest = text.strip_prefix("http://").ok_or_else(|| invalid("the URL must start with http://"))?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let authority = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self { authority, path: path.to_owned() })
    }
}

/// A chat completion request of exactly `size` bytes, or of the smallest size that can be.
pub(crate) fn chat_body(size: usize, model: &str, stream: bool) -> String {
    const TEXT: &str = "Explain in plain words what a gateway to model providers does and why teams run one. ";
    let stream = if stream { ",\"stream\":true" } else { "" };
    let open = format!(
        "{{\"model\":\"{model}\",\"temperature\":0.7,\"max_tokens\":256{stream},\"messages\":[\
         {{\"role\":\"system\",\"content\":\"You answer briefly.\"}},{{\"role\":\"user\",\"content\":\""
    );
    let close = "\"}]}";
    let room = size.saturating_sub(open.len() + close.len()).max(1);
    let text = TEXT.chars().cycle().take(room).collect::<String>();
    format!("{open}{text}{close}")
}

/// Head and body in one piece, so that they leave in one write.
pub(crate) fn post(url: &Url, headers: &[String], body: &str) -> Result<Bytes, Error> {
    let mut wire = format!(
        "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
        url.path,
        url.authority,
        body.len()
    );
    for header in headers {
        let (name, value) = header.split_once(':').ok_or_else(|| invalid("a header reads `name: value`"))?;
        wire.push_str(&format!("{}: {}\r\n", name.trim(), value.trim()));
    }
    wire.push_str("\r\n");
    wire.push_str(body);
    Ok(wire.into())
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_the_size_asked_for_and_are_json() {
        for (size, stream) in [(1024, false), (1024, true), (1 << 20, false)] {
            let body = chat_body(size, "gpt-4o-mini", stream);
            let json: serde_json::Value = serde_json::from_str(&body).unwrap();
            assert_eq!((body.len(), json["stream"].as_bool()), (size, stream.then_some(true)));
        }
        assert!(serde_json::from_str::<serde_json::Value>(&chat_body(0, "m", false)).is_ok());
    }

    #[test]
    fn urls_are_split() {
        let url: Url = "http://localhost:8787/v1/chat/completions".parse().unwrap();
        assert_eq!(url, Url { authority: "localhost:8787".into(), path: "/v1/chat/completions".into() });
        let url: Url = "http://localhost".parse().unwrap();
        assert_eq!((url.authority.as_str(), url.path.as_str()), ("localhost:80", "/"));
        assert!("https://localhost".parse::<Url>().is_err());
    }

    #[test]
    fn a_post_carries_the_given_headers() {
        let url = "http://h:1/p".parse().unwrap();
        let wire = post(&url, &["X-A:  b ".into()], "{}").unwrap();
        let expected = "POST /p HTTP/1.1\r\nhost: h:1\r\ncontent-type: application/json\r\n\
                        content-length: 2\r\nX-A: b\r\n\r\n{}";
        assert_eq!(wire, expected);
        assert!(post(&url, &["nonsense".into()], "{}").is_err());
    }
}
