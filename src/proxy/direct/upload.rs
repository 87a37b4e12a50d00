//! A file on its way into the bucket of a cloud. A store wants to know how long an object is, which a form does not say: the
//! file is kept sealed until all of it is here. Lines of a batch are written as the provider is asked for them; where one
//! of them cannot be, nothing goes up.

use super::files::{FileFacts, Files};
use super::lines::written;
use super::service::{ServiceBody, ServiceCall, Services};
use super::{DirectParts, DirectStop, own_objects};
use crate::batches::Spool;
use crate::proxy::own_objects::PassingFile;
use crate::proxy::request::Request;
use crate::proxy::routing::Routing;
use crate::upstream::StreamedBody;
use crate::{clock, ids};
use gateway_domain::{Fault, FaultKind};
use http::{HeaderName, HeaderValue, Method, header};
use serde_json::Value;

/// The object of the file, once the provider has it.
pub(super) async fn store(
    parts: DirectParts<'_>,
    (asked, services): ((&Request, &Routing), &Services<'_>),
    files: &Files<'_>,
    passing: PassingFile,
) -> Result<Value, DirectStop> {
    let PassingFile { file, filename, purpose } = passing;
    let (work, batches) = (parts.own.batches.clone(), parts.own.batches);
    let mut spool = batches.apart(file.spooled(work)).await.map_err(own_objects::fault)?;
    if purpose == "batch" {
        spool = written(parts, asked, services, &spool).await?;
    }
    let id = ids::next(clock::now()).simple().to_string();
    let file = files.store.new_file(&files.bucket, (&files.workspace(), &id), &filename);
    let mut call = Files::call(Method::PUT, &file);
    let purpose_of = |_| Fault::new(FaultKind::BadBody, "purpose cannot be sent").on("purpose");
    let told = HeaderValue::from_str(&purpose).map_err(purpose_of)?;
    let media = if purpose == "batch" { "application/jsonl" } else { "application/octet-stream" };
    call.headers.push((HeaderName::from_static(files.store.purpose_header), told));
    call.headers.push((header::CONTENT_TYPE, HeaderValue::from_static(media)));
    send(services, call, &spool).await?;
    let facts = FileFacts { bytes: spool.bytes, created: clock::now().secs(), purpose };
    Ok(files.shown(&file, &facts))
}

async fn send(services: &Services<'_>, mut call: ServiceCall, spool: &Spool) -> Result<(), DirectStop> {
    const MOST_TOLD: usize = 64 << 10;
    let length = usize::try_from(spool.bytes).unwrap_or(usize::MAX);
    call.body = ServiceBody::Streamed(StreamedBody { source: Box::new(spool.source()), length });
    services.told(call, MOST_TOLD).await.map(drop)
}
