//! OAuth clients that admins make, on the Admin API: what is refused, and how many there may be. What they open is
//! tested with the whole program.

use crate::harness::{House, text};
use gateway_domain::resource::oauth_client::MadeClient;
use serde_json::{Value, json};

#[tokio::test]
async fn what_is_no_client_is_refused_by_field_and_rule() {
    let house = House::new().await;
    let admin = house.as_admin();
    let good = json!({"name": "App", "slug": "app", "type": "public", "redirect_uris": ["https://app.example.com/cb"]});
    for (field, value, rule) in [
        ("name", json!(""), "name must not be empty"),
        ("slug", json!("a b"), "slug may hold"),
        ("type", json!("secret"), "type must be one of public, confidential"),
        ("type", Value::Null, "type"),
        ("redirect_uris", json!([]), "redirect_uris must hold 1..20"),
        ("redirect_uris", json!(vec!["https://a.example/"; 21]), "redirect_uris must hold 1..20"),
        ("redirect_uris", json!(["https://a.example/", "http://app.example.com/cb"]), "redirect_uris[1] must be https"),
        ("redirect_uris", json!(["javascript:alert(1)"]), "redirect_uris[0]"),
        ("scope", json!("mcp:all"), "scope must be of mcp"),
        ("scope", json!(""), "scope must be of mcp"),
        ("description", json!("x".repeat(1_001)), "description must be at most 1000"),
        ("client_secret", json!("mine"), "client_secret is not a known field"),
    ] {
        let mut body = good.clone();
        body[field] = value;
        let answer = admin.post("/oauth-clients", body).await;
        assert!(answer.status == 400 && answer.text.contains(rule), "{field}: {}", answer.text);
    }
    admin.post("/oauth-clients", good.clone()).await.expect(200);
    admin.post("/oauth-clients", good).await.expect(409);
    for body in [json!({"type": "confidential"}), json!({"redirect_uris": null}), json!({"name": null})] {
        admin.put("/oauth-clients/app", body).await.expect(400);
    }
}

#[tokio::test]
async fn a_secret_is_shown_once_and_an_organisation_has_so_many_clients() {
    let house = House::new().await;
    let admin = house.as_admin();
    let body =
        |n: usize, kind: &str| json!({"name": format!("n{n}"), "type": kind, "redirect_uris": ["http://127.0.0.1/cb"]});
    let made = admin.post("/oauth-clients", body(0, "confidential")).await.expect(200);
    let secret = text(&made["client_secret"]);
    assert!(secret.starts_with("gwc_") && secret.len() == 47 && made["client_id"] == made["id"], "{made}");
    let public = admin.post("/oauth-clients", body(1, "public")).await.expect(200);
    assert!(public["client_secret"].is_null(), "{public}");
    admin.put("/oauth-clients/n0", json!({"name": "renamed"})).await.expect(200);
    for path in ["/oauth-clients", "/oauth-clients/n0", "/configuration", "/audit-logs"] {
        assert!(!admin.get(path).await.text.contains(&secret), "{path}");
    }
    for n in 2..MadeClient::MOST {
        admin.post("/oauth-clients", body(n, "public")).await.expect(200);
    }
    let told = admin.post("/oauth-clients", body(1_000, "public")).await;
    assert!(told.status == 409 && told.text.contains("may have 200"), "{}", told.text);
    admin.delete("/oauth-clients/n1").await.expect(200);
    admin.post("/oauth-clients", body(1_000, "public")).await.expect(200);
    let kept = house.at_rest().await;
    assert!(!kept.windows(secret.len()).any(|w| w == secret.as_bytes()), "it is in the database");
}
