//! Several servers as one: what a member offers, answers and asks, under the names by which clients of the whole know
//! it, and the way back.

use crate::filter::McpKind;
use crate::message::RpcId;
use crate::names::{self, MemberName};
use crate::object::{RawObject, items};
use crate::task::TASKS_EXTENSION;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

/// Items of one page of a merged list.
pub const PAGE: usize = 100;

/// How a member's item is called in the whole.
pub fn name(kind: McpKind, prefix: &str, own: &str) -> String {
    match kind {
        McpKind::Tool | McpKind::Prompt => names::merged(prefix, own),
        McpKind::Resource | McpKind::ResourceTemplate => names::merged_uri(prefix, own),
    }
}

/// The prefix of a merged name, and what the member calls the thing unless its name was cut.
pub fn split(kind: McpKind, merged: &str) -> Option<(&str, String)> {
    match kind {
        McpKind::Tool | McpKind::Prompt => names::split(merged).map(|(prefix, own)| (prefix, own.to_owned())),
        McpKind::Resource | McpKind::ResourceTemplate => names::split_uri(merged),
    }
}

/// An item of a member's list as the whole shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedItem {
    pub prefix: String,
    pub own: String,
    pub name: String,
    pub json: String,
}

/// `None`: it has no name, and nobody could ask for it.
pub fn item(kind: McpKind, prefix: &str, json: &str) -> Option<MergedItem> {
    let mut object = RawObject::parse(json).ok()?;
    let own = object.text(kind.key())?;
    let name = name(kind, prefix, &own);
    object.set_text(kind.key(), &name);
    link(&mut object, prefix);
    Some(MergedItem { prefix: prefix.to_owned(), own, name, json: object.to_json() })
}

/// Items that may be told apart: of one thing told twice the first, of two things of one name none.
pub fn keep_distinct(all: Vec<MergedItem>) -> Vec<MergedItem> {
    let mut seen: HashMap<&str, MemberName<'_>> = HashMap::new();
    let mut keep = Vec::with_capacity(all.len());
    let mut clashing: HashSet<String> = HashSet::new();
    for item in &all {
        let whose = MemberName { prefix: &item.prefix, name: &item.own };
        match seen.get(item.name.as_str()) {
            None => {
                seen.insert(&item.name, whose);
                keep.push(true);
            }
            Some(first) => {
                if *first != whose {
                    clashing.insert(item.name.clone());
                }
                keep.push(false);
            }
        }
    }
    let kept = all.into_iter().zip(keep).filter(|(item, keep)| *keep && !clashing.contains(&item.name));
    kept.map(|(item, _)| item).collect()
}

/// Parameters of a request that names a thing, with the name that its member knows it by.
pub fn asked(method: &str, params: &RawObject<'_>, own: &str) -> String {
    let mut params = params.clone();
    match method {
        "tools/call" | "prompts/get" => params.set_text("name", own),
        "completion/complete" => {
            let held = params.raw("ref").unwrap_or("{}").to_owned();
            if let Ok(mut of) = RawObject::parse(&held) {
                let member = if of.contains("uri") { "uri" } else { "name" };
                of.set_text(member, own);
                let of = of.to_json();
                params.set("ref", of);
            }
        }
        _ => params.set_text("uri", own),
    }
    params.to_json()
}

/// The result of a member's call, with the addresses in it as the whole knows them. `None`: nothing was changed.
pub fn result(method: &str, result: &str, prefix: &str) -> Option<String> {
    let mut object = RawObject::parse(result).ok()?;
    let changed = match method {
        "tools/call" => each(&mut object, "content", |block| linked_block(block, prefix)),
        "prompts/get" => each(&mut object, "messages", |message| {
            let mut message = RawObject::parse(message).ok()?;
            let content = linked_block(message.raw("content")?, prefix)?;
            message.set("content", content);
            Some(message.to_json())
        }),
        "resources/read" => each(&mut object, "contents", |content| linked(content, prefix)),
        _ => return None,
    };
    (link(&mut object, prefix) | changed).then(|| object.to_json())
}

