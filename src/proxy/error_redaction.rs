//! What a server or an agent says in a failure, without what it was called with: servers like to quote the key that
//! they refuse, and the caller may not be the one whose key it is. Knows no protocol.

use super::outbound::OutboundCalls;
use super::record::secrets;
use crate::upstream::Pass;
use gateway_domain::Secret;
use gateway_domain::record::mask;
use http::{HeaderName, HeaderValue, header};

impl OutboundCalls<'_> {
    /// Whether it is called with anything that nobody else may learn.
    pub(in crate::proxy) fn has_secrets(&self) -> bool {
        !self.upstream.headers.is_empty() || self.upstream.grant.is_some() || self.identity.is_some()
    }

    /// `pass`: what lets a person in, where it is called in the name of one.
    pub(in crate::proxy) fn unquoted(&self, text: String, pass: Option<&HeaderValue>) -> String {
        let own = self.upstream.grant.as_ref().and_then(|grant| match self.calls.credentials.ready(grant) {
            Some(Pass::Header(value)) => Some(value),
            _ => None,
        });
        let passes = own.iter().chain(pass).map(|value| (header::AUTHORIZATION, value.clone()));
        let set = self.upstream.headers.iter().filter_map(|(name, value)| {
            let mut value = HeaderValue::from_str(value.expose()).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
        });
        let all: Vec<(HeaderName, HeaderValue)> = passes.chain(set).chain(self.identity.cloned()).collect();
        let known: Vec<Secret<String>> = secrets(all.iter().map(|(name, value)| (name, value)));
        match mask::without(text.as_bytes(), &known) {
            Some(blotted) => String::from_utf8_lossy(&blotted).into_owned(),
            None => text,
        }
    }
}
