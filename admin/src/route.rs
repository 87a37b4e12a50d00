//! A route as data: method, path, who may call it, what it is for, what runs. There are two ways to make one,
//! [`public`] and [`authed`], so a handler that forgets authentication cannot be written: only the second is
//! given an [`AdminCall`], and there is no [`AdminCall`] without an [`Actor`].

use crate::actor::Actor;
use crate::app::App;
use crate::idempotency::Repeat;
use crate::input::{JsonBody, KnownNames, QueryString, Variable};
use crate::path_kind;
use crate::problem::Problem;
pub(crate) use crate::reply::{AdminReply, stamp};
use crate::request_target::AskedRow;
use crate::schema::schema;
use bytes::Bytes;
use gateway_domain::scope::Scope;
use gateway_domain::snapshot::Snapshot;
use gateway_domain::time::Timestamp;
use http::{HeaderMap, Method, Uri, header};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use uuid::Uuid;

/// Where a path is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MountPoint {
    /// The path is served below `/v1`, `/v2` and `/v1/v2`, on both ports.
    Api,
    /// The path is served as it is written, without a prefix, on both ports.
    Root,
    /// The path is served as it is written, without a prefix, on the admin port only.
    Operator,
}

pub(crate) type HandlerFuture = Pin<Box<dyn Future<Output = Result<AdminReply, Problem>> + Send>>;
pub(crate) type AuthedFn = Box<dyn Fn(AdminCall) -> HandlerFuture + Send + Sync>;
pub(crate) type PublicFn = fn(&App) -> AdminReply;
pub(crate) type GuestFn = Box<dyn Fn(Visit) -> HandlerFuture + Send + Sync>;

pub(crate) enum Gate {
    Public(PublicFn),
    /// Needs no key. The handler gets the request with its body, and checks by itself who asks.
    Guest(GuestFn),
    /// Any key opens it; it shows no more than the key's own.
    AnyKey(AuthedFn),
    /// Any of these scopes opens it; a handler may ask for more.
    Scopes(&'static [Scope], AuthedFn),
}

pub(crate) struct AdminRoute {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) place: MountPoint,
    pub(crate) summary: &'static str,
    pub(crate) gate: Gate,
    /// Names that the query string may hold; others are refused.
    pub(crate) query: &'static [&'static str],
    /// Names of the contract that wait for their feature.
    pub(crate) later: &'static [&'static str],
    /// The schema of the body, for the description.
    pub(crate) body: Option<fn() -> Value>,
    /// Fields of the body that are read apart from the rest, for the description.
    pub(crate) more: &'static [&'static str],
}

pub(crate) fn public(place: MountPoint, path: &'static str, summary: &'static str, run: PublicFn) -> AdminRoute {
    AdminRoute::of(Method::GET, place, path, summary, Gate::Public(run))
}

pub(crate) fn guest<F, A>(
    method: Method,
    place: MountPoint,
    path: &'static str,
    summary: &'static str,
    run: F,
) -> AdminRoute
where
    F: Fn(Visit) -> A + Send + Sync + 'static,
    A: Future<Output = Result<AdminReply, Problem>> + Send + 'static,
{
    let run: GuestFn = Box::new(move |visit| Box::pin(run(visit)));
    AdminRoute::of(method, place, path, summary, Gate::Guest(run))
}

pub(crate) fn any_key<F, A>(method: Method, path: &'static str, summary: &'static str, run: F) -> AdminRoute
where
    F: Fn(AdminCall) -> A + Send + Sync + 'static,
    A: Future<Output = Result<AdminReply, Problem>> + Send + 'static,
{
    let run: AuthedFn = Box::new(move |call| Box::pin(run(call)));
    AdminRoute::of(method, MountPoint::Api, path, summary, Gate::AnyKey(run))
}

pub(crate) fn authed<F, A>(
    method: Method,
    path: &'static str,
    any_of: &'static [Scope],
    summary: &'static str,
    run: F,
) -> AdminRoute
where
    F: Fn(AdminCall) -> A + Send + Sync + 'static,
    A: Future<Output = Result<AdminReply, Problem>> + Send + 'static,
{
    let run: AuthedFn = Box::new(move |call| Box::pin(run(call)));
    AdminRoute::of(method, MountPoint::Api, path, summary, Gate::Scopes(any_of, run))
}

