//! Guardrails inside a config document: compiled to see that they can be, and followed to what they name.

use crate::change::WriteView;
use gateway_domain::config::hooks::HookList;
use gateway_domain::config::{Config, ConfigProblem as Broken};
use gateway_domain::snapshot::WorkspaceEntry;
use gateway_guardrails::definition::{self, CompileContext, ListedGuardrail};

/// Bytes that the guardrails of one config may take once they are compiled.
const MOST_BYTES: usize = 32 << 20;

/// All that is wrong with them, at the places of their lists.
pub(super) fn problems(config: &Config, workspace: &WorkspaceEntry, around: &WriteView<'_>) -> Vec<Broken> {
    let org = around.snapshot.org(workspace.org);
    let credentials = |partner: &str| org.and_then(|org| org.partners().get(partner)).map(|saved| saved.plain());
    let setup = CompileContext { credentials: &credentials, trusted: &around.app.trusted };
    let (mut out, mut bytes) = (Vec::new(), 0);
    for list in config.hooks.iter().flat_map(|set| &set.lists) {
        let broken = |list: &HookList, message: String| Broken { path: list.path.clone(), message };
        let entries = match definition::of_config(list, &setup) {
            Ok(entries) => entries,
            Err(problems) => {
                out.extend(problems.iter().map(|problem| broken(list, problem.to_string())));
                continue;
            }
        };
        for entry in entries {
            match entry {
                ListedGuardrail::Saved(name) if around.snapshot.guardrail(workspace, &name).is_none() => {
                    out.push(broken(list, format!("`{name}` is not a guardrail of this workspace")));
                }
                ListedGuardrail::Saved(_) => {}
                ListedGuardrail::Inline(guardrail) => bytes += guardrail.memory(),
            }
        }
        if bytes > MOST_BYTES {
            out.push(broken(list, format!("goes beyond the {MOST_BYTES} bytes that guardrails of a config may take")));
            break;
        }
    }
    out
}
