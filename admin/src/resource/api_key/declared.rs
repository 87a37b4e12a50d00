//! Keys in a file: by the SHA-256 of their secrets, so that whoever holds one goes on using it. A key that the file
//! gives no hash gets a secret of its own, which is told once.

use super::{check_bounds, check_person};
use crate::change::WriteView;
use crate::problem::{Problem, bad, conflict};
use crate::resource::declared::limits::{Resets, declare_limits};
use crate::resource::declared::{Assuming, Declaration, Declared, DeclaredLevel, Declaring, put, take};
use crate::resource::{Resource, ResourceRow};
use gateway_domain::keys::{KeyHash, mint};
use gateway_domain::resource::Kind;
use gateway_domain::resource::api_key::{ApiKey, KeyKind};
use gateway_domain::resource::rotation::{RotationPolicy, SHORTEST_TRANSITION_MS, Transition};
use gateway_domain::secret::mask;
use gateway_domain::snapshot::Snapshot;
use gateway_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// The secret before the last rotation.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct PreviousSecret {
    sha256: String,
    #[serde(default)]
    masked: String,
    until: Timestamp,
}

impl Declared for ApiKey {
    const SECTION: &'static str = "api_keys";
    const LEVEL: DeclaredLevel = DeclaredLevel::Either;
    const STATES: &'static [&'static str] = &["blocked", "suspended"];
    const SECRETS: &'static [&'static str] = &["key"];
    const SLUG: &'static str = "";

    fn declare(row: &ResourceRow<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let doc = &row.doc;
        let mut fields = Map::new();
        put(&mut fields, "type", doc.kind);
        put(&mut fields, "sha256", &doc.hash);
        put(&mut fields, "masked", &doc.masked);
        let previous = doc.transition.as_ref().map(|t| PreviousSecret {
            sha256: t.previous_hash.clone(),
            masked: t.previous_masked.clone(),
            until: t.previous_until,
        });
        put(&mut fields, "previous", previous);
        put(&mut fields, "description", &doc.description);
        put(&mut fields, "user_id", doc.user_id.map(|id| to.names.name(id)));
        fields.insert("scopes".to_owned(), json!(doc.scopes));
        let mut defaults = Map::new();
        put(&mut defaults, "metadata", &doc.defaults.metadata);
        put(&mut defaults, "config_id", doc.defaults.config_id.as_deref().map(|name| to.names.instead_of(name)));
        if !doc.defaults.allow_config_override {
            defaults.insert("allow_config_override".to_owned(), false.into());
        }
        put(&mut fields, "defaults", defaults);
        put(&mut fields, "expires_at", doc.expires_at);
        put(&mut fields, "rotation_policy", doc.rotation_policy.as_ref().map(rotation));
        declare_limits(&mut fields, &doc.limits);
        put(&mut fields, "max_parallel", doc.max_parallel);
        put(&mut fields, "mcp_access", Some(&doc.mcp_access).filter(|reach| !reach.is_empty()));
        put(&mut fields, "allowed_models", &doc.allowed_models);
        put(&mut fields, "alert_emails", &doc.limits.alert_emails);
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        let secret = GivenSecret::take(&mut item.fields)?;
        let expires_at = take(&mut item.fields, "expires_at")?;
        let resets = Resets::take(&mut item.fields)?;
        let user: Option<String> = take(&mut item.fields, "user_id")?;
        if let Some(address) = user {
            let id = from.find(Kind::User, None, "user_id", &address)?;
            item.fields.insert("user_id".to_owned(), id.to_string().into());
        }
        let kind = item.fields.get("type").and_then(|kind| KeyKind::deserialize(kind).ok());
        let of_organisation = kind == Some(KeyKind::OrganisationService);
        if of_organisation == item.workspace.is_some() {
            let rule = "must be given, save for an organisation-service key, which acts on every workspace";
            return Err(bad("workspace", rule));
        }
        let config = item.fields.get("defaults").and_then(|defaults| defaults.get("config_id")).cloned();
        let mut row = item.create(from.call, true)?;
        // A workspace gives its config to keys that are made in it, not to those that a file says have none.
        row.doc.defaults.config_id = config.and_then(|name| name.as_str().map(str::to_owned));
        row.doc.expires_at = expires_at;
        row.slug.clear();
        let before = item.before.as_ref();
        resets.settle(&mut row.doc.limits.usage_limits, before.map(|row| row.doc.limits.usage_limits.as_slice()));
        secret.settle(&mut row, item.id, before, from)?;
        if let Some(before) = before {
            go_on(&mut row.doc, &before.doc);
        }
        refuse_shared(&row, item.id, &from.call.snapshot())?;
        Ok(row)
    }

    fn verify(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        check_person(row, around)?;
        check_bounds(row)?;
        Self::check(row, around)?;
        // Two of one document are told apart by who is found; whom others know was asked before.
        refuse_shared(row, row.id, &around.snapshot)?;
        Ok(())
    }
}

