//! The proxy port: its sockets and TLS, and Pingora's server, which runs the door and the workers and tells them when
//! the process ends.

use super::shutdown::{self, Drain, Signals};
use crate::batches::{LineDoor, LineRoad, Runner};
use crate::connections::{self, Clocks, ConnectionSetup, Descriptors, Listening, Seats};
use crate::metrics::Metrics;
use crate::price_list;
use crate::proxy::{BatchWatcher, CallTakeover, Gateway};
use crate::settings::{Role, Settings};
use crate::upstream;
use pingora::apps::HttpServerApp;
use pingora::listeners::tls::{Acceptor, TlsSettings};
use pingora::protocols::http::ServerSession;
use pingora::server::configuration::{Opt, ServerConf};
use pingora::server::{RunArgs, Server};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The time between two looks at idle connections to providers, on the thread that serves lines of batches.
const ROUND: Duration = Duration::from_secs(5);

pub(super) const fn clocks(settings: &Settings) -> Clocks {
    Clocks {
        head: settings.client_header_timeout.0,
        first: settings.client_idle_timeout.0,
        between: settings.keepalive_timeout.0,
    }
}

/// Places for connections, as many as were asked for or as there are descriptors.
pub(super) fn seats(settings: &Settings, descriptors: Descriptors, metrics: &Metrics) -> Result<Arc<Seats>, String> {
    let asked = settings.max_open_connections;
    if descriptors.is_short_for(asked) {
        tracing::warn!(
            connections = asked,
            "--max-open-connections leaves too few file descriptors for all else: raise the limit of the process (ulimit -n)"
        );
    }
    let seats = Seats::new(if asked == 0 { descriptors.usual_connections() } else { asked });
    let (open, shed, failed) = (seats.clone(), seats.clone(), seats.clone());
    let watched = metrics
        .watch("gateway_open_connections", "Connections of clients on the proxy port", move || open.open())
        .and_then(|()| {
            let help = "Connections closed unheard, as too many were open (--max-open-connections)";
            metrics.watch("gateway_shed_connections", help, move || shed.shed())
        })
        .and_then(|()| {
            metrics.watch("gateway_failed_handshakes", "TLS handshakes of clients that failed", move || failed.failed())
        });
    watched.map(|()| seats).map_err(|e| format!("metrics cannot be set up: {e}"))
}

/// The sockets, of the process that this one replaces where there is one. Role `admin` has none.
pub(super) fn listen(settings: &Settings, upgrade: bool) -> Result<Option<Arc<Listening>>, String> {
    if settings.role == Role::Admin {
        return Ok(None);
    }
    let path = &settings.upgrade_sock;
    let inherited = match upgrade {
        true => connections::inherit(path)
            .map_err(|e| format!("--upgrade: no listeners came over --upgrade-sock {}: {e}", path.display()))?,
        false => Vec::new(),
    };
    Listening::open(&settings.listen.0, inherited).map(Some)
}

/// Serves until the process ends by its signals.
pub(super) fn serve(
    gateway: Gateway,
    settings: &Settings,
    (listening, seats): (Option<Arc<Listening>>, Arc<Seats>),
    drain: Drain,
) -> Result<(), String> {
    let mut conf = ServerConf {
        threads: settings.threads,
        // A connection and its upstream connections stay on one thread: nothing is handed between workers.
        work_stealing: false,
        // The drain ends the process itself, as soon as nothing is in flight; this is only the last resort.
        grace_period_seconds: Some(settings.drain_timeout.0.as_secs() + 30),
        graceful_shutdown_timeout_seconds: Some(1),
        max_retries: 64,
        ..ServerConf::default()
    };
    conf.upstream_keepalive_pool_size = settings.upstream_pool_size * settings.threads;
    // Sockets are handed over by ourselves.
    let mut server = Server::new_with_opt_and_conf(Some(Opt::default()), conf);
    server.bootstrap();
    let drain = Arc::new(drain);
    if let Some(listening) = listening {
        let (clocks, workers, tls) = (clocks(settings), settings.threads, tls(settings)?.map(Arc::new));
        // Connections to providers are closed in time, though no request comes by their thread.
        let upkeep = upstream::sweep;
        price_list::open_behind_the_start(&gateway.live.current().snapshot);
        let (batches, explainer) = (gateway.batches.clone(), gateway.explainer.clone());
        let runner = runner(&gateway, &drain);
        take_over_calls(&gateway, &drain);
        watch_batches(&gateway, &drain);
        let proxy = Arc::new(pingora::proxy::http_proxy(&server.configuration, gateway));
        let (door, most) = (line_door(proxy.clone())?, batches.settings.most_answer);
        let road = Arc::new(LineRoad::new(door, &batches.callers, most, &batches.runtime)?);
        explainer.open(road.clone());
        runner.start(road);
        for service in connections::services(&proxy, ConnectionSetup { listening, seats, clocks, workers, tls, upkeep })
        {
            server.add_boxed_service(service);
        }
    }
    shutdown::follow(&drain, server.watch_execution_phase());
    server.run(RunArgs { shutdown_signal: Box::new(Signals::new(drain)) });
    Ok(())
}

