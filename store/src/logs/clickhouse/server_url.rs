//! `clickhouse://user:password@host:port/database`, typed. The password is shown nowhere.

use std::fmt;
use std::path::PathBuf;
use url::Url;

#[derive(Clone)]
pub struct ColumnsUrl {
    pub(super) is_secured: bool,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: String,
    pub(super) database: String,
    /// Who signed the server's certificate; else the system's authorities are asked.
    pub(super) authority: Option<PathBuf>,
}

/// What is wrong with a URL, told without repeating it: it may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadColumnsUrl {
    #[error(
        "a ClickHouse URL is clickhouse://user:password@host:port/database, or clickhouses:// for TLS; special characters \
         in user and password must be percent-encoded"
    )]
    Form,
    #[error("a ClickHouse URL takes no parameter '{0}': only ca=<file>, with clickhouses://")]
    Parameter(String),
    #[error("{} holds no PEM certificate that can be read", .0.display())]
    Authority(PathBuf),
    #[error("the system has no certificate authorities that can be read; name one with ?ca=<file>")]
    NoAuthorities,
}

impl ColumnsUrl {
    /// Whether a text wants to be such a URL.
    pub fn is_meant_by(text: &str) -> bool {
        text.starts_with("clickhouse:") || text.starts_with("clickhouses:")
    }

    pub fn parse(text: &str) -> Result<Self, BadColumnsUrl> {
        let url = Url::parse(text).map_err(|_| BadColumnsUrl::Form)?;
        let is_secured = url.scheme() == "clickhouses";
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(BadColumnsUrl::Form)?;
        let mut authority = None;
        for (name, value) in url.query_pairs() {
            if name != "ca" || !is_secured {
                return Err(BadColumnsUrl::Parameter(name.chars().take(40).collect()));
            }
            authority = Some(PathBuf::from(value.into_owned()));
        }
        let database = url.path().trim_start_matches('/');
        if database.contains('/') || url.fragment().is_some() {
            return Err(BadColumnsUrl::Form);
        }
        let or = |given: String, default: &str| if given.is_empty() { default.to_owned() } else { given };
        Ok(Self {
            is_secured,
            host: host.to_owned(),
            port: url.port().unwrap_or(if is_secured { 8_443 } else { 8_123 }),
            user: or(decoded(url.username())?, "default"),
            password: decoded(url.password().unwrap_or_default())?,
            database: or(decoded(database)?, "default"),
            authority,
        })
    }
}

fn decoded(text: &str) -> Result<String, BadColumnsUrl> {
    percent_encoding::percent_decode_str(text).decode_utf8().map(Into::into).map_err(|_| BadColumnsUrl::Form)
}

impl fmt::Display for ColumnsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secured { "clickhouses" } else { "clickhouse" };
        write!(f, "{scheme}://{}@{}:{}/{}", self.user, self.host, self.port, self.database)
    }
}

impl fmt::Debug for ColumnsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColumnsUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_shown_without_their_password() {
        for (text, want) in [
            ("clickhouse://me:s3cret@db:9123/logs", "clickhouse://me@db:9123/logs"),
            ("clickhouse://db", "clickhouse://default@db:8123/default"),
            ("clickhouses://a%40b:s3cret@[::1]/logs?ca=/etc/ca.pem", "clickhouses://a@b@[::1]:8443/logs"),
        ] {
            let url = ColumnsUrl::parse(text).unwrap();
            assert_eq!(url.to_string(), want);
            assert!(!format!("{url} {url:?}").contains("s3cret"));
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (text, want) in [
            ("clickhouse:", BadColumnsUrl::Form),
            ("clickhouse://me:s3cret@db:port/logs", BadColumnsUrl::Form),
            ("clickhouse://db/a/b", BadColumnsUrl::Form),
            ("clickhouse://db/logs?ca=/x", BadColumnsUrl::Parameter("ca".into())),
            ("clickhouses://db/logs?compress=1", BadColumnsUrl::Parameter("compress".into())),
        ] {
            assert_eq!(ColumnsUrl::parse(text).map(|_| ()), Err(want), "{text}");
        }
    }
}
