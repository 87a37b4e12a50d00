//! OAuth clients that admins make for the gateway's own authorisation server, beside those that register by themselves.
//! The secret of a confidential one is shown once, when it is made; its hash alone is kept.

mod declared;

use super::provider::slug_of;
use super::{NewRow, Resource, ResourceRow, Slug, delete, draft, get, list, locate, mcp_grants, update};
use crate::change::{Action, WriteView, audit};
use crate::input::Edit;
use crate::oauth::{MOST_REDIRECTS, SCOPES, check_redirect};
use crate::problem::{Problem, bad, conflict};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gateway_domain::id::{OauthClientId, WorkspaceId};
use gateway_domain::keys::KeyHash;
use gateway_domain::ports::Batch;
use gateway_domain::resource::oauth_client::MadeClient;
use gateway_domain::resource::{Kind, check_name};
use gateway_domain::scope::Scope;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// So that whoever finds a secret knows what it is.
const MARK: &str = "gwc_";
const LONGEST_DESCRIPTION: usize = 1_000;

pub(crate) fn routes() -> Vec<AdminRoute> {
    const LIST: &[Scope] = &[Scope::named("oauth_clients.list")];
    const CREATE: &[Scope] = &[Scope::named("oauth_clients.create")];
    const READ: &[Scope] = &[Scope::named("oauth_clients.read")];
    const UPDATE: &[Scope] = &[Scope::named("oauth_clients.update")];
    const DELETE: &[Scope] = &[Scope::named("oauth_clients.delete")];
    const ALL: &str = "/oauth-clients";
    const ONE: &str = "/oauth-clients/{id}";
    vec![
        authed(Method::GET, ALL, LIST, "List OAuth clients that admins made", list::<MadeClient>).asks(&[
            "search",
            "current_page",
            "page_size",
        ]),
        authed(Method::POST, ALL, CREATE, "Make an OAuth client; its secret is shown once", create)
            .takes::<NewOauthClient>()
            .and(&["organisation_id"]),
        authed(Method::GET, ONE, READ, "Show an OAuth client by slug or id", get::<MadeClient>),
        authed(Method::PUT, ONE, UPDATE, "Change an OAuth client", update::<MadeClient>).takes::<OauthClientPatch>(),
        authed(Method::DELETE, ONE, DELETE, "Delete an OAuth client, and end all that people allowed it", remove),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewOauthClient {
    name: String,
    slug: Option<String>,
    description: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    redirect_uris: Vec<String>,
    scope: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OauthClientPatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    description: Edit<String>,
    #[serde(default)]
    redirect_uris: Edit<Vec<String>>,
    #[serde(default)]
    scope: Edit<String>,
}

impl Resource for MadeClient {
    const KIND: Kind = Kind::OauthClient;
    const NOUN: &'static str = "OAuth client";
    const SHARED: bool = true;
    const LATER: &'static [&'static str] = &[];
    type Create = NewOauthClient;
    type Patch = OauthClientPatch;

    /// Makes the row without a secret: whoever makes a client that has one adds it.
    fn create(input: NewOauthClient, _home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        check_name("name", &input.name)?;
        check_description(input.description.as_deref())?;
        is_confidential(&input.kind)?;
        let doc = Self {
            description: input.description,
            redirect_uris: redirects(input.redirect_uris)?,
            scope: input.scope.map(|scope| read_scope(&scope)).transpose()?,
            secret_sha256: None,
            rest: Map::new(),
        };
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, None, Some(call.actor.key.0), doc);
        let slug = Slug::given("slug", input.slug)?;
        let slug = slug.unwrap_or_else(|| Slug::Derived(slug_of(&input.name, "oauth-client")));
        row.name = input.name;
        Ok(NewRow { row, slug })
    }

    fn patch(row: &mut ResourceRow<Self>, input: OauthClientPatch, _call: &AdminCall) -> Result<(), Problem> {
        if let Some(name) = input.name.required("name")? {
            check_name("name", &name)?;
            row.name = name;
        }
        input.description.onto(&mut row.doc.description);
        check_description(row.doc.description.as_deref())?;
        if let Some(given) = input.redirect_uris.required("redirect_uris")? {
            row.doc.redirect_uris = redirects(given)?;
        }
        match input.scope {
            Edit::Keep => {}
            Edit::Clear => row.doc.scope = None,
            Edit::Set(scope) => row.doc.scope = Some(read_scope(&scope)?),
        }
        Ok(())
    }

    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let held = around.snapshot.oauth_clients().filter(|client| client.org == row.org).count();
        let is_known = around.snapshot.oauth_client(OauthClientId(row.id)).is_some();
        if row.is_one_too_many(held, is_known, Self::MOST) {
            return Err(conflict(format!("the organisation has {held} OAuth clients and may have {}", Self::MOST)));
        }
        Ok(())
    }

    fn view(row: &ResourceRow<Self>, _call: &AdminCall) -> Value {
        let doc = &row.doc;
        let mut view = row.common("oauth_client");
        view.shift_remove("workspace_id");
        let more = json!({
            "client_id": row.id,
            "description": doc.description,
            "type": doc.kind(),
            "redirect_uris": doc.redirect_uris,
            "scope": doc.scope,
            "owner_id": row.owner,
        });
        view.extend(more.as_object().cloned().unwrap_or_default());
        Value::Object(view)
    }

    fn home(_named: Option<WorkspaceId>, _default: WorkspaceId) -> Option<WorkspaceId> {
        None
    }
}

