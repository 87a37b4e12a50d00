//! From stored rows to the document.

use super::difference::StoredDeclaration;
use super::item::{Declarer, ItemName};
use super::kinds::KINDS;
use super::report::ExportedConfiguration;
use super::stored::StoredRows;
use super::text::{Manifest, write};
use crate::problem::Problem;
use crate::resource::declared::names::{DeclaredNames, hash_of};
use crate::resource::declared::secrets::{SecretNames, ShownSecret, placeholder, spot};
use crate::route::Call;
use gateway_domain::resource::{Kind, Stored};

/// One of a list, with what it is sorted by.
struct Sorted {
    name: ItemName,
    tie: String,
    declared: StoredDeclaration,
}

pub(super) fn export(stored: &StoredRows, call: &Call) -> Result<ExportedConfiguration, Problem> {
    let names = DeclaredNames::of(&stored.rows);
    let with = Declarer { call, names: &names };
    let mut manifest = Manifest::default();
    let mut secret_names = SecretNames::default();
    let (mut secrets, mut resources) = (Vec::new(), 0);
    for kind in KINDS {
        let mut items = Vec::new();
        for row in stored.rows.iter().filter(|row| row.kind == kind.kind.name()) {
            let declared = (kind.declare)(row, &with)?;
            let name = ItemName::of(kind, &declared.fields);
            items.push(Sorted { name, tie: tie(row), declared });
        }
        items.sort_by(|a, b| (&a.name, &a.tie).cmp(&(&b.name, &b.tie)));
        resources += items.len();
        let mut list = Vec::with_capacity(items.len());
        for Sorted { name, declared, .. } in items {
            let StoredDeclaration { mut fields, shown } = declared;
            for ShownSecret { path, .. } in &shown {
                let of = [kind.kind.name(), name.workspace.as_str(), name.name.as_str()];
                let own = secret_names.next(&of, path);
                if let Some(place) = spot(&mut fields, path) {
                    *place = placeholder(&own).into();
                }
                secrets.push(own);
            }
            list.push(fields);
        }
        manifest.sections.insert(kind.section, list);
    }
    Ok(ExportedConfiguration { text: write(&manifest)?, secrets, resources })
}

/// What tells keys of one name apart.
fn tie(row: &Stored) -> String {
    if row.kind == Kind::ApiKey.name() { hash_of(row) } else { row.slug.clone() }
}
