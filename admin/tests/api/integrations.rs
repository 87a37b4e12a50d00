//! Integrations: levels, settings, credentials, and the providers that come and go with them.

use crate::harness::{House, list, text};
use gateway_domain::IntegrationId;
use serde_json::{Value, json};

fn openai(fields: Value) -> Value {
    let mut body = json!({"name": "Open AI", "ai_provider_id": "openai", "key": "sk-0123456789abcdef"});
    crate::harness::merge(&mut body, fields);
    body
}

fn alone() -> Value {
    openai(json!({"create_default_provider": false}))
}

#[tokio::test]
async fn an_integration_lives_from_create_to_delete() {
    let house = House::new().await;
    let admin = house.as_admin();
    let made = admin.post("/integrations", alone()).await.expect(200);
    assert_eq!(made["slug"], "open-ai", "derived from the name");
    let read = admin.get("/integrations/open-ai").await.expect(200);
    assert_eq!((&read["masked_key"], &read["workspace_id"]), (&json!("****cdef"), &Value::Null));
    assert_eq!((&read["object"], &read["ai_provider_id"]), (&json!("integration"), &json!("openai")));
    assert_eq!((&read["configurations"], &read["workspace_count"]), (&json!({}), &json!(1)));
    assert!(read.get("key").is_none());
    assert_eq!(admin.get(&format!("/integrations/{}", text(&made["id"]))).await.expect(200)["slug"], "open-ai");
    assert_eq!(admin.get("/integrations").await.expect(200)["total"], 1);
    assert_eq!(admin.delete("/integrations/open-ai").await.expect(200), json!({}));
    admin.get("/integrations/open-ai").await.refused(404, "AB08");
    assert!(house.app.live.snapshot().upstreams().next().is_none());
}

#[tokio::test]
async fn slugs_are_unique_in_the_organisation() {
    let house = House::new().await;
    admin_twice(&house).await;
    let taken = openai(json!({"slug": "open-ai", "create_default_provider": false}));
    let said = house.as_service().post("/integrations", taken).await.refused(409, "AB07");
    assert!(said.contains("open-ai"), "{said}");
    for slug in ["a b", "", "0194f1f2-0000-7000-8000-000000000000"] {
        house.as_admin().post("/integrations", openai(json!({"slug": slug}))).await.refused(400, "AB01");
    }
}

async fn admin_twice(house: &House) {
    let first = house.as_admin().post("/integrations", alone()).await.expect(200);
    let second = house.as_admin().post("/integrations", alone()).await.expect(200);
    assert_eq!(first["slug"], "open-ai");
    assert!(text(&second["slug"]).starts_with("open-ai-"), "{second}");
}

#[tokio::test]
async fn settings_merge_and_masks_keep_what_they_stand_for() {
    let house = House::new().await;
    let admin = house.as_admin();
    let configurations = json!({
        "custom_host": "https://llm.example.com/v1", "openai_project": "proj-1",
        "custom_headers": {"X-Team": "header-secret-0123456789", "x-other": "plain"},
    });
    let made = admin
        .post("/integrations", openai(json!({"configurations": configurations, "tags": {"team": "a"}})))
        .await
        .expect(200);
    let path = format!("/integrations/{}", text(&made["slug"]));
    let read = admin.get(&path).await.expect(200);
    assert_eq!(read["configurations"]["custom_headers"], json!({"x-other": "****", "x-team": "****6789"}));
    assert_eq!(read["tags"], json!({"team": "a"}));

    let change = json!({"description": "d", "key": "****cdef",
        "configurations": {"custom_host": null, "custom_headers": {"x-team": "****6789"}}});
    assert_eq!(admin.put(&path, change).await.expect(200), json!({}));
    let read = admin.get(&path).await.expect(200);
    let expected = json!({"openai_project": "proj-1", "custom_headers": {"x-team": "****6789"}});
    assert_eq!((&read["configurations"], &read["description"]), (&expected, &json!("d")));

    let snapshot = house.app.live.snapshot();
    let id = IntegrationId(text(&made["id"]).parse().expect("an id"));
    let upstream = snapshot.upstream(id).expect("in force");
    assert_eq!(upstream.credential.as_ref().map(|c| c.expose().as_str()), Some("sk-0123456789abcdef"));
    assert_eq!(upstream.base.as_ref().map(|b| b.host.as_str()), Some("api.openai.com"));
    let headers: Vec<(&str, &str)> = upstream.headers.iter().map(|(n, v)| (n.as_str(), v.expose().as_str())).collect();
    assert_eq!(headers, [("x-team", "header-secret-0123456789"), ("openai-project", "proj-1")]);

    admin.put(&path, json!({"key": null, "configurations": null, "description": null})).await.expect(200);
    let read = admin.get(&path).await.expect(200);
    assert_eq!(
        (&read["masked_key"], &read["configurations"], &read["description"]),
        (&Value::Null, &json!({}), &Value::Null)
    );
}

