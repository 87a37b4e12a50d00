//! What prompts and partials share: versions that are numbered, kept for good, and put in force by a change of their
//! own.

use super::{NumberedState, Resource, ResourceRow, locate};
use crate::change::{Action, WriteView, audit};
use crate::input::WholeNumber;
use crate::problem::{Problem, bad, conflict, internal, missing};
use crate::route::{AdminCall, AdminReply};
use gateway_domain::ports::Batch;
use gateway_domain::resource::StoredVersion;
use gateway_domain::resource::edition::{Edition, Editions, MOST_KEPT_BYTES};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A resource with such versions.
pub(super) trait HasEditions: Resource {
    type Content: Serialize + DeserializeOwned + Clone + Send + Sync;
    fn editions(&self) -> &Editions<Self::Content>;
    fn editions_mut(&mut self) -> &mut Editions<Self::Content>;
}

/// A version as the history has it.
pub(super) struct KeptVersion<T> {
    pub(super) number: u32,
    pub(super) edition: Edition<T>,
}

/// A new state, made now.
pub(super) fn edition<T>(call: &AdminCall, description: String, content: T) -> Edition<T> {
    Edition { id: call.app.id(), created_at: call.now, author: Some(call.actor.key.0), description, content }
}

pub(super) fn check_description(text: &str) -> Result<(), Problem> {
    let long = text.chars().count() > 1024;
    if long { Err(bad("version_description", "must be at most 1024 characters")) } else { Ok(()) }
}

/// Refuses what the document has no room for.
pub(super) fn fits(room: bool) -> Result<(), Problem> {
    if room {
        return Ok(());
    }
    let why =
        format!("the default, the newest and the labelled versions hold more than {MOST_KEPT_BYTES} bytes together");
    Err(conflict(why))
}

pub(super) fn state<T: Serialize>(editions: &Editions<T>) -> Option<NumberedState> {
    let doc = serde_json::to_string(editions.newest()?).ok()?;
    Some(NumberedState { number: editions.latest.into(), doc })
}

/// Newest first.
pub(super) async fn history<R: HasEditions>(
    call: &AdminCall,
    row: &ResourceRow<R>,
) -> Result<Vec<KeptVersion<R::Content>>, Problem> {
    let stored = call.app.history.versions(R::KIND.name(), row.id).await?;
    let mut all = stored.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    all.sort_by_key(|kept| std::cmp::Reverse(kept.number));
    Ok(all)
}

fn read<T: DeserializeOwned>(stored: &StoredVersion) -> Result<KeptVersion<T>, Problem> {
    let number = u32::try_from(stored.version).map_err(internal)?;
    Ok(KeptVersion { number, edition: serde_json::from_str(&stored.doc).map_err(internal)? })
}

/// Finds a version by its number or id.
pub(super) fn pick<T>(versions: Vec<KeptVersion<T>>, name: &str) -> Result<KeptVersion<T>, Problem> {
    let found = versions.into_iter().find(|v| v.number.to_string() == name || v.edition.id.to_string() == name);
    found.ok_or_else(|| missing("version"))
}

/// The one that the query names, else the one in force.
pub(super) async fn asked<R: HasEditions>(
    call: &AdminCall,
    row: &ResourceRow<R>,
) -> Result<KeptVersion<R::Content>, Problem> {
    let editions = row.doc.editions();
    match call.query.text("version") {
        Some(name) => pick(history(call, row).await?, name),
        None => {
            let edition = editions.current().cloned().ok_or_else(|| missing("version"))?;
            Ok(KeptVersion { number: editions.default, edition })
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewDefault {
    version: WholeNumber,
}

/// Puts a version in force under the bare name.
pub(super) async fn publish<R: HasEditions>(call: AdminCall) -> Result<AdminReply, Problem> {
    let (seen, mut body) = (call.snapshot().revision, call.body()?);
    let told = body.0.clone();
    let given = body.take_text("workspace_id")?;
    let given = given.as_deref().or_else(|| call.query.text("workspace_id"));
    let row = locate::<R>(&call, given, Action::Publish).await?;
    let number = body.read::<NewDefault>()?.version.0;
    let found = pick(history(&call, &row).await?, &number.to_string());
    let kept = found.map_err(|_| bad("version", "is not the number of a version"))?;
    change(&call, row, seen, told, |editions| editions.publish(kept.number, kept.edition)).await
}

/// Changes which versions are in force, and nothing of what they say.
pub(super) async fn change<R: HasEditions>(
    call: &AdminCall,
    row: ResourceRow<R>,
    seen: i64,
    told: Map<String, Value>,
    act: impl FnOnce(&mut Editions<R::Content>) -> bool + Send,
) -> Result<AdminReply, Problem> {
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        fits(act(row.doc.editions_mut()))?;
        R::check(&row, around)?;
        row.touch(call.now);
        let stored = row.stored()?;
        let audit = vec![audit(call, Action::Publish, &stored, &told)];
        Ok(Batch { rows: vec![stored], audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(json!({})).at(revision))
}

/// What stands in a list of versions for one that is in force under the bare name, and for the others.
pub(super) fn status<T>(editions: &Editions<T>, number: u32) -> &'static str {
    if number == editions.default { "active" } else { "archived" }
}
