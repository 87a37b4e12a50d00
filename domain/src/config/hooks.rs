//! Guardrails of a config, as they were written: which lists stand at a target, or come down to it. What a list means is
//! read and compiled above, where checks are known; here it is data with a place in the document.

mod reading;

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
    /// Path of a [`super::Problem`]: `targets,0,input_guardrails`.
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

/// Visits each text of a list of hooks that is kept as a secret: credentials of partners and headers of webhooks.
pub(super) fn visit_hook_secrets(value: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| visit_hook_secrets(item, visit)),
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                match (key.as_str(), &mut *value) {
                    ("credentials" | "headers", Value::Object(inner)) => inner.values_mut().for_each(|value| {
                        if let Value::String(text) = value {
                            visit(text);
                        }
                    }),
                    // Headers may come as their JSON text.
                    ("headers", Value::String(text)) => visit(text),
                    _ => visit_hook_secrets(value, visit),
                }
            }
        }
        _ => {}
    }
}
