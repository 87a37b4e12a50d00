//! Gateway keys. The secret is made here and shown in one answer only; its hash and its mask are kept.
//! What may be done to a key depends on its kind, so each kind has scopes of its own.

mod declared;
mod details;
mod limit_status;
mod reach;
pub(crate) mod rotation;
mod scopes;

pub(super) use scopes::{READ, UPDATE};

use super::limits::{self, AllowedLimits, LimitsEdit, LimitsInput};
use super::{NewRow, Resource, ResourceRow, Slug, collect, delete, draft, get, render_rows, searched, update, views};
use crate::actor::Actor;
use crate::app::App;
use crate::change::{Action, WriteView, audit};
use crate::grant;
use crate::input::{Edit, Flag, Paging, WholeNumber};
use crate::problem::{Problem, bad, forbidden};
use crate::resource::provider::{check_count, check_future};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, any_key, authed};
use gateway_domain::id::{KeyId, UserId, WorkspaceId};
use gateway_domain::keys::{KeyHash, mint};
use gateway_domain::ports::{Batch, Holder, ResourceQuery};
use gateway_domain::resource::api_key::{ApiKey, KeyDefaults, KeyKind};
use gateway_domain::resource::limits::ResourceLimits;
use gateway_domain::resource::mcp_reach::McpReach;
use gateway_domain::resource::person::{OrgRole, email};
use gateway_domain::resource::{Kind, check_name};
use gateway_domain::scope::{Scope, Scopes, WrittenScopes};
use gateway_domain::secret::mask;
use gateway_domain::snapshot::{Snapshot, WorkspaceEntry};
use gateway_domain::time::Timestamp;
use http::Method;
use scopes::{CREATE, DELETE, LIST, ROTATE, column};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

