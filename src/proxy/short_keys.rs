//! Keys for browsers: short-lived, good for realtime sessions of one model and nothing else, and made by the gateway,
//! so that no provider's key leaves it. What one may do lies sealed in it, on every node alike; it stands for the key
//! that asked for it, and ends with that one.

use super::headers::GatewayHeaders;
use super::request::{Request, Route};
use super::routing::Routing;
use super::target::{Credential, permit_other, resolve};
use bytes::Bytes;
use gateway_domain::config::split_model;
use gateway_domain::id::KeyId;
use gateway_domain::kept::calls_in_query;
use gateway_domain::ports::IdSeal;
use gateway_domain::realtime_paths::leads_aside;
use gateway_domain::{Fault, FaultKind, Operation, Timestamp};
use gateway_realtime::ClientEvent;
use http::{HeaderValue, Method};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// What every such key begins with.
const PREFIX: &str = "ek_gw_";
/// Marks what is sealed in such a key: whatever else is sealed with the same secret is not taken for one.
const TAG: &str = "realtime-key-1";
/// Longer ones are refused before they are opened; heads of requests have to carry them.
const LONGEST: usize = 16 << 10;
/// Bytes of the session that one opens.
const MOST_SESSION: usize = 8 << 10;
/// Bytes of the config that it is bound to.
const MOST_CONFIG: usize = 2 << 10;
const SECONDS: std::ops::RangeInclusive<i64> = 10..=7200;
const USUAL_SECONDS: i64 = 600;

/// What one of them may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShortKey {
    tag: String,
    /// No two are alike.
    id: Uuid,
    pub(crate) key: Uuid,
    /// Seconds since 1970.
    expires: i64,
    /// The model that a session names in its query.
    model: Option<String>,
    /// The `session` of the first event.
    session: String,
    /// The config and the provider that the request for the key named.
    config: Option<String>,
    provider: Option<String>,
    metadata: Vec<(String, String)>,
}

/// How long one is to live, as the body says.
fn lifetime(asked: Option<Value>) -> Result<i64, Fault> {
    let after = object("expires_after", asked)?;
    for (name, value) in &after {
        match name.as_str() {
            "anchor" if !value.is_null() && value != "created_at" => {
                return Err(invalid("expires_after.anchor", "must be created_at"));
            }
            "anchor" | "seconds" => {}
            name => return Err(invalid(&format!("expires_after.{name}"), "is not known: anchor and seconds are")),
        }
    }
    let seconds = match after.get("seconds") {
        None | Some(Value::Null) => Some(USUAL_SECONDS),
        Some(told) => told.as_i64(),
    };
    let within = seconds.filter(|seconds| SECONDS.contains(seconds));
    within.ok_or_else(|| invalid("expires_after.seconds", "must be a whole number between 10 and 7200"))
}

fn object(field: &str, told: Option<Value>) -> Result<Map<String, Value>, Fault> {
    match told {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(members)) => Ok(members),
        Some(_) => Err(invalid(field, "must be an object")),
    }
}

/// A body as it is asked for by its path.
pub(crate) struct KeyAsk {
    pub(crate) session: Map<String, Value>,
    seconds: i64,
    /// The ask came by the path of the beta, whose answer is a session with a key in it.
    is_beta: bool,
}

fn invalid(field: &str, why: &str) -> Fault {
    Fault::new(FaultKind::BadBody, format!("{field} {why}")).on(field)
}

impl KeyAsk {
    pub(crate) fn read(path: &str, body: &[u8]) -> Result<Self, Fault> {
        let wrong = |e: serde_json::Error| Fault::new(FaultKind::BadBody, format!("The request body is invalid: {e}"));
        let is_beta = path.ends_with("sessions");
        let mut members: Map<String, Value> = serde_json::from_slice(body).map_err(wrong)?;
        let (mut session, seconds) = if is_beta {
            (members, USUAL_SECONDS)
        } else {
            let told = (object("session", members.remove("session"))?, lifetime(members.remove("expires_after"))?);
            if let Some((name, _)) = members.into_iter().next() {
                return Err(invalid(&name, "is not known: expires_after and session are"));
            }
            told
        };
        if session.get("model").is_some_and(|model| !model.is_string() && !model.is_null()) {
            return Err(invalid(if is_beta { "model" } else { "session.model" }, "must be a string"));
        }
        // What the answer tells of it is no setting.
        ["id", "object", "client_secret", "expires_at"].iter().for_each(|name| drop(session.remove(*name)));
        Ok(Self { session, seconds, is_beta })
    }

