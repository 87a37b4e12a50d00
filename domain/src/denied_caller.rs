//! Callers that were not let in: who they said they were, and why they were refused. What tells of them (a counter,
//! a line, a row of the audit trail) stands behind a port. Holds no part of the key or token itself.

use crate::id::{KeyId, OrgId, WorkspaceId};
use crate::snapshot::Key;
use crate::time::Timestamp;
use std::net::IpAddr;

/// Why somebody was not let in; a label of metrics and lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unwelcome {
    /// Came without any key.
    NoKey,
    UnknownKey,
    /// A key of ours whose time is over.
    ExpiredKey,
    /// A key of ours that is switched off, or whose workspace is.
    InactiveKey,
    /// A good key of a kind that has no business here.
    WrongKind,
    /// Not signed by an issuer that is trusted, over, or not to be read.
    BadToken,
    /// A sound token for an organisation or a workspace that takes none, or a sound key for a workspace that is not
    /// served here.
    NoPlace,
}

impl Unwelcome {
    pub const ALL: [Self; 7] = [
        Self::NoKey,
        Self::UnknownKey,
        Self::ExpiredKey,
        Self::InactiveKey,
        Self::WrongKind,
        Self::BadToken,
        Self::NoPlace,
    ];

    pub const fn label(self) -> &'static str {
        match self {
            Self::NoKey => "no_key",
            Self::UnknownKey => "unknown_key",
            Self::ExpiredKey => "expired_key",
            Self::InactiveKey => "inactive_key",
            Self::WrongKind => "wrong_kind",
            Self::BadToken => "bad_token",
            Self::NoPlace => "no_place",
        }
    }
}

/// Who was not let in, as far as that can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stranger {
    pub why: Unwelcome,
    /// The organisation; for a token the one that it names, for which nobody vouches.
    pub org: Option<OrgId>,
    pub workspace: Option<WorkspaceId>,
    pub key: Option<KeyId>,
}

impl Stranger {
    pub const fn unknown(why: Unwelcome) -> Self {
        Self { why, org: None, workspace: None, key: None }
    }

    /// Somebody who came with a token that names this organisation.
    pub const fn with_token(why: Unwelcome, org: Option<OrgId>) -> Self {
        Self { why, org, workspace: None, key: None }
    }

    /// Somebody who came with a key that was found.
    pub fn with_key(why: Unwelcome, key: &Key) -> Self {
        Self { why, org: Some(key.org), workspace: key.workspace, key: Some(key.id) }
    }
}

/// A request that was refused for whom it came from.
#[derive(Clone, Debug)]
pub struct TurnedAway {
    pub stranger: Stranger,
    pub at: Timestamp,
    pub status: u16,
    /// What the caller was told.
    pub message: String,
    pub method: String,
    /// The path without its query, which may hold a key.
    pub path: String,
    pub client: Option<IpAddr>,
}

impl TurnedAway {
    /// A path is told up to here: it is of whoever sent it.
    pub const LONGEST_PATH: usize = 512;

    /// `path` as far as it is told.
    pub fn short(path: &str) -> String {
        path.chars().take(Self::LONGEST_PATH).collect()
    }
}
