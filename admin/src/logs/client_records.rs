//! Records of calls that went another way than through the gateway: clients tell of them, and they lie beside its own,
//! for lists, sums and exports alike. Kept within the workspace and under the name of the key that sends them.

use crate::actor::Actor;
use crate::object_or_list::{OneGiven, one_or_several};
use crate::problem::{Problem, bad, busy};
use crate::route::{AdminCall, AdminReply};
use crate::upkeep::own_card;
use bytes::Bytes;
use gateway_domain::metadata;
use gateway_domain::ports::{RecordIntake, ToldUsage};
use gateway_domain::record::client_record::{OWN_CALL, id_at, span_name_of};
use gateway_domain::record::{
    Bodies, LlmDetail, LogRecord, RecordedBody, RecordedMessage, RecordedOperation, Timings, Trace, Unpriced, mask,
};
use gateway_domain::scope::Scope;
use gateway_domain::snapshot::{Org, Snapshot, WorkspaceEntry};
use gateway_domain::{Dialect, WorkspaceId};
use http::Uri;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;

const MOST_AT_ONCE: usize = 100;
const LONGEST_URL: usize = 2_048;
/// A trace's, a span's, a model's, a provider's.
const LONGEST_NAME: usize = 512;
const MOST_HEADERS: usize = 100;
const LONGEST_HEADER: usize = 8 << 10;
/// A day: nothing answers later.
const LONGEST_MILLIS: f64 = 86_400_000.0;
const METHODS: &[&str] = &["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"];
const STATUSES: std::ops::RangeInclusive<u16> = 100..=599;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OwnCall {
    request: OwnRequest,
    response: OwnAnswer,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnRequest {
    url: String,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    headers: Option<Map<String, Value>>,
    body: Map<String, Value>,
    /// A family such as `openai`, or `@slug` of a provider of the workspace.
    #[serde(default)]
    provider: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnAnswer {
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    headers: Option<Map<String, Value>>,
    body: Map<String, Value>,
    /// Milliseconds.
    #[serde(default)]
    response_time: Option<f64>,
}

pub(super) async fn insert(call: AdminCall) -> Result<AdminReply, Problem> {
    call.actor.require(&[Scope::COMPLETIONS_WRITE])?;
    let intake = call.app.own_records.clone().ok_or_else(|| busy("no records are written here"))?;
    let snapshot = call.snapshot();
    let home = call.actor.home(&snapshot, call.query.text("workspace_id"))?;
    let workspace = snapshot.workspace(home).ok_or_else(|| bad("workspace_id", "names no workspace"))?;
    let org = snapshot.org(call.actor.org).ok_or_else(|| bad("workspace_id", "names no workspace"))?;
    let place = OwnPlace { call: &call, snapshot: &snapshot, workspace, org, intake: &*intake };
    let mut records = Vec::new();
    for given in one_or_several::<OwnCall>(&call, MOST_AT_ONCE)? {
        records.push(place.read(given)?);
    }
    let spans: Vec<Uuid> = records.iter().filter_map(|told| told.span).collect();
    let mut times = call.app.claims.claim(&spans, call.now).await?.into_iter();
    let mut all = Vec::with_capacity(records.len());
    for OwnRecord { span, record } in records {
        let first = span.and_then(|_| times.next()).unwrap_or(call.now);
        let id = id_at(span.unwrap_or_else(|| Uuid::from_bytes(call.app.bytes())), first);
        all.push(LogRecord { id, created_at: first, ..record });
    }
    let ids: Vec<Uuid> = all.iter().map(|record| record.id).collect();
    intake.take(all).await?;
    Ok(AdminReply::json(json!({"status": "success", "message": "Logs successfully saved", "ids": ids})))
}

/// Where records come from, and go.
struct OwnPlace<'a> {
    call: &'a AdminCall,
    snapshot: &'a Snapshot,
    workspace: &'a WorkspaceEntry,
    org: &'a Org,
    intake: &'a dyn RecordIntake,
}

/// A record but for its id and its time.
struct OwnRecord {
    /// The name of its span, by which the record is known when it comes again; `None`: it names no span.
    span: Option<Uuid>,
    record: LogRecord,
}

impl OwnPlace<'_> {
    fn read(&self, OneGiven { given, under }: OneGiven<OwnCall>) -> Result<OwnRecord, Problem> {
        let OwnCall { request, response, metadata } = given;
        let field = |name: &str| format!("{under}{name}");
        let url = url(&field("request.url"), &request.url)?;
        let method = method(&field("request.method"), request.method.as_deref())?;
        let status = response.status.unwrap_or(200);
        if !STATUSES.contains(&status) {
            return Err(bad(field("response.status"), "must be an integer of 100..599"));
        }
        let total_us = micros(&field("response.response_time"), response.response_time)?;
        let who = self.provider(&field("request.provider"), request.provider.as_deref(), &url)?;
        let SpanNames { trace, trace_id, metadata } = SpanNames::take(&under, metadata.unwrap_or_default())?;
        let is_named = trace_id.is_some();
        let trace_id = trace_id.unwrap_or_else(|| self.call.request_id.to_string());
        let trace = Trace { id: span_name_of(WorkspaceId(Uuid::nil()), &trace_id, "").as_u128(), ..trace };
        let span = trace.span_id.as_ref().filter(|_| is_named);
        let span = span.map(|span| span_name_of(self.workspace.id, &trace_id, span));
        let asked: Bytes = Value::Object(request.body.clone()).to_string().into();
        let said: Bytes = Value::Object(response.body).to_string().into();
        let overheard = self.intake.overhear(dialect(&who.family, &url), &said);
        let model = model(&field("request.body.model"), request.body.get("model"), &overheard)?;
        let rules = self.intake.mask_rules(status).filter(|_| self.org.debug_log);
        let headers = |name: &str, given| shown_headers(&field(name), given, rules, &self.call.app.header_aliases);
        let sent = headers("request.headers", request.headers)?;
        let got = headers("response.headers", response.headers)?;
        let (request_bytes, response_bytes) = (asked.len() as u64, said.len() as u64);
        let bodies = rules.is_some().then(|| {
            let (method, url) = (method.to_owned(), url.clone());
            let request = RecordedMessage { method, url, status: 0, headers: sent, body: RecordedBody::of(&asked) };
            let response =
                RecordedMessage { status, headers: got, body: RecordedBody::of(&said), ..RecordedMessage::default() };
            Box::new(Bodies { request, response: Some(response), ..Bodies::default() })
        });
        let actor = &self.call.actor;
        let response_model = overheard.model.filter(|answered| *answered != model).map(Into::into);
        let priced = Unpriced {
            org: actor.org,
            workspace: self.workspace.id,
            virtual_key: who.slug.clone(),
            provider: who.family.clone(),
            model: model.clone(),
        };
        let record = LogRecord {
            trace_id: trace_id.as_str().into(),
            attempt: 1,
            last: true,
            org: actor.org,
            workspace: self.workspace.id,
            workspace_slug: (&*self.workspace.slug).into(),
            key: Some(actor.key),
            owner: actor.user,
            virtual_key: who.slug.into(),
            provider: who.family.into(),
            model: model.into(),
            operation: RecordedOperation::new(
                OWN_CALL,
                LlmDetail {
                    response_model,
                    usage: overheard.usage.map(|usage| usage.believable(request_bytes, response_bytes)),
                    card: own_card(self.snapshot, &priced, self.call.now),
                    ..LlmDetail::NONE
                },
            ),
            method: method.into(),
            path: url.into(),
            status,
            strategy: "single",
            timings: Timings { total_us, upstream_us: total_us, ..Timings::default() },
            request_bytes,
            response_bytes,
            client_ip: self.call.client,
            metadata: merged(metadata, self.snapshot, actor, self.workspace).into(),
            trace: Some(Arc::new(trace)),
            bodies,
            ..LogRecord::blank()
        };
        Ok(OwnRecord { span, record })
    }

    /// The provider that the client names, else the known one with the host of `url`.
    fn provider(&self, field: &str, named: Option<&str>, url: &str) -> Result<OwnProvider, Problem> {
        let Some(named) = named.filter(|named| !named.is_empty()) else {
            let host = host(url);
            let known = |base: Option<&str>| host.is_some() && base.and_then(host_of) == host;
            let found = self.call.app.catalog.providers().into_iter().find(|p| known(p.base_url));
            return Ok(OwnProvider {
                slug: String::new(),
                family: found.map_or_else(String::new, |p| p.slug.to_owned()),
            });
        };
        let Some(slug) = named.strip_prefix('@') else {
            bounded(field, named, LONGEST_NAME)?;
            return Ok(OwnProvider { slug: String::new(), family: named.to_owned() });
        };
        let managed = self.workspace.provider(slug).ok_or_else(|| bad(field, "names no provider of this workspace"))?;
        let family = self.snapshot.upstream(managed.integration).map_or("", |upstream| upstream.provider.slug);
        Ok(OwnProvider { slug: managed.slug.to_string(), family: family.to_owned() })
    }
}