impl AdminRoute {
    fn of(method: Method, place: MountPoint, path: &'static str, summary: &'static str, gate: Gate) -> Self {
        Self { method, path, place, summary, gate, query: &[], later: &[], body: None, more: &[] }
    }

    /// Says what the query string may hold.
    pub(crate) const fn asks(mut self, names: &'static [&'static str]) -> Self {
        self.query = names;
        self
    }

    /// Says which names of the contract wait for their feature: they are refused in words of their own.
    pub(crate) const fn not_yet(mut self, names: &'static [&'static str]) -> Self {
        self.later = names;
        self
    }

    /// Says what else the body may hold.
    pub(crate) const fn and(mut self, more: &'static [&'static str]) -> Self {
        self.more = more;
        self
    }

    /// Says what the body is read as.
    pub(crate) fn takes<T: DeserializeOwned>(mut self) -> Self {
        self.body = Some(schema::<T>);
        self
    }

    /// Says what the body is read as, by a schema that is written out: for a body that no struct stands for.
    pub(crate) const fn reads(mut self, schema: fn() -> Value) -> Self {
        self.body = Some(schema);
        self
    }

    pub(crate) const fn known_names(&self) -> KnownNames {
        KnownNames { path: self.path, query: self.query, later: self.later, body: self.body, more: self.more }
    }

    /// Whether its path names one thing that is configured, which has a state.
    pub(crate) fn is_of_one(&self) -> bool {
        path_kind::names_one(self.path)
    }

    /// Every path that it answers at.
    pub(crate) fn paths(&self) -> Vec<String> {
        match self.place {
            MountPoint::Api => PREFIXES.iter().map(|prefix| format!("{prefix}{}", self.path)).collect(),
            MountPoint::Root | MountPoint::Operator => vec![self.path.to_owned()],
        }
    }
}

/// The longest first, so that `/v1/v2/X` is not read as `/v2/X` below `/v1`.
pub(crate) const PREFIXES: [&str; 3] = ["/v1/v2", "/v1", "/v2"];

/// What a route takes that finds one row of a workspace.
pub(crate) const HERE: &[&str] = &["workspace_id"];

/// What every list of a workspace takes.
pub(crate) const PAGES: &[&str] = &["workspace_id", "current_page", "page_size"];

/// What every list of a workspace takes that can be searched by name.
pub(crate) const SEARCHED: &[&str] = &["workspace_id", "search", "current_page", "page_size"];

/// An authenticated request, read but for its body.
pub(crate) struct AdminCall {
    pub(crate) app: Arc<App>,
    pub(crate) route: &'static AdminRoute,
    pub(crate) actor: Actor,
    pub(crate) now: Timestamp,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) vars: Vec<Variable>,
    pub(crate) query: QueryString,
    pub(crate) bytes: Bytes,
    pub(crate) client: Option<IpAddr>,
    pub(crate) request_id: Uuid,
    pub(crate) headers: HeaderMap,
    pub(crate) subject: Arc<AskedRow>,
    /// Where the client may send it once more.
    pub(crate) repeat: Option<Arc<Repeat>>,
}

/// A request of somebody without a key.
pub(crate) struct Visit {
    pub(crate) app: Arc<App>,
    pub(crate) now: Timestamp,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) vars: Vec<Variable>,
    pub(crate) bytes: Bytes,
    pub(crate) client: Option<IpAddr>,
    pub(crate) request_id: Uuid,
    pub(crate) headers: HeaderMap,
}

fn variable<'v>(vars: &'v [Variable], name: &str) -> &'v str {
    vars.iter().find(|(n, _)| n == name).map_or("", |(_, v)| v.as_str())
}

impl Visit {
    pub(crate) fn var(&self, name: &str) -> &str {
        variable(&self.vars, name)
    }
}

impl AdminCall {
    pub(crate) fn var(&self, name: &str) -> &str {
        variable(&self.vars, name)
    }

    pub(crate) fn body(&self) -> Result<JsonBody, Problem> {
        JsonBody::parse(&self.bytes)?.aligned(&self.route.known_names(), &self.vars)
    }

    /// What the client calls this server, for links.
    pub(crate) fn host(&self) -> Option<&str> {
        self.headers.get(header::HOST)?.to_str().ok()
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.app.live.snapshot()
    }
}
