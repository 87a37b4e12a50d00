//! Cards of agents: what must be in one, and how one looks that leads to the gateway instead of to the agent.

use serde_json::{Map, Value, json};

/// Bytes of a card.
pub const MOST_CARD: usize = 1 << 20;
/// Where agents have their cards, in the order in which they are asked.
pub const PLACES: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// What the security scheme of a published card is called there.
const SCHEME: &str = "gateway";

/// What clients of the gateway see of an agent.
#[expect(missing_debug_implementations, reason = "it holds questions, which cannot be shown")]
pub struct PublicCard<'a> {
    /// The gateway's address of the agent.
    pub address: &'a str,
    /// Gives the path behind `address` by which clients reach the endpoint that the agent's own card has at the given
    /// address.
    pub below: &'a dyn Fn(&str) -> String,
    pub shows_skill: &'a dyn Fn(&str) -> bool,
    /// Whether clients may use a capability, named `streaming`, `push_notifications` or `extended_agent_card`.
    pub allows: &'a dyn Fn(&str) -> bool,
}

/// A card as it is kept: an object with a name and an address. One of 1.0 names its addresses in a list, of which the
/// first stands for that, and is added under the older name.
pub fn accepted(card: Value) -> Result<Value, &'static str> {
    let Value::Object(mut card) = card else { return Err("must be a JSON object") };
    let is_text = |value: Option<&Value>| value.and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if !is_text(card.get("name")) {
        return Err("must have a `name`");
    }
    if !is_text(card.get("url")) {
        let first = card.get("supportedInterfaces").and_then(|all| all.get(0)?.get("url")).cloned();
        if !is_text(first.as_ref()) {
            return Err("must have a `url`, or one in the first of its `supportedInterfaces`");
        }
        card.insert("url".to_owned(), first.unwrap_or_default());
    }
    Ok(Value::Object(card))
}

/// A card's skills, of those that have an id.
pub fn skills(card: &Value) -> impl Iterator<Item = &Value> {
    card["skills"].as_array().into_iter().flatten().filter(|skill| skill["id"].is_string())
}

/// Whether a card says that its agent can do this.
pub fn offers(card: &Value, capability: &str) -> bool {
    let said = |value: &Value| value.as_bool().unwrap_or(false);
    let able = &card["capabilities"];
    match capability {
        "streaming" => said(&able["streaming"]),
        "push_notifications" => said(&able["pushNotifications"]),
        _ => said(&able["extendedAgentCard"]) || said(&card["supportsAuthenticatedExtendedCard"]),
    }
}

/// A card that leads to the gateway: its addresses, its way to sign in, and of what the agent can do only what is open.
/// A signature of the agent's no longer fits and is left out.
pub fn published(card: &Value, public: &PublicCard<'_>) -> Value {
    let Value::Object(card) = card else { return card.clone() };
    let mut card = card.clone();
    card.remove("signatures");
    let is_old = !card.contains_key("supportedInterfaces");
    for (list, binding) in [("supportedInterfaces", "protocolBinding"), ("additionalInterfaces", "transport")] {
        if let Some(Value::Array(all)) = card.get_mut(list) {
            all.retain(|one| one.get(binding).and_then(Value::as_str).is_some_and(is_served));
            all.iter_mut().for_each(|one| lead(one, public));
        }
    }
    lead_whole(&mut card, public);
    if let Some(Value::Array(all)) = card.get_mut("skills") {
        all.retain(|skill| skill["id"].as_str().is_none_or(public.shows_skill));
        for skill in all {
            let Some(skill) = skill.as_object_mut() else { continue };
            skill.remove("security");
            skill.remove("securityRequirements");
        }
    }
    close(&mut card, public.allows);
    sign_in(&mut card, is_old);
    Value::Object(card)
}

/// What the gateway speaks.
fn is_served(binding: &str) -> bool {
    matches!(binding, "JSONRPC" | "HTTP+JSON")
}

fn address(url: &str, public: &PublicCard<'_>) -> Value {
    format!("{}{}", public.address, (public.below)(url)).into()
}

fn lead(one: &mut Value, public: &PublicCard<'_>) {
    let url = one["url"].as_str().unwrap_or_default().to_owned();
    one["url"] = address(&url, public);
}

/// The address that a card has for itself. Where that is of a way which the gateway does not speak, the first of the
/// others takes its place.
fn lead_whole(card: &mut Map<String, Value>, public: &PublicCard<'_>) {
    let Some(url) = card.get("url").and_then(Value::as_str).map(str::to_owned) else { return };
    let preferred = card.get("preferredTransport").and_then(Value::as_str);
    if preferred.is_none_or(is_served) {
        card.insert("url".to_owned(), address(&url, public));
        return;
    }
    let other = card.get("additionalInterfaces").and_then(|all| all.get(0)).cloned().unwrap_or_default();
    let url = other["url"].as_str().unwrap_or(public.address);
    card.insert("url".to_owned(), url.into());
    card.insert("preferredTransport".to_owned(), other["transport"].as_str().unwrap_or("JSONRPC").into());
}

