//! Prompts and partials with their versions, and the folders and labels that they stand in.

use super::Story;
use crate::harness::text;
use serde_json::{Value, json};

pub(super) async fn round_trip(story: &mut Story<'_>) {
    let org = story.house.org().id.to_string();
    let body = json!({"name": "folder", "workspace_id": "team", "organisation_id": org});
    let folder = text(&story.send("POST /collections", "/collections", body).await["id"]);
    let body = json!({"name": "inner", "workspace_id": "team", "parent_collection_id": folder});
    let inner = text(&story.send("POST /collections", "/collections", body).await["id"]);
    story.shows(&format!("/collections/{inner}"), json!({"name": "inner", "parent_collection_id": folder})).await;
    let body = json!({"name": "place", "workspace_id": "team"});
    story.send("PUT /collections/{id}", &format!("/collections/{folder}"), body).await;
    let inside = json!([{"id": inner, "name": "inner"}]);
    story.shows(&format!("/collections/{folder}"), json!({"name": "place", "child_collections": inside})).await;

    let body = json!({"name": "canary", "description": "d", "color_code": "#123456", "workspace_id": "team",
        "organisation_id": org});
    let label = text(&story.send("POST /labels", "/labels", body).await["id"]);
    let body = json!({"name": "canary-2", "description": "e", "color_code": "#654321", "workspace_id": "team",
        "organisation_id": org});
    story.send("PUT /labels/{id}", &format!("/labels/{label}"), body).await;
    let want = json!({"name": "canary-2", "description": "e", "color_code": "#654321", "is_universal": false});
    story.shows(&format!("/labels/{label}"), want).await;

    let body = json!({"name": "greeting", "string": "Hi {{name}}", "version_description": "first",
        "workspace_id": "team", "organisation_id": org});
    let made = story.send("POST /prompts/partials", "/prompts/partials", body).await;
    let path = format!("/prompts/partials/{}", text(&made["slug"]));
    let want = json!({"name": "greeting", "string": "Hi {{name}}", "version_description": "first", "version": 1});
    story.shows(&path, want).await;
    let body = json!({"name": "hello", "string": "Hello {{name}}", "description": "second", "status": "active",
        "workspace_id": "team"});
    story.send("PUT /prompts/partials/{id}", &path, body).await;
    story
        .send(
            "PUT /prompts/partials/{id}/makeDefault",
            &format!("{path}/makeDefault"),
            json!({"version": 2, "workspace_id": "team"}),
        )
        .await;
    let want = json!({"name": "hello", "string": "Hello {{name}}", "version_description": "second", "version": 2});
    story.shows(&path, want).await;

    let tool = json!({"type": "function", "function": {"name": "f"}});
    let body = json!({"name": "p", "collection_id": folder, "string": "{{#a}}x{{/a}}", "parameters": {"seed": 1},
        "functions": [{"name": "f"}], "tools": [tool], "tool_choice": "auto", "model": "gpt-4o", "virtual_key": "own",
        "version_description": "first", "template_metadata": {"a": 1}, "is_raw_template": 0,
        "workspace_id": "team", "organisation_id": org});
    let made = story.send("POST /prompts", "/prompts", body.clone()).await;
    let path = format!("/prompts/{}", text(&made["slug"]));
    let shown = |body: &Value, version: u64, description: &str| {
        let mut want = body.clone();
        let fields = want.as_object_mut().expect("fields");
        for name in ["version_description", "organisation_id", "workspace_id", "patch"] {
            fields.remove(name);
        }
        fields.insert("prompt_version".into(), version.into());
        fields.insert("prompt_version_description".into(), description.into());
        want
    };
    story.shows(&path, shown(&body, 1, "first")).await;
    story.holds_elsewhere().await;
    let body = json!({"name": "q", "collection_id": inner, "string": "[{\"role\": \"user\", \"content\": {{j}}}]",
        "parameters": {"seed": 2}, "functions": [], "tools": [], "tool_choice": {"type": "none"}, "model": "m",
        "virtual_key": "@own", "version_description": "second", "template_metadata": {"b": 2}, "is_raw_template": 1,
        "patch": false, "workspace_id": "team"});
    story.send("PUT /prompts/{id}", &path, body.clone()).await;
    let notes = json!({"prompt_metadata": {"c": 3}});
    story.send("PUT /prompts/{id}", &path, notes).await;
    let newest = story.house.as_admin().get(&format!("{path}?version=3")).await.expect(200);
    assert_eq!(newest["template_metadata"], json!({"c": 3}), "another name of the same");
    story
        .send(
            "PUT /prompts/{id}/versions/{version}",
            &format!("{path}/versions/2"),
            json!({"label_id": label, "workspace_id": "team"}),
        )
        .await;
    story
        .send(
            "PUT /prompts/{id}/makeDefault",
            &format!("{path}/makeDefault"),
            json!({"version": 2, "workspace_id": "team"}),
        )
        .await;
    let mut want = shown(&body, 2, "second");
    want["prompt_version_label_id"] = json!(label);
    story.shows(&path, want).await;
}
