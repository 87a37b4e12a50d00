//! The yardstick: the least a Pingora proxy can do, on the same framework version, allocator and
//! build profile as the gateway. It must never learn anything of the gateway.

use async_trait::async_trait;
use clap::Parser;
use pingora::prelude::*;
use pingora::server::configuration::ServerConf;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Passes every request to one upstream, unread and unchanged.
#[derive(Debug, Parser)]
struct Settings {
    #[arg(long, env = "UPSTREAM", help = "address of the upstream, ip:port")]
    upstream: std::net::SocketAddr,
    #[arg(long, env = "LISTEN", default_value = "127.0.0.1:8080")]
    listen: String,
    #[arg(long, env = "THREADS", default_value_t = 2)]
    threads: usize,
}

struct Pass(std::net::SocketAddr);

#[async_trait]
impl ProxyHttp for Pass {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn upstream_peer(&self, _: &mut Session, (): &mut ()) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.0, false, String::new())))
    }
}

fn main() {
    let settings = Settings::parse();
    let conf = ServerConf {
        threads: settings.threads,
        upstream_keepalive_pool_size: 512,
        // Else a stopped benchmark lingers for minutes.
        grace_period_seconds: Some(0),
        graceful_shutdown_timeout_seconds: Some(0),
        ..ServerConf::default()
    };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let mut service = http_proxy_service(&server.configuration, Pass(settings.upstream));
    service.add_tcp(&settings.listen);
    server.add_service(service);
    server.run_forever();
}
