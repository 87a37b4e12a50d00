//! One request as intake leaves it: who asks, for what, with which body. Not changed afterwards.

mod line;
mod prompt_request;

pub(crate) use line::LineMark;
pub(crate) use prompt_request::{PromptAsk, PromptVerb, asked as prompt_asked, route as chat_route};

use super::capture_policy::CapturePolicy;
use super::headers::GatewayHeaders;
use super::realtime_call_request::CallAsk;
use super::token_estimate::Reckoned;
use crate::batches::{LineGuest, LineTask};
use crate::runtime_config::RuntimeConfig;
use bytes::Bytes;
use gateway_domain::form::ClientForm;
use gateway_domain::kept::{self, KeptAt};
use gateway_domain::operation::Body;
use gateway_domain::prompt::FoundPrompt;
use gateway_domain::record::{Steps, Trace};
use gateway_domain::snapshot::{Key, Org, SavedGuardrail, Snapshot, WorkspaceEntry};
use gateway_domain::{Dialect, Fault, FaultKind, Operation, Secret, Timestamp};
use http::Method;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The caller and everything that is decided by who it is; holds the one snapshot of the request.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) world: Arc<RuntimeConfig>,
    pub(crate) key: Arc<Key>,
    pub(crate) org: Arc<Org>,
    pub(crate) workspace: Arc<WorkspaceEntry>,
    /// What judges all its requests; `None`: nothing does.
    pub(crate) guardrails: Option<Arc<TenantGuardrails>>,
    /// Its request is only supposed: it is told what would become of it.
    pub(crate) supposed: bool,
    /// Its request is a line of a batch.
    pub(crate) line: Option<Arc<LineGuest>>,
}

impl Tenant {
    /// What a caller is told whose workspace this node, one of a deployment, does not serve.
    pub(crate) fn served_elsewhere() -> Fault {
        Fault::new(FaultKind::Forbidden, "This deployment does not serve the workspace of the key")
    }
}

/// Guardrails that every request of a workspace has, saved ones by slug.
#[derive(Debug, Default)]
pub(crate) struct TenantGuardrails {
    pub(crate) input: Vec<DefaultGuardrail>,
    pub(crate) output: Vec<DefaultGuardrail>,
}

/// One of them; `None`: it is not there any more, and nobody can say what it would have said.
#[derive(Debug)]
pub(crate) struct DefaultGuardrail {
    pub(crate) slug: String,
    pub(crate) saved: Option<Arc<SavedGuardrail>>,
}

impl TenantGuardrails {
    /// The workspace's own, then the organisation's, unless the workspace is excluded from these.
    pub(crate) fn of(snapshot: &Snapshot, org: &Org, workspace: &WorkspaceEntry) -> Option<Arc<Self>> {
        let (own, common) = (&*workspace.default_guardrails, &*org.default_guardrails);
        if own.is_empty() && common.is_empty() {
            return None;
        }
        let side = |own: &[String], common: &[String], excluded: bool| {
            let mut out: Vec<DefaultGuardrail> = Vec::new();
            let own = own.iter().map(|slug| (slug, snapshot.guardrail(workspace, slug)));
            let common = common.iter().filter(|_| !excluded).map(|slug| (slug, org.guardrail(slug)));
            for (slug, saved) in own.chain(common) {
                out.push(DefaultGuardrail { slug: slug.clone(), saved: saved.cloned() });
            }
            out
        };
        let input = side(&own.input, &common.input, workspace.exclusions.input);
        let output = side(&own.output, &common.output, workspace.exclusions.output);
        (!input.is_empty() || !output.is_empty()).then(|| Arc::new(Self { input, output }))
    }
}

/// The route, with the tail as a place in the path so that nothing borrows.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) operation: Operation,
    pub(crate) dialect: Dialect,
    pub(crate) raw: bool,
    /// What the table of operations expects of the body.
    pub(crate) body: Option<Body>,
    pub(crate) path: Arc<str>,
    pub(crate) tail: Range<usize>,
    pub(crate) query: Option<Arc<str>>,
}

impl Route {
    pub(crate) fn tail(&self) -> &str {
        &self.path[self.tail.clone()]
    }

    /// What is asked of the provider: what goes up untouched is an operation of nobody's but the provider's.
    pub(crate) const fn asked(&self) -> Operation {
        if self.raw { Operation::Proxy } else { self.operation }
    }
}

/// The model that a request asks for, as far as it is known before its target is chosen.
#[derive(Debug)]
pub(crate) struct AskedModel {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) unread: bool,
}

/// Whether a request names an object by the id that its provider gave it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawNames {
    /// It was looked at.
    pub(crate) looked: bool,
    /// Which part of the request says so.
    pub(crate) field: Option<String>,
    /// Its body is nested so deep that nobody looked at all of it.
    pub(crate) is_too_deep: bool,
}

/// The provider that a request names by a bound id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PinnedTo {
    pub(crate) at: KeptAt,
    /// Which part of the request says so.
    pub(crate) field: String,
}

/// What of the body matters to routing; the whole of it for a relayed call is "unread".
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestContent {
    pub(crate) bytes: Bytes,
    /// Where its parts stand, of a form that is held.
    pub(crate) form: Option<Arc<ClientForm>>,
    pub(crate) model: Option<Arc<str>>,
    pub(crate) model_span: Option<Range<usize>>,
    pub(crate) stream: bool,
    pub(crate) wants_usage: bool,
    pub(crate) unread: bool,
    /// Another field is called `model` but for its case.
    pub(crate) model_respelled: bool,
    /// Nothing in it is named as kept objects are: it was looked at.
    pub(crate) names_no_object: bool,
    /// Microseconds that were spent waiting for it.
    pub(crate) waited_us: u64,
}

