//! Who signs in, by a key of theirs that was typed or by the session that their organisation's provider began, and in
//! which workspaces they may use the server that is asked for. Looked at anew at each step: a key may end between two.

use super::authorize_request::AuthorizeAsk;
use super::fault::OauthFault;
use super::form::OauthForm;
use super::request_context::OauthVisit;
use super::ticket::SignedBy;
use crate::cookies;
use crate::resource::ResourceRow;
use gateway_domain::denied_caller::{Stranger, TurnedAway, Unwelcome};
use gateway_domain::id::UserId;
use gateway_domain::keys::KeyHash;
use gateway_domain::resource::Kind;
use gateway_domain::resource::api_key::{ApiKey, KeyKind};
use gateway_domain::scope::Scope;
use gateway_domain::snapshot::{Key, Person, Snapshot, WorkspaceEntry};
use gateway_domain::time::Timestamp;
use http::StatusCode;
use std::sync::Arc;

/// Characters of a key that is typed.
const LONGEST_KEY: usize = 512;

pub(super) struct Signer {
    pub(super) key: Arc<Key>,
    pub(super) person: Arc<Person>,
    pub(super) by_session: bool,
}

/// The signer that the key typed into a page stands for. A key that is unknown or not in force is counted and told of;
/// `path`: where it was typed.
pub(super) fn of_typed(visit: &OauthVisit, form: &OauthForm, path: String) -> Result<SignedBy, OauthFault> {
    const UNKNOWN: &str = "this is no key of a person that is in force";
    let (app, now, client) = (visit.app(), visit.visit.now, visit.visit.client);
    let typed = form.at_most("key", LONGEST_KEY)?.unwrap_or_default();
    let snapshot = app.live.snapshot();
    if let Some(key) = snapshot.key(&KeyHash::of(typed.trim())).filter(|key| is_in_force(key, now)) {
        return Ok(SignedBy { key: key.id, by_session: false });
    }
    visit.desk.paces.failed_sign_in.count(client, now);
    app.door.note(TurnedAway {
        stranger: Stranger::unknown(Unwelcome::UnknownKey),
        at: now,
        status: StatusCode::FORBIDDEN.as_u16(),
        message: UNKNOWN.to_owned(),
        method: visit.visit.method.to_string(),
        path,
        client,
    });
    Err(OauthFault::forbidden(format!("{UNKNOWN}: go back and try again")))
}

/// Whom the browser's session stands for. A page of another site may have led here, which is how clients begin; nothing
/// happens before somebody presses a button of ours. A key that is no session is nobody's session, whoever sends it as
/// one.
pub(super) async fn of_session(visit: &OauthVisit) -> Result<Option<SignedBy>, OauthFault> {
    let Some(text) = cookies::session_secret(&visit.visit.headers) else { return Ok(None) };
    let snapshot = visit.app().live.snapshot();
    let found = snapshot.key(&KeyHash::of(text)).filter(|key| is_in_force(key, visit.visit.now));
    let Some(key) = found else { return Ok(None) };
    let stored = visit.app().directory.get(Kind::ApiKey, key.org, None, &key.id.to_string()).await?;
    let row = stored.as_ref().map(ResourceRow::<ApiKey>::read).transpose()?;
    let is_session = row.is_some_and(|row| row.doc.is_session());
    Ok(is_session.then_some(SignedBy { key: key.id, by_session: true }))
}

fn is_in_force(key: &Key, now: Timestamp) -> bool {
    key.kind == KeyKind::WorkspaceUser
        && key.owner.is_some()
        && key.active
        && key.expires_at.is_none_or(|until| until > now)
}

/// The key and the person behind a sign-in as they stand now; `None`: one of them is no longer in force.
pub(super) fn standing(snapshot: &Snapshot, signed_by: SignedBy, now: Timestamp) -> Option<Signer> {
    let key = snapshot.key_by_id(signed_by.key).filter(|key| is_in_force(key, now))?;
    let person = snapshot.person(UserId(key.owner?)).filter(|person| person.active && person.org == key.org)?;
    Some(Signer { key: key.clone(), person: person.clone(), by_session: signed_by.by_session })
}

impl Signer {
    /// Workspaces where they may use the server that is asked for, the first made first. A client that an admin made is
    /// let in by people of that organisation alone, and while it is there.
    pub(super) fn places(&self, snapshot: &Snapshot, ask: &AuthorizeAsk) -> Vec<Arc<WorkspaceEntry>> {
        let is_made = |id: &str| id.parse().is_ok_and(|id| snapshot.oauth_client(id).is_some());
        if ask.client_org.is_some_and(|org| org != self.key.org || !is_made(&ask.client_id)) {
            return Vec::new();
        }
        let ours = |w: &&Arc<WorkspaceEntry>| w.org == self.key.org && w.active && self.opens(snapshot, w, &ask.server);
        let mut all: Vec<Arc<WorkspaceEntry>> = snapshot.workspaces().filter(ours).cloned().collect();
        all.sort_by_key(|w| w.id);
        all
    }

    fn opens(&self, snapshot: &Snapshot, workspace: &WorkspaceEntry, server: &str) -> bool {
        let Some((role, seat)) = snapshot.standing(self.person.id, workspace) else { return false };
        let by_key = self.key.workspace == Some(workspace.id)
            && self.key.scopes.has(Scope::MCP_INVOKE)
            && self.key.mcp_access.as_ref().is_none_or(|reach| reach.opens(server));
        let found = workspace.mcp_server(server).filter(|found| found.active && *found.slug == *server);
        snapshot.security(workspace).bound(role, seat).has(Scope::MCP_INVOKE)
            && (self.by_session || by_key)
            && found.is_some_and(|found| {
                found.admits(Some(self.person.id)) && snapshot.server_issuer(workspace, found).is_none()
            })
    }
}
