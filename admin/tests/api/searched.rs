//! Every list of things with names is searched by a part of one.

use crate::harness::{House, list};
use serde_json::{Value, json};

#[tokio::test]
async fn every_list_is_searched_by_a_part_of_a_name_or_slug() {
    let house = House::new().await;
    let admin = house.as_admin();
    let check = json!([{"id": "contains", "parameters": {"words": ["x"]}}]);
    let policy = |more: Value| {
        let mut body = json!({"name": "Wanted one", "conditions": [{"key": "api_key", "value": "*"}]});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    let made = [
        ("/integrations", json!({"name": "Wanted one", "ai_provider_id": "openai", "key": "k"})),
        ("/configs", json!({"name": "Wanted one", "config": {"provider": "openai"}})),
        ("/guardrails", json!({"name": "Wanted one", "checks": check})),
        ("/policies/rate-limits", policy(json!({"type": "requests", "unit": "rpm", "value": 1}))),
        ("/policies/usage-limits", policy(json!({"type": "cost", "credit_limit": 1}))),
        ("/admin/workspaces", json!({"name": "Wanted one"})),
    ];
    for (path, body) in &made {
        admin.post(path, body.clone()).await.expect(200);
        let mut other = body.clone();
        other["name"] = "Another".into();
        admin.post(path, other).await.expect(200);
    }
    for name in ["Wanted one", "Another"] {
        house.key("workspace/service", json!({"name": name, "scopes": []})).await;
    }
    let paths = made.iter().map(|(path, _)| *path).chain(["/providers", "/virtual-keys", "/api-keys", "/workspaces"]);
    for path in paths {
        let found = admin.get(&format!("{path}?search=WANTED&page_size=1")).await.expect(200);
        assert_eq!((&found["total"], list(&found, "name")), (&json!(1), vec!["Wanted one".to_owned()]), "{path}");
        assert_eq!(admin.get(&format!("{path}?search=nowhere")).await.expect(200)["total"], 0, "{path}");
    }
    admin.post("/plugins", json!({"partner": "patronus", "credentials": {"apiKey": "k"}})).await.expect(200);
    assert_eq!(admin.get("/plugins?search=PATRO").await.expect(200)["total"], 1);
    assert_eq!(admin.get("/plugins?search=azure").await.expect(200)["total"], 0);
    house.user("ann@example.com", "member", json!([]), None).await;
    for (search, total) in [("ann@", 1), ("Lee", 1), ("bob", 0)] {
        assert_eq!(admin.get(&format!("/admin/users?search={search}")).await.expect(200)["total"], total, "{search}");
    }
    // Keys of kinds that somebody may not list are not found either.
    let (_, narrow) = house.key("organisation/service", json!({"scopes": ["workspace_user_api_keys.list"]})).await;
    assert_eq!(house.with(&narrow).get("/api-keys?search=wanted").await.expect(200)["total"], 0);
}
