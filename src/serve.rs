//! Wiring: settings to stores, stores to snapshot, snapshot to proxy and admin port. The one place that chooses
//! backends, and the order in which a process comes up and goes down.

mod admin_body;
mod admin_connection_state;
mod admin_port;
mod alerts;
mod batches;
mod blob_stores;
mod boot;
mod exports;
mod figures;
mod garbage_collection;
mod heartbeat;
mod key_uses;
mod log_upkeep;
mod mcp_state;
mod mcp_syncs;
mod process;
mod proxy_port;
mod recording;
mod redis;
mod secrets;
mod sessions;
mod shutdown;
mod transfer;
mod upkeep;
mod usage_checkpoint;
mod watcher;

use crate::auth_failures::{self, Strangers};
use crate::batches::SharedBatches;
use crate::bookings::{BatchWatches, BookedRecords, Bookings};
use crate::cli::ResolvedSettings;
use crate::connections::Descriptors;
use crate::downloads::Downloads;
use crate::explanations::Explainer;
use crate::guardrails::{Guardrails, OutsideAnswers, Trials};
use crate::in_flight::InFlight;
use crate::issuers::{self, Issuers};
use crate::kept_objects::KeptObjectNotes;
use crate::limits::{LimitOutlook, Limits};
use crate::mcp_connections::OpenLines;
use crate::metrics::Metrics;
use crate::mock::{MockArgs, serve_connection};
use crate::outbound::Outbound;
use crate::own_records::OwnRecords;
use crate::peers::Peers;
use crate::proxy::{
    AdmissionGuard, Assignments, Bounds, BufferBudget, CallParts, ControlPlane, CorsOrigins, CredentialTester,
    DeliveryParts, Gateway, InlineConfigs, LiveParts, OwnTokens, ProxySettings, ReplyNames, UnpricedCalls, known_key,
};
use crate::settings::mcp::program_path;
use crate::settings::{Effective, Role, Settings, aws};
use crate::telemetry;
use crate::upstream::{AfterErrors, CheckedCalls, Credentials, Dialer, Dns, InProcess, Places, Programs};
use crate::usage_checkpoint::{UsageCheckpoint, UsageCounting};
pub(crate) use blob_stores::relocate as relocate_blobs;
use boot::{AppPorts, Booted};
use gateway_admin::App;
use gateway_domain::Secret;
use gateway_domain::counters::Counters;
use gateway_domain::egress::{BaseUrl, Trusted};
use gateway_domain::ports::{IdSeal, Outside};
use gateway_domain::record::mask;
use gateway_policies::Ledger;
use gateway_store::KeyUseLog;
use log_upkeep::LogUpkeep;
use mcp_state::{McpBacking, mcp_state};
pub(crate) use process::Process;
use recording::{Recording, ReportedTo};
use redis::Shelves;
use secrets::NodeParts;
use shutdown::{Drain, DrainParts};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Runtime;
use usage_checkpoint::FinalFlush;

/// The control plane, the watcher and the stores run here, apart from the proxy's workers.
fn control_runtime() -> Result<Runtime, String> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("control")
        .enable_all()
        .build()
        .map_err(|e| format!("cannot start the control runtime: {e}"))
}

