//! Who asks: a gateway key found by the hash of its text, and what it may act on.
//! Decides nothing about single resources; those say themselves what they need.

use crate::app::{App, ClientAddr};
use crate::cookies;
use crate::grant;
use crate::problem::{Problem, forbidden, missing, unauthenticated, unreadable};
use gateway_domain::denied_caller::{Stranger, TurnedAway, Unwelcome};
use gateway_domain::id::{KeyId, OrgId, UserId, WorkspaceId};
use gateway_domain::keys::KeyHash;
use gateway_domain::resource::api_key::KeyKind;
use gateway_domain::resource::mcp_reach::McpReach;
use gateway_domain::resource::model_reach::ModelReach;
use gateway_domain::resource::person::{OrgRole, WorkspaceRole};
use gateway_domain::scope::{Scope, Scopes};
use gateway_domain::snapshot::{Key, Snapshot, WorkspaceEntry};
use gateway_domain::time::Timestamp;
use gateway_domain::token::{self, TokenError};
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use std::sync::Arc;
use uuid::Uuid;

/// Where [`credential`] looks.
const NO_KEY: &str = "no API key was given: send it in x-gateway-api-key, Authorization: Bearer or x-api-key";

#[derive(Clone, Debug)]
pub struct Actor {
    pub key: KeyId,
    pub kind: KeyKind,
    pub org: OrgId,
    /// `None`: an Admin key, which acts on every workspace of its organisation.
    pub workspace: Option<WorkspaceId>,
    /// The person behind a user key.
    pub user: Option<Uuid>,
    /// What it may do: the scopes of the key, but no more than the role of the person behind it allows.
    pub scopes: Scopes,
    /// Whether it may make somebody admin of a workspace, or unmake one: not people who are none themselves.
    pub(crate) may_make_admins: bool,
    /// Whether it may change and lift what a whole workspace is limited to: an Admin key, people who run the
    /// organisation or the workspace, and managers where the organisation lets them. A service key of a workspace has
    /// no role: it may no more than a manager.
    pub(crate) may_set_limits: bool,
    /// Whether it sees the logs of others.
    pub(crate) sees_all: bool,
    /// Whether it sees the metadata of logs.
    pub(crate) sees_metadata: bool,
    /// Which MCP servers, and what of them, its key may use; `None`: the key sets no bounds.
    pub(crate) mcp_access: Option<Arc<McpReach>>,
    /// Which models it may call.
    pub(crate) allowed_models: Option<ModelReach>,
}

impl Actor {
    pub(crate) async fn authenticate(app: &App, headers: &HeaderMap, now: Timestamp) -> Result<Self, NotLetIn> {
        let refuse = |why: Unwelcome, told: &str| NotLetIn::new(unauthenticated(told), Stranger::unknown(why));
        if is_given_twice(headers, &app.header_aliases) {
            let problem = unreadable("x-gateway-api-key is given twice, with different values");
            return Err(NotLetIn::new(problem, Stranger::unknown(Unwelcome::UnknownKey)));
        }
        let text =
            credential(headers, &app.header_aliases).or_else(|| cookies::session(headers, app.public_url.as_deref()));
        let text = text.ok_or_else(|| refuse(Unwelcome::NoKey, NO_KEY))?;
        let hash = KeyHash::of(text);
        if app.live.snapshot().key(&hash).is_none() && token::looks_signed(text) {
            return by_token(app, text, &hash, now).await;
        }
        let snapshot = app.live.snapshot();
        let Some(key) = snapshot.key(&hash) else {
            let service = app.data_service.filter(|token| *token == hash).and_then(|_| Self::data_service(&snapshot));
            return service.ok_or_else(|| refuse(Unwelcome::UnknownKey, "invalid API key"));
        };
        let over = |why: Unwelcome, told: &str| Err(NotLetIn::new(unauthenticated(told), Stranger::with_key(why, key)));
        if key.expires_at.is_some_and(|at| at <= now) {
            return over(Unwelcome::ExpiredKey, "this API key has expired");
        }
        let home = key.workspace.is_none_or(|w| snapshot.workspace(w).is_some_and(|w| w.active));
        if !key.active || !home {
            return over(Unwelcome::InactiveKey, "this API key is not active");
        }
        app.uses.note(key, now);
        Ok(Self::of(key).bound(&snapshot))
    }

    fn of(key: &Arc<Key>) -> Self {
        Self {
            may_make_admins: true,
            may_set_limits: key.kind == KeyKind::OrganisationService,
            sees_all: true,
            sees_metadata: true,
            key: key.id,
            kind: key.kind,
            org: key.org,
            workspace: key.workspace,
            user: key.owner,
            scopes: key.scopes,
            mcp_access: key.mcp_access.clone(),
            allowed_models: key.allowed_models.clone(),
        }
    }

