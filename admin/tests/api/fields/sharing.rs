//! Who shares prompts and partials with whom, and what is forked of them.

use super::Story;
use crate::harness::text;
use serde_json::json;

pub(super) async fn round_trip(story: &mut Story<'_>) {
    let admin = story.house.as_admin();
    let team = admin.get("/admin/workspaces/team").await.expect(200)["id"].clone();
    let partial = json!({"name": "lent", "string": "x"});
    let partial = text(&admin.post("/prompts/partials", partial).await.expect(200)["slug"]);
    let prompt = json!({"name": "lent", "string": "y", "parameters": {}});
    let prompt = text(&admin.post("/prompts", prompt).await.expect(200)["slug"]);
    let folder = admin.post("/collections", json!({"name": "theirs", "workspace_id": "team"})).await.expect(200);
    let told = json!({"access": "workspaces", "workspaces": [team]});
    for (route, slug) in [("/prompts/{id}", &prompt), ("/prompts/partials/{id}", &partial)] {
        let path = route.replace("{id}", slug);
        let shown = format!("{path}?show_prompt_share=true");
        let more = json!({"access": "workspaces", "workspaces": ["team"], "workspace_id": "default"});
        story.send(&format!("POST {route}/share"), &format!("{path}/share"), more).await;
        story.shows(&shown, json!({"prompt_share": told})).await;
        let less = json!({"workspaces": ["team"], "workspace_id": "default"});
        story.send(&format!("POST {route}/unshare"), &format!("{path}/unshare"), less).await;
        story.shows(&shown, json!({"prompt_share": null})).await;
        let all = json!({"access": "workspaces", "workspaces": [team], "workspace_id": "default"});
        story.send(&format!("PUT {route}/share"), &format!("{path}/share"), all).await;
        story.shows(&shown, json!({"prompt_share": told})).await;
    }
    let body = json!({"name": "forked", "collection_id": folder["id"], "virtual_key": "own", "model": "m", "version": 1,
        "workspace_id": "team"});
    let made = story.send("POST /prompts/{id}/fork", &format!("/prompts/{prompt}/fork"), body).await;
    let want =
        json!({"name": "forked", "collection_id": folder["id"], "virtual_key": "own", "model": "m", "string": "y"});
    story.shows(&format!("/prompts/{}", text(&made["id"])), want).await;
    let body = json!({"name": "forked", "version": 1, "workspace_id": "team"});
    let made = story.send("POST /prompts/partials/{id}/fork", &format!("/prompts/partials/{partial}/fork"), body).await;
    story.shows(&format!("/prompts/partials/{}", text(&made["id"])), json!({"name": "forked", "string": "x"})).await;
}