/// Puts another in the place of each item of a list that `change` gives one for.
fn each(object: &mut RawObject<'_>, member: &str, change: impl Fn(&str) -> Option<String>) -> bool {
    let Some(all) = object.raw(member).and_then(items) else { return false };
    let changed: Vec<Option<String>> = all.iter().map(|item| change(item)).collect();
    if changed.iter().all(Option::is_none) {
        return false;
    }
    let all: Vec<String> =
        all.into_iter().zip(changed).map(|(old, new)| new.unwrap_or_else(|| old.to_owned())).collect();
    object.set(member, format!("[{}]", all.join(",")));
    true
}

/// An object whose `uri` is a member's.
fn linked(json: &str, prefix: &str) -> Option<String> {
    let mut object = RawObject::parse(json).ok()?;
    let uri = object.text("uri")?;
    object.set_text("uri", &names::merged_uri(prefix, &uri));
    Some(object.to_json())
}

/// Content that links to a resource, or holds one.
fn linked_block(block: &str, prefix: &str) -> Option<String> {
    let mut object = RawObject::parse(block).ok()?;
    match object.text("type")?.as_str() {
        "resource_link" => linked(block, prefix),
        "resource" => {
            let held = linked(object.raw("resource")?, prefix)?;
            object.set("resource", held);
            Some(object.to_json())
        }
        _ => None,
    }
}

/// What metadata says of the page that shows a thing is an address too.
fn link(object: &mut RawObject<'_>, prefix: &str) -> bool {
    let Some(held) = object.raw("_meta").map(str::to_owned) else { return false };
    let Ok(mut meta) = RawObject::parse(&held) else { return false };
    let mut changed = false;
    if let Some(uri) = meta.text("ui/resourceUri") {
        meta.set_text("ui/resourceUri", &names::merged_uri(prefix, &uri));
        changed = true;
    }
    if let Some(ui) = meta.raw("ui").map(str::to_owned)
        && let Ok(mut ui) = RawObject::parse(&ui)
        && let Some(uri) = ui.text("resourceUri")
    {
        ui.set_text("resourceUri", &names::merged_uri(prefix, &uri));
        let ui = ui.to_json();
        meta.set("ui", ui);
        changed = true;
    }
    if changed {
        let meta = meta.to_json();
        object.set("_meta", meta);
    }
    changed
}

/// A message that a member sends by itself: its requests get ids that say whose they are, addresses their prefix.
/// `None`: it goes on as it came. `member` holds no full stop.
pub fn message(text: &str, prefix: &str, member: &str) -> Option<String> {
    let mut object = RawObject::parse(text).ok()?;
    let method = object.text("method")?;
    if let Some(id) = object.raw("id") {
        let id = RpcId::parse(id).ok()?;
        object.set_text("id", &wire_id(&id, member));
        return Some(object.to_json());
    }
    if method != "notifications/resources/updated" {
        return None;
    }
    let params = linked(object.raw("params")?, prefix)?;
    object.set("params", params);
    Some(object.to_json())
}

fn wire_id(id: &RpcId, member: &str) -> String {
    match serde_json::from_str::<String>(id.json()) {
        Ok(text) => format!("{member}.s.{text}"),
        Err(_) => format!("{member}.n.{}", id.json()),
    }
}

/// Which member's request a client answers with this id, and the id that the member itself gave its request.
pub fn answered(id: &RpcId) -> Option<(String, RpcId)> {
    let text: String = serde_json::from_str(id.json()).ok()?;
    let (member, rest) = text.split_once('.')?;
    let own = match rest.split_once('.')? {
        ("s", text) => RpcId::of(text),
        ("n", number) => RpcId::parse(number).ok().filter(|id| !id.json().starts_with('"'))?,
        _ => return None,
    };
    Some((member.to_owned(), own))
}