#[tokio::test]
async fn broken_settings_are_named() {
    let house = House::new().await;
    let admin = house.as_admin();
    for (fields, says) in [
        (json!({"ai_provider_id": "nobody"}), "ai_provider_id names `nobody`"),
        (json!({"ai_provider_id": "ollama"}), "configurations.custom_host is required"),
        (
            json!({"configurations": {"custom_host": "http://169.254.169.254"}}),
            "configurations.custom_host is a cloud metadata address",
        ),
        (json!({"configurations": {"custom_host": "http://127.0.0.1:1"}}), "configurations.custom_host is a private"),
        (
            json!({"configurations": {"custom_host": "ftp://x.example"}}),
            "configurations.custom_host must start with http",
        ),
        (
            json!({"configurations": {"custom_headers": {"host": "x"}}}),
            "configurations.custom_headers.host belongs to one connection",
        ),
        (json!({"configurations": {"custom_headers": {"a b": "x"}}}), "is not a valid header name"),
        (
            json!({"configurations": {"custom_headers": {"x-a": "a\nb"}}}),
            "configurations.custom_headers.x-a must be 1..16384 printable",
        ),
        (json!({"configurations": {"custom_headers": {"x-a": "1", "X-A": "2"}}}), "is given twice"),
        (json!({"configurations": {"custom_headers": {"x-a": "****"}}}), "is a masked value"),
        (json!({"configurations": {"custom_headers": "x"}}), "configurations.custom_headers must be an object"),
        (json!({"configurations": {"openai_project": "a\rb"}}), "configurations.openai_project must be"),
        (json!({"configurations": {"aws_region": "eu-west-1"}}), "configurations.aws_region has no meaning for"),
        (json!({"configurations": {"vertex_region": "us-east1"}}), "configurations.vertex_region has no meaning for"),
        (json!({"configurations": {"oauth_client_id": "a"}}), "configurations.oauth_token_endpoint is required"),
        (
            json!({"configurations": {"oauth_token_endpoint": "http://10.0.0.1/t"}}),
            "configurations.oauth_token_endpoint",
        ),
        (json!({"configurations": {"oauth_client_secret": "****"}}), "is a masked value"),
        (
            json!({"ai_provider_id": "vertex-ai", "configurations": {"vertex_region": "a/b"}}),
            "configurations.vertex_region must be of 1..63 letters",
        ),
        (json!({"ai_provider_id": "vertex-ai"}), "configurations.vertex_region is required"),
        (
            json!({"ai_provider_id": "vertex-ai",
                   "configurations": {"vertex_region": "global", "vertex_service_account_json": "{"}}),
            "configurations.vertex_service_account_json must be a credential file",
        ),
        (json!({"configurations": {"colour": "red"}}), "configurations.colour is not a known field"),
        (json!({"key": "****cdef"}), "key is a masked value"),
        (json!({"key": "a\nb"}), "key must be 1..16384 printable"),
        (json!({"key": ""}), "key must be"),
        (json!({"secret_mappings": [{"target_field": "key"}]}), "secret_mappings[0].secret_reference_id is required"),
        (json!({"pricing_adjustments": 2}), "pricing_adjustments must be an object"),
        (json!({"pricing_adjustments": {}}), "pricing_adjustments.multiplier is required"),
        (
            json!({"pricing_adjustments": {"multiplier": {"default": -1}}}),
            "pricing_adjustments.multiplier.default must be in 0..",
        ),
        (
            json!({"pricing_adjustments": {"multiplier": {"colour": 1}}}),
            "pricing_adjustments.multiplier.colour is not a known field",
        ),
        (
            json!({"pricing_adjustments": {"multiplier": {"cache_write_image_input_token": 2}}}),
            "pricing_adjustments.multiplier.cache_write_image_input_token is not available",
        ),
        (json!({"create_default_provider": "maybe"}), "create_default_provider must be true or false"),
        (json!({"default_provider_slug": "a b"}), "default_provider_slug may hold"),
    ] {
        let said = admin.post("/integrations", openai(fields.clone())).await.refused(400, "AB01");
        assert!(said.contains(says), "{fields}: {said}");
    }
    assert_eq!(admin.get("/integrations").await.expect(200)["total"], 0);
    // What is trusted may be private; defaults of what is not in force pass.
    let fine = json!({"ai_provider_id": "ollama", "key": null, "secret_mappings": [], "pricing_adjustments": null,
        "configurations": {"custom_host": "http://10.1.2.3:11434", "anthropic_inspect_stream_for_overloaded_error": false}});
    admin.post("/integrations", openai(fine)).await.expect(200);
}

