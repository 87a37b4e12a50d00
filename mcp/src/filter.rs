//! What of a server a caller may use: one question, asked of every item of a list and of every call that names one, so
//! that what a list hides cannot be called. What is hidden looks like what there is not.

use crate::error::RpcError;
use crate::object::{RawObject, items};
use std::borrow::Cow;

/// What a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum McpKind {
    Tool,
    Prompt,
    /// Known by its URI.
    Resource,
    /// Known by the template of its URIs.
    ResourceTemplate,
}

impl McpKind {
    pub const ALL: [Self; 4] = [Self::Tool, Self::Prompt, Self::Resource, Self::ResourceTemplate];

    /// The name of the kind in the Admin API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
            Self::ResourceTemplate => "resource_template",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The method that lists them.
    pub const fn list(self) -> &'static str {
        match self {
            Self::Tool => "tools/list",
            Self::Prompt => "prompts/list",
            Self::Resource => "resources/list",
            Self::ResourceTemplate => "resources/templates/list",
        }
    }

    pub fn listed_by(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.list() == method)
    }

    /// The member of a list's result that holds the items.
    pub const fn member(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Prompt => "prompts",
            Self::Resource => "resources",
            Self::ResourceTemplate => "resourceTemplates",
        }
    }

    /// The member of an item that says which one it is.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt => "name",
            Self::Resource => "uri",
            Self::ResourceTemplate => "uriTemplate",
        }
    }
}

/// One thing that a call names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpItem {
    pub kind: McpKind,
    pub name: String,
}

/// What a request is about; `Ok(None)` for methods that name nothing.
pub fn named(method: &str, params: Option<&RawObject<'_>>) -> Result<Option<McpItem>, RpcError> {
    let text = |object: &RawObject<'_>, member: &str| {
        let found = object.text(member).filter(|text| !text.is_empty());
        found.ok_or_else(|| RpcError::bad_params(format!("params.{member} must be a text")))
    };
    let missing = || RpcError::bad_params("params are missing");
    let item = match method {
        "tools/call" => McpItem { kind: McpKind::Tool, name: text(params.ok_or_else(missing)?, "name")? },
        "prompts/get" => McpItem { kind: McpKind::Prompt, name: text(params.ok_or_else(missing)?, "name")? },
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
            McpItem { kind: McpKind::Resource, name: text(params.ok_or_else(missing)?, "uri")? }
        }
        "completion/complete" => {
            let params = params.ok_or_else(missing)?;
            let of = params.object("ref").ok_or_else(|| RpcError::bad_params("params.ref must be an object"))?;
            match of.text("type").as_deref() {
                Some("ref/prompt") => McpItem { kind: McpKind::Prompt, name: text(&of, "name")? },
                Some("ref/resource") => McpItem { kind: McpKind::ResourceTemplate, name: text(&of, "uri")? },
                _ => return Err(RpcError::bad_params("params.ref.type must be ref/prompt or ref/resource")),
            }
        }
        _ => return Ok(None),
    };
    Ok(Some(item))
}

/// How a missing one is told, by the version of the client.
pub fn missing(item: &McpItem, modern: bool) -> RpcError {
    match item.kind {
        McpKind::Tool => RpcError::unknown("tool", &item.name),
        McpKind::Prompt => RpcError::unknown("prompt", &item.name),
        McpKind::Resource | McpKind::ResourceTemplate if modern => RpcError::unknown("resource", &item.name),
        McpKind::Resource | McpKind::ResourceTemplate => {
            RpcError::new(200, -32002, RpcError::unknown("resource", &item.name).message)
        }
    }
}

/// The result of a list with those items alone that may be seen, by name and by what they say of themselves. `Err`: it
/// is no list, and nobody can say what it shows.
pub fn filtered<'a>(
    result: &'a str,
    kind: McpKind,
    allow: &dyn Fn(&str, &str) -> bool,
) -> Result<Cow<'a, str>, &'static str> {
    let mut object = RawObject::parse(result).map_err(|_| "the result of a list is no object")?;
    let Some(list) = object.raw(kind.member()) else { return Err("the result of a list has no items") };
    let all = items(list).ok_or("the items of a list are no array")?;
    let seen = |json: &&str| {
        let item = RawObject::parse(json).ok();
        let name = item.as_ref().and_then(|item| item.text(kind.key()));
        name.is_some_and(|name| allow(&name, json))
    };
    let kept: Vec<&str> = all.iter().copied().filter(seen).collect();
    if kept.len() == all.len() {
        return Ok(Cow::Borrowed(result));
    }
    let kept = format!("[{}]", kept.join(","));
    object.set(kind.member(), kept);
    Ok(Cow::Owned(object.to_json()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_lose_what_is_hidden_and_keep_the_rest_as_it_was() {
        let list = r#"{"tools":[{"name":"a","x":1.0},{"name":"b"},{"noname":1},7],"nextCursor":"c","_meta":{"k": 1}}"#;
        let allow = |name: &str, json: &str| name != "b" && json.starts_with('{');
        let out = filtered(list, McpKind::Tool, &allow).expect("a list");
        assert_eq!(out, r#"{"tools":[{"name":"a","x":1.0}],"nextCursor":"c","_meta":{"k": 1}}"#);
        let all = filtered(r#"{"tools":[{"name":"a"}]}"#, McpKind::Tool, &allow).expect("a list");
        assert!(matches!(all, Cow::Borrowed(_)));
        for broken in ["{}", "[]", r#"{"tools":{}}"#, r#"{"tools":[],"tools":[{"name":"b"}]}"#] {
            assert!(filtered(broken, McpKind::Tool, &allow).is_err(), "{broken}");
        }
    }

    #[test]
    fn every_way_to_name_something_is_one_question() {
        let of = |method: &str, params: &str| {
            let params = RawObject::parse(params).expect("params");
            named(method, Some(&params)).map(|item| item.map(|i| (i.kind, i.name)))
        };
        let is = |kind, name: &str| Ok(Some((kind, name.to_owned())));
        assert_eq!(of("tools/call", r#"{"name":"t","arguments":{}}"#), is(McpKind::Tool, "t"));
        assert_eq!(of("prompts/get", r#"{"name":"p"}"#), is(McpKind::Prompt, "p"));
        for method in ["resources/read", "resources/subscribe", "resources/unsubscribe"] {
            assert_eq!(of(method, r#"{"uri":"file:///a"}"#), is(McpKind::Resource, "file:///a"));
        }
        let complete = r#"{"ref":{"type":"ref/prompt","name":"p"}}"#;
        assert_eq!(of("completion/complete", complete), is(McpKind::Prompt, "p"));
        let complete = r#"{"ref":{"type":"ref/resource","uri":"db://{x}"}}"#;
        assert_eq!(of("completion/complete", complete), is(McpKind::ResourceTemplate, "db://{x}"));
        assert_eq!(of("tools/list", "{}"), Ok(None));
        for (method, params) in
            [("tools/call", "{}"), ("tools/call", r#"{"name":7}"#), ("completion/complete", r#"{"ref":{"type":"x"}}"#)]
        {
            assert_eq!(of(method, params).expect_err("refused").code, -32602, "{method} {params}");
        }
        assert_eq!(named("tools/call", None).expect_err("refused").code, -32602);
    }

    #[test]
    fn what_is_missing_is_told_as_the_version_wants() {
        let item = McpItem { kind: McpKind::Resource, name: "u".into() };
        assert_eq!((missing(&item, false).code, missing(&item, true).code), (-32002, -32602));
    }
}
