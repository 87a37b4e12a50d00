//! Documents at the bounds of what may be stored, and what they leave of what they were written from.

use crate::configuration::{IMPORT, exported, furnished, secrets};
use crate::harness::{House, text};
use gateway_admin::use_configuration;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// A document with so many of one kind, each line made of a number.
fn many(section: &str, count: usize, line: impl Fn(usize) -> String) -> String {
    let mut document = format!("version: 1\n{section}:\n");
    for n in 0..count {
        writeln!(document, "- {}", line(n)).expect("written");
    }
    document
}

/// What comes together is counted together: as many as there may be, and not one more.
#[tokio::test]
async fn a_document_fills_what_there_is_room_for() {
    type Line = fn(usize) -> String;
    let kinds: [(&str, &str, usize, Line); 6] = [
        ("configs", "/configs", 100, |n| {
            format!("{{workspace: default, slug: pc-{n:04}, name: c, config: {{provider: openai}}}}")
        }),
        ("guardrails", "/guardrails", 20, |n| {
            let check = "{id: default.contains, parameters: {words: [x]}}";
            format!("{{workspace: default, slug: pg-{n:04}, name: g, checks: [{check}], actions: {{deny: true}}}}")
        }),
        ("secret_references", "/secret-references", 20, |n| {
            let sign_in = "{vault_auth_type: token, vault_addr: 'https://vault.example.com', vault_token: t}";
            format!(
                "{{slug: s-{n:04}, name: s, manager_type: hashicorp_vault, secret_path: kv/a, auth_config: {sign_in}}}"
            )
        }),
        ("labels", "/labels", 100, |n| format!("{{workspace: default, name: label-{n:04}}}")),
        ("collections", "/collections", 200, |n| format!("{{workspace: default, slug: c-{n:04}, name: c}}")),
        ("prompt_partials", "/prompts/partials", 500, |n| {
            format!("{{workspace: default, slug: pl-{n:04}, name: p, versions: [{{version: 1, string: x}}]}}")
        }),
    ];
    for (section, path, most, line) in kinds {
        let house = House::new().await;
        let admin = house.as_admin();
        let total =
            async || admin.get(&format!("{path}?page_size=1")).await.expect(200)["total"].as_u64().expect("a number");
        let before = total().await;
        let one_more = json!({"document": many(section, most + 1, line)});
        admin.post("/configuration/import", one_more).await.refused(409, "AB07");
        assert_eq!(total().await, before, "{section}: nothing of it is written");
        let full = json!({"document": many(section, most, line)});
        admin.post("/configuration/import", full.clone()).await.expect(200);
        assert_eq!(total().await, before + most as u64, "{section}");
        let again = admin.post("/configuration/import", full).await.expect(200);
        assert_eq!(again["created"], 0, "{section}: {again}");
        let next = json!({"document": format!("version: 1\n{section}:\n- {}", line(most))});
        admin.post("/configuration/import", next).await.refused(409, "AB07");
    }
}

/// What is shown with a workspace does not grow with it; its list has all, page by page.
#[tokio::test]
async fn a_workspace_is_shown_with_a_thousand_members_at_most() {
    let house = House::new().await;
    let mut document = many("users", 1_005, |n| format!("{{email: 'u{n}@example.com', role: member}}"));
    document.push_str("members:\n");
    for n in 0..1_005 {
        writeln!(document, "- {{workspace: default, user: 'u{n}@example.com', role: member}}").expect("written");
    }
    use_configuration(&house.app, &document, BTreeMap::new(), IMPORT).await.expect("imported");
    let admin = house.as_admin();
    for path in ["/admin/workspaces/default", "/workspaces/default"] {
        assert_eq!(admin.get(path).await.expect(200)["users"].as_array().map(Vec::len), Some(1_000), "{path}");
    }
    let listed = admin.get("/admin/workspaces/default/users?page_size=1000&current_page=1").await.expect(200);
    assert_eq!((&listed["total"], listed["data"].as_array().map(Vec::len)), (&json!(1_005), Some(5)));
}

