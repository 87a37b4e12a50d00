//! Ids of tasks and contexts as callers know them. Where one credential stands for all callers an agent cannot tell
//! them apart, so an id says whose it is: the same id is sealed to the same text, on every node, and opens for nobody
//! else. Ids that clients make themselves (of contexts, and of tasks before 0.3) go up in a form of this caller's own.

use super::target::AgentServed;
use gateway_domain::ports::IdSeal;
use gateway_mcp::a2a::ids::{A2aId, each};
use gateway_mcp::a2a::method::UNNAMED;

/// The agent's own id, or the client's own.
const THEIRS: u8 = 1;
const MADE: u8 = 2;
/// Longer ids are nobody's.
const LONGEST: usize = 1024;

pub(super) struct AgentIds<'a> {
    pub(super) seal: &'a dyn IdSeal,
    pub(super) served: &'a AgentServed,
    /// Ids of tasks that clients make are taken.
    pub(super) takes_made: bool,
}

impl<'a> AgentIds<'a> {
    /// `None`: the agent knows its callers, and ids pass as they are.
    pub(super) fn of(seal: &'a dyn IdSeal, served: &'a AgentServed, version: &str) -> Option<Self> {
        served.shares_credential().then_some(Self { seal, served, takes_made: version == UNNAMED })
    }

    fn owner(&self, kind: u8) -> Vec<u8> {
        let mut plain = b"a2a".to_vec();
        plain.push(kind);
        plain.extend(self.served.agent.id.0.as_bytes());
        plain.extend(self.served.principal.as_bytes());
        plain.push(0);
        plain
    }

    fn sealed(&self, kind: u8, id: &str) -> String {
        let mut plain = self.owner(kind);
        plain.extend(id.as_bytes());
        self.seal.seal(&plain)
    }

    fn opened(&self, kind: u8, id: &str) -> Option<String> {
        let plain = self.seal.open(id)?;
        plain.strip_prefix(self.owner(kind).as_slice()).and_then(|id| String::from_utf8(id.to_vec()).ok())
    }

    /// What the agent hears; `None`: this caller has no such thing.
    pub(super) fn up(&self, kind: A2aId, id: &str) -> Option<String> {
        if id.len() > LONGEST {
            return None;
        }
        if let Some(own) = self.opened(THEIRS, id) {
            return Some(own);
        }
        let is_foreign = self.seal.open(id).is_some();
        let may_be_made = kind == A2aId::Context || self.takes_made;
        (may_be_made && !is_foreign).then(|| self.sealed(MADE, id))
    }

    /// What the caller hears.
    pub(super) fn down(&self, id: &str) -> String {
        self.opened(MADE, id).unwrap_or_else(|| self.sealed(THEIRS, id))
    }

    /// Parameters as the agent hears them. `own`: their `id` is a task's.
    pub(super) fn params(&self, params: &str, own: bool) -> Option<String> {
        each(params, own, &mut |kind, id| self.up(kind, id))
    }

    pub(super) fn result(&self, result: &str) -> String {
        each(result, false, &mut |_, id| Some(self.down(id))).unwrap_or_default()
    }
}
