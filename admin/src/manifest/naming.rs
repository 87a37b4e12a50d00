//! Which stored row each declaration is about. Everything gets its id before anything is read, so that declarations may
//! name each other in any order.

use super::item::{ItemName, NamedItem, Portable, within};
use super::kinds::KINDS;
use super::stored_rows::StoredRows;
use super::text::Manifest;
use crate::app::App;
use crate::problem::{Problem, bad, conflict};
use crate::resource::Slug;
use crate::resource::declared::names::{BY_HASH, DeclaredNames, NamePlace, hash_of, place};
use crate::resource::declared::{DeclaredLevel, take};
use gateway_domain::id::WorkspaceId;
use gateway_domain::resource::{Kind, Stored};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use uuid::Uuid;

/// All declarations of a document, and the names that mean something in it.
pub(super) struct NamedItems {
    pub(super) items: Vec<NamedItem>,
    pub(super) names: DeclaredNames,
}

pub(super) fn name_all(manifest: &Manifest, stored: &StoredRows, app: &App) -> Result<NamedItems, Problem> {
    let mut naming = ItemNaming {
        app,
        rows: stored.rows.iter().map(|row| (row.id, row)).collect(),
        names: DeclaredNames::of(&stored.rows),
        seen: BTreeSet::new(),
    };
    let mut items = Vec::new();
    for kind in KINDS {
        let given = manifest.sections.get(kind.section).map(Vec::as_slice).unwrap_or_default();
        let mut of_kind = Vec::new();
        for fields in given {
            let name = ItemName::of(kind, fields);
            let at = format!("{} {}", kind.section, name.shown());
            of_kind.push(naming.item(kind, name, fields.clone()).map_err(|why| within(&at, why))?);
        }
        if kind.kind == Kind::ApiKey {
            naming.match_keys(&mut of_kind)?;
        }
        for item in &of_kind {
            if !naming.seen.insert(item.id) {
                return Err(bad(item.at(), "is declared twice"));
            }
        }
        items.extend(of_kind);
    }
    Ok(NamedItems { items, names: naming.names })
}

struct ItemNaming<'a> {
    app: &'a App,
    rows: HashMap<Uuid, &'a Stored>,
    names: DeclaredNames,
    seen: BTreeSet<Uuid>,
}

