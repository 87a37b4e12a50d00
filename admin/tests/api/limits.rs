//! Rate limits and budgets of keys, workspaces, providers, virtual keys and integrations: what may be set, what
//! comes back, and what the hot path reads.

use crate::harness::{House, text};
use gateway_domain::keys::KeyHash;
use gateway_domain::ports::Holder;
use gateway_domain::resource::limits::ResourceLimits;
use gateway_domain::{IntegrationId, KeyId, WorkspaceId};
use serde_json::{Value, json};
use std::sync::Arc;

fn rates(limits: Option<&Arc<ResourceLimits>>) -> Vec<u64> {
    limits.map(|l| l.rate_limits.iter().map(|r| r.value).collect()).unwrap_or_default()
}

fn budgets(limits: Option<&Arc<ResourceLimits>>) -> Vec<u64> {
    limits.map(|l| l.usage_limits.iter().map(|b| b.limit()).collect()).unwrap_or_default()
}

#[tokio::test]
async fn a_key_is_limited() {
    let house = House::new().await;
    let admin = house.as_admin();
    let fields = json!({"scopes": ["completions.write"],
        "rate_limits": [{"type": "requests", "unit": "rps", "value": 5}, {"type": "tokens", "unit": "rpm", "value": 0}],
        "usage_limits": {"credit_limit": 5.5, "type": "cost", "alert_threshold": 2, "periodic_reset": "monthly"}});
    let (id, key) = house.key("workspace/service", fields).await;
    let read = admin.get(&format!("/api-keys/{id}")).await.expect(200);
    assert_eq!(read["rate_limits"][1], json!({"type": "tokens", "unit": "rpm", "value": 0}));
    let budget = &read["usage_limits"];
    assert_eq!((&budget["credit_limit"], &budget["alert_threshold"]), (&json!(5.5), &json!(2)));
    assert_eq!((&budget["periodic_reset"], &budget["current_usage"]), (&json!("monthly"), &json!(0)));
    assert!(text(&budget["next_usage_reset_at"]).ends_with("-01T00:00:00.000Z"), "{budget}");
    let in_force = |house: &House| {
        let snapshot = house.app.live.snapshot();
        let key = snapshot.key(&KeyHash::of(&key)).expect("in force").clone();
        (rates(key.limits.as_ref()), budgets(key.limits.as_ref()))
    };
    assert_eq!(in_force(&house), (vec![5, 0], vec![5_500_000_000]));

    // What was used is told, and set back when asked.
    let holder = Holder::Key(KeyId(id.parse().expect("an id")));
    house.counters.put(holder, "", 5_500_000_000, true);
    let path = format!("/api-keys/{id}");
    for read in [admin.get(&path).await.expect(200), admin.get(&format!("/api-keys?ids={id}")).await.expect(200)] {
        let read = read.get("data").map_or(&read, |d| &d[0]);
        assert_eq!((&read["status"], &read["usage_limits"]["status"]), (&json!("exhausted"), &json!("exhausted")));
        assert_eq!(read["usage_limits"]["current_usage"], 5.5);
    }
    let own = house.with(&key).get("/api-keys/self/details").await.expect(200);
    assert_eq!(own["usage_limits"]["current_usage"], 5.5, "a key sees what it has used");
    admin.put(&path, json!({"reset_usage": true})).await.expect(200);
    let read = admin.get(&path).await.expect(200);
    assert_eq!((&read["status"], &read["usage_limits"]["current_usage"]), (&json!("active"), &json!(0)));

    // Absent keeps, null clears; parts of a budget are kept too.
    admin.put(&path, json!({"name": "other", "usage_limits": {"credit_limit": 7}})).await.expect(200);
    assert_eq!(in_force(&house), (vec![5, 0], vec![7_000_000_000]));
    assert_eq!(admin.get(&path).await.expect(200)["usage_limits"]["periodic_reset"], "monthly");
    admin.put(&path, json!({"rate_limits": null})).await.expect(200);
    assert_eq!(in_force(&house), (vec![], vec![7_000_000_000]));
    admin.put(&path, json!({"usage_limits": null})).await.expect(200);
    assert_eq!(in_force(&house), (vec![], vec![]));
    assert_eq!(admin.get(&path).await.expect(200)["usage_limits"], Value::Null);
}

