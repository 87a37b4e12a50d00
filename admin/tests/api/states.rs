//! States of single things: every answer about one has an entity tag, and a write that names a state is done in that
//! state or not at all, whichever node is asked.

use crate::harness::{ADMIN, Answer, House, text};
use axum::body::Body;
use gateway_admin::ClientAddr;
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};

/// A request with one header beside the key.
async fn with(house: &House, method: Method, path: &str, header: (&str, &str), body: Value) -> Answer {
    let request = Request::builder().method(method).uri(format!("/v1{path}")).header("x-gateway-api-key", ADMIN);
    let request = request.header(header.0, header.1).extension(ClientAddr(crate::harness::CLIENT));
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    house.send(request.body(body).expect("a request")).await
}

fn tag(answer: &Answer) -> String {
    let tag = answer.headers.get("etag").unwrap_or_else(|| panic!("no tag: {}", answer.text));
    let tag = tag.to_str().expect("text").to_owned();
    assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 2, "{tag} is not a strong tag");
    tag
}

/// One of each kind that is made over the API: where it lies, and a change of it.
async fn one_of_each(house: &House) -> Vec<(String, Value)> {
    let admin = house.as_admin();
    let rename = || json!({"name": "renamed"});
    let mut all = Vec::new();
    let config = json!({"provider": "mock"});
    for (path, body, change) in [
        ("/configs", json!({"name": "c", "config": config}), rename()),
        ("/integrations", json!({"name": "i", "slug": "i", "ai_provider_id": "openai", "key": "k-k-k-k-k"}), rename()),
        ("/providers", json!({"name": "p", "slug": "p", "integration_id": "i"}), rename()),
        ("/virtual-keys", json!({"name": "v", "provider": "openai", "key": "k-k-k-k-k"}), rename()),
        ("/api-keys/workspace/service", json!({"name": "k", "scopes": ["configs.list"]}), rename()),
        ("/guardrails", json!({"name": "g", "checks": [{"id": "contains", "parameters": {"words": ["x"]}}]}), rename()),
        (
            "/policies/rate-limits",
            json!({"name": "r", "type": "requests", "unit": "rpm", "value": 5,
            "conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "api_key"}]}),
            rename(),
        ),
        (
            "/policies/usage-limits",
            json!({"name": "u", "type": "cost", "credit_limit": 5,
            "conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "api_key"}]}),
            rename(),
        ),
        ("/collections", json!({"name": "b"}), rename()),
        ("/labels", json!({"name": "l"}), json!({"description": "renamed"})),
        ("/prompts/partials", json!({"name": "t", "string": "x"}), rename()),
        ("/admin/workspaces", json!({"name": "w"}), rename()),
    ] {
        let made = admin.post(path, body).await;
        let known = tag(&made);
        let made = made.expect(200);
        let name = made["id"].as_str().or_else(|| made["slug"].as_str()).expect("a name").to_owned();
        let path = format!("{}/{name}", path.trim_end_matches("/workspace/service"));
        let read = admin.get(&path).await;
        assert!(tag(&read).starts_with(known.trim_end_matches('"')), "{path}: made as {known}, read as {}", tag(&read));
        all.push((path, change));
    }
    let user = house.user("ann@example.com", "member", json!([{"id": "default", "role": "member"}]), None).await.0;
    all.push((format!("/admin/users/{user}"), json!({"role": "admin"})));
    all.push((format!("/admin/workspaces/default/users/{user}"), json!({"role": "manager"})));
    all.push(("/admin/organisation".to_owned(), json!({"name": "Ours"})));
    all.push(("/admin/organisation/defaults".to_owned(), json!({"input_guardrails": []})));
    all.push(("/integrations/i/models".to_owned(), json!({"allow_all_models": true, "models": []})));
    all.push(("/integrations/i/workspaces".to_owned(), json!({"workspaces": [{"id": "default", "enabled": true}]})));
    all
}

#[tokio::test]
async fn a_change_is_made_in_the_state_that_it_names_or_not_at_all() {
    let house = House::new().await;
    for (path, change) in one_of_each(&house).await {
        let put = async |header, value: &str| with(&house, Method::PUT, &path, (header, value), change.clone()).await;
        let get = async |header, value: &str| with(&house, Method::GET, &path, (header, value), Value::Null).await;
        let read = house.as_admin().get(&path).await;
        let seen = tag(&read);
        assert_eq!(tag(&house.as_admin().get(&path).await), seen, "{path} is as it was");
        let same = get("if-none-match", &seen).await;
        assert_eq!((same.status, same.text.as_str()), (StatusCode::NOT_MODIFIED, ""), "{path}");
        assert_eq!(tag(&same), seen);
        assert_eq!(
            get("if-none-match", &format!("\"999999\", W/{seen}")).await.status,
            StatusCode::NOT_MODIFIED,
            "{path}"
        );
        get("if-match", "\"999999\"").await.refused(412, "AB07");
        for stale in ["\"999999\"", &format!("W/{seen}"), "\"0-0\", \"x\""] {
            put("if-match", stale).await.refused(412, "AB07");
        }
        put("if-none-match", "*").await.refused(412, "AB07");
        put("if-none-match", &seen).await.refused(412, "AB07");
        assert_eq!(tag(&house.as_admin().get(&path).await), seen, "{path} was changed by what was refused");
        let written = put("if-match", &format!("\"999999\", {seen}")).await;
        written.expect(200);
        let now = tag(&written);
        assert_ne!(now, seen);
        put("if-match", &seen).await.refused(412, "AB07");
        // The tag of a write is one of a state: it goes on being good for the next.
        put("if-match", &now).await.expect(200);
        put("if-match", "*").await.expect(200);
        assert_ne!(get("if-none-match", &seen).await.status, StatusCode::NOT_MODIFIED, "{path}");
    }
}

#[tokio::test]
async fn what_is_removed_is_removed_in_the_state_that_was_seen() {
    let house = House::new().await;
    for (path, change) in one_of_each(&house).await.into_iter().rev() {
        let seen = tag(&house.as_admin().get(&path).await);
        let is_removable =
            !["/organisation", "/models"].iter().any(|p| path.contains(p)) && !path.ends_with("workspaces");
        if !is_removable {
            continue;
        }
        // A workspace says once more what it is called.
        let body = if path.starts_with("/admin/workspaces/") && !path.contains("users") {
            json!({"name": "w", "force_delete": true})
        } else {
            Value::Null
        };
        with(&house, Method::DELETE, &path, ("if-match", "\"999999\""), body.clone()).await.refused(412, "AB07");
        if body.is_null() {
            house.as_admin().put(&path, change).await.expect(200);
            with(&house, Method::DELETE, &path, ("if-match", &seen), body.clone()).await.refused(412, "AB07");
        }
        let seen = tag(&house.as_admin().get(&path).await);
        let gone = with(&house, Method::DELETE, &path, ("if-match", &seen), body).await;
        gone.expect(200);
        // A policy is archived, which is a state like others.
        assert_eq!(gone.headers.contains_key("etag"), path.starts_with("/policies/"), "{path}");
    }
}

#[tokio::test]
async fn of_writers_that_saw_the_same_one_wins() {
    let one = House::new().await;
    let made = one.as_admin().post("/configs", json!({"name": "c", "config": {"provider": "mock"}})).await.expect(200);
    let path = format!("/configs/{}", text(&made["slug"]));
    let two = one.elsewhere().await;
    for round in 0..8 {
        let seen = tag(&one.as_admin().get(&path).await);
        let put = async |house: &House, who: &str| {
            let change = json!({"name": format!("{who} {round}")});
            with(house, Method::PUT, &path, ("if-match", &seen), change).await
        };
        let (a, b, c, d) = tokio::join!(put(&one, "a"), put(&two, "b"), put(&one, "c"), put(&two, "d"));
        let won: Vec<_> = [&a, &b, &c, &d].into_iter().filter(|x| x.status == StatusCode::OK).collect();
        assert_eq!(won.len(), 1, "round {round}");
        for lost in [&a, &b, &c, &d].into_iter().filter(|x| x.status != StatusCode::OK) {
            lost.refused(412, "AB07");
        }
        // Whoever reads next finds what the winner wrote, in the state that the winner was told.
        let read = two.as_admin().get(&path).await;
        assert!(tag(&read).starts_with(tag(won[0]).trim_end_matches('"')));
    }
}

#[tokio::test]
async fn what_is_shown_beside_the_row_counts_for_who_reads() {
    let house = House::new().await;
    let (user, _) = house.user("ann@example.com", "member", json!([]), None).await;
    let path = format!("/admin/users/{user}");
    let before = tag(&house.as_admin().get(&path).await);
    let seat = json!({"users": [{"id": user, "role": "member"}]});
    house.as_admin().post("/admin/workspaces/default/users", seat).await.expect(200);
    // The user's own row is as it was, and its view has one more workspace.
    let answer = with(&house, Method::GET, &path, ("if-none-match", &before), Value::Null).await;
    assert_eq!(answer.expect(200)["workspace_ids"].as_array().map(Vec::len), Some(1));
    with(&house, Method::PUT, &path, ("if-match", &before), json!({"role": "admin"})).await.expect(200);
}

#[tokio::test]
async fn conditions_are_refused_where_nothing_has_a_state() {
    let house = House::new().await;
    let config = json!({"name": "c", "config": {"provider": "mock"}});
    for (path, body) in [
        ("/configs", config),
        ("/configs/explain", json!({})),
        ("/configuration/diff", json!({})),
        ("/logs/exports", json!({})),
        ("/admin/workspaces/default/users", json!({"users": []})),
    ] {
        for header in ["if-match", "if-none-match"] {
            let said = with(&house, Method::POST, path, (header, "*"), body.clone()).await.refused(400, "AB01");
            assert!(said.starts_with(header), "{said}");
        }
    }
    for value in ["7", "", "\"a", &"\"1\",".repeat(65), &format!("\"{}\"", "1".repeat(5000))] {
        let said = with(&house, Method::GET, "/admin/organisation", ("if-none-match", value), Value::Null).await;
        assert!(said.refused(400, "AB01").starts_with("if-none-match must"));
    }
}

/// What the description says of tags is what answers have.
#[tokio::test]
async fn tags_are_described_where_they_are_given() {
    let house = House::new().await;
    let document = house.send(Request::get("/openapi.json").body(Body::empty()).expect("a request")).await.expect(200);
    let told = |path: &str, method: &str| {
        let operation = &document["paths"][path][method];
        let names: Vec<&str> = operation["parameters"]
            .as_array()
            .expect("parameters")
            .iter()
            .filter(|p| p["in"] == "header")
            .filter_map(|p| p["name"].as_str())
            .collect();
        let is_tagged = operation["responses"]["200"]["headers"]["ETag"].is_object();
        assert_eq!(is_tagged, names.contains(&"If-Match"), "{method} {path}");
        assert_eq!(is_tagged, operation["responses"]["412"].is_object(), "{method} {path}");
        is_tagged
    };
    assert!(told("/v1/configs/{id}", "get") && told("/v1/configs/{id}", "put") && told("/v1/configs/{id}", "delete"));
    assert!(told("/v1/admin/workspaces/{id}/users/{user_id}", "put") && told("/v1/admin/organisation", "put"));
    assert!(!told("/v1/configs", "get") && !told("/v1/configs", "post") && !told("/v1/configuration/import", "post"));
    assert!(!told("/v1/admin/workspaces/{id}/users", "get") && !told("/v1/api-keys/{type}/{sub_type}", "post"));
    assert!(document["paths"]["/v1/configs/{id}"]["get"]["responses"]["304"].is_object());
}

/// What is no part of the transaction is not done either.
#[tokio::test]
async fn what_was_used_stays_where_the_state_is_another() {
    let house = House::new().await;
    let body = json!({"name": "u", "type": "cost", "credit_limit": 5,
        "conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "api_key"}]});
    let made = house.as_admin().post("/policies/usage-limits", body).await.expect(200);
    let path = format!("/policies/usage-limits/{}", text(&made["id"]));
    let reset = format!("{path}/entities/e0/reset");
    for (path, body) in [(&reset, Value::Null), (&path, json!({"reset_usage_for_value": "e0"}))] {
        with(&house, Method::PUT, path, ("if-match", "\"999999\""), body).await.refused(412, "AB07");
    }
}
