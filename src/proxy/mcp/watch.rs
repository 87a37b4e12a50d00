//! What an open stream hears of changes that are made at the gateway: what is switched off, accepted or found there, on
//! whichever node, changes the lists of a server though the server itself says nothing. A stream whose caller may not
//! call any more ends.

use super::McpParts;
use super::target::McpServed;
use crate::clock;
use crate::proxy::exchange::standing_now;
use crate::proxy::request::{Request, Tenant};
use gateway_domain::snapshot::Key;
use gateway_domain::token::granted;
use gateway_mcp::RawObject;
use gateway_mcp::sse::McpEvent;
use std::sync::Arc;
use std::time::Duration;

/// How often a stream looks.
pub(super) const LOOK: Duration = Duration::from_millis(500);

/// What lists are called in the names of their notices, in the order of `McpServed::offers`.
const LISTS: [&str; 3] = ["tools", "prompts", "resources"];
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

pub(super) struct ListWatch<'a> {
    parts: McpParts<'a>,
    path: String,
    tenant: Arc<Tenant>,
    offers: [u64; 3],
    wanted: [bool; 3],
    /// The id of the request that the stream answers, as JSON; `None`: it answers none.
    subscription: Option<String>,
}

/// What a look finds.
pub(super) enum WatchedLists {
    Same,
    Changed(Vec<McpEvent>),
    /// The caller has no standing any more, or the server is none of theirs.
    Over,
}

impl<'a> ListWatch<'a> {
    pub(super) fn new(parts: McpParts<'a>, request: &Request, served: &McpServed) -> Self {
        Self {
            parts,
            path: request.ask.route.path.to_string(),
            tenant: request.caller.tenant.clone(),
            offers: served.offers(),
            wanted: [true; 3],
            subscription: None,
        }
    }

    /// The watch of a stream of the modern era, which says what it wants to hear of.
    pub(super) fn subscribed(mut self, id: &str, params: Option<&RawObject<'_>>) -> Self {
        let filter = params.and_then(|params| params.object("notifications"));
        let wants = |list: &str| {
            let told = filter.as_ref().and_then(|filter| filter.raw(&format!("{list}ListChanged")));
            told == Some("true")
        };
        self.wanted = LISTS.map(wants);
        self.subscription = Some(id.to_owned());
        self
    }

    /// The first message of a stream of the modern era: what it will tell of.
    pub(super) fn acknowledged(&self) -> McpEvent {
        let told: Vec<String> = LISTS
            .iter()
            .zip(self.wanted)
            .filter(|(_, wanted)| *wanted)
            .map(|(list, _)| format!(r#""{list}ListChanged":true"#))
            .collect();
        let told = format!(r#","notifications":{{{}}}"#, told.join(","));
        self.notice("subscriptions/acknowledged", &told)
    }

    pub(super) fn look(&mut self) -> WatchedLists {
        let live = &self.parts.calls.live;
        let before = self.tenant.clone();
        let Ok(now) = standing_now(live, &before, clock::now()) else { return WatchedLists::Over };
        if Arc::ptr_eq(&now, &before) {
            return WatchedLists::Same;
        }
        let Some(now) = as_granted(now) else { return WatchedLists::Over };
        let Ok(served) = McpServed::of(&now, &self.path) else { return WatchedLists::Over };
        self.tenant = now;
        let offers = served.offers();
        let changed: Vec<McpEvent> = (0..LISTS.len())
            .filter(|at| offers[*at] != self.offers[*at] && self.wanted[*at])
            .map(|at| self.notice(&format!("{}/list_changed", LISTS[at]), ""))
            .collect();
        self.offers = offers;
        if changed.is_empty() { WatchedLists::Same } else { WatchedLists::Changed(changed) }
    }

    fn notice(&self, method: &str, more: &str) -> McpEvent {
        let params = match &self.subscription {
            Some(id) => format!(r#","params":{{"_meta":{{"{SUBSCRIPTION}":{id}}}{more}}}"#),
            None => String::new(),
        };
        let data = format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}"{params}}}"#);
        McpEvent { event: "message".to_owned(), data, ..McpEvent::default() }
    }
}

/// What a caller may do now who was let in for a client by a person's grant. `None`: the grant has been taken back.
fn as_granted(tenant: Arc<Tenant>) -> Option<Arc<Tenant>> {
    let Some(token) = tenant.key.token.as_ref() else { return Some(tenant) };
    let Some(id) = token.grant else { return Some(tenant) };
    let snapshot = &tenant.world.snapshot;
    let key = granted(snapshot, snapshot.grant(id)?, token.mcp)?;
    let key = Arc::new(Key { expires_at: tenant.key.expires_at, token: tenant.key.token.clone(), ..key });
    let (world, org, workspace) = (tenant.world.clone(), tenant.org.clone(), tenant.workspace.clone());
    Some(Arc::new(Tenant { world, key, org, workspace, guardrails: None, supposed: false, line: None }))
}