pub(crate) fn routes() -> Vec<AdminRoute> {
    vec![
        authed(
            Method::POST,
            "/api-keys/{type}/{sub_type}",
            CREATE,
            "Make a key; its secret is in this answer only",
            create,
        )
        .takes::<NewApiKey>()
        .and(&["workspace_id"]),
        authed(Method::GET, "/api-keys", LIST, "List keys, their secrets masked", list).asks(&[
            "workspace_id",
            "search",
            "ids",
            "current_page",
            "page_size",
        ]),
        any_key(Method::GET, "/api-keys/self/details", "Show the key that asks, and where it belongs", details::show),
        any_key(Method::GET, "/api-keys/self/limits", "Show what the key that asks is held to now", limit_status::own),
        authed(Method::GET, "/api-keys/{id}/limits", READ, "Show what a key is held to now", limit_status::show)
            .asks(HERE),
        authed(Method::GET, "/api-keys/{id}", READ, "Show a key, its secret masked", get::<ApiKey>).asks(HERE),
        authed(Method::PUT, "/api-keys/{id}", UPDATE, "Change a key", update::<ApiKey>)
            .takes::<ApiKeyPatch>()
            .asks(HERE),
        authed(Method::DELETE, "/api-keys/{id}", DELETE, "Delete a key; it stops working at once", delete::<ApiKey>)
            .asks(HERE),
        authed(
            Method::POST,
            "/api-keys/{id}/rotate",
            ROTATE,
            "Give a key a new secret; the old one opens until the transition ends",
            rotation::rotate,
        )
        .takes::<rotation::RotateApiKey>()
        .asks(HERE),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewApiKey {
    /// Put in from the path.
    #[serde(rename = "type")]
    kind: KeyKind,
    name: String,
    description: Option<String>,
    user_id: Option<Uuid>,
    scopes: Vec<String>,
    defaults: Option<ApiKeyDefaultsEdit>,
    expires_at: Option<Timestamp>,
    #[serde(default)]
    rotation_policy: Edit<rotation::RotationPolicyEdit>,
    #[serde(default)]
    rate_limits: Edit<LimitsInput>,
    #[serde(default)]
    usage_limits: Edit<LimitsInput>,
    #[serde(default)]
    max_parallel: Edit<WholeNumber>,
    #[serde(default)]
    mcp_access: Edit<McpReach>,
    #[serde(default)]
    allowed_models: Edit<Vec<String>>,
    #[serde(default)]
    alert_emails: Edit<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApiKeyDefaultsEdit {
    #[serde(default)]
    metadata: Edit<BTreeMap<String, String>>,
    #[serde(default)]
    config_id: Edit<String>,
    #[serde(default)]
    allow_config_override: Edit<Flag>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApiKeyPatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    status: Edit<String>,
    #[serde(default)]
    description: Edit<String>,
    #[serde(default)]
    scopes: Edit<Vec<String>>,
    #[serde(default)]
    defaults: Edit<ApiKeyDefaultsEdit>,
    #[serde(default)]
    expires_at: Edit<Timestamp>,
    #[serde(default)]
    rotation_policy: Edit<rotation::RotationPolicyEdit>,
    #[serde(default)]
    rate_limits: Edit<LimitsInput>,
    #[serde(default)]
    usage_limits: Edit<LimitsInput>,
    #[serde(default)]
    max_parallel: Edit<WholeNumber>,
    #[serde(default)]
    mcp_access: Edit<McpReach>,
    #[serde(default)]
    allowed_models: Edit<Vec<String>>,
    #[serde(default)]
    alert_emails: Edit<Vec<String>>,
    /// Acted on once the change is stored.
    #[serde(default)]
    #[expect(dead_code, reason = "read so that it is not refused")]
    reset_usage: Edit<Flag>,
}

const MOST_EMAILS: usize = 20;

/// The gateway mails them, or whoever hears the webhook; without either, an alert that nobody gets is worse than none.
fn set_emails(given: Edit<Vec<String>>, kept: &mut Vec<String>, call: &AdminCall) -> Result<(), Problem> {
    match given {
        Edit::Keep => {}
        Edit::Clear => kept.clear(),
        Edit::Set(list) if list.is_empty() => kept.clear(),
        Edit::Set(_) if !call.app.hears_alerts => {
            return Err(bad("alert_emails", "needs --alert-webhook or --smtp-url: nobody would be told"));
        }
        Edit::Set(list) if list.len() > MOST_EMAILS => {
            return Err(bad("alert_emails", format_args!("must hold at most {MOST_EMAILS}")));
        }
        Edit::Set(list) => {
            let mut emails = Vec::with_capacity(list.len());
            for (i, text) in list.iter().enumerate() {
                let one = email(&format!("alert_emails[{i}]"), text)?;
                if !emails.contains(&one) {
                    emails.push(one);
                }
            }
            *kept = emails;
        }
    }
    Ok(())
}

/// How many limits of each kind a key may have.
const SHAPE: AllowedLimits = AllowedLimits { rates: 10, budgets: 1, seconds: true };

impl Resource for ApiKey {
    const KIND: Kind = Kind::ApiKey;
    const NOUN: &'static str = "API key";
    const LATER: &'static [&'static str] = &[];
    type Create = NewApiKey;
    type Patch = ApiKeyPatch;

    /// Makes the row without its secret: hash and mask are put in by [`create`], the only place that sees the secret.
    fn create(input: NewApiKey, home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        check_name("name", &input.name)?;
        check_future(input.expires_at, call.now)?;
        let mut defaults = KeyDefaults::default();
        let given = input.defaults.unwrap_or_default();
        let inherits = given.config_id == Edit::Keep;
        merge(&mut defaults, given)?;
        let home = home.filter(|_| input.kind != KeyKind::OrganisationService);
        let mut doc = Self {
            kind: input.kind,
            hash: String::new(),
            masked: String::new(),
            description: input.description,
            user_id: person(input.kind, input.user_id, &call.actor)?,
            scopes: granted(input.kind, input.scopes, &call.actor)?,
            defaults,
            expires_at: input.expires_at,
            creation_mode: "api".to_owned(),
            rotation_policy: None,
            transition: None,
            sealed_key: None,
            limits: ResourceLimits::default(),
            max_parallel: None,
            mcp_access: McpReach::default(),
            allowed_models: None,
            rest: Map::new(),
        };
        let limits = LimitsEdit { rate_limits: input.rate_limits, usage_limits: input.usage_limits };
        limits.onto("", &mut doc.limits, SHAPE, call.now)?;
        set_emails(input.alert_emails, &mut doc.limits.alert_emails, call)?;
        limits::parallel(&input.max_parallel, &mut doc.max_parallel)?;
        reach::set(input.mcp_access, &mut doc, &call.actor)?;
        reach::set_models(input.allowed_models, &mut doc, &call.actor)?;
        let snapshot = call.snapshot();
        let workspace = home.and_then(|w| snapshot.workspace(w));
        let enforced = workspace.and_then(|w| inherit(&mut doc, w, &snapshot, inherits, call.now));
        rotation::merge(&mut doc, input.rotation_policy, enforced, call.now)?;
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, home, Some(call.actor.key.0), doc);
        row.name = input.name;
        Ok(NewRow { row, slug: Slug::None })
    }

    fn patch(row: &mut ResourceRow<Self>, input: ApiKeyPatch, call: &AdminCall) -> Result<(), Problem> {
        if let Some(name) = input.name.required("name")? {
            check_name("name", &name)?;
            row.name = name;
        }
        if let Some(status) = input.status.required("status")? {
            if !matches!(status.as_str(), "active" | "blocked") {
                return Err(bad("status", "must be active or blocked"));
            }
            row.status = status;
        }
        if let Some(scopes) = input.scopes.required("scopes")? {
            row.doc.scopes = granted(row.doc.kind, scopes, &call.actor)?;
        }
        if let Edit::Set(at) = input.expires_at {
            check_future(Some(at), call.now)?;
        }
        input.expires_at.onto(&mut row.doc.expires_at);
        input.description.onto(&mut row.doc.description);
        let limits = LimitsEdit { rate_limits: input.rate_limits, usage_limits: input.usage_limits };
        limits.onto("", &mut row.doc.limits, SHAPE, call.now)?;
        set_emails(input.alert_emails, &mut row.doc.limits.alert_emails, call)?;
        limits::parallel(&input.max_parallel, &mut row.doc.max_parallel)?;
        reach::change(input.mcp_access, &mut row.doc, &call.actor)?;
        reach::change_models(input.allowed_models, &mut row.doc, &call.actor)?;
        match input.defaults {
            Edit::Keep => {}
            Edit::Clear => row.doc.defaults = KeyDefaults::default(),
            Edit::Set(given) => merge(&mut row.doc.defaults, given)?,
        }
        let snapshot = call.snapshot();
        let workspace = row.workspace.and_then(|w| snapshot.workspace(w));
        let enforced = workspace.and_then(|w| cadence(row.doc.kind, w, &snapshot));
        rotation::merge(&mut row.doc, input.rotation_policy, enforced, call.now)
    }

    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        check_person(row, around)?;
        check_bounds(row)?;
        let Some(name) = &row.doc.defaults.config_id else { return Ok(()) };
        let Some(home) = row.workspace else {
            return Err(bad("defaults.config_id", "is of no use to an organisation key"));
        };
        let found = around.workspace(Some(home))?.config(name).is_some();
        if found {
            Ok(())
        } else {
            Err(bad("defaults.config_id", format_args!("names `{name}`, which is no config of this workspace")))
        }
    }

    fn view(row: &ResourceRow<Self>, call: &AdminCall) -> Value {
        let doc = &row.doc;
        let mut view = row.common("api-key");
        view.shift_remove("slug");
        if doc.expires_at.is_some_and(|at| at <= call.now) {
            view.insert("status".into(), "expired".into());
        }
        let more = json!({
            "key": doc.masked,
            "type": doc.kind,
            "description": doc.description,
            "user_id": doc.user_id,
            "creation_mode": doc.creation_mode,
            "scopes": doc.scopes,
            "defaults": {
                "metadata": doc.defaults.metadata,
                "config_id": doc.defaults.config_id,
                "allow_config_override": doc.defaults.allow_config_override,
            },
            "allow_config_override": u8::from(doc.defaults.allow_config_override),
            "rate_limits": doc.limits.rate_limits,
            "max_parallel": doc.max_parallel,
            "mcp_access": Some(&doc.mcp_access).filter(|reach| !reach.is_empty()),
            "allowed_models": doc.allowed_models,
            "usage_limits": limits::only(&doc.limits, call.now),
            "reset_usage": null,
            "alert_emails": doc.limits.alert_emails,
            "rotation_policy": rotation::view(doc),
            "key_transition_expires_at": rotation::ends(doc, call.now),
            "new_key_waits": rotation::waits(row, call),
            "expires_at": doc.expires_at,
        });
        view.extend(more.as_object().cloned().unwrap_or_default());
        Value::Object(view)
    }

    fn allow(row: &ResourceRow<Self>, actor: &Actor, action: Action) -> Result<(), Problem> {
        let scopes = match action {
            Action::Create => CREATE,
            Action::Read => READ,
            Action::Update | Action::Publish | Action::Warn => UPDATE,
            Action::Delete => DELETE,
            Action::Rotate => ROTATE,
        };
        let kind = row.doc.kind;
        if kind == KeyKind::OrganisationService && actor.workspace.is_some() {
            return Err(forbidden("only an Admin key manages organisation keys"));
        }
        // Else it would outlive the sign-in that it stands for, or do more than that gave.
        if row.doc.is_session() && matches!(action, Action::Update | Action::Rotate) {
            return Err(forbidden("this key is the session of somebody who signed in: it can be ended, not changed"));
        }
        actor.require(&scopes[column(kind)..=column(kind)])
    }

    fn budgets(row: &ResourceRow<Self>) -> Option<(Holder, &ResourceLimits)> {
        Some((Holder::Key(KeyId(row.id)), &row.doc.limits))
    }

    fn used_as(row: &ResourceRow<Self>) -> Option<KeyId> {
        Some(KeyId(row.id))
    }

    fn forget(&mut self) {
        self.sealed_key = None;
        self.transition = None;
    }
}

