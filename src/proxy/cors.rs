//! Browser apps of other origins (CORS, <https://fetch.spec.whatwg.org/#http-cors-protocol>): a module of Pingora's,
//! put in only where `--cors-origins` names some, or `--mcp-allowed-origins` does for MCP servers. Keys travel in
//! headers and never in cookies, so no credentials are allowed.

use async_trait::async_trait;
use gateway_domain::operation::is_mcp_server;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::modules::http::{HttpModule, HttpModuleBuilder, Module};
use std::any::Any;
use std::sync::Arc;

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE");
/// Browsers ask again after two hours at most, whatever they are told.
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");
const ANY: HeaderValue = HeaderValue::from_static("*");
const VARY: HeaderValue = HeaderValue::from_static("origin");
/// More than any library sends.
const MOST_REQUESTED: usize = 4096;

/// Origins whose pages may call.
#[derive(Debug, Default)]
pub(crate) struct CorsOrigins {
    any: bool,
    listed: Vec<HeaderValue>,
}

impl CorsOrigins {
    /// `None`: no origin is named.
    pub(crate) fn parse(given: &[String]) -> Result<Option<Arc<Self>>, String> {
        let mut origins = Self::default();
        for text in given.iter().flat_map(|g| g.split(',')).map(str::trim).filter(|t| !t.is_empty()) {
            if text == "*" {
                origins.any = true;
                continue;
            }
            let host = text.split_once("://").filter(|(scheme, _)| !scheme.is_empty()).map(|(_, host)| host);
            let bare = host.is_some_and(|h| !h.is_empty() && !h.contains(['/', '?', '#', '*', '@']));
            let value = HeaderValue::from_str(&text.to_ascii_lowercase()).ok().filter(|_| bare);
            let wrong = || format!("--cors-origins `{text}` must be * or an origin such as https://app.example.com");
            origins.listed.push(value.ok_or_else(wrong)?);
        }
        Ok((origins.any || !origins.listed.is_empty()).then(|| Arc::new(origins)))
    }

    fn grants(&self, origin: &HeaderValue) -> Option<HeaderValue> {
        if self.any {
            return Some(ANY);
        }
        self.listed.iter().find(|known| origin.as_bytes().eq_ignore_ascii_case(known.as_bytes())).cloned()
    }

    /// Whether pages of this origin may call.
    pub(crate) fn allows(&self, origin: &HeaderValue) -> bool {
        self.grants(origin).is_some()
    }

    /// Whether an origin that may call is of this host, its port aside.
    pub(crate) fn names_host(&self, host: &str) -> bool {
        let bare = |text: &str| {
            text.rsplit_once(':')
                .filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()))
                .map_or_else(|| text.to_ascii_lowercase(), |(name, _)| name.to_ascii_lowercase())
        };
        let of = |origin: &HeaderValue| origin.to_str().ok().and_then(|o| Some(bare(o.split_once("://")?.1)));
        self.any || self.listed.iter().filter_map(of).any(|known| known == bare(host))
    }

    /// Whether this asks, for a page that may call, if a call may be made.
    pub(crate) fn is_preflight(&self, request: &RequestHeader) -> bool {
        let asks =
            request.method == Method::OPTIONS && request.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        asks && request.headers.get(header::ORIGIN).is_some_and(|origin| self.grants(origin).is_some())
    }
}

/// Makes the module of each request.
pub(crate) struct CorsBuilder {
    pub(crate) all: Option<Arc<CorsOrigins>>,
    /// Origins that MCP servers admit beside those for all.
    pub(crate) mcp: Option<Arc<CorsOrigins>>,
}

impl HttpModuleBuilder for CorsBuilder {
    fn init(&self) -> Module {
        let (all, mcp) = (self.all.clone(), self.mcp.clone());
        Box::new(CorsModule { all, mcp, is_any: false, granted: None, requested: None, preflight: false })
    }
}

/// One request's part.
struct CorsModule {
    all: Option<Arc<CorsOrigins>>,
    mcp: Option<Arc<CorsOrigins>>,
    /// Whether the answer is the same for every origin.
    is_any: bool,
    granted: Option<HeaderValue>,
    /// Headers that a preflight names.
    requested: Option<HeaderValue>,
    preflight: bool,
}

#[async_trait]
impl HttpModule for CorsModule {
    async fn request_header_filter(&mut self, request: &mut RequestHeader) -> pingora::Result<()> {
        let mcp = self.mcp.as_ref().filter(|_| is_mcp_server(request.uri.path()));
        let lists = [self.all.as_ref(), mcp];
        let lists = || lists.into_iter().flatten();
        self.is_any = lists().any(|origins| origins.any);
        let origin = request.headers.get(header::ORIGIN);
        self.granted = origin.and_then(|origin| lists().find_map(|origins| origins.grants(origin)));
        self.preflight = lists().any(|origins| origins.is_preflight(request));
        if self.preflight {
            let named = request.headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS);
            self.requested = named.filter(|names| names.len() <= MOST_REQUESTED).cloned();
        }
        Ok(())
    }

    async fn response_header_filter(&mut self, head: &mut ResponseHeader, _end: bool) -> pingora::Result<()> {
        if self.all.is_none() && self.granted.is_none() {
            return Ok(());
        }
        // What a provider allows to pages was meant for its own clients.
        for name in theirs(&head.headers) {
            head.remove_header(&name);
        }
        if !self.is_any {
            head.append_header(header::VARY, VARY)?;
        }
        let Some(granted) = self.granted.clone() else { return Ok(()) };
        head.insert_header(header::ACCESS_CONTROL_ALLOW_ORIGIN, granted)?;
        if !self.preflight {
            return head.insert_header(header::ACCESS_CONTROL_EXPOSE_HEADERS, ANY);
        }
        head.insert_header(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS)?;
        head.insert_header(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE)?;
        match self.requested.clone() {
            Some(requested) => head.insert_header(header::ACCESS_CONTROL_ALLOW_HEADERS, requested),
            None => Ok(()),
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

fn theirs(headers: &HeaderMap) -> Vec<HeaderName> {
    headers.keys().filter(|name| name.as_str().starts_with("access-control-")).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Option<Arc<CorsOrigins>>, String> {
        CorsOrigins::parse(&[text.to_owned()])
    }

    #[test]
    fn origins_have_a_scheme_and_a_host_and_nothing_more() {
        for text in
            ["app.example.com", "https://", "https://a.example/path", "https://*.example", "https://u@h", "://h"]
        {
            assert!(parsed(text).is_err_and(|why| why.contains(text)), "{text}");
        }
        assert!(parsed("").is_ok_and(|origins| origins.is_none()));
        let some = parsed("https://App.example.com, http://localhost:3000").ok().flatten().expect("origins");
        for (origin, granted) in
            [("https://app.example.com", true), ("http://app.example.com", false), ("http://localhost:3000", true)]
        {
            assert_eq!(some.grants(&HeaderValue::from_static(origin)).is_some(), granted, "{origin}");
        }
        let any = parsed("*").ok().flatten().expect("origins");
        assert_eq!(any.grants(&HeaderValue::from_static("null")), Some(ANY));
    }
}
