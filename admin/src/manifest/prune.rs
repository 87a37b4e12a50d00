//! What is stored and in none of the lists of a document goes, with what lives in it. Lists that a document does not
//! have are left alone.

use super::author::Author;
use super::item::{Declarer, ItemName, Portable, within};
use super::kinds::{self, rank};
use super::naming::name_all;
use super::report::{ConfigurationReport, ItemChange};
use super::stored_rows::StoredRows;
use super::text::Manifest;
use crate::change::{Action, WriteView};
use crate::problem::{Problem, busy, conflict};
use crate::resource::declared::names::DeclaredNames;
use crate::route::AdminCall;
use gateway_domain::ports::Batch;
use gateway_domain::resource::{Kind, Stored};
use serde_json::{Map, Value};
use std::collections::{BTreeSet, HashSet};
use uuid::Uuid;

/// A row that no list holds.
pub(super) struct UnmentionedRow<'s> {
    pub(super) kind: &'static Portable,
    pub(super) name: ItemName,
    stored: &'s Stored,
}

/// Rows that the document does not name though it has the list of their kind, ordered by list, then by name.
pub(super) fn unmentioned<'s>(
    manifest: &Manifest,
    stored: &'s StoredRows,
    call: &AdminCall,
) -> Result<Vec<UnmentionedRow<'s>>, Problem> {
    let named = name_all(manifest, stored, &call.app)?;
    let mentioned: HashSet<Uuid> = named.items.iter().map(|item| item.id).collect();
    let names = DeclaredNames::of(&stored.rows);
    let left = stored.rows.iter().filter(|row| {
        let kind = kinds::of(&row.kind).filter(|kind| !kind.is_single());
        !mentioned.contains(&row.id) && kind.is_some_and(|kind| manifest.is_told(kind.section))
    });
    name_rows(left, &names, call)
}

fn name_rows<'s>(
    rows: impl Iterator<Item = &'s Stored>,
    names: &DeclaredNames,
    call: &AdminCall,
) -> Result<Vec<UnmentionedRow<'s>>, Problem> {
    let with = Declarer { call, names };
    let mut out = Vec::new();
    for stored in rows {
        let Some(kind) = kinds::of(&stored.kind) else { continue };
        let declared = (kind.declare)(stored, &with)?;
        out.push(UnmentionedRow { kind, name: ItemName::of(kind, &declared.fields), stored });
    }
    out.sort_by(|a, b| (rank(a.kind), &a.name).cmp(&(rank(b.kind), &b.name)));
    Ok(out)
}

/// What goes along: all that is in a workspace, the seats of a person, and the keys of both.
fn along<'s>(gone: &[UnmentionedRow<'s>], stored: &'s StoredRows) -> Vec<&'s Stored> {
    let of = |kind: Kind| gone.iter().map(|row| row.stored).filter(move |row| row.kind == kind.name());
    let workspaces: BTreeSet<Uuid> = of(Kind::Workspace).map(|row| row.id).collect();
    let people: BTreeSet<String> = of(Kind::User).map(|row| row.id.to_string()).collect();
    let seats: BTreeSet<(Option<Uuid>, String)> =
        of(Kind::Member).map(|row| (row.workspace, row.slug.clone())).collect();
    let chosen: BTreeSet<Uuid> = gone.iter().map(|row| row.stored.id).collect();
    let goes = |row: &&Stored| {
        let inside = row.workspace.is_some_and(|workspace| workspaces.contains(&workspace));
        let theirs = match Kind::parse(&row.kind) {
            Some(Kind::Member) => people.contains(&row.slug),
            Some(Kind::ApiKey) => {
                let doc: Value = serde_json::from_str(&row.doc).unwrap_or_default();
                let user = doc["user_id"].as_str().unwrap_or_default().to_owned();
                people.contains(&user) || seats.contains(&(row.workspace, user))
            }
            _ => false,
        };
        (inside || theirs) && !chosen.contains(&row.id)
    };
    stored.rows.iter().filter(goes).collect()
}

/// `None`: others have written meanwhile.
pub(super) async fn prune(
    author: &Author<'_>,
    call: &AdminCall,
    manifest: &Manifest,
    stored: &StoredRows,
    dry_run: bool,
) -> Result<Option<ConfigurationReport>, Problem> {
    let mut gone = unmentioned(manifest, stored, call)?;
    gone.extend(name_rows(along(&gone, stored).into_iter(), &DeclaredNames::of(&stored.rows), call)?);
    gone.sort_by(|a, b| (rank(a.kind), &a.name).cmp(&(rank(b.kind), &b.name)));
    for row in &gone {
        let at = format!("{} {}", row.kind.section, row.name.shown());
        author.may(row.kind.allow, row.stored, Action::Delete).map_err(|why| within(&at, why))?;
        refuse(row, call).map_err(|why| within(&at, why))?;
    }
    let changes =
        gone.iter().map(|row| ItemChange::new(Action::Delete.name(), row.kind.section, &row.name, Vec::new()));
    let mut report = ConfigurationReport { dry_run, changes: changes.collect(), ..ConfigurationReport::default() };
    if gone.is_empty() {
        return Ok(Some(report));
    }
    let mut late = false;
    let decide = |around: &WriteView<'_>| {
        if !around.is_as_seen() {
            late = true;
            return Err(busy("changed meanwhile"));
        }
        let rows = gone.iter().map(|row| (row.kind.tombstone)(row.stored, call.now)).collect::<Result<Vec<_>, _>>()?;
        let after = around.plus(&rows)?;
        for row in gone.iter().filter(|row| lives_on(row.stored, &gone)) {
            let at = format!("{} {}", row.kind.section, row.name.shown());
            (row.kind.check_unused)(row.stored, &after).map_err(|why| within(&at, why))?;
        }
        let audit = rows.iter().map(|row| author.audit(&call.app, Action::Delete, row, &Map::new())).collect();
        if dry_run { Ok(Batch::default()) } else { Ok(Batch { rows, audit, ..Batch::default() }) }
    };
    match call.commit(stored.revision, decide).await {
        Ok(revision) => {
            report.revision = Some(revision).filter(|_| !dry_run);
            Ok(Some(report))
        }
        Err(_) if late => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// Whether the workspace of a row stays, which is where its users are looked for.
fn lives_on(row: &Stored, gone: &[UnmentionedRow<'_>]) -> bool {
    row.workspace.is_none_or(|workspace| gone.iter().all(|other| other.stored.id != workspace))
}

/// What the organisation cannot be without, and what whoever asks would lose with it.
fn refuse(row: &UnmentionedRow<'_>, call: &AdminCall) -> Result<(), Problem> {
    let snapshot = call.app.live.snapshot();
    let default = snapshot.org(call.actor.org).map(|org| org.default_workspace.0);
    if default == Some(row.stored.id) {
        return Err(conflict("is the default workspace of the organisation, which cannot go"));
    }
    if call.actor.key.0 == row.stored.id {
        return Err(conflict("is the key that asks; it does not delete itself"));
    }
    Ok(())
}
