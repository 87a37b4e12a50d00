//! A call over WebRTC or SIP as a client asks for it, or asks something of it: which forms its body may have, and what
//! goes up in its place. Pure; knows no socket, no limit and no client.

use bytes::Bytes;
use gateway_domain::form::{ClientForm, FormPart};
use gateway_domain::{Fault, FaultKind};
use gateway_providers::{BodyPieces, ProviderRequest};
use http::{HeaderValue, header};
use serde_json::{Map, Value};

/// Bytes of an offer, or of a session.
const MOST_PART: usize = 64 << 10;
/// The most bytes of a body that is about a call, with the form around its parts.
pub(crate) const MOST_BODY: usize = 256 << 10;
/// Bytes of a call's id, and of where a call is to go.
const MOST_ID: usize = 512;
const MOST_TARGET: usize = 2048;
/// The boundary of the form that goes up. No line of an offer or of JSON begins like it.
const BOUNDARY: &str = "gateway-call-1f7c0a94d3";
/// The path of calls, below `/v1`.
const BASE: &str = "/realtime/calls";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallVerb {
    Create,
    Accept,
    Refer,
    Reject,
    Hangup,
}

/// What is asked; of what it holds beside an offer the content of its request knows.
#[derive(Clone, Debug)]
pub(crate) struct CallAsk {
    pub(crate) verb: CallVerb,
    /// What the caller can hear and say (SDP), where a call is to be made; empty otherwise.
    offer: Bytes,
}

fn invalid(field: &str, why: &str) -> Fault {
    Fault::new(FaultKind::BadBody, format!("{field} {why}")).on(field)
}

/// The id of a call and what is asked of it, as a path below `/v1` names them.
fn parts_of(tail: &str) -> Option<(&str, &str)> {
    tail.strip_prefix(BASE)?.strip_prefix('/')?.trim_end_matches('/').split_once('/')
}

/// The call that a path names.
pub(crate) fn call_in_path(tail: &str) -> Option<&str> {
    parts_of(tail).map(|(id, _)| id)
}

/// A path by which the gateway itself asks something of a call.
pub(crate) fn path_of(call: &str, verb: &str) -> String {
    format!("/v1{BASE}/{call}/{verb}")
}

/// Ids are providers' own, and stand in paths as they are.
pub(crate) fn is_id(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    !text.is_empty() && text.len() <= MOST_ID && text.bytes().all(plain)
}

/// Where a client asks, and the first event of a key for browsers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskedCall<'a> {
    /// The path below `/v1`.
    pub(crate) tail: &'a str,
    pub(crate) query: Option<&'a str>,
    pub(crate) first_event: Option<&'a [u8]>,
}

impl CallAsk {
    /// The ask that ends a call.
    pub(crate) const fn hangup() -> Self {
        Self { verb: CallVerb::Hangup, offer: Bytes::new() }
    }

    /// Reads what is asked, with the JSON that goes up beside the offer, or by itself.
    pub(crate) fn read(at: AskedCall<'_>, media: Option<&str>, body: &Bytes) -> Result<(Self, Bytes), Fault> {
        let verb = match parts_of(at.tail) {
            None => CallVerb::Create,
            Some((_, "accept")) => CallVerb::Accept,
            Some((_, "refer")) => CallVerb::Refer,
            Some((_, "reject")) => CallVerb::Reject,
            Some(_) => CallVerb::Hangup,
        };
        if call_in_path(at.tail).is_some_and(|id| !is_id(id)) {
            return Err(invalid("call_id", "must be letters, digits, - and _, 512 at most"));
        }
        let alone = |json: Bytes| Ok((Self { verb, offer: Bytes::new() }, json));
        match verb {
            CallVerb::Create => {
                let OfferedCall { offer, session } = OfferedCall::read(media, body)?;
                if at.first_event.is_some() && session.is_some() {
                    return Err(invalid("session", "is set by the client secret, and not taken beside it"));
                }
                let named = model_in_query(at.query);
                let of_key = at.first_event.map(session_of_key);
                let session = settled("session", session.or(of_key).unwrap_or_default(), named)?;
                Ok((Self { verb, offer }, session))
            }
            CallVerb::Accept => alone(settled("", object("the body", body)?, None)?),
            CallVerb::Refer => {
                let fields = object("the body", body)?;
                let to = fields.get("target_uri").and_then(Value::as_str).unwrap_or_default();
                if to.is_empty() || to.len() > MOST_TARGET {
                    return Err(invalid("target_uri", "must be a text of 1 to 2048 bytes, such as tel:+14155550123"));
                }
                alone(Value::Object(fields).to_string().into())
            }
            CallVerb::Reject if !body.is_empty() => {
                let fields = object("the body", body)?;
                let is_status = |code: &Value| code.as_u64().is_some_and(|code| (300..700).contains(&code));
                if fields.get("status_code").is_some_and(|code| !is_status(code)) {
                    return Err(invalid("status_code", "must be a SIP status from 300 to 699"));
                }
                alone(Value::Object(fields).to_string().into())
            }
            CallVerb::Reject | CallVerb::Hangup => alone(Bytes::new()),
        }
    }