/// Everything that the Admin API shows, with names in the place of ids and no times: what one gateway cannot know of
/// another.
async fn shown(house: &House) -> BTreeMap<String, Value> {
    let admin = house.as_admin();
    let mut ids: HashMap<String, String> = HashMap::new();
    let mut all = BTreeMap::new();
    let workspaces = admin.get("/admin/workspaces").await.expect(200);
    let slugs: Vec<String> = workspaces["data"].as_array().expect("rows").iter().map(|w| text(&w["slug"])).collect();
    let org = house.org().id.to_string();
    let mut lists: Vec<String> = [
        "/integrations",
        "/secret-references",
        "/deployments",
        "/oauth-clients",
        "/plugins",
        "/mcp-integrations",
        "/agent-integrations",
        "/admin/users",
        "/admin/workspaces",
        "/api-keys",
    ]
    .map(str::to_owned)
    .to_vec();
    lists.push(format!("/guardrails?organisation_id={org}"));
    lists.push(format!("/alerts?organisation_id={org}"));
    for kind in [
        "providers",
        "configs",
        "guardrails",
        "prompts",
        "prompts/partials",
        "collections",
        "labels",
        "mcp-servers",
        "agent-servers",
        "policies/rate-limits",
        "policies/usage-limits",
        "alerts",
        "api-keys",
    ] {
        lists.extend(slugs.iter().map(|slug| format!("/{kind}?workspace_id={slug}")));
    }
    lists.extend(slugs.iter().map(|slug| format!("/admin/workspaces/{slug}/users")));
    for path in lists {
        let rows = admin.get(&path).await.expect(200)["data"].as_array().expect("rows").clone();
        for row in rows {
            let Some(id) = row["id"].as_str() else { continue };
            // Keys of one name are told apart by what is shown of them.
            let parts =
                ["slug", "email", "partner", "name", "key"].map(|f| row[f].as_str().unwrap_or_default().to_owned());
            let name = parts.join("|");
            ids.insert(id.to_owned(), name.clone());
            let (list, query) = path.split_once('?').unwrap_or((&path, ""));
            let whole =
                admin.get(&format!("{list}/{id}?{}", query.replace(&format!("organisation_id={org}"), ""))).await;
            let whole = if whole.status == 200 { whole.json() } else { row };
            all.insert(format!("{path} {name}").replace(&org, "ours"), whole);
        }
    }
    for below in ["models", "workspaces"] {
        let path = format!("/integrations/openai/{below}");
        all.insert(path.clone(), admin.get(&path).await.expect(200));
    }
    for path in [
        "/admin/organisation",
        "/admin/organisation/defaults",
        "/mcp-integrations/m-int/capabilities",
        "/mcp-servers/m-srv/user-access?workspace_id=default",
        "/agent-integrations/a-int/workspaces",
        "/agent-integrations/a-int/skills",
        "/agent-integrations/a-int/capabilities",
        "/agent-servers/a-srv/skills?workspace_id=default",
        "/agent-servers/a-srv/capabilities?workspace_id=default",
        "/agent-servers/a-srv/user-access?workspace_id=default",
        "/workspace-exclusions/input-guardrails",
    ] {
        all.insert(path.to_owned(), admin.get(path).await.expect(200));
    }
    for value in all.values_mut() {
        name_all(value, &ids);
    }
    all
}

fn name_all(value: &mut Value, ids: &HashMap<String, String>) {
    match value {
        Value::String(text) if text.parse::<uuid::Uuid>().is_ok() => {
            *text = ids.get(text).cloned().unwrap_or_else(|| "an id".to_owned());
        }
        Value::String(text) if text.len() >= 20 && text.ends_with('Z') && text.as_bytes()[4] == b'-' => {
            "a time".clone_into(text);
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| name_all(item, ids));
            // Lists of things that have no order of their own come by the time of their making.
            if items.iter().all(Value::is_object) {
                items.sort_by_key(Value::to_string);
            }
        }
        Value::Object(fields) => {
            // It may be told by slug as by id.
            if let Some(Value::String(config)) = fields.get_mut("config_id") {
                *config = ids.get(config).unwrap_or(config).split('|').next().unwrap_or_default().to_owned();
            }
            // Who made it, and what the answer itself is called.
            for name in ["etag", "owner_id", "updated_by", "created_by", "creation_mode", "invited_by"] {
                fields.remove(name);
            }
            fields.values_mut().for_each(|field| name_all(field, ids));
        }
        _ => {}
    }
}

#[tokio::test]
async fn what_a_document_carries_is_shown_the_same_by_the_api() {
    let house = furnished().await;
    let (document, names) = exported(&house).await;
    let empty = House::empty().await;
    use_configuration(&empty.app, &document, secrets(&names), IMPORT).await.expect("imported");
    let (there, here) = (shown(&house).await, shown(&empty).await);
    assert_eq!(there.keys().collect::<Vec<_>>(), here.keys().collect::<Vec<_>>());
    assert!(there.len() > 30, "{} things are compared", there.len());
    for (what, value) in &there {
        assert_eq!(&here[what], value, "{what}");
    }
}
