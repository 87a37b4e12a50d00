//! Where a request for an agent goes: to its card, to an endpoint that takes JSON-RPC, or to a path below one that
//! takes HTTP with JSON. Which endpoint it is, the agent's card and the version decide; where none fits, the registered
//! address.

use super::target::AgentServed;
use gateway_domain::path::decoded;
use gateway_domain::resource::agent::AgentBinding;
use gateway_domain::snapshot::AgentEndpoint;
use gateway_mcp::a2a::card::PLACES;
use gateway_mcp::a2a::method::{A2aMethod, UNNAMED, rest};
use http::{HeaderMap, Method};

/// The version that a request is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AgentVersion {
    pub(super) name: String,
    /// The request names its version itself. If it does not, none is named to the agent either.
    pub(super) is_named: bool,
}

/// The version that the header names, or else the query; a request that names none is of the oldest.
pub(super) fn version_of(headers: &HeaderMap, query: Option<&str>) -> AgentVersion {
    let of_header = headers.get("a2a-version").map(|v| String::from_utf8_lossy(v.as_bytes()).trim().to_owned());
    let of_query = || {
        let mut pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| name.eq_ignore_ascii_case("a2a-version")).map(|(_, value)| decoded(value).into_owned())
    };
    let named = of_header.or_else(of_query).filter(|name| !name.is_empty());
    let is_named = named.is_some();
    AgentVersion { name: named.map_or_else(|| UNNAMED.to_owned(), |name| name.chars().take(20).collect()), is_named }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AgentRoute {
    Card,
    /// `target`: the path that is called.
    JsonRpc {
        target: String,
    },
    Rest(RestRoute),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RestRoute {
    /// The path that calls stand below.
    pub(super) base: String,
    pub(super) verb: Method,
    pub(super) method: A2aMethod,
    /// The ids of a task and of its push configuration, decoded from the path.
    pub(super) task: Option<String>,
    pub(super) config: Option<String>,
}

impl AgentRoute {
    pub(super) fn of(method: &Method, served: &AgentServed, version: &AgentVersion) -> Option<Self> {
        let tail = served.tail.as_str();
        if PLACES.contains(&tail) {
            return matches!(*method, Method::GET | Method::HEAD).then_some(Self::Card);
        }
        let upstream = &served.upstream;
        let of = |binding| {
            let fits = move |one: &&AgentEndpoint| one.binding == binding;
            let mut all: Vec<&AgentEndpoint> = upstream.endpoints.iter().filter(fits).collect();
            // Those of the version that is meant first.
            all.sort_by_key(|one| one.version != version.name);
            all
        };
        if *method == Method::POST {
            let endpoints = of(AgentBinding::JsonRpc);
            let found = endpoints.iter().find(|one| one.below == tail);
            let found = found.or_else(|| endpoints.first().filter(|_| tail.is_empty()));
            if found.is_some() || tail.is_empty() {
                let target = found.map_or_else(|| upstream.target.clone(), |one| one.target.clone());
                return Some(Self::JsonRpc { target });
            }
        }
        let endpoints = of(AgentBinding::HttpJson);
        let below = |one: &&&AgentEndpoint| tail.strip_prefix(&one.below).is_some_and(|rest| rest.starts_with('/'));
        // The longest way that fits: one endpoint may stand below another.
        let found = endpoints.iter().filter(below).max_by_key(|one| (one.below.len(), one.version == version.name));
        let found = found.or(endpoints.first());
        let (base, path) = match found {
            Some(one) => (one.target.clone(), tail.strip_prefix(&one.below).unwrap_or(tail)),
            None => (upstream.target.clone(), tail),
        };
        let call = rest(method.as_str(), path, &version.name)?;
        let text = |part: Option<&str>| part.map(|part| decoded(part).into_owned());
        let (task, config) = (text(call.task), text(call.config));
        // Steps of a path, and names of nothing.
        if [&task, &config].into_iter().flatten().any(|part| matches!(part.as_str(), "." | "..")) {
            return None;
        }
        Some(Self::Rest(RestRoute { base, verb: method.clone(), method: call.method, task, config }))
    }
}

impl RestRoute {
    /// The path that is called. `task`: as the agent knows it.
    pub(super) fn target(&self, version: &str, task: Option<&str>) -> String {
        let base = format!("{}{}", self.base.trim_end_matches('/'), if version == UNNAMED { "/v1" } else { "" });
        let task = task.map(encoded).unwrap_or_default();
        let config = self.config.as_deref().map(|config| format!("/{}", encoded(config))).unwrap_or_default();
        match self.method {
            A2aMethod::SendMessage | A2aMethod::OlderSend => format!("{base}/message:send"),
            A2aMethod::SendStreamingMessage => format!("{base}/message:stream"),
            A2aMethod::GetTask => format!("{base}/tasks/{task}"),
            A2aMethod::ListTasks => format!("{base}/tasks"),
            A2aMethod::CancelTask => format!("{base}/tasks/{task}:cancel"),
            A2aMethod::SubscribeToTask => format!("{base}/tasks/{task}:subscribe"),
            A2aMethod::CreatePush | A2aMethod::GetPush | A2aMethod::ListPush | A2aMethod::DeletePush => {
                format!("{base}/tasks/{task}/pushNotificationConfigs{config}")
            }
            A2aMethod::GetExtendedCard if version == UNNAMED => format!("{base}/card"),
            A2aMethod::GetExtendedCard => format!("{base}/extendedAgentCard"),
        }
    }

    /// What of a query goes up. Where callers share a credential nothing in it may name a task of somebody's.
    pub(super) fn query(&self, query: &str, is_shared: bool) -> String {
        const OPEN: &[&str] = &["historyLength", "pageSize", "pageToken"];
        let name = |pair: &str| decoded(pair.split('=').next().unwrap_or_default()).into_owned();
        let goes_up = |pair: &&str| {
            let name = name(pair);
            !pair.is_empty()
                && !name.eq_ignore_ascii_case("a2a-version")
                && (!is_shared || OPEN.contains(&name.as_str()))
        };
        query.split('&').filter(goes_up).collect::<Vec<_>>().join("&")
    }
}

/// A segment of a path, which is neither `.` nor `..`: nothing in it leads elsewhere.
fn encoded(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'~' | b'.');
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_version_is_named_by_header_or_query_or_not_at_all() {
        let of = |header: Option<&'static str>, query: Option<&str>| {
            let mut headers = HeaderMap::new();
            header.map(|value| headers.insert("a2a-version", HeaderValue::from_static(value)));
            let found = version_of(&headers, query);
            (found.name, found.is_named)
        };
        assert_eq!(of(None, None), ("0.3".to_owned(), false));
        assert_eq!(of(Some(""), None), ("0.3".to_owned(), false));
        assert_eq!(of(Some(" 1.0 "), Some("A2A-Version=0.3")), ("1.0".to_owned(), true));
        assert_eq!(of(None, Some("x=1&A2A-Version=1%2E0")), ("1.0".to_owned(), true));
    }

    #[test]
    fn a_segment_leads_nowhere_else() {
        for (text, segment) in [("a b", "a%20b"), ("a/b", "a%2Fb"), ("a?b#c:d", "a%3Fb%23c%3Ad"), ("a.b", "a.b")] {
            assert_eq!(encoded(text), segment);
        }
    }
}
