//! A provider's own batches by OpenAI's routes: made of a file that lies there, listed, looked at and cancelled. What a
//! provider does not tell again is noted when the batch is made; what the gateway made for another workspace is
//! unknown.

use super::line_count::counted;
use super::lines::{line_request, route_of, stand_in};
use super::results::BatchReader;
use super::service::{ServiceCall, Services};
use super::{DirectStop, bad, objects, own_objects};
use crate::bookings::{BookingId, NativeMade};
use crate::clock;
use crate::proxy::exchange::{CallParts, LineTarget};
use crate::proxy::request::{LineMark, Request};
use crate::proxy::routing::Routing;
use crate::proxy::watch_row::MadeBatch;
use gateway_domain::path::decoded;
use gateway_domain::{Fault, FaultKind, Operation};
use gateway_providers::kept_files::{FileOwner, kept_files, owner};
use gateway_providers::native_batches::direct::{BatchFacts, facts, list, listed, native_id, public_id};
use gateway_providers::native_batches::{
    BatchPlace, NativeBatches, NativeStanding, NativeState, NewBatchAsk, ToldBatches,
};
use gateway_providers::stored_files::bucket_store;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Pages of a provider's list that are followed for one of a client's.
const MOST_PAGES: usize = 10;
/// A batch whose lines the provider has not all taken up by then has no more of them than those.
const TAKEN_UP_SECS: i64 = 86_400;
/// The shorter bound for a batch of which nobody knows how many lines it has.
const UNKNOWN_TAKEN_UP_SECS: i64 = 600;
/// What the gateway makes in a bucket lies below these.
const OWN_FOLDERS: [&str; 2] = ["/gateway-batches/", "/gateway-files/"];

pub(super) struct DirectBatches<'a> {
    pub(super) calls: &'a CallParts,
    pub(super) asked: (&'a Request, &'a Routing),
    pub(super) services: &'a Services<'a>,
    pub(super) family: &'static dyn NativeBatches,
    /// Headers of a client that makes one.
    pub(super) client: Option<&'a HeaderMap>,
}

/// One as the provider tells it now.
#[derive(Clone)]
pub(super) struct FoundBatch {
    pub(super) standing: NativeStanding,
    pub(super) facts: BatchFacts,
    pub(super) made: Option<NativeMade>,
    /// Files of results that the provider made itself.
    files: [Option<String>; 2],
}

#[derive(Deserialize)]
struct DirectBatchAsked {
    input_file_id: String,
    endpoint: String,
    completion_window: String,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    provider_options: Map<String, Value>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl FoundBatch {
    /// One that passed as the provider tells it; `None`: it tells of none.
    pub(super) fn passed(family: &dyn ToldBatches, told: &Value) -> Option<Self> {
        let standing = family.standing(told.to_string().as_bytes())?;
        let facts = facts(told);
        Some(Self { standing, facts, made: None, files: [None, None] })
    }

    pub(super) fn made_with(self, made: NativeMade) -> Self {
        Self { made: Some(made), ..self }
    }

    /// What its lines ask.
    pub(super) fn endpoint(&self) -> &str {
        let made = self.made.as_ref().map(|made| made.endpoint.as_str()).filter(|endpoint| !endpoint.is_empty());
        made.or(self.facts.endpoint.as_deref()).unwrap_or("/v1/chat/completions")
    }

    pub(super) fn model(&self) -> Option<&str> {
        self.made.as_ref().and_then(|made| made.model.as_deref()).or(self.facts.model.as_deref())
    }

    /// It came by here, as only such ones are counted, and there is something to count.
    pub(super) fn is_to_be_counted(&self) -> bool {
        self.made.is_some() && self.has_results()
    }

    /// Whether there is something to read.
    pub(super) fn has_results(&self) -> bool {
        let there = !self.standing.results.is_empty() || !self.standing.told.is_empty();
        self.standing.state.has_ended() && self.standing.state != NativeState::Failed && there
    }

    /// Whether it reads or writes what the gateway keeps there, for whomever but this workspace.
    fn is_of_another(&self, workspace: &str) -> bool {
        let places = [&self.facts.input, &self.facts.output].into_iter().flatten();
        let is_ours = |uri: &str| OWN_FOLDERS.iter().any(|folder| uri.contains(folder));
        places.into_iter().any(|uri| is_ours(uri) || owner(uri, workspace) == FileOwner::Other)
    }
}

impl<'a> DirectBatches<'a> {
    pub(super) fn reader(&self) -> BatchReader<'a> {
        BatchReader { calls: self.calls, asked: self.asked, services: self.services, family: self.family }
    }