    /// Whoever holds the token of the data service lists configs of the first organisation, and does nothing else.
    fn data_service(snapshot: &Snapshot) -> Option<Self> {
        const SCOPE: Scope = Scope::named("configs.list");
        let org = snapshot.first_org()?;
        Some(Self {
            key: KeyId(Uuid::nil()),
            kind: KeyKind::OrganisationService,
            org: org.id,
            workspace: None,
            user: None,
            scopes: [SCOPE].into_iter().collect(),
            may_make_admins: false,
            may_set_limits: false,
            sees_all: false,
            sees_metadata: false,
            mcp_access: None,
            allowed_models: None,
        })
    }

    /// What a person lost with a role, their keys lost too; who is no user any more may nothing.
    fn bound(mut self, snapshot: &Snapshot) -> Self {
        self.may_set_limits |= snapshot.org(self.org).is_some_and(|org| org.managers_set_limits);
        let (Some(user), Some(workspace)) = (self.user, self.workspace.and_then(|w| snapshot.workspace(w))) else {
            return self;
        };
        let Some((org, seat)) = snapshot.standing(UserId(user), workspace) else {
            self.scopes = Scopes::default();
            return self;
        };
        let security = snapshot.security(workspace);
        self.scopes = self.scopes.meet(&security.bound(org, seat));
        self.may_make_admins = org != OrgRole::Member || seat == Some(WorkspaceRole::Admin);
        self.may_set_limits |= self.may_make_admins;
        self.sees_all = security.sees_all(org, seat);
        self.sees_metadata = security.sees_metadata(org, seat);
        self
    }

    pub(crate) fn may(&self, scope: Scope) -> bool {
        self.scopes.has(scope)
    }

    /// Any of them is enough; none asked for is no hurdle.
    pub(crate) fn require(&self, any_of: &[Scope]) -> Result<(), Problem> {
        if any_of.is_empty() || any_of.iter().any(|s| self.may(*s)) {
            return Ok(());
        }
        let names: Vec<&str> = any_of.iter().map(|s| s.name()).collect();
        Err(forbidden(format!("this API key lacks the scope {}", names.join(" or "))))
    }

    /// `own`: of what this very key has made.
    pub(crate) fn require_limits(&self, own: bool) -> Result<(), Problem> {
        if self.may_set_limits || own {
            return Ok(());
        }
        Err(forbidden(
            "limits of a workspace are changed by its admins and those of the organisation, unless it says otherwise \
             (managers_set_limits)"
                .to_owned(),
        ))
    }

    /// What it may give to keys that it makes: what it has, and for an Admin key also the data-plane scopes,
    /// which no Admin key can hold itself.
    pub(crate) fn grantable(&self) -> Scopes {
        let mut scopes = self.scopes;
        if self.kind == KeyKind::OrganisationService {
            grant::data_plane().iter().for_each(|s| scopes.insert(*s));
        }
        scopes
    }

    /// The workspace that the request names or the key belongs to; `None` for an Admin key that names none.
    pub(crate) fn named(&self, snapshot: &Snapshot, given: Option<&str>) -> Result<Option<WorkspaceId>, Problem> {
        let Some(given) = given else { return Ok(self.workspace) };
        let found = self.find(snapshot, given).map(|w| w.id).filter(|id| self.workspace.is_none_or(|own| own == *id));
        found.map(Some).ok_or_else(|| missing("workspace"))
    }

    /// Whether keys of this kind are shown to it, where it may act at all.
    pub(crate) fn may_see_keys(&self, kind: KeyKind) -> bool {
        let scope = match kind {
            KeyKind::OrganisationService => Scope::named("organisation_service_api_keys.read"),
            KeyKind::WorkspaceService => Scope::named("workspace_service_api_keys.read"),
            KeyKind::WorkspaceUser => Scope::named("workspace_user_api_keys.read"),
        };
        self.require(&[scope]).is_ok()
    }

    /// One of its organisation, whether it may act there or not.
    pub(crate) fn find<'s>(&self, snapshot: &'s Snapshot, given: &str) -> Option<&'s Arc<WorkspaceEntry>> {
        let found = match given.parse() {
            Ok(id) => snapshot.workspace(id),
            Err(_) => snapshot.workspaces().find(|w| w.org == self.org && &*w.slug == given),
        };
        found.filter(|w| w.org == self.org && w.active)
    }

    pub(crate) fn default_workspace(&self, snapshot: &Snapshot) -> Result<WorkspaceId, Problem> {
        let org = snapshot.org(self.org).ok_or_else(|| missing("organisation"))?;
        Ok(self.workspace.unwrap_or(org.default_workspace))
    }

    /// The workspace acted on: the named one, else the organisation's default.
    pub(crate) fn home(&self, snapshot: &Snapshot, given: Option<&str>) -> Result<WorkspaceId, Problem> {
        self.named(snapshot, given)?.map_or_else(|| self.default_workspace(snapshot), Ok)
    }
}