/// `gateway serve`: returns only when start-up failed; a running gateway ends by its signals.
pub(crate) fn run(resolved: ResolvedSettings) -> Result<(), String> {
    let ResolvedSettings { settings, upgrade, effective } = resolved;
    telemetry::init(settings.log_format, &settings.log_level)?;
    let descriptors = Descriptors::raise();
    claim_ports(&settings, upgrade)?;
    let (control, metrics) = (control_runtime()?, telemetry::metrics(&settings)?);
    let booted = control.block_on(boot::boot(&settings))?;
    let (flight, parts) = (InFlight::default(), booted.health());
    let (otlp, exporter) = telemetry::otlp(&settings, &booted.trusted, &metrics, &parts)?.unzip();
    let (ledger, peers, sticks) = (Arc::new(Ledger::default()), Peers::default(), Arc::<Assignments>::default());
    let redis = redis::connect(&settings, &metrics, &parts, &control)?;
    let limits = redis::limits(redis.clone(), ledger.clone(), peers.clone(), &settings, &control)?;
    let counting = UsageCounting { ledger: ledger.clone(), counters: limits.clone() };
    let reported = ReportedTo { metrics: &metrics, health: &parts, otlp: otlp.clone() };
    let recording = recording::start(&settings, &booted, reported, counting, &control)?;
    let Recording { records, own, writer, accounts, booked_records, door, rows } = recording;
    limits.open();
    let budget = BufferBudget::new(settings.max_buffered_bytes.0, settings.max_body.0);
    let process = Process::new(booted.live.clone(), metrics.clone(), flight.clone(), budget.clone(), limits.clone());
    let process = Arc::new(process.with_sticks(sticks.clone()).with_parts(parts.clone()));
    exporter.into_iter().for_each(|exporter| exporter.start(control.handle(), process.family_reader()));
    let calling = Calling::new(&settings, &booted, booked_records, &metrics, &control)?;
    let issuers = follow_issuers(&control, &booted, &calling.dialer);
    let uses = key_uses::start(control.handle(), &booted, &metrics)?;
    let ports = app_ports((&issuers, &uses), &accounts, &door, own);
    let batches = batches::open(&settings, &booted, (&metrics, &control), &calling.downloads)?;
    let app = calling.equip(boot::app(&booted, process.clone(), ports, &settings), &booted, (&limits, &batches));
    let told = NodeParts { metrics: &metrics, health: &parts, control: &control, calling: &calling };
    let (mailer, shown) = (alerts::mailer(&settings)?, effective.iter().map(Effective::to_process_setting).collect());
    let app = App { mailer, settings: shown, ..secrets::follow(app, &settings, &booted, &told)? };
    control.block_on(boot::first_start(&app, &booted, &settings))?;
    look_after(&control, &app, &booted, &settings, &metrics)?;
    auth_failures::keep_rows(control.handle(), app.clone(), rows);
    usage_checkpoint::start(&accounts, &app, &booted, &settings, control.handle())?;
    let router = gateway_admin::router(app.clone());
    let stop_admin = start_admin(&settings, &booted, descriptors, &control, &router)?;
    watcher::start(control.handle(), &booted, settings.config_poll.0, process.clone(), ledger.clone());
    let presence = heartbeat::start(control.handle(), &booted, &settings, peers.clone());
    let inline = Arc::new(InlineConfigs::new(booted.trusted.clone(), control.handle().clone()));
    figures::watch(&metrics, &calling.dns, &inline, &limits).map_err(|e| format!("metrics cannot be set up: {e}"))?;
    let shield = shield(&settings, &metrics, peers.clone()).map_err(|e| format!("metrics cannot be set up: {e}"))?;
    redis.iter().for_each(|redis| sticks.share(Arc::new(redis.clone())));
    let shelves = Shelves::open(redis, &settings, &metrics, &booted.ids)?;
    let names = Arc::new(ReplyNames::new(&aliases(&settings)));
    let proxy = Arc::new(proxy_settings(&settings, &booted)?);
    let delivery = delivery(&proxy, &names, &budget, &control);
    let (guardrails, explainer) = (calling.guardrails.clone(), calling.explainer.clone());
    let queue = records.clone();
    let needs =
        sessions::SessionNeeds { metrics: &metrics, control: &control, process: &process, records: queue, peers };
    let live = sessions::open(&settings, &booted, needs)?;
    let gateway = Gateway {
        mcp: mcp_state(&settings, &booted, &process, McpBacking::new(app, (&metrics, &control), &calling.programs)?)?,
        own_tokens: OwnTokens::default(),
        batches,
        explainer,
        names,
        settings: proxy,
        live: booted.live,
        issuers,
        calls: Arc::new(calling.parts(limits.clone(), shield.clone(), shelves, (delivery, live))),
        budget,
        records,
        sticks: sticks.clone(),
        inline,
        breakers: process.breaker_states().clone(),
        shield,
        door,
        uses: uses.clone(),
        control: control_plane(&settings, router, &control)?,
        flight: flight.clone(),
    };
    let seats = proxy_port::seats(&settings, descriptors, &metrics)?;
    let listening = proxy_port::listen(&settings, upgrade)?;
    let counts = FinalFlush::new(accounts, uses, (guardrails, gateway.mcp.programs()), &control);
    let ending = listening.clone();
    let drain = DrainParts { flight, process, writer, otlp, limits, counts, stop_admin, listening: ending, presence };
    let drain = Drain::new(drain, &settings);
    proxy_port::serve(gateway, &settings, (listening, seats), drain)
}