impl ItemNaming<'_> {
    fn item(
        &mut self,
        kind: &'static Portable,
        name: ItemName,
        mut fields: Map<String, Value>,
    ) -> Result<NamedItem, Problem> {
        let workspace: Option<String> = take(&mut fields, "workspace")?;
        let workspace = match (kind.level, workspace) {
            (DeclaredLevel::Only | DeclaredLevel::Organisation, Some(_)) => {
                return Err(bad("workspace", "is not a known field"));
            }
            (DeclaredLevel::Workspace, None) => return Err(bad("workspace", "is required")),
            (_, None) => None,
            (_, Some(slug)) => {
                let found = self.names.find(Kind::Workspace, None, &slug);
                let unknown =
                    || bad("workspace", format_args!("names `{slug}`, which is neither in the file nor stored"));
                Some(WorkspaceId(found.ok_or_else(unknown)?))
            }
        };
        let title = if kind.is_named { take(&mut fields, "name")?.unwrap_or_default() } else { String::new() };
        let status: Option<String> = if kind.states.is_empty() { None } else { take(&mut fields, "status")? };
        let status = status.unwrap_or_else(|| "active".to_owned());
        if status != "active" && !kind.states.contains(&status.as_str()) {
            return Err(bad("status", format_args!("must be active or {}", kind.states.join(" or "))));
        }
        let mut item = NamedItem {
            kind,
            name,
            id: Uuid::nil(),
            before: None,
            workspace,
            slug: String::new(),
            title,
            status,
            fields,
        };
        match (kind.level, kind.slug) {
            (DeclaredLevel::Only, _) => self.only(&mut item),
            (_, "") => {}
            (_, field) => self.by_slug(&mut item, field)?,
        }
        Ok(item)
    }

    /// The organisation is the one that there is.
    fn only(&self, item: &mut NamedItem) {
        let found = self.rows.values().find(|row| row.kind == item.kind.kind.name());
        item.before = found.map(|row| (*row).clone());
        item.id = found.map_or_else(|| self.app.id(), |row| row.id);
        item.slug = found.map_or_else(|| "default".to_owned(), |row| row.slug.clone());
    }

    fn by_slug(&mut self, item: &mut NamedItem, field: &'static str) -> Result<(), Problem> {
        let slug: Option<String> = take(&mut item.fields, field)?;
        let slug = slug.filter(|slug| !slug.is_empty()).ok_or_else(|| bad(field, "is required"))?;
        let is_person = matches!(item.kind.kind, Kind::User | Kind::Member);
        item.slug = if is_person { slug.trim().to_lowercase() } else { slug };
        if field == "slug" {
            Slug::given(field, Some(item.slug.clone()))?;
        }
        let place = place(item.kind.kind, item.workspace, item.slug.clone());
        match self.names.find(place.kind, item.workspace, &place.name) {
            None => item.id = self.app.id(),
            Some(id) => {
                item.id = id;
                item.before = self.rows.get(&id).map(|row| (*row).clone());
            }
        }
        if let Some(before) = &item.before
            && before.workspace != item.workspace.map(|w| w.0)
        {
            return Err(conflict("is stored in another workspace, and cannot be moved"));
        }
        self.names.insert(place, item.id);
        Ok(())
    }

    /// Keys are found by their hashes, else by names that only one has, here and there.
    fn match_keys(&mut self, items: &mut [NamedItem]) -> Result<(), Problem> {
        let stored: Vec<&Stored> = self.rows.values().copied().filter(|r| r.kind == Kind::ApiKey.name()).collect();
        let by_hash: HashMap<String, &Stored> = stored.iter().map(|row| (hash_of(row), *row)).collect();
        let mut found = BTreeSet::new();
        for item in items.iter_mut() {
            let hash = item.fields.get("sha256").and_then(Value::as_str).map(str::to_lowercase);
            let row = hash.and_then(|hash| by_hash.get(&hash)).filter(|r| r.workspace == item.workspace.map(|w| w.0));
            if let Some(row) = row {
                found.insert(row.id);
                (item.id, item.before) = (row.id, Some((*row).clone()));
            }
        }
        let mut left: BTreeMap<(Option<Uuid>, &str), Vec<&Stored>> = BTreeMap::new();
        for row in stored.iter().filter(|row| !found.contains(&row.id)) {
            left.entry((row.workspace, &row.name)).or_default().push(row);
        }
        let mut same: BTreeMap<ItemName, usize> = BTreeMap::new();
        for item in items.iter() {
            *same.entry(item.name.clone()).or_default() += 1;
        }
        for item in items.iter_mut() {
            let alone = same.get(&item.name) == Some(&1);
            if item.before.is_none() {
                let rows = left.get(&(item.workspace.map(|w| w.0), item.title.as_str()));
                let row = rows.filter(|rows| rows.len() == 1 && alone).and_then(|rows| rows.first());
                item.id = row.map_or_else(|| self.app.id(), |row| row.id);
                item.before = row.map(|row| (*row).clone());
            }
            let own = |name: String| NamePlace { kind: Kind::ApiKey, workspace: item.workspace.map(|w| w.0), name };
            if let Some(hash) = item.fields.get("sha256").and_then(Value::as_str) {
                self.names.insert(own(format!("{BY_HASH}{}", hash.to_lowercase())), item.id);
            }
            if alone && !item.title.starts_with(BY_HASH) {
                self.names.insert(own(item.title.clone()), item.id);
            }
        }
        Ok(())
    }
}
