//! Guardrails of a config, as they were written: which lists stand at a target, or come down to it. What a list means
//! is read and compiled above, where checks are known; here it is data with a place in the document.

mod parser;

use super::place::canonical;
use serde_json::Value;

/// Whether a list judges requests or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HookSide {
    Input,
    Output,
}

/// The keys under which guardrails stand. Within one target they run in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookKey {
    BeforeRequestHooks,
    InputGuardrails,
    InputMutators,
    AfterRequestHooks,
    OutputGuardrails,
    OutputMutators,
}

impl HookKey {
    pub const ALL: [Self; 6] = [
        Self::BeforeRequestHooks,
        Self::InputGuardrails,
        Self::InputMutators,
        Self::AfterRequestHooks,
        Self::OutputGuardrails,
        Self::OutputMutators,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::BeforeRequestHooks => "before_request_hooks",
            Self::InputGuardrails => "input_guardrails",
            Self::InputMutators => "input_mutators",
            Self::AfterRequestHooks => "after_request_hooks",
            Self::OutputGuardrails => "output_guardrails",
            Self::OutputMutators => "output_mutators",
        }
    }

    pub const fn side(self) -> HookSide {
        match self {
            Self::BeforeRequestHooks | Self::InputGuardrails | Self::InputMutators => HookSide::Input,
            Self::AfterRequestHooks | Self::OutputGuardrails | Self::OutputMutators => HookSide::Output,
        }
    }

    /// The key behind a spelling of either casing.
    pub fn parse(key: &str) -> Option<Self> {
        let name = canonical(key);
        Self::ALL.into_iter().find(|key| key.name() == name)
    }
}

/// One list as it was written, its credentials opened.
#[derive(Clone, Debug)]
pub struct HookList {
    pub key: HookKey,
    /// Path of a [`super::ConfigProblem`]: `targets,0,input_guardrails`.
    pub path: String,
    pub value: Value,
}

/// What one object of the config sets for one side.
#[derive(Clone, Debug)]
pub struct HookSet {
    pub side: HookSide,
    pub lists: Vec<HookList>,
}

/// Places in [`super::Config::hooks`]. What a target sets for a side takes the place of what it would inherit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeafHooks {
    pub input: Option<usize>,
    pub output: Option<usize>,
}

impl LeafHooks {
    pub const fn is_empty(&self) -> bool {
        self.input.is_none() && self.output.is_none()
    }
}

/// Parameters of checks that hold an address; what stands behind its question mark often lets callers in.
pub const ADDRESSES: &[&str] = &["webhookURL", "logURL", "jwksUri", "introspectEndpoint"];

/// Visits each text of a list of hooks that is kept as a secret: credentials of partners, headers of webhooks, and the
/// queries of addresses.
pub(super) fn visit_hook_secrets(value: &mut Value, visit: &mut dyn FnMut(&mut String, &[String])) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| visit_hook_secrets(item, visit)),
        Value::Object(map) => {
            let called = called(map);
            let visit_here = &mut |text: &mut String| visit(text, &called);
            for (key, value) in map.iter_mut() {
                match (key.as_str(), &mut *value) {
                    ("credentials" | "headers", Value::Object(inner)) => inner.values_mut().for_each(|value| {
                        if let Value::String(text) = value {
                            visit_here(text);
                        }
                    }),
                    // Headers may come as their JSON text.
                    ("headers", Value::String(text)) => visit_here(text),
                    (name, Value::String(text)) if ADDRESSES.contains(&name) => visit_query(text, visit_here),
                    _ => {}
                }
            }
            for (key, value) in map.iter_mut() {
                if !matches!((key.as_str(), &*value), ("credentials" | "headers", Value::Object(_))) {
                    visit_hook_secrets(value, visit);
                }
            }
        }
        _ => {}
    }
}

/// Whom a check calls, as far as it says so itself.
fn called(parameters: &serde_json::Map<String, Value>) -> Vec<String> {
    let text = |name: &&str| parameters.get(*name).and_then(Value::as_str);
    let addresses = ADDRESSES.iter().filter_map(|name| text(name)?.split('?').next());
    let credentials = parameters.get("credentials").and_then(Value::as_object);
    let bases = credentials.into_iter().flatten().filter_map(|(_, value)| value.as_str());
    addresses.chain(bases.filter(|text| text.starts_with("https://"))).map(str::to_owned).collect()
}

fn visit_query(address: &mut String, visit: &mut dyn FnMut(&mut String)) {
    let Some((base, query)) = address.split_once('?').filter(|(_, query)| !query.is_empty()) else { return };
    let (base, mut query) = (base.to_owned(), query.to_owned());
    visit(&mut query);
    *address = format!("{base}?{query}");
}
