//! One write: a transaction in the store, checked against the snapshot as it will be, swapped in before the
//! answer, so that a client reads its own writes on the proxy at once.

use crate::actor::Actor;
use crate::app::{App, ClientAddr};
use crate::difference;
use crate::history;
use crate::problem::{Problem, bad, conflict, internal, missing};
use crate::route::{AdminCall, Visit};
use gateway_domain::id::{OrgId, UserId, WorkspaceId};
use gateway_domain::ports::{Batch, Changes, Rejection, Revision, WriteError};
use gateway_domain::record::mask;
use gateway_domain::resource::{Audit, Kind, Stored};
use gateway_domain::snapshot::{Snapshot, WorkspaceEntry};
use gateway_domain::time::Timestamp;
use http::request::Parts;
use http::{HeaderMap, Uri};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// Everything that is committed when a write decides: what the writer knew and what others wrote since.
pub(crate) struct WriteView<'a> {
    pub(crate) app: &'a App,
    pub(crate) snapshot: Snapshot,
    changes: &'a Changes,
}

impl WriteView<'_> {
    /// Whether nobody has written since the writer looked.
    pub(crate) const fn is_as_seen(&self) -> bool {
        self.changes.rows.is_empty()
    }

    /// What somebody else made of a row since it was read in this version.
    pub(crate) fn since(&self, kind: Kind, id: Uuid, version: i64) -> Option<&Stored> {
        let newer = |r: &&Stored| r.kind == kind.name() && r.id == id && r.version > version;
        self.changes.rows.iter().filter(newer).max_by_key(|r| r.revision)
    }

    /// Rows that may have changed or been made since they were read: as they are now, the deleted left out.
    pub(crate) fn now(&self, read: Vec<Stored>, wanted: impl Fn(&Stored) -> bool) -> Vec<Stored> {
        let mut rows: BTreeMap<(String, Uuid), Stored> = BTreeMap::new();
        for row in read.into_iter().chain(self.changes.rows.iter().filter(|r| wanted(r)).cloned()) {
            let key = (row.kind.clone(), row.id);
            if rows.get(&key).is_none_or(|known| known.version < row.version) {
                rows.insert(key, row);
            }
        }
        rows.into_values().filter(|r| r.deleted_at.is_none()).collect()
    }

    /// Whether someone took the slug since it was looked up. `shelf` `None`: anywhere in the organisation.
    pub(crate) fn took(&self, kind: Kind, org: OrgId, shelf: Option<Option<WorkspaceId>>, slug: &str) -> bool {
        self.changes.rows.iter().any(|r| {
            let here = shelf.is_none_or(|w| w.map(|w| w.0) == r.workspace);
            r.kind == kind.name() && r.org == org.0 && here && r.slug == slug && r.deleted_at.is_none()
        })
    }

    /// The workspace that a row belongs to.
    pub(crate) fn workspace(&self, id: Option<WorkspaceId>) -> Result<&Arc<WorkspaceEntry>, Problem> {
        id.and_then(|id| self.snapshot.workspace(id)).ok_or_else(|| missing("workspace"))
    }

    /// This view with rows of this write on top, so that one of them may refer to another.
    pub(crate) fn plus(&self, rows: &[Stored]) -> Result<Self, Problem> {
        let changes = Changes { revision: self.snapshot.revision, rows: rows.to_vec() };
        let (snapshot, problems) = self.snapshot.apply(&changes, &self.app.build());
        match problems.first() {
            None => Ok(Self { app: self.app, snapshot, changes: self.changes }),
            Some(p) => Err(bad(&p.kind, format_args!("cannot be put in force: it {}", p.message))),
        }
    }
}

