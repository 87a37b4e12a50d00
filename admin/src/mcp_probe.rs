//! Asks an MCP server who it is and what it offers, as a client without capabilities would: in the modern way first,
//! and where that is not understood by opening a session. Stores nothing.

use gateway_domain::ports::{McpLine, Outside, OutsideCall, OutsideReply};
use gateway_domain::resource::mcp::McpSync;
use gateway_domain::time::Timestamp;
use gateway_mcp::filter::McpKind;
use gateway_mcp::sse::McpEvents;
use gateway_mcp::{McpVersion, RawObject, RpcMessage, bridge, object};
use http::{HeaderName, HeaderValue, Method, header};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long asking a server may take in all.
pub(crate) const WITHIN: Duration = Duration::from_secs(10);
/// Bytes of one answer.
const MOST_REPLY: usize = 4 << 20;
/// Bytes of everything that a server offers, and how many things that may be.
const MOST_BYTES: usize = 1 << 20;
const MOST_ITEMS: usize = 5000;
const MOST_PAGES: usize = 100;
/// The error of a version that is not served, with those that are (Model Context Protocol 2026-07-28, versioning).
const UNSUPPORTED_VERSION: &str = "-32022";
/// Characters that are kept of a server's name, of its version, and of the message of an error.
const MOST_TEXT: usize = 300;

/// Where it is, and as whom it is asked.
pub(crate) struct ProbeTarget {
    pub(crate) url: String,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

/// What came of asking a server.
pub(crate) struct Probed {
    /// The HTTP status of the server's last answer; `None`: it gave none.
    pub(crate) status: Option<u16>,
    pub(crate) millis: i64,
    /// `Err`: a sentence that holds nothing of what the server said beyond its status and its error's message.
    pub(crate) told: Result<McpSync, String>,
    /// Who it is and which version it speaks, where that is all that it said: what it offers may want more than it was
    /// asked with.
    pub(crate) opened: Option<McpSync>,
}

impl Probed {
    /// Nobody was asked.
    pub(crate) const fn unasked(why: String) -> Self {
        Self { status: None, millis: 0, told: Err(why), opened: None }
    }
}

/// Asks a server what it offers. With a `line` everything is said over that, and a session is opened first.
pub(crate) async fn probe(
    (outside, line): (&dyn Outside, Option<Box<dyn McpLine>>),
    target: &ProbeTarget,
    clock: fn() -> Timestamp,
) -> Probed {
    let began = clock();
    let mut asking = ProbeTalk {
        outside,
        line,
        target,
        clock,
        began,
        status: None,
        session: None,
        version: None,
        sent: 0,
        offered: false,
        opened: None,
    };
    let told = asking.ask().await;
    asking.leave().await;
    let opened = asking.opened.filter(|_| told.is_err());
    Probed { status: asking.status, millis: (clock().0 - began.0) / 1000, told, opened }
}

struct ProbeTalk<'a> {
    outside: &'a dyn Outside,
    line: Option<Box<dyn McpLine>>,
    target: &'a ProbeTarget,
    clock: fn() -> Timestamp,
    began: Timestamp,
    status: Option<u16>,
    session: Option<HeaderValue>,
    version: Option<McpVersion>,
    sent: u64,
    /// It refused the version that it says it speaks: servers may want to be asked for one of their list.
    offered: bool,
    opened: Option<McpSync>,
}

