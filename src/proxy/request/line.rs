//! A line of a file as a request of its own: asked by whoever sent the file, with the same headers. For translators and
//! for what is counted; nothing is sent for it by itself.

use super::{AskedFor, Caller, LastLook, RawNames, Request, RequestContent, Route, Waited};
use crate::proxy::capture_policy::CapturePolicy;
use http::Method;
use std::sync::{Arc, OnceLock};

/// What is said of one beside what it asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineMark<'a> {
    /// The trace id for the record of the line.
    pub(crate) trace: &'a str,
    pub(crate) metadata: &'a [(&'static str, String)],
}

impl Request {
    pub(crate) fn line(&self, route: &Route, content: RequestContent, mark: LineMark<'_>) -> Self {
        let (caller, ask) = (&self.caller, &self.ask);
        let mut metadata = caller.metadata.clone();
        for (name, value) in mark.metadata {
            metadata.retain(|(have, _)| have != name);
            metadata.push(((*name).to_owned(), value.clone()));
        }
        let trace: Arc<str> = mark.trace.into();
        Self {
            caller: Caller {
                tenant: caller.tenant.clone(),
                client_ip: caller.client_ip,
                started: caller.started,
                at: caller.at,
                looked: LastLook::default(),
                auth_us: caller.auth_us,
                waited: Waited::default(),
                trace,
                span: None,
                metadata,
                keep: CapturePolicy::Nothing,
            },
            ask: AskedFor {
                method: Method::POST,
                route: route.clone(),
                headers: ask.headers.clone(),
                credential: ask.credential.clone(),
                content,
                prompt: None,
                reckoned: OnceLock::new(),
                untouched_model: None,
                pin: ask.pin.clone(),
                raw_names: RawNames::default(),
                continues: None,
                upload: None,
                call: None,
                first_event: None,
            },
        }
    }
}
