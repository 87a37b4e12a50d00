//! What a request's head says before its body is read: what the client takes, what it sends, and of which session and
//! version it speaks.

use super::SESSION;
use gateway_mcp::McpVersion;
use gateway_mcp::header::McpHeaders;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use pingora::proxy::Session;

/// Bytes of a body: messages are small, whatever models may be sent.
pub(in crate::proxy) const MOST_BODY: usize = 16 << 20;

/// Before the names of headers that repeat arguments.
pub(in crate::proxy) const ARGUMENT: &str = "mcp-param-";

/// The head of a request, as far as the protocol reads it.
#[derive(Debug, Default)]
pub(in crate::proxy) struct Posted {
    pub(in crate::proxy) takes_json: bool,
    pub(in crate::proxy) takes_events: bool,
    pub(in crate::proxy) session: Option<String>,
    pub(in crate::proxy) last_event: Option<HeaderValue>,
    pub(in crate::proxy) traced: Vec<(HeaderName, HeaderValue)>,
    version: Vec<HeaderValue>,
    method: Vec<HeaderValue>,
    name: Vec<HeaderValue>,
    /// Headers that repeat arguments.
    arguments: Vec<(HeaderName, HeaderValue)>,
    pub(in crate::proxy) refused: Option<u16>,
}

impl Posted {
    pub(in crate::proxy) fn refused(status: u16) -> Self {
        Self { takes_json: true, refused: Some(status), ..Self::default() }
    }

    /// Stands for the head of a message whose client is answered over a stream, in this session.
    pub(in crate::proxy) fn of_stream(session: Option<String>) -> Self {
        Self { takes_events: true, session, ..Self::default() }
    }

    /// Adds those headers of the client's own request that are passed on to the server (`TRACED`).
    pub(in crate::proxy) fn traced_by(self, session: &Session) -> Self {
        Self { traced: posted(session).traced, ..self }
    }

    pub(in crate::proxy) fn headers(&self) -> McpHeaders<'_> {
        fn bytes(values: &[HeaderValue]) -> Vec<&[u8]> {
            values.iter().map(HeaderValue::as_bytes).collect()
        }
        let behind = |name: &'_ HeaderName| name.as_str().len().min(ARGUMENT.len());
        let arguments =
            self.arguments.iter().map(|(name, value)| (&name.as_str()[behind(name)..], value.as_bytes())).collect();
        let (version, method, name) = (bytes(&self.version), bytes(&self.method), bytes(&self.name));
        McpHeaders { version, method, name, arguments }
    }

    /// The modern era knows no sessions, whatever an old client of the same name left behind.
    pub(in crate::proxy) fn names_session(&self) -> bool {
        self.session.is_some() && !self.version().ok().flatten().is_some_and(McpVersion::is_modern_name)
    }

    /// `Err`: it stands twice, or is no text.
    pub(in crate::proxy) fn version(&self) -> Result<Option<&str>, ()> {
        match self.version.as_slice() {
            [] => Ok(None),
            [one] => one.to_str().map(|text| Some(text.trim())).map_err(|_| ()),
            _ => Err(()),
        }
    }
}

pub(in crate::proxy) fn posted(session: &Session) -> Posted {
    let headers = &session.req_header().headers;
    let all = |name: &str| headers.get_all(name).iter().cloned().collect();
    let (takes_json, takes_events) = accepts(headers);
    Posted {
        takes_json,
        takes_events,
        session: headers.get(SESSION).map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned()),
        last_event: headers.get("last-event-id").cloned(),
        traced: super::TRACED.iter().filter_map(|name| Some((name.clone(), headers.get(name)?.clone()))).collect(),
        version: all("mcp-protocol-version"),
        method: all("mcp-method"),
        name: all("mcp-name"),
        arguments: headers
            .iter()
            .filter(|(name, _)| name.as_str().starts_with(ARGUMENT))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        refused: (!takes_json && !takes_events).then_some(406),
    }
}

/// Whether JSON and event streams are taken. A client that says nothing takes either.
fn accepts(headers: &HeaderMap) -> (bool, bool) {
    if !headers.contains_key(super::ACCEPT) {
        return (true, true);
    }
    let (mut json, mut events) = (false, false);
    for value in headers.get_all(super::ACCEPT) {
        for range in String::from_utf8_lossy(value.as_bytes()).split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let unwanted =
                parts.any(|p| matches!(p.to_ascii_lowercase().as_str(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
            if unwanted {
                continue;
            }
            json |= matches!(kind.as_str(), "application/json" | "application/*" | "*/*");
            events |= matches!(kind.as_str(), "text/event-stream" | "text/*" | "*/*");
        }
    }
    (json, events)
}

/// A body must be JSON that is not packed: a page of another origin cannot send that unasked.
pub(in crate::proxy) fn content(session: &Session) -> Result<(), u16> {
    let headers = &session.req_header().headers;
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    let packed = headers.get(header::CONTENT_ENCODING).is_some_and(|v| !v.as_bytes().eq_ignore_ascii_case(b"identity"));
    if essence.eq_ignore_ascii_case("application/json") && !packed { Ok(()) } else { Err(415) }
}

/// A GET opens a stream of events, and there is nothing else to get.
pub(in crate::proxy) fn stream(session: &Session) -> Result<(), u16> {
    if accepts(&session.req_header().headers).1 { Ok(()) } else { Err(406) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_takes() {
        let of = |text: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            text.map(|text| headers.insert(header::ACCEPT, HeaderValue::from_static(text)));
            accepts(&headers)
        };
        assert_eq!(of(None), (true, true));
        assert_eq!(of(Some("application/json, text/event-stream")), (true, true));
        assert_eq!(of(Some("Application/JSON;q=0.9")), (true, false));
        assert_eq!(of(Some("text/event-stream, application/json;q=0")), (false, true));
        assert_eq!(of(Some("*/*")), (true, true));
        assert_eq!(of(Some("text/html")), (false, false));
    }
}
