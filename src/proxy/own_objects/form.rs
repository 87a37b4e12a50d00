//! The form by which a file comes: read as it streams in, its file written away piece by piece. Fields may stand on
//! either side of the file.

use super::batch_creation::expiry;
use super::{OwnParts, fault, is_named, owner};
use crate::batches::{FileDocument, FileWriter, KEPT_SECS, MOST_FILE};
use crate::proxy::body::{go_on, read_within};
use crate::proxy::request::Request;
use bytes::Bytes;
use futures_util::stream::unfold;
use gateway_domain::{Fault, FaultKind};
use http::header;
use multer::{Constraints, Field, Multipart, SizeLimit};
use pingora::protocols::http::ServerSession;
use pingora::proxy::Session;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use thiserror::Error;

/// The most bytes that a form may have beside its file.
const MOST_BESIDE: u64 = 64 << 10;
const MOST_FIELD: usize = 1_024;
const MOST_FIELDS: usize = 16;
/// Bytes that may lie in memory before they end the header of a part.
const MOST_HEADER: usize = 64 << 10;
const LONGEST_NAME: usize = 512;
const PURPOSES: &[&str] = &["assistants", "batch", "fine-tune", "vision", "user_data", "evals"];

/// What came of a form.
#[derive(Default)]
struct FormRead {
    /// Its file is kept for nobody, but on its way to a provider.
    passes: bool,
    file: Option<FileWriter>,
    filename: String,
    purpose: Option<String>,
    anchor: Option<String>,
    seconds: Option<String>,
}

/// A file on its way to a provider.
pub(crate) struct PassingFile {
    pub(crate) file: FileWriter,
    pub(crate) filename: String,
    pub(crate) purpose: String,
}

fn bad(field: &str, why: &str) -> Fault {
    Fault::new(FaultKind::BadBody, format!("{field} {why}")).on(field)
}

fn broken(error: &multer::Error) -> Fault {
    match error {
        multer::Error::StreamSizeExceeded { .. } | multer::Error::FieldSizeExceeded { .. } => {
            Fault::new(FaultKind::TooLarge, format!("A file may have {MOST_FILE} bytes")).on("file")
        }
        multer::Error::StreamReadFailed(why) if why.is::<LongHeader>() => {
            Fault::new(FaultKind::BadBody, format!("The request body is not a valid form: {why}"))
        }
        multer::Error::StreamReadFailed(_) => Fault::new(FaultKind::SlowClient, "The form did not arrive in time"),
        multer::Error::ReadHeaderFailed(_) => {
            let why = "the header of a part has more than 32 lines, or one that is none";
            Fault::new(FaultKind::BadBody, format!("The request body is not a valid form: {why}"))
        }
        other => Fault::new(FaultKind::BadBody, format!("The request body is not a valid form: {other}")),
    }
}

/// The object of the file, once all of it is kept.
pub(super) async fn upload(own: OwnParts<'_>, session: &mut Session, request: &Request) -> Result<Value, Fault> {
    let (file, document) = receive(own, session, request, FormRead::default(), document).await?;
    let work = own.batches.clone();
    let kept = own.batches.apart(async move { work.keep_file(file, document).await }).await;
    kept.map(|(id, document)| document.shown(id)).map_err(fault)
}

/// A file that a provider is to have, once all of it is here.
pub(crate) async fn receive_passing(
    own: OwnParts<'_>,
    session: &mut Session,
    request: &Request,
) -> Result<PassingFile, Fault> {
    let read = FormRead { passes: true, ..FormRead::default() };
    let (file, (filename, purpose)) = receive(own, session, request, read, passing).await?;
    Ok(PassingFile { file, filename, purpose })
}