/// Families that are reached at an address made of their settings: which are asked for, which stay, which are refused.
#[tokio::test]
async fn families_with_settings_are_set_up_by_them() {
    let house = House::new().await;
    let admin = house.as_admin();
    let aws =
        json!({"aws_region": "eu-west-1", "aws_access_key_id": "AKIA", "aws_secret_access_key": "secret-0123456789"});
    let mut sagemaker = aws.clone();
    sagemaker["amzn_sagemaker_target_model"] = json!("m.tar.gz");
    let mut claude = aws.clone();
    claude["anthropic_aws_workspace_id"] = json!("wrkspc_01");
    for (family, settings, host) in [
        ("workers-ai", json!({"workers_ai_account_id": "023e105f4ecef8ad"}), "api.cloudflare.com"),
        ("cortex", json!({"snowflake_account": "org-account"}), "org-account.snowflakecomputing.com"),
        ("byteplus", json!({}), "ark.ap-southeast.bytepluses.com"),
        ("byteplus", json!({"byteplus_region": "cn-beijing"}), "ark.cn-beijing.volces.com"),
        ("huggingface", json!({}), "router.huggingface.co"),
        ("huggingface", json!({"huggingface_base_url": "https://mine.example"}), "mine.example"),
        ("databricks", json!({"databricks_workspace": "dbc-1"}), "dbc-1.cloud.databricks.com"),
        (
            "oracle",
            json!({"oracle_region": "us-chicago-1", "oracle_compartment_id": "ocid1.compartment.oc1..a"}),
            "inference.generativeai.us-chicago-1.oci.oraclecloud.com",
        ),
        ("bedrock-mantle", aws, "bedrock-mantle.eu-west-1.api.aws"),
        ("claude-platform-aws", claude, "aws-external-anthropic.eu-west-1.api.aws"),
        ("sagemaker", sagemaker, "runtime.sagemaker.eu-west-1.amazonaws.com"),
    ] {
        let body = json!({"name": family, "ai_provider_id": family, "key": "k-0123456789", "configurations": settings});
        let made = admin.post("/integrations", body).await.expect(200);
        let id = IntegrationId(text(&made["id"]).parse().expect("an id"));
        let snapshot = house.app.live.snapshot();
        let upstream = snapshot.upstream(id).expect("in force");
        assert_eq!(upstream.base.as_ref().map(|base| base.host.as_str()), Some(host), "{family}");
        let read = admin.get(&format!("/integrations/{}", text(&made["slug"]))).await.expect(200);
        for (name, value) in settings.as_object().expect("an object") {
            let shown = if name == "aws_secret_access_key" { json!("****6789") } else { value.clone() };
            assert_eq!(read["configurations"][name], shown, "{family} {name}");
        }
    }
    for (family, settings, says) in [
        ("workers-ai", json!({}), "configurations.workers_ai_account_id is required"),
        (
            "workers-ai",
            json!({"workers_ai_account_id": "a/b"}),
            "configurations.workers_ai_account_id must be of 1..128",
        ),
        ("cortex", json!({"snowflake_account": "a_b"}), "configurations.snowflake_account must be of 1..128"),
        ("databricks", json!({"databricks_workspace": "https://x"}), "configurations.databricks_workspace must be"),
        ("databricks", json!({"databricks_workspace": "x.example"}), "configurations.databricks_workspace must be a"),
        ("byteplus", json!({"byteplus_region": ""}), "configurations.byteplus_region must be of 1..128"),
        ("byteplus", json!({"snowflake_account": "a"}), "configurations.snowflake_account has no meaning for"),
        (
            "oracle",
            json!({"oracle_region": "x", "oracle_compartment_id": "c"}),
            "oracle_compartment_id must be an OCID",
        ),
        ("huggingface", json!({"huggingface_base_url": "http://10.0.0.1"}), "huggingface_base_url is a private"),
        (
            "sagemaker",
            json!({"aws_region": "x", "amzn_sagemaker_session_id": "a\nb"}),
            "amzn_sagemaker_session_id must be of",
        ),
        ("sagemaker", json!({"amzn_sagemaker_session_id": 3}), "amzn_sagemaker_session_id must be a string"),
        ("sagemaker", json!({"aws_region": "x", "aws_bedrock_model": "m"}), "aws_bedrock_model has no meaning for"),
    ] {
        let body = json!({"name": family, "ai_provider_id": family, "key": "k", "configurations": settings});
        let said = admin.post("/integrations", body).await.refused(400, "AB01");
        assert!(said.contains(says), "{family}: {said}");
    }
}

