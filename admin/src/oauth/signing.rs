//! The keys that sign access tokens: made once for the whole installation, sealed where all nodes find them, and
//! replaced when an operator says so. A new one signs only when every node must have heard of it; the one before still
//! counts until tokens that it signed are over.

use super::fault::OauthFault;
use crate::app::App;
use crate::change::{Action, ChangeOrigin, WriteView, commit};
use crate::problem::{Problem, internal};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use gateway_domain::id::OrgId;
use gateway_domain::ports::{Batch, Vault};
use gateway_domain::resource::signing_key::SigningKey;
use gateway_domain::resource::{Kind, Stored};
use gateway_domain::snapshot::{SavedSigningKey, Snapshot};
use gateway_domain::time::Timestamp;
use jsonwebtoken::EncodingKey;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Within this time every node has heard of a change, or it serves nobody.
const HEARD_MICROS: i64 = 10 * 1_000_000;
/// Longer than any token lives that a key has signed.
pub(super) const OVER_MICROS: i64 = 3_600 * 1_000_000;

/// A new one, for the organisation of the first start, which stands for the installation.
pub(super) fn fresh(app: &App, org: OrgId) -> Result<Stored, Problem> {
    let random = SystemRandom::new();
    let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
    let private = made.map_err(|_| internal("no signing key could be made"))?;
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, private.as_ref(), &random);
    let pair = pair.map_err(|_| internal("a signing key that was made cannot be read"))?;
    // An uncompressed point: a 4, then both coordinates.
    let point = pair.public_key().as_ref().get(1..).filter(|point| point.len() == 64);
    let (x, y) = point.ok_or_else(|| internal("a signing key has no point"))?.split_at(32);
    let doc = SigningKey {
        x: URL_SAFE_NO_PAD.encode(x),
        y: URL_SAFE_NO_PAD.encode(y),
        private: app.vault.seal(&STANDARD.encode(private.as_ref())),
        rest: Map::new(),
    };
    let (id, now) = (app.id(), app.now());
    Ok(Stored {
        kind: Kind::SigningKey.name().to_owned(),
        id,
        org: org.0,
        workspace: None,
        slug: id.to_string(),
        name: id.to_string(),
        status: "active".to_owned(),
        owner: None,
        schema: 1,
        version: 1,
        revision: 0,
        doc: serde_json::to_string(&doc).map_err(internal)?,
        created_at: now,
        updated_at: now,
        deleted_at: None,
    })
}

fn newest(snapshot: &Snapshot) -> Option<&Arc<SavedSigningKey>> {
    snapshot.signing_keys().max_by_key(|key| (key.created_at, key.id))
}

/// The one that signs now: the newest that everybody knows, else the only one that there is.
pub(super) fn current(snapshot: &Snapshot, now: Timestamp) -> Option<&Arc<SavedSigningKey>> {
    let known = |key: &&Arc<SavedSigningKey>| key.created_at <= now.plus_micros(-HEARD_MICROS);
    let known = snapshot.signing_keys().filter(known).max_by_key(|key| (key.created_at, key.id));
    known.or_else(|| newest(snapshot))
}

pub(super) fn opened(app: &App, key: &SavedSigningKey) -> Result<EncodingKey, OauthFault> {
    opened_by(&*app.vault, key).ok_or_else(OauthFault::internal)
}

pub(super) fn opened_by(vault: &dyn Vault, key: &SavedSigningKey) -> Option<EncodingKey> {
    let opened = vault.open(&key.sealed).ok()?;
    let private = STANDARD.decode(opened.expose()).ok()?;
    Some(EncodingKey::from_ec_der(&private))
}

/// The row of the first key, where none was made yet: for who is about to need one.
pub(crate) fn first_key(app: &App, snapshot: &Snapshot) -> Result<Option<Stored>, Problem> {
    if snapshot.signing_keys().next().is_some() {
        return Ok(None);
    }
    let first = snapshot.first_org().ok_or_else(|| internal("there is no organisation"))?;
    fresh(app, first.id).map(Some)
}

/// The public halves, as a JSON Web Key Set (RFC 7517).
pub(super) fn key_set(snapshot: &Snapshot) -> Value {
    let key = |key: &Arc<SavedSigningKey>| json!({"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": key.id, "x": key.x, "y": key.y});
    let mut keys: Vec<&Arc<SavedSigningKey>> = snapshot.signing_keys().collect();
    keys.sort_by_key(|key| std::cmp::Reverse((key.created_at, key.id)));
    json!({"keys": keys.into_iter().map(key).collect::<Vec<_>>()})
}

/// The rows that replace a key: those that are over by now, or all of them.
pub(super) fn superseded(snapshot: &Snapshot, now: Timestamp, all: bool) -> Vec<Arc<SavedSigningKey>> {
    let Some(newest) = newest(snapshot) else { return Vec::new() };
    let is_over = newest.created_at <= now.plus_micros(-OVER_MICROS);
    let old = snapshot.signing_keys().filter(|key| all || (is_over && key.id != newest.id));
    old.cloned().collect()
}

/// The rows of these keys as they are stored, marked as deleted.
pub(super) async fn gone(app: &App, keys: &[Arc<SavedSigningKey>]) -> Result<Vec<Stored>, Problem> {
    let (mut rows, now) = (Vec::new(), app.now());
    for key in keys {
        if let Some(row) = app.directory.get(Kind::SigningKey, key.org, None, &key.id.to_string()).await? {
            rows.push(crate::resource::tombstone(row, now)?);
        }
    }
    Ok(rows)
}

/// Lets another key sign from now on, as the operator asks. `at_once`: what earlier keys signed opens nothing any more.
pub async fn rotate_signing_key(app: &App, at_once: bool) -> Result<String, Problem> {
    let snapshot = app.live.snapshot();
    let org = snapshot.first_org().ok_or_else(|| internal("nothing was set up yet"))?.id;
    let old = if at_once { gone(app, &superseded(&snapshot, app.now(), true)).await? } else { Vec::new() };
    let row = fresh(app, org)?;
    let id = row.id.to_string();
    let decide = |_: &WriteView<'_>| {
        let origin = ChangeOrigin::of_operator(app);
        let mut audit = vec![origin.audit(Action::Rotate, &row, &Map::new())];
        audit.extend(old.iter().map(|gone| origin.audit(Action::Delete, gone, &Map::new())));
        let rows = std::iter::once(row).chain(old).collect();
        Ok(Batch { rows, audit, ..Batch::default() })
    };
    commit(app, snapshot.revision, decide).await?;
    Ok(id)
}
