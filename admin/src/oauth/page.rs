//! The pages: to sign in, to decide, and to be told what is wrong. Plain HTML without scripts, that nobody can show
//! inside a page of theirs. Whatever a client says of itself is text here, and said to be its own word.

use super::authorize_request::AuthorizeAsk;
use super::redirect;
use crate::reply::AdminReply;
use gateway_domain::snapshot::WorkspaceEntry;
use http::{HeaderName, header};
use std::fmt::Write;
use std::sync::Arc;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:3rem auto;padding:0 1rem;color:#1c1c1c;\
background:#fafafa}h1{font-size:1.4rem}dl{display:grid;grid-template-columns:max-content 1fr;gap:.3rem 1rem}dt{color:#555}\
dd{margin:0;overflow-wrap:anywhere}button,input,select{font:inherit;padding:.5rem .9rem;border-radius:.4rem;border:1px solid #999}\
button.main{background:#14532d;border-color:#14532d;color:#fff}form{margin:1.2rem 0}label{display:block;margin:.4rem 0}\
.note{background:#fff4d6;padding:.6rem .8rem;border-radius:.4rem}@media(prefers-color-scheme:dark){body{background:#161616;color:#eee}\
dt{color:#aaa}.note{background:#4a3c10}}";

/// Which organisations have a provider where people sign in.
pub(super) enum SignOns {
    None,
    /// The only one there is, by its slug.
    One(String),
    /// Which there are is not told to everybody.
    Several,
}

/// What every page of a request shows.
pub(super) struct PageFrame<'a> {
    pub(super) ask: &'a AuthorizeAsk,
    pub(super) ticket: &'a str,
    /// Where its forms go.
    pub(super) action: String,
}

pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

pub(super) fn html(title: &str, body: &str, leads_to: &str) -> AdminReply {
    let text = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"><meta name=\"robots\" content=\"noindex\"><title>{title}</title>\
         <style>{STYLE}</style></head><body><h1>{title}</h1>{body}</body></html>"
    );
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'; form-action {leads_to}"
    );
    AdminReply::text("text/html; charset=utf-8", text)
        .with_header(header::CONTENT_SECURITY_POLICY, policy)
        .with_header(header::X_FRAME_OPTIONS, "DENY".to_owned())
        // Forms of ours still say where they are from; no other site hears of the address, which holds a state.
        .with_header(header::REFERRER_POLICY, "same-origin".to_owned())
        .with_header(HeaderName::from_static("cross-origin-opener-policy"), "same-origin".to_owned())
}

pub(super) fn trouble(told: &str) -> AdminReply {
    html("This did not work", &format!("<p>{}</p>", escaped(told)), "'none'")
}

impl PageFrame<'_> {
    fn facts(&self) -> String {
        let ask = self.ask;
        let says = match &ask.vouched_by {
            Some(host) => format!("{} <small>(as {} says)</small>", escaped(&ask.client_name), escaped(host)),
            None => {
                format!("{} <small>(as it calls itself; nobody has checked this)</small>", escaped(&ask.client_name))
            }
        };
        let back = escaped(&redirect::shown(&ask.redirect_uri));
        let server = escaped(&ask.server);
        format!(
            "<dl><dt>App</dt><dd>{says}</dd><dt>Returns to</dt><dd>{back}</dd><dt>MCP server</dt><dd>{server}</dd></dl>"
        )
    }

    fn form(&self, step: &str, inside: &str) -> String {
        format!(
            "<form method=\"post\" action=\"{}\"><input type=\"hidden\" name=\"ticket\" value=\"{}\">{}{inside}</form>",
            escaped(&self.action),
            escaped(self.ticket),
            if step.is_empty() {
                String::new()
            } else {
                format!("<input type=\"hidden\" name=\"step\" value=\"{step}\">")
            },
        )
    }

    /// Browsers hold the answers to a form to this policy too, so it names where the client waits.
    fn leads_to(&self) -> String {
        format!("'self' {}", redirect::policy_source(&self.ask.redirect_uri))
    }
}

pub(super) fn sign_in(shown: &PageFrame<'_>, organisations: &SignOns, note: Option<&str>) -> AdminReply {
    let mut body = shown.facts();
    if let Some(note) = note {
        let _ = write!(body, "<p class=\"note\">{}</p>", escaped(note));
    }
    match organisations {
        SignOns::None => {}
        SignOns::One(slug) => {
            let inside = format!(
                "<input type=\"hidden\" name=\"organisation\" value=\"{}\"><button class=\"main\">Sign in at your \
                 organisation</button>",
                escaped(slug)
            );
            body.push_str(&shown.form("organisation", &inside));
        }
        SignOns::Several => body.push_str(&shown.form(
            "organisation",
            "<label>Organisation <input name=\"organisation\" required maxlength=\"255\" autocomplete=\"organization\">\
             </label><button class=\"main\">Sign in there</button>",
        )),
    }
    body.push_str(&shown.form(
        "key",
        "<label>A gateway key of yours <input name=\"key\" type=\"password\" required maxlength=\"512\" \
         autocomplete=\"off\"></label><button>Sign in with the key</button><p><small>The app does not see the key. What it \
         may do stays within what the key may, and ends with it.</small></p>",
    ));
    // The provider of an organisation may be anywhere, and sends the browser on by itself.
    let leads_to = if matches!(organisations, SignOns::None) { "'self'" } else { "'self' https: http:" };
    html("Sign in to let an app in", &body, leads_to)
}

fn meaning(scope: &str) -> &'static str {
    let writes = scope.split(' ').any(|name| name != "mcp:read");
    if writes { "see what the server offers, and call its tools in your name" } else { "see what the server offers" }
}

pub(super) fn consent(shown: &PageFrame<'_>, person: &str, places: &[Arc<WorkspaceEntry>]) -> AdminReply {
    let mut body = shown.facts();
    let (person, scope) = (escaped(person), escaped(&shown.ask.scope));
    let _ = write!(
        body,
        "<p>You are <b>{person}</b>. The app would be allowed to <b>{}</b> <small>({scope})</small>.</p>",
        meaning(&shown.ask.scope)
    );
    let mut inside = String::new();
    match places {
        [one] => {
            let _ = write!(
                inside,
                "<input type=\"hidden\" name=\"workspace\" value=\"{}\"><p>Workspace: {}</p>",
                one.id,
                escaped(&one.name)
            );
        }
        several => {
            inside.push_str("<label>Workspace <select name=\"workspace\" required>");
            for place in several {
                let _ = write!(inside, "<option value=\"{}\">{}</option>", place.id, escaped(&place.name));
            }
            inside.push_str("</select></label>");
        }
    }
    inside.push_str(
        "<button class=\"main\" name=\"step\" value=\"allow\">Allow</button> \
         <button name=\"step\" value=\"deny\">Deny</button> <button name=\"step\" value=\"other\">I am somebody else</button>",
    );
    body.push_str(&shown.form("", &inside));
    html("Let an app use an MCP server?", &body, &shown.leads_to())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_says_of_itself_is_text() {
        assert_eq!(escaped("<a href='x' \"&"), "&lt;a href=&#39;x&#39; &quot;&amp;");
        assert!(meaning("mcp:read").ends_with("offers") && meaning("mcp:read mcp:write").contains("call"));
    }
}