/// Runs `decide` inside the store's transaction, then puts what was written in force. `seen` is the revision
/// of the snapshot taken before any row was read.
pub(crate) async fn commit<F>(app: &App, seen: Revision, decide: F) -> Result<Revision, Problem>
where
    F: FnOnce(&WriteView<'_>) -> Result<Batch, Problem> + Send,
{
    Ok(write(app, seen, decide).await?.revision)
}

/// Why nothing was written.
enum Unwritten {
    Refused(Problem),
    /// Another try of this request was carried out meanwhile.
    Repeated,
}

impl From<Unwritten> for Problem {
    fn from(why: Unwritten) -> Self {
        match why {
            Unwritten::Refused(problem) => problem,
            Unwritten::Repeated => conflict("the same request was carried out meanwhile"),
        }
    }
}

impl AdminCall {
    /// Writes like [`commit`], for a client's request: only if the row is in a state that its conditions allow, and
    /// together with the mark by which a repeated request is known.
    pub(crate) async fn commit<F>(&self, seen: Revision, decide: F) -> Result<Revision, Problem>
    where
        F: FnOnce(&WriteView<'_>) -> Result<Batch, Problem> + Send,
    {
        let conditioned = |around: &WriteView<'_>| {
            self.subject.check(around.changes)?;
            let mut batch = decide(around)?;
            batch.mark = self
                .repeat
                .as_ref()
                .and_then(|repeat| repeat.mark(&batch, around.changes.revision + 1, &*self.app.vault));
            Ok(batch)
        };
        let written = write(&self.app, seen, conditioned).await;
        if let Some(repeat) = &self.repeat {
            match &written {
                Ok(_) => repeat.is_marked(),
                Err(Unwritten::Repeated) => repeat.is_late(),
                Err(Unwritten::Refused(_)) => {}
            }
        }
        let changes = written?;
        self.subject.wrote(&changes);
        Ok(changes.revision)
    }

    /// Says before a commit what will be answered behind it, so that both are kept together for a client that has to
    /// ask again. What is answered otherwise in the end is kept afterwards.
    pub(crate) fn promise(&self, body: impl FnOnce() -> Value) {
        if let Some(repeat) = &self.repeat {
            repeat.promise(body());
        }
    }
}

async fn write<F>(app: &App, seen: Revision, decide: F) -> Result<Changes, Unwritten>
where
    F: FnOnce(&WriteView<'_>) -> Result<Batch, Problem> + Send,
{
    let checked = move |changes: &Changes| {
        let (snapshot, _) = app.live.snapshot().apply(changes, &app.build());
        let around = WriteView { app, snapshot, changes };
        let batch = decide(&around)?;
        around.plus(&batch.rows)?;
        Ok(Batch { compare: Some(difference::note_changes), history: Some(history::step), ..batch })
    };
    let written = app.store.write(seen, Box::new(|c| checked(c).map_err(|p: Problem| Box::new(p) as Rejection))).await;
    let changes = written.map_err(|error| match error {
        WriteError::Rejected(why) => {
            Unwritten::Refused(why.downcast().map_or_else(|_| internal("a write was refused without a reason"), |p| *p))
        }
        WriteError::Repeated => Unwritten::Repeated,
        WriteError::Store(error) => Unwritten::Refused(error.into()),
    })?;
    for problem in app.live.publish(&changes) {
        tracing::warn!(kind = problem.kind, id = %problem.id, message = problem.message, "a stored row cannot be read");
    }
    Ok(changes)
}

/// What is done to a resource, in the words of the audit trail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Create,
    Read,
    Update,
    Delete,
    Rotate,
    /// Another version of it is in force from now on.
    Publish,
    /// Something of it is about to happen.
    Warn,
}

impl Action {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Read => "read",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Rotate => "rotate",
            Self::Publish => "publish",
            Self::Warn => "warn",
        }
    }
}

/// Longer requests are told by the names of their fields: the trail must not outgrow what it tells of.
const MAX_TOLD: usize = 64 * 1024;

fn render_details(row: &Stored, request: &Map<String, Value>, origin: &ChangeOrigin<'_>) -> String {
    let request_id = origin.request_id;
    let details = json!({
        "request_id": request_id,
        "name": row.name,
        "slug": row.slug,
        "request": request,
        "headers": origin.headers,
        "by": origin.by,
    });
    let details = details.to_string();
    if details.len() <= MAX_TOLD {
        return details;
    }
    let fields: Vec<&String> = request.keys().collect();
    json!({
        "request_id": request_id,
        "name": row.name,
        "slug": row.slug,
        "fields": fields,
        "by": origin.by,
        "omitted_bytes": details.len(),
    })
    .to_string()
}