/// Whether this process takes leave, for what goes on until then.
fn leaving(drain: &Arc<Drain>) -> Box<dyn Fn() -> bool + Send + Sync> {
    let drain = drain.clone();
    Box::new(move || drain.is_draining())
}

/// What runs batches in this process, until it takes leave.
fn runner(gateway: &Gateway, drain: &Arc<Drain>) -> Runner {
    let (batches, live) = (gateway.batches.clone(), gateway.live.clone());
    let (budget, records, runs) = (gateway.budget.clone(), gateway.records.clone(), drain.runs());
    let node = gateway.calls.booked_records.node.as_str().into();
    Runner { batches, live, budget, records, node, runs, draining: leaving(drain) }
}

/// Goes on with calls whose node fell silent, until the process takes leave.
fn take_over_calls(gateway: &Gateway, drain: &Arc<Drain>) {
    let taking = CallTakeover {
        parts: gateway.calls.clone(),
        inline: gateway.inline.clone(),
        sticks: gateway.sticks.clone(),
        issuers: gateway.issuers.clone(),
        batches: gateway.batches.clone(),
        flight: gateway.flight.clone(),
    };
    taking.start(leaving(drain));
}

/// Looks at batches that clients made at providers, until the process takes leave.
fn watch_batches(gateway: &Gateway, drain: &Arc<Drain>) {
    let watcher = BatchWatcher {
        parts: gateway.calls.clone(),
        inline: gateway.inline.clone(),
        sticks: gateway.sticks.clone(),
        issuers: gateway.issuers.clone(),
        batches: gateway.batches.clone(),
    };
    watcher.start(leaving(drain));
}

/// A door for the lines of batches, which are served on a thread of their own: whoever waits for an answer does not
/// wait for them.
fn line_door<A: HttpServerApp + Send + Sync + 'static>(app: Arc<A>) -> Result<LineDoor, String> {
    let failed = |e: std::io::Error| format!("cannot start the thread of batches: {e}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let handle = runtime.handle().clone();
    let upkeep = async {
        loop {
            tokio::time::sleep(ROUND).await;
            upstream::sweep();
        }
    };
    std::thread::Builder::new().name("lines".into()).spawn(move || runtime.block_on(upkeep)).map_err(failed)?;
    let (open, shutdown) = watch::channel(false);
    Ok(Box::new(move |pipe| {
        let (app, shutdown) = (app.clone(), shutdown.clone());
        debug_assert!(!open.is_closed(), "it is held for as long as the door is");
        handle.spawn(async move {
            let mut session = ServerSession::new_http1(Box::new(pipe));
            session.set_keepalive(None);
            app.process_new_http(session, &shutdown).await;
        });
    }))
}

fn tls(settings: &Settings) -> Result<Option<Acceptor>, String> {
    let (Some(cert), Some(key)) = (&settings.tls_cert, &settings.tls_key) else { return Ok(None) };
    let (cert, key) = (cert.display().to_string(), key.display().to_string());
    // Pingora panics later on what it cannot load.
    match pingora::tls::load_certs_and_key_files(&cert, &key) {
        Ok(Some((certs, _))) if !certs.is_empty() => {}
        Ok(_) => return Err(format!("--tls-cert {cert}, --tls-key {key}: no PEM certificate or key in there")),
        Err(e) => return Err(format!("--tls-cert {cert}, --tls-key {key}: {e}")),
    }
    let mut tls =
        TlsSettings::intermediate(&cert, &key).map_err(|e| format!("--tls-cert {cert}, --tls-key {key}: {e}"))?;
    tls.enable_h2();
    Ok(Some(tls.build()))
}