#[tokio::test]
async fn a_default_provider_comes_and_goes_with_it() {
    let house = House::new().await;
    let admin = house.as_admin();
    admin.post("/integrations", openai(json!({"slug": "oa"}))).await.expect(200);
    let provider = admin.get("/providers/oa").await.expect(200);
    assert_eq!(
        (&provider["integration_slug"], &provider["workspace_id"]),
        (&json!("oa"), &json!(house.default_workspace()))
    );
    admin.delete("/integrations/oa").await.expect(200);
    admin.get("/providers/oa").await.refused(404, "AB08");

    admin.post("/integrations", openai(json!({"slug": "oa", "default_provider_slug": "mine"}))).await.expect(200);
    // Somebody made it theirs, so it stands in the way from now on.
    admin.put("/providers/mine", json!({"note": "ours"})).await.expect(200);
    let said = admin.delete("/integrations/oa").await.refused(409, "AB07");
    assert!(said.contains("`mine`"), "{said}");
    let again = openai(json!({"slug": "ob", "default_provider_slug": "mine"}));
    admin.post("/integrations", again).await.refused(409, "AB07");
    admin.get("/integrations/ob").await.refused(404, "AB08");
}

#[tokio::test]
async fn a_default_provider_in_use_keeps_its_integration() {
    let house = House::new().await;
    let admin = house.as_admin();
    admin.post("/integrations", openai(json!({"slug": "oa"}))).await.expect(200);
    let config = admin.post("/configs", json!({"name": "c", "config": {"provider": "@oa"}})).await.expect(200);
    admin.delete("/integrations/oa").await.refused(409, "AB07");
    admin.delete(&format!("/configs/{}", text(&config["slug"]))).await.expect(200);
    admin.delete("/integrations/oa").await.expect(200);
}

