//! Who holds the budgets and limits that are counted. Knows neither what these are nor who counts.

use crate::id::{ClaimId, IntegrationId, KeyId, PolicyId, ProviderId, WorkspaceId};
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// Who or what has a budget that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// One counter for each combination of the values it groups by.
    Policy(PolicyId),
    Key(KeyId),
    Workspace(WorkspaceId),
    Provider(ProviderId),
    /// The limits of one workspace, or those of all workspaces together (`None`).
    Integration(IntegrationId, Option<WorkspaceId>),
    /// The limits that tokens bring with them: they are stored nowhere but in the tokens.
    Claim(ClaimId),
}

/// Writes the form that is stored and that [`FromStr`] reads: `policy:<id>`, `integration:<id>/<workspace>`.
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
