//! Opens the stores, the vault and the snapshot: the one `match` on backends.

use super::garbage_collection::Leftovers;
use super::process::Process;
use super::{aliases, blob_stores};
use crate::auth_failures::Strangers;
use crate::batches::NEVER_REFUSED;
use crate::clock;
use crate::health::HealthComponents;
use crate::issuers::Issuers;
use crate::kept_objects::{KeptObjectBounds, KeptObjectNotes};
use crate::metrics::{Metrics, MetricsOptions};
use crate::runtime_config::ConfigHandle;
use crate::settings::Settings;
use crate::telemetry;
use crate::token_counter::TokenCounter;
use crate::usage_checkpoint::UsageCheckpoint;
use gateway_admin::{App, ComponentStatus, Quotas, Status};
use gateway_domain::egress::Trusted;
use gateway_domain::id::OrgId;
use gateway_domain::keys::KeyHash;
use gateway_domain::ports::{
    BlobBounds, Blobs, Changes, ConfigStore, Doorkeeper, IdSeal, KeyUses, Live as _, LogStore, NamedMetadata,
    OauthStore, RecordIntake, Revision, Standings, Tokens, Vault,
};
use gateway_domain::resource::check_slug;
use gateway_domain::secret_source::SecretOpenings;
use gateway_store::{
    BlobPlaces, BodiesOutside, Database, DatabaseOptions, DatabaseUrl, KeyUseLog, LastGood, LogsUrl, MasterKey,
    OpenError, Partitions, Resealed, RowBlobs, SealingVault, SivSeal,
};
use smol_str::SmolStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Handle;

/// A process with its stores open and a snapshot in force.
pub(crate) struct Booted {
    pub(crate) store: Arc<dyn ConfigStore>,
    pub(crate) logs: Arc<dyn LogStore>,
    pub(crate) live: Arc<ConfigHandle>,
    pub(crate) trusted: Arc<Trusted>,
    /// The sealed rows on disk, for a start without the database; SQLite needs none.
    pub(crate) last_good: Option<Arc<LastGood>>,
    /// The database did not answer at start; it must be looked at before it is used.
    pub(crate) away: bool,
    /// What `last-good.db` is complete up to.
    pub(crate) revision: Revision,
    /// Rows that could not be read, told by `gateway check`.
    pub(crate) problems: Vec<String>,
    pub(crate) database: Database,
    pub(crate) is_sqlite: bool,
    pub(crate) vault: Arc<dyn Vault>,
    /// Seals ids that clients carry.
    pub(crate) ids: Arc<dyn IdSeal>,
    /// Where the bytes of blobs lie, beside rows.
    places: BlobPlaces,
    blob_bounds: BlobBounds,
    /// What an earlier run left beside the configuration.
    remains: Vec<&'static str>,
}

impl Booted {
    /// Where large bytes lie: rows beside the configuration, which hold them or name objects outside.
    pub(super) fn blobs(&self) -> Arc<dyn Blobs> {
        let blobs = RowBlobs::new(self.database.clone(), self.vault.clone(), self.blob_bounds);
        Arc::new(blobs.with_places(self.places.clone()))
    }

    /// The parts of the process that can do badly, of which the database is the first.
    pub(super) fn health(&self) -> HealthComponents {
        let (parts, database) = (HealthComponents::default(), self.database.clone());
        parts.add(move || ComponentStatus::new("database", serde_json::json!({})).troubled(database.trouble()));
        parts
    }

    /// The notes of which workspace owns an object that a provider keeps.
    pub(super) fn kept_objects(&self, metrics: &Metrics, runtime: &Handle) -> Result<Arc<KeptObjectNotes>, String> {
        let store = Arc::new(self.database.clone());
        let notes = KeptObjectNotes::start(store, runtime.clone(), metrics, KeptObjectBounds::default());
        notes.map_err(|e| format!("metrics cannot be set up: {e}"))
    }

