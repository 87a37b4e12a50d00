//! Files, batches and lists of fine-tuning jobs of a provider whose interface for them is not OpenAI's, by OpenAI's
//! routes: each call of a client is one or several of the provider's services, by the same sign-ins and checked
//! addresses as all calls. What is asked and told there is the family's to know; nothing falls back, as an object is in
//! one place.

mod batch_output;
mod batch_poll;
mod batch_usage;
mod batches;
mod family_files;
mod files;
mod job_list;
mod line_count;
mod lines;
mod list_page;
mod results;
mod service;
mod upload;
mod workspace_list;

use super::client::{SmallAnswer, answer_early, frame, send_head, send_piece};
use super::deliver::{self, decorate, own_head};
use super::exchange::{ApartCall, CallParts, LookedAt};
use super::objects::{self, Binder};
use super::own_objects::{self, OwnParts};
use super::record::{self, AttemptInfo, PendingRecords};
use super::request::Request;
use super::routing::Routing;
use super::target::{self, Aim};
use crate::upstream::http1::Response;
pub(crate) use batch_poll::look;
use batches::{DirectBatches, FoundBatch};
use bytes::Bytes;
use gateway_domain::path::decoded;
use gateway_domain::{Fault, FaultKind, Operation};
use gateway_providers::JobPages;
use gateway_providers::kept_files::{KeptFiles, kept_files};
use gateway_providers::native_batches::{NativeBatches, OPENAI_BATCHES, ToldBatches, native_batches};
use gateway_providers::stored_files::{BucketStore, bucket_store};
use http::{HeaderValue, header};
use pingora::http::ResponseHeader;
use pingora::proxy::Session;
use results::{BatchReader, ResultLines};
use serde_json::Value;
use service::Services;
use std::sync::Arc;

/// What is asked.
pub(crate) struct DirectCall {
    aim: Aim,
    verb: DirectVerb,
}

