//! Every setting once: flag, environment variable, key of the settings file, default and help are one line.
//! Precedence: flag, environment, file, default. The only place that reads the environment.

pub(crate) mod aws;
pub(crate) mod mcp;

pub(crate) use crate::units::LogBodies;
use crate::units::{ListenAddress, ListenAddresses, Size, TimeSpan};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use gateway_admin::ProcessSetting;
use mcp::McpFile;
use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserializer, IntoDeserializer, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Which of the gateway's two halves a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    All,
    Proxy,
    Admin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// How a value is shown by `gateway check` and as the default in the help: lists with commas, secrets never.
trait Shown {
    /// What stands for it in the help, where its form has a unit.
    const FORM: Option<&'static str> = None;

    fn shown(&self) -> String;
}

macro_rules! shown_by_display {
    ($($ty:ty $(= $form:literal)?),+) => { $(impl Shown for $ty {
        $(const FORM: Option<&'static str> = Some($form);)?
        fn shown(&self) -> String { self.to_string() }
    })+ };
}
shown_by_display!(
    String,
    TimeSpan = "DURATION",
    Size = "SIZE",
    LogBodies,
    u64,
    usize,
    f64,
    bool,
    ListenAddresses = "HOST:PORT"
);

impl Shown for PathBuf {
    fn shown(&self) -> String {
        self.display().to_string()
    }
}

impl Shown for SocketAddr {
    const FORM: Option<&'static str> = Some("HOST:PORT");

    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for Vec<String> {
    fn shown(&self) -> String {
        if self.is_empty() { "none".to_owned() } else { self.join(",") }
    }
}

impl Role {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Proxy => "proxy",
            Self::Admin => "admin",
        }
    }
}

impl Shown for Role {
    fn shown(&self) -> String {
        self.name().to_owned()
    }
}