fn app_ports(
    (issuers, uses): (&Arc<Issuers>, &Arc<KeyUseLog>),
    accounts: &Arc<UsageCheckpoint>,
    door: &Arc<Strangers>,
    own: OwnRecords,
) -> AppPorts {
    AppPorts {
        tokens: issuers.clone(),
        standings: accounts.clone(),
        door: door.clone(),
        uses: uses.clone(),
        own_records: Some(Arc::new(own)),
    }
}

/// Starts what nobody asks for, and what admins asked for and others do.
fn look_after(
    control: &Runtime,
    app: &App,
    booted: &Booted,
    settings: &Settings,
    metrics: &Metrics,
) -> Result<(), String> {
    if settings.role != Role::Proxy {
        upkeep::start(control.handle(), app.clone(), booted.database.clone(), booted.leftovers(metrics)?);
        exports::start(control.handle(), app.clone());
        mcp_syncs::start(control.handle(), app, settings.mcp_sync_interval.0, metrics)?;
        alerts::start(control.handle(), app.clone(), settings.alert_interval.0, metrics)?;
    }
    mcp_syncs::hasten(control.handle(), app);
    let sums = booted.logs.clone();
    let help = "Rows of sums by hour and day that were begun since the start";
    let begun = metrics.watch("gateway_rollup_rows_begun", help, move || sums.sums_begun());
    let sums = booted.logs.clone();
    let help = "Writes of records whose sums are set aside, to be added to those of other writes";
    let waiting = metrics.watch("gateway_rollup_writes_waiting", help, move || sums.sums_waiting());
    begun.and(waiting).map_err(|e| format!("metrics cannot be set up: {e}"))?;
    LogUpkeep::new(booted.logs.clone(), &booted.database, booted.is_sqlite, settings).start(control.handle());
    Ok(())
}

/// What is known of objects that providers keep.
struct ObjectParts {
    bookings: Bookings,
    booked_records: BookedRecords,
    watches: Arc<BatchWatches>,
    kept_objects: Arc<KeptObjectNotes>,
    ids: Arc<dyn IdSeal>,
}

/// What makes calls, of providers and of services that guardrails ask.
struct Calling {
    dns: Dns,
    dialer: Arc<Dialer>,
    credentials: Arc<Credentials>,
    downloads: Arc<Downloads>,
    guardrails: Arc<Guardrails>,
    unpriced: UnpricedCalls,
    objects: ObjectParts,
    explainer: Arc<Explainer>,
    /// Programs that are MCP servers.
    programs: Arc<Programs>,
}

impl Calling {
    /// Gives the control plane what it calls others with.
    fn equip(&self, app: App, booted: &Booted, (limits, batches): (&Arc<Limits>, &SharedBatches)) -> App {
        let trials = Trials::new(self.guardrails.clone(), booted.live.clone(), limits.clone());
        let asking = Arc::new(CheckedCalls::new(self.dialer.clone(), booted.trusted.clone(), AfterErrors::GoOn));
        let lines = OpenLines::new(asking.clone(), self.programs.clone());
        let app = App { mcp_lines: Some(Arc::new(lines)), batch_outputs: Some(batches.clone()), ..app };
        let asking: Arc<dyn Outside> = asking;
        let outlook = LimitOutlook { live: booted.live.clone(), limits: limits.clone() };
        let app =
            App { trials: Some(Arc::new(trials)), outside: Some(asking), key_limits: Some(Arc::new(outlook)), ..app };
        let credentials = CredentialTester::new(self.dialer.clone(), self.credentials.clone());
        App { explanations: Some(self.explainer.clone()), credentials: Some(Arc::new(credentials)), ..app }
    }

