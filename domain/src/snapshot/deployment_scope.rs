//! Whom this node serves: everybody, or where it is one of a deployment, the workspaces that each organisation's
//! deployment of that name allows. An organisation without one is served elsewhere.

use super::{Org, SavedDeployment, Snapshot};
use crate::id::WorkspaceId;
use std::sync::Arc;

impl Snapshot {
    /// An empty one, of a node of this deployment.
    #[must_use]
    pub fn of_deployment(slug: Option<&str>) -> Self {
        Self { deployment: slug.map(Into::into), ..Self::default() }
    }

    /// The deployment of an organisation that this node is one of.
    pub fn deployment<'s>(&self, org: &'s Org) -> Option<&'s Arc<SavedDeployment>> {
        org.deployment(self.deployment.as_deref()?)
    }

    pub fn serves(&self, org: &Org, workspace: WorkspaceId) -> bool {
        match &self.deployment {
            None => true,
            Some(_) => self.deployment(org).is_some_and(|deployment| deployment.serves(workspace)),
        }
    }

    /// Whom a token means that names no workspace.
    pub fn usual_workspace(&self, org: &Org) -> WorkspaceId {
        self.deployment(org).and_then(|deployment| deployment.first()).unwrap_or(org.default_workspace)
    }
}
