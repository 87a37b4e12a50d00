//! The way to one ClickHouse server: its maintained client over HTTP, rows in and out in RowBinary, values only ever as
//! parameters, a deadline on each call on both sides, and a bound on what is read of an answer.

use super::row_binary::RowsOut;
use super::server_url::{BadColumnsUrl, ColumnsUrl};
use crate::database::DatabaseOptions;
use crate::session::Value;
use bytes::Bytes;
use clickhouse::query::Query;
use clickhouse::{Client, error::Error};
use gateway_domain::ports::StoreError;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::{Client as HyperClient, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use std::fmt;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// No page and no sums come near it: a thousand records are weighed before they are read.
const LONGEST_ANSWER: usize = 256 << 20;

/// Bytes that are given to the connection at once.
const CHUNK: usize = 1 << 20;

/// Characters that are kept of what the server says when it refuses.
const LONGEST_WHY: usize = 400;

/// Idle connections are let go before the server does it, which by default is after ten seconds, or three in old ones.
const IDLE: Duration = Duration::from_secs(2);

/// Errors by which a server says that it is too busy, too full or not well, or that it does not let us in: records
/// wait until somebody has seen to it. (ClickHouse, `src/Common/ErrorCodes.cpp`.)
const PASSING: [u32; 22] =
    [3, 60, 81, 159, 160, 192, 193, 194, 201, 202, 209, 210, 236, 241, 242, 243, 252, 285, 319, 425, 497, 516];
const TOO_SLOW: u32 = 159;
const NO_TABLE: u32 = 60;

pub(super) struct ServerLink {
    client: Client,
    call_timeout: Duration,
}

impl fmt::Debug for ServerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerLink").finish_non_exhaustive()
    }
}

/// Why the server did not do what it was asked.
#[derive(Debug)]
pub(super) struct ServerSays {
    code: Option<u32>,
    why: StoreError,
}

impl ServerSays {
    pub(super) fn is_of_no_table(&self) -> bool {
        self.code == Some(NO_TABLE)
    }

    pub(super) fn is_of_time(&self) -> bool {
        self.code == Some(TOO_SLOW)
    }

    fn late() -> Self {
        Self { code: Some(TOO_SLOW), why: StoreError::Unavailable("ClickHouse did not answer in time".to_owned()) }
    }

    fn of(error: &Error) -> Self {
        let code = match error {
            Error::BadResponse(text) => text.split_once("Code: ").and_then(|(_, rest)| {
                rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok())
            }),
            _ => None,
        };
        let mut text = format!("ClickHouse: {error}");
        if let Some(inner) = std::error::Error::source(error) {
            let _ = write!(text, ": {inner}");
        }
        if let Some((end, _)) = text.char_indices().nth(LONGEST_WHY) {
            text.truncate(end);
        }
        let is_refused = matches!(error, Error::BadResponse(_)) && code.is_some_and(|code| !PASSING.contains(&code));
        let is_ours = matches!(error, Error::InvalidParams(_) | Error::Custom(_) | Error::Other(_));
        let why = if is_refused || is_ours { StoreError::Broken(text) } else { StoreError::Unavailable(text) };
        Self { code, why }
    }
}

impl From<ServerSays> for StoreError {
    fn from(refusal: ServerSays) -> Self {
        refusal.why
    }
}

impl ServerLink {
    pub(super) fn open(url: &ColumnsUrl, options: &DatabaseOptions) -> Result<Self, BadColumnsUrl> {
        let mut plain = HttpConnector::new();
        plain.set_connect_timeout(Some(options.connect_timeout));
        plain.set_keepalive(Some(Duration::from_secs(60)));
        plain.set_nodelay(true);
        let mut http = HyperClient::builder(TokioExecutor::new());
        http.pool_idle_timeout(IDLE).pool_timer(hyper_util::rt::TokioTimer::new());
        let client = if url.is_secured {
            plain.enforce_http(false);
            let tls = match &url.authority {
                Some(path) => HttpsConnectorBuilder::new().with_tls_config(trusting(path)?),
                None => HttpsConnectorBuilder::new()
                    .with_provider_and_native_roots(default_provider())
                    .map_err(|_| BadColumnsUrl::NoAuthorities)?,
            };
            Client::with_http_client(http.build(tls.https_only().enable_http1().wrap_connector(plain)))
        } else {
            Client::with_http_client(http.build(plain))
        };
        let scheme = if url.is_secured { "https" } else { "http" };
        let client = client
            .with_url(format!("{scheme}://{}:{}", url.host, url.port))
            .with_user(&url.user)
            .with_password(&url.password)
            .with_database(&url.database);
        Ok(Self { client, call_timeout: options.call_timeout })
    }

