//! What the control plane is made of: ports and facts, handed in by the program.
//! Knows no backend, no socket and no settings file.

use crate::account_cache::KeptAccounts;
use crate::pending_syncs::WantedSyncs;
use gateway_domain::catalog::Catalog;
use gateway_domain::config::breaker::BreakerStatus;
use gateway_domain::egress::Trusted;
use gateway_domain::keys::KeyHash;
use gateway_domain::ports::{
    AlertStandings, BatchOutputs, Blobs, ConfigStore, CredentialTrials, Directory, Doorkeeper, Explanations, Exports,
    Feedbacks, GuardrailTrials, History, Jobs, KeptAnswers, KeyLimits, KeyUses, Live, Mailer, McpAccounts, McpLines,
    NodeRegistry, OauthStore, Outside, RecordClaims, RecordIntake, RecordQuery, RecordSums, Repricing, SecretStandings,
    Standings, TokenCounts, Tokens, Vault,
};
use gateway_domain::secret_source::SecretOpenings;
use gateway_domain::snapshot::{Build, ConfigEntry};
use gateway_domain::time::Timestamp;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use uuid::Uuid;

/// The client's address, put on each request by whoever accepted the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddr(pub IpAddr);

/// How limits are counted at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// There is one process, and it counts alone.
    Process,
    /// All nodes count together in Redis.
    Redis,
    /// Redis is out of reach: as each policy says, by default each node its share.
    RedisAway,
    /// Several nodes without Redis: each its share.
    Divided,
}

impl Counting {
    pub const ALL: [Self; 4] = [Self::Process, Self::Redis, Self::RedisAway, Self::Divided];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Redis => "redis",
            Self::RedisAway => "redis-away",
            Self::Divided => "divided",
        }
    }

    /// What health says of limits.
    pub const fn precision(self) -> &'static str {
        match self {
            Self::Process | Self::Redis => "exact",
            Self::RedisAway | Self::Divided => "approximate",
        }
    }
}

/// What the process can say of itself, for health and metrics.
pub trait Status: Send + Sync {
    /// `Err` says why no traffic should come: draining, or no configuration yet.
    fn ready(&self) -> Result<(), String>;
    fn version(&self) -> &str;
    fn counting(&self) -> Counting;
    /// Prometheus text format 0.0.4.
    fn metrics(&self) -> String;
    /// Each part as it is now; asks nobody outside the process.
    fn parts(&self) -> Vec<ComponentStatus>;
    /// How the targets of a config stand that have a circuit breaker, in its order. Empty: nothing is known.
    fn breakers(&self, _config: &ConfigEntry, _now_ms: i64) -> Vec<BreakerStatus> {
        Vec::new()
    }
}

/// A part of the process, as the status page tells of it.
#[derive(Clone, Debug, Default)]
pub struct ComponentStatus {
    pub name: &'static str,
    /// Why it does less than it should.
    pub trouble: Option<String>,
    pub facts: Map<String, Value>,
}

impl ComponentStatus {
    /// `facts` is an object.
    pub fn new(name: &'static str, facts: Value) -> Self {
        let facts = if let Value::Object(facts) = facts { facts } else { Map::new() };
        Self { name, trouble: None, facts }
    }

    #[must_use]
    pub fn troubled(mut self, why: Option<String>) -> Self {
        self.trouble = why;
        self
    }
}

/// A setting of the process, secrets blotted out.
#[derive(Clone, Debug)]
pub struct ProcessSetting {
    pub name: String,
    pub value: String,
    /// `flag`, `environment`, `file` or `default`.
    pub source: &'static str,
}

/// How many rows of a kind one holder may have, where each is compiled and kept in memory by every node.
#[derive(Clone, Copy, Debug)]
pub struct Quotas {
    /// Configs of one workspace.
    pub configs: usize,
    /// Guardrails of one workspace, and as many of the organisation itself; archived ones count.
    pub guardrails: usize,
    /// Secret references of one organisation.
    pub secret_references: usize,
    /// Answers to one organisation's writes of a day, which are kept for clients that send a write again.
    pub kept_answers: u64,
    pub directory: DirectoryBounds,
}

/// How much a directory may provision, all of it in the memory of every node, and how much one request of it may cost.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryBounds {
    /// Users of one organisation.
    pub users: usize,
    /// Groups of one organisation.
    pub groups: usize,
    /// Members of one group.
    pub members: usize,
    /// Memberships in all groups of one organisation together.
    pub memberships: usize,
    /// Resources that one filter is held against.
    pub looked_at: usize,
    /// Values that the operations of one PATCH are held against, each as often as its filter has comparisons.
    pub patched: usize,
}

impl Default for DirectoryBounds {
    fn default() -> Self {
        Self {
            users: 200_000,
            groups: 5_000,
            members: 10_000,
            memberships: 500_000,
            looked_at: 20_000,
            patched: 4_000_000,
        }
    }
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            configs: 20_000,
            guardrails: 1_000,
            secret_references: 1_000,
            kept_answers: 10_000,
            directory: DirectoryBounds::default(),
        }
    }
}

