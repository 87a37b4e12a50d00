//! HTTP beside the hot path: key sets of issuers, tokens of clouds, webhooks, telemetry. One client for addresses
//! that an admin may name, held to the rules of custom hosts, and one for the operator's own.
//! Knows nothing of inference; never used to reach a provider for a client's request.

use gateway_domain::egress::{Trusted, check_custom_host, dialable};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const CONNECT: Duration = Duration::from_secs(5);
const WHOLE: Duration = Duration::from_secs(15);
/// What is read here is small by nature; more is somebody's mistake or malice.
const MOST_BYTES: usize = 1 << 20;

/// Two clients that share nothing but their limits. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Outbound {
    trusted: Arc<Trusted>,
    checked: reqwest::Client,
    operator: reqwest::Client,
}

/// Why a call gave nothing; holds no secret of the request.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    #[error("the address {0}")]
    Forbidden(&'static str),
    #[error("{0}")]
    Failed(String),
    #[error("the answer is larger than 1 MiB")]
    TooLarge,
}

impl From<reqwest::Error> for OutboundError {
    fn from(e: reqwest::Error) -> Self {
        // Its address may carry a token in the query.
        let e = e.without_url();
        let mut text = e.to_string();
        let mut cause = std::error::Error::source(&e);
        while let Some(inner) = cause {
            text = format!("{text}: {inner}");
            cause = inner.source();
        }
        Self::Failed(text)
    }
}

/// A small answer, read whole.
#[derive(Debug)]
pub struct OutboundAnswer {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub body: Vec<u8>,
}

impl Outbound {
    pub fn new(trusted: Arc<Trusted>) -> Result<Self, OutboundError> {
        let client = || {
            reqwest::Client::builder()
                .connect_timeout(CONNECT)
                .timeout(WHOLE)
                // A redirect would lead past the check; none of the protocols used here needs one.
                .redirect(Policy::none())
                .no_proxy()
                .pool_max_idle_per_host(4)
                .user_agent(concat!("gateway/", env!("CARGO_PKG_VERSION")))
        };
        let checked = client().dns_resolver(Arc::new(Checked(trusted.clone()))).build()?;
        Ok(Self { trusted, checked, operator: client().build()? })
    }

    /// Begins a request to an address out of a resource: an admin's word, not the operator's, so it is checked.
    pub fn request(&self, method: http::Method, url: &str) -> Result<reqwest::RequestBuilder, OutboundError> {
        // The rule is about scheme, host and port; tokens and filters in a query are no part of it.
        let bare = url.split(['?', '#']).next().unwrap_or(url);
        check_custom_host(bare, &self.trusted).map_err(OutboundError::Forbidden)?;
        Ok(self.checked.request(method, url))
    }

    /// Whether the operator named the host of this address as one to be trusted.
    pub fn trusts(&self, url: &str) -> bool {
        let bare = url.split(['?', '#']).next().unwrap_or(url);
        let Ok(base) = gateway_domain::egress::BaseUrl::parse(bare) else { return false };
        base.host.parse().map_or_else(|_| self.trusted.name(&base.host), |ip| self.trusted.address(ip))
    }

    /// Begins a request to an address that needs no check: the operator's, or a constant here (metadata services).
    pub fn operator_request(&self, method: http::Method, url: &str) -> reqwest::RequestBuilder {
        self.operator.request(method, url)
    }
}

/// Sends and reads the whole answer, whatever its status.
pub async fn send(request: reqwest::RequestBuilder) -> Result<OutboundAnswer, OutboundError> {
    let mut response = request.send().await?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > MOST_BYTES {
            return Err(OutboundError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(OutboundAnswer { status, headers, body })
}

/// Looks a name up and hands on only what may be dialled, so that the checked address is the one dialled.
#[derive(Debug)]
struct Checked(Arc<Trusted>);

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let trusted = self.0.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let by_name = trusted.name(name.as_str());
            for address in &found {
                dialable(address.ip(), by_name || trusted.address(address.ip()))
                    .map_err(|why| format!("the address behind the name {why}"))?;
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    fn outbound(trusted: &[&str]) -> Outbound {
        Outbound::new(Arc::new(Trusted::parse(trusted).expect("valid"))).expect("builds")
    }

    #[test]
    fn private_addresses_are_refused_before_anything_is_dialled() {
        let out = outbound(&[]);
        for url in ["http://127.0.0.1/jwks", "https://10.0.0.1/", "http://169.254.169.254/latest", "http://a:b@x.com/"]
        {
            assert!(matches!(out.request(Method::GET, url), Err(OutboundError::Forbidden(_))), "{url}");
        }
        assert!(out.request(Method::GET, "https://issuer.example.com/keys?tenant=a").is_ok());
    }

    #[tokio::test]
    async fn a_trusted_address_is_dialled_and_large_answers_are_cut_off() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let url = format!("http://{}/", listener.local_addr().expect("bound"));
        let body = "x".repeat(MOST_BYTES + 1);
        let app = axum::Router::new().route("/", axum::routing::get(move || std::future::ready(body.clone())));
        let out = outbound(&["127.0.0.1"]);
        let got = tokio::select! {
            _ = async { axum::serve(listener, app).await } => panic!("the server ended"),
            got = send(out.request(Method::GET, &url).expect("trusted")) => got,
        };
        assert!(matches!(got, Err(OutboundError::TooLarge)), "{got:?}");
    }
}