    fn slug(&self) -> &'static str {
        self.services.slug()
    }

    fn workspace(&self) -> String {
        self.asked.0.caller.tenant.workspace.id.0.simple().to_string()
    }

    fn place(&self) -> BatchPlace {
        BatchPlace::of(&self.services.aim().settings)
    }

    fn keeper(&self) -> Vec<u8> {
        objects::keeper_of(self.services.aim(), self.asked.0)
    }

    pub(super) async fn create(&self) -> Result<Value, DirectStop> {
        let (slug, request) = (self.slug(), self.asked.0);
        let new = read_new(&request.ask.content.bytes, self.family)?;
        let known = route_of(&new.endpoint).filter(|route| self.family.serves_of_file(route.operation));
        let route = known.ok_or_else(|| bad("endpoint", &format!("must be one that {slug} runs batches of")))?;
        let (input, options) = (self.input(&new.input_file_id)?, options(&new));
        let model = match new.rest.get("model").map(|model| (model, model.as_str())) {
            Some((_, Some(model))) => Some(model.to_owned()),
            Some((_, None)) => return Err(bad("model", "must be a text").into()),
            None if self.family.has_one_model() => {
                return Err(
                    bad("model", &format!("is missing: a batch of {slug} names the one model of its lines")).into()
                );
            }
            None => None,
        };
        // The model is found like that of a line: the config leads it, and the caller must be allowed to ask for it.
        let body = stand_in(route.operation, model.as_deref());
        let mark = LineMark { trace: &request.caller.trace, metadata: &[] };
        let line = line_request(request, &route, (body, mark)).await?;
        let model = LineTarget::of(&line, self.asked.1)?.model().map(str::to_owned);
        let own_id = format!("gw_direct_{}", crate::ids::next(clock::now()).simple());
        let place = self.place();
        let ask = NewBatchAsk {
            own_id: &own_id,
            operation: route.operation,
            model: model.as_deref(),
            options: &options,
            file: Some(&input),
            place: &place,
        };
        let creation = self.family.creation_of_file(&ask);
        if let Some(what) = self.family.lacks(&ask) {
            return Err(Fault::new(FaultKind::Refused, format!("Batches of {slug} need {what}")).into());
        }
        let Some(creation) = creation.and_then(ServiceCall::of_batch) else {
            let why = format!(
                "Batches of {slug} are made of no file of its own: upload the lines to the gateway \
                 (x-gateway-provider: gateway) and make the batch with completion_window 24h of that file"
            );
            return Err(Fault::new(FaultKind::Refused, why).on("input_file_id").into());
        };
        let lines = self.lines_of(&input).await;
        let told = self.services.fetch(creation, self.family.most_told()).await?;
        let standing = self.family.standing(&told).filter(|made| !made.id.is_empty());
        let untold = || Fault::new(FaultKind::UpstreamBroken, format!("{slug} made a batch and told no id"));
        let standing = standing.ok_or_else(untold)?;
        let metadata = new.metadata.map_or(Value::Null, Value::Object);
        let created = clock::now().secs();
        let made = NativeMade { endpoint: new.endpoint, input, model, metadata, created, lines };
        let (keeper, owner) = (self.keeper(), own_objects::owner(request));
        let noting = self.calls.bookings.note_made(owner, (&keeper, &standing.id), &made);
        noting.await.map_err(|e| own_objects::fault(e.into()))?;
        if let Some(client) = self.client {
            let client = (client, &*self.calls.delivery.settings.header_alias);
            let (id, native) = (BookingId::of_batch(&keeper, &standing.id), &*standing.id);
            MadeBatch { asked: self.asked, client, id, native }.watch(&self.calls.watches).await;
        }
        let found = FoundBatch { standing, facts: BatchFacts::default(), made: Some(made), files: [None, None] };
        Ok(self.shown(&found))
    }

    /// How many lines the file has; `None`: that does not matter, or cannot be said.
    async fn lines_of(&self, file: &str) -> Option<u64> {
        let call = self.family.file_content(file).and_then(ServiceCall::of_batch)?;
        let lines = match self.services.open(call).await {
            Ok(response) => counted(response).await,
            Err(stop) => Err(format!("{stop:?}")),
        };
        let warn = |why| tracing::warn!(file, why, "the lines of a file that a batch is made of could not be counted");
        lines.map_err(warn).ok()
    }

    /// Whether one that has nothing left to do has no lines to come either.
    fn is_taken_up(&self, told: &[u8], made: &NativeMade) -> bool {
        let (lines, within) = match made.lines {
            Some(lines) => (lines, TAKEN_UP_SECS),
            None => (u64::MAX, UNKNOWN_TAKEN_UP_SECS),
        };
        self.family.holds(told, lines) || clock::now().secs() > made.created.saturating_add(within)
    }

    /// The file as the provider knows it.
    fn input(&self, id: &str) -> Result<String, Fault> {
        let Some(store) = bucket_store(self.slug()) else {
            let is_other = kept_files(self.slug()).is_some() && owner(id, &self.workspace()) == FileOwner::Other;
            return if is_other { Err(own_objects::unknown().on("input_file_id")) } else { Ok(id.to_owned()) };
        };
        let files = super::files::Files::of(self.services, store, false)?;
        // A bound id was opened to the address itself.
        let uri = if id.contains("://") { id.into() } else { decoded(id) };
        files.find(&uri).map(|file| store.uri(&file)).map_err(|fault| fault.on("input_file_id"))
    }

    pub(super) async fn find(&self, id: &str) -> Result<FoundBatch, DirectStop> {
        let native = native_id(self.slug(), &self.place(), id).ok_or_else(own_objects::unknown)?;
        self.find_native(&native).await
    }

    /// Finds a batch by the name that the provider told when it was made.
    pub(super) async fn find_native(&self, native: &str) -> Result<FoundBatch, DirectStop> {
        let call = ServiceCall::of_batch(self.family.look(native)).ok_or_else(own_objects::unknown)?;
        let told = match self.services.fetch(call, self.family.most_told()).await {
            Err(DirectStop::Told(said)) if said.status == 404 => return Err(own_objects::unknown().into()),
            told => told?,
        };
        let found = self.read(&told).await?;
        Ok(found.ok_or_else(own_objects::unknown)?)
    }

    /// `None`: it tells of none, or of one that is another workspace's.
    async fn read(&self, told: &[u8]) -> Result<Option<FoundBatch>, Fault> {
        let Some(mut standing) = self.family.standing_at(told, clock::now().secs()) else { return Ok(None) };
        let (keeper, owner) = (self.keeper(), own_objects::owner(self.asked.0));
        let made = self.calls.bookings.made(owner, (&keeper, &standing.id)).await;
        let made = made.map_err(|e| own_objects::fault(e.into()))?;
        let is_whole = made.as_ref().is_none_or(|made| self.is_taken_up(told, made));
        if standing.state == NativeState::Completed && !is_whole {
            (standing.state, standing.results) = (NativeState::InProgress, Vec::new());
        }
        let told: Value = serde_json::from_slice(told).unwrap_or_default();
        let files = ["output_file", "error_file"].map(|name| told[name].as_str().map(str::to_owned));
        let found = FoundBatch { standing, facts: facts(&told), made, files };
        Ok((found.made.is_some() || !found.is_of_another(&self.workspace())).then_some(found))
    }

    pub(super) async fn cancel(&self, id: &str) -> Result<Value, DirectStop> {
        let found = self.find(id).await?;
        if !found.standing.state.has_ended() {
            let call =
                ServiceCall::of_batch(self.family.cancel(&found.standing.id)).ok_or_else(own_objects::unknown)?;
            self.services.fetch(call, self.family.most_told()).await?;
        }
        match self.find(id).await {
            Err(DirectStop::Refused(fault)) if fault.status() == 404 && self.family.forgets_cancelled() => {
                let standing = NativeStanding { state: NativeState::Cancelled, results: Vec::new(), ..found.standing };
                Ok(self.shown(&FoundBatch { standing, ..found }))
            }
            found => Ok(self.shown(&found?)),
        }
    }

    pub(super) async fn list(&self) -> Result<Value, DirectStop> {
        let (after, most) = list_part(self.asked.0)?;
        let (slug, place) = (self.slug(), self.place());
        let (mut data, mut page, mut is_past, mut has_more) = (Vec::new(), None, after.is_none(), false);
        for number in 0..MOST_PAGES {
            let call = list(slug, &place, page.as_deref()).and_then(ServiceCall::of_batch);
            let Some(call) = call else {
                let why = format!("Lists of {slug} need the settings that say where its batches are");
                return Err(Fault::new(FaultKind::Refused, why).into());
            };
            let body = self.services.fetch(call, self.family.most_told().max(8 << 20)).await?;
            let (batches, next) = listed(slug, &body, number).unwrap_or_default();
            for batch in self.own(batches).await? {
                let Some(found) = self.read(batch.to_string().as_bytes()).await? else { continue };
                let is_first = !std::mem::replace(&mut is_past, true);
                if is_first {
                    is_past = after.as_deref() == Some(public_id(&found.standing.id));
                } else if data.len() < most {
                    data.push(self.shown(&found));
                } else {
                    has_more = true;
                }
            }
            page = next;
            if page.is_none() || has_more {
                break;
            }
        }
        let end = |item: Option<&Value>| item.map_or(Value::Null, |item| item["id"].clone());
        let (first, last, has_more) = (end(data.first()), end(data.last()), has_more || page.is_some());
        Ok(json!({ "object": "list", "data": data, "first_id": first, "last_id": last, "has_more": has_more }))
    }

    /// Those that the workspace made, where others share its credential and are not to see them.
    async fn own(&self, mut batches: Vec<Value>) -> Result<Vec<Value>, Fault> {
        let id = |batch: &Value| {
            let standing = self.family.standing(batch.to_string().as_bytes());
            standing.map(|standing| public_id(&standing.id).to_owned()).unwrap_or_default()
        };
        let ids: Vec<String> = batches.iter().map(id).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        if let Some(own) = self.services.own_among(&ids).await? {
            let mut is_own = ids.iter().map(|id| own.contains(*id));
            batches.retain(|_| is_own.next() == Some(true));
        }
        Ok(batches)
    }

    /// The batch in OpenAI's form.
    pub(super) fn shown(&self, found: &FoundBatch) -> Value {
        let FoundBatch { standing, facts, made, files } = found;
        let id = public_id(&standing.id);
        let input = made.as_ref().map(|made| made.input.clone()).filter(|input| !input.is_empty());
        let input = input.or_else(|| facts.input.clone());
        let input = match (bucket_store(self.slug()), self.asked.1.binds) {
            // The client holds the address of a file in a bucket as an id.
            (Some(store), false) => input.map(|uri| store.held(&uri)),
            _ => input,
        };
        let results = |name: &str| found.has_results().then(|| format!("{id}.{name}"));
        let is_theirs = self.slug() == "mistral-ai";
        let [good, bad] = if is_theirs { files.clone() } else { [results("output"), results("errors")] };
        let ended = |state: NativeState| facts.ended.filter(|_| standing.state == state);
        let over = || facts.expires.filter(|_| standing.state == NativeState::Expired);
        let told = standing.problems.iter().filter(|_| standing.state == NativeState::Failed);
        let errors: Vec<Value> =
            told.map(|why| json!({ "code": "provider_failed", "message": why, "param": null, "line": null })).collect();
        let errors = (!errors.is_empty()).then(|| json!({ "object": "list", "data": errors }));
        let [total, completed, failed] = facts.counts;
        json!({
            "id": id, "object": "batch", "endpoint": found.endpoint(), "model": found.model(), "errors": errors,
            "input_file_id": input, "completion_window": "24h", "status": name(standing.state),
            "output_file_id": good, "error_file_id": bad,
            "expires_at": facts.expires, "created_at": made.as_ref().map(|made| made.created).or(facts.created),
            "completed_at": ended(NativeState::Completed), "failed_at": ended(NativeState::Failed),
            "expired_at": ended(NativeState::Expired).or_else(over), "cancelled_at": ended(NativeState::Cancelled),
            "request_counts": { "total": total, "completed": completed, "failed": failed },
            "metadata": made.as_ref().map(|made| made.metadata.clone()),
        })
    }
}

