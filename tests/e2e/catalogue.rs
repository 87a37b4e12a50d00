//! The catalogue of models: its three behaviours, its query, one model of it, and models that their provider ended.

use crate::harness::{Gateway, Upstream, eventually, hello, reply, with};
use serde_json::{Value, json};

async fn house() -> (Gateway, Upstream) {
    let upstream = Upstream::replying(|seen| match seen.target.as_str() {
        "/v1/models" => reply::json(200, &json!({ "object": "list", "data": [{ "id": "theirs" }] })),
        target if target.starts_with("/v1/models/") => reply::json(200, &json!({ "id": target })),
        _ => reply::json(200, &reply::completion("hi")),
    })
    .await;
    let gateway = Gateway::start().await;
    for (slug, family) in [("main", "openai"), ("claude", "anthropic")] {
        gateway.admin().provider(slug, family, Some(&upstream.url())).await;
    }
    (gateway, upstream)
}

async fn list(gateway: &Gateway, query: &str) -> Value {
    gateway.get(&format!("/v1/models{query}")).send().await.expect(200).json()
}

fn ids(list: &Value) -> Vec<&str> {
    list["data"].as_array().expect("a list").iter().map(|m| m["id"].as_str().expect("an id")).collect()
}

#[tokio::test]
async fn the_catalogue_is_filtered_sorted_and_paged() {
    let (gateway, _upstream) = house().await;
    let all = list(&gateway, "").await;
    assert!(all["total_count"].as_u64() > Some(150), "{}", all["total_count"]);
    assert_eq!(
        (all["has_more"].as_bool(), ids(&all).len() as u64),
        (Some(false), all["total_count"].as_u64().expect("a count"))
    );
    assert_eq!(
        (all["first_id"].as_str(), all["last_id"].as_str()),
        (ids(&all).first().copied(), ids(&all).last().copied())
    );
    let claude = list(&gateway, "?provider=claude").await;
    assert!(ids(&claude).iter().all(|id| id.starts_with("@claude/")) && !ids(&claude).is_empty());
    assert_eq!(claude, list(&gateway, "?ai_service=anthropic").await);
    assert_eq!(claude, list(&gateway, "?provider=%40claude").await);
    let first = list(&gateway, "?provider=claude&limit=2").await;
    assert_eq!((ids(&first), &first["has_more"]), (ids(&claude)[..2].to_vec(), &json!(true)));
    assert_eq!(first["total_count"], claude["total_count"], "of all that fit, not of the page");
    assert_eq!(ids(&list(&gateway, "?provider=claude&limit=2&offset=1").await), ids(&claude)[1..3]);
    let after = format!("?provider=claude&limit=2&after_id={}", ids(&first)[1].replace('@', "%40"));
    assert_eq!(ids(&list(&gateway, &after).await), ids(&claude)[2..4]);
    let before = format!("?provider=claude&limit=2&before_id={}", ids(&claude)[3].replace('@', "%40"));
    assert_eq!(ids(&list(&gateway, &before).await), ids(&claude)[1..3]);
    let mut turned = ids(&claude);
    turned.reverse();
    assert_eq!(ids(&list(&gateway, "?provider=claude&order=desc").await), turned);
    let by_provider = list(&gateway, "?sort=provider").await;
    assert!(
        ids(&by_provider)[0].starts_with("@claude/") && ids(&by_provider).last().expect("some").starts_with("@main/")
    );
    let by_service = list(&gateway, "?sort=ai_service&order=desc").await;
    assert!(ids(&by_service)[0].starts_with("@main/"));
    for (query, says) in [
        ("?limits=3", "limits is not known here"),
        ("?limit=0", "limit must be a whole number of 1..1000"),
        ("?limit=1001", "limit must be"),
        ("?limit=2&limit=3", "limit must be given once"),
        ("?offset=-1", "offset must be a whole number"),
        ("?sort=price", "sort must be one of name, provider, ai_service"),
        ("?order=up", "order must be asc or desc"),
        ("?after_id=a&before_id=b", "before_id must not stand beside after_id"),
    ] {
        let refused = gateway.get(&format!("/v1/models{query}")).send().await.expect(400).text();
        assert!(refused.contains(says), "{query}: {refused}");
    }
}