    /// What is left of jobs and blobs.
    pub(super) fn leftovers(&self, metrics: &Metrics) -> Result<Leftovers, String> {
        let database = Arc::new(self.database.clone());
        let leftovers = Leftovers::new(database.clone(), self.blobs(), database.clone(), database.clone(), metrics);
        let leftovers = leftovers.and_then(|leftovers| leftovers.with_sign_ins(database.clone(), metrics));
        let leftovers = leftovers.and_then(|leftovers| leftovers.with_accounts(database.clone(), metrics));
        let leftovers = leftovers.and_then(|leftovers| leftovers.with_kept_objects(database, metrics));
        leftovers.map_err(|e| format!("metrics cannot be set up: {e}"))
    }
}

fn url(settings: &Settings) -> Result<DatabaseUrl, String> {
    let url = match &settings.database_url {
        Some(text) => DatabaseUrl::parse(text).map_err(|e| format!("--database-url: {e}"))?,
        None => DatabaseUrl::sqlite_file(settings.data_dir.join("config.db")),
    };
    let (mode, authority) = (settings.database_tls.as_deref(), settings.database_tls_ca.as_deref());
    url.with_tls(mode, authority).map_err(|e| format!("--database-tls, --database-tls-ca: {e}"))
}

pub(crate) fn options(settings: &Settings) -> DatabaseOptions {
    DatabaseOptions {
        pool_size: u32::try_from(settings.db_pool_size).unwrap_or(u32::MAX).max(2),
        ..DatabaseOptions::default()
    }
}

fn make_data_dir(settings: &Settings) -> Result<(), String> {
    let dir = &settings.data_dir;
    std::fs::create_dir_all(dir).map_err(|e| format!("--data-dir {}: cannot be made: {e}", dir.display()))?;
    let probe = dir.join(".writable");
    std::fs::write(&probe, b"")
        .and_then(|()| std::fs::remove_file(&probe))
        .map_err(|e| format!("--data-dir {}: cannot be written: {e}", dir.display()))
}

pub(crate) async fn boot(settings: &Settings) -> Result<Booted, String> {
    if let Some(slug) = &settings.deployment {
        check_slug("--deployment", slug).map_err(|why| format!("{} {}", why.field, why.rule))?;
    }
    make_data_dir(settings)?;
    let remains = remains(&settings.data_dir);
    let trusted = Trusted::parse(&settings.trusted_custom_hosts).map_err(|e| format!("--trusted-custom-hosts: {e}"))?;
    let trusted = Arc::new(trusted);
    let places = blob_stores::open(settings)?;
    let url = url(settings)?;
    let key = MasterKey::from_file(&master_key_file(settings)).map_err(|e| format!("--master-key-file: {e}"))?;
    let vault: Arc<dyn Vault> = Arc::new(SealingVault::new(&key));
    let live = ConfigHandle::new(gateway_providers::catalog(), vault.clone(), trusted.clone());
    let live = Arc::new(live.of_deployment(settings.deployment.as_deref()));
    let last_good = if url.is_sqlite() {
        None
    } else {
        let path = settings.data_dir.join("last-good.db");
        Some(Arc::new(LastGood::open(&path, &*vault).await.map_err(|e| format!("last-good.db: {e}"))?))
    };
    let Loaded { database, changes, away } = read(&url, &options(settings), &*vault, last_good.as_deref()).await?;
    let logs = open_logs(settings, &url, &database, Arc::new(NamedInSnapshot(live.clone()))).await?;
    let problems = live.publish(&changes);
    for p in &problems {
        tracing::error!(kind = p.kind, id = %p.id, problem = p.message, "a row cannot be read and is not in force");
    }
    Ok(Booted {
        revision: changes.revision,
        away,
        store: Arc::new(database.clone()),
        logs,
        is_sqlite: url.is_sqlite(),
        live,
        trusted,
        last_good,
        places,
        blob_bounds: BlobBounds {
            bytes_of_org: settings.file_store_max.0 as u64,
            never_refused: NEVER_REFUSED,
            ..BlobBounds::default()
        },
        remains,
        problems: problems.iter().map(|p| format!("{} {}: {}", p.kind, p.id, p.message)).collect(),
        database,
        vault,
        ids: Arc::new(SivSeal::new(&key)),
    })
}

/// The keys of metadata that organisations name, as they stand when a record is stored.
struct NamedInSnapshot(Arc<ConfigHandle>);