impl Shown for LogFormat {
    fn shown(&self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

impl<T: Shown> Shown for Option<T> {
    const FORM: Option<&'static str> = T::FORM;

    fn shown(&self) -> String {
        self.as_ref().map_or_else(|| "none".to_owned(), Shown::shown)
    }
}

/// One line of `gateway check`.
#[derive(Debug)]
pub(crate) struct Effective {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) source: &'static str,
}

impl Effective {
    /// The setting as the admin port tells it, with hyphens in its name.
    pub(crate) fn to_process_setting(&self) -> ProcessSetting {
        ProcessSetting { name: self.name.replace('_', "-"), value: self.value.clone(), source: self.source }
    }
}

/// What the help says of one flag: how its values are written, and its default.
struct HelpLine {
    id: &'static str,
    form: Option<&'static str>,
    default: fn() -> String,
}

/// Adds the default of each flag and how its values are written to the help.
pub(crate) fn explained(mut command: Command) -> Command {
    for line in HELP {
        if !command.get_arguments().any(|arg| arg.get_id() == line.id) {
            continue;
        }
        command = command.mut_arg(line.id, |arg| {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let told = help.contains("[default:");
            let arg = if let Some(form) = line.form { arg.value_name(form) } else { arg };
            if told { arg } else { arg.help(format!("{help} [default: {}]", (line.default)())) }
        });
    }
    let inner: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let units = "DURATION is 500ms, 30s, 5m or 2h; a bare number is seconds. SIZE is in bytes, or 64KiB, 16MiB, 1GiB: \
                 k, kb and KiB all mean 1,024 bytes.";
    inner.into_iter().fold(command.after_help(units), |command, name| command.mut_subcommand(name, explained))
}

macro_rules! settings {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident: [$($flag:tt)+] as $ty:ty = $default:expr, $env:literal in $heading:literal $(, secret $secret:literal)? $(, list $list:literal)? ;
    )+) => {
        /// What the command line, the environment or the file may say; all optional.
        #[derive(Debug, Default, clap::Args, Deserialize)]
        #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
        pub(crate) struct SettingsFlags {
            $(
                $(#[doc = $doc])+
                #[arg(long, env = $env, hide_env_values = true, help_heading = $heading, value_delimiter = None)]
                $(#[serde(deserialize_with = $list)])?
                pub(crate) $name: $($flag)+,
            )+
            /// The part that only the settings file can have.
            #[arg(skip)]
            mcp: McpFile,
        }

        /// What is in force.
        #[derive(Clone, Debug)]
        pub(crate) struct Settings {
            $($(#[doc = $doc])+ pub(crate) $name: $ty,)+
            /// Programs that MCP integrations may name.
            pub(crate) mcp: McpFile,
        }

        /// What the help says of each setting beside its own words, which win where they tell the default.
        const HELP: &[HelpLine] = &[$(
            HelpLine { id: stringify!($name), form: <$ty as Shown>::FORM, default: || { let it: $ty = $default; it.shown() } },
        )+];

        impl Settings {
            /// Merges what was given over the defaults, and tells where each value came from.
            pub(crate) fn resolve(
                flags: SettingsFlags,
                file: SettingsFlags,
                matches: Option<&ArgMatches>,
            ) -> (Self, Vec<Effective>) {
                let mut effective = Vec::new();
                let settings = Self {$(
                    $name: {
                        let given = flags.$name.is_some();
                        let from_file = file.$name.is_some();
                        let value: $ty = match flags.$name.or(file.$name) {
                            Some(v) => v.into(),
                            None => $default,
                        };
                        let source = match matches.and_then(|m| m.value_source(stringify!($name))) {
                            Some(ValueSource::EnvVariable) if given => "environment",
                            _ if given => "flag",
                            _ if from_file => "file",
                            _ => "default",
                        };
                        let hidden = false $(|| $secret)?;
                        let value_shown = if hidden && given | from_file { "***".to_owned() } else { value.shown() };
                        effective.push(Effective { name: stringify!($name), value: value_shown, source });
                        value
                    },
                )+ mcp: file.mcp };
                (settings, effective)
            }
        }
    };
}

settings! {
    /// Proxy port (repeatable); of a name such as localhost the first address, IPv4 before IPv6
    listen: [Option<Vec<ListenAddress>>] as ListenAddresses = ListenAddresses::loopback(8787), "GATEWAY_LISTEN" in "Listening", list "one_or_more";
    /// Admin API, console, /metrics, /health/live and /health/ready
    admin_listen: [Option<ListenAddress>] as SocketAddr = SocketAddr::from(([127, 0, 0, 1], 8790)), "GATEWAY_ADMIN_LISTEN" in "Listening";
    /// Certificate chain (PEM) of the proxy port; turns on HTTPS and HTTP/2
    tls_cert: [Option<PathBuf>] as Option<PathBuf> = None, "GATEWAY_TLS_CERT" in "Listening";
    /// Private key (PEM) of the proxy port
    tls_key: [Option<PathBuf>] as Option<PathBuf> = None, "GATEWAY_TLS_KEY" in "Listening";
    /// What this process runs
    role: [Option<Role>] as Role = Role::All, "GATEWAY_ROLE" in "Listening";
    /// Slug of the deployment that this process is a node of: of each organisation it serves the workspaces that this
    /// allows [default: none, all are served]
    deployment: [Option<String>] as Option<String> = None, "GATEWAY_DEPLOYMENT" in "Listening";
    /// Proxy worker threads [default: number of cores]
    threads: [Option<usize>] as usize = std::thread::available_parallelism().map_or(1, usize::from), "GATEWAY_THREADS" in "Listening";
    /// Further header prefix accepted and answered beside x-gateway- (repeatable), e.g. x-acme-
    header_alias: [Option<Vec<String>>] as Vec<String> = Vec::new(), "GATEWAY_HEADER_ALIAS" in "Listening", list "one_or_more";
    /// Addresses or CIDRs whose X-Forwarded-For is believed (repeatable)
    trusted_proxies: [Option<Vec<String>>] as Vec<String> = Vec::new(), "GATEWAY_TRUSTED_PROXIES" in "Listening", list "one_or_more";
    /// Origins whose web pages may call the proxy port from a browser, such as https://app.example.com, or *
    /// (repeatable, or with commas)
    cors_origins: [Option<Vec<String>>] as Vec<String> = Vec::new(), "GATEWAY_CORS_ORIGINS" in "Listening", list "one_or_more";
    /// Origins whose web pages may call MCP servers, such as https://app.example.com (repeatable, or with commas); that
    /// of --public-url always may
    mcp_allowed_origins: [Option<Vec<String>>] as Vec<String> = Vec::new(), "GATEWAY_MCP_ALLOWED_ORIGINS" in "Listening", list "one_or_more";
    /// Issuers, such as https://login.example.com, to whom clients of MCP servers are sent to sign in; needs
    /// --public-url (repeatable, or with commas)
    mcp_authorization_servers: [Option<Vec<String>>] as Vec<String> = Vec::new(), "GATEWAY_MCP_AUTHORIZATION_SERVERS" in "Listening", list "one_or_more";
    /// Serve clients of MCP servers that speak as of 2024-11-05, over /{slug}/sse and /{slug}/messages; their streams
    /// lie on one node
    mcp_legacy_sse: [Option<bool>] as bool = false, "GATEWAY_MCP_LEGACY_SSE" in "Listening";
    /// Where browsers reach this installation, for links in answers, e.g. https://ai.example.com [default: the host
    /// asked, over http]
    public_url: [Option<String>] as Option<String> = None, "GATEWAY_PUBLIC_URL" in "Listening";
    /// Base URL of the admin service that role `proxy` hands control-plane routes to; without it they are 404
    admin_upstream: [Option<String>] as Option<String> = None, "GATEWAY_ADMIN_UPSTREAM" in "Listening";

    /// Token of services that list configs on the Admin API, at least 32 characters [default: none]
    data_service_token: [Option<String>] as Option<String> = None, "GATEWAY_DATA_SERVICE_TOKEN" in "Listening", secret true;

    /// SQLite files, last-good.db, master key
    data_dir: [Option<PathBuf>] as PathBuf = PathBuf::from("./data"), "GATEWAY_DATA_DIR" in "Storage";
    /// sqlite:<path> or postgres://… [default: SQLite in the data dir]
    database_url: [Option<String>] as Option<String> = None, "GATEWAY_DATABASE_URL" in "Storage", secret true;
    /// How Postgres has to prove itself: disable, prefer, require, verify-ca or verify-full [default: the URL's
    /// sslmode, else prefer]
    database_tls: [Option<String>] as Option<String> = None, "GATEWAY_DATABASE_TLS" in "Storage";
    /// Certificates (PEM) of the authority that signed Postgres' own; asks for verify-full unless told otherwise
    database_tls_ca: [Option<PathBuf>] as Option<PathBuf> = None, "GATEWAY_DATABASE_TLS_CA" in "Storage";
    /// Connections to Postgres (DB_POOL_SIZE is honoured too)
    db_pool_size: [Option<u64>] as u64 = 12, "GATEWAY_DB_POOL_SIZE" in "Storage";
    /// File with the 32-byte key that secrets are sealed with [default: master.key in the data dir]
    master_key_file: [Option<PathBuf>] as Option<PathBuf> = None, "GATEWAY_MASTER_KEY_FILE" in "Storage";
    /// Where files, results and exports lie: s3://bucket/prefix?region=…, file:///folder, rows: (repeatable; new ones
    /// go to the first) [default: rows of the database]
    blob_url: [Option<Vec<String>>] as Vec<String> = Vec::new(), "GATEWAY_BLOB_URL" in "Storage", secret true, list "one_or_more";
    /// Bytes of files, results of batches and exports that are kept of one organisation; an upload beyond is refused
    file_store_max: [Option<Size>] as Size = Size::mib(10_240), "GATEWAY_FILE_STORE_MAX" in "Storage";
    /// Where what is kept of messages lies, beside the log store: s3://bucket/prefix?region=…, file:///folder
    /// (repeatable; new ones go to the first) [default: in the log store]
    log_bodies_url: [Option<Vec<String>>] as Vec<String> = Vec::new(), "GATEWAY_LOG_BODIES_URL" in "Storage", secret true, list "one_or_more";
    /// redis://[user:password@]host:port[/db], rediss:// for TLS, several with commas for a cluster: shared counters
    /// and cache
    redis_url: [Option<String>] as Option<String> = None, "GATEWAY_REDIS_URL" in "Storage", secret true;
    /// Longest wait for an answer of Redis on a request's path
    redis_timeout: [Option<TimeSpan>] as TimeSpan = TimeSpan::millis(100), "GATEWAY_REDIS_TIMEOUT" in "Storage";
    /// How often a node asks the database for changes
    config_poll: [Option<TimeSpan>] as TimeSpan = TimeSpan::millis(500), "GATEWAY_CONFIG_POLL" in "Storage";
    /// Admin key of the first organisation, first run only, at least 32 characters [default: generated, printed once]
    bootstrap_admin_key: [Option<String>] as Option<String> = None, "GATEWAY_BOOTSTRAP_ADMIN_KEY" in "Storage", secret true;
    /// Workspace key of the first workspace, first run only, at least 32 characters [default: generated, printed once]
    bootstrap_workspace_key: [Option<String>] as Option<String> = None, "GATEWAY_BOOTSTRAP_WORKSPACE_KEY" in "Storage", secret true;

    /// Largest JSON body; more is 413. Relayed bodies stream and are not capped
    max_body: [Option<Size>] as Size = Size::mib(64), "GATEWAY_MAX_BODY" in "Limits";
    /// Bytes of bodies held in memory at once; more is 503 before reading
    max_buffered_bytes: [Option<Size>] as Size = Size::mib(1024), "GATEWAY_MAX_BUFFERED_BYTES" in "Limits";
    /// Answers kept in memory by the response cache, in bytes; 0 keeps none
    cache_max: [Option<Size>] as Size = Size::mib(128), "GATEWAY_CACHE_MAX" in "Limits";
    /// How long a response is kept that was made of an answer of a provider without the Responses API, for clients that
    /// go on from it by its id; 0 keeps none
    responses_keep: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(3600), "GATEWAY_RESPONSES_KEEP" in "Limits";
    /// Bytes of such responses in memory; the oldest go first
    responses_keep_max: [Option<Size>] as Size = Size::mib(64), "GATEWAY_RESPONSES_KEEP_MAX" in "Limits";
    /// Requests served at once, over all connections; more are 503. 0 is no limit
    max_connections: [Option<usize>] as usize = 0, "GATEWAY_MAX_CONNECTIONS" in "Limits";
    /// Connections of clients that may be open at once on the proxy port; more make idle ones leave, or are closed. 0
    /// is half of the file descriptors that are left
    max_open_connections: [Option<usize>] as usize = 0, "GATEWAY_MAX_OPEN_CONNECTIONS" in "Limits";
    /// Requests from one address in a second, on the proxy port; more are 429. 0 is no limit
    address_rate: [Option<u64>] as u64 = 0, "GATEWAY_ADDRESS_RATE" in "Limits";
    /// Requests with unknown keys from one address in a second before the rest is refused unseen. 0 is no limit
    unknown_key_rate: [Option<u64>] as u64 = 50, "GATEWAY_UNKNOWN_KEY_RATE" in "Limits";
    /// Connections to MCP servers over SSE that may be open at once; idle ones make room, then calls are 503
    mcp_connections: [Option<usize>] as usize = 1000, "GATEWAY_MCP_CONNECTIONS" in "Limits";
    /// Programs of MCP integrations (stdio) that may run at once; idle ones make room, then calls are 503
    mcp_programs: [Option<usize>] as usize = 64, "GATEWAY_MCP_PROGRAMS" in "Limits";
    /// Calls over WebRTC and SIP that this node may watch at once; beyond that they are 503
    realtime_calls: [Option<usize>] as usize = 1000, "GATEWAY_REALTIME_CALLS" in "Limits";
    /// Idle upstream connections kept for each target and thread
    upstream_pool_size: [Option<usize>] as usize = 256, "GATEWAY_UPSTREAM_POOL_SIZE" in "Limits";
    /// Refuse inline config, provider and host selection for every organisation
    block_inline_config: [Option<bool>] as bool = false, "GATEWAY_BLOCK_INLINE_CONFIG" in "Limits";
    /// Hosts or CIDRs that custom hosts may reach though private (repeatable, or with commas)
    trusted_custom_hosts: [Option<Vec<String>>] as Vec<String> = Vec::new(), "GATEWAY_TRUSTED_CUSTOM_HOSTS" in "Limits", list "one_or_more";

    /// Base URL of Google's metadata service, for integrations that use the identity of the machine
    google_metadata_url: [Option<String>] as String = "http://metadata.google.internal".to_owned(), "GATEWAY_GOOGLE_METADATA_URL" in "Clouds";
    /// Base URL of Azure's metadata service, for the same
    azure_metadata_url: [Option<String>] as String = "http://169.254.169.254".to_owned(), "GATEWAY_AZURE_METADATA_URL" in "Clouds";
    /// Endpoint of the identity that App Service gives this process, in place of the metadata service
    /// (IDENTITY_ENDPOINT is honoured too)
    azure_identity_endpoint: [Option<String>] as Option<String> = None, "GATEWAY_AZURE_IDENTITY_ENDPOINT" in "Clouds";
    /// Its secret (IDENTITY_HEADER is honoured too)
    azure_identity_header: [Option<String>] as Option<String> = None, "GATEWAY_AZURE_IDENTITY_HEADER" in "Clouds", secret true;
    /// Where Microsoft Entra gives tokens; sovereign clouds have their own
    azure_authority: [Option<String>] as String = "https://login.microsoftonline.com".to_owned(), "GATEWAY_AZURE_AUTHORITY" in "Clouds";
    /// File with the token that Azure's workload identity gives this process (AZURE_FEDERATED_TOKEN_FILE is honoured
    /// too)
    azure_token_file: [Option<PathBuf>] as Option<PathBuf> = None, "GATEWAY_AZURE_TOKEN_FILE" in "Clouds";

    /// How often secrets of managers are read again, about
    secret_refresh: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(300), "GATEWAY_SECRET_REFRESH" in "Secrets";
    /// Let secret references of organisations sign in as this machine (cloud roles, managed identities, a cluster's
    /// token)
    secret_machine_identity: [Option<bool>] as bool = false, "GATEWAY_SECRET_MACHINE_IDENTITY" in "Secrets";
    /// Let secret references name variables of the environment that begin so [default: none]
    secret_env_prefix: [Option<String>] as Option<String> = None, "GATEWAY_SECRET_ENV_PREFIX" in "Secrets";
    /// Let secret references name files below this folder [default: none]
    secret_folder: [Option<PathBuf>] as Option<PathBuf> = None, "GATEWAY_SECRET_FOLDER" in "Secrets";
    /// Token that a cluster gives this machine, for logins at HashiCorp Vault
    kubernetes_token_file: [Option<PathBuf>] as PathBuf = PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount/token"), "GATEWAY_KUBERNETES_TOKEN_FILE" in "Secrets";

    /// Longest wait for a whole head from the client, from its first byte; for a TLS or HTTP/2 handshake too
    client_header_timeout: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(10), "GATEWAY_CLIENT_HEADER_TIMEOUT" in "Clocks";
    /// Longest silence of a new connection before its first byte
    client_idle_timeout: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(60), "GATEWAY_CLIENT_IDLE_TIMEOUT" in "Clocks";
    /// Longest silence of a connection between requests; keep it longer than that of the balancer before the gateway
    keepalive_timeout: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(75), "GATEWAY_KEEPALIVE_TIMEOUT" in "Clocks";
    /// Longest wait for a body from the client
    body_timeout: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(60), "GATEWAY_BODY_TIMEOUT" in "Clocks";
    /// Longest wait for a connection to an upstream
    connect_timeout: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(5), "GATEWAY_CONNECT_TIMEOUT" in "Clocks";
    /// Longest wait for the head of an upstream's answer
    first_byte_timeout: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(300), "GATEWAY_FIRST_BYTE_TIMEOUT" in "Clocks";
    /// Longest silence inside an upstream's answer, and of a client that does not read
    idle_timeout: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(120), "GATEWAY_IDLE_TIMEOUT" in "Clocks";
    /// Longest time for a whole request, all attempts together. 0 is no limit
    total_timeout: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(0), "GATEWAY_TOTAL_TIMEOUT" in "Clocks";
    /// Longest time that a stream's head is held back for its first content
    stream_hold: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(10), "GATEWAY_STREAM_HOLD" in "Clocks";
    /// Silence of a provider inside a stream after which the client gets a comment. 0 is never
    stream_keepalive: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(15), "GATEWAY_STREAM_KEEPALIVE" in "Clocks";
    /// Longest silence of an MCP server inside a call
    mcp_timeout: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(60), "GATEWAY_MCP_TIMEOUT" in "Clocks";
    /// Longest time for a call of an MCP server, however much it says
    mcp_max_time: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(900), "GATEWAY_MCP_MAX_TIME" in "Clocks";
    /// How often an MCP server is asked again what it offers; 0 asks only when somebody wants it
    mcp_sync_interval: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(900), "GATEWAY_MCP_SYNC_INTERVAL" in "Clocks";
    /// How long a list of an MCP server that keeps no sessions is kept, if the server does not say otherwise; 0 keeps
    /// none
    mcp_list_ttl: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(60), "GATEWAY_MCP_LIST_TTL" in "Clocks";
    /// How long a connection to an MCP server over SSE or to a program stays open that nobody uses
    mcp_connection_idle: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(300), "GATEWAY_MCP_CONNECTION_IDLE" in "Clocks";
    /// How long a session with an MCP server lasts
    mcp_session_ttl: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(86_400), "GATEWAY_MCP_SESSION_TTL" in "Clocks";

    /// Longest silence of a realtime session, in both directions
    realtime_idle: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(900), "GATEWAY_REALTIME_IDLE" in "Clocks";
    /// Longest time for a realtime session, however much it says
    realtime_max_time: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(7200), "GATEWAY_REALTIME_MAX_TIME" in "Clocks";

    /// How long a node that runs a batch and fell silent is waited for, before another goes on
    batch_lease: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(90), "GATEWAY_BATCH_LEASE" in "Batches";
    /// Lines of one batch that are under way at once
    batch_parallel: [Option<usize>] as usize = 25, "GATEWAY_BATCH_PARALLEL" in "Batches";
    /// How often a provider is asked how a batch stands that it runs for the gateway
    batch_poll: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(60), "GATEWAY_BATCH_POLL" in "Batches";
    /// How soon a batch that a client made at a provider is looked at, so that it is counted though nobody else looks;
    /// 0 is never
    batch_watch: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(300), "GATEWAY_BATCH_WATCH" in "Batches";
    /// For how long such a batch is looked at
    batch_watch_time: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(8 * 86_400), "GATEWAY_BATCH_WATCH_TIME" in "Batches";
    /// Times that a line of a batch is asked again after a 429 or 5xx of its provider, or no answer
    batch_retries: [Option<u64>] as u64 = 3, "GATEWAY_BATCH_RETRIES" in "Batches";

    /// After SIGTERM: how long listeners stay open with readiness at 503
    shutdown_delay: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(0), "GATEWAY_SHUTDOWN_DELAY" in "Shutdown and upgrade";
    /// After listeners closed: longest wait for requests in flight
    drain_timeout: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(60), "GATEWAY_DRAIN_TIMEOUT" in "Shutdown and upgrade";
    /// Socket that listeners are handed over on
    upgrade_sock: [Option<PathBuf>] as PathBuf = PathBuf::from("/tmp/gateway-upgrade.sock"), "GATEWAY_UPGRADE_SOCK" in "Shutdown and upgrade";

    /// Where records go: sqlite:<folder>, postgres://…, clickhouse://…; null: and off: are for measurements [default:
    /// with the configuration]
    log_store_url: [Option<String>] as Option<String> = None, "GATEWAY_LOG_STORE_URL" in "Records", secret true;
    /// Days that request logs are shown and their bodies kept. 0 is for ever
    log_retention_days: [Option<u64>] as u64 = 90, "GATEWAY_LOG_RETENTION_DAYS" in "Records";
    /// Days that records are kept for analytics. 0 is for ever
    metrics_retention_days: [Option<u64>] as u64 = 365, "GATEWAY_METRICS_RETENTION_DAYS" in "Records";
    /// Records of one export; the newest, where more match
    export_max_rows: [Option<u64>] as u64 = 10_000_000, "GATEWAY_EXPORT_MAX_ROWS" in "Records";
    /// Bytes of records on disk that wait for the log store; beyond it the oldest are dropped and counted
    journal_max: [Option<Size>] as Size = Size::mib(1024), "GATEWAY_JOURNAL_MAX" in "Records";

    /// Where alerts of budgets are sent as JSON [default: only the audit trail]
    alert_webhook: [Option<String>] as Option<String> = None, "GATEWAY_ALERT_WEBHOOK" in "Records", secret true;
    /// How often alert rules are looked at
    alert_interval: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(60), "GATEWAY_ALERT_INTERVAL" in "Records";
    /// Server that takes mails of alerts: smtps://user:password@host, or smtp://host:587?tls=required
    smtp_url: [Option<String>] as Option<String> = None, "GATEWAY_SMTP_URL" in "Records", secret true;
    /// Address that mails of alerts come from; needed with --smtp-url
    smtp_from: [Option<String>] as Option<String> = None, "GATEWAY_SMTP_FROM" in "Records";

    /// Log lines as text or JSON [default: text on a terminal, else json]
    log_format: [Option<LogFormat>] as Option<LogFormat> = None, "GATEWAY_LOG_FORMAT" in "Logging";
    /// Filter of log lines, as tracing-subscriber reads it
    log_level: [Option<String>] as String = "info".to_owned(), "GATEWAY_LOG_LEVEL" in "Logging";
    /// Calls whose bodies and headers records keep: errors, all, none, or a share of all such as 0.1 beside the errors
    log_bodies: [Option<LogBodies>] as LogBodies = LogBodies::Errors, "GATEWAY_LOG_BODIES" in "Logging";
    /// Headers whose values records hold as hashes, though harmless (repeatable, or with commas)
    log_headers_hashed: [Option<Vec<String>>] as Vec<String> = Vec::new(), "GATEWAY_LOG_HEADERS_HASHED" in "Logging", list "one_or_more";
    /// Headers whose values records show, though not known to be harmless (repeatable, or with commas)
    log_headers_shown: [Option<Vec<String>>] as Vec<String> = Vec::new(), "GATEWAY_LOG_HEADERS_SHOWN" in "Logging", list "one_or_more";
    /// Labels of request metrics beyond the bounded ones: model, config_name, api_key_name, workspace, metadata_<key>
    metrics_labels: [Option<Vec<String>>] as Vec<String> = Vec::new(), "GATEWAY_METRICS_LABELS" in "Telemetry", list "one_or_more";
    /// Labels that every metric carries: app=gateway,env=production
    metrics_const_labels: [Option<Vec<String>>] as Vec<String> = Vec::new(), "GATEWAY_METRICS_CONST_LABELS" in "Telemetry", list "one_or_more";
    /// Base URL of an OpenTelemetry collector (OTLP, http/protobuf); traces and metrics go below it to /v1/traces and
    /// /v1/metrics
    otlp_endpoint: [Option<String>] as Option<String> = None, "GATEWAY_OTLP_ENDPOINT" in "Telemetry";
    /// Headers for the collector: name=value,name=value
    otlp_headers: [Option<String>] as Option<String> = None, "GATEWAY_OTLP_HEADERS" in "Telemetry", secret true;
    /// How often metrics are sent to the collector
    otlp_interval: [Option<TimeSpan>] as TimeSpan = TimeSpan::secs(15), "GATEWAY_OTLP_INTERVAL" in "Telemetry";
    /// Share of traces that begin here which are exported; those that a client began are as it says
    otlp_sample: [Option<f64>] as f64 = 1.0, "GATEWAY_OTLP_SAMPLE" in "Telemetry";
    /// Attributes of the resource, beside service.name and the like: name=value,name=value
    otlp_resource: [Option<Vec<String>>] as Vec<String> = Vec::new(), "GATEWAY_OTLP_RESOURCE" in "Telemetry", list "one_or_more";

    /// One line on standard output for each request
    access_log: [Option<bool>] as bool = true, "GATEWAY_ACCESS_LOG" in "Logging";
}

/// A list in a settings file may be one value.
fn one_or_more<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<Vec<T>>, D::Error> {
    struct Listed<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Listed<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text or a list of texts")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
            T::deserialize(text.into_deserializer()).map(|one| vec![one])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Vec<T>, A::Error> {
            Deserialize::deserialize(SeqAccessDeserializer::new(seq))
        }
    }
    d.deserialize_any(Listed(PhantomData)).map(Some)
}

/// Reads a settings file; `None` gives an empty one.
pub(crate) fn read_file(path: Option<&Path>) -> Result<SettingsFlags, String> {
    let Some(path) = path else { return Ok(SettingsFlags::default()) };
    let text =
        std::fs::read_to_string(path).map_err(|e| format!("cannot read settings file {}: {e}", path.display()))?;
    toml::from_str(&text).map_err(|e| format!("settings file {}: {e}", path.display()))
}

impl SettingsFlags {
    /// Names of the contract and of Azure's platforms count as environment values of the flags that nobody gave.
    pub(crate) fn adopt_foreign_names(&mut self) -> Result<(), String> {
        #[expect(clippy::disallowed_methods, reason = "this module is the one that reads the environment")]
        let named = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        if self.db_pool_size.is_none()
            && let Some(text) = named("DB_POOL_SIZE")
        {
            let size = text.parse().map_err(|_| format!("DB_POOL_SIZE must be a number, not `{text}`"))?;
            self.db_pool_size = Some(size);
        }
        // Other platforms set one without the other, and mean something else by it.
        if self.azure_identity_endpoint.is_none()
            && self.azure_identity_header.is_none()
            && let Some((endpoint, header)) = named("IDENTITY_ENDPOINT").zip(named("IDENTITY_HEADER"))
        {
            (self.azure_identity_endpoint, self.azure_identity_header) = (Some(endpoint), Some(header));
        }
        self.azure_token_file =
            self.azure_token_file.take().or_else(|| named("AZURE_FEDERATED_TOKEN_FILE").map(Into::into));
        Ok(())
    }
}

impl Settings {
    /// What cannot be said by a type.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return Err("--tls-cert and --tls-key must be given together".into());
        }
        if self.azure_identity_endpoint.is_some() != self.azure_identity_header.is_some() {
            return Err("--azure-identity-endpoint and --azure-identity-header must be given together".into());
        }
        if !(0.0..=1.0).contains(&self.otlp_sample) {
            return Err("--otlp-sample must be a number of 0..1".into());
        }
        if self.threads == 0 {
            return Err("--threads must be at least 1".into());
        }
        for (name, clock) in [
            ("client-header", self.client_header_timeout),
            ("client-idle", self.client_idle_timeout),
            ("keepalive", self.keepalive_timeout),
        ] {
            if clock.0.is_zero() {
                return Err(format!("--{name}-timeout must be more than 0"));
            }
        }
        let sqlite = self.database_url.as_deref().is_none_or(|u| u.starts_with("sqlite:"));
        if self.role != Role::All && sqlite {
            return Err(format!(
                "--role {} needs a shared database: give --database-url postgres://…",
                self.role.shown()
            ));
        }
        self.check_records()?;
        self.mcp.check()?;
        for (name, key) in [("admin", &self.bootstrap_admin_key), ("workspace", &self.bootstrap_workspace_key)] {
            if key.as_ref().is_some_and(|k| k.len() < 32) {
                return Err(format!("--bootstrap-{name}-key must be at least 32 characters"));
            }
        }
        if self.data_service_token.as_ref().is_some_and(|t| t.len() < 32) {
            return Err("--data-service-token must be at least 32 characters".into());
        }
        if let Some(url) = &self.public_url {
            let web = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
            if web.is_none_or(|rest| rest.is_empty() || rest.contains(['?', '#']) || rest.contains(char::is_whitespace))
            {
                return Err(format!("--public-url `{url}` must be an http: or https: URL without query or fragment"));
            }
        }
        for alias in &self.header_alias {
            let valid = alias.len() >= 3
                && alias.ends_with('-')
                && alias.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            if !valid {
                return Err(format!(
                    "--header-alias `{alias}` must be a header prefix that ends in `-`, such as x-acme-"
                ));
            }
        }
        Ok(())
    }

    fn check_records(&self) -> Result<(), String> {
        let apart = self.log_store_url.as_deref().is_some_and(|url| url.starts_with("sqlite:"));
        if self.role != Role::All && apart {
            return Err(format!(
                "--role {} needs a log store that all nodes share: give --log-store-url postgres://… or clickhouse://…",
                self.role.shown()
            ));
        }
        let days = |n: u64| if n == 0 { u64::MAX } else { n };
        if days(self.metrics_retention_days) < days(self.log_retention_days) {
            return Err("--metrics-retention-days must be at least --log-retention-days".into());
        }
        Ok(())
    }
}
/// What the names in a configuration document stand for.
pub(crate) fn document_secrets() -> BTreeMap<String, String> {
    std::env::vars().filter(|(name, _)| name.starts_with("GATEWAY_SECRET_")).collect()
}