impl ProbeTalk<'_> {
    async fn ask(&mut self) -> Result<McpSync, String> {
        let discovered = if self.line.is_none() { self.discover().await } else { None };
        let opened = match discovered {
            Some(discovered) => discovered,
            None => self.open_session().await?,
        };
        let opened = RawObject::parse(&opened).map_err(|_| "the server's answer is no object".to_owned())?;
        let flags = opened.object("capabilities").unwrap_or_default();
        let of_meta = || {
            RawObject::parse(opened.object("_meta")?.raw("io.modelcontextprotocol/serverInfo")?)
                .ok()
                .map(|o| o.to_json())
        };
        let info = opened.raw("serverInfo").map(str::to_owned).or_else(of_meta).unwrap_or_default();
        let info = RawObject::parse(&info).ok();
        let text = |name: &str| info.as_ref().and_then(|info| info.text(name)).map(|text| short(&text));
        let opening = McpSync {
            server_name: text("name"),
            server_version: text("version"),
            protocol_version: self.version.map(|version| version.name().to_owned()),
            flags: serde_json::from_str(&flags.to_json()).unwrap_or_default(),
            ..McpSync::default()
        };
        self.opened = Some(opening.clone());
        let mut items = BTreeMap::new();
        let mut room = ProbeRoom { bytes: MOST_BYTES, items: MOST_ITEMS };
        for kind in McpKind::ALL {
            let capability = match kind {
                McpKind::Tool => "tools",
                McpKind::Prompt => "prompts",
                McpKind::Resource | McpKind::ResourceTemplate => "resources",
            };
            if flags.contains(capability) {
                let found = self.list(kind, &mut room).await?;
                if !found.is_empty() {
                    items.insert(kind.name().to_owned(), found);
                }
            }
        }
        Ok(McpSync { status: "ok".to_owned(), at: Some((self.clock)()), items, ..opening })
    }

    /// A server that lets nobody discover it, though it knows how to refuse that, and knows of no sessions speaks the
    /// modern way.
    async fn open_session(&mut self) -> Result<String, String> {
        let is_shut = matches!(self.status, Some(401 | 403));
        let opened = self.initialize().await;
        if opened.is_err() && is_shut && matches!(self.status, Some(400 | 404 | 405 | 406)) {
            let version = Some(McpVersion::V2026_07_28.name().to_owned());
            self.opened = Some(McpSync { protocol_version: version, ..McpSync::default() });
        }
        opened
    }

    /// `None`: the server does not speak so.
    async fn discover(&mut self) -> Option<String> {
        self.version = Some(McpVersion::V2026_07_28);
        let mut told = self.request("server/discover", Value::Null).await;
        if told.is_err() && self.offered {
            told = self.request("server/discover", Value::Null).await;
        }
        let found = told.ok().filter(|result| {
            let object = RawObject::parse(result).ok();
            let versions = object.as_ref().and_then(|o| object::items(o.raw("supportedVersions")?).map(|v| v.len()));
            versions.is_some_and(|versions| versions > 0) && result.contains(McpVersion::V2026_07_28.name())
        });
        if found.is_none() {
            (self.version, self.session) = (None, None);
        }
        found
    }

    async fn initialize(&mut self) -> Result<String, String> {
        let params = bridge::initialize_params(McpVersion::NEWEST_LEGACY);
        let result = self.request("initialize", params).await?;
        let version = RawObject::parse(&result).ok().and_then(|object| object.text("protocolVersion"));
        let version = version.as_deref().and_then(McpVersion::parse);
        self.version = Some(version.ok_or("the server speaks a version that is not known here")?);
        let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
        match &mut self.line {
            Some(line) => line.send(note).await?,
            None => drop(self.post("notifications/initialized", note).await?),
        }
        Ok(result)
    }

    /// All pages.
    async fn list(&mut self, kind: McpKind, room: &mut ProbeRoom) -> Result<Vec<Value>, String> {
        let (mut found, mut cursor) = (Vec::new(), None::<String>);
        for _ in 0..MOST_PAGES {
            let params = cursor.as_ref().map_or(Value::Null, |cursor| json!({"cursor": cursor}));
            let result = match self.request(kind.list(), params).await {
                Ok(result) => result,
                // Some servers have resources and no templates.
                Err(_) if kind == McpKind::ResourceTemplate => return Ok(found),
                Err(why) => return Err(why),
            };
            let object =
                RawObject::parse(&result).map_err(|_| format!("the answer to {} is no object", kind.list()))?;
            let all = object.raw(kind.member()).and_then(object::items);
            for item in all.ok_or_else(|| format!("the answer to {} has no list", kind.list()))? {
                room.take(item.len())?;
                found.push(serde_json::from_str(item).unwrap_or_default());
            }
            cursor = object.text("nextCursor").filter(|cursor| !cursor.is_empty());
            if cursor.is_none() {
                return Ok(found);
            }
        }
        Err(format!("the answer to {} has more than {MOST_PAGES} pages", kind.list()))
    }

    async fn request(&mut self, method: &str, params: Value) -> Result<String, String> {
        self.sent += 1;
        let id = self.sent;
        let mut params = params;
        if self.version == Some(McpVersion::V2026_07_28) {
            let text = params.to_string();
            let raw = RawObject::parse(&text).ok();
            params = serde_json::from_str(&bridge::to_modern(raw.as_ref())).unwrap_or_default();
        }
        let mut body = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if !params.is_null() {
            body["params"] = params;
        }
        let text = match &mut self.line {
            Some(line) => {
                let passed = u64::try_from((self.clock)().0 - self.began.0).unwrap_or(0);
                let left = WITHIN.saturating_sub(Duration::from_micros(passed));
                asked_over(&mut **line, (body.to_string(), id), left).await?
            }
            None => self.posted(method, body.to_string(), id).await?,
        };
        let answer = RawObject::parse(&text).map_err(|_| "the server's answer cannot be read".to_owned())?;
        if let Some(error) = answer.object("error") {
            let offered = error.object("data").and_then(|data| data.raw("supported").map(str::to_owned));
            self.offered = error.raw("code") == Some(UNSUPPORTED_VERSION)
                && offered.is_some_and(|offered| offered.contains(McpVersion::V2026_07_28.name()));
            let said = error.text("message").unwrap_or_default();
            return Err(format!("the server answered {method} with an error: {}", short(&said)));
        }
        answer.raw("result").map(str::to_owned).ok_or_else(|| "the server's answer has no result".to_owned())
    }

    /// The answer to the request with this number.
    async fn posted(&mut self, method: &str, body: String, id: u64) -> Result<String, String> {
        let reply = self.post(method, body).await?;
        if method == "initialize" {
            self.session = reply.headers.get("mcp-session-id").cloned();
        }
        message(&reply, id).ok_or_else(|| {
            let kind = if (200..300).contains(&reply.status) { "with no answer to what was asked" } else { "" };
            format!("the server answered {} to {method} {kind}", reply.status).trim_end().to_owned()
        })
    }

    async fn post(&mut self, method: &str, body: String) -> Result<OutsideReply, String> {
        let mut headers = self.headers();
        headers.push((header::CONTENT_TYPE, HeaderValue::from_static("application/json")));
        if self.version == Some(McpVersion::V2026_07_28)
            && let Ok(method) = HeaderValue::from_str(method)
        {
            headers.push((HeaderName::from_static("mcp-method"), method));
        }
        let reply = self.send(Method::POST, headers, body).await?;
        self.status = Some(reply.status);
        Ok(reply)
    }

    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        let mut headers = vec![(header::ACCEPT, accept)];
        if let Some(version) = self.version {
            let name = HeaderName::from_static("mcp-protocol-version");
            headers.push((name, HeaderValue::from_static(version.name())));
        }
        if let Some(session) = &self.session {
            headers.push((HeaderName::from_static("mcp-session-id"), session.clone()));
        }
        headers.extend(self.target.headers.iter().cloned());
        headers
    }

    async fn send(
        &mut self,
        method: Method,
        headers: Vec<(HeaderName, HeaderValue)>,
        body: String,
    ) -> Result<OutsideReply, String> {
        let passed = u64::try_from((self.clock)().0 - self.began.0).unwrap_or(0);
        let within = WITHIN.checked_sub(Duration::from_micros(passed)).filter(|left| !left.is_zero());
        let Some(within) = within else { return Err(format!("no answer within {} s", WITHIN.as_secs())) };
        let url = self.target.url.clone();
        let call =
            OutsideCall { method, url, headers, body: body.into(), within, most_reply: MOST_REPLY, redirects: 0 };
        self.outside.call(call).await.map_err(|e| e.to_string())
    }

    /// A session that was opened is closed; whether the server minds is its own matter.
    async fn leave(&mut self) {
        if self.session.is_some() {
            let headers = self.headers();
            let _ = self.send(Method::DELETE, headers, String::new()).await;
        }
    }
}

