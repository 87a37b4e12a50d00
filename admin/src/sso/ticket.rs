//! What a browser carries to the provider and back: sealed, so that nobody else can make one, good for ten minutes, and
//! bound to the browser by a cookie. Whoever brings an answer without it started nothing here.

use crate::app::App;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gateway_domain::id::OrgId;
use gateway_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

pub(super) const COOKIE: &str = "__Host-gateway-sign-in";
pub(super) const SECONDS: i64 = 600;

#[derive(Serialize, Deserialize)]
pub(super) struct SignInTicket {
    pub(super) org: OrgId,
    /// Which settings it was started with: an answer of another provider is none.
    pub(super) issuer: String,
    pub(super) state: Uuid,
    pub(super) nonce: String,
    /// The code verifier of PKCE (RFC 7636).
    pub(super) verifier: String,
    pub(super) return_to: String,
    pub(super) workspace: Option<String>,
    until: Timestamp,
}

impl SignInTicket {
    pub(super) fn new(app: &App, org: OrgId, issuer: &str) -> Self {
        Self {
            org,
            issuer: issuer.to_owned(),
            state: Uuid::from_bytes(app.bytes()),
            nonce: URL_SAFE_NO_PAD.encode(app.bytes::<32>()),
            verifier: URL_SAFE_NO_PAD.encode(app.bytes::<32>()),
            return_to: "/".to_owned(),
            workspace: None,
            until: app.now().plus_micros(SECONDS * 1_000_000),
        }
    }

    pub(super) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.as_bytes()))
    }

    pub(super) fn seal(&self, app: &App) -> Option<String> {
        let plain = serde_json::to_string(self).ok()?;
        // What a sealed text begins with may not stand in a cookie everywhere.
        Some(URL_SAFE_NO_PAD.encode(app.vault.seal(&plain)))
    }

    pub(super) fn open(app: &App, text: &str, now: Timestamp) -> Option<Self> {
        let sealed = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let plain = app.vault.open(&sealed).ok()?;
        let ticket: Self = serde_json::from_str(plain.expose()).ok()?;
        (ticket.until > now).then_some(ticket)
    }
}

/// A place of this very server: whoever follows it leaves for nowhere else.
pub(super) fn is_local(path: &str) -> bool {
    const LONGEST: usize = 512;
    let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'\\' | b'"' | b'<' | b'>');
    path.len() <= LONGEST && path.starts_with('/') && !path.starts_with("//") && path.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn nobody_is_sent_elsewhere() {
        for good in ["/", "/console", "/a?b=c&d=%2F#e"] {
            assert!(is_local(good), "{good}");
        }
        let long = format!("/{}", "x".repeat(600));
        for bad in [
            "",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "evil",
            "/a\nb",
            "/a b",
            "/é",
            "\\",
            &long,
        ] {
            assert!(!is_local(bad), "{bad}");
        }
    }
}