struct OwnProvider {
    /// The slug of a provider of the workspace; empty where none of them is named.
    slug: String,
    family: String,
}

fn bounded(field: &str, text: &str, most: usize) -> Result<(), Problem> {
    if text.len() > most { Err(bad(field, format_args!("must be at most {most} bytes"))) } else { Ok(()) }
}

fn host_of(url: &str) -> Option<String> {
    url.parse::<Uri>().ok()?.host().map(str::to_ascii_lowercase)
}

fn host(url: &str) -> Option<String> {
    host_of(url.split('?').next().unwrap_or_default())
}

/// Checks the address of a call and masks what its query may hold of secrets.
fn url(field: &str, given: &str) -> Result<String, Problem> {
    const RULE: &str = "must be the address or the path that was called, without a user name";
    bounded(field, given, LONGEST_URL)?;
    let read = given.parse::<Uri>().map_err(|_| bad(field, RULE))?;
    let whole = matches!(read.scheme_str(), Some("http" | "https"));
    let named = read.authority().is_some_and(|authority| authority.as_str().contains('@'));
    if !(whole || read.scheme().is_none() && given.starts_with('/')) || named {
        return Err(bad(field, RULE));
    }
    let (path, query) = given.split_once('?').map_or((given, None), |(path, query)| (path, Some(query)));
    Ok(mask::url(path, query))
}

