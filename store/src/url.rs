//! Which engine and where, typed. The password never leaves the options that dial with it:
//! `Display` and `Debug` show the address only.

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

#[derive(Clone)]
pub struct DatabaseUrl(pub(crate) Engine);

#[derive(Clone)]
pub(crate) enum Engine {
    File(PathBuf),
    Memory,
    Postgres(Box<PgConnectOptions>),
}

/// What is wrong with a URL, told without repeating it: it may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    #[error("database URL has no scheme: write sqlite:<path> or postgres://user:password@host/database")]
    NoScheme,
    #[error("database URL scheme '{0}' is not supported: use sqlite: or postgres:")]
    Scheme(String),
    #[error("sqlite: needs a path, or :memory:")]
    NoPath,
    #[error("sqlite: takes no '?' parameters; journal, timeouts and locking are set by the gateway")]
    Parameters,
    #[error("TLS is for postgres: URLs only")]
    TlsOfFile,
    #[error("'{0}' is no TLS mode: use disable, prefer, require, verify-ca or verify-full")]
    TlsMode(String),
    #[error("a certificate authority is of no use in TLS mode '{0}': use verify-ca or verify-full")]
    Unverified(&'static str),
    #[error("{} holds no PEM certificate that can be read", .0.display())]
    Authority(PathBuf),
    #[error("{0}")]
    Columns(#[from] crate::logs::BadColumnsUrl),
    #[error("postgres URL cannot be read ({0}); special characters in user and password must be percent-encoded")]
    Postgres(String),
}

impl DatabaseUrl {
    pub fn parse(text: &str) -> Result<Self, BadUrl> {
        let (scheme, rest) = text.split_once(':').ok_or(BadUrl::NoScheme)?;
        match scheme {
            "sqlite" => sqlite(rest).map(Self),
            "postgres" | "postgresql" => {
                let options = PgConnectOptions::from_str(text).map_err(|e| BadUrl::Postgres(describe_error(&e)))?;
                Ok(Self(Engine::Postgres(Box::new(options))))
            }
            // A Windows drive or a bare path with a colon is no scheme.
            _ if scheme.len() < 2 || !scheme.chars().all(|c| c.is_ascii_alphanumeric() || c == '+') => {
                Err(BadUrl::NoScheme)
            }
            _ => Err(BadUrl::Scheme(scheme.to_owned())),
        }
    }

    pub fn sqlite_file(path: impl Into<PathBuf>) -> Self {
        Self(Engine::File(path.into()))
    }

    /// How the server is to prove itself, over what the URL says. An authority alone asks for `verify-full`.
    pub fn with_tls(self, mode: Option<&str>, authority: Option<&Path>) -> Result<Self, BadUrl> {
        let mut options = match self.0 {
            Engine::Postgres(options) => options,
            other if mode.is_none() && authority.is_none() => return Ok(Self(other)),
            _ => return Err(BadUrl::TlsOfFile),
        };
        if let Some(mode) = mode {
            let known = PgSslMode::from_str(mode).map_err(|_| BadUrl::TlsMode(mode.to_owned()))?;
            *options = options.ssl_mode(known);
        } else if authority.is_some() {
            *options = options.ssl_mode(PgSslMode::VerifyFull);
        }
        if let Some(path) = authority {
            let weak = match options.get_ssl_mode() {
                PgSslMode::Disable => Some("disable"),
                PgSslMode::Allow => Some("allow"),
                PgSslMode::Prefer => Some("prefer"),
                PgSslMode::Require => Some("require"),
                PgSslMode::VerifyCa | PgSslMode::VerifyFull => None,
            };
            if let Some(weak) = weak {
                return Err(BadUrl::Unverified(weak));
            }
            let text = std::fs::read_to_string(path).unwrap_or_default();
            if !text.contains("-----BEGIN CERTIFICATE-----") {
                return Err(BadUrl::Authority(path.to_owned()));
            }
            *options = options.ssl_root_cert(path);
        }
        Ok(Self(Engine::Postgres(options)))
    }

    /// Only one node can use SQLite; roles that expect several ask this.
    pub fn is_sqlite(&self) -> bool {
        !matches!(self.0, Engine::Postgres(_))
    }
}

fn sqlite(rest: &str) -> Result<Engine, BadUrl> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    match path {
        "" | "/" => Err(BadUrl::NoPath),
        ":memory:" => Ok(Engine::Memory),
        _ if path.contains('?') => Err(BadUrl::Parameters),
        _ => Ok(Engine::File(path.into())),
    }
}

