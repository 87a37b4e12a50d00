//! A second organisation, made over the API, beside the first on one gateway: on the data plane, in logs, sums,
//! exports, the trail and the directory each is alone.

use crate::harness::admin::Admin;
use crate::harness::{Answer, Gateway, Upstream, eventually, gateway::target, hello, reply};
use serde_json::{Value, json};

struct Second {
    id: String,
    admin_key: String,
    key: String,
}

impl Second {
    async fn of(gateway: &Gateway) -> Self {
        let body = json!({ "name": "Second", "slug": "second", "owners": ["ann@example.org"] });
        let made = gateway.admin().post("/admin/organisations", &body).await.expect(200).json();
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let (id, admin_key) = (text(&made["id"]), text(&made["admin_key"]["key"]));
        let scopes = json!(["completions.write", "prompts.render", "logs.list", "logs.view", "analytics.view"]);
        let (_, key) = gateway.admin().with_key(&admin_key).workspace_key("k", json!({ "scopes": scopes })).await;
        Self { id, admin_key, key }
    }

    fn admin<'g>(&self, gateway: &'g Gateway) -> Admin<'g> {
        gateway.admin().with_key(&self.admin_key)
    }
}

/// Status and body, less what differs from answer to answer.
fn blank(answer: &Answer, name: &str) -> (u16, Value) {
    let mut body: Value = serde_json::from_str(&answer.text().replace(name, "X")).unwrap_or_default();
    if let Some(fields) = body.as_object_mut() {
        fields.remove("request_id");
    }
    (answer.status, body)
}

#[tokio::test]
async fn calls_find_nothing_that_is_another_organisations() {
    let gateway = Gateway::start().await;
    let second = Second::of(&gateway).await;
    let upstream = Upstream::replying(|_| reply::chat("mine")).await;
    let admin = gateway.admin();
    admin.provider("hidden-one", "openai", Some(&upstream.url())).await;
    let config = admin.config("main", &target(&upstream)).await;
    let check = json!({ "name": "g", "checks": [{ "id": "contains", "parameters": { "words": ["x"] } }] });
    let guardrail = admin.post("/guardrails", &check).await.expect(200).json();
    let guardrail = guardrail["slug"].as_str().expect("a slug").to_owned();
    let prompt = json!({ "name": "p", "string": "Hi", "parameters": {}, "virtual_key": "hidden-one" });
    let prompt = admin.post("/prompts", &prompt).await.expect(200).json()["slug"].as_str().expect("a slug").to_owned();
    let key = &second.key;
    let by_config = |name: &str| gateway.chat().key(key).header("x-gateway-config", name).json(&hello()).send();
    let by_provider = |name: &str| gateway.chat().key(key).provider(&format!("@{name}")).json(&hello()).send();
    let inline = |name: &str| {
        let config = json!({ "provider": "mock", "input_guardrails": [name] });
        gateway.chat().key(key).config(&config).json(&hello()).send()
    };
    let render = |name: &str| {
        let call = gateway.post(&format!("/v1/prompts/{name}/render")).key(key);
        call.json(&json!({ "variables": {} })).send()
    };
    // The new organisation refuses what a request brings itself, as all do that are made today.
    let refused = inline(&guardrail).await;
    assert!(matches!(refused.status, 400 | 403), "{} {}", refused.status, refused.text());
    let own = second.admin(&gateway);
    own.put("/admin/organisation", &json!({ "block_inline_config": false })).await.expect(200);
    for (theirs, missing, name, other) in [
        (by_config(&config).await, by_config("pc-none").await, &*config, "pc-none"),
        (by_provider("hidden-one").await, by_provider("none").await, "hidden-one", "none"),
        (inline(&guardrail).await, inline("pg-none").await, &*guardrail, "pg-none"),
        (render(&prompt).await, render("pp-none").await, &*prompt, "pp-none"),
    ] {
        assert!(matches!(theirs.status, 400 | 404), "{name}: {} {}", theirs.status, theirs.text());
        assert_eq!(blank(&theirs, name), blank(&missing, other), "{name}");
    }
    assert_eq!(upstream.connections(), 0);
    // Those names are free there, and mean what is theirs.
    let own_upstream = Upstream::replying(|_| reply::chat("theirs")).await;
    own.provider("hidden-one", "openai", Some(&own_upstream.url())).await;
    let said = by_provider("hidden-one").await.expect(200);
    assert!(said.text().contains("theirs"), "{}", said.text());
    assert_eq!(upstream.connections(), 0);
    // An Admin key of neither calls a model.
    gateway.chat().key(&second.admin_key).provider("mock").json(&hello()).send().await.expect(403);
}

