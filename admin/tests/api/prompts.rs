//! Saved prompts: versions, what is in force, labels, partials, collections, and what may be named and deleted.

use crate::harness::{House, list, text};
use gateway_domain::resource::prompt::BUILT_IN_LABELS;
use serde_json::{Value, json};

async fn saved(house: &House, string: &str) -> String {
    let body = json!({"name": "p", "string": string, "parameters": {"max_tokens": 5}, "model": "m"});
    text(&house.as_admin().post("/prompts", body).await.expect(200)["slug"])
}

#[tokio::test]
async fn versions_come_one_by_one_and_one_is_in_force() {
    let house = House::new().await;
    let admin = house.as_admin();
    let slug = saved(&house, "one").await;
    assert!(slug.starts_with("pp-"), "{slug}");
    let path = format!("/prompts/{slug}");
    let second = admin.put(&path, json!({"string": "two", "version_description": "d"})).await.expect(200);
    let now = admin.get(&path).await.expect(200);
    assert_eq!((&now["string"], &now["prompt_version"]), (&json!("one"), &json!(1)), "the default stays");
    let newest = admin.get(&format!("{path}?version=2")).await.expect(200);
    assert_eq!(newest["prompt_version_id"], second["prompt_version_id"]);
    assert_eq!((&newest["parameters"]["max_tokens"], &newest["model"]), (&json!(5), &json!("m")), "what was left out");
    assert_eq!(newest["prompt_version_status"], "archived");
    admin.put(&format!("{path}/makeDefault"), json!({"version": 2})).await.expect(200);
    assert_eq!(admin.get(&path).await.expect(200)["string"], "two");
    admin.put(&format!("{path}/makeDefault"), json!({"version": 3})).await.refused(400, "AB01");
    let renamed = admin.put(&path, json!({"name": "other"})).await.expect(200);
    assert_eq!(renamed["prompt_version_id"], second["prompt_version_id"], "a name is no version");
    let versions = admin.get(&format!("{path}/versions")).await.expect(200);
    assert_eq!(versions["total"], 2);
    let shown: Vec<(u64, &str, &str)> = versions["data"]
        .as_array()
        .expect("versions")
        .iter()
        .map(|v| {
            let text = |field: &str| v[field].as_str().expect("a text");
            (v["prompt_version"].as_u64().expect("a number"), text("status"), text("prompt_description"))
        })
        .collect();
    assert_eq!(shown, [(2, "active", "d"), (1, "archived", "")]);
    let by_id = text(&versions["data"][1]["id"]);
    assert_eq!(admin.get(&format!("{path}/versions/{by_id}")).await.expect(200)["string"], "one");
    admin.get(&format!("{path}/versions/9")).await.refused(404, "AB08");
    let whole = admin.put(&path, json!({"string": "three", "patch": false})).await;
    whole.expect(200);
    let bare = admin.get(&format!("{path}?version=3")).await.expect(200);
    assert_eq!((&bare["parameters"], &bare["model"]), (&json!({}), &json!(null)), "what a whole version leaves out");
    admin.put(&path, json!({"model": "m", "patch": false})).await.refused(400, "AB01");
    admin.delete(&path).await.expect(200);
    admin.get(&path).await.refused(404, "AB08");
}

#[tokio::test]
async fn old_versions_leave_the_snapshot_and_stay_in_the_history() {
    let house = House::new().await;
    let admin = house.as_admin();
    let path = format!("/prompts/{}", saved(&house, "1").await);
    for n in 2..=40 {
        admin.put(&path, json!({"string": n.to_string()})).await.expect(200);
    }
    let snapshot = house.app.live.snapshot();
    let workspace = snapshot.workspace(house.default_workspace()).expect("a workspace");
    let kept = workspace.shelf().prompts().next().expect("a prompt").editions.kept.len();
    assert!(kept < 30, "{kept} are kept");
    assert_eq!(admin.get(&format!("{path}/versions")).await.expect(200)["total"], 40);
    assert_eq!(admin.get(&format!("{path}?version=3")).await.expect(200)["string"], "3");
    admin.put(&format!("{path}/makeDefault"), json!({"version": 3})).await.expect(200);
    assert_eq!(admin.get(&path).await.expect(200)["string"], "3", "what had left comes back");
}

