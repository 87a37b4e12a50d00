//! Translates between the two eras of the protocol: what a request needs before an upstream of the other era
//! understands it, and what a result must gain or lose on its way back. Capabilities that cannot pass are not told of.

use crate::header::{CLIENT_CAPABILITIES_KEY, VERSION_KEY};
use crate::object::RawObject;
use crate::task::TASKS_EXTENSION;
use crate::version::{Era, McpVersion};
use serde_json::{Value, json};

const CLIENT_INFO_KEY: &str = "io.modelcontextprotocol/clientInfo";
/// The longest time, in milliseconds, for which a client is told that it may keep a list (`ttlMs`).
pub const MOST_TTL_MS: u64 = 30_000;

/// How the gateway calls itself where it is the client.
pub fn client_info() -> Value {
    json!({"name": "gateway", "version": env!("CARGO_PKG_VERSION")})
}

/// The parameters of `initialize` where the gateway opens a session for somebody who has none.
pub fn initialize_params(version: McpVersion) -> Value {
    json!({"protocolVersion": version.name(), "capabilities": {}, "clientInfo": client_info()})
}

/// `params` as a modern upstream wants them: no capability of the client passes, since nothing can ask it back.
pub fn to_modern(params: Option<&RawObject<'_>>) -> String {
    let mut params = params.cloned().unwrap_or_default();
    let held = params.raw("_meta").unwrap_or("{}").to_owned();
    let mut meta = RawObject::parse(&held).unwrap_or_default();
    meta.set_text(VERSION_KEY, McpVersion::V2026_07_28.name());
    meta.set(CLIENT_CAPABILITIES_KEY, "{}");
    if !meta.contains(CLIENT_INFO_KEY) {
        meta.set(CLIENT_INFO_KEY, client_info().to_string());
    }
    let meta = meta.to_json();
    params.set("_meta", meta);
    params.to_json()
}

/// What a subscription asks for, without the tasks that it names: their notices would pass unjudged what a task came
/// to.
pub fn without_tasks(params: &RawObject<'_>) -> Option<String> {
    let mut wanted = params.object("notifications")?;
    if !wanted.remove("taskIds") {
        return None;
    }
    let wanted = wanted.to_json();
    let mut params = params.clone();
    params.set("notifications", wanted);
    Some(params.to_json())
}

/// `params` as a legacy upstream wants them.
pub fn to_legacy(params: Option<&RawObject<'_>>) -> Option<String> {
    let mut params = params?.clone();
    if let Some(held) = params.raw("_meta").map(str::to_owned)
        && let Ok(mut meta) = RawObject::parse(&held)
    {
        let own: Vec<String> =
            meta.names().filter(|name| name.starts_with("io.modelcontextprotocol/")).map(str::to_owned).collect();
        for name in own {
            meta.remove(&name);
        }
        let meta = meta.to_json();
        if meta == "{}" {
            params.remove("_meta");
        } else {
            params.set("_meta", meta);
        }
    }
    Some(params.to_json())
}

/// A result as a client of `client`'s era reads it.
pub fn result(result: &str, client: Era, upstream: Era, method: &str) -> Option<String> {
    if client == upstream && upstream == Era::Legacy {
        return None;
    }
    let mut object = RawObject::parse(result).ok()?;
    match client {
        Era::Legacy => {
            let changed = [object.remove("resultType"), object.remove("ttlMs"), object.remove("cacheScope")];
            changed.contains(&true).then(|| object.to_json())
        }
        Era::Modern => {
            if !object.contains("resultType") {
                object.set_text("resultType", "complete");
            }
            if is_kept(method) {
                let told = object.raw("ttlMs").and_then(|ttl| ttl.parse::<u64>().ok());
                object.set("ttlMs", told.unwrap_or(0).min(MOST_TTL_MS).to_string());
                object.set_text("cacheScope", "private");
            }
            Some(object.to_json())
        }
    }
}

