//! What a caller sees of a server where they have no account yet: lists and openings as the server was last found, and
//! for a call the place where to connect one, in the form that the client understands.

use super::members::MOST_CLIENT;
use super::{McpAsked, McpTurn, answer};
use crate::proxy::client::ClientLeft;
use crate::proxy::mcp::accounts::{is_not_connected, place_to_connect};
use crate::proxy::mcp::downstream::LastMessage;
use gateway_domain::resource::mcp::McpSync;
use gateway_mcp::filter::McpKind;
use gateway_mcp::header::CLIENT_CAPABILITIES_KEY;
use gateway_mcp::{McpVersion, RawObject, RpcError, bridge};
use serde_json::{Value, json};
use std::borrow::Cow;
use uuid::Uuid;

/// The name of what the gateway asks the client among `inputRequests`, and of the answer among `inputResponses`.
const ASKED: &str = "gateway/connect";
/// The protocol's error code that says: somebody has to open an address first.
const URL_ELICITATION_REQUIRED: i64 = -32042;
/// What a session remembers of a client that can open addresses.
const OPENS_ADDRESSES: &str = r#"{"elicitation":{"url":{}}}"#;

impl McpTurn<'_, '_> {
    /// `None`: the error says something else.
    pub(super) async fn unconnected(
        &mut self,
        asked: &McpAsked<'_>,
        error: &RpcError,
    ) -> Result<Option<LastMessage>, ClientLeft> {
        let Some(found) = self.target.upstream.found.clone().filter(|_| is_not_connected(error)) else {
            return Ok(None);
        };
        if asked.method == "subscriptions/listen" {
            return Box::pin(self.listen_here(asked)).await.map(Some);
        }
        // Who it is and what it offers is known since the first person has an account there; before that it is no empty
        // list.
        let known = found.status != "failed" && !found.status.is_empty();
        let opening = || opening(&found, &self.target.upstream.capabilities);
        let result = match asked.method.as_str() {
            "initialize" => bridge::initialized_from(&opening(), asked.version),
            "server/discover" => bridge::discovered_from(&opening()),
            method => McpKind::listed_by(method).filter(|_| known).map(|kind| listed(&found, kind)),
        };
        let Some(result) = result else { return Ok(Some(self.asks_to_connect(asked, error))) };
        if asked.method == "initialize" {
            let client = self.remember_client(asked);
            if let Err(error) = self.issue_alone(asked.version, client.as_deref()) {
                return Ok(Some(LastMessage::error(&error, Some(&asked.id))));
            }
            return Ok(Some(LastMessage::ok(answer::answered(asked, &result))));
        }
        Ok(Some(self.seen(asked, &answer::answered(asked, &result))))
    }

    fn asks_to_connect(&self, asked: &McpAsked<'_>, error: &RpcError) -> LastMessage {
        let plain =
            || LastMessage { recorded: Some(403), is_unconnected: true, ..LastMessage::error(error, Some(&asked.id)) };
        let Some(url) = place_to_connect(error).filter(|_| self.opens_addresses(asked)) else { return plain() };
        if asked.is_modern() {
            let takes_input = matches!(asked.method.as_str(), "tools/call" | "prompts/get" | "resources/read");
            if !takes_input {
                return plain();
            }
            let params = json!({"mode": "url", "url": url, "message": &*error.message});
            let request = json!({"method": "elicitation/create", "params": params});
            let result = json!({"resultType": "input_required", "inputRequests": {ASKED: request}});
            return LastMessage { body: answer::answered(asked, &result.to_string()), ..plain() };
        }
        let elicitation = json!({"mode": "url", "elicitationId": Uuid::now_v7().to_string(), "url": url,
            "message": &*error.message});
        let told = RpcError::new(200, URL_ELICITATION_REQUIRED, error.message.clone());
        let told = told.data(json!({"elicitations": [elicitation]}));
        LastMessage { body: told.body(Some(&asked.id)), ..plain() }
    }

    /// Whether the client can be asked to open an address: it says so with each request, or said so when it began.
    fn opens_addresses(&self, asked: &McpAsked<'_>) -> bool {
        if asked.is_modern() {
            let params = asked.params().unwrap_or_default();
            let meta = params.object("_meta").unwrap_or_default();
            return meta.raw(CLIENT_CAPABILITIES_KEY).is_some_and(opens);
        }
        self.session.as_ref().is_some_and(|session| opens(&session.client))
    }