/// The cadence that user keys of a workspace are held to.
fn cadence(kind: KeyKind, workspace: &WorkspaceEntry, snapshot: &Snapshot) -> Option<u16> {
    (kind == KeyKind::WorkspaceUser).then(|| snapshot.rotation_days(workspace)).flatten()
}

/// What a workspace gives to its user keys: a config, unless they have their own, and a cadence.
fn inherit(doc: &mut ApiKey, from: &WorkspaceEntry, snapshot: &Snapshot, config: bool, now: Timestamp) -> Option<u16> {
    if doc.kind == KeyKind::WorkspaceUser && config {
        doc.defaults.config_id = from.user_key_config.map(|id| id.to_string());
    }
    let days = cadence(doc.kind, from, snapshot);
    if let Some(days) = days {
        rotation::enforce(doc, days, now);
    }
    days
}

/// An organisation key sends nothing to providers: there is nothing to count.
fn check_bounds(row: &ResourceRow<ApiKey>) -> Result<(), Problem> {
    if row.doc.kind == KeyKind::OrganisationService && !row.doc.limits.is_empty() {
        let field = if row.doc.limits.rate_limits.is_empty() { "usage_limits" } else { "rate_limits" };
        return Err(bad(field, "is of no use to an organisation key"));
    }
    Ok(())
}