    fn new(
        settings: &Settings,
        booted: &Booted,
        booked_records: BookedRecords,
        metrics: &Metrics,
        control: &Runtime,
    ) -> Result<Self, String> {
        let dns = Dns::new(booted.trusted.clone(), control.handle().clone());
        let dialer = Dialer::new(dns.clone(), settings.connect_timeout.0, Some(mock_provider(control)));
        let dialer = Arc::new(dialer);
        let credentials = Credentials::new(outbound(booted)?, places(settings), control.handle().clone());
        let credentials = Arc::new(credentials);
        let calls = CheckedCalls::new(dialer.clone(), booted.trusted.clone(), AfterErrors::GoOn);
        let downloads = Arc::new(Downloads::new(calls));
        let calls = CheckedCalls::new(dialer.clone(), booted.trusted.clone(), AfterErrors::Rest);
        let outside = OutsideAnswers::new(Arc::new(calls), credentials.clone());
        let guardrails = Arc::new(Guardrails::new(outside, booted.trusted.clone(), control.handle().clone()));
        figures::watch_guardrails(metrics, &guardrails).map_err(|e| format!("metrics cannot be set up: {e}"))?;
        let unpriced = UnpricedCalls::new(metrics.clone());
        let ids = booted.ids.clone();
        let bookings = Bookings::new(Arc::new(booted.database.clone()), control.handle().clone());
        let kept_objects = booted.kept_objects(metrics, control.handle())?;
        let watches = Arc::new(batches::watches(settings, booted, (metrics, control))?);
        let (specs, path) = (settings.mcp.specs()?, program_path());
        let programs = Arc::new(Programs::new(specs, path, settings.mcp_programs, control.handle().clone()));
        let (explainer, objects) =
            (Arc::default(), ObjectParts { bookings, booked_records, watches, kept_objects, ids });
        Ok(Self { dns, dialer, credentials, downloads, guardrails, unpriced, objects, explainer, programs })
    }

    fn parts(
        self,
        counters: Arc<dyn Counters>,
        shield: Arc<AdmissionGuard>,
        shelves: Shelves,
        (delivery, live): (DeliveryParts, LiveParts),
    ) -> CallParts {
        let Self { dialer, credentials, downloads, guardrails, unpriced, objects, .. } = self;
        let ObjectParts { bookings, booked_records, watches, kept_objects, ids } = objects;
        let Shelves { cache, kept } = shelves;
        CallParts {
            dialer,
            credentials,
            downloads,
            guardrails,
            counters,
            shield,
            cache,
            unpriced,
            bookings,
            booked_records,
            watches,
            ids,
            kept_objects,
            kept,
            live,
            delivery,
        }
    }
}

fn delivery(
    settings: &Arc<ProxySettings>,
    names: &Arc<ReplyNames>,
    budget: &Arc<BufferBudget>,
    control: &Runtime,
) -> DeliveryParts {
    DeliveryParts {
        settings: settings.clone(),
        names: names.clone(),
        budget: budget.clone(),
        background: control.handle().clone(),
    }
}

/// Claims the ports before anything is started. A process that takes over claims none: its predecessor hands its
/// sockets on.
fn claim_ports(settings: &Settings, upgrade: bool) -> Result<(), String> {
    if upgrade {
        return Ok(());
    }
    if settings.role != Role::Admin {
        settings.listen.0.iter().try_for_each(|a| claim("--listen", *a))?;
    }
    claim("--admin-listen", settings.admin_listen)
}

fn start_admin(
    settings: &Settings,
    booted: &Booted,
    descriptors: Descriptors,
    control: &Runtime,
    router: &axum::Router,
) -> Result<admin_port::StopAdmin, String> {
    let (live, aliases) = (booted.live.clone(), aliases(settings));
    let rules = admin_port::AdminPortRules {
        clocks: proxy_port::clocks(settings),
        body: settings.body_timeout.0,
        idle: settings.idle_timeout.0,
        most: descriptors.admin_connections(),
        known: Arc::new(move |headers| known_key(&live, headers, &aliases).is_some()),
    };
    admin_port::start(control, settings.admin_listen, router.clone(), rules)
}

fn shield(settings: &Settings, metrics: &Metrics, peers: Peers) -> Result<Arc<AdmissionGuard>, prometheus::Error> {
    let most = |n: u64| isize::try_from(n).unwrap_or(isize::MAX);
    let bounds = Bounds { unknown_keys: most(settings.unknown_key_rate), requests: most(settings.address_rate) };
    let shield = Arc::new(AdmissionGuard::new(bounds, peers));
    let (floods, crowds) = (shield.clone(), shield.clone());
    metrics.watch("gateway_shed_floods", "Requests refused as too many from one address", move || floods.flooded())?;
    metrics.watch("gateway_shed_parallel", "Calls refused as too many at once", move || crowds.crowded())?;
    Ok(shield)
}

