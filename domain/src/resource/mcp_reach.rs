//! What of the MCP servers a key or token may use, by the slug of the server and the name of the thing. Knows no server
//! and no protocol: it compares names.

use serde::{Deserialize, Serialize};

/// What may be used. Without `allow` everything is allowed; what `deny` names is denied whatever else is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpReach {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

/// A thing under one of the names that it goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct McpPath<'a> {
    pub server: &'a str,
    /// A tool's or a prompt's name, a resource's URI.
    pub name: &'a str,
}

/// Entries of one list, and bytes of one entry.
const MOST: usize = 200;
const LONGEST: usize = 512;

impl McpReach {
    /// Whether nothing is said.
    pub const fn is_empty(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty()
    }

    /// `Err`: the list and the place in it, and the rule that it breaks.
    pub fn check(&self) -> Result<(), McpReachFlaw> {
        for (list, entries) in [("allow", self.allow.as_deref().unwrap_or_default()), ("deny", &self.deny)] {
            if entries.len() > MOST {
                return Err(McpReachFlaw { list, at: None, rule: "must hold at most 200 entries" });
            }
            let flawed = entries.iter().enumerate().find_map(|(at, entry)| Some((at, flaw(entry)?)));
            if let Some((at, rule)) = flawed {
                return Err(McpReachFlaw { list, at: Some(at), rule });
            }
        }
        Ok(())
    }

    /// Whether anything of this server could be used.
    pub fn opens(&self, server: &str) -> bool {
        let allowed = self.allow.as_ref().is_none_or(|all| all.iter().any(|entry| fits(split(entry).0, server)));
        allowed && !self.shuts(server)
    }

    /// Whether a server is denied as a whole.
    pub fn shuts(&self, server: &str) -> bool {
        self.deny.iter().map(|entry| split(entry)).any(|(of, name)| name.is_none() && fits(of, server))
    }

    /// Whether a thing may be used that goes by these names: any of them allows it, and none may deny it.
    pub fn allows(&self, names: &[McpPath<'_>]) -> bool {
        let named = |list: &[String]| list.iter().any(|entry| names.iter().any(|path| covers(entry, *path)));
        self.allow.as_deref().is_none_or(named) && !named(&self.deny)
    }
}

/// What is wrong with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct McpReachFlaw {
    pub list: &'static str,
    pub at: Option<usize>,
    pub rule: &'static str,
}

fn flaw(entry: &str) -> Option<&'static str> {
    if entry.is_empty() || entry.len() > LONGEST {
        return Some("must have 1..512 bytes");
    }
    let (server, name) = split(entry);
    let stars = |text: &str| text.strip_suffix('*').unwrap_or(text).contains('*');
    if server.is_empty() || name == Some("") {
        return Some("must be a server's slug, or a slug and a name with '/' between them");
    }
    (stars(server) || name.is_some_and(stars)).then_some("may hold '*' at the end of the slug and of the name only")
}

fn split(entry: &str) -> (&str, Option<&str>) {
    entry.split_once('/').map_or((entry, None), |(server, name)| (server, Some(name)))
}

fn covers(entry: &str, path: McpPath<'_>) -> bool {
    let (server, name) = split(entry);
    fits(server, path.server) && name.is_none_or(|name| fits(name, path.name))
}

fn fits(pattern: &str, text: &str) -> bool {
    pattern.strip_suffix('*').map_or_else(|| pattern == text, |start| text.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(allow: Option<&[&str]>, deny: &[&str]) -> McpReach {
        let owned = |list: &[&str]| list.iter().map(|entry| (*entry).to_owned()).collect();
        McpReach { allow: allow.map(owned), deny: owned(deny) }
    }

    fn allows(reach: &McpReach, server: &str, name: &str) -> bool {
        reach.allows(&[McpPath { server, name }])
    }

    #[test]
    fn servers_and_names_are_allowed_and_denial_wins() {
        let all = reach(None, &[]);
        assert!(allows(&all, "files", "x") && all.opens("files") && all.is_empty());
        let some = reach(Some(&["files/read_*", "mail", "db/file:///a/*"]), &["mail/send", "files/read_secret"]);
        for (server, name, expected) in [
            ("files", "read_all", true),
            ("files", "read_secret", false),
            ("files", "write", false),
            ("mail", "list", true),
            ("mail", "send", false),
            ("mails", "list", false),
            ("db", "file:///a/b", true),
            ("db", "file:///b", false),
        ] {
            assert_eq!(allows(&some, server, name), expected, "{server} {name}");
        }
        assert!(some.opens("files") && some.opens("mail") && !some.opens("other"));
        let none = reach(Some(&[]), &[]);
        assert!(!allows(&none, "files", "x") && !none.opens("files"));
        let shut = reach(None, &["files", "ma*"]);
        assert!(!shut.opens("files") && !shut.opens("mail") && shut.opens("db"));
        assert!(!allows(&shut, "files", "x") && allows(&shut, "db", "x"));
    }

    #[test]
    fn what_goes_by_two_names_is_denied_by_either_and_allowed_by_either() {
        let both = [McpPath { server: "suite", name: "files__read" }, McpPath { server: "files", name: "read" }];
        assert!(reach(Some(&["suite"]), &[]).allows(&both) && reach(Some(&["files/read"]), &[]).allows(&both));
        assert!(!reach(Some(&["suite"]), &["files/read"]).allows(&both));
        assert!(!reach(Some(&["other"]), &[]).allows(&both));
    }

    #[test]
    fn entries_that_mean_nothing_are_named() {
        for bad in ["", "/read", "files/", "fi*les", "files/a*b", "*/a**", &"x".repeat(513)] {
            let flaw = reach(None, &["ok", bad]).check().expect_err(bad);
            assert_eq!((flaw.list, flaw.at), ("deny", Some(1)), "{bad}");
        }
        let many = vec!["a".to_owned(); 201];
        let flaw = McpReach { allow: Some(many), deny: Vec::new() }.check().expect_err("too many");
        assert_eq!((flaw.list, flaw.at), ("allow", None));
        assert!(reach(Some(&["*", "files/*", "a/b/c*"]), &[]).check().is_ok());
    }
}
