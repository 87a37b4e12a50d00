//! An API key, found by the hash of its secret.

use super::{Build, Draft, SnapshotEntry, doc, shared};
use crate::claims::Token;
use crate::id::{KeyId, OrgId, WorkspaceId};
use crate::keys::KeyHash;
use crate::resource::api_key::{ApiKey, KeyDefaults, KeyKind};
use crate::resource::limits::ResourceLimits;
use crate::resource::mcp_reach::McpReach;
use crate::resource::model_reach::ModelReach;
use crate::resource::rotation::{RotationPolicy, Transition};
use crate::resource::{Kind, Stored};
use crate::scope::Scopes;
use crate::time::Timestamp;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use uuid::Uuid;

#[derive(Clone, Debug)]
pub struct Key {
    pub id: KeyId,
    pub org: OrgId,
    pub workspace: Option<WorkspaceId>,
    pub kind: KeyKind,
    pub name: Arc<str>,
    pub owner: Option<Uuid>,
    pub scopes: Scopes,
    pub expires_at: Option<Timestamp>,
    pub active: bool,
    /// `None` when nothing is set: most of a million keys.
    pub defaults: Option<Box<KeyEntryDefaults>>,
    /// `None` for a key that never changes its secret: most of a million keys.
    pub rotation: Option<Box<Rotation>>,
    /// `None` when there are none: most of a million keys.
    pub limits: Option<Arc<ResourceLimits>>,
    pub max_parallel: Option<NonZeroU32>,
    /// `None`: nothing is said of MCP servers.
    pub mcp_access: Option<Arc<McpReach>>,
    /// `None`: it may call any model.
    pub allowed_models: Option<ModelReach>,
    /// It stands for a token of an issuer, and is stored nowhere.
    pub token: Option<Arc<Token>>,
    pub used: UseMark,
}

/// The minute in which it was last noted that a key is used; whoever lets the key in again within that minute notes
/// nothing. Begins anew with every state of its key.
#[derive(Debug, Default)]
pub struct UseMark(AtomicU32);

impl UseMark {
    /// Whether it is the first use in this minute.
    pub fn is_first(&self, now: Timestamp) -> bool {
        const MINUTE_MICROS: i64 = 60 * 1_000_000;
        let minute = u32::try_from(now.micros() / MINUTE_MICROS).unwrap_or(u32::MAX);
        self.0.load(Ordering::Relaxed) != minute && self.0.swap(minute, Ordering::Relaxed) != minute
    }
}

impl Clone for UseMark {
    fn clone(&self) -> Self {
        Self(AtomicU32::new(self.0.load(Ordering::Relaxed)))
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    pub next_at: Option<Timestamp>,
    /// The secret before this one, and until when it opens; it stands as a key of its own that expires then.
    pub previous: Option<(KeyHash, Timestamp)>,
    /// When a day's notice is to be given, of the next rotation or of the end of the secret before.
    pub announce_at: Option<Timestamp>,
    /// This entry is the one under the secret before.
    pub retiring: bool,
}

impl Key {
    pub(in crate::snapshot) fn retiring(&self) -> bool {
        self.rotation.as_ref().is_some_and(|r| r.retiring)
    }

    /// This key under the secret before, if that one still opens.
    pub(in crate::snapshot) fn before(&self) -> Option<(KeyHash, Self)> {
        let (hash, until) = self.rotation.as_ref()?.previous?;
        let expires_at = Some(self.expires_at.map_or(until, |at| at.min(until)));
        let rotation = Some(Box::new(Rotation { next_at: None, previous: None, announce_at: None, retiring: true }));
        Some((hash, Self { expires_at, rotation, ..self.clone() }))
    }
}

#[derive(Clone, Debug)]
pub struct KeyEntryDefaults {
    pub config: Option<Arc<str>>,
    pub metadata: Vec<(String, String)>,
    pub allow_config_override: bool,
}

impl Default for KeyEntryDefaults {
    /// The defaults of a key that says nothing.
    fn default() -> Self {
        Self { config: None, metadata: Vec::new(), allow_config_override: true }
    }
}

impl SnapshotEntry for Key {
    const KIND: Kind = Kind::ApiKey;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let (hash, key) = read(row)?;
        draft.keys.put(row, hash, key);
        Ok(())
    }
}

fn rotation(k: &ApiKey) -> Result<Option<Box<Rotation>>, String> {
    let previous = match &k.transition {
        None => None,
        Some(t) => {
            let hash = KeyHash::parse(&t.previous_hash).ok_or("has no readable hash of the secret before")?;
            Some((hash, t.previous_until))
        }
    };
    let next_at = k.rotation_policy.as_ref().map(|p| p.next_rotation_at);
    let some = previous.is_some() || next_at.is_some();
    let of_policy = k.rotation_policy.as_ref().and_then(RotationPolicy::announce_at);
    let of_transition = k.transition.as_ref().and_then(Transition::announce_at);
    let announce_at = of_policy.into_iter().chain(of_transition).min();
    Ok(some.then(|| Box::new(Rotation { next_at, previous, announce_at, retiring: false })))
}

fn read(row: &Stored) -> Result<(KeyHash, Key), String> {
    let k: ApiKey = doc(row)?;
    let hash = KeyHash::parse(&k.hash).ok_or("has no readable hash")?;
    let rotation = rotation(&k)?;
    let limits = shared(k.limits);
    let KeyDefaults { metadata, config_id, allow_config_override } = k.defaults;
    let plain = metadata.is_empty() && config_id.is_none() && allow_config_override;
    let key = Key {
        id: KeyId(row.id),
        org: OrgId(row.org),
        workspace: row.workspace.map(WorkspaceId),
        kind: k.kind,
        name: row.name.as_str().into(),
        owner: k.user_id,
        scopes: k.scopes.set(),
        expires_at: k.expires_at,
        active: row.status == "active",
        defaults: (!plain).then(|| {
            Box::new(KeyEntryDefaults {
                config: config_id.map(Into::into),
                metadata: metadata.into_iter().collect(),
                allow_config_override,
            })
        }),
        rotation,
        limits,
        max_parallel: k.max_parallel,
        mcp_access: (!k.mcp_access.is_empty()).then(|| Arc::new(k.mcp_access)),
        allowed_models: k.allowed_models,
        token: None,
        used: UseMark::default(),
    };
    Ok((hash, key))
}