/// What somebody tried in vain.
pub(crate) struct RefusedChange<'a> {
    pub(crate) org: OrgId,
    pub(crate) workspace: Option<WorkspaceId>,
    pub(crate) action: &'a str,
    pub(crate) kind: Kind,
    pub(crate) id: String,
    pub(crate) status: u16,
    pub(crate) why: &'a str,
}

/// A thing that is no row of the configuration, as the audit trail tells of it.
pub(crate) struct AuditedThing<'a> {
    pub(crate) kind: &'static str,
    pub(crate) id: Uuid,
    pub(crate) org: OrgId,
    pub(crate) workspace: WorkspaceId,
    pub(crate) name: &'a str,
}

/// Who does something, and by which request.
pub(crate) struct ChangeOrigin<'a> {
    app: &'a App,
    at: Timestamp,
    actor: String,
    actor_kind: &'static str,
    api_key: String,
    /// What the person, or the key, is called today: both may be gone when somebody asks.
    by: Value,
    method: String,
    uri: String,
    client_ip: String,
    request_id: Uuid,
    /// Masked.
    headers: BTreeMap<String, String>,
}

/// A request of which nobody has read the body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdminHead<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) at: Timestamp,
    pub(crate) request_id: Uuid,
}

impl<'a> ChangeOrigin<'a> {
    pub(crate) fn of_call(call: &'a AdminCall) -> Self {
        let Who { actor, actor_kind, api_key, by } = Who::of(&call.app, &call.actor);
        Self {
            app: &call.app,
            at: call.now,
            actor,
            actor_kind,
            api_key,
            by,
            method: call.method.to_string(),
            uri: path(&call.uri),
            client_ip: call.client.map_or_else(String::new, |ip| ip.to_string()),
            request_id: call.request_id,
            headers: headers(&call.headers, &call.app),
        }
    }

    /// The origin of a request whose body nobody has read.
    pub(crate) fn of_head(app: &'a App, actor: &Actor, head: AdminHead<'_>) -> Self {
        let AdminHead { parts, at, request_id } = head;
        let client = parts.extensions.get::<ClientAddr>();
        let Who { actor, actor_kind, api_key, by } = Who::of(app, actor);
        Self {
            app,
            at,
            actor,
            actor_kind,
            api_key,
            by,
            method: parts.method.to_string(),
            uri: path(&parts.uri),
            client_ip: client.map_or_else(String::new, |c| c.0.to_string()),
            request_id,
            headers: headers(&parts.headers, app),
        }
    }

    pub(crate) fn of_visit(visit: &'a Visit, user: UserId) -> Self {
        Self {
            app: &visit.app,
            at: visit.now,
            actor: user.to_string(),
            actor_kind: "user",
            api_key: String::new(),
            by: Value::Null,
            method: visit.method.to_string(),
            // The way back from a sign-in brings a code and a state.
            uri: visit.uri.path().to_owned(),
            client_ip: visit.client.map_or_else(String::new, |ip| ip.to_string()),
            request_id: visit.request_id,
            headers: headers(&visit.headers, &visit.app),
        }
    }

    /// Whoever runs the gateway, by its command line.
    pub(crate) fn of_operator(app: &'a App) -> Self {
        Self { actor: "operator".to_owned(), ..Self::of_upkeep(app) }
    }

    /// The process itself, on its own account.
    pub(crate) fn of_upkeep(app: &'a App) -> Self {
        Self {
            app,
            at: app.now(),
            actor: "upkeep".to_owned(),
            actor_kind: "system",
            api_key: String::new(),
            by: Value::Null,
            method: String::new(),
            uri: String::new(),
            client_ip: String::new(),
            request_id: app.id(),
            headers: BTreeMap::new(),
        }
    }

    /// `request` is the body with its secrets masked.
    pub(crate) fn audit(&self, action: Action, row: &Stored, request: &Map<String, Value>) -> Audit {
        self.audit_event(action.name(), row, request)
    }