/// What is not open is said to be missing.
fn close(card: &mut Map<String, Value>, allows: &dyn Fn(&str) -> bool) {
    let names = [
        ("streaming", "streaming"),
        ("push_notifications", "pushNotifications"),
        ("extended_agent_card", "extendedAgentCard"),
    ];
    if let Some(Value::Object(offered)) = card.get_mut("capabilities") {
        for (name, member) in names {
            if !allows(name) && offered.contains_key(member) {
                offered.insert(member.to_owned(), false.into());
            }
        }
    }
    if !allows("extended_agent_card") && card.contains_key("supportsAuthenticatedExtendedCard") {
        card.insert("supportsAuthenticatedExtendedCard".to_owned(), false.into());
    }
}

/// Whoever calls signs in at the gateway, by a key as a bearer token.
fn sign_in(card: &mut Map<String, Value>, is_old: bool) {
    for member in ["security", "securityRequirements"] {
        card.remove(member);
    }
    if is_old {
        card.insert("securitySchemes".to_owned(), json!({SCHEME: {"type": "http", "scheme": "bearer"}}));
        card.insert("security".to_owned(), json!([{SCHEME: []}]));
    } else {
        card.insert("securitySchemes".to_owned(), json!({SCHEME: {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}));
        card.insert("securityRequirements".to_owned(), json!([{"schemes": {SCHEME: {"list": []}}}]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public<'a>(allows: &'a dyn Fn(&str) -> bool, below: &'a dyn Fn(&str) -> String) -> PublicCard<'a> {
        PublicCard { address: "https://gw/v1/agent/a", below, shows_skill: &|id| id != "hidden", allows }
    }

    #[test]
    fn what_is_no_card_is_told() {
        for bad in [
            json!([]),
            json!({"url": "https://a"}),
            json!({"name": "", "url": "https://a"}),
            json!({"name": "a"}),
            json!({"name": "a", "url": 7}),
            json!({"name": "a", "supportedInterfaces": []}),
        ] {
            assert!(accepted(bad.clone()).is_err(), "{bad}");
        }
        let card = json!({"name": "a", "supportedInterfaces": [{"url": "https://a/x"}], "own": 1.5});
        let kept = accepted(card).expect("a card");
        assert_eq!((&kept["url"], &kept["own"]), (&json!("https://a/x"), &json!(1.5)));
    }

    #[test]
    fn a_card_of_1_0_leads_here() {
        let card = json!({"name": "a", "url": "https://a/x", "signatures": [{"signature": "s"}], "version": "7",
            "supportedInterfaces": [{"url": "a:1", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
                {"url": "https://a/x", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "t"}],
            "capabilities": {"streaming": true, "pushNotifications": true, "extendedAgentCard": true},
            "securitySchemes": {"theirs": {}}, "securityRequirements": [{"schemes": {"theirs": {"list": []}}}],
            "skills": [{"id": "hidden"}, {"id": "open", "securityRequirements": []}]});
        let told = published(&card, &public(&|name| name == "streaming", &|url| url.replace("https://a", "")));
        let one = json!({"url": "https://gw/v1/agent/a/x", "protocolBinding": "JSONRPC", "protocolVersion": "1.0",
            "tenant": "t"});
        assert_eq!(told["supportedInterfaces"], json!([one]));
        assert_eq!((&told["url"], &told["version"]), (&one["url"], &json!("7")));
        assert_eq!(told["skills"], json!([{"id": "open"}]));
        let closed = json!({"streaming": true, "pushNotifications": false, "extendedAgentCard": false});
        assert_eq!(told["capabilities"], closed);
        assert!(told.get("signatures").is_none() && !told.to_string().contains("theirs"));
        assert!(told["securitySchemes"]["gateway"]["httpAuthSecurityScheme"].is_object());
    }

    #[test]
    fn a_card_of_0_3_leads_here() {
        let card = json!({"name": "a", "url": "a:1", "preferredTransport": "GRPC", "protocolVersion": "0.3.0",
            "supportsAuthenticatedExtendedCard": true, "security": [{"theirs": []}], "capabilities": {},
            "additionalInterfaces": [{"url": "a:1", "transport": "GRPC"},
                {"url": "https://a/r", "transport": "HTTP+JSON"}]});
        let told = published(&card, &public(&|_| false, &|_| String::new()));
        let one = json!({"url": "https://gw/v1/agent/a", "transport": "HTTP+JSON"});
        assert_eq!(told["additionalInterfaces"], json!([one]));
        assert_eq!((&told["url"], &told["preferredTransport"]), (&one["url"], &one["transport"]));
        assert_eq!((&told["supportsAuthenticatedExtendedCard"], &told["capabilities"]), (&json!(false), &json!({})));
        assert_eq!(told["security"], json!([{"gateway": []}]));
        let alone = json!({"name": "a", "url": "a:1", "preferredTransport": "GRPC"});
        let told = published(&alone, &public(&|_| true, &|_| String::new()));
        assert_eq!((&told["url"], &told["preferredTransport"]), (&one["url"], &json!("JSONRPC")));
    }
}
