//! Clients whose name is an address (Client ID Metadata Documents): what stands there says who they are, and the host
//! vouches for it. Fetched by the checked dialler, once for all who ask, and kept for some minutes; failures too, so
//! that nobody can have an address asked over and over.

use super::fault::OauthFault;
use super::known_client::{KnownClient, LONGEST_ID, MOST_REDIRECTS, plain_name};
use super::redirect;
use crate::app::App;
use crate::sso::check_address;
use bytes::Bytes;
use gateway_domain::ports::OutsideCall;
use gateway_domain::time::Timestamp;
use http::{HeaderValue, Method, header};
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use url::Url;

const WITHIN: Duration = Duration::from_secs(5);
const MOST_REPLY: usize = 64 * 1024;
const MOST_KNOWN: usize = 512;
const FRESH_MICROS: i64 = 600 * 1_000_000;
const FAILED_MICROS: i64 = 60 * 1_000_000;

type FetchedClient = Result<KnownClient, String>;
type ClientSlot = Arc<futures_util::lock::Mutex<Option<(Timestamp, FetchedClient)>>>;

#[derive(Debug, Default)]
pub(super) struct VouchedClients(Mutex<HashMap<String, ClientSlot>>);

#[derive(Deserialize)]
struct ClientDocument {
    client_id: String,
    #[serde(default)]
    client_name: String,
    redirect_uris: Vec<String>,
    #[serde(default)]
    token_endpoint_auth_method: Option<String>,
}

impl VouchedClients {
    fn kept(&self) -> usize {
        self.0.lock().len()
    }

    /// `may_fetch` is asked where nothing is known that is fresh enough.
    pub(super) async fn find(
        &self,
        app: &App,
        id: &str,
        now: Timestamp,
        may_fetch: impl FnOnce() -> Result<(), OauthFault>,
    ) -> Result<KnownClient, OauthFault> {
        let refused = |why: &str| OauthFault::bad("invalid_client", format!("client_id {why}"));
        let host = host(app, id).map_err(refused)?;
        let slot = self.slot(id);
        app.client_documents.store(self.kept() as u64, Ordering::Relaxed);
        let mut kept = slot.lock().await;
        let lasts = |told: &FetchedClient| if told.is_ok() { FRESH_MICROS } else { FAILED_MICROS };
        let is_fresh = |(at, told): &&(Timestamp, FetchedClient)| {
            (0..lasts(told)).contains(&now.micros().saturating_sub(at.micros()))
        };
        let told = match kept.as_ref().filter(is_fresh) {
            Some((_, told)) => told.clone(),
            None => {
                may_fetch()?;
                let told = fetch(app, id, &host).await;
                *kept = Some((now, told.clone()));
                told
            }
        };
        told.map_err(|why| refused(&why))
    }

    fn slot(&self, id: &str) -> ClientSlot {
        let mut all = self.0.lock();
        if all.len() >= MOST_KNOWN && !all.contains_key(id) {
            all.clear();
        }
        all.entry(id.to_owned()).or_default().clone()
    }
}

/// The host of an address that may name a client: its document lies at a path, and nothing in it is written in two
/// ways.
fn host(app: &App, id: &str) -> Result<String, &'static str> {
    let url = Url::parse(id).map_err(|_| "must be an https URL")?;
    let bare = id.split('?').next().unwrap_or(id);
    check_address(bare, &app.trusted)?;
    let is_plain =
        url.as_str() == id && url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    if id.len() > LONGEST_ID || url.path() == "/" || !is_plain {
        return Err("must be an https URL with a path, written plainly, without user or fragment");
    }
    url.host_str().map(str::to_owned).ok_or("must be an https URL")
}

async fn fetch(app: &App, id: &str, host: &str) -> FetchedClient {
    let call = OutsideCall {
        method: Method::GET,
        url: id.to_owned(),
        headers: vec![(header::ACCEPT, HeaderValue::from_static("application/json"))],
        body: Bytes::new(),
        within: WITHIN,
        most_reply: MOST_REPLY,
        redirects: 0,
    };
    let Some(outside) = app.outside.as_ref() else { return Err("cannot be looked up on this node".to_owned()) };
    // What the network said is for the operator: a stranger must not learn from it what stands where.
    let reply = outside.call(call).await.map_err(|why| {
        tracing::info!(%why, "the document of a client cannot be fetched");
        "names a document that cannot be fetched".to_owned()
    })?;
    if reply.status != 200 {
        return Err("names a document that cannot be fetched".to_owned());
    }
    let read: Result<ClientDocument, _> = serde_json::from_slice(&reply.body);
    let read = read.map_err(|_| "names a document that is no client's".to_owned())?;
    if read.client_id != id {
        return Err("names a document of another client".to_owned());
    }
    if read.token_endpoint_auth_method.is_some_and(|method| method != "none") {
        return Err("names a client that proves itself in a way that is not served: only `none` is".to_owned());
    }
    let redirects = read.redirect_uris;
    if redirects.is_empty()
        || redirects.len() > MOST_REDIRECTS
        || redirects.iter().any(|uri| redirect::check_redirect(uri).is_err())
    {
        return Err("names a document whose redirect_uris cannot be used".to_owned());
    }
    let name = plain_name(&read.client_name);
    let name = if name.is_empty() { host.to_owned() } else { name };
    Ok(KnownClient { name, redirect_uris: redirects, vouched_by: Some(host.to_owned()), made_in: None, scope: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_that_are_remembered_are_bounded() {
        let clients = VouchedClients::default();
        let first = clients.slot("0");
        for n in 0..MOST_KNOWN {
            clients.slot(&n.to_string());
        }
        assert!(clients.kept() == MOST_KNOWN && Arc::ptr_eq(&clients.slot("0"), &first));
        clients.slot("one more");
        assert_eq!(clients.kept(), 1, "all of them make room, and are looked up again");
    }
}
