//! The way that lines take: through a pipe into the door of this very process, as requests of the key that made the batch.
//! The secret of that key is nowhere known; for one line a pass stands for it, which nobody outside can have.

use crate::upstream::{AfterErrors, CheckedCalls, Dialer, Dns, InProcess};
use ahash::AHashMap;
use bytes::Bytes;
use gateway_domain::egress::Trusted;
use gateway_domain::id::KeyId;
use gateway_domain::keys::KeyHash;
use gateway_domain::ports::{Outside, OutsideCall, OutsideError, OutsideReply};
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

/// Takes the far end of a pipe and serves the requests that come by it.
pub(crate) type LineDoor = Box<dyn Fn(DuplexStream) + Send + Sync>;

/// Passes of the lines that are under way.
#[derive(Debug, Default)]
pub(crate) struct LineCallers(Mutex<AHashMap<KeyHash, KeyId>>);

impl LineCallers {
    /// The key that a pass stands for.
    pub(crate) fn key(&self, pass: &KeyHash) -> Option<KeyId> {
        self.0.lock().get(pass).copied()
    }

    pub(crate) fn under_way(&self) -> u64 {
        self.0.lock().len() as u64
    }

    fn admit(self: &Arc<Self>, key: KeyId) -> LinePass {
        let mut secret = [0_u8; 32];
        let mut text = String::from("line-");
        // Without randomness of the system there is no pass, and the line is refused as any unknown key is.
        if OsRng.try_fill_bytes(&mut secret).is_ok() {
            for byte in secret {
                let _ = write!(text, "{byte:02x}");
            }
            self.0.lock().insert(KeyHash::of(&text), key);
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
        let pass = self.callers.admit(call.key);
        let mut headers = call.headers.clone();
        let value = HeaderValue::from_str(&pass.text);
        let value = value.map_err(|_| OutsideError::Forbidden("has a pass that cannot be sent".to_owned()))?;
        headers.push((HeaderName::from_static("x-gateway-api-key"), value));
        headers.push((header::CONTENT_TYPE, HeaderValue::from_static("application/json")));
        let asked = OutsideCall {
            method: Method::POST,
            url: format!("http://{HOST}{}", call.endpoint),
            headers,
            body: call.body.clone(),
            within: LONGEST,
            most_reply: self.most_answer,
            redirects: 0,
        };
        self.calls.call(asked).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_pass_is_good_for_one_line() {
        let callers = Arc::<LineCallers>::default();
        let key = KeyId(Uuid::from_u128(7));
        let (one, other) = (callers.admit(key), callers.admit(key));
        assert_ne!(one.text, other.text);
        assert_eq!((callers.key(&KeyHash::of(&one.text)), callers.under_way()), (Some(key), 2));
        let text = one.text.clone();
        drop(one);
        assert_eq!((callers.key(&KeyHash::of(&text)), callers.under_way()), (None, 1));
    }
}