/// The capabilities of all members together, each as it told them.
pub fn capabilities<'a>(all: impl Iterator<Item = &'a str>) -> String {
    const UI: &str = "io.modelcontextprotocol/ui";
    let mut whole = serde_json::Map::new();
    for told in all {
        let Ok(Value::Object(told)) = serde_json::from_str::<Value>(told) else { continue };
        for name in ["completions", "logging", "prompts", "resources", "tools"] {
            let Some(Value::Object(flags)) = told.get(name) else { continue };
            let known = whole.entry(name).or_insert_with(|| json!({}));
            if matches!(name, "prompts" | "resources" | "tools") {
                known["listChanged"] = true.into();
            }
            for flag in ["listChanged", "subscribe"] {
                if flags.get(flag) == Some(&Value::Bool(true)) {
                    known[flag] = true.into();
                }
            }
        }
        for name in [UI, TASKS_EXTENSION] {
            let Some(extension) = told.get("extensions").and_then(|extensions| extensions.get(name)) else { continue };
            let extensions = whole.entry("extensions").or_insert_with(|| json!({}));
            if extensions.get(name).is_none() {
                extensions[name] = extension.clone();
            }
        }
    }
    Value::Object(whole).to_string()
}

/// The cursor of the page that begins there.
pub fn cursor(at: usize) -> String {
    URL_SAFE_NO_PAD.encode(format!("m1:{at}"))
}

