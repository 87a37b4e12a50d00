//! Tokens on the Admin API: they act as a key of their workspace and read only; and the settings that make
//! their issuers known.

use crate::harness::{House, text};
use serde_json::{Value, json};

const ORG: &str = "/admin/organisation";

#[tokio::test]
async fn a_token_reads_in_its_workspace_and_changes_nothing() {
    let house = House::new().await;
    house.workspace("other").await;
    let config = json!({"name": "c", "config": {"provider": "openai", "api_key": "k"}});
    house.as_admin().post("/configs", config.clone()).await.expect(200);
    let all = "eyJ.configs:list,configs:read,configs:create,audit_logs:list,organisation_settings:read.default";
    let seen = house.with(all).get("/configs").await.expect(200);
    assert_eq!(seen["data"].as_array().map(Vec::len), Some(1));
    let elsewhere = house.with("eyJ.configs:list.other").get("/configs").await.expect(200);
    assert_eq!(elsewhere["data"], json!([]));
    // What it names beyond reading in a workspace it does not get.
    house.with(all).post("/configs", config).await.refused(403, "AB03");
    house.with(all).get("/audit-logs").await.refused(403, "AB03");
    house.with(all).get(ORG).await.refused(403, "AB03");
    house
        .with("eyJ.configs:list.default")
        .get(&format!("/configs/{}", text(&seen["data"][0]["id"])))
        .await
        .refused(403, "AB03");
    let said = house.with("eyJ.configs:list.nowhere").get("/configs").await.refused(403, "AB03");
    assert!(said.contains("workspace of the token"), "{said}");
    house.with("eyJ.unknown.default").get("/configs").await.refused(401, "AB05");
    house.with("eyJ.one").get("/configs").await.refused(401, "AB05");
}

#[tokio::test]
async fn issuers_are_set_as_documented() {
    let house = House::new().await;
    let admin = house.as_admin();
    let set =
        json!({"keys": [{"kty": "RSA", "kid": "a", "n": "gA".to_owned() + &"AB".repeat(170) + "A", "e": "AQAB"}]});
    let uris = "https://a.example.com/keys, https://b.example.com/keys?t=1,https://a.example.com/keys";
    admin.put(ORG, json!({"jwks_uris": uris, "jwks": set})).await.expect(200);
    let two = house.beside().await;
    let read = two.as_admin().get(ORG).await.expect(200);
    assert_eq!(read["jwks_uris"], json!(["https://a.example.com/keys", "https://b.example.com/keys?t=1"]));
    assert_eq!(text(&read["jwks"]["keys"][0]["kid"]), "a");
    let trust = two.org().trust.clone().expect("in force");
    assert_eq!((trust.uris.len(), trust.inline.is_empty()), (2, false));
    let private = json!({"keys": [{"kty": "RSA", "kid": "a", "n": "AQ", "e": "AQAB", "d": "AQ"}]});
    for (body, says) in [
        (json!({"jwks_uris": 1}), "jwks_uris must be an array of URLs"),
        (json!({"jwks_uris": [1]}), "jwks_uris must be an array of URLs"),
        (json!({"jwks_uris": "ftp://a.example.com"}), "jwks_uris holds `ftp://a.example.com`, which"),
        (json!({"jwks_uris": "https://169.254.169.254/k"}), "jwks_uris holds `https://169.254.169.254/k`, which"),
        (json!({"jwks_uris": "https://127.0.0.1/k"}), "jwks_uris holds `https://127.0.0.1/k`, which"),
        (
            json!({"jwks_uris": (0..11).map(|i| format!("https://a{i}.example.com")).collect::<Vec<_>>()}),
            "jwks_uris must hold at most 10 URLs",
        ),
        (json!({"jwks": []}), "jwks must be a key set"),
        (json!({"jwks": {"keys": [{"kty": "EC", "kid": "a"}]}}), "jwks holds no key with a kid"),
        (json!({"jwks": private}), "jwks must hold public keys only"),
    ] {
        let said = admin.put(ORG, body.clone()).await.refused(400, "AB01");
        assert!(said.contains(says), "{body}: {said}");
    }
    admin.put(ORG, json!({"jwks_uris": null, "jwks": null})).await.expect(200);
    let read = admin.get(ORG).await.expect(200);
    assert_eq!((&read["jwks_uris"], &read["jwks"]), (&json!([]), &Value::Null));
    assert!(house.org().trust.is_none());
}