/// Methods whose results a modern client may keep for a while. What one caller sees is nobody else's.
fn is_kept(method: &str) -> bool {
    matches!(
        method,
        "tools/list"
            | "prompts/list"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
            | "server/discover"
    )
}

/// Capabilities as they pass between those who keep sessions: tasks do not, neither the experimental ones nor the
/// extension, which is of the other era.
pub fn capabilities(told: &str) -> Option<String> {
    let mut object = RawObject::parse(told).ok()?;
    object.remove("tasks");
    if let Some(held) = object.raw("extensions").map(str::to_owned)
        && let Ok(mut extensions) = RawObject::parse(&held)
    {
        extensions.remove(TASKS_EXTENSION);
        let extensions = extensions.to_json();
        object.set("extensions", extensions);
    }
    Some(object.to_json())
}

/// Capabilities of a server of the modern era as clients of that era hear of them.
pub fn modern_capabilities(told: &str) -> Option<String> {
    let mut object = RawObject::parse(told).ok()?;
    object.remove("tasks");
    listing(object.to_json())
}

/// Capabilities of a server as clients hear of them: lists change by what is switched at the gateway too, whatever the
/// server says of its own.
pub fn server_capabilities(told: &str) -> Option<String> {
    listing(capabilities(told)?)
}

fn listing(mut object: String) -> Option<String> {
    for list in ["tools", "prompts", "resources"] {
        let mut whole = RawObject::parse(&object).ok()?;
        let Some(mut flags) = whole.object(list) else { continue };
        flags.set("listChanged", "true");
        let flags = flags.to_json();
        whole.set(list, flags);
        object = whole.to_json();
    }
    Some(object)
}

/// The result of `initialize` from that of `server/discover`, for a client of `version`.
pub fn initialized_from(discovered: &str, version: McpVersion) -> Option<String> {
    let object = RawObject::parse(discovered).ok()?;
    let mut out = RawObject::default();
    out.set_text("protocolVersion", version.name());
    out.set("capabilities", server_capabilities(object.raw("capabilities").unwrap_or("{}"))?);
    let unknown = json!({"name": "unknown", "version": "0"}).to_string();
    out.set("serverInfo", server_info(&object).unwrap_or(unknown));
    if let Some(instructions) = object.raw("instructions") {
        out.set("instructions", instructions);
    }
    Some(out.to_json())
}

/// Who a server says it is: in its metadata, or as a member of the result.
fn server_info(object: &RawObject<'_>) -> Option<String> {
    let of_meta = object.object("_meta").and_then(|m| m.raw("io.modelcontextprotocol/serverInfo").map(str::to_owned));
    of_meta.or_else(|| object.raw("serverInfo").map(str::to_owned))
}

