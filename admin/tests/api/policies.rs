//! Rate-limit policies: rules, filters, what is fixed, and archiving instead of deleting.

use crate::harness::{House, list, merge, text};
use gateway_admin::Counting;
use serde_json::{Value, json};

fn policy(fields: Value) -> Value {
    let mut body = json!({"name": "Per key", "type": "requests", "unit": "rpm", "value": 10,
        "conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "api_key"}]});
    merge(&mut body, fields);
    body
}

const PATH: &str = "/policies/rate-limits";

async fn make(house: &House, fields: Value) -> String {
    text(&house.as_admin().post(PATH, policy(fields)).await.expect(200)["id"])
}

fn in_force(house: &House) -> Vec<u64> {
    let snapshot = house.app.live.snapshot();
    let workspace = snapshot.workspace(house.default_workspace()).expect("the default one");
    workspace.policies().values().map(|p| p.rule.value).collect()
}

#[tokio::test]
async fn a_policy_lives_from_create_to_archive() {
    let house = House::new().await;
    let admin = house.as_admin();
    let id = make(&house, json!({})).await;
    let path = format!("{PATH}/{id}");
    let read = admin.get(&path).await.expect(200);
    for (field, value) in [
        ("name", json!("Per key")),
        ("target", json!("llm")),
        ("type", json!("requests")),
        ("unit", json!("rpm")),
        ("value", json!(10)),
        ("conditions", json!([{"key": "api_key", "value": "*"}])),
        ("group_by", json!([{"key": "api_key"}])),
        ("status", json!("active")),
        ("object", json!("policy")),
        ("slug", json!("per-key")),
        ("workspace_id", json!(house.default_workspace())),
    ] {
        assert_eq!(read[field], value, "{field}");
    }
    let change =
        json!({"value": 20.0, "unit": "rph", "conditions": [{"key": "model", "value": ["a", "b"]}], "name": null});
    assert_eq!(admin.put(&path, change).await.expect(200), json!({}));
    let read = admin.get(&path).await.expect(200);
    assert_eq!((&read["value"], &read["unit"], &read["name"]), (&json!(20), &json!("rph"), &Value::Null));
    assert_eq!(read["conditions"], json!([{"key": "model", "value": ["a", "b"]}]));
    assert_eq!(in_force(&house), [20]);

    admin.delete(&path).await.expect(200);
    assert_eq!(in_force(&house), [0u64; 0]);
    admin.get(&path).await.refused(404, "AB08");
    assert_eq!(admin.get(&format!("{path}?status=archived")).await.expect(200)["status"], "archived");
    admin.put(&path, json!({"status": "active"})).await.expect(200);
    assert_eq!(in_force(&house), [20]);
}

#[tokio::test]
async fn what_is_fixed_stays_fixed() {
    let house = House::new().await;
    let path = format!("{PATH}/{}", make(&house, json!({})).await);
    for (field, value) in [("target", json!("mcp_tools")), ("type", json!("tokens")), ("group_by", json!([]))] {
        let said = house.as_admin().put(&path, json!({field: value})).await.refused(400, "AB01");
        assert!(said.starts_with(&format!("{field} cannot be changed after creation")), "{said}");
    }
    let same = json!({"target": "llm", "type": "requests", "group_by": [{"key": "api_key"}], "value": 3});
    house.as_admin().put(&path, same).await.expect(200);
    house.as_admin().put(&path, json!({"status": "gone"})).await.refused(400, "AB01");
    house.as_admin().put(&path, json!({"value": 0})).await.refused(400, "AB01");
    assert_eq!(in_force(&house), [3]);
}

#[tokio::test]
async fn broken_bodies_are_named() {
    let house = House::new().await;
    for (fields, says) in [
        (json!({"value": 0}), "value must be at least 1"),
        (json!({"value": 1.5}), "value must be an integer"),
        (json!({"value": "5"}), "value must be an integer"),
        (json!({"unit": "rps"}), "unit must be one of rpm, rph, rpd, rpw"),
        (json!({"unit": "rpc"}), "unit must be one of"),
        (json!({"type": "money"}), "type must be one of requests, tokens"),
        (json!({"target": "all"}), "target must be one of llm, mcp_tools"),
        // What a call to a model has, a tool call has not.
        (
            json!({"target": "mcp_tools", "conditions": [{"key": "model", "value": "*"}], "group_by": []}),
            "conditions[0].key must be metadata.<key> or one of api_key, workspace_id, mcp_server, mcp_tool",
        ),
        (json!({"target": "mcp_tools", "group_by": [{"key": "prompt"}]}), "group_by[0].key must be"),
        (json!({"conditions": []}), "conditions must hold at least 1 item"),
        (json!({"conditions": null}), "conditions must be an array"),
        (
            json!({"conditions": [{"key": "colour", "value": "x"}]}),
            "conditions[0].key must be metadata.<key> or one of",
        ),
        (json!({"conditions": [{"key": "model"}]}), "conditions[0].value is required"),
        (json!({"conditions": [{"key": "model", "value": 5}]}), "conditions[0].value has a type"),
        (
            json!({"conditions": [{"key": "api_key", "value": ["*", "my-key"]}]}),
            "conditions[0].value must hold ids of API keys of this workspace, or *",
        ),
        (
            json!({"conditions": [{"key": "workspace_id", "excludes": "nowhere"}]}),
            "conditions[0].excludes must hold ids or slugs of workspaces, or *",
        ),
        (
            json!({"conditions": [{"key": "model", "value": "x".repeat(256)}]}),
            "conditions[0].value must be at most 255",
        ),
        (json!({"group_by": [{"key": "mcp_tool"}]}), "group_by[0].key must be"),
        (json!({"group_by": [{"key": "model", "value": "x"}]}), "group_by[0].value is not a known field"),
        (
            json!({"conditions": [{"key": "model", "value": "*", "exclude": "x"}]}),
            "conditions[0].exclude is not a known field",
        ),
        (json!({"description": "x".repeat(501)}), "description must be at most 500"),
        (json!({"name": "x".repeat(256)}), "name must be at most 255"),
        (json!({"colour": "red"}), "colour is not a known field"),
    ] {
        let said = house.as_admin().post(PATH, policy(fields.clone())).await.refused(400, "AB01");
        assert!(said.contains(says), "{fields}: {said}");
    }
    assert_eq!(house.as_admin().get(PATH).await.expect(200)["total"], 0);
}

#[tokio::test]
async fn policies_of_tool_calls_are_kept_and_told_apart() {
    let house = House::new().await;
    let admin = house.as_admin();
    let of_tools = json!({
        "target": "mcp_tools", "conditions": [{"key": "mcp_server", "value": "files", "excludes": "mail"}],
        "group_by": [{"key": "mcp_tool"}, {"key": "metadata._user"}],
    });
    let tools = make(&house, of_tools).await;
    let llm = make(&house, json!({"conditions": [{"key": "prompt", "value": "*"}]})).await;
    for (target, id) in [("mcp_tools", &tools), ("llm", &llm)] {
        let list = admin.get(&format!("{PATH}?target={target}")).await.expect(200);
        let found: Vec<_> = list["data"].as_array().into_iter().flatten().map(|p| (&p["id"], &p["target"])).collect();
        assert_eq!(found, [(&json!(id), &json!(target))]);
        assert_eq!(admin.get(&format!("{PATH}/{id}")).await.expect(200)["target"], target);
    }
    let said = admin.put(&format!("{PATH}/{tools}"), json!({"target": "llm"})).await.refused(400, "AB01");
    assert!(said.starts_with("target cannot be changed after creation"), "{said}");
    admin.get(&format!("{PATH}?target=all")).await.refused(400, "AB01");
}

#[tokio::test]
async fn conditions_name_keys_of_the_workspace() {
    let house = House::new().await;
    let other = house.workspace("other").await;
    let (foreign, _) = house.key("workspace/service", json!({"scopes": [], "workspace_id": other})).await;
    let (own, _) = house.key("workspace/service", json!({"scopes": []})).await;
    let names = |key: &str| json!([{"key": "api_key", "excludes": key}]);
    for dangling in [&foreign, "0194f1f2-0000-7000-8000-000000000000"] {
        let body = policy(json!({"conditions": names(dangling)}));
        let said = house.as_admin().post(PATH, body).await.refused(400, "AB01");
        assert!(said.starts_with("conditions[0].excludes must hold ids of API keys of this workspace"), "{said}");
    }
    let path = format!("{PATH}/{}", make(&house, json!({"conditions": names(&own)})).await);
    house.as_admin().put(&path, json!({"conditions": names(&foreign)})).await.refused(400, "AB01");
    // A key can always be taken out of use; the policy can still be sent back as it was.
    house.as_admin().delete(&format!("/api-keys/{own}")).await.expect(200);
    house.as_admin().put(&path, json!({"conditions": names(&own), "value": 7})).await.expect(200);
}

#[tokio::test]
async fn a_workspace_named_by_its_slug_is_matched_by_its_id() {
    let house = House::new().await;
    let id = make(&house, json!({"conditions": [{"key": "workspace_id", "value": ["default", "*"]}]})).await;
    let read = house.as_admin().get(&format!("{PATH}/{id}")).await.expect(200);
    assert_eq!(read["conditions"][0]["value"], json!([house.default_workspace(), "*"]));
}

#[tokio::test]
async fn lists_are_sifted() {
    let house = House::new().await;
    make(&house, json!({"name": "a"})).await;
    make(&house, json!({"name": "b", "unit": "tpd"})).await;
    let gone = make(&house, json!({"name": "c"})).await;
    house.as_admin().delete(&format!("{PATH}/{gone}")).await.expect(200);
    let named = async |query: &str| {
        let path = format!("{PATH}?{query}");
        list(&house.as_admin().get(&path).await.expect(200), "name")
    };
    assert_eq!(named("").await, ["b", "a"]);
    assert_eq!(named("unit=rpd").await, ["b"]);
    assert_eq!(named("unit=tpd").await, ["b"]);
    assert_eq!(named("type=requests&target=llm&page_size=1&current_page=1").await, ["a"]);
    assert_eq!(named("type=tokens").await, [""; 0]);
    assert_eq!(named("status=archived").await, ["c"]);
    for query in ["unit=rps", "type=x", "status=gone", "target=all", "page_size=1001"] {
        house.as_admin().get(&format!("{PATH}?{query}")).await.refused(400, "AB01");
    }
}

#[tokio::test]
async fn a_policy_says_what_becomes_of_it_while_counts_are_not_shared() {
    let house = House::new().await;
    let admin = house.as_admin();
    let path = format!("{PATH}/{}", make(&house, json!({})).await);
    assert_eq!(admin.get(&path).await.expect(200)["fail_mode"], "local");
    admin.put(&path, json!({"fail_mode": "open"})).await.expect(200);
    assert_eq!(admin.get(&path).await.expect(200)["fail_mode"], "open");
    let said = admin.put(&path, json!({"fail_mode": "shut"})).await.refused(400, "AB01");
    assert!(said.contains("fail_mode"), "{said}");
    admin.put(&path, json!({"fail_mode": "closed"})).await.expect(200);
    // Nothing makes several nodes without Redis count exactly.
    *house.process.counting.lock().expect("unpoisoned") = Counting::Divided;
    let said = admin.post(PATH, policy(json!({"fail_mode": "closed"}))).await.refused(400, "AB01");
    assert!(said.contains("fail_mode") && said.contains("--redis-url"), "{said}");
    admin.put(&path, json!({"value": 30})).await.refused(400, "AB01");
    admin.put(&path, json!({"fail_mode": null})).await.expect(200);
    assert_eq!(admin.get(&path).await.expect(200)["fail_mode"], "local");
}
