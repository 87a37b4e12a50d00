//! Virtual keys: how a provider and its credential were made in one before integrations. Each is a managed
//! provider; one made here brings an integration of its workspace along, which is changed and deleted with it.

mod azure;
mod mappings;

use super::integration::{self, settings, trial};
use super::provider::{self, slug_of};
use super::{NewRow, Resource, ResourceRow, Slug, collect, everything, limits, locate, searched};
use crate::change::{Action, WriteView, audit};
use crate::input::{Edit, JsonBody};
use crate::problem::{Problem, bad, conflict};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, SEARCHED, authed};
use gateway_domain::id::{IntegrationId, WorkspaceId};
use gateway_domain::ports::{Batch, ResourceQuery};
use gateway_domain::resource::Kind;
use gateway_domain::resource::integration::Integration;
use gateway_domain::resource::provider::Provider;
use gateway_domain::scope::Scope;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The field of an integration that holds the id of the virtual key that it was made with.
const MARK: &str = "virtual_key";

static LATER: &[&str] = &["model_config"];

pub(crate) fn routes() -> Vec<AdminRoute> {
    const LIST: &[Scope] = &[Scope::named("virtual_keys.list")];
    const CREATE: &[Scope] = &[Scope::named("virtual_keys.create")];
    const READ: &[Scope] = &[Scope::named("virtual_keys.read")];
    const UPDATE: &[Scope] = &[Scope::named("virtual_keys.update")];
    const DELETE: &[Scope] = &[Scope::named("virtual_keys.delete")];
    vec![
        authed(Method::GET, "/virtual-keys", LIST, "List virtual keys: the providers of a workspace", list)
            .asks(SEARCHED),
        authed(Method::POST, "/virtual-keys", CREATE, "Make a provider with its own credential", create)
            .takes::<NewVirtualKey>()
            .and(&["workspace_id"])
            .asks(trial::TRIED),
        authed(Method::GET, "/virtual-keys/{id}", READ, "Show a virtual key by slug or id", show).asks(HERE),
        authed(Method::PUT, "/virtual-keys/{id}", UPDATE, "Change a virtual key or its credential", update)
            .takes::<VirtualKeyPatch>()
            .and(&["workspace_id"])
            .asks(&["workspace_id", "test", "test_model"]),
        authed(Method::DELETE, "/virtual-keys/{id}", DELETE, "Delete a virtual key that no config names", delete)
            .asks(HERE),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewVirtualKey {
    name: String,
    provider: String,
    key: Option<String>,
    note: Option<String>,
    #[serde(default, rename = "apiVersion")]
    api_version: Edit<Value>,
    #[serde(default, rename = "resourceName")]
    resource_name: Edit<Value>,
    #[serde(default, rename = "deploymentName")]
    deployment_name: Edit<Value>,
    #[serde(default, rename = "deploymentConfig")]
    deployment_config: Edit<Value>,
    expires_at: Option<Value>,
    rate_limits: Option<Value>,
    usage_limits: Option<Value>,
    secret_mappings: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VirtualKeyPatch {
    #[serde(default)]
    name: Edit<Value>,
    #[serde(default)]
    key: Edit<Value>,
    #[serde(default, rename = "apiVersion")]
    api_version: Edit<Value>,
    #[serde(default, rename = "resourceName")]
    resource_name: Edit<Value>,
    #[serde(default, rename = "deploymentName")]
    deployment_name: Edit<Value>,
    #[serde(default, rename = "deploymentConfig")]
    deployment_config: Edit<Value>,
    #[serde(default)]
    note: Edit<Value>,
    #[serde(default)]
    expires_at: Edit<Value>,
    #[serde(default)]
    rate_limits: Edit<Value>,
    #[serde(default)]
    usage_limits: Edit<Value>,
    #[serde(default)]
    reset_usage: Edit<Value>,
    #[serde(default)]
    secret_mappings: Edit<Value>,
}

async fn views(rows: &[ResourceRow<Provider>], call: &AdminCall) -> Result<Vec<Value>, Problem> {
    let mut views = super::render_rows(rows, call).await?;
    let ids = rows.iter().map(|row| row.doc.integration_id.0).collect();
    let behind = match rows {
        [] => Vec::new(),
        _ => collect::<Integration>(call, ResourceQuery { ids, ..everything::<Integration>(call, None) }).await?,
    };
    for (view, row) in views.iter_mut().zip(rows) {
        let behind = behind.iter().find(|i| i.id == row.doc.integration_id.0);
        view["object"] = "virtual-key".into();
        view["secret_mappings"] = behind.map_or_else(
            || json!([]),
            |i| mappings::outward(integration::mappings::shown(&i.doc.secret_mappings).into()),
        );
        view["model_config"] = behind.map_or_else(|| json!({}), |i| azure::model_config(&i.doc));
    }
    Ok(views)
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let home = call.actor.home(&call.snapshot(), call.query.text("workspace_id"))?;
    let paging = call.query.paging()?;
    let all = searched::<Provider>(&call, Some(Some(home)));
    let page = call.app.directory.list(&ResourceQuery { page: paging.page, page_size: paging.size, ..all }).await?;
    let rows = page.rows.iter().map(ResourceRow::read).collect::<Result<Vec<ResourceRow<Provider>>, _>>()?;
    Ok(AdminReply::json(Provider::listed(page.total, views(&rows, &call).await?)))
}

async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<Provider>(&call, call.query.text("workspace_id"), Action::Read).await?;
    Ok(AdminReply::json(views(&[row], &call).await?.pop().unwrap_or_default()))
}

fn mask_body(body: &JsonBody) -> Map<String, Value> {
    let mut told = body.0.clone();
    settings::blank(&mut told);
    told
}

async fn create(call: AdminCall) -> Result<AdminReply, Problem> {
    let snapshot = call.snapshot();
    let mut body = call.body()?;
    let told = mask_body(&body);
    let home = call.actor.home(&snapshot, body.take_text("workspace_id")?.as_deref())?;
    body.refuse_later("", LATER)?;
    let mut given: NewVirtualKey = body.read()?;
    let mut integration = behind(&mut given, home, &call)?;
    let mut provider = before(given, home, &integration.row, &call)?;
    integration.row.doc.rest.insert(MARK.into(), json!(provider.row.id));
    trial::before_saving(&call, &integration.row).await?;
    integration.settle(&call).await?;
    provider.settle(&call).await?;
    let decide = |around: &WriteView<'_>| {
        integration.enter(around)?;
        let mut rows = vec![integration.row.stored()?];
        provider.enter(&around.plus(&rows)?)?;
        rows.push(provider.row.stored()?);
        let audit = rows.iter().map(|row| audit(&call, Action::Create, row, &told)).collect();
        call.promise(|| made(&provider.row));
        Ok(Batch { rows, audit, ..Batch::default() })
    };
    let revision = call.commit(snapshot.revision, decide).await?;
    Ok(AdminReply::json(made(&provider.row)).at(revision))
}

fn made(row: &ResourceRow<Provider>) -> Value {
    let made = json!({"id": row.id, "slug": row.slug});
    json!({"success": true, "id": row.id, "slug": row.slug, "data": made})
}

/// The integration that holds the credential.
fn behind(given: &mut NewVirtualKey, home: WorkspaceId, call: &AdminCall) -> Result<NewRow<Integration>, Problem> {
    if call.app.catalog.provider(&given.provider).is_none() {
        return Err(bad("provider", "is not a known provider"));
    }
    let settings = azure::AzureSettingsEdit {
        api_version: std::mem::take(&mut given.api_version),
        resource_name: std::mem::take(&mut given.resource_name),
        deployment_name: std::mem::take(&mut given.deployment_name),
        deployment_config: std::mem::take(&mut given.deployment_config),
    };
    let settings = settings.configurations(&given.provider)?;
    let fields = json!({
        "name": given.name, "ai_provider_id": given.provider, "key": given.key, "configurations": settings,
        "secret_mappings": given.secret_mappings.take().map(mappings::inward),
    });
    let input = JsonBody(fields.as_object().cloned().unwrap_or_default()).read()?;
    Integration::create(input, Some(home), call).map_err(azure::in_old_words)
}

fn before(
    given: NewVirtualKey,
    home: WorkspaceId,
    of: &ResourceRow<Integration>,
    call: &AdminCall,
) -> Result<NewRow<Provider>, Problem> {
    let slug = Slug::Derived(slug_of(&given.name, "virtual-key"));
    let mut fields = Map::new();
    fields.insert("name".into(), given.name.into());
    fields.insert("integration_id".into(), of.id.to_string().into());
    fields.insert("note".into(), json!(given.note));
    fields.insert("expires_at".into(), given.expires_at.unwrap_or_default());
    fields.insert("rate_limits".into(), given.rate_limits.unwrap_or_default());
    fields.insert("usage_limits".into(), given.usage_limits.unwrap_or_default());
    let input: provider::NewProvider = JsonBody(fields).read()?;
    let draft = Provider::create(input, Some(home), call)?;
    Ok(NewRow { slug, ..draft })
}

/// The integration of a virtual key, if it was made with it.
async fn own(call: &AdminCall, of: &ResourceRow<Provider>) -> Result<Option<ResourceRow<Integration>>, Problem> {
    let id = of.doc.integration_id.to_string();
    let found = call.app.directory.get(Kind::Integration, of.org, None, &id).await?;
    let row = found.as_ref().map(ResourceRow::<Integration>::read).transpose()?;
    Ok(row.filter(|i| i.doc.rest.get(MARK).is_some_and(|mark| *mark == json!(of.id))))
}

async fn update(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let mut body = call.body()?;
    let told = mask_body(&body);
    let named = body.take_text("workspace_id")?;
    let named = named.as_deref().or_else(|| call.query.text("workspace_id"));
    let row = locate::<Provider>(&call, named, Action::Update).await?;
    let reset = limits::wants_reset(&body)?;
    body.refuse_later("", LATER)?;
    let given: VirtualKeyPatch = body.read()?;
    let holder = Provider::budgets(&row).map(|(holder, _)| holder).filter(|_| reset);
    let settings = azure::AzureSettingsEdit {
        api_version: given.api_version,
        resource_name: given.resource_name,
        deployment_name: given.deployment_name,
        deployment_config: given.deployment_config,
    };
    let of_integration = [("key", &given.key), ("secret_mappings", &given.secret_mappings)];
    let touched = of_integration.into_iter().find(|(_, edit)| **edit != Edit::Keep).map(|(field, _)| field);
    let touched = settings.first().or(touched);
    let behind = match touched {
        None => None,
        Some(field) => Some(
            own(&call, &row)
                .await?
                .ok_or_else(|| bad(field, "belongs to the integration that this virtual key borrows from"))?,
        ),
    };
    let settings = match &behind {
        None => Map::new(),
        Some(behind) => settings.configurations(&behind.doc.ai_provider_id)?,
    };
    let input: provider::ProviderPatch = fields([
        ("name", given.name),
        ("note", given.note),
        ("expires_at", given.expires_at),
        ("rate_limits", given.rate_limits),
        ("usage_limits", given.usage_limits),
        ("reset_usage", given.reset_usage),
    ])?;
    let settings = if settings.is_empty() { Edit::Keep } else { Edit::Set(Value::Object(settings)) };
    let filled = match given.secret_mappings {
        Edit::Set(given) => Edit::Set(mappings::inward(given)),
        other => other,
    };
    let credential: integration::IntegrationPatch =
        fields([("key", given.key), ("configurations", settings), ("secret_mappings", filled)])?;
    if let Some(behind) = &behind {
        let mut changed = behind.clone();
        Integration::patch(&mut changed, credential.clone(), &call).map_err(azure::in_old_words)?;
        trial::before_saving(&call, &changed).await?;
    }
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        Provider::patch(&mut row, input, &call)?;
        Provider::check(&row, around)?;
        row.touch(call.now);
        let mut rows = vec![row.stored()?];
        if let Some(behind) = behind {
            let mut behind = around.newest(behind)?;
            Integration::patch(&mut behind, credential, &call).map_err(azure::in_old_words)?;
            behind.touch(call.now);
            rows.push(behind.stored()?);
        }
        let audit = rows.iter().map(|row| audit(&call, Action::Update, row, &told)).collect();
        Ok(Batch { rows, audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    if let Some(holder) = holder {
        limits::reset(&call, holder).await?;
    }
    Ok(AdminReply::json(json!({})).at(revision))
}

/// Edits in the form that another resource reads them.
fn fields<T: serde::de::DeserializeOwned, const N: usize>(edits: [(&str, Edit<Value>); N]) -> Result<T, Problem> {
    let mut map = Map::new();
    for (name, edit) in edits {
        match edit {
            Edit::Keep => {}
            Edit::Clear => {
                map.insert(name.to_owned(), Value::Null);
            }
            Edit::Set(value) => {
                map.insert(name.to_owned(), value);
            }
        }
    }
    JsonBody(map).read()
}

async fn delete(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let row = locate::<Provider>(&call, call.query.text("workspace_id"), Action::Delete).await?;
    let behind = own(&call, &row).await?;
    let decide = |around: &WriteView<'_>| {
        let row = around.newest(row)?;
        Provider::check_unused(&row, around)?;
        let mut gone = Vec::new();
        if let Some(behind) = behind {
            let id = IntegrationId(behind.id);
            let workspace = around.workspace(row.workspace)?;
            if workspace.providers().any(|p| p.integration == id && p.id.0 != row.id) {
                return Err(conflict("other providers borrow the credential of this virtual key"));
            }
            gone.push(around.newest(behind)?.tombstone(call.now)?);
        }
        gone.push(row.tombstone(call.now)?);
        let audit = gone.iter().map(|row| audit(&call, Action::Delete, row, &Map::new())).collect();
        Ok(Batch { rows: gone, audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(json!({})).at(revision))
}