#[tokio::test]
async fn a_label_points_at_one_version() {
    let house = House::new().await;
    let admin = house.as_admin();
    let path = format!("/prompts/{}", saved(&house, "one").await);
    admin.put(&path, json!({"string": "two"})).await.expect(200);
    let production = BUILT_IN_LABELS[0].id;
    let put = async |version: u64, label: Value| {
        admin.put(&format!("{path}/versions/{version}"), json!({"label_id": label})).await
    };
    put(1, json!(production)).await.expect(200);
    let on = async |version: u64| {
        admin.get(&format!("{path}/versions/{version}")).await.expect(200)["prompt_version_label_id"].clone()
    };
    assert_eq!(on(1).await, json!(production));
    put(2, json!(production)).await.expect(200);
    assert_eq!((on(1).await, on(2).await), (json!(null), json!(production)), "it left the first");
    put(2, json!("no-such-label")).await.refused(400, "AB01");
    let own = text(&admin.post("/labels", json!({"name": "canary"})).await.expect(200)["id"]);
    put(1, json!(own)).await.expect(200);
    assert!(admin.delete(&format!("/labels/{own}")).await.refused(409, "AB07").contains("pp-"));
    put(1, json!(null)).await.expect(200);
    admin.delete(&format!("/labels/{own}")).await.expect(200);
}

#[tokio::test]
async fn labels_have_names_of_their_own() {
    let house = House::new().await;
    let admin = house.as_admin();
    admin.post("/labels", json!({"name": "canary"})).await.expect(200);
    admin.post("/labels", json!({"name": "canary"})).await.refused(409, "AB07");
    for name in ["production", "latest", "12", "a b", ""] {
        admin.post("/labels", json!({"name": name})).await.refused(400, "AB01");
    }
    let other = text(&admin.post("/labels", json!({"name": "beta"})).await.expect(200)["id"]);
    admin.put(&format!("/labels/{other}"), json!({"name": "canary"})).await.refused(409, "AB07");
    let all = admin.get("/labels").await.expect(200);
    assert_eq!(list(&all, "name")[..3], ["production", "staging", "development"]);
    assert_eq!(all["total"], 5);
    assert_eq!(list(&admin.get("/labels?search=CAN").await.expect(200), "name"), ["canary"]);
    let built_in = format!("/labels/{}", BUILT_IN_LABELS[1].id);
    assert_eq!(admin.get(&built_in).await.expect(200)["is_universal"], true);
    admin.delete(&built_in).await.refused(404, "AB08");
    let org = house.org().id.to_string();
    let said = admin.post("/labels", json!({"name": "all", "organization_id": org})).await.refused(400, "AB01");
    assert!(said.starts_with("workspace_id"), "{said}");
}

#[tokio::test]
async fn what_a_prompt_names_must_exist_and_is_not_taken_away() {
    let house = House::new().await;
    let admin = house.as_admin();
    let prompt = |string: &str| json!({"name": "p", "string": string, "parameters": {}});
    admin.post("/prompts", prompt("{{>pl-none}}")).await.refused(400, "AB01");
    let partial = text(&admin.post("/prompts/partials", json!({"name": "a", "string": "x"})).await.expect(200)["slug"]);
    let using = format!("{{{{>{partial}@1}}}}");
    admin.post("/prompts", prompt(&using)).await.expect(200);
    assert!(admin.delete(&format!("/prompts/partials/{partial}")).await.refused(409, "AB07").contains("pp-"));
    let archive = json!({"status": "archived"});
    admin.put(&format!("/prompts/partials/{partial}"), archive).await.refused(409, "AB07");

    let integration = json!({"name": "i", "slug": "int", "ai_provider_id": "openai", "key": "k"});
    admin.post("/integrations", integration).await.expect(200);
    let mut body = prompt("x");
    body["virtual_key"] = json!("@int");
    let path = format!("/prompts/{}", text(&admin.post("/prompts", body.clone()).await.expect(200)["slug"]));
    assert!(admin.delete("/providers/int").await.refused(409, "AB07").contains("pp-"));
    admin.delete(&path).await.expect(200);
    admin.delete("/providers/int").await.expect(200);
    admin.post("/prompts", body).await.refused(400, "AB01");

    let folder = text(&admin.post("/collections", json!({"name": "f"})).await.expect(200)["id"]);
    let mut body = prompt("x");
    body["collection_id"] = json!(folder);
    let path = format!("/prompts/{}", text(&admin.post("/prompts", body).await.expect(200)["slug"]));
    admin.delete(&format!("/collections/{folder}")).await.refused(409, "AB07");
    admin.put(&path, json!({"collection_id": house.default_workspace().to_string()})).await.expect(200);
    admin.delete(&format!("/collections/{folder}")).await.expect(200);
}