/// The parser's own words name the part that is wrong; its wrapper adds nothing.
fn describe_error(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Configuration(inner) => inner.to_string(),
        _ => "not a URL".to_owned(),
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Engine::File(path) => write!(f, "sqlite:{}", path.display()),
            Engine::Memory => f.write_str("sqlite::memory:"),
            Engine::Postgres(options) => {
                write!(f, "postgres://{}@", options.get_username())?;
                match options.get_socket() {
                    Some(socket) => write!(f, "{}", socket.display())?,
                    None => write!(f, "{}:{}", options.get_host(), options.get_port())?,
                }
                write!(f, "/{}", options.get_database().unwrap_or(options.get_username()))
            }
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, BadUrl> {
        DatabaseUrl::parse(text).map(|url| url.to_string())
    }

    #[test]
    fn both_engines() {
        for (text, want) in [
            ("sqlite:data/gateway.db", "sqlite:data/gateway.db"),
            ("sqlite:///var/lib/gateway.db", "sqlite:/var/lib/gateway.db"),
            ("sqlite::memory:", "sqlite::memory:"),
            ("sqlite://:memory:", "sqlite::memory:"),
            ("postgres://me:s3cret@db:6432/app", "postgres://me@db:6432/app"),
            ("postgresql://me@db/app?sslmode=require", "postgres://me@db:5432/app"),
        ] {
            assert_eq!(shown(text), Ok(want.to_owned()), "{text}");
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (text, want) in [
            ("data/gateway.db", BadUrl::NoScheme),
            ("C:\\data\\gateway.db", BadUrl::NoScheme),
            ("mysql://me@db/app", BadUrl::Scheme("mysql".into())),
            ("sqlite:", BadUrl::NoPath),
            ("sqlite:a.db?mode=ro", BadUrl::Parameters),
        ] {
            assert_eq!(shown(text), Err(want), "{text}");
        }
    }

    #[test]
    fn tls_is_asked_for_in_words() {
        let tls = |url: &str, mode, authority| DatabaseUrl::parse(url).unwrap().with_tls(mode, authority).map(|_| ());
        let (sqlite, postgres, nowhere) = ("sqlite:a.db", "postgres://me@db/app", Path::new("/no/such.pem"));
        for mode in ["disable", "prefer", "require", "verify-ca", "verify-full"] {
            assert_eq!(tls(postgres, Some(mode), None), Ok(()));
        }
        assert_eq!(tls(sqlite, None, None), Ok(()));
        assert_eq!(tls(sqlite, Some("require"), None), Err(BadUrl::TlsOfFile));
        assert_eq!(tls(postgres, Some("on"), None), Err(BadUrl::TlsMode("on".into())));
        assert_eq!(tls(postgres, Some("require"), Some(nowhere)), Err(BadUrl::Unverified("require")));
        assert_eq!(tls(postgres, None, Some(nowhere)), Err(BadUrl::Authority(nowhere.into())));
    }

    #[test]
    fn the_password_is_never_shown() {
        let url = DatabaseUrl::parse("postgres://me:s3cret@db/app").unwrap();
        assert!(!format!("{url} {url:?}").contains("s3cret"));
        let broken = DatabaseUrl::parse("postgres://me:s3cret@db:port/app").unwrap_err();
        assert!(!format!("{broken} {broken:?}").contains("s3cret"));
        assert!(broken.to_string().contains("port"), "{broken}");
        let broken = DatabaseUrl::parse("postgres://me:s3/cret@db/app").unwrap_err();
        assert!(!format!("{broken} {broken:?}").contains("cret"));
    }
}