#[tokio::test]
async fn broken_limits_are_named() {
    let house = House::new().await;
    let (id, _) = house.key("workspace/service", json!({"scopes": ["completions.write"]})).await;
    let path = format!("/api-keys/{id}");
    let rate = json!({"type": "requests", "unit": "rpm", "value": 1});
    for (fields, says) in [
        (json!({"rate_limits": 5}), "rate_limits has a type"),
        (json!({"rate_limits": [{"type": "requests", "unit": "rpm"}]}), "rate_limits[0].value is required"),
        (json!({"rate_limits": [{"type": "cost", "unit": "rpm", "value": 1}]}), "rate_limits[0].type must be one of"),
        (json!({"rate_limits": [{"type": "requests", "unit": "rpx", "value": 1}]}), "rate_limits[0].unit must be"),
        (json!({"rate_limits": [{"type": "requests", "unit": "rpm", "value": -1}]}), "rate_limits[0].value must be"),
        (json!({"rate_limits": [rate, rate]}), "rate_limits[1] must differ"),
        (json!({"rate_limits": vec![rate.clone(); 11]}), "rate_limits must hold at most 10"),
        (json!({"usage_limits": "much"}), "usage_limits has a type"),
        (json!({"usage_limits": {"type": "cost"}}), "usage_limits.credit_limit is required"),
        (json!({"usage_limits": {"credit_limit": 0}}), "usage_limits.credit_limit must be at least 1"),
        (json!({"usage_limits": {"credit_limit": 5, "type": "requests"}}), "usage_limits.type must be one of cost"),
        (json!({"usage_limits": {"credit_limit": 5, "alert_threshold": 6}}), "usage_limits.alert_threshold must be"),
        (json!({"usage_limits": {"credit_limit": 5, "colour": 6}}), "usage_limits.colour is not a known field"),
        (
            json!({"usage_limits": {"credit_limit": 5, "periodic_reset_days": 400}}),
            "usage_limits.periodic_reset_days must be in 1..365",
        ),
        (json!({"reset_usage": "perhaps"}), "reset_usage must be true or false"),
    ] {
        let said = house.as_admin().put(&path, fields.clone()).await.refused(400, "AB01");
        assert!(said.starts_with(says), "{fields}: {said}");
    }
    let body = json!({"name": "a", "scopes": ["configs.list"], "rate_limits": [rate]});
    let said = house.as_admin().post("/api-keys/organisation/service", body).await.refused(400, "AB01");
    assert!(said.starts_with("rate_limits is of no use"), "{said}");
}

#[tokio::test]
async fn a_workspace_is_limited() {
    let house = House::new().await;
    let admin = house.as_admin();
    let body = json!({"name": "Team", "rate_limits": [{"type": "requests", "unit": "rpm", "value": 9}],
        "usage_limits": [{"credit_limit": 5}, {"credit_limit": 100, "type": "tokens", "periodic_reset": "weekly"}]});
    let id = text(&admin.post("/admin/workspaces", body).await.expect(200)["id"]);
    let path = format!("/admin/workspaces/{id}");
    let read = admin.get(&path).await.expect(200);
    assert_eq!(read["usage_limits"][1]["type"], "tokens");
    assert_eq!(read["rate_limits"][0]["value"], 9);
    let in_force = || {
        let snapshot = house.app.live.snapshot();
        let found = snapshot.workspace(WorkspaceId(id.parse().expect("an id"))).expect("in force").clone();
        (rates(found.limits.as_ref()), budgets(found.limits.as_ref()))
    };
    assert_eq!(in_force(), (vec![9], vec![5_000_000_000, 100]));
    let body = json!({"rate_limits": [{"type": "requests", "unit": "rps", "value": 9}]});
    admin.put(&path, body).await.refused(400, "AB01");
    // Those that a list leaves out are gone.
    admin.put(&path, json!({"usage_limits": [{"credit_limit": 200, "type": "tokens"}]})).await.expect(200);
    assert_eq!(in_force(), (vec![9], vec![200]));
    assert_eq!(admin.get(&path).await.expect(200)["usage_limits"][0]["periodic_reset"], "weekly");
    admin.put(&path, json!({"usage_limits": null, "rate_limits": []})).await.expect(200);
    assert_eq!(in_force(), (vec![], vec![]));
}

