//! The lists of guardrails of one object of a config document.

use super::{HookKey, HookList, HookSet, HookSide, LeafHooks, visit_hook_secrets};
use crate::config::compiler::Compiler;
use crate::config::cost::Cost;
use crate::config::place::At;
use crate::config::typed_fields::Fields;
use serde_json::Value;

impl Compiler<'_> {
    /// Notes the lists of one object; sets the sides that it names.
    pub(in crate::config) fn hooks(&mut self, at: &At<'_>, fields: &Fields<'_>, into: &mut LeafHooks) {
        for side in [HookSide::Input, HookSide::Output] {
            let mut lists = Vec::new();
            for key in HookKey::ALL.into_iter().filter(|key| key.side() == side) {
                let Some(value) = fields.get(key.name()) else { continue };
                let here = at.then(key.name());
                let Value::Array(_) = value else {
                    self.here(&here, "must be a list of slugs or of objects");
                    continue;
                };
                // A tree of values takes several times its text.
                if !self.spend(&here, Cost::Memory, value.to_string().len() * 4) {
                    continue;
                }
                let mut value = value.clone();
                let mut closed = false;
                visit_hook_secrets(&mut value, &mut |text, _| match (self.context.open)(text) {
                    Some(opened) => *text = opened.expose().clone(),
                    None => closed = true,
                });
                if closed {
                    self.here(&here, "holds a credential that cannot be opened with this master key");
                }
                lists.push(HookList { key, path: here.path(), value });
            }
            if lists.is_empty() {
                continue;
            }
            let place = self.hook_sets.len();
            self.hook_sets.push(HookSet { side, lists });
            match side {
                HookSide::Input => into.input = Some(place),
                HookSide::Output => into.output = Some(place),
            }
        }
    }
}
