//! Deployments: sets of nodes that serve some workspaces only. What a deployment is, is said here; which nodes are of
//! it and when they were heard of is read from the register of nodes.

mod declared;

use super::provider::{check_count, slug_of};
use super::{NewRow, Resource, ResourceRow, Slug, collect, create, delete, locate, searched, update};
use crate::change::{Action, WriteView};
use crate::input::{Edit, Flag, JsonBody};
use crate::problem::{Problem, bad, conflict, missing};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::id::WorkspaceId;
use gateway_domain::metadata;
use gateway_domain::node::SeenNode;
use gateway_domain::resource::deployment::{Deployment, DeploymentConfig, DeploymentKind};
use gateway_domain::resource::{Kind, check_name};
use gateway_domain::scope::Scope;
use gateway_domain::time::Timestamp;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Deployments that one organisation may have.
const MOST: usize = 100;
const MOST_WORKSPACES: usize = 1_000;

pub(crate) fn routes() -> Vec<AdminRoute> {
    const LIST: &[Scope] = &[Scope::named("deployments.list")];
    const CREATE: &[Scope] = &[Scope::named("deployments.create")];
    const READ: &[Scope] = &[Scope::named("deployments.read")];
    const UPDATE: &[Scope] = &[Scope::named("deployments.update")];
    const DELETE: &[Scope] = &[Scope::named("deployments.delete")];
    const ALL: &str = "/deployments";
    const ONE: &str = "/deployments/{id}";
    vec![
        authed(Method::GET, ALL, LIST, "List deployments and how their nodes stand", list).asks(&[
            "type",
            "search",
            "current_page",
            "page_size",
        ]),
        authed(Method::POST, ALL, CREATE, "Name a set of nodes and whom they serve", create::<Deployment>)
            .takes::<NewDeployment>()
            .and(&["organisation_id"]),
        authed(Method::GET, ONE, READ, "Show a deployment and how its nodes stand", show),
        authed(Method::PUT, ONE, UPDATE, "Change a deployment", update::<Deployment>).takes::<DeploymentPatch>(),
        authed(
            Method::DELETE,
            ONE,
            DELETE,
            "Delete a deployment: its nodes then serve nobody of it",
            delete::<Deployment>,
        ),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewDeployment {
    name: String,
    slug: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    config: Option<Map<String, Value>>,
    tags: Option<BTreeMap<String, String>>,
    source_type: Option<String>,
    allow_all_workspaces: Option<bool>,
    allowed_workspaces: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeploymentPatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default, rename = "type")]
    kind: Edit<String>,
    #[serde(default)]
    config: Edit<Map<String, Value>>,
    #[serde(default)]
    tags: Edit<BTreeMap<String, String>>,
    #[serde(default)]
    source_type: Edit<String>,
    #[serde(default)]
    allow_all_workspaces: Edit<bool>,
    #[serde(default)]
    allowed_workspaces: Edit<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenConfig {
    #[serde(default)]
    block_inline_config: Edit<Flag>,
    #[serde(default)]
    metadata: Edit<BTreeMap<String, String>>,
}

impl Resource for Deployment {
    const KIND: Kind = Kind::Deployment;
    const NOUN: &'static str = "deployment";
    const SHARED: bool = true;
    const LATER: &'static [&'static str] = &[];
    type Create = NewDeployment;
    type Patch = DeploymentPatch;

    fn create(input: NewDeployment, _home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        check_name("name", &input.name)?;
        let mut doc = Self {
            kind: read_kind(&input.kind)?,
            config: DeploymentConfig::default(),
            tags: input.tags.unwrap_or_default(),
            source_type: input.source_type,
            workspaces: workspaces(input.allow_all_workspaces, input.allowed_workspaces, call)?,
            rest: Map::new(),
        };
        merge(&mut doc.config, input.config.unwrap_or_default())?;
        check_labels(&doc)?;
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, None, Some(call.actor.key.0), doc);
        let slug = Slug::given("slug", input.slug)?;
        let slug = slug.unwrap_or_else(|| Slug::Derived(slug_of(&input.name, "deployment")));
        row.name = input.name;
        Ok(NewRow { row, slug })
    }

    fn patch(row: &mut ResourceRow<Self>, input: DeploymentPatch, call: &AdminCall) -> Result<(), Problem> {
        if let Some(name) = input.name.required("name")? {
            check_name("name", &name)?;
            row.name = name;
        }
        if let Some(kind) = input.kind.required("type")? {
            row.doc.kind = read_kind(&kind)?;
        }
        match input.config {
            Edit::Keep => {}
            Edit::Clear => row.doc.config = DeploymentConfig::default(),
            Edit::Set(given) => merge(&mut row.doc.config, given)?,
        }
        if let Some(tags) = input.tags.or_default() {
            row.doc.tags = tags;
        }
        input.source_type.onto(&mut row.doc.source_type);
        let all = input.allow_all_workspaces.required("allow_all_workspaces")?;
        let listed = input.allowed_workspaces.required("allowed_workspaces")?;
        match (all, &listed) {
            (None, None) => {}
            (Some(false), None) if row.doc.workspaces.is_some() => {}
            _ => row.doc.workspaces = workspaces(all, listed, call)?,
        }
        check_labels(&row.doc)
    }

    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let org = around.snapshot.org(row.org).ok_or_else(|| missing("organisation"))?;
        let held = org.deployments().len();
        if row.is_one_too_many(held, org.deployment(&row.id.to_string()).is_some(), MOST) {
            return Err(conflict(format!("the organisation has {held} deployments and may have {MOST}")));
        }
        Ok(())
    }

    fn view(row: &ResourceRow<Self>, _call: &AdminCall) -> Value {
        let doc = &row.doc;
        let mut view = row.common("deployment");
        view.shift_remove("workspace_id");
        let more = json!({
            "type": doc.kind.name(),
            "config": doc.config,
            "tags": doc.tags,
            "source_type": doc.source_type,
            "allow_all_workspaces": doc.workspaces.is_none(),
            "allowed_workspaces": doc.workspaces.as_deref().unwrap_or_default(),
            "owner_id": row.owner,
        });
        view.extend(more.as_object().cloned().unwrap_or_default());
        Value::Object(view)
    }

    /// Only who makes one is told how its nodes are started.
    fn created(row: &ResourceRow<Self>) -> Value {
        json!({"id": row.id, "slug": row.slug, "values": chart_values(&row.slug)})
    }

    fn home(_named: Option<WorkspaceId>, _default: WorkspaceId) -> Option<WorkspaceId> {
        None
    }
}

