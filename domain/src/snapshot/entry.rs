//! What the snapshot holds of stored rows: what the hot path needs of each and nothing more. A kind of row is one file
//! below; [`ENTRIES`] is all of them.

mod agent;
mod alert;
mod config;
mod deployment;
mod directory;
mod guardrail;
mod integration;
mod key;
mod mcp;
mod member;
mod oauth_client;
mod organisation;
mod outbound;
mod partner;
mod policy;
mod prompt;
mod provider;
mod secret_reference;
mod shared_shelf;
mod sign_in;
mod sign_on;
mod usage_policy;
mod user;
mod workspace;

pub(super) use agent::read as agent_upstream;
pub use agent::{AgentEndpoint, AgentUpstream, ManagedAgent};
pub use alert::SavedAlert;
pub use config::ConfigEntry;
pub use deployment::SavedDeployment;
pub use directory::{OrgDirectory, SavedGroup, SavedMapping};
pub use guardrail::SavedGuardrail;
pub use integration::Upstream;
pub(super) use integration::read as upstream;
pub use key::{Key, KeyEntryDefaults, Rotation, UseMark};
pub(super) use mcp::read as mcp_upstream;
pub use mcp::{ManagedMcpServer, McpBehind, McpUpstream};
pub use oauth_client::SavedOauthClient;
pub use organisation::Org;
pub use outbound::OutboundUpstream;
pub use partner::PartnerCredentials;
pub use policy::Policy;
pub use prompt::{PromptShelf, SavedCollection, SavedLabel, SavedPartial, SavedPrompt};
pub use provider::ManagedProvider;
pub use secret_reference::SavedSecretReference;
pub use shared_shelf::SharedShelf;
pub use sign_in::{SavedGrant, SavedSigningKey};
pub use sign_on::SavedSignOn;
pub use usage_policy::UsagePolicy;
pub use user::Person;
pub use workspace::WorkspaceEntry;

use super::{Build, Draft};
use crate::resource::limits::ResourceLimits;
use crate::resource::{Kind, Stored};
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use uuid::Uuid;

/// What becomes of a row of one kind.
trait SnapshotEntry {
    const KIND: Kind;
    /// Takes in a row that lives, and takes out what a deleted one was.
    fn put(draft: &mut Draft, row: &Stored, build: &Build<'_>) -> Result<(), String>;
}

type Put = fn(&mut Draft, &Stored, &Build<'_>) -> Result<(), String>;

const fn entry<E: SnapshotEntry>() -> (Kind, Put) {
    (E::KIND, E::put)
}

/// Every kind that requests go by. Invites are read by the Admin API alone.
static ENTRIES: &[(Kind, Put)] = &[
    entry::<Org>(),
    entry::<WorkspaceEntry>(),
    entry::<Person>(),
    entry::<member::Membership>(),
    entry::<Key>(),
    entry::<SavedGuardrail>(),
    entry::<PartnerCredentials>(),
    entry::<SavedSecretReference>(),
    entry::<Upstream>(),
    entry::<ConfigEntry>(),
    entry::<ManagedProvider>(),
    entry::<McpUpstream>(),
    entry::<ManagedMcpServer>(),
    entry::<AgentUpstream>(),
    entry::<ManagedAgent>(),
    entry::<Policy>(),
    entry::<UsagePolicy>(),
    entry::<SavedLabel>(),
    entry::<SavedCollection>(),
    entry::<SavedPartial>(),
    entry::<SavedPrompt>(),
    entry::<SavedAlert>(),
    entry::<SavedGroup>(),
    entry::<SavedMapping>(),
    entry::<SavedSignOn>(),
    entry::<SavedDeployment>(),
    entry::<SavedOauthClient>(),
    entry::<SavedGrant>(),
    entry::<SavedSigningKey>(),
];

pub(super) fn put(draft: &mut Draft, kind: Kind, row: &Stored, build: &Build<'_>) -> Result<(), String> {
    let found = ENTRIES.iter().find(|(of, _)| *of == kind);
    found.map_or(Ok(()), |(_, put)| put(draft, row, build))
}

fn doc<T: DeserializeOwned>(row: &Stored) -> Result<T, String> {
    let mut json = serde_json::Deserializer::from_str(&row.doc);
    serde_path_to_error::deserialize(&mut json).map_err(|e| format!("cannot be read: {e}"))
}

fn shared(limits: ResourceLimits) -> Option<Arc<ResourceLimits>> {
    (!limits.is_empty()).then(|| Arc::new(limits))
}

const fn lives(row: &Stored) -> bool {
    row.deleted_at.is_none()
}

/// FNV-1a: a number that stands for these bytes within one process.
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// Keeps what a row is now in a map of all of its kind.
fn keep<I: Copy + Eq + Hash, T>(
    all: &mut Arc<HashMap<I, Arc<T>>>,
    id: I,
    row: &Stored,
    read: impl FnOnce() -> Result<T, String>,
) -> Result<(), String> {
    if lives(row) {
        let made = Arc::new(read()?);
        Arc::make_mut(all).insert(id, made);
    } else {
        Arc::make_mut(all).remove(&id);
    }
    Ok(())
}

/// Entries of a workspace or an organisation that are addressed by slug and by id alike.
#[derive(Debug)]
struct Slugged<T> {
    by_id: Arc<HashMap<Uuid, Arc<T>>>,
    by_name: Arc<HashMap<Arc<str>, Arc<T>, ahash::RandomState>>,
}

impl<T> Clone for Slugged<T> {
    fn clone(&self) -> Self {
        Self { by_id: self.by_id.clone(), by_name: self.by_name.clone() }
    }
}

impl<T> Default for Slugged<T> {
    fn default() -> Self {
        Self { by_id: Arc::default(), by_name: Arc::default() }
    }
}

trait Addressed {
    fn slug(&self) -> &Arc<str>;
}

impl<T: Addressed> Slugged<T> {
    fn put(&mut self, id: Uuid, made: Option<Arc<T>>) {
        let by_id = Arc::make_mut(&mut self.by_id);
        let by_name = Arc::make_mut(&mut self.by_name);
        let old = match &made {
            Some(made) => by_id.insert(id, made.clone()),
            None => by_id.remove(&id),
        };
        if let Some(old) = old {
            // Its name may by now belong to another.
            for name in [old.slug().to_string(), id.to_string()] {
                if by_name.get(name.as_str()).is_some_and(|e| Arc::ptr_eq(e, &old)) {
                    by_name.remove(name.as_str());
                }
            }
        }
        if let Some(made) = made {
            by_name.insert(made.slug().clone(), made.clone());
            by_name.insert(id.to_string().into(), made);
        }
    }
}
