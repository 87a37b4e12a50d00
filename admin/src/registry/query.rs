//! What a client asks of the list, and the page that answers it.

use super::entry::RegistryEntry;
use super::fault::RegistryFault;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gateway_domain::time::Timestamp;
use http::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

const USUAL: usize = 50;
const MOST: usize = 100;

/// Where a page begins: behind this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PagePlace {
    created_at: Timestamp,
    id: Uuid,
}

#[derive(Debug)]
pub(super) struct RegistryQuestion {
    limit: usize,
    after: Option<PagePlace>,
    search: Option<String>,
    since: Option<Timestamp>,
    version: Option<String>,
    pub(super) workspace: Option<String>,
}

impl RegistryQuestion {
    /// What other registries know of and this does not is left to them.
    pub(super) fn read(query: &str) -> Result<Self, RegistryFault> {
        let bad = |name: &str, rule: &str| RegistryFault::new(StatusCode::BAD_REQUEST, format!("{name} {rule}"));
        let mut asked = Self { limit: USUAL, after: None, search: None, since: None, version: None, workspace: None };
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let value = value.into_owned();
            if value.is_empty() {
                continue;
            }
            match &*name {
                "limit" => {
                    let given = value.parse().ok().filter(|limit| (1..=MOST).contains(limit));
                    asked.limit = given.ok_or_else(|| bad("limit", "must be an integer of 1..100"))?;
                }
                "cursor" => {
                    let place = PagePlace::read(&value);
                    asked.after = Some(place.ok_or_else(|| bad("cursor", "is none that was given here"))?);
                }
                "updated_since" => {
                    asked.since = Some(value.parse().map_err(|_| bad("updated_since", "must be a time (RFC 3339)"))?);
                }
                "include_deleted" if !matches!(value.as_str(), "true" | "false") => {
                    return Err(bad("include_deleted", "must be true or false"));
                }
                "search" => asked.search = Some(value.to_lowercase()),
                "version" => asked.version = Some(value),
                "workspace_id" => asked.workspace = Some(value),
                _ => {}
            }
        }
        Ok(asked)
    }

    /// `all`: the newest first.
    pub(super) fn page(&self, all: &[RegistryEntry]) -> Result<Value, RegistryFault> {
        let wanted = |entry: &&RegistryEntry| {
            let found = self.search.as_ref().is_none_or(|search| entry.name.to_lowercase().contains(search));
            let fresh = self.since.is_none_or(|since| entry.updated_at >= since);
            let version = self.version.as_ref().is_none_or(|v| v == "latest" || *v == entry.version);
            let behind = self.after.is_none_or(|place| (entry.created_at, entry.id) < (place.created_at, place.id));
            found && fresh && version && behind
        };
        let mut found = all.iter().filter(wanted);
        let page: Vec<&RegistryEntry> = found.by_ref().take(self.limit).collect();
        let mut metadata = json!({"count": page.len()});
        if let (Some(last), Some(_)) = (page.last(), found.next()) {
            metadata["nextCursor"] = PagePlace { created_at: last.created_at, id: last.id }.text().into();
        }
        let servers: Vec<Value> = page.into_iter().map(RegistryEntry::shown).collect();
        Ok(json!({"servers": servers, "metadata": metadata}))
    }
}

impl PagePlace {
    fn text(self) -> String {
        URL_SAFE_NO_PAD.encode(format!("r1:{}:{}", self.created_at.micros(), self.id))
    }

    fn read(cursor: &str) -> Option<Self> {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
        let (micros, id) = text.strip_prefix("r1:")?.split_once(':')?;
        Some(Self { created_at: Timestamp(micros.parse().ok()?), id: id.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_come_back_and_what_means_nothing_is_named() {
        let place = PagePlace { created_at: Timestamp(1_700_000_000_000_000), id: Uuid::from_u128(7) };
        assert_eq!(PagePlace::read(&place.text()), Some(place));
        for (query, field) in [
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("limit=x", "limit"),
            ("cursor=abc", "cursor"),
            ("updated_since=yesterday", "updated_since"),
            ("include_deleted=maybe", "include_deleted"),
        ] {
            let fault = RegistryQuestion::read(query).expect_err(query);
            assert!(fault.status == StatusCode::BAD_REQUEST && fault.told.starts_with(field), "{}", fault.told);
        }
        let good = RegistryQuestion::read(
            "limit=2&search=Files&include_deleted=true&other=1&updated_since=2026-01-01T00:00:00Z",
        );
        assert_eq!(good.map_or(0, |asked| asked.limit), 2);
    }
}