#[tokio::test]
async fn levels_are_kept_apart() {
    let house = House::new().await;
    let (admin, service) = (house.as_admin(), house.as_service());
    admin.post("/integrations", openai(json!({"slug": "shared"}))).await.expect(200);
    service.post("/integrations", openai(json!({"slug": "own"}))).await.expect(200);
    assert_eq!(admin.get("/integrations/own").await.expect(200)["workspace_id"], json!(house.default_workspace()));
    let slugs = |answer: Value| {
        let mut slugs = list(&answer, "slug");
        slugs.sort();
        slugs
    };
    assert_eq!(slugs(service.get("/integrations").await.expect(200)), ["own", "shared"]);
    assert_eq!(slugs(service.get("/integrations?type=workspace").await.expect(200)), ["own"]);
    assert_eq!(slugs(admin.get("/integrations?type=organisation").await.expect(200)), ["shared"]);
    assert_eq!(admin.get("/integrations?page_size=1&current_page=1").await.expect(200)["data"][0]["slug"], "shared");
    admin.get("/integrations?type=all&page_size=x").await.refused(400, "AB01");
    // A workspace key may list the organisation's, and no more than that.
    service.get("/integrations/shared").await.refused(403, "AB03");
    service.put("/integrations/shared", json!({"name": "mine"})).await.refused(403, "AB03");
    service.delete("/integrations/shared").await.refused(403, "AB03");
    service.get("/integrations/own").await.expect(200);

    let (_, narrow) = house.key("workspace/service", json!({"scopes": ["workspace_integrations.list"]})).await;
    assert_eq!(slugs(house.with(&narrow).get("/integrations").await.expect(200)), ["own"]);
    house.with(&narrow).get("/integrations?type=organisation").await.refused(403, "AB03");
}

#[tokio::test]
async fn models_are_switched_on_and_off() {
    let house = House::new().await;
    let admin = house.as_admin();
    admin.post("/integrations", json!({"name": "oa", "ai_provider_id": "openai", "key": "k"})).await.expect(200);
    let path = "/integrations/oa/models";
    let allowed = |model: &str| {
        let snapshot = house.app.live.snapshot();
        snapshot.upstream(house.integration_id("oa")).expect("in force").models.allow(model)
    };
    assert!(allowed("gpt-x"));
    let switch =
        json!({"models": [{"slug": "gpt-x", "enabled": false}, {"slug": "mine", "enabled": 1, "is_custom": "false"}]});
    assert_eq!(admin.put(path, switch).await.expect(200), json!({}));
    assert!(!allowed("gpt-x") && allowed("mine") && allowed("other"));
    admin
        .put("/integrations/oa/integration-models", json!({"models": [], "allow_all_models": false}))
        .await
        .expect(200);
    assert!(!allowed("gpt-x") && allowed("mine") && !allowed("other"));
    let read = admin.get(path).await.expect(200);
    assert_eq!((&read["total"], &read["allow_all_models"]), (&json!(2), &json!(false)));
    assert_eq!(read["models"][0]["slug"], "gpt-x");
    assert_eq!(admin.get("/integrations/oa").await.expect(200)["allow_all_models"], false);
    admin.delete(&format!("{path}?slugs=mine,none")).await.expect(200);
    assert!(!allowed("mine"));
    admin.put(path, json!({"models": read["models"], "allow_all_models": true})).await.expect(200);
    let named = json!({"models": ["gpt-x"]});
    admin.ask(http::Method::DELETE, path, Some(named)).await.expect(200);
    assert!(allowed("gpt-x"));
    for (body, says) in [
        (json!({}), "models is required"),
        (json!({"models": [{"slug": "a"}]}), "models[0].enabled is required"),
        (json!({"models": [{"slug": "", "enabled": true}]}), "models[0].slug must not be empty"),
        (json!({"models": [{"slug": "a", "enabled": "maybe"}]}), "models[0].enabled must be true or false"),
        (
            json!({"models": [{"slug": "a", "enabled": true, "is_finetune": "perhaps"}]}),
            "models[0].is_finetune must be true or false",
        ),
        (
            json!({"models": [{"slug": "a", "enabled": true, "configurations": {"custom_host": "http://127.0.0.1"}}]}),
            "models[0].configurations.custom_host is a private",
        ),
        (
            json!({"models": [{"slug": "a", "enabled": true, "configurations": {"colour": 1}}]}),
            "models[0].configurations.colour is not a known field",
        ),
        (
            json!({"models": [{"slug": "a", "enabled": true, "custom_headers": {"host": "x"}}]}),
            "models[0].custom_headers.host",
        ),
        (
            json!({"models": [{"slug": "a", "enabled": true, "pricing_config": {"type": "static",
                "pay_as_you_go": {"request_token": {"price": -1}}}}]}),
            "models[0].pricing_config.pay_as_you_go.request_token must be in 0..",
        ),
        (
            json!({"models": [{"slug": "a", "enabled": true, "pricing_config": {"type": "static",
                "pay_as_you_go": {"image": {"4k": {"default": {"price": 1}}}}}}]}),
            "models[0].pricing_config.pay_as_you_go.image.4k must be one of default, low",
        ),
        (
            json!({"models": [{"slug": "a", "enabled": true, "pricing_config": {"type": "static",
                "pay_as_you_go": {"image": {"default": {"default": {"price": -1}}}}}}]}),
            "models[0].pricing_config.pay_as_you_go.image.default.default must be in 0..",
        ),
        (
            json!({"models": [{"slug": "a", "enabled": true, "pricing_config": {"type": "static",
                "pay_as_you_go": {"additional_units": {"moons": {"price": 1}}}}}]}),
            "models[0].pricing_config.pay_as_you_go.additional_units.moons must be one of request",
        ),
        (
            json!({"models": [{"slug": "a", "enabled": true, "pricing_config": {"type": "dynamic"}}]}),
            "models[0].pricing_config.type must be",
        ),
        (
            json!({"models": [{"slug": "a", "enabled": true, "pricing_config": {"type": "static"}}]}),
            "models[0].pricing_config.pay_as_you_go is required",
        ),
        (json!({"models": [], "colour": 1}), "colour is not a known field"),
    ] {
        let said = admin.put(path, body.clone()).await.refused(400, "AB01");
        assert!(said.contains(says), "{body}: {said}");
    }
    admin.delete(path).await.refused(400, "AB01");
}

