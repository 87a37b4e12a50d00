//! Calls about files and batches that the gateway keeps itself: those whose id says so, that ask for the provider
//! `gateway`, or that name no provider at all. All others go to providers. Runs nothing.

mod batch_creation;
mod form;

pub(crate) use batch_creation::{apply_options, create, input_of};
pub(crate) use form::{PassingFile, receive_passing};

use super::client::{SmallAnswer, answer_early, send_head, send_piece};
use super::deliver::{ReplyNames, json_answer, own_head};
use super::headers::SELF;
use super::record::{self, PendingRecords};
use super::request::Request;
use super::settings::ProxySettings;
use crate::batches::{self, FileDocument, KeepError, ObjectOwner, PinnedConfig, SharedBatches};
use bytes::Bytes;
use gateway_domain::{Fault, FaultKind, Operation};
use http::{HeaderValue, header};
use pingora::proxy::Session;
use serde_json::{Value, json};
use uuid::Uuid;

const MOST_LISTED: u32 = 999;
/// So long that SDKs do not ask again by themselves.
const MANY_WAIT_MS: u64 = 61_000;

/// What of the gateway these calls need.
#[derive(Clone, Copy)]
pub(crate) struct OwnParts<'a> {
    pub(crate) batches: &'a SharedBatches,
    pub(crate) names: &'a ReplyNames,
    pub(crate) settings: &'a ProxySettings,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptCall {
    UploadFile,
    ListFiles,
    File(Uuid),
    FileContent(Uuid),
    DeleteFile(Uuid),
    ListBatches,
    Batch(Uuid),
    CancelBatch(Uuid),
    BatchOutput(Uuid),
    /// An id that no object of ours has.
    Unknown,
}

/// What it is answered with.
pub(crate) enum KeptAnswer {
    Json(Value),
    File(KeptFile),
}

/// One that can be read: its first piece is here before anything is said of it.
pub(crate) struct KeptFile {
    id: Uuid,
    document: FileDocument,
    first: Bytes,
}

/// `None`: it is for a provider.
pub(crate) fn asked(request: &Request) -> Option<KeptCall> {
    use Operation::{
        CancelBatch, DeleteFile, GetBatchOutput, ListBatches, ListFiles, RetrieveBatch, RetrieveFile,
        RetrieveFileContent, UploadFile,
    };
    let route = &request.ask.route;
    let kind = match route.operation {
        UploadFile | ListFiles | RetrieveFile | DeleteFile | RetrieveFileContent => "file",
        ListBatches | RetrieveBatch | CancelBatch | GetBatchOutput => "batch",
        _ => return None,
    };
    if route.path.starts_with("/v1/proxy/") {
        return None;
    }
    let here = match route.operation {
        UploadFile => Some(KeptCall::UploadFile),
        ListFiles => Some(KeptCall::ListFiles),
        ListBatches => Some(KeptCall::ListBatches),
        _ => None,
    };
    if let Some(call) = here {
        return (is_named(request) || names_nobody(request)).then_some(call);
    }
    let name = route.tail().split('/').nth(2).unwrap_or_default();
    let Some(id) = batches::read_id(kind, name) else {
        return is_named(request).then_some(KeptCall::Unknown);
    };
    Some(match route.operation {
        RetrieveFile => KeptCall::File(id),
        DeleteFile => KeptCall::DeleteFile(id),
        RetrieveFileContent => KeptCall::FileContent(id),
        CancelBatch => KeptCall::CancelBatch(id),
        GetBatchOutput => KeptCall::BatchOutput(id),
        _ => KeptCall::Batch(id),
    })
}

/// The gateway itself is asked by name.
pub(crate) fn is_named(request: &Request) -> bool {
    request.ask.headers.provider.as_deref() == Some(SELF)
}

/// No provider is named, by header, key or workspace.
fn names_nobody(request: &Request) -> bool {
    let (headers, tenant) = (&request.ask.headers, &request.caller.tenant);
    let default = tenant.key.defaults.as_deref().is_some_and(|defaults| defaults.config.is_some());
    let led = tenant.line.as_ref().is_some_and(|line| matches!(line.config, PinnedConfig::Saved(_)));
    let named = led || headers.config.is_some() || headers.provider.is_some() || headers.virtual_key.is_some();
    !named && !default && tenant.workspace.default_config().is_none()
}