#[tokio::test]
async fn a_model_is_told_in_a_form_that_both_kinds_of_clients_read() {
    let (gateway, _upstream) = house().await;
    let model = gateway.get("/v1/models/@claude/claude-sonnet-4-5").send().await.expect(200).json();
    for (field, want) in [
        ("id", json!("@claude/claude-sonnet-4-5")),
        ("slug", json!("claude-sonnet-4-5")),
        ("canonical_slug", json!("anthropic/claude-sonnet-4-5")),
        ("object", json!("model")),
        ("type", json!("model")),
        ("owned_by", json!("anthropic")),
        ("provider", json!("claude")),
        ("kind", json!("chat")),
    ] {
        assert_eq!(model[field], want, "{field} of {model}");
    }
    assert!(model["created"].is_i64() && model["created_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{model}");
    assert!(model["context_window"].as_u64() >= Some(200_000) && model["display_name"].is_string(), "{model}");
    assert!(model["features"].as_array().is_some_and(|can| can.contains(&json!("tools"))), "{model}");
    let encoded = gateway.get("/v1/models/%40claude%2Fclaude-sonnet-4-5").send().await.expect(200).json();
    assert_eq!(encoded, model);
    assert!(list(&gateway, "?provider=claude").await["data"].as_array().expect("a list").contains(&model));
    let lost = gateway.get("/v1/models/@claude/nobody-knows").send().await.expect(404).json();
    assert_eq!(lost["error"]["code"], "model_not_found", "{lost}");
    let bare = gateway.get("/v1/models/gpt-4o").send().await.expect(404).json();
    assert_eq!(bare["error"]["code"], "model_not_found", "nobody is named who could be asked: {bare}");
    // Whoever names a provider asks that one.
    let theirs = gateway.get("/v1/models/gpt-4o").provider("@main").send().await.expect(200).json();
    assert_eq!(theirs["id"], "/v1/models/gpt-4o");
}

#[tokio::test]
async fn what_is_switched_off_is_not_there_and_what_an_admin_named_is() {
    let (gateway, _upstream) = house().await;
    let models = json!({ "allow_all_models": false, "models": [
        { "slug": "claude-sonnet-4-5", "enabled": true },
        { "slug": "ours", "enabled": true, "is_custom": true },
        { "slug": "claude-opus-5", "enabled": false },
    ]});
    gateway.admin().put("/integrations/claude-integration/models", &models).await.expect(200);
    assert_eq!(ids(&list(&gateway, "?provider=claude").await), ["@claude/claude-sonnet-4-5", "@claude/ours"]);
    gateway.get("/v1/models/@claude/claude-opus-5").send().await.expect(404);
}

#[tokio::test]
async fn a_provider_is_asked_where_one_is_named_unless_the_catalogue_is_wanted() {
    let (gateway, _upstream) = house().await;
    let theirs = gateway.get("/v1/models").provider("@main").send().await.expect(200).json();
    assert_eq!(ids(&theirs), ["theirs"]);
    for header in ["x-gateway-fetch-integrated-models", "x-gateway-models-endpoint"] {
        let ours = gateway.get("/v1/models").provider("@main").header(header, "true").send().await.expect(200).json();
        assert!(ids(&ours).iter().all(|id| id.starts_with("@main/")) && !ids(&ours).is_empty(), "{header}");
    }
    let cut = json!({ "provider": "@claude", "fetch_integrated_models": true });
    let cut = gateway.get("/v1/models").config(&cut).send().await.expect(200).json();
    assert!(ids(&cut).iter().all(|id| id.starts_with("@claude/")), "{cut}");
    let open = json!({ "fetch_integrated_models": true, "strategy": { "mode": "fallback" }, "targets": [
        { "provider": "@claude" }, { "provider": "openai", "api_key": "sk-own" }] });
    let open = gateway.get("/v1/models").config(&open).send().await.expect(200).json();
    assert_eq!(
        open["total_count"],
        list(&gateway, "").await["total_count"],
        "a target that is passed through cuts nothing"
    );
}

#[tokio::test]
async fn a_call_of_a_model_that_was_ended_says_so() {
    let (gateway, _upstream) = house().await;
    let ask = async |model: &str| {
        gateway.chat().provider("@main").json(&with(hello(), json!({ "model": model }))).send().await.expect(200)
    };
    // The list is opened by the first record that is priced, not by a request.
    let told = eventually("the list is open", || async {
        ask("gpt-image-1").await.header("x-gateway-model-shutdown").map(str::to_owned)
    })
    .await;
    assert_eq!(told, "2026-10-23");
    assert_eq!(ask("gpt-4o").await.header("x-gateway-model-shutdown"), None);
    assert!(!ids(&list(&gateway, "").await).contains(&"@main/gpt-image-1"), "nor is it in the catalogue");
}
