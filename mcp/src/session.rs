//! Sessions that any node can open: what a later request must know lies sealed in the id that the client carries. It
//! authenticates nobody: who may use it is written in it, and asked anew each time.

use crate::version::McpVersion;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Longer ids are refused before they are opened.
pub const LONGEST_SESSION: usize = 4096;
/// Bytes of one upstream's own id.
pub const LONGEST_UPSTREAM: usize = 1024;
/// Whatever else is sealed with the same key is no session.
const TAG: &str = "mcp-session-1";

/// What seals and opens texts; a text that was changed does not open.
pub trait SessionSeal {
    fn seal(&self, plain: &str) -> String;
    fn open(&self, sealed: &str) -> Option<String>;
}

/// A client's session with one server, and the sessions with upstreams behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpSession {
    tag: String,
    /// Seconds since 1970.
    pub issued: i64,
    pub expires: i64,
    /// See [`principal`].
    pub principal: String,
    /// Id of the server that the client called.
    pub server: String,
    /// That the client speaks.
    pub version: String,
    pub members: Vec<UpstreamSession>,
    /// What the client can do, as it said; for servers that are opened later in its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub client: String,
}

/// A session that an upstream issued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamSession {
    /// Id of the integration; of one that is shown with others that of its server.
    pub integration: String,
    pub id: String,
    /// That the upstream speaks.
    pub version: String,
}

/// What a client carries, sealed; `None`: it would be longer than headers carry.
pub(crate) fn sealed<T: Serialize>(held: &T, by: &dyn SessionSeal) -> Option<String> {
    let sealed = by.seal(&serde_json::to_string(held).ok()?);
    (sealed.len() <= LONGEST_SESSION).then_some(sealed)
}

/// What a client carried; what was sealed for something else may be read as this, so that the tag in it decides.
pub(crate) fn opened<T: DeserializeOwned>(text: &str, by: &dyn SessionSeal) -> Option<T> {
    if text.len() > LONGEST_SESSION {
        return None;
    }
    serde_json::from_str(&by.open(text)?).ok()
}

/// What stands for a caller in a session: nobody can read from it who it is.
pub fn principal(caller: &str) -> String {
    URL_SAFE_NO_PAD.encode(&Sha256::digest(caller.as_bytes())[..16])
}

/// How a session is called in records: it cannot be used from there.
pub fn fingerprint(session: &str) -> String {
    URL_SAFE_NO_PAD.encode(&Sha256::digest(session.as_bytes())[..9])
}

impl McpSession {
    pub fn new(server: &str, principal: String, version: McpVersion) -> Self {
        Self {
            tag: TAG.to_owned(),
            issued: 0,
            expires: 0,
            principal,
            server: server.to_owned(),
            version: version.name().to_owned(),
            members: Vec::new(),
            client: String::new(),
        }
    }

    #[must_use]
    pub const fn lasting(mut self, from: i64, seconds: i64) -> Self {
        self.issued = from;
        self.expires = from.saturating_add(seconds);
        self
    }

    /// The id that the client is given; `None`: it would be longer than clients and servers carry.
    pub fn seal(&self, by: &dyn SessionSeal) -> Option<String> {
        sealed(self, by)
    }

    /// `None` for what was never issued.
    pub fn open(id: &str, by: &dyn SessionSeal) -> Option<Self> {
        opened(id, by).filter(|session: &Self| session.tag == TAG)
    }

    /// It is theirs who show it, for the server that they call, and not over.
    pub fn is_good(&self, server: &str, principal: &str, now: i64) -> bool {
        self.server == server
            && self.principal == principal
            && self.issued <= now.saturating_add(300)
            && now < self.expires
    }

    pub fn member(&self, integration: &str) -> Option<&UpstreamSession> {
        self.members.iter().find(|member| member.integration == integration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enough to show what is asked of a seal.
    struct Reversed;
    impl SessionSeal for Reversed {
        fn seal(&self, plain: &str) -> String {
            plain.chars().rev().collect()
        }
        fn open(&self, sealed: &str) -> Option<String> {
            Some(sealed.chars().rev().collect())
        }
    }

    fn session() -> McpSession {
        let mut session = McpSession::new("srv", principal("key-1"), McpVersion::V2025_06_18).lasting(1000, 60);
        let upstream = UpstreamSession { integration: "int".into(), id: "up-1@x".into(), version: "2025-03-26".into() };
        session.members.push(upstream);
        session
    }

    #[test]
    fn a_session_comes_back_as_it_was() {
        let sealed = session().seal(&Reversed).expect("short");
        let open = McpSession::open(&sealed, &Reversed).expect("open");
        assert_eq!(open, session());
        assert_eq!(open.member("int").map(|m| m.id.as_str()), Some("up-1@x"));
        assert!(open.member("other").is_none());
    }

    #[test]
    fn it_is_good_for_one_caller_and_one_server_until_it_ends() {
        let session = session();
        assert!(session.is_good("srv", &principal("key-1"), 1059));
        for (server, caller, now) in [("srv", "key-2", 1000), ("other", "key-1", 1000), ("srv", "key-1", 1060)] {
            assert!(!session.is_good(server, &principal(caller), now), "{server} {caller} {now}");
        }
    }

    #[test]
    fn other_texts_are_no_session() {
        let by = &Reversed;
        assert!(McpSession::open(&by.seal("a secret of somebody's"), by).is_none());
        let other = serde_json::to_string(&session()).expect("json").replace(TAG, "other");
        assert!(McpSession::open(&by.seal(&other), by).is_none());
        assert!(McpSession::open(&"x".repeat(LONGEST_SESSION + 1), by).is_none());
        let mut long = session();
        long.members[0].id = "x".repeat(LONGEST_SESSION);
        assert!(long.seal(by).is_none());
    }

    #[test]
    fn what_stands_for_a_caller_says_nothing() {
        assert_eq!(principal("a"), principal("a"));
        assert_ne!(principal("a"), principal("b"));
        assert!(!principal("key-1").contains("key"));
    }
}