fn method(field: &str, given: Option<&str>) -> Result<&'static str, Problem> {
    let given = given.unwrap_or("POST").to_ascii_uppercase();
    let known = METHODS.iter().find(|method| **method == given);
    known.copied().ok_or_else(|| bad(field, format_args!("must be one of {}", METHODS.join(", "))))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
fn micros(field: &str, millis: Option<f64>) -> Result<u64, Problem> {
    let millis = millis.unwrap_or_default();
    if !(0.0..=LONGEST_MILLIS).contains(&millis) {
        return Err(bad(field, "must be a number of 0..86400000 (milliseconds)"));
    }
    Ok((millis * 1e3).round() as u64)
}

fn dialect(family: &str, url: &str) -> Dialect {
    let path = url.split('?').next().unwrap_or_default();
    if family == "anthropic" || path.ends_with("/messages") { Dialect::Anthropic } else { Dialect::OpenAi }
}

fn model(field: &str, asked: Option<&Value>, answer: &ToldUsage) -> Result<String, Problem> {
    let model = match asked {
        Some(Value::String(model)) => model.clone(),
        None | Some(Value::Null) => answer.model.clone().unwrap_or_default(),
        Some(_) => return Err(bad(field, "must be a string")),
    };
    bounded(field, &model, LONGEST_NAME)?;
    Ok(model)
}

/// What metadata says of the trace, and what else it says.
struct SpanNames {
    trace_id: Option<String>,
    trace: Trace,
    metadata: Map<String, Value>,
}

impl SpanNames {
    fn take(under: &str, mut given: Map<String, Value>) -> Result<Self, Problem> {
        let mut name = |names: [&str; 2]| -> Result<Option<String>, Problem> {
            let field = format!("{under}metadata.{}", names[0]);
            let [first, second] = names.map(|name| given.shift_remove(name));
            match first.filter(|value| !value.is_null()).or(second) {
                None | Some(Value::Null) => Ok(None),
                Some(Value::String(text)) if text.is_empty() => Ok(None),
                Some(Value::String(text)) => {
                    bounded(&field, &text, LONGEST_NAME)?;
                    Ok(Some(text))
                }
                Some(_) => Err(bad(field, "must be a string")),
            }
        };
        let trace_id = name(["trace_id", "traceId"])?;
        let [span_id, span_name, parent_span_id] =
            [name(["span_id", "spanId"])?, name(["span_name", "spanName"])?, name(["parent_span_id", "parentSpanId"])?];
        let text = |given: Option<String>| given.map(Arc::from);
        metadata::read(&given).map_err(|why| bad(format_args!("{under}metadata"), why.rule()))?;
        let trace = Trace {
            span_id: text(span_id),
            span_name: text(span_name),
            parent_span_id: text(parent_span_id),
            ..Trace::default()
        };
        Ok(Self { trace_id, trace, metadata: given })
    }
}

/// What the key and the workspace say beats what the request does, as on every call.
fn merged(mut given: Map<String, Value>, snapshot: &Snapshot, actor: &Actor, workspace: &WorkspaceEntry) -> String {
    let key = snapshot.key_by_id(actor.key).and_then(|key| key.defaults.clone());
    let of_key = key.iter().flat_map(|defaults| defaults.metadata.iter().map(|(k, v)| (k, v)));
    for (name, value) in of_key.chain(workspace.metadata.iter()) {
        given.insert(name.clone(), value.as_str().into());
    }
    Value::Object(given).to_string()
}

fn shown_headers(
    field: &str,
    given: Option<Map<String, Value>>,
    rules: Option<&mask::MaskRules>,
    aliases: &[String],
) -> Result<Vec<(String, String)>, Problem> {
    let given = given.unwrap_or_default();
    if given.len() > MOST_HEADERS {
        return Err(bad(field, format_args!("must hold at most {MOST_HEADERS} headers")));
    }
    let mut shown = Vec::new();
    for (name, value) in given {
        let Value::String(value) = value else { return Err(bad(field, "must be an object of strings")) };
        if name.len() + value.len() > LONGEST_HEADER {
            return Err(bad(field, format_args!("must hold headers of at most {LONGEST_HEADER} bytes")));
        }
        let name = name.to_ascii_lowercase();
        let own = aliases.iter().map(String::as_str).chain(["x-gateway-"]).find_map(|prefix| name.strip_prefix(prefix));
        if let Some(rules) = rules {
            let value = mask::header(&name, own, value.as_bytes(), rules, &[]);
            shown.push((name, value));
        }
    }
    Ok(shown)
}