impl Request {
    /// The model as policies and records see it until a target says more.
    pub(crate) fn asked_model(&self) -> Option<&Arc<str>> {
        self.ask.untouched_model.as_ref().map_or(self.ask.content.model.as_ref(), |asked| asked.name.as_ref())
    }

    /// The saved prompt that it comes from.
    pub(crate) fn prompt(&self) -> Option<&FoundPrompt> {
        self.ask.prompt.as_ref()?.found.as_ref()
    }

    /// It is to be shown, and not sent.
    pub(crate) fn is_rendered_only(&self) -> bool {
        self.ask.prompt.as_ref().is_some_and(|ask| ask.verb == PromptVerb::Render)
    }

    /// Nobody can say which model is asked for: it may be any.
    pub(crate) fn model_is_unread(&self) -> bool {
        self.ask.untouched_model.as_ref().map_or(self.ask.content.unread, |asked| asked.unread)
    }

    /// Whether it makes a provider's batch, where it is the gateway's own call about one. `None`: it is any other
    /// request.
    pub(crate) fn begins_batch(&self) -> Option<bool> {
        match self.caller.tenant.line.as_ref()?.task {
            LineTask::Native { begins, .. } => Some(begins),
            _ => None,
        }
    }

    /// Its key's config cannot be overridden by what the request says.
    pub(crate) fn is_held_to_config(&self) -> bool {
        self.caller.tenant.key.defaults.as_ref().is_some_and(|defaults| !defaults.allow_config_override)
    }

    /// Goes up as it came: what a config sets of the body counts for nothing.
    pub(crate) const fn is_untouched(&self) -> bool {
        self.ask.route.raw || self.ask.content.unread
    }

    /// The call that a session is opened beside.
    pub(crate) fn beside(&self) -> Option<&str> {
        let route = &self.ask.route;
        let is_session = route.operation == Operation::Realtime;
        if !is_session {
            return None;
        }
        kept::call_in_query(route.query.as_deref()?)
    }

    /// Looks at the clock, for all that happens in this step: whoever may have waited looks again.
    pub(crate) fn look(&self) -> u64 {
        let us = self.elapsed_us_at(Instant::now());
        self.caller.looked.0.store(us, Ordering::Relaxed);
        us
    }

    /// Microseconds from when the request's head was read until then.
    pub(crate) fn elapsed_us_at(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.caller.started).as_micros()).unwrap_or(u64::MAX)
    }

    /// Microseconds from when the request's head was read until the clock was last looked at.
    pub(crate) fn elapsed_us(&self) -> u64 {
        self.caller.looked.0.load(Ordering::Relaxed)
    }

    /// What is known of the time it took when its plan is made.
    pub(crate) fn steps(&self) -> Steps {
        Steps { auth_us: self.caller.auth_us, body_us: self.ask.content.waited_us, ..Steps::default() }
    }

    /// The time of this step, by the request's own clock: limits are counted when they are taken, not at intake.
    pub(crate) fn now(&self) -> Timestamp {
        self.caller.at.plus_micros(i64::try_from(self.elapsed_us()).unwrap_or(0))
    }
}

/// When a request's clock was last looked at, in microseconds since its beginning.
#[derive(Debug, Default)]
pub(crate) struct LastLook(AtomicU64);

/// What a request has waited for Redis: all its waits together have one deadline.
#[derive(Debug, Default)]
pub(crate) struct Waited(AtomicU64);

impl Waited {
    pub(crate) fn so_far(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }

    pub(crate) async fn during<T>(&self, wait: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let told = wait.await;
        let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.0.fetch_add(micros, Ordering::Relaxed);
        told
    }
}

/// Who asks, and all that goes with it whatever is asked: calls that are no inference need this and nothing else.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) client_ip: Option<IpAddr>,
    pub(crate) started: Instant,
    pub(crate) at: Timestamp,
    pub(crate) looked: LastLook,
    /// Microseconds until it was known who asks.
    pub(crate) auth_us: u64,
    /// How long the request has waited for what nodes share in Redis.
    pub(crate) waited: Waited,
    pub(crate) trace: Arc<str>,
    /// `None` when the call belongs to no trace but its own.
    pub(crate) span: Option<Arc<Trace>>,
    /// Workspace over key over request.
    pub(crate) metadata: Vec<(String, String)>,
    pub(crate) keep: CapturePolicy,
}

/// What is asked: route, headers and content.
#[derive(Debug)]
pub(crate) struct AskedFor {
    pub(crate) method: Method,
    pub(crate) route: Route,
    pub(crate) headers: GatewayHeaders,
    /// The upstream credential that came with the request.
    pub(crate) credential: Option<Secret<String>>,
    pub(crate) content: RequestContent,
    /// The saved prompt that is called: the content is what that was rendered to.
    pub(crate) prompt: Option<Box<PromptAsk>>,
    /// What that content may use, once somebody asked.
    pub(super) reckoned: OnceLock<Reckoned>,
    /// The model of a call that goes up as it came; of others the content says it.
    pub(crate) untouched_model: Option<AskedModel>,
    /// It names an object that one provider keeps.
    pub(crate) pin: Option<PinnedTo>,
    /// What it named before bound ids were opened.
    pub(crate) raw_names: RawNames,
    /// The kept response that it went on from, as the client named it: what that holds stands in the content now.
    pub(crate) continues: Option<Arc<str>>,
    /// Its body is not held, but streams up.
    pub(crate) upload: Option<crate::upstream::http1::Framing>,
    /// What the gateway says first in a session, in the place of a browser that was given a key for it.
    pub(crate) first_event: Option<Bytes>,
    /// What is asked of a call over WebRTC or SIP.
    pub(crate) call: Option<Box<CallAsk>>,
}

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) caller: Caller,
    pub(crate) ask: AskedFor,
}
