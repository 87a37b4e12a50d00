//! Asks a server something of the gateway's own, beside what a client reads: in the modern way, or in the session that
//! stands for the caller. Knows no client; whoever waits for it notices when one leaves.

use super::accounts::is_not_connected;
use super::call::listed;
use super::lists::ListKey;
use super::state::{BridgeKey, BridgeSession, McpState};
use super::target::McpTarget;
use super::upstream::{
    MOST_ANSWER, UpstreamAnswer, UpstreamAsk, UpstreamCalls, UpstreamReply, UpstreamStream, response_of,
};
use crate::proxy::body::Permit;
use gateway_mcp::filter::McpKind;
use gateway_mcp::merge::{self, MergedItem};
use gateway_mcp::object::items;
use gateway_mcp::session::UpstreamSession;
use gateway_mcp::sse::McpEvents;
use gateway_mcp::{Era, McpVersion, RawObject, RpcError, RpcId, bridge};
use http::{HeaderName, HeaderValue};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The most time for what is asked of all members at once.
pub(super) const WITHIN: Duration = Duration::from_secs(10);
/// The most items that the lists of all members may have together; `MOST_BYTES` bounds their bytes.
const MOST_ITEMS: usize = 5000;
const MOST_BYTES: usize = 8 << 20;
const MOST_PAGES: usize = 100;

/// What lists may still hold, for all members that are asked at once.
pub(super) struct ListRoom {
    items: AtomicUsize,
    bytes: AtomicUsize,
}

impl Default for ListRoom {
    fn default() -> Self {
        Self { items: AtomicUsize::new(MOST_ITEMS), bytes: AtomicUsize::new(MOST_BYTES) }
    }
}

impl ListRoom {
    fn take(&self, bytes: usize) -> bool {
        let from = |left: &AtomicUsize, by: usize| {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(by)).is_ok()
        };
        from(&self.items, 1) && from(&self.bytes, bytes)
    }
}

/// Speaks with one server for one caller.
pub(super) struct McpTalk<'a> {
    pub(super) calls: UpstreamCalls<'a>,
    pub(super) state: &'a McpState,
    pub(super) key: BridgeKey,
    /// This server's part of the client's own session; another node may have opened it.
    pub(super) sealed: Option<UpstreamSession>,
    /// Parameters of `initialize`.
    pub(super) opening: String,
    pub(super) traced: Vec<(HeaderName, HeaderValue)>,
}