const fn name(state: NativeState) -> &'static str {
    match state {
        NativeState::Validating => "validating",
        NativeState::InProgress => "in_progress",
        NativeState::Finalizing => "finalizing",
        NativeState::Completed => "completed",
        NativeState::Failed => "failed",
        NativeState::Expired => "expired",
        NativeState::Cancelling => "cancelling",
        NativeState::Cancelled => "cancelled",
    }
}

fn read_new(body: &[u8], family: &dyn NativeBatches) -> Result<DirectBatchAsked, Fault> {
    let body = &mut serde_json::Deserializer::from_slice(body);
    let new: DirectBatchAsked = serde_path_to_error::deserialize(body).map_err(|e| {
        let path = e.path().to_string();
        Fault::new(FaultKind::BadBody, format!("The batch cannot be read at {path}: {}", e.inner())).on(path)
    })?;
    if new.completion_window != "24h" {
        return Err(bad("completion_window", "must be 24h for a batch of the provider's own"));
    }
    let known = |name: &str| name == "model" || family.options().contains(&name);
    if let Some(name) = new.rest.keys().find(|name| !known(name)) {
        return Err(bad(name, "is not known to batches of this provider"));
    }
    if let Some(name) = new.provider_options.keys().find(|name| !family.options().contains(&name.as_str())) {
        return Err(bad(&format!("provider_options.{name}"), "is not known to batches of this provider"));
    }
    let fits = |(name, value): (&String, &Value)| {
        name.chars().count() <= 64 && value.as_str().is_some_and(|value| value.chars().count() <= 512)
    };
    if new.metadata.as_ref().is_some_and(|pairs| pairs.len() > 16 || !pairs.iter().all(fits)) {
        return Err(bad("metadata", "must have at most 16 pairs, of at most 64 and 512 characters"));
    }
    Ok(new)
}

/// What is said to the provider besides, wherever it stands.
fn options(new: &DirectBatchAsked) -> Map<String, Value> {
    let own = new.rest.iter().filter(|(name, _)| *name != "model");
    own.chain(&new.provider_options).map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn list_part(request: &Request) -> Result<(Option<String>, usize), Fault> {
    debug_assert!(request.ask.route.operation == Operation::ListBatches, "a list");
    let (mut after, mut most) = (None, 20);
    let query = request.ask.route.query.as_deref().unwrap_or_default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "limit" => match value.parse::<usize>() {
                Ok(number @ 1..=100) => most = number,
                _ => return Err(bad("limit", "must be a number of 1..100")),
            },
            "after" => after = Some(decoded(value).into_owned()),
            other => return Err(bad(other, "is not known here")),
        }
    }
    Ok((after, most))
}