/// The result of `server/discover` from that of an upstream's `initialize`.
pub fn discovered_from(initialized: &str) -> Option<String> {
    let object = RawObject::parse(initialized).ok()?;
    let mut out = RawObject::default();
    out.set_text("resultType", "complete");
    out.set("supportedVersions", supported_versions());
    out.set("capabilities", server_capabilities(object.raw("capabilities").unwrap_or("{}"))?);
    if let Some(info) = object.raw("serverInfo") {
        out.set("serverInfo", info);
        out.set("_meta", format!(r#"{{"io.modelcontextprotocol/serverInfo":{info}}}"#));
    }
    if let Some(instructions) = object.raw("instructions") {
        out.set("instructions", instructions);
    }
    out.set("ttlMs", "0");
    out.set_text("cacheScope", "private");
    Some(out.to_json())
}

/// The versions that clients may speak, newest first.
pub fn supported_versions() -> String {
    let names: Vec<&str> = McpVersion::SERVED.iter().rev().map(|version| version.name()).collect();
    json!(names).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_gain_and_lose_what_the_era_needs() {
        let params = RawObject::parse(r#"{"name":"t","_meta":{"progressToken":1}}"#).expect("params");
        let modern = to_modern(Some(&params));
        let meta: Value = serde_json::from_str(&modern).expect("json");
        assert_eq!(meta["_meta"]["progressToken"], 1);
        assert_eq!(meta["_meta"][VERSION_KEY], "2026-07-28");
        assert_eq!(meta["_meta"][CLIENT_CAPABILITIES_KEY], json!({}));
        let back = RawObject::parse(&modern).expect("params");
        assert_eq!(to_legacy(Some(&back)).as_deref(), Some(r#"{"name":"t","_meta":{"progressToken":1}}"#));
        let bare = RawObject::parse(&to_modern(None)).map(|p| to_legacy(Some(&p)));
        assert_eq!(bare, Ok(Some("{}".into())));
        assert_eq!(to_legacy(None), None);
    }

    #[test]
    fn results_are_read_by_either_era() {
        let list = r#"{"resultType":"complete","tools":[],"ttlMs":99999999,"cacheScope":"public"}"#;
        let old = result(list, Era::Legacy, Era::Modern, "tools/list");
        assert_eq!(old.as_deref(), Some(r#"{"tools":[]}"#));
        let new = result(r#"{"tools":[]}"#, Era::Modern, Era::Legacy, "tools/list").expect("changed");
        assert_eq!(new, r#"{"tools":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#);
        let same = result(list, Era::Modern, Era::Modern, "tools/list").expect("changed");
        assert_eq!(same, r#"{"resultType":"complete","tools":[],"ttlMs":30000,"cacheScope":"private"}"#);
        let call = result(r#"{"content":[]}"#, Era::Modern, Era::Legacy, "tools/call");
        assert_eq!(call.as_deref(), Some(r#"{"content":[],"resultType":"complete"}"#));
        assert_eq!(result(list, Era::Legacy, Era::Legacy, "tools/list"), None);
    }

    #[test]
    fn subscriptions_name_no_tasks() {
        let params = RawObject::parse(r#"{"notifications":{"toolsListChanged":true,"taskIds":["a"]},"_meta":{}}"#);
        let told = without_tasks(&params.expect("params"));
        assert_eq!(told.as_deref(), Some(r#"{"notifications":{"toolsListChanged":true},"_meta":{}}"#));
        let params = RawObject::parse(r#"{"notifications":{"toolsListChanged":true}}"#);
        assert_eq!(without_tasks(&params.expect("params")), None);
    }

    #[test]
    fn tasks_are_told_of_in_one_era() {
        let told = r#"{"tools":{"listChanged":true},"tasks":{"list":{}},"extensions":{"io.modelcontextprotocol/tasks":{},"x":{}}}"#;
        assert_eq!(capabilities(told).as_deref(), Some(r#"{"tools":{"listChanged":true},"extensions":{"x":{}}}"#));
        let told = r#"{"prompts":{},"resources":{"subscribe":true,"listChanged":false},"tasks":{},"logging":{}}"#;
        assert_eq!(
            server_capabilities(told).as_deref(),
            Some(r#"{"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{}}"#)
        );
        let told = r#"{"tools":{},"tasks":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
        assert_eq!(
            modern_capabilities(told).as_deref(),
            Some(r#"{"tools":{"listChanged":true},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#)
        );
    }

    #[test]
    fn openings_are_made_of_each_other() {
        let initialized = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},
            "serverInfo":{"name":"s","version":"1"},"instructions":"be kind"}"#;
        let discovered = discovered_from(initialized).expect("a result");
        let value: Value = serde_json::from_str(&discovered).expect("json");
        assert_eq!(value["supportedVersions"][0], "2026-07-28");
        assert_eq!((&value["serverInfo"]["name"], &value["instructions"]), (&json!("s"), &json!("be kind")));
        let again = initialized_from(&discovered, McpVersion::V2025_03_26).expect("a result");
        let value: Value = serde_json::from_str(&again).expect("json");
        assert_eq!(value["protocolVersion"], "2025-03-26");
        assert_eq!(
            (&value["serverInfo"]["name"], &value["capabilities"]),
            (&json!("s"), &json!({"tools": {"listChanged": true}}))
        );
    }
}
