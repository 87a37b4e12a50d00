//! Who names saved guardrails: configs, the defaults of workspaces and of the organisation; and who is excluded from
//! those.

use crate::guardrails::save;
use crate::harness::{House, list, text};
use serde_json::{Value, json};

const CHECKS: &str = r#"[{"id": "default.contains", "parameters": {"words": ["x"], "operator": "none"}}]"#;
const DEFAULTS: &str = "/admin/organisation/defaults";

fn checks() -> Value {
    serde_json::from_str(CHECKS).expect("JSON")
}

async fn own(house: &House) -> Value {
    save(house, json!({"checks": checks()})).await
}

async fn shared(house: &House) -> Value {
    save(house, json!({"checks": checks(), "organisation_id": house.org().id})).await
}

async fn config(house: &House, guardrails: Value) -> crate::harness::Answer {
    let targets = json!([{"provider": "openai"}, {"provider": "openai", "output_guardrails": guardrails}]);
    let config = json!({"strategy": {"mode": "fallback"}, "targets": targets});
    house.as_admin().post("/configs", json!({"name": "c", "config": config})).await
}

#[tokio::test]
async fn configs_name_guardrails_that_are_there() {
    let house = House::new().await;
    let (own, shared) = (own(&house).await, shared(&house).await);
    house.workspace("other").await;
    let far = save(&house, json!({"checks": checks(), "workspace_id": "other"})).await;
    let archived = save(&house, json!({"checks": checks()})).await;
    let path = format!("/guardrails/{}", text(&archived["slug"]));
    house.as_admin().put(&path, json!({"status": "archived"})).await.expect(200);
    for name in [&own["slug"], &own["id"], &shared["slug"], &shared["id"]] {
        config(&house, json!([name])).await.expect(200);
        config(&house, json!([{"id": name}])).await.expect(200);
    }
    for name in [&json!("pg-none"), &far["slug"], &archived["slug"]] {
        let said = config(&house, json!([own["slug"], name])).await.expect(400);
        let message = format!("`{}` is not a guardrail of this workspace", text(name));
        let wanted = format!("path: targets,1,output_guardrails, message: {message}");
        assert_eq!(said["data"]["errors"], json!([wanted]));
    }
    for (inline, says) in [
        (json!([{"contains": {"words": 7}}]), "path: targets,1,output_guardrails, message: check `default.contains`"),
        (json!([{"nonsense": {}}]), "default.nonsense"),
        (json!([{}]), "`checks` must hold at least one check"),
    ] {
        let said = config(&house, inline).await.refused(400, "AB01");
        assert!(said.contains(says), "{said}");
    }
    let made = text(&config(&house, json!([own["slug"]])).await.expect(200)["slug"]);
    let broken = json!({"config": {"provider": "openai", "before_request_hooks": [{"id": "pg-none"}]}});
    let said = house.as_admin().put(&format!("/configs/{made}"), broken).await.refused(400, "AB01");
    assert!(said.contains("path: before_request_hooks, message: `pg-none`"), "{said}");
}

