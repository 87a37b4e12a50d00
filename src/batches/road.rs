//! The way that lines take: through a pipe into the door of this very process, as requests of the key that made the batch.
//! The secret of that key is nowhere known; for one line a pass stands for it, which nobody outside can have. Requests that
//! are only supposed go the same way, with passes that say so.

use crate::upstream::{AfterErrors, CheckedCalls, Dialer, Dns, InProcess};
use ahash::AHashMap;
use bytes::Bytes;
use gateway_domain::egress::Trusted;
use gateway_domain::id::KeyId;
use gateway_domain::keys::KeyHash;
use gateway_domain::ports::{Outside, OutsideCall, OutsideError, OutsideReply, SupposedRequest};
use http::{HeaderName, HeaderValue, Method, header};
use parking_lot::Mutex;
use rand::TryRngCore as _;
use rand::rngs::OsRng;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::DuplexStream;
use tokio::runtime::Handle;

/// Known to no DNS, and to no dialler but the one here.
const HOST: &str = "batches.internal";
/// For one line with all its tries.
const LONGEST: Duration = Duration::from_secs(1_800);
/// For a request that is only supposed.
const SUPPOSED: Duration = Duration::from_secs(30);

/// Takes the far end of a pipe and serves the requests that come by it.
pub(crate) type LineDoor = Box<dyn Fn(DuplexStream) + Send + Sync>;

/// Whom a pass stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guest {
    pub(crate) key: KeyId,
    /// Its request is not to be made, but told.
    pub(crate) supposes: bool,
}

/// Passes of the lines that are under way.
#[derive(Debug, Default)]
pub(crate) struct LineCallers(Mutex<AHashMap<KeyHash, Guest>>);

impl LineCallers {
    /// Whom a pass stands for.
    pub(crate) fn guest(&self, pass: &KeyHash) -> Option<Guest> {
        self.0.lock().get(pass).copied()
    }

    pub(crate) fn under_way(&self) -> u64 {
        self.0.lock().values().filter(|guest| !guest.supposes).count() as u64
    }

    fn admit(self: &Arc<Self>, guest: Guest) -> LinePass {
        let mut secret = [0_u8; 32];
        let mut text = String::from("line-");
        // Without randomness of the system there is no pass, and the line is refused as any unknown key is.
        if OsRng.try_fill_bytes(&mut secret).is_ok() {
            for byte in secret {
                let _ = write!(text, "{byte:02x}");
            }
            self.0.lock().insert(KeyHash::of(&text), guest);
        }
        LinePass { callers: self.clone(), text }
    }
}

/// Good until it is dropped.
struct LinePass {
    callers: Arc<LineCallers>,
    text: String,
}

impl Drop for LinePass {
    fn drop(&mut self) {
        self.callers.0.lock().remove(&KeyHash::of(&self.text));
    }
}

/// One line on its way.
pub(super) struct LineCall {
    pub(super) endpoint: String,
    pub(super) key: KeyId,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Bytes,
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
        let (method, target) = (Method::POST, call.endpoint.as_str());
        let asked = LineRequest { method, target, headers: &call.headers, body: &call.body, within: LONGEST };
        self.go(Guest { key: call.key, supposes: false }, asked).await
    }

    /// A request that is not made: what would become of it is its answer.
    pub(crate) async fn suppose(&self, request: &SupposedRequest) -> Result<OutsideReply, OutsideError> {
        let SupposedRequest { key, method, target, headers, body } = request;
        let asked = LineRequest { method: method.clone(), target, headers, body, within: SUPPOSED };
        self.go(Guest { key: *key, supposes: true }, asked).await
    }

    async fn go(&self, guest: Guest, asked: LineRequest<'_>) -> Result<OutsideReply, OutsideError> {
        let pass = self.callers.admit(guest);
        let mut headers = asked.headers.to_vec();
        let value = HeaderValue::from_str(&pass.text);
        let value = value.map_err(|_| OutsideError::Forbidden("has a pass that cannot be sent".to_owned()))?;
        headers.push((HeaderName::from_static("x-gateway-api-key"), value));
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

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_pass_is_good_for_one_line() {
        let callers = Arc::<LineCallers>::default();
        let guest = Guest { key: KeyId(Uuid::from_u128(7)), supposes: false };
        let (one, other) = (callers.admit(guest), callers.admit(Guest { supposes: true, ..guest }));
        assert_ne!(one.text, other.text);
        assert_eq!((callers.guest(&KeyHash::of(&one.text)), callers.under_way()), (Some(guest), 1));
        let text = one.text.clone();
        drop(one);
        assert_eq!((callers.guest(&KeyHash::of(&text)), callers.under_way()), (None, 0));
        assert!(callers.guest(&KeyHash::of(&other.text)).is_some_and(|guest| guest.supposes));
    }
}
