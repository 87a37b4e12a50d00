//! Which part of a row its history keeps, and the row that is made of it again. Keys, policies and integrations are
//! kept as they were before their first change and after each one that changes that part; configs, guardrails and
//! prompts number their versions themselves. Secrets stay as they lie in documents: sealed. A key's own secret is no
//! part of it.

use gateway_domain::ports::HistoryStep;
use gateway_domain::resource::{Audit, Kind, Stored, StoredVersion};
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// Fields of a kind's documents that the history leaves alone: the secret of a key with all that makes new ones, what a
/// key is for good, and the workspaces that an integration is open to. `None`: a kind without such a history.
fn left_out(kind: Kind) -> Option<&'static [&'static str]> {
    match kind {
        Kind::ApiKey => {
            Some(&["type", "hash", "masked", "transition", "sealed_key", "rotation_policy", "user_id", "creation_mode"])
        }
        Kind::Integration => Some(&["access"]),
        Kind::RateLimitPolicy | Kind::UsageLimitPolicy => Some(&[]),
        _ => None,
    }
}

/// What a change of a row adds to its history; `told` says who made it.
pub(crate) fn step(before: &Stored, after: &Stored, told: &Audit) -> Option<HistoryStep> {
    let left_out = left_out(Kind::parse(&after.kind)?)?;
    if after.deleted_at.is_some() {
        return None;
    }
    let (was, is) = (kept(before, left_out)?, kept(after, left_out)?);
    if was == is {
        return None;
    }
    // The first state has the id of its row, each later one that of the row of the audit trail that tells of it.
    let first = version(before, before.id, before.owner, &was);
    Some(HistoryStep { first, next: version(after, told.id, Uuid::parse_str(&told.actor).ok(), &is) })
}

fn kept(row: &Stored, left_out: &[&str]) -> Option<Value> {
    let mut document: Map<String, Value> = serde_json::from_str(&row.doc).ok()?;
    document.retain(|field, _| !left_out.contains(&field.as_str()));
    Some(json!({ "name": row.name, "document": document }))
}

fn version(row: &Stored, version_id: Uuid, author: Option<Uuid>, kept: &Value) -> StoredVersion {
    StoredVersion {
        kind: row.kind.clone(),
        id: row.id,
        version: row.version,
        version_id,
        author,
        doc: kept.to_string(),
        created_at: row.updated_at,
    }
}

/// A name and a document as they were.
pub(crate) struct RestoredState {
    pub(crate) name: String,
    pub(crate) document: Value,
}

/// `now`: the document as it is, which gives what the history leaves alone.
pub(crate) fn restored(kind: Kind, now: &Value, version: &StoredVersion) -> Option<RestoredState> {
    let left_out = left_out(kind)?;
    let mut kept: Map<String, Value> = serde_json::from_str(&version.doc).ok()?;
    let (name, document) = (kept.remove("name")?, kept.remove("document")?);
    let Value::Object(mut document) = document else { return None };
    let own = now.as_object()?.iter().filter(|(field, _)| left_out.contains(&field.as_str()));
    document.extend(own.map(|(field, value)| (field.clone(), value.clone())));
    Some(RestoredState { name: name.as_str()?.to_owned(), document: Value::Object(document) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::Timestamp;

    fn row(kind: Kind, version: i64, doc: &Value) -> Stored {
        Stored {
            kind: kind.name().to_owned(),
            id: Uuid::from_u128(1),
            org: Uuid::nil(),
            workspace: None,
            slug: String::new(),
            name: "n".to_owned(),
            status: "active".to_owned(),
            owner: Some(Uuid::from_u128(2)),
            schema: 1,
            version,
            revision: 0,
            doc: doc.to_string(),
            created_at: Timestamp(1),
            updated_at: Timestamp(version),
            deleted_at: None,
        }
    }

    fn audit_entry() -> Audit {
        Audit {
            id: Uuid::from_u128(9),
            at: Timestamp(5),
            org: Uuid::nil(),
            workspace: None,
            actor: Uuid::from_u128(3).to_string(),
            actor_kind: "api_key".to_owned(),
            api_key: String::new(),
            action: "update".to_owned(),
            resource_kind: String::new(),
            resource_id: String::new(),
            method: String::new(),
            uri: String::new(),
            client_ip: String::new(),
            status: 200,
            details: "{}".to_owned(),
        }
    }

    #[test]
    fn a_key_is_kept_without_its_secret_and_comes_back_with_the_one_it_has() {
        let old = json!({ "hash": "old", "masked": "****1", "scopes": ["a"], "max_parallel": 3 });
        let new = json!({ "hash": "new", "masked": "****2", "scopes": ["a", "b"] });
        let (before, after) = (row(Kind::ApiKey, 4, &old), row(Kind::ApiKey, 5, &new));
        let step = step(&before, &after, &audit_entry()).expect("a change");
        assert!(!step.first.doc.contains("old") && !step.next.doc.contains("new"), "{step:?}");
        assert_eq!((step.first.version, step.first.author), (4, Some(Uuid::from_u128(2))));
        assert_eq!((step.next.version, step.next.author), (5, Some(Uuid::from_u128(3))));
        let back = restored(Kind::ApiKey, &new, &step.first).expect("a state");
        let expected = json!({ "hash": "new", "masked": "****2", "scopes": ["a"], "max_parallel": 3 });
        assert_eq!((back.name.as_str(), back.document), ("n", expected));
    }

    #[test]
    fn what_is_no_part_of_it_makes_no_version() {
        let doc = |hash: &str| json!({ "hash": hash, "scopes": ["a"] });
        let rotated = step(&row(Kind::ApiKey, 1, &doc("x")), &row(Kind::ApiKey, 2, &doc("y")), &audit_entry());
        assert!(rotated.is_none());
        let (one, two) = (json!({ "config": 1 }), json!({ "config": 2 }));
        assert!(
            step(&row(Kind::Config, 1, &one), &row(Kind::Config, 2, &two), &audit_entry()).is_none(),
            "it has its own"
        );
        let gone = Stored { deleted_at: Some(Timestamp(3)), ..row(Kind::RateLimitPolicy, 2, &two) };
        assert!(step(&row(Kind::RateLimitPolicy, 1, &one), &gone, &audit_entry()).is_none());
    }
}