fn outbound(booted: &Booted) -> Result<Outbound, String> {
    Outbound::new(booted.trusted.clone()).map_err(|e| format!("the outbound client: {e}"))
}

fn places(settings: &Settings) -> Places {
    let secret = settings.azure_identity_header.clone().map(Secret::new);
    Places {
        google_metadata: settings.google_metadata_url.clone(),
        azure_metadata: settings.azure_metadata_url.clone(),
        azure_identity: settings.azure_identity_endpoint.clone().zip(secret),
        azure_authority: settings.azure_authority.clone(),
        azure_token_file: settings.azure_token_file.clone(),
        aws: aws::platform(),
    }
}

fn follow_issuers(control: &Runtime, booted: &Booted, dialer: &Arc<Dialer>) -> Arc<Issuers> {
    let calls = CheckedCalls::new(dialer.clone(), booted.trusted.clone(), AfterErrors::GoOn);
    issuers::start(control.handle(), booted.live.clone(), Arc::new(calls))
}

/// The built-in provider `mock` answers in this process; no DNS knows its host.
fn mock_provider(control: &Runtime) -> InProcess {
    let tasks = control.handle().clone();
    InProcess::new("mock.internal", move |pipe| drop(tasks.spawn(serve_connection(pipe, Arc::default()))))
}

fn control_plane(settings: &Settings, router: axum::Router, control: &Runtime) -> Result<ControlPlane, String> {
    match settings.role {
        Role::Proxy => elsewhere(settings, control),
        _ => Ok(ControlPlane::Here { router, runtime: control.handle().clone() }),
    }
}

/// Where role `proxy` sends control-plane routes. The operator named the host, so it may be private.
fn elsewhere(settings: &Settings, control: &Runtime) -> Result<ControlPlane, String> {
    let Some(url) = &settings.admin_upstream else { return Ok(ControlPlane::Nowhere) };
    let base = BaseUrl::parse(url).map_err(|why| format!("--admin-upstream `{url}` {why}"))?;
    let anywhere = Trusted::parse(&["0.0.0.0/0", "::/0"])?;
    let dns = Dns::new(Arc::new(anywhere), control.handle().clone());
    let dialer = Dialer::new(dns, settings.connect_timeout.0, None);
    Ok(ControlPlane::There { base: Arc::new(base), dialer: Box::new(dialer) })
}

/// A port that is taken must be told before anything else happens, with its name.
fn claim(flag: &str, address: SocketAddr) -> Result<(), String> {
    TcpListener::bind(address).map(drop).map_err(|e| format!("{flag} {address}: cannot listen: {e}"))
}

pub(crate) fn aliases(settings: &Settings) -> Vec<String> {
    settings.header_alias.iter().map(|a| a.to_ascii_lowercase()).filter(|a| a != "x-gateway-").collect()
}

fn names(listed: &[String]) -> Vec<String> {
    listed.iter().flat_map(|l| l.split(',')).map(|n| n.trim().to_ascii_lowercase()).filter(|n| !n.is_empty()).collect()
}

fn proxy_settings(settings: &Settings, booted: &Booted) -> Result<ProxySettings, String> {
    let nets = settings.trusted_proxies.iter().flat_map(|s| s.split(',')).map(str::trim).filter(|s| !s.is_empty());
    let nets: Result<Vec<ipnet::IpNet>, String> = nets
        .map(|s| {
            let host = || s.parse::<std::net::IpAddr>().map(ipnet::IpNet::from);
            s.parse::<ipnet::IpNet>()
                .or_else(|_| host())
                .map_err(|_| format!("--trusted-proxies `{s}` is not an address or CIDR"))
        })
        .collect();
    Ok(ProxySettings {
        header_alias: aliases(settings),
        trusted: booted.trusted.clone(),
        trusted_proxies: nets?,
        block_inline_config: settings.block_inline_config,
        cors: CorsOrigins::parse(&settings.cors_origins)?,
        max_body: settings.max_body.0,
        body_timeout: settings.body_timeout.0,
        first_byte_timeout: settings.first_byte_timeout.0,
        idle_timeout: settings.idle_timeout.0,
        total_timeout: settings.total_timeout.limit(),
        stream_hold: settings.stream_hold.0,
        stream_keepalive: settings.stream_keepalive.limit(),
        upstream_pool_size: settings.upstream_pool_size,
        max_connections: settings.max_connections,
        log_bodies: settings.log_bodies,
        traced: settings.otlp_endpoint.is_some().then_some(settings.otlp_sample),
        log_headers: log_headers(settings),
    })
}

