//! A file on its way to a provider: into the bucket of a cloud, or as an object of the family's own kind. A store wants
//! to know how long an object is, which a form does not say: the file is kept sealed until all of it is here. Lines of
//! a batch are written as the provider is asked for them; where one of them cannot be, nothing goes up.

use super::family_files::FamilyFiles;
use super::files::{FileFacts, Files};
use super::lines::written;
use super::service::{ServiceBody, ServiceCall, Services};
use super::{DirectParts, DirectStop, bad, own_objects};
use crate::batches::Spool;
use crate::proxy::own_objects::PassingFile;
use crate::proxy::request::Request;
use crate::proxy::routing::Routing;
use crate::upstream::StreamedBody;
use crate::{clock, ids};
use gateway_domain::{Fault, FaultKind};
use gateway_providers::kept_files::{NewFile, ToldFile, new_name};
use gateway_providers::native_batches::BatchBody;
use http::{HeaderName, HeaderValue, Method, header};
use serde_json::Value;

/// The object of the file, once the provider has it.
pub(super) async fn store(
    parts: DirectParts<'_>,
    asked: (&Request, &Routing),
    files: &Files<'_>,
    passing: PassingFile,
) -> Result<Value, DirectStop> {
    let WholeFile { spool, filename, purpose } = whole(parts, asked, files.services, passing).await?;
    let id = ids::next(clock::now()).simple().to_string();
    let file = files.store.new_file(&files.bucket, (&files.workspace(), &id), (&filename, &purpose));
    let mut call = Files::call(Method::PUT, &file);
    let purpose_of = |_| Fault::new(FaultKind::BadBody, "purpose cannot be sent").on("purpose");
    let told = HeaderValue::from_str(&purpose).map_err(purpose_of)?;
    let media = if purpose == "batch" { "application/jsonl" } else { "application/octet-stream" };
    call.headers.push((HeaderName::from_static(files.store.purpose_header), told));
    call.headers.push((header::CONTENT_TYPE, HeaderValue::from_static(media)));
    send(files.services, call, (&spool, Default::default())).await?;
    let facts = FileFacts { bytes: spool.bytes, created: clock::now().secs(), purpose };
    Ok(files.shown(&file, &facts))
}

/// All of a file, as the provider is to have it.
struct WholeFile {
    spool: Spool,
    filename: String,
    purpose: String,
}

async fn whole(
    parts: DirectParts<'_>,
    asked: (&Request, &Routing),
    services: &Services<'_>,
    passing: PassingFile,
) -> Result<WholeFile, DirectStop> {
    let PassingFile { file, filename, purpose } = passing;
    let (work, batches) = (parts.own.batches.clone(), parts.own.batches);
    let mut spool = batches.apart(file.spooled(work)).await.map_err(own_objects::fault)?;
    if purpose == "batch" {
        spool = written(parts, asked, services, &spool).await?;
    }
    Ok(WholeFile { spool, filename, purpose })
}

async fn send(
    services: &Services<'_>,
    mut call: ServiceCall,
    (spool, (front, back)): (&Spool, (String, String)),
) -> Result<(), DirectStop> {
    const MOST_TOLD: usize = 64 << 10;
    let length = usize::try_from(spool.bytes).unwrap_or(usize::MAX) + front.len() + back.len();
    let source = Box::new(spool.source((front, back)));
    call.body = ServiceBody::Streamed(StreamedBody { source, length });
    services.fetch(call, MOST_TOLD).await.map(drop)
}

/// Keeps a file at a family that has files as objects of its own kind; nothing stays of one that did not arrive whole.
pub(super) async fn keep(
    parts: DirectParts<'_>,
    asked: (&Request, &Routing),
    files: &FamilyFiles<'_>,
    passing: PassingFile,
) -> Result<Value, DirectStop> {
    let (services, family) = (files.services, files.family);
    let WholeFile { spool, filename, purpose } = whole(parts, asked, services, passing).await?;
    if spool.bytes > family.most() {
        let why = format!("must have {} bytes at most at {}, and has {}", family.most(), services.slug(), spool.bytes);
        return Err(bad("file", &why).into());
    }
    let (work, blob) = (parts.own.batches.clone(), spool.id());
    let lines = parts.own.batches.apart(Spool::ends(work, blob)).await.map_err(own_objects::fault)?;
    let id = new_name(&files.workspace(), &ids::next(clock::now()).simple().to_string(), &purpose);
    let new = NewFile { id: &id, filename: &filename, purpose: &purpose, lines, place: &files.place };
    let mut is_begun = false;
    for call in family.uploads(&new) {
        let sent = match call.body {
            BatchBody::Lines(form) => {
                let mut bare = ServiceCall::bare(call.at, call.method, call.path);
                let media = HeaderValue::from_str(&form.content_type);
                let media = media.map_err(|_| Fault::new(FaultKind::Internal, "A form has no type"))?;
                bare.headers.push((header::CONTENT_TYPE, media));
                send(services, bare, (&spool, (form.front, form.back))).await
            }
            _ => files.ask(call).await.map(drop),
        };
        if let Err(stop) = sent {
            if is_begun {
                let _: Result<_, DirectStop> = files.ask(family.delete(&files.place, &id)).await;
            }
            return Err(stop);
        }
        is_begun = true;
    }
    let told = ToldFile { created: clock::now().secs(), ..files.look(&id).await? };
    Ok(files.shown(&ToldFile { bytes: spool.bytes, filename: Some(filename), ..told }))
}