#[tokio::test]
async fn limits_records_sums_and_exports_stay_with_their_organisation() {
    let gateway = Gateway::start().await;
    let second = Second::of(&gateway).await;
    let (admin, own) = (gateway.admin(), second.admin(&gateway));
    let policy = json!({ "name": "one", "type": "requests", "unit": "rpw", "value": 1,
        "conditions": [{ "key": "api_key", "value": "*" }], "group_by": [{ "key": "api_key" }] });
    own.post("/policies/rate-limits", &policy).await.expect(200);
    let ask = async |key: &str, trace: &str| {
        let call = gateway.chat().key(key).provider("mock").header("x-gateway-trace-id", trace);
        call.header("x-gateway-metadata", &json!({ "team": trace }).to_string()).json(&hello()).send().await.status
    };
    let mine = crate::harness::WORKSPACE_KEY;
    own.put("/admin/organisation", &json!({ "block_inline_config": false })).await.expect(200);
    assert_eq!((ask(&second.key, "theirs-1").await, ask(&second.key, "theirs-2").await), (200, 429));
    assert_eq!((ask(mine, "ours-canary").await, ask(mine, "ours-canary").await), (200, 200));
    let total = async |admin: &Admin<'_>, trace: &str| {
        admin.get(&format!("/logs?trace_id={trace}&workspace_id=*")).await.expect(200).json()["total"].as_u64()
    };
    eventually("all records", || async {
        (total(&admin, "ours-canary").await == Some(2) && total(&own, "theirs-1").await == Some(1)).then_some(())
    })
    .await;
    assert_eq!((total(&own, "ours-canary").await, total(&admin, "theirs-1").await), (Some(0), Some(0)));
    let log = admin.get("/logs?trace_id=ours-canary").await.expect(200).json()["data"][0]["id"].clone();
    let log = log.as_str().expect("an id").to_owned();
    admin.get(&format!("/logs/{log}")).await.expect(200);
    own.get(&format!("/logs/{log}")).await.expect(404);
    own.with_key(&second.key).get(&format!("/logs/{log}")).await.expect(404);
    let range = "time_of_generation_min=2020-01-01T00:00:00Z&time_of_generation_max=2029-01-01T00:00:00Z";
    for path in ["graphs/requests", "groups/metadata/team", "groups/ai-models"] {
        let told = own.get(&format!("/analytics/{path}?{range}&workspace_id=*")).await;
        assert!(!told.text().contains("ours-canary"), "{path}: {}", told.text());
    }
    let graph = own.get(&format!("/analytics/graphs/requests?{range}&workspace_id=*")).await.expect(200).json();
    let ours = admin.get(&format!("/analytics/graphs/requests?{range}&workspace_id=*")).await.expect(200).json();
    assert_eq!(ours["summary"]["total"], 2, "{ours}");
    assert!(graph["summary"]["total"].as_u64().is_some_and(|total| (1..=2).contains(&total)), "{graph}");
    // One organisation gets nothing of what the other has exported.
    let body = json!({ "filters": {}, "requested_data": ["id", "trace_id"], "description": "d" });
    let export = admin.post("/logs/exports", &body).await.expect(200).json()["id"].as_str().expect("an id").to_owned();
    for path in [format!("/logs/exports/{export}"), format!("/logs/exports/{export}/download")] {
        own.get(&path).await.expect(404);
    }
    own.post(&format!("/logs/exports/{export}/start"), &json!({})).await.expect(404);
    assert_eq!(own.get("/logs/exports").await.expect(200).json()["total"], 0);
    // It gets nothing of the other's trail, directory and configuration either.
    let first = admin.get("/admin/organisation").await.expect(200).json()["id"].as_str().expect("an id").to_owned();
    let trail = |org: &str| format!("/audit-logs?organisation_id={org}&start_time=2020-01-01&end_time=2100-01-01");
    let told = own.get(&trail(&first)).await;
    assert!(matches!(told.status, 403 | 404), "{} {}", told.status, told.text());
    assert!(!own.get(&trail(&second.id)).await.expect(200).text().contains(&first));
    let user = json!({ "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": "bob@example.com" });
    let user = admin.post("/scim/Users", &user).await.expect(201).json()["id"].as_str().expect("an id").to_owned();
    own.get(&format!("/scim/Users/{user}")).await.expect(404);
    let off = json!({ "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
        "Operations": [{ "op": "replace", "path": "active", "value": false }] });
    own.call("PATCH", &format!("/scim/Users/{user}")).json(&off).send().await.expect(404);
    let people = own.get("/scim/Users").await.expect(200).json();
    assert_eq!((&people["totalResults"], &people["Resources"][0]["userName"]), (&json!(1), &json!("ann@example.org")));
    let carried = own.get("/configuration").await.expect(200).text();
    assert!(carried.contains("Second") && !carried.contains("bob@example.com"), "{carried}");
}

#[tokio::test]
async fn people_sign_in_at_the_provider_of_their_own_organisation() {
    use crate::harness::oidc::{CLIENT, CLIENT_SECRET, OidcProvider};
    let provider = OidcProvider::start().await;
    let gateway = Gateway::with(&["--public-url", "https://gateway.example.com"]).await;
    let second = Second::of(&gateway).await;
    let body = json!({ "issuer": provider.server.url(), "client_id": CLIENT, "client_secret": CLIENT_SECRET });
    second.admin(&gateway).put("/admin/organisation/sign-on", &body).await.expect(200);
    let start = async |org: &str| gateway.admin().get(&format!("/sso/{org}/start")).await.status;
    assert_eq!(start("default").await, 404, "the first has none");
    gateway.admin().get("/admin/organisation/sign-on").await.expect(404);
    provider.says(json!({ "email": "ann@example.org", "email_verified": true }));
    let mut browser = crate::sso::Browser::of(&gateway);
    let page = browser.sign_in_at("second", &provider, "").await;
    assert_eq!(page.status, 303, "{}", page.text);
    let session = browser.session().expect("a session");
    let own = gateway.admin().with_key(&session).get("/api-keys/self/details").await.expect(200).json();
    assert_eq!(own["organisation"]["slug"], "second", "the owner came in: {own}");
}
