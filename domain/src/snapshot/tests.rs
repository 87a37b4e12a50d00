//! Rows in, lookups out; what one change touches and what it leaves shared.

use super::*;
use crate::catalog::{AuthStyle, ProviderInfo};
use crate::operation::Dialect;
use crate::ports::VaultError;
use crate::secret::Secret;
use crate::time::Timestamp;
use serde_json::{Value, json};

struct Rows;
static OPENAI: ProviderInfo = ProviderInfo {
    slug: "openai",
    name: "OpenAI",
    base_url: Some("https://api.openai.com/v1"),
    auth: AuthStyle::Bearer,
    dialect: Dialect::OpenAi,
};

impl Catalog for Rows {
    fn provider(&self, slug: &str) -> Option<&'static ProviderInfo> {
        (slug == "openai").then_some(&OPENAI)
    }
    fn providers(&self) -> Vec<&'static ProviderInfo> {
        vec![&OPENAI]
    }
}

impl Vault for Rows {
    fn seal(&self, plain: &str) -> String {
        format!("sealed:{plain}")
    }
    fn open(&self, sealed: &str) -> Result<Secret<String>, VaultError> {
        sealed.strip_prefix("sealed:").map(|s| Secret::new(s.to_owned())).ok_or(VaultError::Malformed)
    }
}

const ORG: u128 = 1;
const WS: u128 = 2;

fn row(kind: Kind, id: u128, slug: &str, doc: &Value) -> Stored {
    Stored {
        kind: kind.name().into(),
        id: Uuid::from_u128(id),
        org: Uuid::from_u128(ORG),
        workspace: (!matches!(kind, Kind::Organisation | Kind::Workspace | Kind::Integration))
            .then_some(Uuid::from_u128(WS)),
        slug: slug.into(),
        name: slug.into(),
        status: "active".into(),
        owner: None,
        schema: 1,
        version: 1,
        revision: 1,
        doc: doc.to_string(),
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
        deleted_at: None,
    }
}

fn key(id: u128, secret: &str) -> Stored {
    let hash = KeyHash::of(secret).to_string();
    let doc = json!({"type": "workspace-service", "hash": hash, "masked": "", "scopes": ["completions.write"], "creation_mode": "api"});
    row(Kind::ApiKey, id, "k", &doc)
}

fn apply(to: &Snapshot, revision: Revision, rows: Vec<Stored>) -> (Snapshot, Vec<RowProblem>) {
    let trusted = Trusted::default();
    to.apply(&Changes { revision, rows }, &Build { catalog: &Rows, vault: &Rows, trusted: &trusted })
}

fn base() -> Snapshot {
    let rows = vec![
        row(Kind::Provider, 5, "main", &json!({"integration_id": Uuid::from_u128(4)})),
        key(9, "secret-a"),
        row(Kind::Config, 6, "pc-1", &json!({"config": {"provider": "@main"}, "version_id": Uuid::from_u128(7)})),
        row(Kind::Integration, 4, "int", &json!({"ai_provider_id": "openai", "sealed_key": "sealed:sk"})),
        row(Kind::Workspace, WS, "default", &json!({})),
        row(Kind::Organisation, ORG, "default", &json!({"default_workspace": Uuid::from_u128(WS)})),
    ];
    let (snapshot, problems) = apply(&Snapshot::default(), 3, rows);
    assert_eq!(problems, []);
    snapshot
}

#[test]
fn everything_is_found_by_slug_and_id() {
    let s = base();
    let key = s.key(&KeyHash::of("secret-a")).expect("a key");
    let ws = s.workspace(key.workspace.expect("a workspace")).expect("it exists");
    assert_eq!(ws.config("pc-1").expect("by slug").id.0, Uuid::from_u128(6));
    assert!(ws.config(&Uuid::from_u128(6).to_string()).is_some());
    let provider = ws.provider("main").expect("by slug");
    let upstream = s.upstream(provider.integration).expect("its integration");
    assert_eq!(upstream.credential, Some(Secret::new("sk".into())));
    assert_eq!(upstream.base.as_ref().map(|b| b.host.as_str()), Some("api.openai.com"));
    assert_eq!(s.revision, 3);
}

#[test]
fn deletes_renames_and_rotations_leave_nothing_behind() {
    let s = base();
    let mut gone = key(9, "secret-a");
    gone.deleted_at = Some(Timestamp(1));
    let mut renamed = row(Kind::Provider, 5, "other", &json!({"integration_id": Uuid::from_u128(4)}));
    renamed.revision = 4;
    let (next, problems) = apply(&s, 4, vec![gone, renamed]);
    assert_eq!(problems, []);
    assert!(next.key(&KeyHash::of("secret-a")).is_none());
    assert!(next.key_by_id(KeyId(Uuid::from_u128(9))).is_none());
    let ws = next.workspace(WorkspaceId(Uuid::from_u128(WS))).expect("it exists");
    assert!(ws.provider("main").is_none() && ws.provider("other").is_some());
    assert!(s.key(&KeyHash::of("secret-a")).is_some(), "the snapshot before is untouched");

    let (rotated, _) = apply(&s, 4, vec![key(9, "secret-b")]);
    assert!(rotated.key(&KeyHash::of("secret-a")).is_none() && rotated.key(&KeyHash::of("secret-b")).is_some());
}