    /// The model that its sessions have.
    pub(crate) fn model(&self) -> Option<&str> {
        self.session.get("model").and_then(Value::as_str)
    }

    /// Whether the provider may be asked for a key of its own, with the very body that asks here.
    pub(crate) fn permit_direct(&self, request: &Request, routing: &Routing) -> Result<(), Fault> {
        if self.model().is_some_and(|model| split_model(model).is_some()) {
            let why =
                "must not name a provider where the provider's own key is asked for: name it in x-gateway-provider";
            return Err(invalid("session.model", why));
        }
        self.permit(request, routing)
    }

    /// Seals it, once its config leads to a target that has every model that it names.
    pub(crate) fn mint(self, seal: &dyn IdSeal, request: &Request, routing: &Routing) -> Result<Value, Fault> {
        if request.caller.tenant.key.token.is_some() {
            let why = "A client secret stands for a key of the gateway's, not for a token: ask for it with a key";
            return Err(Fault::new(FaultKind::Forbidden, why));
        }
        self.permit(request, routing)?;
        let headers = &request.ask.headers;
        bound(headers)?;
        let text = |value: &HeaderValue| {
            value.to_str().map(str::to_owned).map_err(|_| invalid("x-gateway-config", "must be text"))
        };
        let config = headers.config.as_ref().map(text).transpose()?;
        if config.as_ref().is_some_and(|config| config.len() > MOST_CONFIG) {
            return Err(invalid(
                "x-gateway-config",
                "must have 2048 bytes at most beside a client secret: save it, and name it",
            ));
        }
        // The model stands in the address of a session, and is no setting of one that is open.
        let mut settings = self.session.clone();
        settings.remove("model");
        let session = Value::Object(settings).to_string();
        if session.len() > MOST_SESSION {
            return Err(invalid("session", "must have 8192 bytes at most: it is carried in the key"));
        }
        let expires = request.caller.at.micros() / 1_000_000 + self.seconds;
        let short = ShortKey {
            tag: TAG.to_owned(),
            id: Uuid::from_bytes(rand::random()),
            key: request.caller.tenant.key.id.0,
            expires,
            model: self.model().map(str::to_owned),
            session,
            config,
            provider: headers.provider.as_deref().map(str::to_owned),
            metadata: headers.metadata.clone(),
        };
        let value = short.seal(seal)?;
        Ok(self.answer(&value, expires))
    }

    fn permit(&self, request: &Request, routing: &Routing) -> Result<(), Fault> {
        permit_models(&self.session, request, routing)
    }

    fn answer(self, value: &str, expires: i64) -> Value {
        let mut session = self.session;
        let id = format!("sess_{}", Uuid::from_bytes(rand::random()).simple());
        session.entry("type").or_insert_with(|| "realtime".into());
        session.insert("id".to_owned(), id.into());
        session.insert("object".to_owned(), "realtime.session".into());
        let secret = json!({ "value": value, "expires_at": expires });
        if self.is_beta {
            session.insert("client_secret".to_owned(), secret);
            return Value::Object(session);
        }
        json!({ "value": value, "expires_at": expires, "session": session })
    }
}

/// Every model that a session names is one that its target has; the one that speaks is permitted where the target is
/// found.
pub(crate) fn permit_models(session: &Map<String, Value>, request: &Request, routing: &Routing) -> Result<(), Fault> {
    let leaf = &**routing.plan.leaf();
    let aim = resolve(leaf, routing.inline, request)?;
    let event = json!({ "type": "session.update", "session": session }).to_string();
    let read = ClientEvent::read(&event).map_err(|why| invalid("session", &format!("cannot be read: {why}")))?;
    for (field, model) in read.models.iter().filter(|(field, _)| *field != "session.model") {
        permit_other(&aim, model, request)
            .map_err(|fault| Fault::new(fault.kind(), fault.message().to_owned()).on(*field))?;
    }
    Ok(())
}