    /// What a session is to remember of the client that opens it.
    pub(super) fn remember_client(&self, asked: &McpAsked<'_>) -> Option<Cow<'static, str>> {
        let told = asked.params().and_then(|params| params.raw("capabilities").map(str::to_owned))?;
        let opens = opens(&told) && self.target.person.is_some();
        // A connection that has to be opened anew must be what the client opened.
        if self.target.upstream.transport.stays_open() && told.len() <= MOST_CLIENT {
            return Some(bridge::capabilities(&told).unwrap_or(told).into());
        }
        opens.then_some(OPENS_ADDRESSES.into())
    }

    /// A call that comes again with what the client did about its account: the server hears nothing of that.
    pub(super) async fn ask_anew(
        &mut self,
        bare: &McpAsked<'_>,
        asked: &McpAsked<'_>,
    ) -> Result<LastMessage, ClientLeft> {
        let declined = has_declined(asked);
        let last = self.ask_in_its_way(bare).await?;
        if !(declined && last.is_unconnected) {
            return Ok(last);
        }
        let error = RpcError::new(200, 403, "There is no account to call with, and none was connected");
        Ok(LastMessage { body: error.body(Some(&asked.id)), ..last })
    }

    /// A session with nothing behind it yet.
    pub(super) fn issue_alone(&mut self, version: McpVersion, client: Option<&str>) -> Result<(), RpcError> {
        let mut session = self.new_session(version);
        session.client = client.unwrap_or_default().to_owned();
        let sealed = session.seal(self.parts.state);
        self.down.session = Some(sealed.ok_or_else(|| RpcError::own(502, "The session is too long to be carried"))?);
        Ok(())
    }

    /// Whether the client's session began before the server could be opened for its person: such calls go in the
    /// session that stands for the caller.
    pub(super) fn is_detached(&self) -> bool {
        let has_part = |session: &gateway_mcp::session::McpSession| session.member(&self.target.part()).is_some();
        self.target.person.is_some()
            && self.target.member.is_none()
            && self.session.as_ref().is_some_and(|session| !has_part(session))
    }
}

fn opens(capabilities: &str) -> bool {
    let told: Option<Value> = serde_json::from_str(capabilities).ok();
    told.is_some_and(|told| told["elicitation"]["url"].is_object())
}

/// The client's answer to what it was asked before: not now.
fn has_declined(asked: &McpAsked<'_>) -> bool {
    let params = asked.params().unwrap_or_default();
    let responses = params.object("inputResponses").unwrap_or_default();
    let own = responses.object(ASKED).unwrap_or_default();
    own.text("action").is_some_and(|action| action != "accept")
}

/// The parameters without the client's answer to what the gateway asked; `None`: there is none in them.
pub(super) fn without_answer(params: &RawObject<'_>) -> Option<String> {
    let held = params.raw("inputResponses").filter(|held| held.contains(ASKED))?.to_owned();
    let mut responses = RawObject::parse(&held).ok()?;
    responses.remove(ASKED).then_some(())?;
    let (rest, mut params) = (responses.to_json(), params.clone());
    if rest == "{}" {
        params.remove("inputResponses");
    } else {
        params.set("inputResponses", rest);
    }
    Some(params.to_json())
}

/// The result of `initialize` with the name and version that the server gave when somebody could ask it.
fn opening(found: &McpSync, capabilities: &str) -> String {
    let text = |text: &Option<String>, other: &str| text.clone().unwrap_or_else(|| other.to_owned());
    let info = json!({"name": text(&found.server_name, "unknown"), "version": text(&found.server_version, "0")});
    // The capabilities of a server that nobody has asked yet are unknown: it is said to have tools, so that the client
    // tries.
    let capabilities = if capabilities.is_empty() { r#"{"tools":{}}"# } else { capabilities };
    let mut opening = RawObject::default();
    opening.set("capabilities", capabilities);
    opening.set("serverInfo", info.to_string());
    opening.to_json()
}

/// All of a kind, on one page.
pub(crate) fn listed(found: &McpSync, kind: McpKind) -> String {
    let items = found.items.get(kind.name()).map(Vec::as_slice).unwrap_or_default();
    json!({kind.member(): items}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_opens_addresses_says_so() {
        assert!(opens(r#"{"elicitation":{"url":{}}}"#) && opens(OPENS_ADDRESSES));
        for other in ["", "{}", r#"{"elicitation":{}}"#, r#"{"elicitation":{"form":{}}}"#, "[]"] {
            assert!(!opens(other), "{other}");
        }
    }

    #[test]
    fn what_the_gateway_asked_is_not_told_to_the_server() {
        let of = |text: &str| without_answer(&RawObject::parse(text).expect("an object"));
        let own = r#"{"name":"t","inputResponses":{"gateway/connect":{"action":"accept"}}}"#;
        assert_eq!(of(own).as_deref(), Some(r#"{"name":"t"}"#));
        let both = r#"{"inputResponses":{"x":{"action":"accept"},"gateway/connect":{"action":"accept"}}}"#;
        assert_eq!(of(both).as_deref(), Some(r#"{"inputResponses":{"x":{"action":"accept"}}}"#));
        assert_eq!((of(r#"{"name":"gateway/connect"}"#), of(r#"{"inputResponses":{"x":{}}}"#)), (None, None));
    }

    #[test]
    fn lists_are_what_was_found() {
        let mut found = McpSync { server_name: Some("s".to_owned()), ..McpSync::default() };
        found.items.insert("tool".to_owned(), vec![json!({"name": "echo"})]);
        assert_eq!(listed(&found, McpKind::Tool), r#"{"tools":[{"name":"echo"}]}"#);
        assert_eq!(listed(&found, McpKind::Prompt), r#"{"prompts":[]}"#);
        let opened = bridge::initialized_from(&opening(&found, ""), McpVersion::V2025_11_25).expect("a result");
        let opened: Value = serde_json::from_str(&opened).expect("json");
        assert_eq!(opened["serverInfo"], json!({"name": "s", "version": "0"}));
        assert_eq!(opened["capabilities"]["tools"]["listChanged"], true);
    }
}