/// Values of the Helm chart for nodes of a deployment. What they sign in with is in the Secret of the installation,
/// which no answer of this API holds.
fn chart_values(slug: &str) -> String {
    format!(
        "# Nodes of the deployment `{slug}`: helm install gateway-{slug} deploy/helm/gateway -f values.yaml\n\
         # A Secret with `database-url` and `master-key` of this installation, which are not told here.\n\
         existingSecret: gateway\n\
         settings:\n  GATEWAY_DEPLOYMENT: {slug}\n"
    )
}

/// A deployment is active while a node of it is heard of, and was synced when one last said which state it serves by.
fn render_deployment(row: &ResourceRow<Deployment>, nodes: &[SeenNode], call: &AdminCall) -> Value {
    let ours: Vec<&SeenNode> = nodes.iter().filter(|seen| seen.node.deployment == row.slug).collect();
    let live = ours.iter().filter(|seen| seen.is_live()).count();
    let synced: Option<Timestamp> = ours.iter().map(|seen| seen.seen_at).max();
    let mut view = Deployment::view(row, call);
    view["status"] = if live > 0 { "active" } else { "inactive" }.into();
    view["nodes"] = live.into();
    view["last_synced_at"] = json!(synced);
    view
}

async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<Deployment>(&call, None, Action::Read).await?;
    let nodes = call.app.roster.nodes().await?;
    Ok(AdminReply::json(render_deployment(&row, &nodes, &call)))
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let kinds = [DeploymentKind::Production.name(), DeploymentKind::NonProduction.name()];
    let kind = call.query.one_of("type", &kinds)?.and_then(DeploymentKind::parse);
    let paging = call.query.paging()?;
    let nodes = call.app.roster.nodes().await?;
    let mut rows = collect::<Deployment>(&call, searched::<Deployment>(&call, Some(None))).await?;
    rows.retain(|row| kind.is_none_or(|kind| row.doc.kind == kind));
    let start = usize::try_from(paging.page.saturating_mul(paging.size)).unwrap_or(usize::MAX);
    let page = rows.iter().skip(start).take(usize::try_from(paging.size).unwrap_or(usize::MAX));
    let data = page.map(|row| render_deployment(row, &nodes, &call)).collect();
    Ok(AdminReply::json(Deployment::listed(rows.len() as u64, data)))
}