    pub(crate) const fn begins(&self) -> bool {
        matches!(self.verb, CallVerb::Create | CallVerb::Accept)
    }

    /// What goes up, where `base` is the path of calls at the provider.
    pub(crate) fn outgoing(
        &self,
        base: &str,
        tail: &str,
        json: &Bytes,
        model: Option<&str>,
    ) -> Result<ProviderRequest, Fault> {
        let below = tail.strip_prefix(BASE).unwrap_or_default().trim_end_matches('/');
        let path = match base.split_once('?') {
            Some((base, query)) => format!("{base}{below}?{query}"),
            None => [base, below].concat(),
        };
        let (body, media) = match self.verb {
            CallVerb::Create => (self.form(&modelled(json, model)), form_type()),
            CallVerb::Accept => (modelled(json, model).into(), "application/json".to_owned()),
            _ => (json.clone(), "application/json".to_owned()),
        };
        let media = HeaderValue::from_str(&media).map_err(|_| invalid("content-type", "cannot be sent"))?;
        let mut headers = vec![(header::CONTENT_TYPE, media)];
        if self.verb == CallVerb::Create {
            headers.push((header::ACCEPT, HeaderValue::from_static("application/sdp")));
        }
        Ok(ProviderRequest { path: Some(path), headers, body: BodyPieces::One(body), adjusted: Vec::new() })
    }

    fn form(&self, session: &str) -> Bytes {
        let part = |name: &str, media: &str| {
            format!("--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{name}\"\r\ncontent-type: {media}\r\n\r\n")
        };
        let mut form = part("sdp", "application/sdp").into_bytes();
        form.extend_from_slice(&self.offer);
        form.extend_from_slice(b"\r\n");
        form.extend_from_slice(part("session", "application/json").as_bytes());
        form.extend_from_slice(session.as_bytes());
        form.extend_from_slice(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
        form.into()
    }
}

fn form_type() -> String {
    format!("multipart/form-data; boundary={BOUNDARY}")
}

/// What a client offers to make a call of.
struct OfferedCall {
    offer: Bytes,
    session: Option<Map<String, Value>>,
}

impl OfferedCall {
    fn read(media: Option<&str>, body: &Bytes) -> Result<Self, Fault> {
        let essence = media.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let offered = match essence.as_str() {
            "application/sdp" => Self { offer: body.clone(), session: None },
            "multipart/form-data" => Self::of_form(media.unwrap_or_default(), body)?,
            _ => {
                let why = "must be application/sdp, or multipart/form-data with the parts sdp and session";
                return Err(Fault::new(FaultKind::BadHeader, format!("content-type {why}")).on("content-type"));
            }
        };
        let is_offer = std::str::from_utf8(&offered.offer).is_ok_and(|text| text.trim_start().starts_with("v="));
        if !is_offer || offered.offer.len() > MOST_PART {
            return Err(invalid("sdp", "must be an offer of SDP (it begins with v=), 65536 bytes at most"));
        }
        Ok(offered)
    }