#[tokio::test]
async fn workspaces_are_let_in_and_shut_out() {
    let house = House::new().await;
    let admin = house.as_admin();
    let (far, near) = (house.workspace("far").await, house.default_workspace());
    admin.post("/integrations", json!({"name": "oa", "ai_provider_id": "openai", "key": "k"})).await.expect(200);
    let path = "/integrations/oa/workspaces";
    let open = |workspace| {
        let snapshot = house.app.live.snapshot();
        snapshot.upstream(house.integration_id("oa")).expect("in force").open_to(workspace)
    };
    assert!(open(far) && open(near));
    admin.put(path, json!({"global_workspace_access": {"enabled": false}})).await.expect(200);
    assert!(!open(far) && !open(near));
    let borrow = json!({"name": "p", "integration_id": "oa", "workspace_id": "far"});
    admin.post("/providers", borrow.clone()).await.refused(400, "AB01");
    // Who is let in gets a provider, once.
    let let_in = json!({"workspaces": [{"id": "far", "enabled": true, "default_provider_slug": "theirs"}]});
    admin.put(path, let_in.clone()).await.expect(200);
    admin.put(path, let_in).await.expect(200);
    assert!(open(far) && !open(near));
    assert_eq!(list(&admin.get("/providers?workspace_id=far").await.expect(200), "slug"), ["theirs"]);
    let read = admin.get(path).await.expect(200);
    assert_eq!(read["workspaces"], json!([{"id": "far", "enabled": true, "usage_limits": null, "rate_limits": null}]));
    assert_eq!(read["global_workspace_access"]["enabled"], false);
    let view = admin.get("/integrations/oa").await.expect(200);
    assert_eq!(
        (&view["workspace_count"], &view["global_workspace_access_settings"]["enabled"]),
        (&json!(1), &json!(false))
    );
    let anew = json!({"workspaces": [{"id": far, "enabled": false}], "override_existing_workspace_access": true,
        "global_workspace_access": {"enabled": true}});
    admin.put(path, anew).await.expect(200);
    assert!(!open(far) && open(near));
    for (body, says) in [
        (json!({"workspaces": [{"id": "nowhere", "enabled": true}]}), "workspaces[0].id names no workspace"),
        (json!({"workspaces": [{"id": "far"}]}), "workspaces[0].enabled is required"),
        (
            json!({"workspaces": [{"id": "far", "enabled": true, "rate_limits": [{"value": 1}]}]}),
            "workspaces[0].rate_limits[0].type is required",
        ),
        (
            json!({"global_workspace_access": {"enabled": true, "usage_limits": [{"credit_limit": 0}]}}),
            "global_workspace_access.usage_limits.credit_limit must be at least 1",
        ),
        (json!({"colour": 1}), "colour is not a known field"),
    ] {
        let said = admin.put(path, body.clone()).await.refused(400, "AB01");
        assert!(said.contains(says), "{body}: {said}");
    }
    let own = json!({"name": "own", "ai_provider_id": "openai", "key": "k", "workspace_id": "default"});
    admin.post("/integrations", own).await.expect(200);
    admin.put("/integrations/own/workspaces", json!({"workspaces": []})).await.refused(400, "AB01");
}