impl NamedMetadata for NamedInSnapshot {
    fn named(&self, org: OrgId) -> Arc<[SmolStr]> {
        self.0.snapshot().org(org).map_or_else(|| Arc::from([]), |org| org.analytics_metadata_keys.clone())
    }
}

/// Where records go.
pub(crate) fn log_place(settings: &Settings) -> Result<LogsUrl, String> {
    if let Some(text) = &settings.log_store_url {
        return LogsUrl::parse(text).map_err(|e| format!("--log-store-url: {e}"));
    }
    let url = url(settings)?;
    Ok(if url.is_sqlite() { LogsUrl::Files(settings.data_dir.join("logs")) } else { LogsUrl::Postgres(url) })
}

/// Opens the log store: the configuration's own database, unless told otherwise. SQLite has one writer at a time: there
/// records get files of their own, so that they never wait for admins.
async fn open_logs(
    settings: &Settings,
    url: &DatabaseUrl,
    database: &Database,
    names: Arc<dyn NamedMetadata>,
) -> Result<Arc<dyn LogStore>, String> {
    let store: Arc<dyn LogStore> = if settings.log_store_url.is_none() && !url.is_sqlite() {
        Arc::new(Partitions::over(database.clone(), Some(names)))
    } else {
        let opened = gateway_store::open_logs(&log_place(settings)?, &options(settings), Some(names)).await;
        opened.map_err(|e| format!("log store: {e}"))?
    };
    if settings.log_bodies_url.is_empty() {
        return Ok(store);
    }
    Ok(Arc::new(BodiesOutside::new(store, blob_stores::open_for_bodies(settings)?)))
}

/// The database and its rows.
struct Loaded {
    database: Database,
    changes: Changes,
    /// The database does not answer: these are the rows that this node read last.
    away: bool,
}

async fn read(
    url: &DatabaseUrl,
    options: &DatabaseOptions,
    vault: &dyn Vault,
    last_good: Option<&LastGood>,
) -> Result<Loaded, String> {
    match gateway_store::open(url, options).await {
        Ok(database) => {
            database.check_key(vault).await.map_err(|e| format!("database: {e}"))?;
            let changes = database.load().await.map_err(|e| format!("database: {e}"))?;
            if let Some(last_good) = last_good {
                last_good.save(&changes).await.map_err(|e| format!("last-good.db: {e}"))?;
            }
            Ok(Loaded { database, changes, away: false })
        }
        Err(e @ OpenError::Unreachable { .. }) => {
            let kept = match last_good {
                Some(last_good) => last_good.load().await.map_err(|e| format!("last-good.db: {e}"))?,
                None => None,
            };
            let Some(changes) = kept else { return Err(format!("database: {e}")) };
            tracing::error!(error = %e, revision = changes.revision, "starting from last-good.db");
            let database = gateway_store::open_later(url, options).await.map_err(|e| format!("database: {e}"))?;
            Ok(Loaded { database, changes, away: true })
        }
        Err(e) => Err(format!("database: {e}")),
    }
}

/// Waits for a database that was away at start, then makes sure that it is ours and of this version.
pub(crate) async fn rejoin(database: &Database, vault: &dyn Vault) -> Result<(), String> {
    gateway_store::migrate(database).await.map_err(|e| e.to_string())?;
    database.check_key(vault).await.map_err(|e| e.to_string())
}

/// What the control plane asks and tells of the rest of the process.
pub(crate) struct AppPorts {
    pub(crate) tokens: Arc<dyn Tokens>,
    pub(crate) standings: Arc<dyn Standings>,
    pub(crate) door: Arc<dyn Doorkeeper>,
    pub(crate) uses: Arc<dyn KeyUses>,
    /// Where records of clients go; a process that writes none has none.
    pub(crate) own_records: Option<Arc<dyn RecordIntake>>,
}