async fn create(call: AdminCall) -> Result<AdminReply, Problem> {
    let (seen, body) = (call.snapshot().revision, call.body()?);
    let kind = body.0.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let (mut new, told) = draft::<MadeClient>(&call, body)?;
    let secret = is_confidential(&kind)?.then(|| format!("{MARK}{}", URL_SAFE_NO_PAD.encode(call.app.bytes::<32>())));
    new.row.doc.secret_sha256 = secret.as_deref().map(|secret| KeyHash::of(secret).to_string());
    new.settle(&call).await?;
    let decide = |around: &WriteView<'_>| {
        new.enter(around)?;
        let row = new.row.stored()?;
        let audit = vec![audit(&call, Action::Create, &row, &told)];
        call.promise(|| made(&new.row, secret.as_deref()));
        Ok(Batch { rows: vec![row], audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(made(&new.row, secret.as_deref())).at(revision))
}

/// The one time that its secret is shown.
fn made(row: &ResourceRow<MadeClient>, secret: Option<&str>) -> Value {
    let mut told = json!({"id": row.id, "slug": row.slug, "client_id": row.id});
    if let Some(secret) = secret {
        told["client_secret"] = secret.into();
    }
    told
}

/// Removes a client with all that people allowed it: once this is answered, no token of the client opens anything, and
/// nothing that it holds gets it a new one.
async fn remove(call: AdminCall) -> Result<AdminReply, Problem> {
    let id = locate::<MadeClient>(&call, None, Action::Delete).await?.id;
    mcp_grants::end_of_client(&call, &id.to_string()).await?;
    delete::<MadeClient>(call).await
}

fn is_confidential(kind: &str) -> Result<bool, Problem> {
    match kind {
        "public" => Ok(false),
        "confidential" => Ok(true),
        _ => Err(bad("type", "must be one of public, confidential")),
    }
}

fn check_description(given: Option<&str>) -> Result<(), Problem> {
    if given.is_some_and(|text| text.chars().count() > LONGEST_DESCRIPTION) {
        return Err(bad("description", format_args!("must be at most {LONGEST_DESCRIPTION} characters")));
    }
    Ok(())
}

fn redirects(given: Vec<String>) -> Result<Vec<String>, Problem> {
    if given.is_empty() || given.len() > MOST_REDIRECTS {
        return Err(bad("redirect_uris", format_args!("must hold 1..{MOST_REDIRECTS} addresses")));
    }
    for (at, uri) in given.iter().enumerate() {
        check_redirect(uri).map_err(|rule| bad(format_args!("redirect_uris[{at}]"), rule))?;
    }
    Ok(given)
}

fn read_scope(given: &str) -> Result<String, Problem> {
    let mut names: Vec<&str> = given.split_ascii_whitespace().collect();
    names.dedup();
    if names.is_empty() || names.len() > SCOPES.len() || !names.iter().all(|name| SCOPES.contains(name)) {
        return Err(bad("scope", "must be of mcp, mcp:read and mcp:write, with blanks between them"));
    }
    Ok(names.join(" "))
}