#[tokio::test]
async fn providers_and_virtual_keys_are_limited() {
    let house = House::new().await;
    let admin = house.as_admin();
    let body = json!({"name": "Open", "ai_provider_id": "openai", "key": "sk-1", "create_default_provider": false});
    let integration = text(&admin.post("/integrations", body).await.expect(200)["slug"]);
    let limits =
        json!({"usage_limits": {"credit_limit": 3}, "rate_limits": {"type": "tokens", "unit": "rpw", "value": 8}});
    let mut provider = json!({"name": "one", "integration_id": integration});
    let mut virtual_key = json!({"name": "two", "provider": "openai", "key": "sk-2"});
    crate::harness::merge(&mut provider, limits.clone());
    crate::harness::merge(&mut virtual_key, limits);
    for (all, body, slug) in [("/providers", provider, "one"), ("/virtual-keys", virtual_key, "two")] {
        admin.post(all, body).await.expect(200);
        let path = format!("{all}/{slug}");
        let read = admin.get(&path).await.expect(200);
        assert_eq!(read["rate_limits"], json!([{"type": "tokens", "unit": "rpw", "value": 8}]), "{all}");
        assert_eq!(read["usage_limits"]["credit_limit"], 3, "{all}");
        let in_force = || {
            let snapshot = house.app.live.snapshot();
            let workspace = snapshot.workspace(house.default_workspace()).expect("the default one");
            let provider = workspace.provider(slug).expect("in force").clone();
            (provider.id, rates(provider.limits.as_ref()), budgets(provider.limits.as_ref()))
        };
        let (id, rates, used) = in_force();
        assert_eq!((rates, used), (vec![8], vec![3_000_000_000]), "{all}");
        house.counters.put(Holder::Provider(id), "", 1_000_000_000, false);
        assert_eq!(admin.get(&path).await.expect(200)["usage_limits"]["current_usage"], 1, "{all}");
        admin.put(&path, json!({"usage_limits": {"credit_limit": 4}, "reset_usage": 1})).await.expect(200);
        assert_eq!(admin.get(&path).await.expect(200)["usage_limits"]["current_usage"], 0, "{all}");
        admin.put(&path, json!({"rate_limits": null, "usage_limits": null})).await.expect(200);
        let (_, rates, used) = in_force();
        assert_eq!((rates, used), (vec![], vec![]), "{all}");
    }
}

#[tokio::test]
async fn what_workspaces_take_from_an_integration_is_limited() {
    let house = House::new().await;
    let admin = house.as_admin();
    let team = house.workspace("team").await;
    let body = json!({"name": "Open", "slug": "open", "ai_provider_id": "openai", "key": "sk-1"});
    admin.post("/integrations", body).await.expect(200);
    let rate = |value: u64| json!([{"type": "requests", "unit": "rpm", "value": value}]);
    let path = "/integrations/open/workspaces";
    let body = json!({
        "workspaces": [{"id": "team", "enabled": true, "rate_limits": rate(3), "usage_limits": [{"credit_limit": 2}]}],
        "global_workspace_access": {"enabled": true, "rate_limits": rate(30)},
    });
    admin.put(path, body).await.expect(200);
    let read = admin.get(path).await.expect(200);
    assert_eq!(read["workspaces"][0]["rate_limits"], rate(3));
    assert_eq!(read["workspaces"][0]["usage_limits"][0]["credit_limit"], 2);
    assert_eq!(read["global_workspace_access"]["rate_limits"], rate(30));
    assert_eq!(read["global_workspace_access"]["usage_limits"], Value::Null);
    let shown = admin.get("/integrations/open").await.expect(200);
    assert_eq!(shown["global_workspace_access_settings"]["rate_limits"], rate(30));
    let upstream = || house.app.live.snapshot().upstream(house.integration_id("open")).expect("in force").clone();
    assert_eq!((rates(upstream().limits()), rates(upstream().limits_of(team))), (vec![30], vec![3]));

    let id: IntegrationId = house.integration_id("open");
    house.counters.put(Holder::Integration(id, Some(team)), "", 2_000_000_000, true);
    let read = admin.get(path).await.expect(200);
    assert_eq!(read["workspaces"][0]["usage_limits"][0]["status"], "exhausted", "{read}");
    let body = json!({"workspaces": [{"id": "team", "enabled": true, "reset_usage": true}]});
    admin.put(path, body).await.expect(200);
    let read = admin.get(path).await.expect(200);
    assert_eq!(read["workspaces"][0]["usage_limits"][0]["current_usage"], 0, "{read}");

    let broken = json!({"workspaces": [{"id": "team", "enabled": true, "rate_limits": [rate(1)[0], rate(2)[0]]}]});
    let said = admin.put(path, broken).await.refused(400, "AB01");
    assert!(said.starts_with("workspaces[0].rate_limits must hold at most 1"), "{said}");
    let broken = json!({"global_workspace_access": {"enabled": true, "usage_limits": [{"credit_limit": 0}]}});
    let said = admin.put(path, broken).await.refused(400, "AB01");
    assert!(said.starts_with("global_workspace_access.usage_limits.credit_limit must be"), "{said}");

    admin.put(path, json!({"workspaces": [], "override_existing_workspace_access": true})).await.expect(200);
    assert_eq!((rates(upstream().limits()), rates(upstream().limits_of(team))), (vec![30], vec![]));
}