pub(crate) fn app(booted: &Booted, process: Arc<Process>, ports: AppPorts, settings: &Settings) -> App {
    let AppPorts { tokens, standings, door, uses, own_records } = ports;
    let status: Arc<dyn Status> = process;
    App {
        store: booted.store.clone(),
        directory: Arc::new(booted.database.clone()),
        history: Arc::new(booted.database.clone()),
        logs: booted.logs.clone(),
        sums: booted.logs.clone(),
        feedbacks: Arc::new(booted.database.clone()),
        repricing: booted.logs.clone(),
        own_records,
        claims: Arc::new(booted.database.clone()),
        exports: Arc::new(booted.database.clone()),
        jobs: Arc::new(booted.database.clone()),
        blobs: booted.blobs(),
        export_max_rows: settings.export_max_rows,
        roster: Arc::new(booted.database.clone()),
        log_retention_days: settings.log_retention_days,
        hears_alerts: settings.alert_webhook.is_some() || settings.smtp_url.is_some(),
        answers: Arc::new(booted.database.clone()),
        live: booted.live.clone(),
        tokens,
        vault: booted.vault.clone(),
        catalog: gateway_providers::catalog(),
        trusted: booted.trusted.clone(),
        status,
        standings,
        trials: None,
        credentials: None,
        outside: None,
        mcp_lines: None,
        mcp_programs: Arc::new(settings.mcp.names()),
        alerts: Arc::new(booted.database.clone()),
        key_limits: None,
        uses,
        secrets: None,
        openings: Arc::new(openings(settings)),
        mailer: None,
        explanations: None,
        batch_outputs: None,
        token_counts: Some(Arc::<TokenCounter>::default()),
        quotas: Quotas::default(),
        door,
        header_aliases: aliases(settings).into(),
        public_url: settings.public_url.as_deref().map(|url| url.trim_end_matches('/').into()),
        oauth: (settings.public_url.is_some() && settings.mcp_authorization_servers.is_empty())
            .then(|| Arc::new(booted.database.clone()) as Arc<dyn OauthStore>),
        accounts: Arc::new(booted.database.clone()),
        kept_accounts: Arc::default(),
        client_documents: Arc::default(),
        wanted_syncs: (!settings.mcp_sync_interval.0.is_zero()).then(Arc::default),
        data_service: settings.data_service_token.as_deref().map(KeyHash::of),
        settings: Arc::from([]),
        clock: clock::now,
        random: gateway_admin::system_random,
    }
}

/// What secret references may use of this machine.
pub(super) fn openings(settings: &Settings) -> SecretOpenings {
    SecretOpenings {
        machine_identity: settings.secret_machine_identity,
        environment: settings.secret_env_prefix.clone().filter(|prefix| !prefix.is_empty()),
        folder: settings.secret_folder.clone(),
    }
}

/// A key that the operator gave is known to him and belongs in no output.
fn shown<'a>(given: Option<&str>, key: &'a str) -> &'a str {
    if given.is_some() { "as given" } else { key }
}

/// What an earlier run left in the data folder beside its configuration.
fn remains(dir: &Path) -> Vec<&'static str> {
    let holds = |name: &&str| {
        let path = dir.join(name);
        path.is_file() || std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
    };
    ["master.key", "journal", "logs", "last-good.db"].into_iter().filter(holds).collect()
}

/// A key alone may have been put there for the first start; records were made by somebody who was configured.
fn warn_of_remains(booted: &Booted, settings: &Settings) {
    if booted.remains.iter().any(|name| *name != "master.key") {
        tracing::warn!(
            found = booted.remains.join(", "),
            data_dir = %settings.data_dir.display(),
            "the configuration was empty and was made anew, with new keys, but the data folder is of an earlier run: if \
             this was not meant, stop the gateway and put its database back"
        );
    }
}

/// Sets up an empty configuration, and prints its keys once.
pub(crate) async fn first_start(app: &App, booted: &Booted, settings: &Settings) -> Result<(), String> {
    if let Some(keys) = bootstrap(app, settings).await? {
        telemetry::print(&keys);
        warn_of_remains(booted, settings);
    }
    Ok(())
}

