//! Credentials of partners: sealed, masked, changed field by field, and kept while a guardrail runs by them.

use crate::guardrails::save;
use crate::harness::{House, list, text};
use gateway_domain::Secret;
use serde_json::{Value, json};

/// What checks of a partner are given.
fn in_force(house: &House, partner: &str, name: &str) -> Option<String> {
    house.org().partners().get(partner)?.fields.get(name).map(|value: &Secret<String>| value.expose().clone())
}

#[tokio::test]
async fn credentials_are_saved_masked_and_changed_field_by_field() {
    let house = House::new().await;
    let admin = house.as_admin();
    let given = json!({"apiKey": "key-0123456789abcdef", "resourceName": "res", "azureEntraTenantId": "t"});
    let made = admin.post("/plugins", json!({"partner": "Azure", "credentials": given})).await.expect(200);
    assert_eq!(made["slug"], "azure");
    let read = admin.get("/plugins/azure").await.expect(200);
    assert_eq!((&read["object"], &read["partner"]), (&json!("plugin"), &json!("azure")));
    let shown = json!({"apiKey": "****cdef", "resourceName": "res", "azureEntraTenantId": "t"});
    assert_eq!(read["credentials"], shown);
    assert!(read.get("workspace_id").is_none());
    assert_eq!(admin.get(&format!("/plugins/{}", text(&made["id"]))).await.expect(200), read);
    assert_eq!(admin.get("/plugins").await.expect(200)["data"][0]["credentials"], shown);
    assert_eq!(in_force(&house, "azure", "apiKey").as_deref(), Some("key-0123456789abcdef"));

    let sent = json!({"apiKey": "****cdef", "resourceName": "other", "azureEntraTenantId": null});
    admin.put("/plugins/azure", json!({"credentials": sent})).await.expect(200);
    assert_eq!(in_force(&house, "azure", "apiKey").as_deref(), Some("key-0123456789abcdef"), "a mask keeps");
    assert_eq!(in_force(&house, "azure", "resourceName").as_deref(), Some("other"));
    assert_eq!(in_force(&house, "azure", "azureEntraTenantId"), None, "null clears");
    admin.put("/plugins/azure", json!({"credentials": {"apiKey": "key-new-0123456789"}})).await.expect(200);
    assert_eq!(in_force(&house, "azure", "apiKey").as_deref(), Some("key-new-0123456789"));
    assert_eq!(in_force(&house, "azure", "resourceName").as_deref(), Some("other"), "absent keeps");

    admin.post("/plugins", json!({"partner": "patronus", "credentials": {"apiKey": "k"}})).await.expect(200);
    assert_eq!(list(&admin.get("/plugins?page_size=1").await.expect(200), "partner"), ["patronus"]);
    admin.delete("/plugins/azure").await.expect(200);
    assert_eq!(in_force(&house, "azure", "apiKey"), None);
    admin.get("/plugins/azure").await.refused(404, "AB08");
}

#[tokio::test]
async fn what_no_partner_takes_is_refused_by_name() {
    let house = House::new().await;
    let admin = house.as_admin();
    let patronus = |credentials: Value| json!({"partner": "patronus", "credentials": credentials});
    for (body, says) in [
        (json!({"credentials": {}}), "partner is required"),
        (json!({"partner": "patronus"}), "credentials is required"),
        (json!({"partner": "nobody", "credentials": {}}), "partner must be one of: acuvity, aporia, azure"),
        (json!({"partner": "promptfoo", "credentials": {}}), "partner must be one of"),
        (patronus(json!({})), "credentials.apiKey is required"),
        (patronus(json!({"apiKey": ""})), "credentials.apiKey is required"),
        (patronus(json!({"apiKey": "k", "colour": "red"})), "credentials.colour is no credential of `patronus`"),
        (patronus(json!({"apiKey": ["k"]})), "credentials.apiKey must be a string"),
        (patronus(json!({"apiKey": "k\u{7}"})), "credentials.apiKey must not contain control characters"),
        (patronus(json!({"apiKey": "k".repeat(16_385)})), "credentials.apiKey must have at most 16384 bytes"),
        (patronus(json!({"apiKey": "****cdef"})), "is a masked value that stands for no stored one"),
        (
            json!({"partner": "pangea", "credentials": {"apiKey": "k", "domain": "a.example/x?y"}}),
            "credentials.domain must be the name of a host",
        ),
        (
            json!({"partner": "azure", "credentials": {"resourceName": "a.evil.example"}}),
            "credentials.resourceName must be letters, digits and hyphens",
        ),
        (
            json!({"partner": "patronus", "credentials": {"apiKey": "k"}, "workspace_id": "default"}),
            "workspace_id is not a known field",
        ),
    ] {
        let said = admin.post("/plugins", body.clone()).await.refused(400, "AB01");
        assert!(said.contains(says), "{body}: {said}");
    }
    admin.post("/plugins", patronus(json!({"apiKey": "k"}))).await.expect(200);
    let said = admin.post("/plugins", patronus(json!({"apiKey": "k"}))).await.refused(409, "AB07");
    assert_eq!(said, "a plugin with the slug `patronus` already exists");
    admin.put("/plugins/patronus", json!({"credentials": null})).await.refused(400, "AB01");
    admin.put("/plugins/patronus", json!({"credentials": {"apiKey": null}})).await.refused(400, "AB01");
    admin.put("/plugins/patronus", json!({"partner": "azure"})).await.refused(400, "AB01");
    house.as_service().get("/plugins").await.refused(403, "AB03");
}

#[tokio::test]
async fn what_a_guardrail_runs_by_is_not_taken_away() {
    let house = House::new().await;
    let admin = house.as_admin();
    let saved = json!({"partner": "patronus", "credentials": {"apiKey": "k"}});
    admin.post("/plugins", saved.clone()).await.expect(200);
    // Ids of checks ignore case.
    let moderated = json!([{"id": "Patronus.isPolite", "parameters": {}}]);
    let made = save(&house, json!({"checks": moderated})).await;
    let own = json!([{"id": "patronus.isPolite", "parameters": {"credentials": {"apiKey": "own"}}}]);
    save(&house, json!({"checks": own})).await;
    let inline = json!({"provider": "openai", "output_guardrails": [{"patronus.isPolite": {}}]});
    let config = admin.post("/configs", json!({"name": "c", "config": inline})).await.expect(200);
    let (guardrail, config) = (text(&made["slug"]), text(&config["slug"]));
    let said = admin.delete("/plugins/patronus").await.refused(409, "AB07");
    let users = format!("the guardrail `{guardrail}`, the config `{config}` of workspace `default`");
    assert_eq!(said, format!("these would not run any more: {users}"));
    admin.put("/plugins/patronus", json!({"credentials": {"apiKey": "changed"}})).await.expect(200);
    admin.delete(&format!("/configs/{config}")).await.expect(200);
    admin.delete(&format!("/guardrails/{guardrail}")).await.expect(200);
    admin.delete("/plugins/patronus").await.expect(200);
    let said = admin.post("/guardrails", json!({"name": "g", "checks": moderated})).await.refused(400, "AB01");
    assert!(said.contains("check `Patronus.isPolite`: `credentials.apiKey` is required"), "{said}");
}