pub(crate) fn owner(request: &Request) -> ObjectOwner {
    let tenant = &request.caller.tenant;
    ObjectOwner { org: tenant.org.id, workspace: tenant.workspace.id }
}

pub(crate) fn unknown() -> Fault {
    Fault::new(FaultKind::UnknownObject, "No object with this id is known")
}

/// What the keeper says, to a client.
pub(crate) fn fault(error: KeepError) -> Fault {
    match error {
        KeepError::Unknown => unknown(),
        KeepError::Full(which) => {
            let why = format!("Nothing more is kept: {which}. Delete what is no longer needed");
            Fault::new(FaultKind::BadBody, why).code("storage_full")
        }
        KeepError::NoConfig => Fault::new(FaultKind::BadConfig, "The config was deleted a moment ago"),
        KeepError::Busy => {
            let why = "The organisation has as many batches under way as it may: make another when one has ended";
            Fault::new(FaultKind::RateLimited, why).retry_after_ms(MANY_WAIT_MS)
        }
        KeepError::Store(why) => {
            tracing::warn!(error = why, "files and batches cannot be reached");
            Fault::new(FaultKind::Busy, "Files and batches cannot be reached for the moment").retry_after_ms(2_000)
        }
    }
}

pub(crate) async fn answer(
    own: OwnParts<'_>,
    session: &mut Session,
    request: &Request,
    call: KeptCall,
) -> Result<KeptAnswer, Fault> {
    let (shared, owner) = (own.batches.clone(), owner(request));
    let workspace = owner.workspace;
    let apart = own.batches.clone();
    let json = match call {
        KeptCall::Unknown => return Err(unknown()),
        KeptCall::UploadFile => Box::pin(form::upload(own, session, request)).await?,
        KeptCall::File(id) => shown_file(&shared, request, id).await?.shown(id),
        KeptCall::FileContent(id) => return opened(&shared, request, id).await,
        KeptCall::DeleteFile(id) => {
            apart.apart(async move { shared.remove_file(owner, id).await }).await.map_err(fault)?;
            json!({ "id": batches::file_id(id), "object": "file", "deleted": true })
        }
        KeptCall::Batch(id) => {
            apart.apart(async move { shared.batch(workspace, id).await }).await.map_err(fault)?.shown(id)
        }
        KeptCall::CancelBatch(id) => {
            apart.apart(async move { shared.cancel(workspace, id).await }).await.map_err(fault)?.shown(id)
        }
        KeptCall::BatchOutput(id) => return output(&shared, request, id).await,
        KeptCall::ListFiles => {
            let ListPart { after, most, purpose } = ListPart::read(request, "file")?;
            let work = async move { shared.files(workspace, after, most + 1, purpose.as_deref()).await };
            let mut found = apart.apart(work).await.map_err(fault)?;
            let has_more = cut(&mut found, most);
            listed(&found.iter().map(|(id, file)| file.shown(*id)).collect::<Vec<_>>(), has_more)
        }
        KeptCall::ListBatches => {
            let ListPart { after, most, .. } = ListPart::read(request, "batch")?;
            let work = async move { shared.batches(workspace, after, most + 1).await };
            let mut found = apart.apart(work).await.map_err(fault)?;
            let has_more = cut(&mut found, most);
            listed(&found.iter().map(|(id, batch)| batch.shown(*id)).collect::<Vec<_>>(), has_more)
        }
    };
    Ok(KeptAnswer::Json(json))
}

async fn shown_file(shared: &SharedBatches, request: &Request, id: Uuid) -> Result<FileDocument, Fault> {
    let (work, workspace) = (shared.clone(), owner(request).workspace);
    shared.apart(async move { work.file(workspace, id).await }).await.map_err(fault)
}

/// The lines that were answered well, once there are any.
async fn output(shared: &SharedBatches, request: &Request, id: Uuid) -> Result<KeptAnswer, Fault> {
    let (work, workspace) = (shared.clone(), owner(request).workspace);
    let batch = shared.apart(async move { work.batch(workspace, id).await }).await.map_err(fault)?;
    let Some(file) = batch.output else {
        return Err(Fault::new(FaultKind::BadBody, "The batch has no output, or none yet").on("batch_id"));
    };
    opened(shared, request, file).await
}

