//! The link under which somebody connects an account: sealed, for one person and one server, and good for an hour.
//! Whoever else opens it connects nothing.

use crate::app::App;
use crate::seal;
use gateway_domain::id::{McpIntegrationId, OrgId, UserId, WorkspaceId};
use gateway_domain::time::Timestamp;
use serde::{Deserialize, Serialize};

const PURPOSE: &str = "mcp connect";
const LASTS_MICROS: i64 = 3_600 * 1_000_000;
/// Longer scopes are left to what the server asks for by itself, as one that it does not name: the link must fit into
/// the way through a sign-in elsewhere.
const LONGEST_SCOPE: usize = 80;

/// Names are short: it stands in an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConnectLink {
    #[serde(rename = "o")]
    pub(crate) org: OrgId,
    #[serde(rename = "w")]
    pub(crate) workspace: WorkspaceId,
    #[serde(rename = "u")]
    pub(crate) user: UserId,
    #[serde(rename = "i")]
    pub(crate) integration: McpIntegrationId,
    /// What a call lacked; empty: the server did not say.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub(crate) scope: Option<String>,
    #[serde(rename = "t")]
    until: Timestamp,
}

impl ConnectLink {
    pub(crate) fn open(app: &App, text: &str) -> Option<Self> {
        let link: Self = seal::open(app, PURPOSE, text)?;
        (link.until > app.now()).then_some(link)
    }
}

/// The person whose account is to be connected, and the integration that it is for.
#[derive(Clone, Copy, Debug)]
pub struct ConnectFor {
    pub org: OrgId,
    pub workspace: WorkspaceId,
    pub user: UserId,
    pub integration: McpIntegrationId,
}

/// The address that a person opens to connect an account. `scope` is that of the link that it holds sealed. `None`:
/// nobody can be sent anywhere, since nobody said where browsers reach this installation.
pub fn connect_url(app: &App, whose: ConnectFor, scope: Option<&str>) -> Option<String> {
    let public = app.public_url.as_deref()?;
    let ConnectFor { org, workspace, user, integration } = whose;
    let scope = scope.map(|scope| if scope.len() <= LONGEST_SCOPE { scope.to_owned() } else { String::new() });
    let link = ConnectLink { org, workspace, user, integration, scope, until: app.now().plus_micros(LASTS_MICROS) };
    Some(format!("{public}/oauth/connect/{}", seal::seal(app, PURPOSE, &link)?))
}