    /// What a SELECT with `$n` for its values answers, as RowBinary.
    pub(super) async fn rows(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<u8>, ServerSays> {
        self.answer(self.ask(sql, values), self.call_timeout).await
    }

    /// A question to which the caller has more to say.
    pub(super) fn ask(&self, sql: &str, values: &[Value<'_>]) -> Query {
        bound(&self.client, sql, values)
    }

    pub(super) async fn answer(&self, query: Query, time: Duration) -> Result<Vec<u8>, ServerSays> {
        let query = limited(query, time);
        let read = async {
            let mut cursor = query.fetch_bytes("RowBinary")?;
            let mut answer = Vec::new();
            while let Some(piece) = cursor.next().await? {
                if answer.len() + piece.len() > LONGEST_ANSWER {
                    return Err(Error::Custom(format!("an answer has more than {LONGEST_ANSWER} bytes")));
                }
                answer.extend_from_slice(&piece);
            }
            Ok(answer)
        };
        finished(timeout(time, read).await)
    }

    /// A statement of our own, without values.
    pub(super) async fn run(&self, sql: &str) -> Result<(), ServerSays> {
        let query = limited(self.client.query_raw(sql), self.call_timeout);
        finished(timeout(self.call_timeout, query.execute()).await)
    }

    /// An INSERT from a SELECT, over as many days as there are.
    pub(super) async fn copy(&self, query: Query) -> Result<(), ServerSays> {
        self.copy_within(query, self.call_timeout).await
    }

    pub(super) async fn copy_within(&self, query: Query, time: Duration) -> Result<(), ServerSays> {
        let query = limited(query, time).with_setting("max_partitions_per_insert_block", "0");
        finished(timeout(time, query.execute()).await)
    }

    /// One statement for all rows: it ends when they are stored.
    pub(super) async fn insert(&self, sql: String, rows: RowsOut) -> Result<(), ServerSays> {
        let write = async {
            let mut insert = self.client.insert_formatted_with(sql);
            for (name, value) in [
                // What was answered for has to be there.
                ("async_insert", "0"),
                // A journal that waited long holds many days.
                ("max_partitions_per_insert_block", "0"),
            ] {
                insert = insert.with_setting(name, value);
            }
            let mut rows = Bytes::from(rows.into_bytes());
            while !rows.is_empty() {
                insert.send(rows.split_to(CHUNK.min(rows.len()))).await?;
            }
            insert.end().await
        };
        finished(timeout(self.call_timeout, write).await)
    }
}

fn limited(query: Query, time: Duration) -> Query {
    // The server counts in seconds, and gives up by itself on what nobody waits for.
    let seconds = time.as_secs().saturating_add(1).to_string();
    query
        .with_setting("max_execution_time", seconds)
        .with_setting("do_not_merge_across_partitions_select_final", "1")
        .with_setting("use_skip_indexes_if_final", "1")
        // A question whose time is up is dropped with its connection.
        .with_setting("cancel_http_readonly_queries_on_client_close", "1")
}

fn finished<T>(outcome: Result<Result<T, Error>, tokio::time::error::Elapsed>) -> Result<T, ServerSays> {
    match outcome {
        Ok(done) => done.map_err(|error| ServerSays::of(&error)),
        Err(_) => Err(ServerSays::late()),
    }
}

/// `$n` becomes a typed parameter of the server's.
fn bound(client: &Client, sql: &str, values: &[Value<'_>]) -> Query {
    let mut text = String::with_capacity(sql.len() + values.len() * 12);
    let mut parts = sql.split('$');
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = part.split_at(digits);
        let kind = match number.parse::<usize>().ok().and_then(|n| values.get(n.wrapping_sub(1))) {
            Some(Value::Int(_)) => "Int64",
            _ => "String",
        };
        let _ = write!(text, "{{v{number}:{kind}}}{rest}");
    }
    let mut query = client.query_raw(&text);
    for (at, value) in values.iter().enumerate() {
        let name = format!("v{}", at + 1);
        query = match value {
            Value::Text(value) => query.param(&name, value.as_deref().unwrap_or_default()),
            Value::Int(value) => query.param(&name, value.unwrap_or_default()),
        };
    }
    query
}

/// Servers that this authority signed for, and no other.
fn trusting(path: &Path) -> Result<ClientConfig, BadColumnsUrl> {
    let none = || BadColumnsUrl::Authority(path.to_owned());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|_| none())? {
        roots.add(certificate.map_err(|_| none())?).map_err(|_| none())?;
    }
    if roots.is_empty() {
        return Err(none());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(|_| none())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