/// What opens one door must not open another, of whatever organisation.
fn refuse_shared(row: &ResourceRow<ApiKey>, id: Uuid, known: &Snapshot) -> Result<(), Problem> {
    let hashes = [Some(&row.doc.hash), row.doc.transition.as_ref().map(|t| &t.previous_hash)];
    let mut hashes = hashes.into_iter().flatten().filter_map(|hash| KeyHash::parse(hash));
    match hashes.find(|hash| known.key(hash).is_some_and(|key| key.id.0 != id)) {
        None => Ok(()),
        Some(_) => Err(conflict("sha256 is that of another key")),
    }
}

fn rotation(policy: &RotationPolicy) -> Map<String, Value> {
    let mut fields = Map::new();
    match policy.rotation_period {
        Some(period) => put(&mut fields, "rotation_period", period),
        None => put(&mut fields, "rotation_period_days", policy.rotation_period_days),
    }
    if policy.key_transition_period_ms != SHORTEST_TRANSITION_MS {
        put(&mut fields, "key_transition_period_ms", policy.key_transition_period_ms);
    }
    fields
}

/// What the gateway did of itself since goes on: the plan of rotations, a new secret that waits for somebody.
fn go_on(doc: &mut ApiKey, before: &ApiKey) {
    doc.creation_mode.clone_from(&before.creation_mode);
    if let (Some(policy), Some(stored)) = (&mut doc.rotation_policy, &before.rotation_policy)
        && policy.rotation_period_days == stored.rotation_period_days
    {
        policy.next_rotation_at = stored.next_rotation_at;
        policy.announced = stored.announced;
    }
    if doc.hash == before.hash {
        doc.sealed_key.clone_from(&before.sealed_key);
    }
    if let (Some(now), Some(stored)) = (&mut doc.transition, &before.transition) {
        now.announced = stored.announced;
    }
}

/// What a file says of the secret of a key.
struct GivenSecret {
    key: Option<String>,
    sha256: Option<String>,
    masked: Option<String>,
    previous: Option<PreviousSecret>,
}

impl GivenSecret {
    fn take(fields: &mut Map<String, Value>) -> Result<Self, Problem> {
        const LONGEST: usize = 64;
        let masked: Option<String> = take(fields, "masked")?;
        if masked.as_ref().is_some_and(|text| text.chars().count() > LONGEST || !text.starts_with("****")) {
            return Err(bad("masked", format_args!("must begin with **** and be at most {LONGEST} characters")));
        }
        let given = Self {
            key: take(fields, "key")?,
            sha256: take(fields, "sha256")?,
            masked,
            previous: take(fields, "previous")?,
        };
        if given.key.is_some() && given.sha256.is_some() {
            return Err(bad("key", "cannot stand beside sha256"));
        }
        for (field, hash) in
            [("sha256", given.sha256.as_ref()), ("previous.sha256", given.previous.as_ref().map(|p| &p.sha256))]
        {
            if hash.is_some_and(|hash| KeyHash::parse(hash).is_none()) {
                return Err(bad(field, "must be the 64 hexadecimal digits of a SHA-256"));
            }
        }
        Ok(given)
    }

    fn settle(
        self,
        row: &mut ResourceRow<ApiKey>,
        id: Uuid,
        before: Option<&ResourceRow<ApiKey>>,
        from: &Assuming<'_>,
    ) -> Result<(), Problem> {
        const LEAST: usize = 32;
        let doc = &mut row.doc;
        match (self.key, self.sha256, before) {
            (Some(key), ..) if key.chars().count() < LEAST || !key.bytes().all(|b| b.is_ascii_graphic()) => {
                return Err(bad("key", format_args!("must be at least {LEAST} characters, ASCII without blanks")));
            }
            (Some(key), ..) => (doc.hash, doc.masked) = (KeyHash::of(&key).to_string(), mask(&key)),
            (None, Some(hash), _) => {
                (doc.hash, doc.masked) = (hash.to_lowercase(), self.masked.unwrap_or_else(|| "****".to_owned()));
            }
            (None, None, Some(stored)) => {
                doc.hash.clone_from(&stored.doc.hash);
                doc.masked.clone_from(&stored.doc.masked);
                doc.transition.clone_from(&stored.doc.transition);
                return Ok(());
            }
            (None, None, None) => {
                let key = mint(doc.kind.tag(), &from.call.app.bytes());
                (doc.hash, doc.masked) = (KeyHash::of(&key).to_string(), mask(&key));
                from.made.borrow_mut().insert(id, key);
            }
        }
        doc.transition = self.previous.map(|previous| Transition {
            previous_hash: previous.sha256.to_lowercase(),
            previous_masked: previous.masked,
            previous_until: previous.until,
            announced: false,
        });
        Ok(())
    }
}