/// What a request may say beside a config and a provider is not carried in a key, and so is refused where one is asked
/// for.
fn bound(headers: &GatewayHeaders) -> Result<(), Fault> {
    let said = [
        (headers.virtual_key.is_some(), "x-gateway-virtual-key"),
        (headers.custom_host.is_some(), "x-gateway-custom-host"),
        (headers.forward_headers.is_some(), "x-gateway-forward-headers"),
        (headers.request_timeout_ms.is_some(), "x-gateway-request-timeout"),
    ];
    let said = said.iter().find_map(|(is_said, name)| is_said.then_some(*name));
    match said.or_else(|| headers.settings.iter().next().map(|(name, _)| name)) {
        Some(name) => Err(invalid(name, "is not carried by a client secret: say it in a saved config")),
        None => Ok(()),
    }
}

impl ShortKey {
    fn seal(&self, seal: &dyn IdSeal) -> Result<String, Fault> {
        let plain =
            serde_json::to_vec(self).map_err(|_| Fault::new(FaultKind::Internal, "The key could not be made"))?;
        let text = [PREFIX, &seal.seal(&plain)].concat();
        if text.len() > LONGEST { Err(invalid("session", "is too large to be carried in a key")) } else { Ok(text) }
    }

    /// `None`: the text is no such key.
    pub(crate) fn open(text: &str, seal: &dyn IdSeal, now: Timestamp) -> Option<Self> {
        let sealed = text.strip_prefix(PREFIX).filter(|sealed| sealed.len() <= LONGEST)?;
        let short: Self = serde_json::from_slice(&seal.open(sealed)?).ok()?;
        (short.tag == TAG && now.micros() / 1_000_000 < short.expires).then_some(short)
    }

    pub(crate) const fn parent(&self) -> KeyId {
        KeyId(self.key)
    }

    /// Makes the request one that is led by the key alone.
    pub(crate) fn lead(&self, route: &mut Route, headers: &mut GatewayHeaders) -> Result<(), Fault> {
        let refused = |name: &str| {
            Err(Fault::new(FaultKind::BadHeader, format!("{name} is not taken beside a client secret")).on(name))
        };
        if headers.config.is_some() {
            return refused("x-gateway-config");
        }
        if headers.provider.is_some() {
            return refused("x-gateway-provider");
        }
        bound(headers)?;
        let query = route.query.as_deref().unwrap_or_default();
        let named: Vec<String> = url::form_urlencoded::parse(query.as_bytes())
            .filter(|(name, _)| name == "model")
            .map(|(_, model)| model.into_owned())
            .collect();
        if named.iter().any(|named| Some(named) != self.model.as_ref()) {
            return Err(Fault::new(FaultKind::Refused, "The client secret was made for another model").on("model"));
        }
        if let (Some(model), true) = (&self.model, named.is_empty()) {
            let mut query = query.to_owned();
            let mark = if query.is_empty() { "" } else { "&" };
            query.push_str(mark);
            query.push_str("model=");
            query.extend(url::form_urlencoded::byte_serialize(model.as_bytes()));
            route.query = Some(query.into());
        }
        headers.config = self.config.as_deref().and_then(|config| HeaderValue::from_str(config).ok());
        headers.provider = self.provider.as_deref().map(Into::into);
        headers.metadata.clone_from(&self.metadata);
        Ok(())
    }