    /// An audit entry for an event that need not be somebody's doing, such as a budget that is used up.
    pub(crate) fn audit_event(&self, action: &str, row: &Stored, request: &Map<String, Value>) -> Audit {
        Audit {
            id: self.app.id(),
            at: self.at,
            org: row.org,
            workspace: row.workspace,
            actor: self.actor.clone(),
            actor_kind: self.actor_kind.to_owned(),
            api_key: self.api_key.clone(),
            action: action.to_owned(),
            resource_kind: row.kind.clone(),
            resource_id: row.id.to_string(),
            method: self.method.clone(),
            uri: self.uri.clone(),
            client_ip: self.client_ip.clone(),
            status: 200,
            details: render_details(row, request, self),
        }
    }

    /// An audit entry for something that is stored beside the configuration, such as an export of logs.
    pub(crate) fn audit_of(&self, action: &str, thing: &AuditedThing<'_>, request: &Map<String, Value>) -> Audit {
        let details = json!({
            "request_id": self.request_id,
            "name": thing.name,
            "request": request,
            "headers": self.headers,
            "by": self.by,
        });
        Audit {
            id: self.app.id(),
            at: self.at,
            org: thing.org.0,
            workspace: Some(thing.workspace.0),
            actor: self.actor.clone(),
            actor_kind: self.actor_kind.to_owned(),
            api_key: self.api_key.clone(),
            action: action.to_owned(),
            resource_kind: thing.kind.to_owned(),
            resource_id: thing.id.to_string(),
            method: self.method.clone(),
            uri: self.uri.clone(),
            client_ip: self.client_ip.clone(),
            status: 200,
            details: details.to_string(),
        }
    }

    /// An audit entry for a change that was refused. Its `resource_id` is what the request names.
    pub(crate) fn audit_refusal(&self, refused: &RefusedChange<'_>) -> Audit {
        let details = json!({
            "request_id": self.request_id,
            "refused": refused.why,
            "headers": self.headers,
            "by": self.by,
        });
        Audit {
            id: self.app.id(),
            at: self.at,
            org: refused.org.0,
            workspace: refused.workspace.map(|w| w.0),
            actor: self.actor.clone(),
            actor_kind: self.actor_kind.to_owned(),
            api_key: self.api_key.clone(),
            action: refused.action.to_owned(),
            resource_kind: refused.kind.name().to_owned(),
            resource_id: refused.id.clone(),
            method: self.method.clone(),
            uri: self.uri.clone(),
            client_ip: self.client_ip.clone(),
            status: refused.status,
            details: details.to_string(),
        }
    }
}

/// Who stands behind a key.
struct Who {
    actor: String,
    actor_kind: &'static str,
    api_key: String,
    by: Value,
}

impl Who {
    fn of(app: &App, actor: &Actor) -> Self {
        let (snapshot, api_key) = (app.live.snapshot(), actor.key.to_string());
        let key = snapshot.key_by_id(actor.key).map(|key| key.name.clone());
        match actor.user {
            Some(user) => {
                let person = snapshot.person(UserId(user));
                let name = person.map(|p| format!("{} {}", p.first_name, p.last_name).trim().to_owned());
                let by = json!({"name": name, "email": person.map(|p| &*p.email), "key": key});
                Self { actor: user.to_string(), actor_kind: "user", api_key, by }
            }
            None => Self { actor: api_key.clone(), actor_kind: "api_key", api_key, by: json!({"key": key}) },
        }
    }
}

fn path(uri: &Uri) -> String {
    // No change reads more of its query than the workspace; what else stands there may be a key gone astray.
    mask::url(uri.path(), uri.query())
}

/// The headers of a request for the audit trail: what may be a secret is masked as in the records of calls.
fn headers(given: &HeaderMap, app: &App) -> BTreeMap<String, String> {
    let rules = mask::MaskRules::default();
    let mut out: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in given {
        let name = name.as_str();
        let aliases = app.header_aliases.iter().map(|alias| &**alias);
        let own = std::iter::once("x-gateway-").chain(aliases).find_map(|prefix| name.strip_prefix(prefix));
        let shown = mask::header(name, own, value.as_bytes(), &rules, &[]);
        out.entry(name.to_owned()).and_modify(|all| *all = format!("{all}, {shown}")).or_insert(shown);
    }
    out
}

/// The audit row of a call; `request` is the body with its secrets masked.
pub(crate) fn audit(call: &AdminCall, action: Action, row: &Stored, request: &Map<String, Value>) -> Audit {
    ChangeOrigin::of_call(call).audit(action, row, request)
}
