//! What tests of this room share: guardrails from JSON, a target that they guard, and calls that lead nowhere.

use super::buffer_budget::{HeldRoom, Room};
use super::{OutsideAnswers, TargetGuards};
use crate::upstream::{AfterErrors, CheckedCalls, Credentials, Dialer, Dns, Places};
use gateway_domain::egress::Trusted;
use gateway_guardrails::definition::{self, CompileContext};
use gateway_guardrails::{BodyShape, Facts, Guardrail};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// Room without end.
#[derive(Debug)]
struct Roomy;

impl Room for Roomy {
    fn open(&self) -> Box<dyn HeldRoom> {
        Box::new(Self)
    }
}

impl HeldRoom for Roomy {
    fn grow_to(&mut self, _: usize) -> bool {
        true
    }
    fn spare(&mut self, _: usize) -> bool {
        true
    }
}

pub(super) fn guardrail(checks: &Value, actions: &Value) -> Arc<Guardrail> {
    let (none, trusted) = (|_: &str| None, Trusted::default());
    let setup = CompileContext { credentials: &none, trusted: &trusted };
    Arc::new(definition::saved("g", checks, actions, &setup).unwrap_or_else(|e| panic!("{checks}: {e:?}")))
}

/// The answers of services outside; to be made within a runtime of Tokio.
pub(super) fn outside() -> Arc<OutsideAnswers> {
    let (trusted, handle) = (Arc::<Trusted>::default(), Handle::current());
    let dialer = Dialer::new(Dns::new(trusted.clone(), handle.clone()), Duration::from_secs(1), None);
    let places = Places {
        google_metadata: String::new(),
        azure_metadata: String::new(),
        azure_identity: None,
        azure_authority: String::new(),
        azure_token_file: None,
        aws: crate::settings::aws::platform(),
    };
    let outbound = crate::outbound::Outbound::new(trusted.clone()).expect("a client");
    let calls = CheckedCalls::new(Arc::new(dialer), trusted, AfterErrors::Rest);
    Arc::new(OutsideAnswers::new(Arc::new(calls), Arc::new(Credentials::new(outbound, places, handle))))
}

pub(super) fn guarded(output: Vec<Arc<Guardrail>>, shape: BodyShape) -> Arc<TargetGuards> {
    Arc::new(TargetGuards {
        input: Vec::new(),
        output,
        digest: Vec::new(),
        shape,
        facts: Arc::new(Facts::default()),
        request: None,
        request_is_transformed: false,
        moderator: None,
        room: Arc::new(Roomy),
    })
}