enum DirectVerb {
    File(FileHome, FileVerb),
    Batch(&'static dyn NativeBatches, BatchVerb),
    /// Fine-tuning jobs: a list may take several calls. All else of them is one call, and goes the way of all.
    JobList,
    /// A list in OpenAI's form of what one workspace has, where a credential is shared.
    OwnList(&'static str),
    /// What came of a batch, at families that speak OpenAI's interface: they have the file, and no route for it by its
    /// batch.
    PassedOutput(String),
}

/// What is asked of batches, by the id that the client holds.
enum BatchVerb {
    Create,
    List,
    Show(String),
    Cancel(String),
    /// The lines that were answered with a 2xx, or all others.
    Results(String, ResultFile),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResultFile {
    Output,
    Errors,
}

/// How the provider keeps files.
#[derive(Clone, Copy)]
enum FileHome {
    Bucket(&'static BucketStore),
    Family(&'static dyn KeptFiles),
}

/// What is asked of files, by the address or the id that the client holds.
enum FileVerb {
    Upload,
    List,
    Show(String),
    Content(String),
    Delete(String),
}

/// What it is answered with.
enum DirectAnswer<'a> {
    Json(Value),
    /// JSON that is written out already.
    Text(Bytes),
    /// The response as the provider sends it.
    Bytes(Box<Response>),
    /// What came of a batch.
    Lines(Box<ResultLines<'a>>),
}

/// Why nothing came of it.
#[derive(Debug)]
enum DirectStop {
    Refused(Fault),
    /// The provider's own word, as the client reads errors.
    Told(ProviderSaid),
}

#[derive(Debug)]
struct ProviderSaid {
    status: u16,
    body: Bytes,
}

impl From<Fault> for DirectStop {
    fn from(fault: Fault) -> Self {
        Self::Refused(fault)
    }
}

fn bad(field: &str, why: &str) -> Fault {
    Fault::new(FaultKind::BadBody, format!("{field} {why}")).on(field)
}

/// `None`: it goes the way of all calls.
pub(crate) fn asked(request: &Request, routing: &Routing) -> Option<DirectCall> {
    use Operation::{
        CancelBatch, CreateBatch, DeleteFile, GetBatchOutput, ListBatches, ListFiles, RetrieveBatch, RetrieveFile,
        RetrieveFileContent, UploadFile,
    };
    let route = &request.ask.route;
    let is_about_files =
        matches!(route.operation, UploadFile | ListFiles | RetrieveFile | RetrieveFileContent | DeleteFile);
    let is_about_batches =
        matches!(route.operation, CreateBatch | ListBatches | RetrieveBatch | CancelBatch | GetBatchOutput);
    let is_job_list = route.operation == Operation::ListFinetunes;
    let is_elsewhere = route.path.starts_with("/v1/proxy/") || request.caller.tenant.line.is_some();
    let list = objects::shown_list(request);
    if !(is_about_files || is_about_batches || is_job_list || list.is_some()) || is_elsewhere {
        return None;
    }
    // What leads nowhere is told by the exchange.
    let aim = target::resolve_place(routing.plan.leaf(), routing.inline, request).ok()?;
    let slug = aim.adapter.info().slug;
    if let Some(root) = list.filter(|root| objects::is_isolated(&aim) && !is_own_familys(slug, root)) {
        return Some(DirectCall { aim, verb: DirectVerb::OwnList(root) });
    }
    if is_job_list {
        return JobPages::are_of(slug).then_some(DirectCall { aim, verb: DirectVerb::JobList });
    }
    let id = || decoded(route.tail().split('/').nth(2).unwrap_or_default()).into_owned();
    if is_about_batches {
        let verb = match route.operation {
            CreateBatch => BatchVerb::Create,
            ListBatches => BatchVerb::List,
            RetrieveBatch => BatchVerb::Show(id()),
            CancelBatch => BatchVerb::Cancel(id()),
            _ => BatchVerb::Results(id(), ResultFile::Output),
        };
        let verb = match native_batches(slug) {
            Some(family) => DirectVerb::Batch(family, verb),
            None if route.operation == GetBatchOutput => DirectVerb::PassedOutput(id()),
            None => return None,
        };
        return Some(DirectCall { aim, verb });
    }
    if route.operation == RetrieveFileContent
        && let Some((batch, file)) = result_file(&id())
        && let Some(family) = native_batches(slug)
    {
        return Some(DirectCall { aim, verb: DirectVerb::Batch(family, BatchVerb::Results(batch, file)) });
    }
    let home = bucket_store(slug).map(FileHome::Bucket).or_else(|| kept_files(slug).map(FileHome::Family))?;
    let verb = match route.operation {
        UploadFile => FileVerb::Upload,
        ListFiles => FileVerb::List,
        RetrieveFile => FileVerb::Show(id()),
        RetrieveFileContent => FileVerb::Content(id()),
        _ => FileVerb::Delete(id()),
    };
    Some(DirectCall { aim, verb: DirectVerb::File(home, verb) })
}

/// Lists of this kind are not in OpenAI's form at this family, and are read in its own.
fn is_own_familys(slug: &str, root: &str) -> bool {
    match root {
        "/files" => bucket_store(slug).is_some() || kept_files(slug).is_some(),
        "/batches" => native_batches(slug).is_some(),
        "/fine_tuning/jobs" => JobPages::are_of(slug),
        _ => false,
    }
}

/// The batch whose results a file is.
fn result_file(id: &str) -> Option<(String, ResultFile)> {
    let (batch, name) = id.rsplit_once('.').filter(|(batch, _)| !batch.contains(['/', '.']))?;
    let file = match name {
        "output" => ResultFile::Output,
        "errors" => ResultFile::Errors,
        _ => return None,
    };
    Some((batch.to_owned(), file))
}

/// What of the gateway these calls need.
#[derive(Clone, Copy)]
pub(crate) struct DirectParts<'a> {
    pub(crate) calls: &'a CallParts,
    pub(crate) own: OwnParts<'a>,
}

/// Batches whose lines are to be counted, since they have ended.
pub(crate) struct EndedBatches {
    aim: Aim,
    family: &'static dyn ToldBatches,
    /// Calls go up as those of clients that pass as they are.
    relays: bool,
    found: Vec<FoundBatch>,
}

/// Which of those that an answer told of there is something to count of; whether they were made here is not asked yet.
pub(crate) fn ended(request: &Request, routing: &Routing, looked_at: LookedAt) -> Option<EndedBatches> {
    let LookedAt { family, told } = looked_at;
    let aim = target::resolve_place(routing.plan.leaf(), routing.inline, request).ok()?;
    let found = told.iter().filter_map(|told| FoundBatch::passed(family, told)).filter(FoundBatch::has_results);
    let found: Vec<FoundBatch> = found.collect();
    let relays = native_batches(aim.adapter.info().slug).is_none();
    (!found.is_empty()).then_some(EndedBatches { aim, family, relays, found })
}

/// Counts those of them that were made here, and were not counted. Nobody waits for it.
pub(crate) fn count_apart(
    calls: &Arc<CallParts>,
    (request, routing): (Box<Request>, Routing),
    ended: Option<EndedBatches>,
) {
    let Some(EndedBatches { aim, family, relays, found }) = ended else { return };
    let calls = calls.clone();
    calls.delivery.background.clone().spawn(async move {
        let asked = (&*request, &routing);
        let mut services = Services::new(&calls, asked, aim);
        services.relays = relays;
        let reader = BatchReader { calls: &calls, asked, services: &services, family };
        for found in found {
            if let Some(found) = reader.made_here(found).await {
                Box::pin(reader.count(found)).await;
            }
        }
    });
}

/// An answer with bound ids, once it is noted whose the objects are that it tells of.
async fn bound(binder: Option<&Binder>, body: Bytes) -> Bytes {
    let Some(binder) = binder else { return body };
    let body = binder.bound(&body);
    binder.done();
    binder.settled().await;
    body
}

impl DirectParts<'_> {
    /// `Ok(Err(…))`: limits refuse it, and nothing was done; what there is to count now, else.
    pub(crate) async fn serve(
        self,
        session: &mut Session,
        (request, routing): (&Request, &Routing),
        call: DirectCall,
        records: &mut PendingRecords,
    ) -> pingora::Result<Result<Option<EndedBatches>, Fault>> {
        let asked = (request, routing);
        let admitted = match ApartCall::admit(self.calls, asked, &call.aim).await {
            Ok(admitted) => admitted,
            Err(fault) => return Ok(Err(fault)),
        };
        let mut services = Services::new(self.calls, asked, call.aim);
        services.relays = matches!(call.verb, DirectVerb::PassedOutput(_) | DirectVerb::OwnList(_));
        let makes = matches!(call.verb, DirectVerb::Batch(_, BatchVerb::Create));
        let client = makes.then(|| session.req_header().headers.clone());
        let batches = match &call.verb {
            DirectVerb::Batch(family, _) => {
                let (calls, client) = (self.calls, client.as_ref());
                Some(DirectBatches { calls, asked, services: &services, family: *family, client })
            }
            DirectVerb::File(..) | DirectVerb::JobList | DirectVerb::OwnList(_) | DirectVerb::PassedOutput(_) => None,
        };
        let noting = (&self.calls.ids, &self.calls.kept_objects);
        let binds = routing.binds.then(|| Binder::new(noting, services.aim(), request));
        let (mut ended, mut listed) = (None, Vec::new());
        let done = match (call.verb, &batches) {
            (DirectVerb::File(home, verb), _) => self.file(session, (asked, &services), (home, verb)).await,
            (DirectVerb::Batch(_, verb), Some(batches)) => batches.answer(verb, &mut ended).await,
            (DirectVerb::PassedOutput(id), _) => batch_output::opened(&services, &id, &mut ended).await,
            (DirectVerb::OwnList(root), _) => {
                let list = workspace_list::listed(&services, root, binds.as_deref()).await;
                listed = list.as_deref().map(workspace_list::ended).unwrap_or_default();
                list.map(DirectAnswer::Text)
            }
            (DirectVerb::JobList, _) => job_list::listed(&services).await.map(DirectAnswer::Json),
            (DirectVerb::Batch(..), None) => Err(own_objects::unknown().into()),
        };
        let (status, fault) = match &done {
            Ok(_) => (200, None),
            Err(DirectStop::Refused(fault)) => (fault.status(), Some(fault.kind().row().label)),
            Err(DirectStop::Told(said)) => (said.status, Some("upstream_error")),
        };
        let info = admitted.info();
        let (sent, bytes) = match done {
            Ok(DirectAnswer::Json(json)) => {
                let body = bound(binds.as_deref(), json.to_string().into()).await;
                self.say(session, (request, info), (200, body)).await
            }
            Ok(DirectAnswer::Text(text)) => {
                let body = bound(binds.as_deref(), text).await;
                self.say(session, (request, info), (200, body)).await
            }
            Ok(DirectAnswer::Bytes(response)) => self.pass(session, (request, info), *response).await,
            Ok(DirectAnswer::Lines(lines)) => self.pass_lines(session, (request, info), *lines).await,
            Err(DirectStop::Told(said)) => self.say(session, (request, info), (said.status, said.body)).await,
            Err(DirectStop::Refused(fault)) => {
                let answer = deliver::refusal(self.own.names, &fault, request.ask.route.dialect, Some(request));
                let bytes = answer.body.len() as u64;
                (answer_early(session, answer).await, bytes)
            }
        };
        let mut record = admitted.ended(asked, (status, fault), services.waited());
        record.request_bytes = session.downstream_session.body_bytes_read() as u64;
        record.response_bytes = if sent.is_ok() { bytes } else { 0 };
        record::finish(&mut record, request);
        records.push(record);
        let found: Vec<FoundBatch> = ended.into_iter().chain(listed).collect();
        let ended = (!found.is_empty()).then(|| {
            let told: &'static dyn ToldBatches = OPENAI_BATCHES;
            let (aim, family) = (services.aim().clone(), batches.map_or(told, |batches| batches.family));
            EndedBatches { aim, family, relays: services.relays, found }
        });
        sent.map(|()| Ok(ended))
    }

    fn head_of_direct(
        self,
        (request, info): (&Request, &AttemptInfo),
        (status, media): (u16, &HeaderValue),
    ) -> pingora::Result<Box<ResponseHeader>> {
        let mut head = own_head(self.own.names, status, request);
        head.insert_header(header::CONTENT_TYPE, media)?;
        decorate(self.own.names, &mut head, request, info);
        Ok(head)
    }

    /// JSON, whole; how it went, and how many bytes it has.
    async fn say(
        self,
        session: &mut Session,
        told: (&Request, &AttemptInfo),
        (status, body): (u16, Bytes),
    ) -> (pingora::Result<()>, u64) {
        let bytes = body.len() as u64;
        match self.head_of_direct(told, (status, &HeaderValue::from_static("application/json"))) {
            Ok(head) => (answer_early(session, SmallAnswer { head, body }).await, bytes),
            Err(e) => (Err(e), 0),
        }
    }

    /// A file as the provider sends it, piece by piece.
    async fn pass(
        self,
        session: &mut Session,
        told: (&Request, &AttemptInfo),
        response: Response,
    ) -> (pingora::Result<()>, u64) {
        let mut bytes = 0;
        let sent = self.pass_pieces(session, told, response, &mut bytes).await;
        (sent, bytes)
    }

    async fn pass_pieces(
        self,
        session: &mut Session,
        told: (&Request, &AttemptInfo),
        mut response: Response,
        bytes: &mut u64,
    ) -> pingora::Result<()> {
        let theirs = response.head().headers();
        let media = theirs.get(header::CONTENT_TYPE).cloned();
        let media = media.unwrap_or(HeaderValue::from_static("application/octet-stream"));
        let length = theirs.get(header::CONTENT_LENGTH).cloned();
        let mut head = self.head_of_direct(told, (200, &media))?;
        if let Some(length) = length {
            head.insert_header(header::CONTENT_LENGTH, length)?;
        }
        session.downstream_session.set_write_timeout(Some(self.own.settings.idle_timeout));
        if !head.headers.contains_key(header::CONTENT_LENGTH) {
            frame(&session.downstream_session, &mut head);
        }
        send_head(session, head, None, false).await?;
        let broken = |why: String| pingora::Error::explain(pingora::ErrorType::InternalError, why);
        while let Some(piece) = response.read().await.map_err(|e| broken(e.to_string()))? {
            *bytes += piece.len() as u64;
            send_piece(session, Some(piece), false).await?;
        }
        let end = send_piece(session, None, true).await;
        response.release(self.own.settings.upstream_pool_size);
        end
    }

    /// What came of a batch, some lines at a time.
    async fn pass_lines(
        self,
        session: &mut Session,
        told: (&Request, &AttemptInfo),
        mut lines: ResultLines<'_>,
    ) -> (pingora::Result<()>, u64) {
        let mut bytes = 0;
        let sent = async {
            let mut head = self.head_of_direct(told, (200, &HeaderValue::from_static("application/jsonl")))?;
            session.downstream_session.set_write_timeout(Some(self.own.settings.idle_timeout));
            frame(&session.downstream_session, &mut head);
            send_head(session, head, None, false).await?;
            let broken = |_| pingora::Error::explain(pingora::ErrorType::InternalError, "results broke off");
            while let Some(piece) = lines.piece().await.map_err(broken)? {
                bytes += piece.len() as u64;
                send_piece(session, Some(piece), false).await?;
            }
            send_piece(session, None, true).await
        };
        let sent = sent.await;
        (sent, bytes)
    }

    async fn file(
        self,
        session: &mut Session,
        (asked, services): ((&Request, &Routing), &Services<'_>),
        (home, verb): (FileHome, FileVerb),
    ) -> Result<DirectAnswer<'static>, DirectStop> {
        let store = match home {
            FileHome::Bucket(store) => store,
            FileHome::Family(family) => return self.family_file(session, (asked, services), (family, verb)).await,
        };
        let files = files::Files::of(services, store, asked.1.binds)?;
        match verb {
            FileVerb::Upload => {
                let file = own_objects::receive_passing(self.own, session, asked.0).await?;
                upload::store(self, asked, &files, file).await.map(DirectAnswer::Json)
            }
            FileVerb::List => files.list().await.map(DirectAnswer::Json),
            FileVerb::Show(id) => files.show(&id).await.map(DirectAnswer::Json),
            FileVerb::Content(id) => files.content(&id).await.map(|file| DirectAnswer::Bytes(Box::new(file))),
            FileVerb::Delete(id) => files.delete(&id).await.map(DirectAnswer::Json),
        }
    }

    async fn family_file(
        self,
        session: &mut Session,
        (asked, services): ((&Request, &Routing), &Services<'_>),
        (family, verb): (&'static dyn KeptFiles, FileVerb),
    ) -> Result<DirectAnswer<'static>, DirectStop> {
        let files = family_files::FamilyFiles::of(services, family)?;
        match verb {
            FileVerb::Upload => {
                let file = own_objects::receive_passing(self.own, session, asked.0).await?;
                upload::keep(self, asked, &files, file).await.map(DirectAnswer::Json)
            }
            FileVerb::List => files.list().await.map(DirectAnswer::Json),
            FileVerb::Show(id) => files.show(&id).await.map(DirectAnswer::Json),
            FileVerb::Content(id) => files.content(&id).await.map(|file| DirectAnswer::Bytes(Box::new(file))),
            FileVerb::Delete(id) => files.delete(&id).await.map(DirectAnswer::Json),
        }
    }
}