/// Nobody who may act: what they are told, and what is told of them.
#[derive(Debug)]
pub(crate) struct NotLetIn {
    pub(crate) problem: Problem,
    stranger: Box<Stranger>,
}

impl NotLetIn {
    fn new(problem: Problem, stranger: Stranger) -> Self {
        Self { problem, stranger: Box::new(stranger) }
    }

    /// Leaves a trace of it.
    pub(crate) fn report(self, app: &App, parts: &Parts, at: Timestamp) -> Problem {
        app.door.note(TurnedAway {
            stranger: *self.stranger,
            at,
            status: self.problem.status.as_u16(),
            message: self.problem.message.clone(),
            method: parts.method.to_string(),
            path: TurnedAway::short(parts.uri.path()),
            client: parts.extensions.get::<ClientAddr>().map(|client| client.0),
        });
        self.problem
    }
}

/// A token acts as a service key of its workspace, never for the organisation.
async fn by_token(app: &App, text: &str, hash: &KeyHash, now: Timestamp) -> Result<Actor, NotLetIn> {
    let look = || app.tokens.key(&app.live.snapshot(), text, hash, now);
    let key = match look() {
        Err(TokenError::UnknownKey(org)) => {
            app.tokens.refresh(org).await;
            look()
        }
        other => other,
    };
    let key = key.map_err(|error| {
        let org = app.tokens.named(&app.live.snapshot(), text);
        let (why, problem) = match error {
            TokenError::Forbidden(told) => (Unwelcome::NoPlace, forbidden(told)),
            other => (Unwelcome::BadToken, unauthenticated(&other.to_string())),
        };
        NotLetIn::new(problem, Stranger::with_token(why, org))
    })?;
    let mut actor = Actor::of(&key);
    actor.scopes = actor.scopes.meet(&grant::all(key.kind));
    Ok(actor)
}

/// Two keys under the gateway's own header or its aliases: nobody can say who asks.
fn is_given_twice(headers: &HeaderMap, aliases: &[String]) -> bool {
    let names = std::iter::once("x-gateway-").chain(aliases.iter().map(String::as_str));
    let names = names.filter_map(|prefix| HeaderName::try_from(format!("{prefix}api-key")).ok());
    let mut values = names.flat_map(|name| headers.get_all(name).iter().cloned().collect::<Vec<_>>());
    let Some(first) = values.next() else { return false };
    values.any(|value| value != first)
}

/// The gateway's own header wins; the two others are looked at only when it is absent.
fn credential<'h>(headers: &'h HeaderMap, aliases: &[String]) -> Option<&'h str> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim).filter(|t| !t.is_empty());
    let own = text("x-gateway-api-key").or_else(|| {
        let names = aliases.iter().filter_map(|prefix| HeaderName::try_from(format!("{prefix}api-key")).ok());
        names.into_iter().find_map(|name| headers.get(name)?.to_str().ok().map(str::trim))
    });
    own.or_else(|| {
        let (scheme, token) = text("authorization")?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    })
    .or_else(|| text("x-api-key"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn found(pairs: &[(&'static str, &'static str)]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        credential(&headers, &["x-acme-".to_owned()]).map(str::to_owned)
    }

    #[test]
    fn two_keys_are_nobodys() {
        let twice = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(*name, HeaderValue::from_static(value));
            }
            is_given_twice(&headers, &["x-acme-".to_owned()])
        };
        assert!(twice(&[("x-gateway-api-key", "a"), ("x-gateway-api-key", "b")]));
        assert!(twice(&[("x-gateway-api-key", "a"), ("x-acme-api-key", "b")]));
        assert!(!twice(&[("x-gateway-api-key", "a"), ("x-acme-api-key", "a"), ("x-api-key", "b")]));
        assert!(!twice(&[]));
    }

    #[test]
    fn the_own_header_wins_and_the_others_follow() {
        let bearer = ("authorization", "Bearer b");
        assert_eq!(found(&[("x-gateway-api-key", "g"), bearer, ("x-api-key", "x")]).as_deref(), Some("g"));
        assert_eq!(found(&[("x-acme-api-key", "a"), bearer]).as_deref(), Some("a"));
        assert_eq!(found(&[bearer, ("x-api-key", "x")]).as_deref(), Some("b"));
        assert_eq!(found(&[("authorization", "bearer  b")]).as_deref(), Some("b"));
        assert_eq!(found(&[("authorization", "Basic b"), ("x-api-key", "x")]).as_deref(), Some("x"));
        assert_eq!(found(&[]), None);
    }
}
