//! Headers of the modern era, which repeat what the body says so that middlemen need not read it: each must say the
//! same as the body, or two readers could understand two different calls.

use crate::error::RpcError;
use crate::object::RawObject;
use crate::task::is_of_task;
use crate::version::McpVersion;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;

pub const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub const CLIENT_CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// Headers as they came; a list since one may stand twice.
#[derive(Clone, Debug, Default)]
pub struct McpHeaders<'a> {
    pub version: Vec<&'a [u8]>,
    pub method: Vec<&'a [u8]>,
    pub name: Vec<&'a [u8]>,
    /// Those that repeat arguments, without `mcp-param-`.
    pub arguments: Vec<(&'a str, &'a [u8])>,
}

/// The version that a request's metadata names; that it is there says which era is meant.
pub fn meta_version(params: Option<&RawObject<'_>>) -> Option<String> {
    params?.object("_meta")?.text(VERSION_KEY)
}

/// The one value of a header, or why there is none.
fn single<'a>(name: &str, values: &[&'a [u8]]) -> Result<&'a str, RpcError> {
    match values {
        [] => Err(RpcError::bad_headers(format!("The header {name} is missing"))),
        [one] => {
            let text = std::str::from_utf8(one).ok().filter(|text| text.is_ascii());
            text.map(str::trim).ok_or_else(|| RpcError::bad_headers(format!("The header {name} must be ASCII")))
        }
        _ => Err(RpcError::bad_headers(format!("The header {name} stands twice"))),
    }
}

/// A header's value as the body would spell it: what is no plain ASCII travels as `=?base64?…?=`.
pub fn decoded(value: &str) -> Option<Cow<'_, str>> {
    let Some(coded) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Some(Cow::Borrowed(value));
    };
    let bytes = STANDARD.decode(coded).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// A value as a header can carry it.
pub fn encoded(value: &str) -> Cow<'_, str> {
    let plain = |b: u8| (0x20..0x7f).contains(&b);
    let is_plain = value.bytes().all(plain) && value.trim() == value && !value.starts_with("=?base64?");
    if is_plain { Cow::Borrowed(value) } else { Cow::Owned(format!("=?base64?{}?=", STANDARD.encode(value))) }
}

/// What a modern request is about, as `Mcp-Name` repeats it.
pub fn subject(method: &str, params: Option<&RawObject<'_>>) -> Option<String> {
    let member = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
        _ if is_of_task(method) => "taskId",
        _ => return None,
    };
    params?.text(member)
}

/// Holds the headers of a modern request to its body.
pub fn check(headers: &McpHeaders<'_>, method: &str, params: Option<&RawObject<'_>>) -> Result<McpVersion, RpcError> {
    let version = single("MCP-Protocol-Version", &headers.version)?;
    let meta = params.and_then(|params| params.object("_meta"));
    let meta_version = meta.as_ref().and_then(|meta| meta.text(VERSION_KEY));
    let Some(meta_version) = meta_version else {
        return Err(RpcError::new(400, -32602, format!("params._meta must hold {VERSION_KEY}")));
    };
    if version != meta_version {
        return Err(RpcError::bad_headers("The header MCP-Protocol-Version differs from params._meta"));
    }
    let Some(served) = McpVersion::served(version).filter(|v| McpVersion::is_modern_name(v.name())) else {
        return Err(RpcError::bad_version(version));
    };
    if !meta.as_ref().and_then(|meta| meta.raw(CLIENT_CAPABILITIES_KEY)).is_some_and(|raw| raw.starts_with('{')) {
        return Err(RpcError::new(400, -32602, format!("params._meta must hold {CLIENT_CAPABILITIES_KEY}")));
    }
    if single("Mcp-Method", &headers.method)? != method {
        return Err(RpcError::bad_headers("The header Mcp-Method differs from the body's method"));
    }
    match subject(method, params) {
        Some(subject) => {
            let told = single("Mcp-Name", &headers.name)?;
            if decoded(told).as_deref() != Some(&*subject) {
                return Err(RpcError::bad_headers("The header Mcp-Name differs from what the body names"));
            }
        }
        None if !headers.name.is_empty() => {
            return Err(RpcError::bad_headers("The header Mcp-Name has nothing to name in this body"));
        }
        None => {}
    }
    Ok(served)
}

/// What a header repeats of the arguments: the value at the end of this path. `None`: there is nothing to repeat.
pub fn argument(params: Option<&RawObject<'_>>, path: &[Box<str>]) -> Option<String> {
    let mut value = params?.raw("arguments")?.to_owned();
    for name in path {
        value = RawObject::parse(&value).ok()?.raw(name)?.to_owned();
    }
    match value.as_bytes().first()? {
        b'"' => serde_json::from_str(&value).ok(),
        b't' | b'f' => Some(value),
        b'-' | b'0'..=b'9' => Some(whole(&value).map_or(value, |number| number.to_string())),
        _ => None,
    }
}

/// A whole number, however it is written.
fn whole(text: &str) -> Option<i64> {
    const MOST: f64 = 9_007_199_254_740_991.0;
    text.parse().ok().or_else(|| {
        let number = text.parse::<f64>().ok().filter(|n| n.fract() == 0.0 && n.abs() <= MOST)?;
        format!("{number:.0}").parse().ok()
    })
}

