//! What was used of budgets: filled by whoever counts, read and set back by admins.

use super::{Fut, StoreError};
use crate::id::{ClaimId, IntegrationId, KeyId, PolicyId, ProviderId, WorkspaceId};
use crate::record::Page;
use crate::resource::budget::Budget;
use crate::time::Timestamp;
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// Whose budget is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// One counter for each combination of the values it groups by.
    Policy(PolicyId),
    Key(KeyId),
    Workspace(WorkspaceId),
    Provider(ProviderId),
    /// For one workspace, or for all of them together.
    Integration(IntegrationId, Option<WorkspaceId>),
    /// Of tokens: stored nowhere but in them.
    Claim(ClaimId),
}

/// As it is written down: `policy:<id>`, `integration:<id>/<workspace>`.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(id) => write!(f, "policy:{id}"),
            Self::Key(id) => write!(f, "key:{id}"),
            Self::Workspace(id) => write!(f, "workspace:{id}"),
            Self::Provider(id) => write!(f, "provider:{id}"),
            Self::Integration(id, None) => write!(f, "integration:{id}"),
            Self::Integration(id, Some(workspace)) => write!(f, "integration:{id}/{workspace}"),
            Self::Claim(id) => write!(f, "claim:{id}"),
        }
    }
}

impl FromStr for Holder {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (kind, id) = text.split_once(':').ok_or(())?;
        let (id, workspace) = id.split_once('/').map_or((id, None), |(id, workspace)| (id, Some(workspace)));
        let id: Uuid = id.parse().map_err(|_| ())?;
        let workspace = workspace.map(str::parse).transpose().map_err(|_| ())?.map(WorkspaceId);
        Ok(match kind {
            "policy" => Self::Policy(PolicyId(id)),
            "key" => Self::Key(KeyId(id)),
            "workspace" => Self::Workspace(WorkspaceId(id)),
            "provider" => Self::Provider(ProviderId(id)),
            "integration" => Self::Integration(IntegrationId(id), workspace),
            "claim" => Self::Claim(ClaimId(id)),
            _ => return Err(()),
        })
    }
}

/// A counter of a budget, in its running period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    /// Stands in URLs.
    pub id: String,
    /// `metadata._user:alice`; several are joined by commas. Empty where nothing is grouped by.
    pub value_key: String,
    /// Nanodollars of a cost, else the number itself.
    pub used: u64,
    pub exhausted: bool,
    /// When an admin or the calendar last set it to nothing.
    pub last_reset_at: Option<Timestamp>,
}

/// Absent means any. Sorted by `value_key`.
#[derive(Clone, Debug)]
pub struct EntityQuery {
    pub holder: Holder,
    /// What counts as exhausted, as [`Entity::used`].
    pub limit: u64,
    pub exhausted: Option<bool>,
    /// A part of the value key.
    pub search: Option<String>,
    pub page: u64,
    pub page_size: u64,
}

/// Which counters of a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    All,
    Id(&'a str),
    ValueKey(&'a str),
}

/// What was used of budgets so far. Filled by whoever counts; read and set back by admins.
pub trait Standings: Send + Sync {
    fn entities<'a>(&'a self, query: &'a EntityQuery) -> Fut<'a, Result<Page<Entity>, StoreError>>;
    /// The one counter of each holder that groups by nothing; `None` where nothing was counted yet.
    fn totals<'a>(&'a self, holders: &'a [(Holder, &'a Budget)]) -> Fut<'a, Result<Vec<Option<Entity>>, StoreError>>;
    /// False when there is no such counter.
    fn reset<'a>(&'a self, holder: Holder, which: Which<'a>) -> Fut<'a, Result<bool, StoreError>>;
}