    /// What the gateway says first in a session that it opens; `None`: nothing. A call is made with all of it.
    pub(crate) fn first_event(&self, makes_call: bool) -> Option<Bytes> {
        let is_plain = matches!(self.session.as_str(), "{}" | r#"{"type":"realtime"}"# | r#"{"type":"transcription"}"#);
        let session = &self.session;
        (makes_call || !is_plain).then(|| format!(r#"{{"type":"session.update","session":{session}}}"#).into())
    }
}

/// Whether every target of the config hands out keys of its own.
pub(crate) fn is_direct(request: &Request, routing: &Routing) -> bool {
    let hands_out = |leaf| match resolve(leaf, routing.inline, request).map(|aim| aim.credential) {
        Ok(Credential::Managed(upstream)) => upstream.direct_realtime,
        _ => false,
    };
    routing.plan.config().leaves().all(|leaf| hands_out(leaf))
}

/// What would give a client a way round the gateway: refused by name, on every path that leads there.
pub(crate) fn goes_round(request: &Request) -> Option<Fault> {
    const KEY: &str = "A provider's own key would go round the gateway: ask for one of the gateway's at \
                       /v1/realtime/client_secrets";
    const MEDIA: &str =
        "Media of a call would go round the gateway: make it at /v1/realtime/calls, where it is watched";
    const EITHER: &str = "What begins here would go round the gateway: calls are made at /v1/realtime/calls, keys at \
                          /v1/realtime/client_secrets";
    let route = &request.ask.route;
    let several = |query: &str| calls_in_query(query).nth(1).is_some();
    if route.operation.facts().opens_session && route.query.as_deref().is_some_and(several) {
        let why = "call_id must be given once: one call would be looked at, and another could be heard";
        return Some(Fault::new(FaultKind::Refused, why).on("call_id"));
    }
    let why = match route.operation {
        Operation::RealtimeCall | Operation::RealtimeCallControl if route.raw => MEDIA,
        Operation::RealtimeSecret if route.raw => KEY,
        Operation::Proxy if request.ask.method == Method::POST && leads_aside(route.tail()) => EITHER,
        _ => return None,
    };
    Some(Fault::new(FaultKind::Refused, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enough to show what is asked of a seal.
    struct Hex;
    impl IdSeal for Hex {
        fn seal(&self, plain: &[u8]) -> String {
            plain.iter().map(|byte| format!("{byte:02x}")).collect()
        }
        fn open(&self, sealed: &str) -> Option<Vec<u8>> {
            (0..sealed.len()).step_by(2).map(|at| u8::from_str_radix(sealed.get(at..at + 2)?, 16).ok()).collect()
        }
    }

    fn short() -> ShortKey {
        ShortKey {
            tag: TAG.to_owned(),
            id: Uuid::nil(),
            key: Uuid::nil(),
            expires: 1_000,
            model: Some("gpt-realtime".to_owned()),
            session: r#"{"voice":"marin"}"#.to_owned(),
            config: None,
            provider: Some("@main".to_owned()),
            metadata: Vec::new(),
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * 1_000_000)
    }

    #[test]
    fn a_key_opens_until_it_ends() {
        let text = short().seal(&Hex).expect("short");
        assert_eq!(ShortKey::open(&text, &Hex, at(999)), Some(short()));
        assert_eq!(ShortKey::open(&text, &Hex, at(1_000)), None);
        assert_eq!(ShortKey::open(&text[1..], &Hex, at(0)), None);
        let other = ShortKey { tag: "other".to_owned(), ..short() }.seal(&Hex).expect("short");
        assert_eq!(ShortKey::open(&other, &Hex, at(0)), None, "whatever else is sealed is no key");
        assert_eq!(ShortKey::open(&format!("{PREFIX}{}", "0".repeat(LONGEST + 1)), &Hex, at(0)), None);
    }

    #[test]
    fn bodies_are_held_to_their_form() {
        let read = |body: &str| KeyAsk::read("/v1/realtime/client_secrets", body.as_bytes());
        let seconds =
            |seconds: i64| read(&format!(r#"{{"expires_after":{{"anchor":"created_at","seconds":{seconds}}}}}"#));
        assert_eq!(read("{}").map(|ask| ask.seconds).ok(), Some(USUAL_SECONDS));
        for (length, is_good) in [(9, false), (10, true), (7200, true), (7201, false)] {
            assert_eq!(seconds(length).is_ok(), is_good, "{length}");
        }
        for body in [r#"{"model":"m"}"#, r#"{"session":[]}"#, r#"{"expires_after":{"anchor":"noon"}}"#, "[]", ""] {
            assert!(read(body).is_err(), "{body}");
        }
        let beta = KeyAsk::read("/v1/realtime/sessions", br#"{"model":"m","voice":"v"}"#).expect("a session");
        assert_eq!((beta.model(), beta.is_beta), (Some("m"), true));
    }

    #[test]
    fn the_first_event_sets_what_there_is_to_set() {
        let told = short().first_event(false).expect("a voice");
        assert_eq!(&*told, br#"{"type":"session.update","session":{"voice":"marin"}}"#);
        assert_eq!(ShortKey { session: "{}".to_owned(), ..short() }.first_event(false), None);
        let plain = ShortKey { session: "{}".to_owned(), ..short() }.first_event(true);
        assert_eq!(plain.as_deref(), Some(&br#"{"type":"session.update","session":{}}"#[..]));
    }
}