/// Holds a header that repeats an argument to the argument. `name`: as it stands behind `Mcp-Param-`.
pub fn check_argument(headers: &McpHeaders<'_>, name: &str, argument: Option<&str>) -> Result<(), RpcError> {
    let found: Vec<&[u8]> = headers.arguments.iter().filter(|(known, _)| *known == name).map(|(_, v)| *v).collect();
    let Some(argument) = argument else {
        let nothing =
            || RpcError::bad_headers(format!("The header Mcp-Param-{name} has nothing to repeat in this body"));
        return if found.is_empty() { Ok(()) } else { Err(nothing()) };
    };
    let told = single(&format!("Mcp-Param-{name}"), &found)?;
    let told = decoded(told);
    let same = told
        .as_deref()
        .is_some_and(|told| told == argument || whole(told).is_some_and(|number| whole(argument) == Some(number)));
    let differs = || RpcError::bad_headers(format!("The header Mcp-Param-{name} differs from what the body says"));
    if same { Ok(()) } else { Err(differs()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: &str = r#"{"name":"écho","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":{}}}"#;

    fn held(version: &[&str], method: &[&str], name: &[&str], params: &str) -> Result<McpVersion, i64> {
        fn bytes<'a>(values: &[&'a str]) -> Vec<&'a [u8]> {
            values.iter().map(|v| v.as_bytes()).collect()
        }
        let headers =
            McpHeaders { version: bytes(version), method: bytes(method), name: bytes(name), arguments: Vec::new() };
        let params = RawObject::parse(params).expect("params");
        check(&headers, "tools/call", Some(&params)).map_err(|e| e.code)
    }

    #[test]
    fn headers_say_what_the_body_says() {
        let name = encoded("écho").into_owned();
        let good: (&[&str], &[&str], &[&str]) = (&["2026-07-28"], &["tools/call"], &[&name]);
        assert_eq!(held(good.0, good.1, good.2, PARAMS), Ok(McpVersion::V2026_07_28));
        for (version, method, names, code) in [
            (&[][..], good.1, good.2, -32020),
            (&["2026-07-28", "2026-07-28"][..], good.1, good.2, -32020),
            (&["2025-11-25"][..], good.1, good.2, -32020),
            (good.0, &["tools/list"][..], good.2, -32020),
            (good.0, &[][..], good.2, -32020),
            (good.0, good.1, &["echo"][..], -32020),
            (good.0, good.1, &["=?base64?///?="][..], -32020),
            (good.0, good.1, &[][..], -32020),
        ] {
            assert_eq!(held(version, method, names, PARAMS), Err(code), "{version:?} {method:?} {names:?}");
        }
    }

    #[test]
    fn what_is_missing_in_the_metadata_is_told() {
        let all = (&["2026-07-28"][..], &["tools/call"][..], &["a"][..]);
        assert_eq!(held(all.0, all.1, all.2, r#"{"name":"a"}"#), Err(-32602));
        let bare = r#"{"name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
        assert_eq!(held(all.0, all.1, all.2, bare), Err(-32602));
        let newer = PARAMS.replace("2026-07-28", "2031-01-01");
        assert_eq!(held(&["2031-01-01"], all.1, all.2, &newer), Err(-32022));
    }

    #[test]
    fn arguments_in_headers_are_held_to_the_body() {
        const CALL: &str =
            r#"{"name":"t","arguments":{"text":"wörld","n":42.0,"yes":true,"none":null,"to":{"n":-7},"all":[1]}}"#;
        let params = RawObject::parse(CALL).expect("params");
        let path = |path: &str| path.split('/').map(Box::from).collect::<Vec<Box<str>>>();
        for (at, told) in [
            ("text", Some("wörld")),
            ("n", Some("42")),
            ("yes", Some("true")),
            ("to/n", Some("-7")),
            ("none", None),
            ("all", None),
            ("to", None),
            ("other", None),
            ("text/n", None),
        ] {
            assert_eq!(argument(Some(&params), &path(at)).as_deref(), told, "{at}");
        }
        assert_eq!(argument(None, &path("text")), None);
        let held = |values: &[&str], argument: Option<&str>| {
            let arguments = values.iter().map(|value| ("a", value.as_bytes())).collect();
            let headers = McpHeaders { arguments, ..McpHeaders::default() };
            check_argument(&headers, "a", argument).map_err(|e| e.code)
        };
        let coded = encoded("wörld").into_owned();
        for (values, argument, same) in [
            (&[&*coded][..], Some("wörld"), true),
            (&["42.0"][..], Some("42"), true),
            (&["42"][..], Some("42"), true),
            (&[][..], None, true),
            (&["43"][..], Some("42"), false),
            (&["4\u{e9}"][..], Some("4\u{e9}"), false),
            (&["=?base64?%%?="][..], Some("%%"), false),
            (&["a", "a"][..], Some("a"), false),
            (&[][..], Some("a"), false),
            (&["null"][..], None, false),
        ] {
            assert_eq!(held(values, argument), if same { Ok(()) } else { Err(-32020) }, "{values:?} {argument:?}");
        }
    }

    #[test]
    fn values_travel_as_ascii() {
        for value in ["plain", "", "ünïcode", " edge ", "=?base64?x?=", "a\nb"] {
            let coded = encoded(value).into_owned();
            assert!(coded.bytes().all(|b| (0x20..0x7f).contains(&b)));
            assert_eq!(decoded(&coded).as_deref(), Some(value));
        }
        assert_eq!(decoded("=?base64?%%%?="), None);
    }
}