/// The file of a form with what `told` makes of the rest, or nothing of it.
async fn receive<T>(
    own: OwnParts<'_>,
    session: &mut Session,
    request: &Request,
    mut read: FormRead,
    told: impl FnOnce(&Request, &FormRead) -> Result<T, Fault>,
) -> Result<(FileWriter, T), Fault> {
    let kind = session.get_header(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(kind).map_err(|_| {
        Fault::new(FaultKind::BadHeader, "A file comes as multipart/form-data with a boundary").on("content-type")
    })?;
    let down = &mut session.downstream_session;
    let gone = |_| Fault::new(FaultKind::SlowClient, "The form did not arrive in time");
    go_on(down).await.map_err(gone)?;
    let limits = SizeLimit::new().whole_stream(MOST_FILE + MOST_BESIDE).for_field("file", MOST_FILE);
    let unseen = UnseenBytes::default();
    let mut form = Multipart::with_constraints(
        pieces(down, own.settings.idle_timeout, unseen.clone()),
        boundary,
        Constraints::new().size_limit(limits),
    );
    let done = read_form(own, (request, &unseen), &mut form, &mut read).await;
    drop(form);
    let checked = done.and_then(|()| told(request, &read));
    match (checked, read.file.take()) {
        (Ok(told), Some(file)) => Ok((file, told)),
        (Ok(_), None) => Err(bad("file", "is missing")),
        (Err(fault), file) => {
            if let Some(file) = file {
                let work = own.batches.clone();
                own.batches.runtime.spawn(async move { work.drop_file(file).await });
            }
            Err(fault)
        }
    }
}

/// Bytes that came and of which nothing was made yet. Whoever reads the form holds all of them until a part begins, and
/// knows no bound for that.
#[derive(Clone, Default)]
struct UnseenBytes(Arc<AtomicUsize>);

impl UnseenBytes {
    /// All that came was made something of, or nearly all.
    fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[derive(Debug, Error)]
#[error("more than {MOST_HEADER} bytes stand before or in the header of a part")]
struct LongHeader;

type BrokenPiece = Box<dyn std::error::Error + Send + Sync>;

fn pieces(
    down: &mut ServerSession,
    longest: Duration,
    unseen: UnseenBytes,
) -> impl futures_util::Stream<Item = Result<Bytes, BrokenPiece>> + Send + '_ {
    unfold(Some(down), move |down| {
        let unseen = unseen.clone();
        async move {
            let down = down?;
            if unseen.0.load(Ordering::Relaxed) > 0 {
                // Who reads the form takes what there is before it looks at any of it: each piece is to be looked at
                // first.
                tokio::task::yield_now().await;
            }
            if unseen.0.load(Ordering::Relaxed) > MOST_HEADER {
                return Some((Err(LongHeader.into()), None));
            }
            match read_within(down, longest).await {
                Ok(Some(piece)) => {
                    unseen.0.fetch_add(piece.len(), Ordering::Relaxed);
                    Some((Ok(piece), Some(down)))
                }
                Ok(None) => None,
                Err(e) => Some((Err(e.to_string().into()), None)),
            }
        }
    })
}

async fn read_form(
    own: OwnParts<'_>,
    (request, unseen): (&Request, &UnseenBytes),
    form: &mut Multipart<'_>,
    read: &mut FormRead,
) -> Result<(), Fault> {
    let mut fields = 0;
    while let Some(field) = form.next_field().await.map_err(|e| broken(&e))? {
        unseen.clear();
        fields += 1;
        if fields > MOST_FIELDS {
            return Err(Fault::new(FaultKind::BadBody, format!("The form has more than {MOST_FIELDS} fields")));
        }
        let Some(name) = field.name().map(ToOwned::to_owned) else {
            let why = "A part of the form has no name (content-disposition: form-data; name=\"…\")";
            return Err(Fault::new(FaultKind::BadBody, why));
        };
        if name == "file" {
            if read.file.is_some() {
                return Err(twice(&name));
            }
            read_file(own, (request, unseen), field, read).await?;
            continue;
        }
        let place = match name.as_str() {
            "purpose" => &mut read.purpose,
            "expires_after[anchor]" => &mut read.anchor,
            "expires_after[seconds]" => &mut read.seconds,
            other => {
                let name: String = other.chars().take(64).collect();
                return Err(bad(&name, "is not known here"));
            }
        };
        if place.replace(text(field, &name).await?).is_some() {
            return Err(twice(&name));
        }
    }
    Ok(())
}

fn twice(name: &str) -> Fault {
    bad(name, "stands there twice")
}

async fn text(mut field: Field<'_>, name: &str) -> Result<String, Fault> {
    let mut whole = Vec::new();
    while let Some(piece) = field.chunk().await.map_err(|e| broken(&e))? {
        whole.extend_from_slice(&piece);
        if whole.len() > MOST_FIELD {
            return Err(bad(name, &format!("has more than {MOST_FIELD} bytes")));
        }
    }
    String::from_utf8(whole).map_err(|_| bad(name, "must be UTF-8"))
}

async fn read_file(
    own: OwnParts<'_>,
    (request, unseen): (&Request, &UnseenBytes),
    mut field: Field<'_>,
    read: &mut FormRead,
) -> Result<(), Fault> {
    read.filename = field.file_name().unwrap_or("file").chars().take(LONGEST_NAME).collect();
    let (work, owner, passes) = (own.batches.clone(), owner(request), read.passes);
    let begun = async move { if passes { work.begin_spool(owner).await } else { work.begin_file(owner).await } };
    let mut file = own.batches.apart(begun).await.map_err(fault)?;
    while let Some(piece) = field.chunk().await.map_err(|e| broken(&e))? {
        unseen.clear();
        if file.bytes() + piece.len() as u64 > MOST_FILE {
            return Err(Fault::new(FaultKind::TooLarge, format!("A file may have {MOST_FILE} bytes")).on("file"));
        }
        file = own.batches.apart(async move { file.push(piece).await }).await.map_err(fault)?;
    }
    read.file = Some(file);
    Ok(())
}

fn purpose(read: &FormRead) -> Result<&String, Fault> {
    let Some(purpose) = &read.purpose else { return Err(bad("purpose", "is missing")) };
    match PURPOSES.contains(&purpose.as_str()) {
        true => Ok(purpose),
        false => Err(bad("purpose", &format!("must be one of {}", PURPOSES.join(", ")))),
    }
}

/// Name and purpose of a file that goes to a provider, which ends it when it likes.
fn passing(_: &Request, read: &FormRead) -> Result<(String, String), Fault> {
    if read.anchor.is_some() || read.seconds.is_some() {
        return Err(bad("expires_after", "is not known to this provider"));
    }
    Ok((read.filename.clone(), purpose(read)?.clone()))
}

fn document(request: &Request, read: &FormRead) -> Result<FileDocument, Fault> {
    let purpose = purpose(read)?;
    // What no provider is named for is kept here only if the gateway can do something with it.
    if purpose != "batch" && !is_named(request) {
        let why = "The gateway keeps files of the purpose batch; for another, name the provider that is to have it \
                   (x-gateway-provider), or the gateway itself (x-gateway-provider: gateway)";
        return Err(Fault::new(FaultKind::NoProvider, why).on("purpose"));
    }
    let kept = match (&read.anchor, &read.seconds) {
        (None, None) => KEPT_SECS,
        (anchor, seconds) => {
            let seconds = seconds.as_deref().unwrap_or_default().parse().unwrap_or_default();
            expiry("expires_after", anchor.as_deref().unwrap_or_default(), seconds)?
        }
    };
    let created = request.caller.at.micros().div_euclid(1_000_000);
    let (filename, purpose) = (read.filename.clone(), purpose.clone());
    Ok(FileDocument {
        filename,
        purpose,
        bytes: 0,
        created,
        expires: created + kept,
        readers: Vec::new(),
        deleted: false,
    })
}
