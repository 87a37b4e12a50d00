//! The way that lines take: through a pipe into the door of this very process, as requests of the key that made the
//! batch. A pass goes with each of them. Requests that are only supposed go the same way, with passes that say so.

use super::line_context::{Guest, LineCallers, LineGuest, LinePass};
use crate::upstream::http1::Response;
use crate::upstream::{AfterErrors, CheckedCalls, Dialer, Dns, InProcess, StreamedBody};
use bytes::Bytes;
use gateway_domain::egress::Trusted;
use gateway_domain::id::KeyId;
use gateway_domain::ports::{Outside, OutsideCall, OutsideError, OutsideReply, SupposedRequest};
use http::{HeaderName, HeaderValue, Method, header};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::DuplexStream;
use tokio::runtime::Handle;

/// The host name of batches' own requests: known to no DNS, and to no dialler but the one here.
const HOST: &str = "batches.internal";
/// The most time for one line with all its tries.
const LONGEST: Duration = Duration::from_secs(1_800);
/// The longest wait for the next piece of what is up- or downloaded.
const BETWEEN_PIECES: Duration = Duration::from_secs(600);
/// The most time for a request that is not made: its answer tells what would become of it.
const SUPPOSED: Duration = Duration::from_secs(30);

/// Takes the far end of a pipe and serves the requests that come by it.
pub(crate) type LineDoor = Box<dyn Fn(DuplexStream) + Send + Sync>;

/// One line on its way.
pub(super) struct LineCall {
    pub(super) endpoint: String,
    pub(super) key: KeyId,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Bytes,
    pub(super) guest: Arc<LineGuest>,
}

/// A call of the provider that has a batch, for the same key and by the same config.
pub(super) struct NativeCall {
    pub(super) key: KeyId,
    pub(super) method: Method,
    pub(super) target: String,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Bytes,
    pub(super) guest: Arc<LineGuest>,
}

impl LineCall {
    fn asked(&self, within: Duration) -> LineRequest<'_> {
        let (method, target) = (Method::POST, self.endpoint.as_str());
        LineRequest { method, target, headers: &self.headers, body: &self.body, within }
    }

    fn guest(&self, supposes: bool) -> Guest {
        Guest { key: self.key, supposes, line: Some(self.guest.clone()) }
    }
}

/// What goes through the pipe.
struct LineRequest<'a> {
    method: Method,
    target: &'a str,
    headers: &'a [(HeaderName, HeaderValue)],
    body: &'a Bytes,
    within: Duration,
}

pub(crate) struct LineRoad {
    calls: CheckedCalls,
    callers: Arc<LineCallers>,
    most_answer: usize,
}

impl LineRoad {
    pub(crate) fn new(
        door: LineDoor,
        callers: &Arc<LineCallers>,
        most_answer: usize,
        runtime: &Handle,
    ) -> Result<Self, String> {
        let trusted = Arc::new(Trusted::parse(&[HOST])?);
        let dns = Dns::new(trusted.clone(), runtime.clone());
        let dialer = Dialer::new(dns, Duration::from_secs(5), Some(InProcess::new(HOST, door)));
        let calls = CheckedCalls::new(Arc::new(dialer), trusted, AfterErrors::GoOn);
        Ok(Self { calls, callers: callers.clone(), most_answer })
    }

    pub(super) async fn send(&self, call: &LineCall) -> Result<OutsideReply, OutsideError> {
        self.go(call.guest(false), call.asked(LONGEST)).await
    }

    /// The answer is read by whoever asked; `upload` goes up in the place of the call's own body.
    pub(super) async fn open(&self, call: NativeCall, upload: Option<StreamedBody>) -> Result<Response, OutsideError> {
        let pass = self.callers.admit(Guest { key: call.key, supposes: false, line: Some(call.guest) });
        let mut headers = call.headers;
        headers.push(header_of(&pass)?);
        let (method, body, within) = (call.method, call.body, BETWEEN_PIECES);
        let url = format!("http://{HOST}{}", call.target);
        let call = OutsideCall { method, url, headers, body, within, most_reply: 0, redirects: 0 };
        // The door has let it in by the time that its answer begins.
        self.calls.open(&call, upload).await
    }

    /// What would become of a line.
    pub(super) async fn suppose_line(&self, call: &LineCall) -> Result<OutsideReply, OutsideError> {
        self.go(call.guest(true), call.asked(SUPPOSED)).await
    }

    /// A request that is not made: what would become of it is its answer.
    pub(crate) async fn suppose(&self, request: &SupposedRequest) -> Result<OutsideReply, OutsideError> {
        let SupposedRequest { key, method, target, headers, body } = request;
        let asked = LineRequest { method: method.clone(), target, headers, body, within: SUPPOSED };
        self.go(Guest { key: *key, supposes: true, line: None }, asked).await
    }

    async fn go(&self, guest: Guest, asked: LineRequest<'_>) -> Result<OutsideReply, OutsideError> {
        let pass = self.callers.admit(guest);
        let mut headers = asked.headers.to_vec();
        headers.push(header_of(&pass)?);
        if !asked.body.is_empty() || asked.method == Method::POST {
            headers.push((header::CONTENT_TYPE, HeaderValue::from_static("application/json")));
        }
        let call = OutsideCall {
            method: asked.method,
            url: format!("http://{HOST}{}", asked.target),
            headers,
            body: asked.body.clone(),
            within: asked.within,
            most_reply: self.most_answer,
            redirects: 0,
        };
        self.calls.call(call).await
    }
}

fn header_of(pass: &LinePass) -> Result<(HeaderName, HeaderValue), OutsideError> {
    let value = HeaderValue::from_str(&pass.text);
    let value = value.map_err(|_| OutsideError::Forbidden("has a pass that cannot be sent".to_owned()))?;
    Ok((HeaderName::from_static("x-gateway-api-key"), value))
}
