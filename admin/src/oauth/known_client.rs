//! What is known of a client: its name, where it may be sent back to, and who says so. Whether it has a secret is no
//! matter here; what all of them bring is proven by PKCE.

use super::redirect;
use gateway_domain::id::OrgId;
use serde::{Deserialize, Serialize};

/// Bytes of a client's id, which may be an address.
pub(super) const LONGEST_ID: usize = 400;
pub(super) const LONGEST_NAME: usize = 100;
pub(crate) const MOST_REDIRECTS: usize = 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KnownClient {
    /// What the client calls itself, or what the admin who made it calls it.
    pub(super) name: String,
    pub(super) redirect_uris: Vec<String>,
    /// The host that says all this of it; `None`: it says so itself, and could be anybody.
    #[serde(skip)]
    pub(super) vouched_by: Option<String>,
    /// The organisation whose admins made it, and whose people alone let it in.
    #[serde(skip)]
    pub(super) made_in: Option<OrgId>,
    /// The most that it may ask for, where somebody said so.
    #[serde(skip)]
    pub(super) scope: Option<String>,
}

impl KnownClient {
    pub(super) fn may_return_to(&self, asked: &str) -> bool {
        redirect::check_redirect(asked).is_ok() && self.redirect_uris.iter().any(|known| redirect::fits(known, asked))
    }
}

/// One line of plain text, whatever it was.
pub(super) fn plain_name(given: &str) -> String {
    let clean = |c: char| if c.is_control() || is_invisible(c) { ' ' } else { c };
    let name: String = given.chars().map(clean).take(LONGEST_NAME).collect();
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Characters that turn the direction of a text around or take no room in it.
const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::plain_name;

    #[test]
    fn a_name_is_one_plain_line() {
        assert_eq!(plain_name("  My\n\tapp \u{202e}ppa\u{200b} "), "My app ppa");
        assert_eq!(plain_name(&"x".repeat(500)).len(), 100);
        assert_eq!(plain_name("\u{0}\u{7}"), "");
    }
}