#[tokio::test]
async fn broken_prompts_are_named() {
    let house = House::new().await;
    for (fields, word) in [
        (json!({"string": "{{#a}}"}), "string has a section `a`"),
        (json!({"string": ""}), "string must not be empty"),
        (json!({"string": "[{}]"}), "string must hold messages"),
        (json!({"string": "x".repeat(200_000)}), "string must be at most"),
        (json!({"parameters": {"messages": []}}), "parameters.messages is not a parameter"),
        (json!({"parameters": 1}), "parameters"),
        (json!({"name": ""}), "name"),
        (json!({"collection_id": "nowhere"}), "collection_id does not exist"),
        (json!({"virtual_key": "nobody"}), "virtual_key is not a provider"),
        (json!({"is_raw_template": "yes"}), "is_raw_template"),
        (json!({"version_description": "x".repeat(2000)}), "version_description"),
    ] {
        let mut body = json!({"name": "p", "string": "x", "parameters": {}});
        body.as_object_mut().expect("fields").extend(fields.as_object().cloned().expect("fields"));
        let said = house.as_admin().post("/prompts", body).await.refused(400, "AB01");
        assert!(said.starts_with(word), "{fields}: {said}");
    }
    let deep = |parent: &str| json!({"name": "c", "parent_collection_id": parent});
    let mut parent = "default".to_owned();
    for _ in 0..8 {
        parent = text(&house.as_admin().post("/collections", deep(&parent)).await.expect(200)["id"]);
    }
    house.as_admin().post("/collections", deep(&parent)).await.refused(400, "AB01");
}

#[tokio::test]
async fn lists_are_searched_and_other_workspaces_are_not_there() {
    let house = House::new().await;
    let admin = house.as_admin();
    house.workspace("team").await;
    let folder = admin.post("/collections", json!({"name": "Folder", "workspace_id": "team"})).await.expect(200);
    for (name, place) in [("Greeting", folder["id"].clone()), ("Farewell", Value::Null)] {
        let body =
            json!({"name": name, "string": "x", "parameters": {}, "workspace_id": "team", "collection_id": place});
        admin.post("/prompts", body).await.expect(200);
    }
    let names = async |path: String| list(&admin.get(&path).await.expect(200), "name");
    assert_eq!(names("/prompts?workspace_id=team&search=GREET".into()).await, ["Greeting"]);
    let inside = format!("/prompts?workspace_id=team&collection_id={}", text(&folder["slug"]));
    assert_eq!(names(inside).await, ["Greeting"]);
    assert_eq!(names("/prompts?workspace_id=team&collection_id=default".into()).await, ["Farewell"]);
    assert_eq!(names("/prompts".into()).await, Vec::<String>::new());
    let page = admin.get("/prompts?workspace_id=team&page_size=1&current_page=1").await.expect(200);
    assert_eq!((page["total"].as_u64(), page["data"].as_array().map(Vec::len)), (Some(2), Some(1)));
    let id = text(&admin.get("/prompts?workspace_id=team").await.expect(200)["data"][0]["id"]);
    for path in [format!("/prompts/{id}"), format!("/collections/{}", text(&folder["id"]))] {
        admin.get(&path).await.expect(200);
        house.as_service().get(&path).await.refused(404, "AB08");
        house.as_service().delete(&path).await.refused(404, "AB08");
    }
    let own = admin.get("/collections?workspace_id=team").await.expect(200);
    assert_eq!(list(&own, "name"), ["Default", "Folder"]);
    let ours = text(&own["data"][0]["id"]);
    let shown = admin.get(&format!("/collections/{ours}")).await.expect(200);
    assert_eq!((&shown["is_default"], &shown["child_collections"][0]["name"]), (&json!(1), &json!("Folder")));
    house.as_service().get(&format!("/collections/{ours}")).await.refused(404, "AB08");
    // A collection says which workspace is meant.
    let body = json!({"name": "p", "string": "x", "parameters": {}, "collection_id": folder["id"]});
    let made = admin.post("/prompts", body).await.expect(200);
    let shown = admin.get(&format!("/prompts/{}", text(&made["id"]))).await.expect(200);
    assert_eq!(shown["collection_id"], folder["id"]);
}

#[tokio::test]
async fn publishing_is_in_the_trail() {
    let house = House::new().await;
    let path = format!("/prompts/{}", saved(&house, "one").await);
    house.as_admin().put(&format!("{path}/makeDefault"), json!({"version": 1})).await.expect(200);
    let org = house.org().id;
    let ask = format!(
        "/audit-logs?organisation_id={org}&start_time=2020-01-01T00:00:00Z&end_time=2100-01-01T00:00:00Z&action=publish"
    );
    let rows = house.as_admin().get(&ask).await.expect(200);
    assert_eq!(rows["total"], 1, "{rows}");
    assert_eq!(rows["records"][0]["resource_type"], "prompt", "{rows}");
}