#[tokio::test]
async fn one_in_use_is_neither_deleted_nor_archived() {
    let house = House::new().await;
    let admin = house.as_admin();
    let (own, shared) = (own(&house).await, shared(&house).await);
    let held = async |guardrail: &Value, by: &str| {
        let path = format!("/guardrails/{}", text(&guardrail["slug"]));
        for answer in [admin.delete(&path).await, admin.put(&path, json!({"status": "archived"})).await] {
            let said = answer.refused(409, "AB07");
            assert_eq!(said, format!("the guardrail is used by {by}"));
        }
        admin.put(&path, json!({"name": "changed"})).await.expect(200);
    };
    let made = text(&config(&house, json!([own["id"], shared["slug"]])).await.expect(200)["slug"]);
    let by_config = format!("the config `{made}` of workspace `default`");
    held(&own, &by_config).await;
    let lists = json!({"input_guardrails": [own["slug"]], "output_guardrails": []});
    admin.put("/workspaces/default", json!({"defaults": lists})).await.expect(200);
    held(&own, &format!("the defaults of workspace `default`, {by_config}")).await;
    admin.put(DEFAULTS, json!({"output_guardrails": [shared["slug"]]})).await.expect(200);
    held(&shared, &format!("the defaults of the organisation, {by_config}")).await;

    admin.delete(&format!("/configs/{made}")).await.expect(200);
    held(&own, "the defaults of workspace `default`").await;
    admin.put("/workspaces/default", json!({"defaults": {"input_guardrails": null}})).await.expect(200);
    admin.put(DEFAULTS, json!({"output_guardrails": []})).await.expect(200);
    for guardrail in [&own, &shared] {
        admin.delete(&format!("/guardrails/{}", text(&guardrail["slug"]))).await.expect(200);
    }
}

#[tokio::test]
async fn defaults_take_slugs_and_ids_and_tell_both() {
    let house = House::new().await;
    let admin = house.as_admin();
    let (own, shared) = (own(&house).await, shared(&house).await);
    admin.put(DEFAULTS, json!({"input_guardrails": [shared["id"]]})).await.expect(200);
    let told = json!([{"id": shared["id"], "slug": shared["slug"]}]);
    let read = admin.get(DEFAULTS).await.expect(200);
    assert_eq!((&read["input_guardrails"], &read["output_guardrails"]), (&told, &json!([])));
    admin
        .put(DEFAULTS, read.as_object().map(|all| json!({"output_guardrails": all["input_guardrails"]})).expect("one"))
        .await
        .expect(200);
    let read = admin.get(DEFAULTS).await.expect(200);
    assert_eq!((&read["input_guardrails"], &read["output_guardrails"]), (&told, &told), "absent keeps");
    admin.put(DEFAULTS, json!({"input_guardrails": null})).await.expect(200);
    assert_eq!(house.org().default_guardrails.input, Vec::<String>::new());
    assert_eq!(house.org().default_guardrails.output, [text(&shared["slug"])]);
    for (body, says) in [
        (json!({"input_guardrails": ["pg-none"]}), "input_guardrails[0] names `pg-none`, which is no guardrail in use"),
        (json!({"input_guardrails": [own["slug"]]}), "which is no guardrail in use here"),
        (json!({"input_guardrails": [shared["id"], shared["slug"]]}), "input_guardrails[1] names"),
        (json!({"input_guardrails": [7]}), "input_guardrails[0] must be the slug or the id"),
        (json!({"input_guardrails": "x"}), "input_guardrails"),
        (json!({"input_guardrails": vec!["x"; 21]}), "input_guardrails must have at most 20 entries"),
        (json!({"colour": []}), "colour is not a known field"),
    ] {
        let said = admin.put(DEFAULTS, body.clone()).await.refused(400, "AB01");
        assert!(said.contains(says), "{body}: {said}");
    }
    let both = json!({"input_guardrails": [own["id"], shared["slug"]]});
    admin.put("/workspaces/default", json!({"defaults": both})).await.expect(200);
    let read = admin.get("/workspaces/default").await.expect(200);
    assert_eq!(read["defaults"]["input_guardrails"], json!([own["slug"], shared["slug"]]));
    let said = admin.put("/workspaces/default", json!({"defaults": {"output_guardrails": ["pg-none"]}})).await;
    assert!(said.refused(400, "AB01").starts_with("defaults.output_guardrails[0] names `pg-none`"));
    let new = json!({"name": "new", "defaults": {"input_guardrails": [shared["slug"]]}});
    let made = admin.post("/admin/workspaces", new).await.expect(200);
    assert_eq!(made["defaults"]["input_guardrails"], json!([shared["slug"]]));
    let foreign = json!({"name": "new", "defaults": {"input_guardrails": [own["slug"]]}});
    admin.post("/admin/workspaces", foreign).await.refused(400, "AB01");
    let seen = house.as_service().get("/api-keys/self/details").await.expect(200);
    assert_eq!(seen["workspace"]["defaults"]["input_guardrails"], json!([own["slug"], shared["slug"]]));
}