/// Where a page begins; `None` for a cursor that was never given.
pub fn place(cursor: &str) -> Option<usize> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    text.strip_prefix("m1:")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_gain_their_prefix_and_keep_the_rest() {
        let tool =
            r#"{"name":"read","x":1.50,"_meta":{"ui":{"resourceUri":"ui://app/x","k":1},"ui/resourceUri":"ui://a"}}"#;
        let merged = item(McpKind::Tool, "files", tool).expect("a tool");
        assert_eq!((merged.own.as_str(), merged.name.as_str()), ("read", "files__read"));
        assert_eq!(
            merged.json,
            r#"{"name":"files__read","x":1.50,"_meta":{"ui":{"resourceUri":"ui://files+app/x","k":1},"ui/resourceUri":"ui://files+a"}}"#
        );
        let template = item(McpKind::ResourceTemplate, "db", r#"{"uriTemplate":"db://{t}","name":"t"}"#).expect("one");
        assert_eq!(template.json, r#"{"uriTemplate":"db+db://{t}","name":"t"}"#);
        assert_eq!(split(McpKind::Resource, "db+db://users"), Some(("db", "db://users".to_owned())));
        assert_eq!(item(McpKind::Tool, "files", r#"{"title":"no name"}"#), None);
    }

    #[test]
    fn what_cannot_be_told_apart_is_hidden() {
        let item = |prefix: &str, own: &str, name: &str| MergedItem {
            prefix: prefix.into(),
            own: own.into(),
            name: name.into(),
            json: own.into(),
        };
        let all = vec![
            item("a", "x", "1"),
            item("a", "x", "1"),
            item("a", "y", "2"),
            item("b", "z", "2"),
            item("b", "w", "3"),
        ];
        let kept: Vec<String> = keep_distinct(all).into_iter().map(|item| item.name).collect();
        assert_eq!(kept, ["1", "3"]);
    }

    #[test]
    fn requests_name_things_as_their_member_does() {
        let of = |method: &str, params: &str, own: &str| asked(method, &RawObject::parse(params).expect("params"), own);
        assert_eq!(
            of("tools/call", r#"{"name":"a__b","arguments":{"n":1.0}}"#, "b"),
            r#"{"name":"b","arguments":{"n":1.0}}"#
        );
        assert_eq!(of("resources/read", r#"{"uri":"a+b:c"}"#, "b:c"), r#"{"uri":"b:c"}"#);
        let complete =
            of("completion/complete", r#"{"ref":{"type":"ref/resource","uri":"a+b:{c}"},"argument":{}}"#, "b:{c}");
        assert_eq!(complete, r#"{"ref":{"type":"ref/resource","uri":"b:{c}"},"argument":{}}"#);
        let complete = of("completion/complete", r#"{"ref":{"type":"ref/prompt","name":"a__p"}}"#, "p");
        assert_eq!(complete, r#"{"ref":{"type":"ref/prompt","name":"p"}}"#);
    }

    #[test]
    fn addresses_in_results_are_those_of_the_whole() {
        let called = r#"{"content":[{"type":"text","text":"file:///a"},{"type":"resource_link","uri":"file:///a"},
            {"type":"resource","resource":{"uri":"file:///b","text":"t"}}]}"#;
        let out = result("tools/call", called, "files").expect("changed");
        assert!(out.contains(r#""uri":"files+file:///a""#) && out.contains(r#""uri":"files+file:///b""#), "{out}");
        assert!(out.contains(r#"{"type":"text","text":"file:///a"}"#), "texts are nobody's address: {out}");
        assert_eq!(result("tools/call", r#"{"content":[{"type":"text","text":"x"}]}"#, "files"), None);
        let got = r#"{"messages":[{"role":"user","content":{"type":"resource_link","uri":"a:b"}}]}"#;
        assert!(result("prompts/get", got, "p").expect("changed").contains(r#""uri":"p+a:b""#));
        let read = r#"{"contents":[{"uri":"a:b","text":"x"}]}"#;
        assert_eq!(
            result("resources/read", read, "p").as_deref(),
            Some(r#"{"contents":[{"uri":"p+a:b","text":"x"}]}"#)
        );
        for broken in ["[]", r#"{"content":7}"#, r#"{"content":[7]}"#] {
            assert_eq!(result("tools/call", broken, "p"), None, "{broken}");
        }
    }

    #[test]
    fn requests_of_members_find_their_way_back() {
        for (id, wire) in [("7", "abc.n.7"), ("\"q.1\"", "abc.s.q.1"), ("-3", "abc.n.-3")] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"elicitation/create","params":{{}}}}"#);
            let sent = message(&text, "p", "abc").expect("changed");
            let object = RawObject::parse(&sent).expect("a message");
            assert_eq!(object.text("id").as_deref(), Some(wire));
            let back = RpcId::parse(object.raw("id").expect("an id")).expect("an id");
            assert_eq!(answered(&back), Some(("abc".to_owned(), RpcId::parse(id).expect("an id"))));
        }
        for foreign in ["7", "\"x\"", "\"a.b\"", "\"a.n.x\"", "\"a.n.\\\"7\\\"\"", "\"a.q.1\""] {
            assert_eq!(answered(&RpcId::parse(foreign).expect("an id")), None, "{foreign}");
        }
        let updated = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}"#;
        assert!(message(updated, "p", "abc").expect("changed").contains(r#""uri":"p+a:b""#));
        assert_eq!(message(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#, "p", "abc"), None);
        assert_eq!(message(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "p", "abc"), None);
    }

    #[test]
    fn capabilities_are_those_of_all() {
        let all = [
            r#"{"tools":{"listChanged":true},"tasks":{},"extensions":{"io.modelcontextprotocol/ui":{"v":1},"x":{}}}"#,
            r#"{"tools":{},"resources":{"subscribe":true},"logging":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
            "nonsense",
        ];
        let whole: Value = serde_json::from_str(&capabilities(all.into_iter())).expect("json");
        assert_eq!(
            whole,
            json!({"tools": {"listChanged": true}, "resources": {"listChanged": true, "subscribe": true}, "logging": {},
                "extensions": {"io.modelcontextprotocol/ui": {"v": 1}, "io.modelcontextprotocol/tasks": {}}})
        );
    }

    #[test]
    fn cursors_come_back_and_others_do_not() {
        assert_eq!(place(&cursor(300)), Some(300));
        for bad in ["", "x", "300", &URL_SAFE_NO_PAD.encode("m1:-1"), &URL_SAFE_NO_PAD.encode("m2:1")] {
            assert_eq!(place(bad), None, "{bad}");
        }
    }
}