/// First start: organisation, workspace and keys. Returns what is printed once.
async fn bootstrap(app: &App, settings: &Settings) -> Result<Option<String>, String> {
    if !app.live.snapshot().is_empty() {
        return Ok(None);
    }
    let admin = settings.bootstrap_admin_key.as_deref();
    let workspace = settings.bootstrap_workspace_key.as_deref();
    let made = gateway_admin::bootstrap(app, admin, workspace).await.map_err(|e| format!("first start: {e}"))?;
    Ok(made.map(|keys| {
        format!(
            "First start: organisation `default` with workspace `default` was made.\n\
             Admin key:     {}\nWorkspace key: {}\n\
             They are shown this once and stored only as hashes. Inline configs are allowed in this organisation\n\
             (block_inline_config is off; --block-inline-config turns it on for all).\n",
            shown(admin, keys.admin_key.expose()),
            shown(workspace, keys.workspace_key.expose()),
        )
    }))
}

pub(crate) async fn migrate(settings: &Settings) -> Result<(), String> {
    make_data_dir(settings)?;
    let url = url(settings)?;
    let database = gateway_store::open(&url, &options(settings)).await.map_err(|e| format!("database: {e}"))?;
    gateway_store::migrate(&database).await.map_err(|e| format!("database: {e}"))
}

/// The blobs alone, for one act of the operator beside a gateway that runs.
pub(super) async fn row_blobs(settings: &Settings) -> Result<RowBlobs, String> {
    let key = MasterKey::from_file(&master_key_file(settings)).map_err(|e| format!("--master-key-file: {e}"))?;
    let vault = Arc::new(SealingVault::new(&key));
    let places = blob_stores::open(settings)?;
    let database = gateway_store::open(&url(settings)?, &options(settings)).await;
    let database = database.map_err(|e| format!("database: {e}"))?;
    database.check_key(&*vault).await.map_err(|e| format!("database: {e}"))?;
    Ok(RowBlobs::new(database, vault, BlobBounds::default()).with_places(places))
}

/// Seals everything anew with the key in `to`, which is made if it is not there.
pub(crate) async fn rotate_master_key(settings: &Settings, to: &Path) -> Result<Resealed, String> {
    let url = url(settings)?;
    let old = MasterKey::from_file(&master_key_file(settings)).map_err(|e| format!("--master-key-file: {e}"))?;
    let new = MasterKey::from_file(to).map_err(|e| format!("--to: {e}"))?;
    if old == new {
        return Err(format!("--to {}: this is the master key that is in use", to.display()));
    }
    let database = gateway_store::open(&url, &options(settings)).await.map_err(|e| format!("database: {e}"))?;
    let done = database.reseal(&SealingVault::new(&old), &SealingVault::new(&new)).await;
    done.map_err(|e| format!("database: {e}"))
}

fn master_key_file(settings: &Settings) -> PathBuf {
    settings.master_key_file.clone().unwrap_or_else(|| settings.data_dir.join("master.key"))
}

pub(crate) async fn new_admin_key(settings: &Settings) -> Result<String, String> {
    let app = detached(settings).await?;
    let key = gateway_admin::new_admin_key(&app).await.map_err(|e| e.to_string())?;
    Ok(key.expose().clone())
}

/// The name of the key that signs from now on.
pub(crate) async fn rotate_signing_key(settings: &Settings, at_once: bool) -> Result<String, String> {
    let app = detached(settings).await?;
    gateway_admin::rotate_signing_key(&app, at_once).await.map_err(|problem| problem.message)
}

/// The control plane for one act of the operator: what is stored, and nothing that serves.
pub(crate) async fn detached(settings: &Settings) -> Result<App, String> {
    let booted = boot(settings).await?;
    if booted.away {
        return Err("the database does not answer".to_owned());
    }
    let nobody = Arc::new(Process::detached(booted.live.clone())?);
    let nothing = Arc::new(UsageCheckpoint::detached(booted.database.clone(), clock::now));
    let metrics = Metrics::new(MetricsOptions::default()).map_err(|e| e.to_string())?;
    let (unheard, _) = Strangers::new(&metrics, false).map_err(|e| e.to_string())?;
    let ports = AppPorts {
        tokens: Arc::new(Issuers::detached()),
        standings: nothing,
        door: unheard,
        uses: Arc::new(KeyUseLog::new(booted.database.clone(), 0)),
        own_records: None,
    };
    Ok(app(&booted, nobody, ports, settings))
}
