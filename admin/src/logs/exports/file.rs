//! The file of an export: a link to it, which holds for an hour and for that file alone, and its bytes as they lie. The
//! link names what it opens in a text that is sealed with the master key, so that nobody else can write one.

use crate::app::App;
use crate::input::QueryString;
use crate::problem::{Problem, forbidden, missing};
use crate::route::{AdminCall, AdminReply, Visit};
use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{iter, unfold};
use gateway_domain::export::{EXPORT_KIND, ExportFormat, ExportQuery, LogExport};
use gateway_domain::id::OrgId;
use gateway_domain::ports::{BlobError, Blobs};
use gateway_domain::time::Timestamp;
use std::collections::VecDeque;
use std::sync::Arc;
use uuid::Uuid;

const LINK_MICROS: i64 = 3_600 * 1_000_000;
/// How sealed texts begin.
const SEALED: &str = "sealed:v1:";

/// What a link opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LinkOpens {
    org: OrgId,
    export: Uuid,
    job: Uuid,
    until: Timestamp,
}

impl LinkOpens {
    fn token(&self, app: &App) -> String {
        let Self { org, export, job, until } = self;
        let sealed = app.vault.seal(&format!("{EXPORT_KIND} {org} {export} {job} {}", until.micros()));
        sealed.trim_start_matches(SEALED).replace('+', "-").replace('/', "_")
    }

    fn read(app: &App, token: &str) -> Option<Self> {
        let sealed = format!("{SEALED}{}", token.replace('-', "+").replace('_', "/"));
        let opened = app.vault.open(&sealed).ok()?;
        let mut words = opened.expose().split(' ');
        let mut word = || words.next();
        (word()? == EXPORT_KIND).then_some(())?;
        Some(Self {
            org: OrgId(word()?.parse().ok()?),
            export: word()?.parse().ok()?,
            job: word()?.parse().ok()?,
            until: Timestamp(word()?.parse().ok()?),
        })
    }
}

pub(super) fn link(call: &AdminCall, export: &LogExport, job: Uuid) -> String {
    let until = call.now.plus_micros(LINK_MICROS);
    let token = LinkOpens { org: export.org, export: export.id, job, until }.token(&call.app);
    let path = format!("/v1/logs/exports/{}/file?token={token}", export.id);
    match &call.app.public_url {
        Some(url) => format!("{url}{path}"),
        None => format!("http://{}{path}", call.host().unwrap_or("localhost")),
    }
}

pub(super) async fn fetch(visit: Visit) -> Result<AdminReply, Problem> {
    let query = QueryString::parse(&visit.uri)?;
    let not_valid = || forbidden("this link is not valid");
    let opens = query.text("token").and_then(|token| LinkOpens::read(&visit.app, token)).ok_or_else(not_valid)?;
    if opens.export.to_string() != visit.var("id") {
        return Err(not_valid());
    }
    if opens.until <= visit.now {
        return Err(forbidden("this link has ended: ask for another"));
    }
    let (org, id) = (opens.org, Some(opens.export));
    let query = ExportQuery { org, workspaces: Vec::new(), id, created_by: None, page: 0, page_size: 1 };
    let found = visit.app.exports.exports(&query).await?.rows.pop();
    let export = found.filter(|export| export.job == Some(opens.job)).ok_or_else(|| missing("export"))?;
    let first = visit.app.blobs.blob(org, export.progress.part_of(opens.job, export.progress.first)).await?;
    if first.is_none_or(|blob| !blob.is_whole) {
        return Err(missing("file of this export"));
    }
    let parts: VecDeque<Uuid> = export.progress.parts(opens.job).collect();
    let place = FilePlace { blobs: visit.app.blobs.clone(), parts, at: 0 };
    // What lies where it cannot be reached now is refused, not begun.
    let (first, behind) = match next(place).await {
        Some((Err(BlobError::Store(why)), _)) => return Err(why.into()),
        Some((first, behind)) => (Some(first), behind),
        None => (None, None),
    };
    let rest = unfold(behind, move |place| async move { next(place?).await });
    let pieces = iter(first).chain(rest);
    let (kind, ending) = match export.request.format {
        ExportFormat::Jsonl => ("application/x-ndjson", "jsonl"),
        ExportFormat::Parquet => ("application/vnd.apache.parquet", "parquet"),
    };
    Ok(AdminReply::file(kind, format!("logs-{}.{ending}", export.id), Body::from_stream(pieces)))
}

struct FilePlace {
    blobs: Arc<dyn Blobs>,
    /// What is left of the file.
    parts: VecDeque<Uuid>,
    /// The place in the first of these parts from which to read on.
    at: u64,
}

type FilePiece = (Result<Bytes, BlobError>, Option<FilePlace>);

/// A piece at a time, part by part; one that cannot be read breaks the answer off.
async fn next(mut place: FilePlace) -> Option<FilePiece> {
    loop {
        match place.blobs.read(*place.parts.front()?, place.at).await {
            Ok(piece) if piece.is_empty() => {
                place.parts.pop_front();
                place.at = 0;
            }
            Ok(piece) => {
                place.at += piece.len() as u64;
                return Some((Ok(piece.into()), Some(place)));
            }
            Err(error) => return Some((Err(error), None)),
        }
    }
}
