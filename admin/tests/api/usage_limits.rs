//! Usage-limit policies: rules, filters, what is fixed, what each group has used, and setting it back.

use crate::harness::{House, in_seconds, list, merge, text};
use gateway_domain::PolicyId;
use gateway_domain::ports::Holder;
use serde_json::{Value, json};

fn policy(fields: Value) -> Value {
    let mut body = json!({"name": "Per user", "type": "cost", "credit_limit": 10,
        "conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "metadata._user"}]});
    merge(&mut body, fields);
    body
}

const PATH: &str = "/policies/usage-limits";
const DAY: i64 = 86_400;

async fn make(house: &House, fields: Value) -> String {
    text(&house.as_admin().post(PATH, policy(fields)).await.expect(200)["id"])
}

fn in_force(house: &House) -> Vec<u64> {
    let snapshot = house.app.live.snapshot();
    let workspace = snapshot.workspace(house.default_workspace()).expect("the default one");
    workspace.usage_policies().values().map(|p| p.rule.budget.limit()).collect()
}

#[tokio::test]
async fn a_policy_lives_from_create_to_archive() {
    let house = House::new().await;
    let admin = house.as_admin();
    let id = make(&house, json!({"credit_limit": 10.5, "alert_threshold": 8, "periodic_reset": "weekly"})).await;
    let path = format!("{PATH}/{id}");
    let read = admin.get(&path).await.expect(200);
    for (field, value) in [
        ("name", json!("Per user")),
        ("target", json!("llm")),
        ("type", json!("cost")),
        ("credit_limit", json!(10.5)),
        ("alert_threshold", json!(8)),
        ("periodic_reset", json!("weekly")),
        ("periodic_reset_days", Value::Null),
        ("last_reset_at", Value::Null),
        ("conditions", json!([{"key": "api_key", "value": "*"}])),
        ("group_by", json!([{"key": "metadata._user"}])),
        ("status", json!("active")),
        ("object", json!("policy")),
        ("slug", json!("per-user")),
        ("workspace_id", json!(house.default_workspace())),
    ] {
        assert_eq!(read[field], value, "{field}");
    }
    assert!(text(&read["next_usage_reset_at"]).ends_with("T00:00:00.000Z"), "{read}");
    assert!(read.get("current_usage").is_none(), "each group has its own: {read}");
    assert_eq!(in_force(&house), [10_500_000_000]);

    let change = json!({"credit_limit": 20, "alert_threshold": null, "periodic_reset_days": 3,
        "conditions": [{"key": "model", "value": ["a", "b"]}], "name": null});
    assert_eq!(admin.put(&path, change).await.expect(200), json!({}));
    let read = admin.get(&path).await.expect(200);
    assert_eq!((&read["credit_limit"], &read["alert_threshold"]), (&json!(20), &Value::Null));
    assert_eq!((&read["periodic_reset"], &read["periodic_reset_days"]), (&Value::Null, &json!(3)));
    assert_eq!(in_force(&house), [20_000_000_000]);

    admin.delete(&path).await.expect(200);
    assert_eq!(in_force(&house), [0u64; 0]);
    admin.get(&path).await.refused(404, "AB08");
    assert_eq!(admin.get(&format!("{path}?status=archived")).await.expect(200)["status"], "archived");
    admin.put(&path, json!({"status": "active"})).await.expect(200);
    assert_eq!(in_force(&house), [20_000_000_000]);
}

#[tokio::test]
async fn what_is_fixed_stays_fixed() {
    let house = House::new().await;
    let path = format!("{PATH}/{}", make(&house, json!({})).await);
    for (field, value) in [("target", json!("mcp_tools")), ("type", json!("tokens")), ("group_by", json!([]))] {
        let said = house.as_admin().put(&path, json!({field: value})).await.refused(400, "AB01");
        assert!(said.starts_with(&format!("{field} cannot be changed after creation")), "{said}");
    }
    let same = json!({"target": "llm", "type": "cost", "group_by": [{"key": "metadata._user"}], "credit_limit": 3});
    house.as_admin().put(&path, same).await.expect(200);
    assert_eq!(in_force(&house), [3_000_000_000]);
}

#[tokio::test]
async fn broken_bodies_are_named() {
    let house = House::new().await;
    for (fields, says) in [
        (json!({"credit_limit": 0}), "credit_limit must be at least 1"),
        (json!({"credit_limit": "5"}), "credit_limit must be a number"),
        (json!({"credit_limit": null}), "credit_limit must be a number"),
        (json!({"type": "tokens", "credit_limit": 99}), "credit_limit must be at least 100"),
        (json!({"type": "requests", "credit_limit": 1.5}), "credit_limit must be a whole number of requests"),
        (json!({"type": "money"}), "type must be one of cost, tokens, requests"),
        (json!({"target": "mcp_tools"}), "target must be llm"),
        (json!({"target": "all"}), "target must be one of llm, mcp_tools"),
        (json!({"alert_threshold": 10}), "alert_threshold must be less than credit_limit"),
        (json!({"alert_threshold": 0}), "alert_threshold must be at least 1"),
        (json!({"periodic_reset": "daily"}), "periodic_reset must be one of weekly, monthly"),
        (json!({"periodic_reset_days": 0}), "periodic_reset_days must be in 1..365"),
        (json!({"periodic_reset_days": 70_000}), "periodic_reset_days must be in 1..365"),
        (json!({"periodic_reset": "weekly", "periodic_reset_days": 2}), "periodic_reset_days must not stand beside"),
        (json!({"next_usage_reset_at": in_seconds(3 * DAY)}), "next_usage_reset_at needs periodic_reset"),
        (json!({"periodic_reset_days": 2, "next_usage_reset_at": in_seconds(-DAY)}), "next_usage_reset_at must be in"),
        (json!({"periodic_reset_days": 2, "next_usage_reset_at": "soon"}), "next_usage_reset_at must be an RFC 3339"),
        (json!({"conditions": []}), "conditions must hold at least 1 item"),
        (json!({"conditions": [{"key": "endpoint_type", "value": "chat"}]}), "conditions[0].key must be metadata"),
        (json!({"conditions": [{"key": "api_key", "value": "my-key"}]}), "conditions[0].value must hold ids"),
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
async fn a_chosen_reset_is_told_and_kept() {
    let house = House::new().await;
    let fields = json!({"periodic_reset_days": 10, "next_usage_reset_at": in_seconds(20 * DAY)});
    let path = format!("{PATH}/{}", make(&house, fields).await);
    let read = house.as_admin().get(&path).await.expect(200);
    assert_eq!(text(&read["next_usage_reset_at"]), format!("{}T00:00:00.000Z", &in_seconds(20 * DAY)[..10]));
    // What was read may be sent back.
    let mut back = read.clone();
    for field in ["id", "object", "slug", "organisation_id", "created_at", "last_updated_at", "last_reset_at"] {
        back.as_object_mut().expect("an object").shift_remove(field);
    }
    house.as_admin().put(&path, back).await.expect(200);
    house.as_admin().put(&path, json!({"periodic_reset_days": null})).await.expect(200);
    assert_eq!(house.as_admin().get(&path).await.expect(200)["next_usage_reset_at"], Value::Null);
}

#[tokio::test]
async fn lists_are_sifted() {
    let house = House::new().await;
    make(&house, json!({"name": "a"})).await;
    make(&house, json!({"name": "b", "type": "tokens", "credit_limit": 100})).await;
    let gone = make(&house, json!({"name": "c"})).await;
    house.as_admin().delete(&format!("{PATH}/{gone}")).await.expect(200);
    let named = async |query: &str| {
        let path = format!("{PATH}?{query}");
        list(&house.as_admin().get(&path).await.expect(200), "name")
    };
    assert_eq!(named("").await, ["b", "a"]);
    assert_eq!(named("type=tokens").await, ["b"]);
    assert_eq!(named("target=llm&page_size=1&current_page=1").await, ["a"]);
    assert_eq!(named("target=mcp_tools").await, [""; 0]);
    assert_eq!(named("status=archived").await, ["c"]);
    for query in ["type=x", "status=gone", "target=all", "page_size=1001", "include_usage=maybe"] {
        house.as_admin().get(&format!("{PATH}?{query}")).await.refused(400, "AB01");
    }
}

#[tokio::test]
async fn what_groups_have_used_is_told_and_set_back() {
    let house = House::new().await;
    let admin = house.as_admin();
    let id = make(&house, json!({})).await;
    let path = format!("{PATH}/{id}");
    let holder = Holder::Policy(PolicyId(id.parse().expect("an id")));
    house.counters.put(holder, "metadata._user:alice", 2_500_000_000, false);
    house.counters.put(holder, "metadata._user:bob", 10_000_000_000, true);
    house.counters.put(holder, "metadata._user:carol", 0, false);

    let all = admin.get(&format!("{path}/entities")).await.expect(200);
    assert_eq!(all["total"], 3);
    assert_eq!(
        all["data"][0],
        json!({"id": "e0", "value_key": "metadata._user:alice", "current_usage": 2.5,
        "status": "active", "last_reset_at": null})
    );
    let named =
        async |query: &str| list(&admin.get(&format!("{path}/entities?{query}")).await.expect(200), "value_key");
    assert_eq!(named("status=exhausted").await, ["metadata._user:bob"]);
    assert_eq!(named("search=alice").await, ["metadata._user:alice"]);
    assert_eq!(named("page_size=1&current_page=2").await, ["metadata._user:carol"]);
    for query in ["status=archived", "page_size=101", "current_page=x"] {
        admin.get(&format!("{path}/entities?{query}")).await.refused(400, "AB01");
    }
    let read = admin.get(&format!("{path}?include_usage=true")).await.expect(200);
    assert_eq!(read["value_key_usage_map"]["metadata._user:bob"]["status"], "exhausted", "{read}");
    assert!(admin.get(&path).await.expect(200).get("value_key_usage_map").is_none());

    admin.put(&format!("{path}/entities/e1/reset"), json!({})).await.expect(200);
    admin.put(&format!("{path}/entities/e1/reset"), json!({})).await.refused(404, "AB08");
    admin.put(&path, json!({"reset_usage_for_value": "metadata._user:alice"})).await.expect(200);
    let said = admin.put(&path, json!({"reset_usage_for_value": "metadata._user:dave"})).await.refused(400, "AB01");
    assert!(said.starts_with("reset_usage_for_value names no value"), "{said}");
    admin.put(&path, json!({"credit_limit": 30, "reset_usage_for_value": "metadata._user:carol"})).await.expect(200);
    assert_eq!(admin.get(&format!("{path}/entities")).await.expect(200)["total"], 0);
    assert_eq!(in_force(&house), [30_000_000_000]);

    let trail = admin
        .get(&format!(
            "/audit-logs?organisation_id={}&start_time=2020-01-01&end_time=2100-01-01&resource_type=usage_limit_policy&response_status_code=200",
            house.org().id
        ))
        .await
        .expect(200);
    assert_eq!(trail["total"], 5, "create, two resets alone, change with its reset: {trail}");
}

#[tokio::test]
async fn policies_of_others_are_not_there() {
    let house = House::new().await;
    let other = house.organisation("other").await;
    let path = format!("{PATH}/{}", make(&house, json!({})).await);
    for path in [path.clone(), format!("{path}/entities")] {
        house.with(&other).get(&path).await.refused(404, "AB08");
    }
    house.with(&other).put(&format!("{path}/entities/e0/reset"), json!({})).await.refused(404, "AB08");
    house.with(&other).put(&path, json!({"credit_limit": 1})).await.refused(404, "AB08");
    house.with(&other).delete(&path).await.refused(404, "AB08");
    assert_eq!(in_force(&house), [10_000_000_000]);
}
