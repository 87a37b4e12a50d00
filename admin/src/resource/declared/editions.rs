//! Numbered versions in files: each with its number, so that whoever names one goes on finding it. What a version says
//! never changes: a file may add some, and say which are in force.

use super::{Assuming, Declaring, put, take};
use crate::problem::{Problem, bad, conflict, internal};
use gateway_domain::id::WorkspaceId;
use gateway_domain::resource::edition::{Edition, Editions};
use gateway_domain::resource::prompt::BUILT_IN_LABELS;
use gateway_domain::resource::{Kind, StoredVersion};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use uuid::Uuid;

const VERSIONS: &str = "versions";

/// A version as a file gives it.
pub(crate) struct GivenEdition<T> {
    pub(crate) number: u32,
    pub(crate) edition: Edition<T>,
}

/// Which of them are in force.
pub(crate) struct InForce {
    default: Option<u32>,
    labels: BTreeMap<Uuid, u32>,
}

pub(crate) fn declare_editions<T>(
    fields: &mut Map<String, Value>,
    editions: &Editions<T>,
    content: impl Fn(&T) -> Map<String, Value>,
    to: &Declaring<'_>,
) {
    put(fields, "default_version", editions.default);
    let label = |id: &Uuid| match BUILT_IN_LABELS.iter().find(|label| label.id == *id) {
        Some(label) => label.name.to_owned(),
        None => to.names.name(*id),
    };
    let labels: BTreeMap<String, u32> = editions.labels.iter().map(|(id, number)| (label(id), *number)).collect();
    put(fields, "labels", labels);
    let one = |(number, edition): (&u32, &Edition<T>)| {
        let mut fields = Map::from_iter([("version".to_owned(), Value::from(*number))]);
        put(&mut fields, "version_description", &edition.description);
        fields.extend(content(&edition.content));
        fields
    };
    put(fields, VERSIONS, editions.kept.iter().map(one).collect::<Vec<_>>());
}

impl InForce {
    pub(crate) fn take(
        fields: &mut Map<String, Value>,
        home: Option<WorkspaceId>,
        from: &Assuming<'_>,
    ) -> Result<Self, Problem> {
        let default = take(fields, "default_version")?;
        let given: BTreeMap<String, u32> = take(fields, "labels")?.unwrap_or_default();
        let mut labels = BTreeMap::new();
        for (name, number) in given {
            let built_in = BUILT_IN_LABELS.iter().find(|label| label.name == name).map(|label| label.id);
            let id = built_in.map_or_else(|| from.find(Kind::Label, home, "labels", &name), Ok)?;
            labels.insert(id, number);
        }
        Ok(Self { default, labels })
    }
}

/// Each version that is given, its number taken out.
pub(crate) fn take_versions(fields: &mut Map<String, Value>) -> Result<BTreeMap<u32, Map<String, Value>>, Problem> {
    let given: Vec<Map<String, Value>> = take(fields, VERSIONS)?.unwrap_or_default();
    let mut all = BTreeMap::new();
    for (at, mut one) in given.into_iter().enumerate() {
        let field = format!("{VERSIONS}[{at}].version");
        let number: Option<u32> = take(&mut one, "version")?;
        let number = number.filter(|n| *n > 0).ok_or_else(|| bad(&field, "must be an integer of at least 1"))?;
        if all.insert(number, one).is_some() {
            return Err(bad(field, "is given twice"));
        }
    }
    if all.is_empty() {
        return Err(bad(VERSIONS, "must hold at least one"));
    }
    Ok(all)
}