#[tokio::test]
async fn exclusions_are_merged_or_replaced() {
    const INPUT: &str = "/workspace-exclusions/input-guardrails";
    const OUTPUT: &str = "/workspace-exclusions/output-guardrails";
    let house = House::new().await;
    let admin = house.as_admin();
    let (a, b) = (house.workspace("a").await, house.workspace("b").await);
    let named = |names: &[&str], excluded: bool| {
        let all: Vec<Value> = names.iter().map(|n| json!({"workspace_id": n, "excluded": excluded})).collect();
        json!({"workspaces": all})
    };
    let seen = async |path: &str| list(&admin.get(path).await.expect(200), "slug");
    admin.put(INPUT, named(&["a", &b.to_string()], true)).await.expect(200);
    assert_eq!((seen(INPUT).await, seen(OUTPUT).await), (vec!["a".to_owned(), "b".to_owned()], vec![]));
    let snapshot = house.app.live.snapshot();
    let exclusions = |id| snapshot.workspace(id).expect("it exists").exclusions;
    assert!(exclusions(a).input && !exclusions(a).output && !exclusions(house.default_workspace()).input);
    admin.put(INPUT, named(&["a"], false)).await.expect(200);
    admin.put(OUTPUT, named(&["a"], true)).await.expect(200);
    assert_eq!((seen(INPUT).await, seen(OUTPUT).await), (vec!["b".to_owned()], vec!["a".to_owned()]));
    let mut replaced = named(&["default"], true);
    replaced["override_existing"] = json!(true);
    admin.put(INPUT, replaced).await.expect(200);
    assert_eq!((seen(INPUT).await, seen(OUTPUT).await), (vec!["default".to_owned()], vec!["a".to_owned()]));
    let page = admin.get(&format!("{INPUT}?page_size=0")).await.expect(200);
    assert_eq!((&page["total"], &page["data"]), (&json!(1), &json!([])));
    let own = house.as_service().get("/api-keys/self/details").await.expect(200);
    assert_eq!(own["workspace"]["guardrail_exclusions"], json!({"input_guardrails": true, "output_guardrails": false}));

    for (body, says) in [
        (json!({}), "workspaces is required"),
        (named(&["nowhere"], true), "workspaces[0].workspace_id names no workspace of this organisation"),
        (named(&["a", &a.to_string()], true), "workspaces[1].workspace_id is given twice"),
        (named(&vec!["a"; 1001], true), "workspaces must have at most 1000 entries"),
    ] {
        let said = admin.put(INPUT, body).await.refused(400, "AB01");
        assert!(said.contains(says), "{said}");
    }
    let foreign = house.organisation("elsewhere").await;
    house.with(&foreign).put(INPUT, named(&[&a.to_string()], false)).await.refused(400, "AB01");
    admin.put(INPUT, json!({"organisation_id": a, "workspaces": []})).await.refused(404, "AB08");
    house.as_service().get(INPUT).await.refused(403, "AB03");
}

#[tokio::test]
async fn a_workspace_goes_with_its_guardrails_when_forced_to() {
    let house = House::new().await;
    let admin = house.as_admin();
    house.workspace("team").await;
    let made = save(&house, json!({"checks": checks(), "workspace_id": "team"})).await;
    let said = admin.delete("/admin/workspaces/team").await.refused(409, "AB07");
    assert!(said.contains("1 guardrails"), "{said}");
    let forced = admin.ask(http::Method::DELETE, "/admin/workspaces/team", Some(json!({"force_delete": true}))).await;
    forced.expect(200);
    admin.get(&format!("/guardrails/{}", text(&made["slug"]))).await.refused(404, "AB08");
}