#[test]
fn both_secrets_find_a_rotated_key_until_the_older_one_ends() {
    let rotated = |until: Option<i64>| {
        let mut row = key(9, "secret-b");
        let mut doc: Value = serde_json::from_str(&row.doc).expect("json");
        if let Some(until) = until {
            doc["transition"] = json!({"previous_hash": KeyHash::of("secret-a").to_string(), "previous_masked": "",
                "previous_until": Timestamp::from_secs(until)});
        }
        row.doc = doc.to_string();
        row
    };
    let found = |s: &Snapshot, secret| s.key(&KeyHash::of(secret)).map(|k| (k.id.0.as_u128(), k.expires_at));
    let (s, problems) = apply(&base(), 4, vec![rotated(Some(60))]);
    assert_eq!(problems, []);
    assert_eq!(found(&s, "secret-a"), Some((9, Some(Timestamp::from_secs(60)))));
    assert_eq!(found(&s, "secret-b"), Some((9, None)));
    assert_eq!(s.keys().count(), base().keys().count(), "still one key");
    let (ended, _) = apply(&s, 5, vec![rotated(None)]);
    assert_eq!((found(&ended, "secret-a"), found(&ended, "secret-b")), (None, Some((9, None))));
    let mut gone = rotated(Some(60));
    gone.deleted_at = Some(Timestamp(1));
    let (gone, _) = apply(&s, 5, vec![gone]);
    assert_eq!((found(&gone, "secret-a"), found(&gone, "secret-b")), (None, None));
}

#[test]
fn a_deleted_workspace_takes_its_rows_along() {
    let mut rows = vec![
        row(Kind::Workspace, WS, "default", &json!({})),
        row(Kind::Provider, 5, "main", &json!({"integration_id": Uuid::from_u128(4)})),
        row(Kind::Member, 20, "u", &json!({"user_id": Uuid::from_u128(21), "role": "member"})),
        key(9, "secret-a"),
    ];
    let (s, problems) = apply(&base(), 4, rows.clone());
    assert_eq!(problems, []);
    assert_eq!(s.workspace(WorkspaceId(Uuid::from_u128(WS))).expect("it exists").members().len(), 1);
    rows.iter_mut().for_each(|r| r.deleted_at = Some(Timestamp(1)));
    let (gone, problems) = apply(&s, 5, rows);
    assert_eq!(problems, []);
    assert!(gone.workspace(WorkspaceId(Uuid::from_u128(WS))).is_none());
    assert!(gone.key(&KeyHash::of("secret-a")).is_none());
}

#[test]
fn a_row_that_cannot_be_read_keeps_what_stood_before() {
    let s = base();
    let bad =
        row(Kind::Config, 6, "pc-1", &json!({"config": {"provider": "nobody"}, "version_id": Uuid::from_u128(8)}));
    let mut newer = row(Kind::Config, 60, "x", &json!({}));
    newer.kind = "hologram".into();
    let (next, problems) = apply(&s, 4, vec![bad, newer]);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].message.contains("nobody"), "{problems:?}");
    let ws = next.workspace(WorkspaceId(Uuid::from_u128(WS))).expect("it exists");
    assert_eq!(ws.config("pc-1").expect("the old one").version_id, Uuid::from_u128(7));
    assert_eq!(next.revision, 4);
}

#[test]
fn a_changed_integration_has_a_new_generation() {
    let s = base();
    let id = IntegrationId(Uuid::from_u128(4));
    let mut changed = row(Kind::Integration, 4, "int", &json!({"ai_provider_id": "openai"}));
    changed.revision = 4;
    let (next, _) = apply(&s, 4, vec![changed]);
    assert_ne!(s.upstream(id).map(|u| u.generation), next.upstream(id).map(|u| u.generation));
}

#[test]
fn policies_of_a_workspace_are_the_same_allocation_until_one_changes() {
    let s = base();
    let ws = WorkspaceId(Uuid::from_u128(WS));
    let (other, _) = apply(&s, 4, vec![key(10, "secret-c")]);
    let same = |a: &Snapshot, b: &Snapshot| match (a.workspace(ws), b.workspace(ws)) {
        (Some(a), Some(b)) => Arc::ptr_eq(a.policies(), b.policies()),
        _ => false,
    };
    assert!(same(&s, &other));
    let doc = json!({"type": "requests", "unit": "rpm", "value": 3, "conditions": [{"key": "api_key", "value": "*"}]});
    let (more, _) = apply(&other, 5, vec![row(Kind::RateLimitPolicy, 11, "p", &doc)]);
    assert!(!same(&other, &more));
}

