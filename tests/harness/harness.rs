//! What end-to-end tests stand on: the real binary, upstreams that misbehave on cue, and clients exact
//! enough to see framing. Knows no test.

pub(crate) mod admin;
pub(crate) mod call;
pub(crate) mod gateway;
pub(crate) mod http2;
pub(crate) mod installed;
pub(crate) mod issuer;
pub(crate) mod mock;
pub(crate) mod oidc;
pub(crate) mod ports;
pub(crate) mod process;
pub(crate) mod raw;
pub(crate) mod reply;
pub(crate) mod socket;
pub(crate) mod upstream;
pub(crate) mod vaults;
pub(crate) mod wire;

pub(crate) use call::Answer;
pub(crate) use gateway::{ADMIN_KEY, Gateway, WORKSPACE_KEY};
pub(crate) use installed::installed;
pub(crate) use mock::Mock;
pub(crate) use process::stand_at_noon;
pub(crate) use raw::Raw;
pub(crate) use socket::{LiveProvider, Said, Socket};
pub(crate) use upstream::{Peer, Seen, Upstream};
pub(crate) use vaults::Manager;
pub(crate) use wire::Wire;

use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The least chat request that every bound accepts.
pub(crate) fn hello() -> Value {
    json!({ "model": "gpt-4o-mini", "messages": [{ "role": "user", "content": "hello there" }] })
}

/// `body` with `fields` laid over its top level.
pub(crate) fn with(mut body: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else { panic!("fields must be an object") };
    body.as_object_mut().expect("an object").extend(fields);
    body
}

/// Polls until `probe` gives a value. The bound only ends a broken test; passing ones never wait for it.
pub(crate) async fn eventually<T, F>(what: &str, probe: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    eventually_within(Duration::from_secs(20), what, probe).await
}

/// Polls like [`eventually`] within another bound, for what the gateway itself waits for.
pub(crate) async fn eventually_within<T, F>(bound: Duration, what: &str, mut probe: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + bound;
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(Instant::now() < deadline, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