/// A key of somebody may no more than that person, who must be of this workspace.
fn check_person(row: &ResourceRow<ApiKey>, around: &WriteView<'_>) -> Result<(), Problem> {
    let (Some(user), Some(home)) = (row.doc.user_id, row.workspace) else { return Ok(()) };
    let workspace = around.workspace(Some(home))?;
    let standing = around.snapshot.standing(UserId(user), workspace);
    let standing = standing.filter(|(org, seat)| *org != OrgRole::Member || seat.is_some());
    let Some((org, seat)) = standing else {
        return Err(bad("user_id", "must be a user who belongs to this workspace"));
    };
    let bound = around.snapshot.security(workspace).bound(org, seat);
    let over: Vec<&str> =
        row.doc.scopes.set().names().into_iter().filter(|n| Scope::parse(n).is_none_or(|s| !bound.has(s))).collect();
    if over.is_empty() {
        return Ok(());
    }
    Err(forbidden(format!("scopes holds {}, which the role of this user does not allow", over.join(", "))))
}

/// A key for a new user, with its secret.
pub(crate) fn for_user(
    app: &App,
    around: &WriteView<'_>,
    workspace: &WorkspaceEntry,
    user: UserId,
    scopes: Scopes,
) -> Result<(ResourceRow<ApiKey>, String), Problem> {
    let secret = mint(KeyKind::WorkspaceUser.tag(), &app.bytes());
    let mut doc = ApiKey { user_id: Some(user.0), ..unbounded(KeyKind::WorkspaceUser, &secret, scopes) };
    inherit(&mut doc, workspace, &around.snapshot, true, app.now());
    let mut row = ResourceRow::fresh(app, workspace.org, Some(workspace.id), Some(user.0), doc);
    "First key".clone_into(&mut row.name);
    Ok((row, secret))
}

