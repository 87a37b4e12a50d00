//! MCP servers that said that their lists are others now: each is asked again soon by one node of all, whichever node
//! heard it, and however often it says so. Here they are only noted; see [`crate::mcp_sync`].

use gateway_domain::id::{McpIntegrationId, OrgId};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Servers of one look; others say so again, or are asked when their time comes.
const MOST: usize = 4_096;

/// Which servers this node heard say so. One value for a process.
#[derive(Debug, Default)]
pub struct WantedSyncs(Mutex<BTreeMap<Uuid, OrgId>>);

impl WantedSyncs {
    pub fn want(&self, org: OrgId, integration: McpIntegrationId) {
        let mut wanted = self.0.lock();
        if wanted.len() < MOST || wanted.contains_key(&integration.0) {
            wanted.insert(integration.0, org);
        }
    }

    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn take(&self) -> BTreeMap<Uuid, OrgId> {
        std::mem::take(&mut *self.0.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_heard_is_bounded_and_looked_at_once() {
        let (wanted, org) = (WantedSyncs::default(), OrgId(Uuid::nil()));
        for n in 0..MOST as u128 + 10 {
            wanted.want(org, McpIntegrationId(Uuid::from_u128(n)));
            wanted.want(org, McpIntegrationId(Uuid::from_u128(0)));
        }
        assert_eq!(wanted.len(), MOST);
        assert_eq!(wanted.take().len(), MOST);
        assert!(wanted.is_empty());
    }
}