/// What is there with what is given on top.
pub(crate) fn assume_editions<T: Clone + PartialEq + Serialize>(
    given: Vec<GivenEdition<T>>,
    in_force: InForce,
    before: Option<&Editions<T>>,
) -> Result<Editions<T>, Problem> {
    let newest = given.iter().map(|g| g.number).max().unwrap_or(1);
    let mut editions = before.cloned().unwrap_or(Editions {
        default: newest,
        latest: 0,
        kept: BTreeMap::new(),
        labels: BTreeMap::new(),
    });
    let stored = editions.latest;
    for GivenEdition { number, edition } in given {
        match editions.kept.get(&number) {
            Some(kept) if (&kept.content, &kept.description) != (&edition.content, &edition.description) => {
                let why = "says something else than the stored one, and versions never change: add version";
                return Err(conflict(format!("version {number} {why} {}", stored + 1)));
            }
            Some(_) => {}
            // The history has it, and no name leads there any more.
            None if number <= stored => {}
            None => _ = editions.kept.insert(number, edition),
        }
    }
    editions.latest = stored.max(newest);
    editions.default = in_force.default.unwrap_or(newest);
    editions.labels = in_force.labels;
    let named = std::iter::once(editions.default).chain(editions.labels.values().copied());
    for number in named.collect::<Vec<_>>() {
        if !editions.kept.contains_key(&number) {
            let rule = format!("must be the number of a version that is given or kept, and {number} is none");
            return Err(bad("default_version and labels", rule));
        }
    }
    let default = editions.default;
    let current = editions.kept.get(&default).cloned();
    match current.is_some_and(|edition| editions.publish(default, edition)) {
        true => Ok(editions),
        false => Err(conflict("the default, the newest and the labelled versions are too large together")),
    }
}

/// Rows of the history for what was not there before.
pub(crate) fn new_editions<T: Serialize>(
    of: (Kind, Uuid),
    editions: &Editions<T>,
    before: Option<&Editions<T>>,
) -> Result<Vec<StoredVersion>, Problem> {
    let stored = before.map_or(0, |before| before.latest);
    let new = editions.kept.iter().filter(|(number, _)| **number > stored);
    let row = |(number, edition): (&u32, &Edition<T>)| {
        Ok(StoredVersion {
            kind: of.0.name().to_owned(),
            id: of.1,
            version: i64::from(*number),
            version_id: edition.id,
            author: edition.author,
            doc: serde_json::to_string(edition).map_err(internal)?,
            created_at: edition.created_at,
        })
    };
    new.map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::time::Timestamp;

    fn edition(text: &str) -> Edition<String> {
        Edition {
            id: Uuid::from_u128(1),
            created_at: Timestamp(0),
            author: None,
            description: String::new(),
            content: text.to_owned(),
        }
    }

    fn given(pairs: &[(u32, &str)]) -> Vec<GivenEdition<String>> {
        pairs.iter().map(|(number, text)| GivenEdition { number: *number, edition: edition(text) }).collect()
    }

    fn in_force(default: u32) -> InForce {
        InForce { default: Some(default), labels: BTreeMap::new() }
    }

    #[test]
    fn versions_are_added_and_never_changed() {
        let first = assume_editions(given(&[(1, "a"), (4, "d")]), in_force(1), None).expect("new");
        assert_eq!((first.default, first.latest, first.kept.len()), (1, 4, 2));
        let rows = new_editions((Kind::PromptPartial, Uuid::nil()), &first, None).expect("rows");
        assert_eq!(rows.iter().map(|row| row.version).collect::<Vec<_>>(), [1, 4]);
        let next = assume_editions(given(&[(4, "d"), (5, "e")]), in_force(5), Some(&first)).expect("more");
        assert_eq!((next.default, next.latest, next.kept.len()), (5, 5, 3));
        let rows = new_editions((Kind::PromptPartial, Uuid::nil()), &next, Some(&first)).expect("rows");
        assert_eq!(rows.iter().map(|row| row.version).collect::<Vec<_>>(), [5]);
        let changed = assume_editions(given(&[(4, "other")]), in_force(4), Some(&first)).expect_err("changed");
        assert!(changed.message.contains("add version 5"), "{}", changed.message);
        assert!(assume_editions(given(&[(1, "a")]), in_force(3), None).is_err(), "no such version");
        assert!(assume_editions(given(&[(2, "b")]), in_force(2), Some(&first)).is_err(), "only the history has it");
    }
}