fn read_kind(name: &str) -> Result<DeploymentKind, Problem> {
    DeploymentKind::parse(name).ok_or_else(|| bad("type", "must be one of production, non-production"))
}

/// Absent keeps, null clears.
fn merge(config: &mut DeploymentConfig, given: Map<String, Value>) -> Result<(), Problem> {
    let given: GivenConfig = JsonBody(given).read_under("config.")?;
    match given.block_inline_config {
        Edit::Keep => {}
        Edit::Clear => config.block_inline_config = false,
        Edit::Set(flag) => config.block_inline_config = flag.0,
    }
    if let Some(given) = given.metadata.or_default() {
        let values: Map<String, Value> = given.into_iter().map(|(name, value)| (name, value.into())).collect();
        let read = metadata::read(&values).map_err(|why| bad("config.metadata", why.rule()))?;
        config.metadata = read.into_iter().collect();
    }
    Ok(())
}

fn check_labels(doc: &Deployment) -> Result<(), Problem> {
    check_count("tags", doc.tags.len())?;
    for (key, value) in &doc.tags {
        check_name("tags", key)?;
        if value.chars().count() > 255 {
            return Err(bad(format_args!("tags.{key}"), "must be at most 255 characters"));
        }
    }
    doc.source_type.as_ref().map_or(Ok(()), |source| Ok(check_name("source_type", source)?))
}

/// Reads the workspaces, in the order given and each once; `None`: all of them.
fn workspaces(
    all: Option<bool>,
    listed: Option<Vec<String>>,
    call: &AdminCall,
) -> Result<Option<Vec<WorkspaceId>>, Problem> {
    const FIELD: &str = "allowed_workspaces";
    let listed = match (all, listed) {
        (None | Some(true), None) => return Ok(None),
        (Some(false), None) => return Err(bad(FIELD, "is required, since not all workspaces are allowed")),
        (Some(true), Some(_)) => return Err(bad(FIELD, "must not be given where all workspaces are allowed")),
        (_, Some(listed)) => listed,
    };
    if listed.is_empty() || listed.len() > MOST_WORKSPACES {
        return Err(bad(FIELD, format_args!("must name 1..{MOST_WORKSPACES} workspaces")));
    }
    let snapshot = call.snapshot();
    let mut found = Vec::with_capacity(listed.len());
    for (at, name) in listed.iter().enumerate() {
        let workspace = call.actor.named(&snapshot, Some(name)).ok().flatten();
        let field = format!("{FIELD}[{at}]");
        let workspace = workspace.ok_or_else(|| bad(&field, "names no workspace of this organisation"))?;
        if found.contains(&workspace) {
            return Err(bad(field, "is named again"));
        }
        found.push(workspace);
    }
    Ok(Some(found))
}