impl McpTalk<'_> {
    fn target(&self) -> &McpTarget {
        self.calls.target
    }

    /// The session that stands for the caller, where one is known.
    pub(super) fn held(&self) -> Option<BridgeSession> {
        held(self.state, &self.key, self.sealed.as_ref())
    }

    pub(super) async fn open(&self) -> Result<BridgeSession, RpcError> {
        let opened = open(self.calls, &self.opening).await?;
        self.state.keep_bridge(self.key.clone(), opened.clone());
        Ok(opened)
    }

    /// The result of one request. A session that the server forgot is opened anew, once.
    pub(super) async fn request(&self, method: &str, params: Option<&RawObject<'_>>) -> Result<String, RpcError> {
        let wire = RpcId::of(&format!("g{}", self.state.number()));
        if self.target().era() == Era::Modern {
            let params = bridge::to_modern(params);
            let id = wire.json();
            let ask = UpstreamAsk {
                version: Some(McpVersion::V2026_07_28.name().to_owned()),
                rpc_method: Some(method.to_owned()),
                headers: self.traced.clone(),
                ..UpstreamAsk::post(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#))
            };
            return result_of(self.calls, &ask, &wire).await;
        }
        let params = bridge::to_legacy(params).unwrap_or_else(|| "{}".to_owned());
        let id = wire.json();
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        let known = self.held();
        let fresh = known.is_none();
        let session = match known {
            Some(session) => session,
            None => self.open().await?,
        };
        let ask = |session: &BridgeSession| UpstreamAsk { headers: self.traced.clone(), ..session.post(body.clone()) };
        let answered = result_of(self.calls, &ask(&session), &wire).await;
        if fresh || !matches!(&answered, Err(error) if error.status == 404) {
            return answered;
        }
        self.state.forget_bridge(&self.key);
        let session = self.open().await?;
        result_of(self.calls, &ask(&session), &wire).await
    }

    /// One page of a list, as it was kept where the server keeps no session.
    async fn list_page(&self, kind: McpKind, params: &RawObject<'_>) -> Result<String, RpcError> {
        let (lists, upstream, owner) = (&self.state.lists, &self.target().upstream, &self.target().owner);
        let version = match self.target().era() {
            Era::Modern => Some(McpVersion::V2026_07_28),
            Era::Legacy => {
                self.held().filter(|held| held.id.is_none()).and_then(|held| McpVersion::parse(&held.version))
            }
        };
        let version = version.filter(|_| lists.are_kept());
        let key = version.and_then(|version| ListKey::new(upstream, version, kind.list(), Some(params), owner.clone()));
        let Some(key) = key else {
            return match self.request(kind.list(), Some(params)).await {
                Err(error) if is_not_connected(&error) => self.found(kind).ok_or(error),
                told => told,
            };
        };
        if let Some(kept) = lists.get(&key, Instant::now()) {
            return Ok(kept.to_string());
        }
        match self.request(kind.list(), Some(params)).await {
            Ok(result) => {
                lists.keep(key, &result, Instant::now());
                Ok(result)
            }
            Err(error) if is_not_connected(&error) => self.found(kind).ok_or(error),
            Err(error) if error.status >= 500 || error.status == 408 => {
                lists.stale(&key, Instant::now()).map(|kept| kept.to_string()).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    /// What the server was found to offer, for a caller who has no account there.
    fn found(&self, kind: McpKind) -> Option<String> {
        let found = self.target().upstream.found.as_ref()?;
        Some(listed(found, kind))
    }

    /// All that the server lists and the caller may see, under the names of the whole.
    pub(super) async fn list(&self, kind: McpKind, room: &ListRoom) -> Result<Vec<MergedItem>, RpcError> {
        let target = self.target();
        let (mut found, mut cursor) = (Vec::new(), None::<String>);
        for _ in 0..MOST_PAGES {
            let mut params = RawObject::default();
            if let Some(cursor) = &cursor {
                params.set_text("cursor", cursor);
            }
            let result = match self.list_page(kind, &params).await {
                Ok(result) => result,
                // It has none of them.
                Err(error) if error.code == -32601 => return Ok(found),
                Err(error) => return Err(error),
            };
            let object = RawObject::parse(&result).map_err(|_| broken())?;
            for item in object.raw(kind.member()).and_then(items).ok_or_else(broken)? {
                if !room.take(item.len()) {
                    let why =
                        format!("The lists of the members hold more than {MOST_ITEMS} items or {MOST_BYTES} bytes");
                    return Err(RpcError::own(502, why));
                }
                let merged = merge::item(kind, target.prefix(), item);
                let seen =
                    |own: &str| target.allows(kind, own) && self.state.drift.sees(&target.upstream, kind, own, item);
                found.extend(merged.filter(|merged| seen(&merged.own)));
            }
            cursor = object.text("nextCursor").filter(|cursor| !cursor.is_empty());
            if cursor.is_none() {
                return Ok(found);
            }
        }
        Err(RpcError::own(502, format!("The list of a member has more than {MOST_PAGES} pages")))
    }
}

/// What stands for the caller: found open here, else what the client's session says.
pub(super) fn held(state: &McpState, key: &BridgeKey, sealed: Option<&UpstreamSession>) -> Option<BridgeSession> {
    state.bridge(key).or_else(|| {
        let sealed = sealed?;
        let id = Some(sealed.id.clone()).filter(|id| !id.is_empty());
        Some(BridgeSession::new(id, sealed.version.clone(), ""))
    })
}

fn broken() -> RpcError {
    RpcError::own(502, "The MCP server's answer cannot be understood")
}

/// Opens a session.
pub(super) async fn open(calls: UpstreamCalls<'_>, params: &str) -> Result<BridgeSession, RpcError> {
    let id = RpcId::of("g0");
    let body = format!(r#"{{"jsonrpc":"2.0","id":"g0","method":"initialize","params":{params}}}"#);
    let reply = calls.send(&UpstreamAsk::post(body)).await?;
    let session = reply.session.clone();
    let result = whole(reply, &id).await?;
    let version = RawObject::parse(&result).ok().and_then(|object| object.text("protocolVersion"));
    let version = version.filter(|version| McpVersion::parse(version).is_some());
    let version =
        version.ok_or_else(|| RpcError::own(502, "The MCP server speaks a version that is not known here"))?;
    let opened = BridgeSession::new(session, version, &result);
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    calls.send(&opened.post(note)).await?;
    Ok(opened)
}

pub(super) async fn result_of(calls: UpstreamCalls<'_>, ask: &UpstreamAsk, id: &RpcId) -> Result<String, RpcError> {
    whole(calls.send(ask).await?, id).await
}

/// The result that comes over a stream.
pub(super) async fn answer_of(stream: UpstreamStream, held: Permit, id: &RpcId) -> Result<String, RpcError> {
    whole(UpstreamReply { answer: UpstreamAnswer::Events(stream), session: None, held }, id).await
}

/// The result of an answer that nobody reads piece by piece.
async fn whole(reply: UpstreamReply, id: &RpcId) -> Result<String, RpcError> {
    let mut held = reply.held;
    let text = match reply.answer {
        UpstreamAnswer::Json(bytes) => response_of(&String::from_utf8_lossy(&bytes), id),
        UpstreamAnswer::Events(response) => answer_among(response, &mut held, id).await?,
        UpstreamAnswer::SessionLost => return Err(RpcError::no_session()),
        UpstreamAnswer::Taken | UpstreamAnswer::NotServed => None,
    };
    let text = text.ok_or_else(broken)?;
    let envelope = RawObject::parse(&text).map_err(|_| broken())?;
    if let Some(error) = envelope.object("error") {
        let said: String = error.text("message").unwrap_or_default().chars().take(300).collect();
        let code = error.raw("code").and_then(|code| code.parse().ok()).unwrap_or(502);
        return Err(RpcError::new(502, code, format!("The MCP server refused: {said}")));
    }
    envelope.raw("result").map(str::to_owned).ok_or_else(broken)
}

/// Read no further than to the answer: whoever sent it may keep the stream open.
async fn answer_among(mut response: UpstreamStream, held: &mut Permit, id: &RpcId) -> Result<Option<String>, RpcError> {
    let (mut events, mut got) = (McpEvents::default(), 0);
    loop {
        while let Some(event) = events.next_event().map_err(|_| broken())? {
            if let Some(found) = response_of(&event.data, id) {
                return Ok(Some(found));
            }
        }
        let Some(piece) = response.read().await? else { return Ok(None) };
        got += piece.len();
        if got > MOST_ANSWER {
            return Err(RpcError::own(502, format!("The MCP server's answer is longer than {MOST_ANSWER} bytes")));
        }
        held.grow_to(got).map_err(|fault| RpcError::own(fault.status(), fault.message().to_owned()))?;
        events.push(&piece);
    }
}

impl BridgeSession {
    /// A message in this session.
    pub(super) fn post(&self, body: String) -> UpstreamAsk {
        UpstreamAsk { version: Some(self.version.clone()), session: self.id.clone(), ..UpstreamAsk::post(body) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_share_one_room() {
        let room = ListRoom::default();
        assert!(room.take(MOST_BYTES - 1) && room.take(1) && !room.take(1));
        let room = ListRoom::default();
        assert!((0..MOST_ITEMS).all(|_| room.take(1)) && !room.take(1));
    }
}