/// What lies where it cannot be reached now is refused, not begun.
async fn opened(shared: &SharedBatches, request: &Request, id: Uuid) -> Result<KeptAnswer, Fault> {
    let document = shown_file(shared, request, id).await?;
    let work = shared.clone();
    let first = shared.apart(async move { work.piece(id, 0).await }).await.map_err(fault)?;
    Ok(KeptAnswer::File(KeptFile { id, document, first }))
}

/// Whether more was found than is wanted.
fn cut<T>(found: &mut Vec<T>, most: u32) -> bool {
    let has_more = found.len() > most as usize;
    found.truncate(most as usize);
    has_more
}

fn listed(data: &[Value], has_more: bool) -> Value {
    let end = |item: Option<&Value>| item.map_or(Value::Null, |item| item["id"].clone());
    let (first, last) = (end(data.first()), end(data.last()));
    json!({ "object": "list", "data": data, "first_id": first, "last_id": last, "has_more": has_more })
}

/// Which part of a list.
struct ListPart {
    after: Option<Uuid>,
    most: u32,
    purpose: Option<String>,
}

impl ListPart {
    fn read(request: &Request, kind: &str) -> Result<Self, Fault> {
        let bad = |name: &str, why: &str| Err(Fault::new(FaultKind::BadBody, format!("{name} {why}")).on(name));
        // OpenAI has the same bounds.
        let most = if kind == "file" { 10_000 } else { 100 };
        let mut page = Self { after: None, most: 20, purpose: None };
        let query = request.ask.route.query.as_deref().unwrap_or_default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "limit" => match value.parse::<u32>() {
                    Ok(number) if (1..=most).contains(&number) => page.most = number.min(MOST_LISTED),
                    _ => return bad("limit", &format!("must be a number of 1..{most}")),
                },
                "after" => match batches::read_id(kind, value) {
                    Some(id) => page.after = Some(id),
                    None => return bad("after", "must be an id of this list"),
                },
                "order" if value == "desc" => {}
                "order" => return bad("order", "must be desc: lists begin with the newest"),
                "purpose" if kind == "file" => page.purpose = Some(value.to_owned()),
                other => return bad(other, "is not known here"),
            }
        }
        Ok(page)
    }
}

/// Answers, and leaves a record.
pub(crate) async fn deliver(
    own: OwnParts<'_>,
    session: &mut Session,
    (request, answer): (&Request, KeptAnswer),
    records: &mut PendingRecords,
) -> pingora::Result<bool> {
    let mut record = record::of(request, &request.steps(), None, None, 1);
    record.status = 200;
    let sent = match answer {
        KeptAnswer::Json(json) => {
            let body = Bytes::from(json.to_string());
            record.response_bytes = body.len() as u64;
            answer_early(session, json_answer(own.names, request, body)).await
        }
        KeptAnswer::File(file) => {
            record.response_bytes = file.document.bytes;
            send_file(own, session, request, file).await
        }
    };
    record::finish(&mut record, request);
    records.push(record);
    sent.map(|()| true)
}

/// Piece by piece, never the file as a whole.
async fn send_file(
    own: OwnParts<'_>,
    session: &mut Session,
    request: &Request,
    KeptFile { id, document, first }: KeptFile,
) -> pingora::Result<()> {
    let mut head = own_head(own.names, 200, request);
    head.insert_header(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"))?;
    if document.bytes == 0 {
        return answer_early(session, SmallAnswer { head, body: Bytes::new() }).await;
    }
    head.insert_header(header::CONTENT_LENGTH, document.bytes)?;
    session.downstream_session.set_write_timeout(Some(own.settings.idle_timeout));
    send_head(session, head, None, false).await?;
    let mut at = first.len() as u64;
    send_piece(session, Some(first), at >= document.bytes).await?;
    while at < document.bytes {
        let work = own.batches.clone();
        let piece = own.batches.apart(async move { work.piece(id, at).await }).await;
        let piece = piece.ok().filter(|piece| !piece.is_empty());
        let Some(piece) = piece else {
            return Err(pingora::Error::explain(pingora::ErrorType::InternalError, "a file ended before its end"));
        };
        at += piece.len() as u64;
        send_piece(session, Some(piece), at >= document.bytes).await?;
    }
    Ok(())
}