#[tokio::test]
async fn what_models_have_of_their_own_comes_back() {
    let house = House::new().await;
    let admin = house.as_admin();
    let body = json!({"name": "Open", "slug": "open", "ai_provider_id": "openai", "key": "sk-1",
        "pricing_adjustments": {"multiplier": {"default": 1.5, "image": {"default": 2}}}});
    admin.post("/integrations", body).await.expect(200);
    let read = admin.get("/integrations/open").await.expect(200);
    assert_eq!(read["pricing_adjustments"], json!({"multiplier": {"default": 1.5, "image": {"default": 2.0}}}));
    let price = json!({"type": "static", "pay_as_you_go": {"request_token": {"price": 0.5},
        "image": {"default": {"default": {"price": 4.0}}}, "additional_units": {"request": {"price": 0.25}}}});
    let path = "/integrations/open/models";
    let body = json!({"models": [{"slug": "m", "enabled": true, "is_finetune": 1, "base_model_slug": "gpt-4o",
        "configurations": {"custom_host": "https://m.example.com/v1"}, "custom_headers": {"x-team": "secret-team-6789"},
        "pricing_config": price}]});
    admin.put(path, body).await.expect(200);
    let read = admin.get(path).await.expect(200);
    let model = &read["models"][0];
    assert_eq!((&model["is_finetune"], &model["base_model_slug"]), (&json!(true), &json!("gpt-4o")));
    let shown = json!({"custom_host": "https://m.example.com/v1", "custom_headers": {"x-team": "****6789"}});
    assert_eq!(model["configurations"], shown);
    assert_eq!(model["pricing_config"], price);
    // What was read may be sent back: a mask stands for what is stored.
    admin.put(path, json!({"models": [model]})).await.expect(200);
    assert_eq!(admin.get(path).await.expect(200)["models"][0], *model);
    // Absent keeps, null clears.
    admin.put(path, json!({"models": [{"slug": "m", "enabled": false}]})).await.expect(200);
    let kept = admin.get(path).await.expect(200);
    assert_eq!((&kept["models"][0]["enabled"], &kept["models"][0]["pricing_config"]), (&json!(false), &price));
    let cleared = json!({"models": [{"slug": "m", "enabled": true, "configurations": null, "pricing_config": null}]});
    admin.put(path, cleared).await.expect(200);
    let read = admin.get(path).await.expect(200);
    assert_eq!(
        (&read["models"][0]["configurations"], &read["models"][0]["pricing_config"]),
        (&json!({}), &Value::Null)
    );
    admin.put("/integrations/open", json!({"pricing_adjustments": null})).await.expect(200);
    assert_eq!(admin.get("/integrations/open").await.expect(200)["pricing_adjustments"], Value::Null);
}
