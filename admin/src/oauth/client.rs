//! Clients by their names: those that registered by themselves, those that an admin made, and those whose name is the
//! address of a document about them.

use super::client_proof;
use super::fault::OauthFault;
use super::known_client::{KnownClient, LONGEST_ID};
use super::request_context::OauthVisit;
use gateway_domain::ports::OauthClient;

pub(super) fn is_address(id: &str) -> bool {
    id.starts_with("https://") || id.starts_with("http://")
}

/// `None`: there is no such client.
pub(super) async fn find(visit: &OauthVisit, id: &str) -> Result<Option<KnownClient>, OauthFault> {
    if id.len() > LONGEST_ID {
        return Ok(None);
    }
    if is_address(id) {
        let (from, now) = (visit.visit.client, visit.visit.now);
        let may_fetch = || visit.desk.paces.fetch.pass(from, now);
        return visit.desk.vouched.find(visit.app(), id, now, may_fetch).await.map(Some);
    }
    if let Some(made) = client_proof::made(visit, id) {
        return Ok(Some(KnownClient {
            name: made.name.to_string(),
            redirect_uris: made.redirect_uris.clone(),
            vouched_by: Some("an admin of your organisation".to_owned()),
            made_in: Some(made.org),
            scope: made.scope.as_deref().map(str::to_owned),
        }));
    }
    let store = visit.app().oauth.as_ref().ok_or_else(OauthFault::off)?;
    let Some(OauthClient { metadata, .. }) = store.client(id).await? else { return Ok(None) };
    serde_json::from_str(&metadata).map(Some).map_err(|_| OauthFault::internal())
}
