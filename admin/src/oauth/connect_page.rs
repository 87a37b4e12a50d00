//! The pages on which somebody connects an account at an MCP server. As plain as those of [`mod@super::page`], and as
//! closed.

use super::page::{escaped, html};
use crate::reply::AdminReply;
use std::fmt::Write;

/// What every page of a link shows.
pub(super) struct ConnectShown<'a> {
    pub(super) server: &'a str,
    pub(super) ticket: &'a str,
    /// Where its forms go.
    pub(super) action: String,
}

impl ConnectShown<'_> {
    fn facts(&self, host: Option<&str>) -> String {
        let mut facts = format!("<dl><dt>MCP server</dt><dd>{}</dd>", escaped(self.server));
        if let Some(host) = host {
            let _ = write!(facts, "<dt>Signs you in</dt><dd>{}</dd>", escaped(host));
        }
        facts + "</dl>"
    }

    fn form(&self, step: &str, inside: &str) -> String {
        format!(
            "<form method=\"post\" action=\"{}\"><input type=\"hidden\" name=\"ticket\" value=\"{}\">\
             <input type=\"hidden\" name=\"step\" value=\"{step}\">{inside}</form>",
            escaped(&self.action),
            escaped(self.ticket),
        )
    }
}

pub(super) fn sign_in(shown: &ConnectShown<'_>, organisation: Option<&str>, note: Option<&str>) -> AdminReply {
    let mut body = shown.facts(None);
    if let Some(note) = note {
        let _ = write!(body, "<p class=\"note\">{}</p>", escaped(note));
    }
    body.push_str("<p>Sign in here first, as the person who asked for this link.</p>");
    if organisation.is_some() {
        body.push_str(&shown.form("organisation", "<button class=\"main\">Sign in at your organisation</button>"));
    }
    body.push_str(&shown.form(
        "key",
        "<label>A gateway key of yours <input name=\"key\" type=\"password\" required maxlength=\"512\" \
         autocomplete=\"off\"></label><button>Sign in with the key</button>",
    ));
    let leads_to = if organisation.is_some() { "'self' https: http:" } else { "'self'" };
    html("Sign in to connect an account", &body, leads_to)
}

pub(super) fn consent(shown: &ConnectShown<'_>, person: &str, host: &str) -> AdminReply {
    let mut body = shown.facts(Some(host));
    let _ = write!(
        body,
        "<p>You are <b>{}</b>. The gateway will call this server in your name, with an account of yours: you sign in at <b>{}</b>, \
         and the gateway keeps what lets it in. An admin of your workspace can end that.</p>",
        escaped(person),
        escaped(host)
    );
    body.push_str(&shown.form("connect", "<button class=\"main\">Connect</button>"));
    // The server's sign-in may be anywhere, and sends the browser on by itself.
    html("Connect an account of yours?", &body, "'self' https: http:")
}

pub(super) fn done(server: &str) -> AdminReply {
    let told = format!(
        "<p>The account at <b>{}</b> is connected. You can close this page and go on in the app.</p>",
        escaped(server)
    );
    html("Connected", &told, "'none'")
}
