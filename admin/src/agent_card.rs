//! Cards of agents: as clients of the gateway see them, and as agents give them. Asks an agent for its card, where
//! agents have one: `agent-card.json`, and where that is not there `agent.json`. Bytes are counted while they come.
//! Stores nothing.

use crate::app::App;
use crate::mcp_probe::ProbeTarget;
use crate::problem::Problem;
use crate::resource::outbound::settings;
use gateway_domain::id::OrgId;
use gateway_domain::ports::{Outside, OutsideCall, OutsideError, OutsideReply};
use gateway_domain::resource::outbound::OutboundSettings;
use gateway_domain::snapshot::{AgentUpstream, ManagedAgent};
use gateway_domain::time::Timestamp;
use gateway_mcp::a2a::card::{MOST_CARD, PLACES, PublicCard, accepted, published};
use http::{HeaderValue, Method, header};
use serde_json::Value;
use std::time::Duration;

/// How long both addresses where a card may be are waited for together.
const WITHIN: Duration = Duration::from_secs(10);

/// What came of asking.
pub(crate) struct FoundCard {
    /// The HTTP status of the agent's last answer; `None`: it gave none.
    pub(crate) status: Option<u16>,
    pub(crate) millis: i64,
    /// `Err`: a sentence that holds nothing of what the agent said beyond its status.
    pub(crate) card: Result<Value, String>,
}

impl FoundCard {
    const fn failed(why: String) -> Self {
        Self { status: None, millis: 0, card: Err(why) }
    }
}

/// Asks an agent for its card with the settings of its integration, on behalf of no user.
pub(crate) async fn ask(app: &App, org: OrgId, outbound: &OutboundSettings) -> Result<FoundCard, Problem> {
    let Some(outside) = &app.outside else { return Ok(FoundCard::failed("this process asks no agents".to_owned())) };
    Ok(match settings::target(outbound, (org, None), app).await? {
        Ok(target) => find(&**outside, &target, app.clock).await,
        Err(why) => FoundCard::failed(why),
    })
}

async fn find(outside: &dyn Outside, target: &ProbeTarget, clock: fn() -> Timestamp) -> FoundCard {
    let began = clock();
    let mut status = None;
    let mut card = Err("the agent has no card".to_owned());
    for url in places(&target.url) {
        let passed = u64::try_from((clock().0 - began.0) / 1000).unwrap_or(0);
        let within = WITHIN.saturating_sub(Duration::from_millis(passed)).max(Duration::from_millis(1));
        let reply = match outside.call(call(url, target, within)).await {
            Ok(reply) => reply,
            Err(OutsideError::TooLong(_)) => {
                card = Err(format!("the agent's card is longer than {MOST_CARD} bytes"));
                break;
            }
            Err(why) => {
                card = Err(why.to_string());
                break;
            }
        };
        status = Some(reply.status);
        if reply.status == 200 {
            card = read(&reply);
            break;
        }
        card = Err(format!("the agent answered {} where its card should be", reply.status));
    }
    FoundCard { status, millis: (clock().0 - began.0) / 1000, card }
}

/// The card that clients of the gateway see; `None`: nobody knows what the agent says of itself. `base`: the gateway's
/// own address, without a slash at its end.
pub fn public_agent_card(agent: &ManagedAgent, upstream: &AgentUpstream, base: &str) -> Option<Value> {
    upstream.card.as_ref().map(|card| public_card(agent, upstream, card, base))
}

/// Makes the public form of `card`, which may be another card of the agent than the saved one.
pub fn public_card(agent: &ManagedAgent, upstream: &AgentUpstream, card: &Value, base: &str) -> Value {
    let below = |url: &str| {
        let endpoint = upstream.endpoints.iter().find(|endpoint| endpoint.url == url);
        endpoint.map(|endpoint| endpoint.below.clone()).unwrap_or_default()
    };
    let public = PublicCard {
        address: &format!("{base}/v1/agent/{}", agent.slug),
        below: &below,
        shows_skill: &|id| upstream.shows(id) && agent.shows(id),
        allows: &|name| upstream.allows(name) && agent.allows(name),
    };
    published(card, &public)
}

fn read(reply: &OutsideReply) -> Result<Value, String> {
    let card = serde_json::from_slice(&reply.body).map_err(|_| "the agent's card is no JSON".to_owned())?;
    accepted(card).map_err(|rule| format!("the agent's card {rule}"))
}

/// Where the card may be: below the agent's address, unless that address is the place of a card itself.
fn places(url: &str) -> Vec<String> {
    if PLACES.iter().any(|place| url.ends_with(place)) {
        return vec![url.to_owned()];
    }
    PLACES.iter().map(|place| format!("{}{place}", url.trim_end_matches('/'))).collect()
}

fn call(url: String, target: &ProbeTarget, within: Duration) -> OutsideCall {
    let mut headers = vec![(header::ACCEPT, HeaderValue::from_static("application/json"))];
    headers.extend(target.headers.iter().cloned());
    let method = Method::GET;
    OutsideCall { method, url, headers, body: Vec::new().into(), within, most_reply: MOST_CARD, redirects: 0 }
}

#[cfg(test)]
mod tests {
    use super::places;

    #[test]
    fn cards_stand_below_the_address() {
        let both = ["https://a/x/.well-known/agent-card.json", "https://a/x/.well-known/agent.json"];
        assert_eq!(places("https://a/x/"), both);
        assert_eq!(places("https://a/x"), both);
        assert_eq!(places(both[1]), both[1..]);
    }
}