    fn of_form(media: &str, body: &Bytes) -> Result<Self, Fault> {
        let form = ClientForm::read(media, body)
            .map_err(|why| Fault::new(FaultKind::BadBody, format!("The request body is not a valid form: {why}")))?;
        if let Some(other) = form.parts().iter().find(|part| !matches!(part.name.as_str(), "sdp" | "session")) {
            return Err(invalid(&other.name, "is not known: a call is made of the parts sdp and session"));
        }
        let one = |name: &str| -> Result<Option<Bytes>, Fault> {
            let mut parts = form.named(name);
            let value = |part: &FormPart| body.slice(part.value.start..part.value.end);
            match (parts.next(), parts.next()) {
                (_, Some(_)) => Err(invalid(name, "is given twice")),
                (part, None) => Ok(part.map(value)),
            }
        };
        let offer = one("sdp")?.ok_or_else(|| invalid("sdp", "is missing"))?;
        let session = one("session")?.map(|json| object("session", &json)).transpose()?;
        Ok(Self { offer, session })
    }
}

/// What stands in it twice is read once.
fn object(field: &str, json: &[u8]) -> Result<Map<String, Value>, Fault> {
    if json.len() > MOST_PART {
        return Err(invalid(field, "has more than 65536 bytes"));
    }
    serde_json::from_slice(json).map_err(|why| invalid(field, &format!("must be a JSON object: {why}")))
}

/// A session that names what is to speak in it; one that only writes down what it hears has no model of its own.
fn settled(field: &str, mut session: Map<String, Value>, named: Option<String>) -> Result<Bytes, Fault> {
    let name = if field.is_empty() { "model".to_owned() } else { format!("{field}.model") };
    session.entry("type").or_insert_with(|| "realtime".into());
    if let Some(model) = named {
        session.entry("model").or_insert_with(|| model.into());
    }
    match session.get("model") {
        Some(Value::String(model)) if !model.is_empty() => {}
        None if session["type"] == "transcription" => {}
        _ => return Err(invalid(&name, "must name a model")),
    }
    Ok(Value::Object(session).to_string().into())
}

/// The session with the model that the target is asked for.
fn modelled(session: &[u8], model: Option<&str>) -> String {
    let mut session: Map<String, Value> = serde_json::from_slice(session).unwrap_or_default();
    if let Some(model) = model {
        session.insert("model".to_owned(), model.into());
    }
    Value::Object(session).to_string()
}

/// What the key of a browser sets.
fn session_of_key(first_event: &[u8]) -> Map<String, Value> {
    let event: Map<String, Value> = serde_json::from_slice(first_event).unwrap_or_default();
    match event.get("session") {
        Some(Value::Object(session)) => session.clone(),
        _ => Map::new(),
    }
}

fn model_in_query(query: Option<&str>) -> Option<String> {
    let pairs = url::form_urlencoded::parse(query?.as_bytes());
    pairs.into_iter().find(|(name, model)| name == "model" && !model.is_empty()).map(|(_, model)| model.into_owned())
}

pub(crate) fn without_model(query: &str) -> String {
    let others = query.split('&').filter(|pair| !pair.starts_with("model="));
    others.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(parts: &[(&str, &str)]) -> Bytes {
        let mut out = String::new();
        for (name, value) in parts {
            out.push_str(&format!("--b\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"));
        }
        (out + "--b--\r\n").into()
    }

    fn read(parts: &[(&str, &str)]) -> Result<OfferedCall, Fault> {
        OfferedCall::read(Some("multipart/form-data; boundary=b"), &form(parts))
    }

    #[test]
    fn an_offer_is_taken_in_each_of_its_forms() {
        let plain = OfferedCall::read(Some("application/SDP; charset=utf-8"), &"v=0\r\n".into()).expect("an offer");
        assert_eq!((&plain.offer[..], plain.session), (&b"v=0\r\n"[..], None));
        let both = read(&[("session", r#"{"model":"m"}"#), ("sdp", "v=0")]).expect("an offer");
        assert_eq!((&both.offer[..], both.session.expect("a session")["model"].as_str()), (&b"v=0"[..], Some("m")));
    }

    #[test]
    fn what_is_wrong_with_an_offer_is_told_by_its_field() {
        let long = format!("v={}", "0".repeat(MOST_PART));
        for (parts, field) in [
            (&[("session", "{}")][..], "sdp"),
            (&[("sdp", "hello")], "sdp"),
            (&[("sdp", long.as_str())], "sdp"),
            (&[("sdp", "v=0"), ("sdp", "v=0")], "sdp"),
            (&[("sdp", "v=0"), ("session", "[]")], "session"),
            (&[("sdp", "v=0"), ("other", "x")], "other"),
        ] {
            assert_eq!(read(parts).err().and_then(|fault| fault.param().map(str::to_owned)).as_deref(), Some(field));
        }
        let json = OfferedCall::read(Some("application/json"), &"{}".into());
        assert_eq!(json.err().and_then(|fault| fault.param().map(str::to_owned)).as_deref(), Some("content-type"));
    }

    #[test]
    fn a_session_has_a_model_unless_it_only_listens() {
        let of = |json: &str, named: Option<&str>| {
            settled("session", object("session", json.as_bytes()).expect("an object"), named.map(str::to_owned))
        };
        for (json, named, is_good) in [
            (r#"{"model":"m"}"#, None, true),
            ("{}", Some("m"), true),
            ("{}", None, false),
            (r#"{"model":7}"#, None, false),
            (r#"{"model":""}"#, None, false),
            (r#"{"type":"transcription"}"#, None, true),
        ] {
            assert_eq!(of(json, named).is_ok(), is_good, "{json} {named:?}");
        }
        assert_eq!(modelled(br#"{"model":"@p/m","n":1}"#, Some("m")), r#"{"model":"m","n":1}"#);
    }

    #[test]
    fn calls_are_named_by_paths() {
        assert_eq!(call_in_path("/realtime/calls/rtc_1/accept"), Some("rtc_1"));
        assert_eq!(call_in_path("/realtime/calls"), None);
        assert_eq!(path_of("rtc_1", "hangup"), "/v1/realtime/calls/rtc_1/hangup");
        assert!(is_id("rtc_u1-9") && !is_id("") && !is_id("a/b") && !is_id("%2e"));
        assert_eq!(without_model("model=a&b=c"), "b=c");
    }
}
