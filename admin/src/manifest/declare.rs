//! Turns stored rows into the document, one declaration at a time: once one is written, nothing of it stays in memory
//! but the names of its secrets.

use super::difference::StoredDeclaration;
use super::item::{Declarer, ItemName, Portable};
use super::kinds::KINDS;
use super::stored_rows::StoredRows;
use super::text::{head_text, item_text};
use crate::problem::Problem;
use crate::resource::declared::names::{DeclaredNames, hash_of};
use crate::resource::declared::secrets::{SecretNames, ShownSecret, placeholder, spot};
use crate::route::AdminCall;
use gateway_domain::resource::{Kind, Stored};
use std::vec::IntoIter;

/// The document of what is stored, on its way.
pub(super) struct Export {
    /// What was written is held no longer.
    rows: Vec<Option<Stored>>,
    names: DeclaredNames,
    /// What is still to be written, in the order of the document: the kind, and the place of the row.
    left: IntoIter<(&'static Portable, usize)>,
    /// The list that is being written; `None`: nothing is yet.
    section: Option<&'static str>,
    secret_names: SecretNames,
    pub(super) secrets: Vec<String>,
    pub(super) resources: usize,
}

/// One row, with what it is sorted by.
struct Sorted {
    name: ItemName,
    tie: String,
    row: usize,
}

impl Export {
    /// Everything is declared once to be put in order, so that what cannot be is known before anything is written.
    pub(super) fn new(stored: StoredRows, call: &AdminCall) -> Result<Self, Problem> {
        let names = DeclaredNames::of(&stored.rows);
        let with = Declarer { call, names: &names };
        let mut left = Vec::new();
        for kind in KINDS {
            let mut items = Vec::new();
            for (row, of) in stored.rows.iter().enumerate().filter(|(_, row)| row.kind == kind.kind.name()) {
                let declared = (kind.declare)(of, &with)?;
                items.push(Sorted { name: ItemName::of(kind, &declared.fields), tie: tie(of), row });
            }
            items.sort_by(|a, b| (&a.name, &a.tie).cmp(&(&b.name, &b.tie)));
            left.extend(items.into_iter().map(|item| (kind, item.row)));
        }
        let resources = left.len();
        Ok(Self {
            rows: stored.rows.into_iter().map(Some).collect(),
            names,
            left: left.into_iter(),
            section: None,
            secret_names: SecretNames::default(),
            secrets: Vec::new(),
            resources,
        })
    }

    /// The text that comes next; `None`: it is whole.
    pub(super) fn next(&mut self, call: &AdminCall) -> Result<Option<String>, Problem> {
        if self.section.is_none() {
            self.section = Some("");
            return Ok(Some(head_text()));
        }
        let Some((kind, row)) = self.left.next() else { return Ok(None) };
        let Some(row) = self.rows[row].take() else { return Ok(Some(String::new())) };
        let StoredDeclaration { mut fields, shown } = (kind.declare)(&row, &Declarer { call, names: &self.names })?;
        let name = ItemName::of(kind, &fields);
        for ShownSecret { path, .. } in &shown {
            let of = [kind.kind.name(), name.workspace.as_str(), name.name.as_str()];
            let own = self.secret_names.next(&of, path);
            if let Some(place) = spot(&mut fields, path) {
                *place = placeholder(&own).into();
            }
            self.secrets.push(own);
        }
        let begins = self.section.replace(kind.section) != Some(kind.section);
        item_text(kind, fields, begins).map(Some)
    }
}

/// What tells keys of one name apart.
fn tie(row: &Stored) -> String {
    if row.kind == Kind::ApiKey.name() { hash_of(row) } else { row.slug.clone() }
}