#[derive(Clone)]
pub struct App {
    pub store: Arc<dyn ConfigStore>,
    pub directory: Arc<dyn Directory>,
    pub history: Arc<dyn History>,
    pub logs: Arc<dyn RecordQuery>,
    /// Adds records up.
    pub sums: Arc<dyn RecordSums>,
    pub feedbacks: Arc<dyn Feedbacks>,
    pub repricing: Arc<dyn Repricing>,
    /// Takes records of calls that went another way; `None`: nothing here does.
    pub own_records: Option<Arc<dyn RecordIntake>>,
    /// Remembers which ids came before, by which a record that is sent again is known.
    pub claims: Arc<dyn RecordClaims>,
    pub exports: Arc<dyn Exports>,
    pub jobs: Arc<dyn Jobs>,
    pub blobs: Arc<dyn Blobs>,
    /// Records of one export.
    pub export_max_rows: u64,
    pub roster: Arc<dyn NodeRegistry>,
    /// Older request logs are not shown. 0 shows all.
    pub log_retention_days: u64,
    /// What writes were answered that their clients may send again.
    pub answers: Arc<dyn KeptAnswers>,
    pub live: Arc<dyn Live>,
    pub tokens: Arc<dyn Tokens>,
    pub vault: Arc<dyn Vault>,
    pub catalog: &'static dyn Catalog,
    pub trusted: Arc<Trusted>,
    pub status: Arc<dyn Status>,
    pub standings: Arc<dyn Standings>,
    /// Runs guardrails on what is sent to try them; `None`: nothing here does.
    pub trials: Option<Arc<dyn GuardrailTrials>>,
    /// Tries credentials at their providers; `None`: nothing here calls any.
    pub credentials: Option<Arc<dyn CredentialTrials>>,
    /// Calls addresses that admins name, MCP servers and hooks of alerts; `None`: nothing here does.
    pub outside: Option<Arc<dyn Outside>>,
    /// Connections to MCP servers that stay open while they are asked; `None`: nothing here makes any.
    pub mcp_lines: Option<Arc<dyn McpLines>>,
    /// Programs that the operator named, as MCP integrations may.
    pub mcp_programs: Arc<BTreeSet<String>>,
    /// How alert rules stand.
    pub alerts: Arc<dyn AlertStandings>,
    /// Tells what a key is held to; `None`: nothing here counts.
    pub key_limits: Option<Arc<dyn KeyLimits>>,
    /// When keys were last used.
    pub uses: Arc<dyn KeyUses>,
    /// Tells how secrets of managers stand; `None`: this node reads none.
    pub secrets: Option<Arc<dyn SecretStandings>>,
    /// What secret references may use of the machine.
    pub openings: Arc<SecretOpenings>,
    /// Takes mails of alerts; `None`: no mail server is named.
    pub mailer: Option<Arc<dyn Mailer>>,
    /// Counts tokens; `None`: nothing here does.
    pub token_counts: Option<Arc<dyn TokenCounts>>,
    /// Replaces outputs of batches; `None`: nothing here keeps batches.
    pub batch_outputs: Option<Arc<dyn BatchOutputs>>,
    /// Says what would become of a request; `None`: nothing here does.
    pub explanations: Option<Arc<dyn Explanations>>,
    pub quotas: Quotas,
    /// Hears of callers that were not let in.
    pub door: Arc<dyn Doorkeeper>,
    /// Header prefixes accepted beside `x-gateway-`, in lower case with their last hyphen: `x-acme-`.
    pub header_aliases: Arc<[String]>,
    /// Where browsers reach this installation, without a slash at its end; `None`: where they asked.
    pub public_url: Option<Arc<str>>,
    /// Whether an operator's webhook hears of alerts; what it is to pass on cannot be set without one.
    pub hears_alerts: bool,
    /// Set where people sign in here for clients of MCP servers, and not at issuers elsewhere.
    pub oauth: Option<Arc<dyn OauthStore>>,
    /// Stores people's accounts at MCP servers that sign people in by themselves.
    pub accounts: Arc<dyn McpAccounts>,
    /// The tokens of these accounts that this process has at hand.
    pub kept_accounts: Arc<KeptAccounts>,
    /// How many documents of OAuth clients this process keeps.
    pub client_documents: Arc<AtomicU64>,
    /// MCP servers that want to be asked again; `None`: none is asked but when somebody wants it.
    pub wanted_syncs: Option<Arc<WantedSyncs>>,
    /// The hash of the token with which a data plane elsewhere lists configs; `None`: there is none.
    pub data_service: Option<KeyHash>,
    /// What this process runs with.
    pub settings: Arc<[ProcessSetting]>,
    pub clock: fn() -> Timestamp,
    pub random: fn(&mut [u8]),
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("header_aliases", &self.header_aliases).finish_non_exhaustive()
    }
}

impl App {
    /// What this installation calls itself where it issues tokens; `None`: it issues none.
    pub(crate) fn issuer(&self) -> Option<&str> {
        self.public_url.as_deref().filter(|_| self.oauth.is_some())
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// A version 7 id: sorts by the time it was made.
    pub(crate) fn id(&self) -> Uuid {
        let millis = u64::try_from(self.now().micros() / 1000).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &self.bytes()).into_uuid()
    }

    pub(crate) fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        (self.random)(&mut bytes);
        bytes
    }

    /// Lower-case letters and digits, for slugs that nobody chose.
    pub(crate) fn tail<const N: usize>(&self) -> String {
        const DIGITS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        self.bytes::<N>().iter().map(|b| char::from(DIGITS[usize::from(*b) % 36])).collect()
    }

    pub(crate) fn build(&self) -> Build<'_> {
        Build { catalog: self.catalog, vault: &*self.vault, trusted: &self.trusted }
    }
}

/// The system's generator, for [`App::random`].
pub fn system_random(bytes: &mut [u8]) {
    rand::RngCore::fill_bytes(&mut rand::rng(), bytes);
}