/// What may still be kept.
struct ProbeRoom {
    bytes: usize,
    items: usize,
}

impl ProbeRoom {
    fn take(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.bytes.checked_sub(bytes).zip(self.items.checked_sub(1));
        let told = || format!("the server offers more than {MOST_ITEMS} things or {MOST_BYTES} bytes of them");
        (self.bytes, self.items) = left.ok_or_else(told)?;
        Ok(())
    }
}

/// One request over a line. What the server says meanwhile is nobody's.
async fn asked_over(line: &mut dyn McpLine, (body, id): (String, u64), within: Duration) -> Result<String, String> {
    line.send(body).await?;
    line.until(within, &|text| is_answer(text.trim(), id)).await
}

fn is_answer(text: &str, id: u64) -> bool {
    matches!(RpcMessage::parse(text), Ok(RpcMessage::Response { id: of, .. }) if of.is(&id.to_string()))
}

/// The answer to the request with this number, by itself or among events.
fn message(reply: &OutsideReply, id: u64) -> Option<String> {
    let is_answer = |text: &str| is_answer(text, id);
    let kind = reply.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("text/event-stream") {
        let text = std::str::from_utf8(&reply.body).ok()?.trim();
        return is_answer(text).then(|| text.to_owned());
    }
    let mut events = McpEvents::default();
    events.push(&reply.body);
    while let Ok(Some(event)) = events.next_event() {
        if is_answer(event.data.trim()) {
            return Some(event.data.trim().to_owned());
        }
    }
    None
}

fn short(text: &str) -> String {
    text.chars().take(MOST_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http::HeaderMap;

    fn reply(kind: &'static str, body: &'static str) -> OutsideReply {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        OutsideReply { status: 200, headers, body: Bytes::from_static(body.as_bytes()) }
    }

    #[test]
    fn the_answer_is_found_among_events() {
        const ANSWER: &str = r#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
        assert_eq!(message(&reply("application/json", ANSWER), 2).as_deref(), Some(ANSWER));
        assert_eq!(message(&reply("application/json", ANSWER), 3), None);
        let stream = "\n\ndata: \n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n\
            event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n\n";
        assert_eq!(message(&reply("text/event-stream; charset=utf-8", stream), 2).as_deref(), Some(ANSWER));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut room = ProbeRoom { bytes: 10, items: 2 };
        assert!(room.take(4).is_ok() && room.take(4).is_ok());
        assert!(room.take(1).expect_err("full").contains("more than"));
        assert!(ProbeRoom { bytes: 3, items: 9 }.take(4).is_err());
    }
}