/// A key with nothing set but what it may do.
pub(crate) fn unbounded(kind: KeyKind, secret: &str, scopes: Scopes) -> ApiKey {
    ApiKey {
        kind,
        hash: KeyHash::of(secret).to_string(),
        masked: mask(secret),
        description: None,
        user_id: None,
        scopes: scopes.into(),
        defaults: KeyDefaults::default(),
        expires_at: None,
        creation_mode: "auto".to_owned(),
        rotation_policy: None,
        transition: None,
        sealed_key: None,
        limits: ResourceLimits::default(),
        max_parallel: None,
        mcp_access: McpReach::default(),
        allowed_models: None,
        rest: Map::new(),
    }
}

/// Known, right for the kind, and no more than the maker may give.
pub(super) fn granted(kind: KeyKind, names: Vec<String>, by: &Actor) -> Result<WrittenScopes, Problem> {
    let wanted = grant::parse(kind, &names)?;
    if wanted.within(&by.grantable()) {
        return Ok(WrittenScopes::of(names));
    }
    let held = by.grantable();
    let over: Vec<&str> = wanted.names().into_iter().filter(|n| Scope::parse(n).is_none_or(|s| !held.has(s))).collect();
    Err(forbidden(format!("scopes holds {}, which this API key does not have itself", over.join(", "))))
}

/// A user key belongs to a person: the named one, else the one behind the maker.
fn person(kind: KeyKind, named: Option<Uuid>, by: &Actor) -> Result<Option<Uuid>, Problem> {
    match (kind, named) {
        (KeyKind::WorkspaceUser, named) => Ok(named.or(by.user)),
        (_, None) => Ok(None),
        (_, Some(_)) => Err(bad("user_id", "belongs to workspace user keys only")),
    }
}

pub(crate) fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), Problem> {
    check_count("defaults.metadata", metadata.len())?;
    for (key, value) in metadata {
        check_name("defaults.metadata", key)?;
        if value.chars().count() > 128 {
            return Err(bad(format_args!("defaults.metadata.{key}"), "must be at most 128 characters"));
        }
    }
    Ok(())
}

fn merge(stored: &mut KeyDefaults, given: ApiKeyDefaultsEdit) -> Result<(), Problem> {
    if let Some(metadata) = given.metadata.or_default() {
        check_metadata(&metadata)?;
        stored.metadata = metadata;
    }
    if let Edit::Set(name) = &given.config_id {
        check_name("defaults.config_id", name)?;
    }
    given.config_id.onto(&mut stored.config_id);
    match given.allow_config_override {
        Edit::Keep => {}
        Edit::Clear => stored.allow_config_override = true,
        Edit::Set(flag) => stored.allow_config_override = flag.0,
    }
    Ok(())
}

/// The kind that the path names.
fn asked(call: &AdminCall) -> Result<KeyKind, Problem> {
    match (call.var("type"), call.var("sub_type")) {
        ("organisation", "service") => Ok(KeyKind::OrganisationService),
        ("workspace", "service") => Ok(KeyKind::WorkspaceService),
        ("workspace", "user") => Ok(KeyKind::WorkspaceUser),
        ("organisation", "user") => Err(bad("sub-type", "must be service for an organisation key")),
        _ => Err(bad("type and sub-type", "must be organisation/service, workspace/service or workspace/user")),
    }
}