fn log_headers(settings: &Settings) -> mask::MaskRules {
    mask::MaskRules { hashed: names(&settings.log_headers_hashed), shown: names(&settings.log_headers_shown) }
}

/// `gateway check`: everything that start-up does short of listening.
pub(crate) fn check(resolved: &ResolvedSettings) -> Result<(), String> {
    let mut text = String::new();
    for e in &resolved.effective {
        text.push_str(&format!("{:<26} {:<44} {}\n", e.name.replace('_', "-"), e.value, e.source));
    }
    telemetry::print(&text);
    let control = control_runtime()?;
    let booted = control.block_on(boot::boot(&resolved.settings))?;
    let snapshot = gateway_domain::ports::Live::snapshot(&*booted.live);
    telemetry::print(&format!("configuration compiles at revision {}\n", snapshot.revision));
    control.block_on(blob_stores::probe(&resolved.settings))?;
    if booted.problems.is_empty() {
        Ok(())
    } else {
        Err(format!("rows cannot be read: {}", booted.problems.join("; ")))
    }
}

/// `gateway migrate`.
pub(crate) fn migrate(resolved: &ResolvedSettings) -> Result<(), String> {
    let control = control_runtime()?;
    control.block_on(boot::migrate(&resolved.settings))?;
    telemetry::print("the database is at this version's schema\n");
    Ok(())
}

/// `gateway move records`.
pub(crate) fn move_records(settings: &Settings, from: &str) -> Result<(), String> {
    telemetry::init(settings.log_format, &settings.log_level)?;
    let control = control_runtime()?;
    let told = control.block_on(transfer::move_records(settings, from))?;
    telemetry::print(&told);
    Ok(())
}

/// The control plane for one act of the operator, and the runtime that it needs.
pub(crate) fn detached(settings: &Settings) -> Result<(Runtime, App), String> {
    let control = control_runtime()?;
    let app = control.block_on(boot::detached(settings))?;
    Ok((control, app))
}

/// `gateway keys new-admin`: for whoever can read the database and the master key.
pub(crate) fn new_admin_key(resolved: &ResolvedSettings) -> Result<(), String> {
    let control = control_runtime()?;
    let key = control.block_on(boot::new_admin_key(&resolved.settings))?;
    telemetry::print(&format!("{key}\n"));
    Ok(())
}

/// `gateway keys rotate-signing`.
pub(crate) fn rotate_signing_key(resolved: &ResolvedSettings, at_once: bool) -> Result<(), String> {
    let control = control_runtime()?;
    let name = control.block_on(boot::rotate_signing_key(&resolved.settings, at_once))?;
    telemetry::print(&format!("Access tokens are signed with the key {name} from now on.\n"));
    Ok(())
}

/// `gateway keys rotate-master`.
pub(crate) fn rotate_master_key(resolved: &ResolvedSettings, to: &Path) -> Result<(), String> {
    telemetry::init(resolved.settings.log_format, &resolved.settings.log_level)?;
    let control = control_runtime()?;
    let done = control.block_on(boot::rotate_master_key(&resolved.settings, to))?;
    telemetry::print(&format!(
        "{} documents, {} of their versions and {} blobs are sealed with the new master key.\n\
         Start every node again with --master-key-file {}; until then it serves on, and takes no changes.\n",
        done.rows,
        done.versions,
        done.blobs,
        to.display(),
    ));
    Ok(())
}

/// `gateway mock`.
pub(crate) fn mock(args: MockArgs) -> Result<(), String> {
    telemetry::init(None, "info")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("cannot start a runtime: {e}"))?;
    runtime.block_on(crate::mock::run(args)).map_err(|e| e.to_string())
}
