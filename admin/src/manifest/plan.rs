//! Works out what a document would write: each declaration is read as the Admin API reads it, on top of what is stored.
//! Nothing is written here.

use super::item::{Assumed, PlannedRow, Planning, within};
use super::kinds::KINDS;
use super::naming::NamedItems;
use crate::app::App;
use crate::problem::{Problem, bad};
use crate::resource::declared::secrets::SecretValues;
use crate::route::AdminCall;
use gateway_domain::ports::{Changes, Live};
use gateway_domain::snapshot::{RowProblem, Snapshot};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;

/// Everything that a document asks for.
#[derive(Default)]
pub(super) struct DocumentPlan {
    pub(super) rows: Vec<PlannedRow>,
    pub(super) unchanged: usize,
    /// Declarations whose secrets are not known.
    pub(super) unknown: Vec<Assumed>,
    pub(super) missing_secrets: BTreeSet<String>,
    /// Secrets of the keys that get a new one because the document has none, by the id of the key.
    pub(super) made: BTreeMap<Uuid, String>,
}

/// The snapshot as it will be, for declarations that build on others of the document.
struct Frozen(Arc<Snapshot>);

impl Live for Frozen {
    fn snapshot(&self) -> Arc<Snapshot> {
        self.0.clone()
    }

    fn publish(&self, _: &Changes) -> Vec<RowProblem> {
        Vec::new()
    }
}

/// A copy of the call that sees `snapshot` as the configuration in force.
fn before(call: &AdminCall, snapshot: &Arc<Snapshot>) -> AdminCall {
    let app = App { live: Arc::new(Frozen(snapshot.clone())), ..(*call.app).clone() };
    AdminCall {
        app: Arc::new(app),
        route: call.route,
        actor: call.actor.clone(),
        now: call.now,
        method: call.method.clone(),
        uri: call.uri.clone(),
        vars: Vec::new(),
        query: call.query.clone(),
        bytes: bytes::Bytes::new(),
        client: call.client,
        request_id: call.request_id,
        headers: call.headers.clone(),
        subject: call.subject.clone(),
        repeat: None,
    }
}

pub(super) fn plan(
    named: NamedItems,
    call: &AdminCall,
    secrets: &SecretValues,
    by_operator: bool,
) -> Result<DocumentPlan, Problem> {
    let mut plan = DocumentPlan::default();
    let (made, missing) = (RefCell::default(), RefCell::default());
    let NamedItems { items, names } = named;
    let mut snapshot = call.app.live.snapshot();
    let mut items = items.into_iter().peekable();
    for kind in KINDS {
        let here = before(call, &snapshot);
        let planning = Planning { call: &here, names: &names, secrets, by_operator, made: &made, missing: &missing };
        let (mut rows, mut errors) = (Vec::new(), Vec::new());
        while let Some(item) = items.next_if(|item| item.kind.kind == kind.kind) {
            let at = item.at();
            match (kind.assume)(item, &planning) {
                Ok(Assumed::Same) => plan.unchanged += 1,
                Ok(Assumed::Planned(row)) => {
                    rows.push(row.stored.clone());
                    plan.rows.push(*row);
                }
                Ok(unknown) => plan.unknown.push(unknown),
                Err(problem) => errors.push(within(&at, problem)),
            }
        }
        refuse(errors)?;
        if !rows.is_empty() {
            let changes = Changes { revision: snapshot.revision, rows };
            let (next, problems) = snapshot.apply(&changes, &call.app.build());
            let broken = problems.iter().map(|problem| {
                let row = plan.rows.iter().find(|row| row.stored.id == problem.id);
                let at = row.map_or_else(String::new, |row| format!("{} {}", kind.section, row.name.shown()));
                within(&at, bad("it", format_args!("cannot be put in force: {}", problem.message)))
            });
            refuse(broken.collect())?;
            snapshot = Arc::new(next);
        }
    }
    plan.made = made.into_inner();
    plan.missing_secrets = missing.into_inner();
    Ok(plan)
}

/// The first problem, with the others of its kind beside it.
fn refuse(errors: Vec<Problem>) -> Result<(), Problem> {
    const MOST: usize = 50;
    let all: Vec<String> = errors.iter().take(MOST).map(|problem| problem.message.clone()).collect();
    match errors.into_iter().next() {
        None => Ok(()),
        Some(first) if all.len() == 1 => Err(first),
        Some(first) => Err(Problem { message: all.join("; "), errors: all, ..first }),
    }
}