async fn create(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let kind = asked(&call)?;
    let mut body = call.body()?;
    if kind == KeyKind::OrganisationService && body.0.get("workspace_id").is_some_and(|w| !w.is_null()) {
        return Err(bad("workspace_id", "would not bound an organisation key: it acts on every workspace"));
    }
    body.0.insert("type".into(), kind.name().into());
    let (mut new, request) = draft::<ApiKey>(&call, body)?;
    if kind == KeyKind::WorkspaceUser && new.row.doc.user_id.is_none() {
        return Err(bad("user_id", "is required: the role of a user bounds a workspace user key"));
    }
    let key = mint(kind.tag(), &call.app.bytes());
    new.row.doc.hash = KeyHash::of(&key).to_string();
    new.row.doc.masked = mask(&key);
    let decide = |around: &WriteView<'_>| {
        new.enter(around)?;
        let stored = new.row.stored()?;
        let audit = vec![audit(&call, Action::Create, &stored, &request)];
        call.promise(|| made(&new.row, &key));
        Ok(Batch { rows: vec![stored], audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(made(&new.row, &key)).at(revision))
}

/// The one time that its secret is shown.
fn made(row: &ResourceRow<ApiKey>, secret: &str) -> Value {
    json!({"id": row.id, "key": secret, "object": "api-key"})
}

/// An Admin key that names no workspace sees the keys of the organisation and of all its workspaces.
async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let named = call.actor.named(&call.snapshot(), call.query.text("workspace_id"))?;
    let paging = call.query.paging()?;
    let mut query = searched::<ApiKey>(&call, named.map(Some));
    query.ids = call.query.list("ids", "must be comma-separated UUIDs")?;
    if query.ids.len() > 1000 {
        return Err(bad("ids", "must hold at most 1000 ids"));
    }
    let may_all = LIST.iter().all(|s| call.actor.may(*s));
    if query.search.is_some() && !may_all {
        let mut rows = collect::<ApiKey>(&call, query).await?;
        rows.retain(|row| call.actor.may(LIST[column(row.doc.kind)]));
        let data = render_rows(paging.cut(&rows), &call).await?;
        return Ok(AdminReply::json(ApiKey::listed(rows.len() as u64, data)));
    }
    let total = if may_all {
        (query.page, query.page_size) = (paging.page, paging.size);
        None
    } else {
        Some(narrow(&call, named, paging, &mut query))
    };
    if total == Some(0) || (total.is_some() && query.ids.is_empty()) {
        return Ok(AdminReply::json(ApiKey::listed(total.unwrap_or(0), Vec::new())));
    }
    if let Some(total) = total {
        let rows = collect::<ApiKey>(&call, query).await?;
        return Ok(AdminReply::json(ApiKey::listed(total, render_rows(&rows, &call).await?)));
    }
    let page = call.app.directory.list(&query).await?;
    Ok(AdminReply::json(ApiKey::listed(page.total, views::<ApiKey>(&page.rows, &call).await?)))
}

/// Narrows a list for an actor who may list some kinds only: the store does not know kinds, the snapshot does. Leaves
/// the ids of this page in `query` and returns how many there are in all.
fn narrow(call: &AdminCall, named: Option<WorkspaceId>, paging: Paging, query: &mut ResourceQuery) -> u64 {
    let snapshot = call.snapshot();
    let shown = snapshot.keys().filter(|k| {
        let here = named.is_none_or(|w| k.workspace == Some(w));
        let asked = query.ids.is_empty() || query.ids.contains(&k.id.0);
        k.org == call.actor.org && here && asked && call.actor.may(LIST[column(k.kind)])
    });
    let mut ids: Vec<KeyId> = shown.map(|k| k.id).collect();
    // Ids begin with their time: newest first.
    ids.sort_unstable_by(|a, b| b.cmp(a));
    let total = ids.len() as u64;
    let start = usize::try_from(paging.page * paging.size).unwrap_or(usize::MAX);
    let size = usize::try_from(paging.size).unwrap_or(usize::MAX);
    query.ids = ids.into_iter().skip(start).take(size).map(|id| id.0).collect();
    total
}