/// A guardrail of the workspace, or with `shared` one of the organisation.
fn guardrail(id: u128, slug: &str, shared: bool, parameters: &Value) -> Stored {
    let doc = json!({
        "checks": [{"id": "default.webhook", "parameters": parameters}], "actions": {"deny": true},
        "secrets": {"/0/parameters/headers/authorization": "sealed:Bearer s"}, "version_id": Uuid::from_u128(7),
    });
    let row = row(Kind::Guardrail, id, slug, &doc);
    Stored { workspace: row.workspace.filter(|_| !shared), ..row }
}

#[test]
fn a_guardrail_is_the_workspaces_own_or_the_organisations_with_its_secrets_in_place() {
    let parameters = json!({"webhookURL": "https://judge.example.com", "headers": {"authorization": "****"}});
    let own = guardrail(30, "pg-own", false, &parameters);
    let all = guardrail(31, "pg-all", true, &parameters);
    let (s, problems) = apply(&base(), 4, vec![own.clone(), all.clone()]);
    assert_eq!(problems, []);
    let ws = s.workspace(WorkspaceId(Uuid::from_u128(WS))).expect("it exists");
    let find = |name: &str| s.guardrail(ws, name).map(|g| (&*g.slug, g.workspace.is_some(), g.revision));
    assert_eq!(find("pg-own"), Some(("pg-own", true, 1)));
    assert_eq!(find("pg-all"), Some(("pg-all", false, 1)));
    assert_eq!(find(&Uuid::from_u128(31).to_string()), Some(("pg-all", false, 1)));
    assert_eq!((find("pg-none"), ws.guardrail("pg-all").is_some()), (None, false));
    let found = s.guardrail(ws, "pg-own").expect("it exists");
    assert_eq!(found.definition["checks"][0]["parameters"]["headers"]["authorization"], "Bearer s");
    assert_eq!(found.definition["actions"], json!({"deny": true}));
    assert!(!format!("{s:?}").contains("Bearer s"), "printed");

    // The organisation and the workspace change; what belongs to them stays. Archived is as good as gone.
    let rows = vec![
        row(Kind::Organisation, ORG, "default", &json!({"default_workspace": Uuid::from_u128(WS)})),
        row(Kind::Workspace, WS, "default", &json!({})),
        Stored { status: "archived".into(), ..own },
    ];
    let (s, problems) = apply(&s, 5, rows);
    assert_eq!(problems, []);
    let ws = s.workspace(WorkspaceId(Uuid::from_u128(WS))).expect("it exists");
    assert!(s.guardrail(ws, "pg-own").is_none() && s.guardrail(ws, "pg-all").is_some());
    let (s, _) = apply(&s, 6, vec![Stored { deleted_at: Some(Timestamp(1)), ..all }]);
    assert!(s.guardrail(ws, "pg-all").is_none());
}

#[test]
fn defaults_exclusions_and_partners_stand_where_they_were_set() {
    let org = json!({"default_workspace": Uuid::from_u128(WS), "default_guardrails": {"input": ["pg-all"]}});
    let ws = json!({"defaults": {"guardrails": {"output": ["pg-own", "pg-2"]}}, "exclusions": {"input": true}});
    let plugin = json!({"partner": "azure", "fields": {"resourceName": "r"}, "secrets": {"apiKey": "sealed:k"}});
    let plugin = Stored { workspace: None, ..row(Kind::Plugin, 40, "azure", &plugin) };
    let rows =
        vec![row(Kind::Organisation, ORG, "default", &org), row(Kind::Workspace, WS, "default", &ws), plugin.clone()];
    let (s, problems) = apply(&base(), 4, rows);
    assert_eq!(problems, []);
    let org = s.org(OrgId(Uuid::from_u128(ORG))).expect("it exists");
    let ws = s.workspace(WorkspaceId(Uuid::from_u128(WS))).expect("it exists");
    assert_eq!((org.default_guardrails.input.len(), org.default_guardrails.output.len()), (1, 0));
    assert_eq!(ws.default_guardrails.output, ["pg-own", "pg-2"]);
    assert_eq!((ws.exclusions.input, ws.exclusions.output), (true, false));
    let azure = org.partners().get("azure").expect("saved");
    assert_eq!(azure.fields.get("apiKey"), Some(&Secret::new("k".into())));
    assert_eq!(Value::Object(azure.plain()), json!({"apiKey": "k", "resourceName": "r"}));

    let (other, _) = apply(&s, 5, vec![key(10, "secret-c")]);
    let same = other.org(org.id).is_some_and(|o| Arc::ptr_eq(o.partners(), org.partners()));
    assert!(same, "a change elsewhere leaves the partners as they are");
    let (changed, _) = apply(&s, 5, vec![Stored { revision: 5, ..plugin.clone() }]);
    let generation = |s: &Snapshot| s.org(org.id).map(|o| o.partners_generation());
    assert!(generation(&changed) != generation(&s) && generation(&other) == generation(&s));
    let (gone, _) = apply(&s, 5, vec![Stored { deleted_at: Some(Timestamp(1)), ..plugin }]);
    assert!(gone.org(org.id).is_some_and(|o| o.partners().is_empty()));
    assert!(!org.partners().is_empty(), "the snapshot before is untouched");
}
