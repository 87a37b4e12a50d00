//! OAuth clients that admins make.

use super::Story;
use serde_json::json;

pub(super) async fn round_trip(story: &mut Story<'_>) {
    let org = story.house.org().id.to_string();
    let body = json!({"name": "App", "slug": "app-client", "description": "d", "type": "confidential", "scope": "mcp:read",
        "redirect_uris": ["https://app.example.com/cb"], "organisation_id": org});
    story.send("POST /oauth-clients", "/oauth-clients", body.clone()).await;
    story.shows("/oauth-clients/app-client", body).await;
    let body = json!({"name": "Other", "description": null, "scope": null, "redirect_uris": ["app://cb"]});
    story.send("PUT /oauth-clients/{id}", "/oauth-clients/app-client", body.clone()).await;
    let mut want = body;
    want["type"] = json!("confidential");
    story.shows("/oauth-clients/app-client", want).await;
}
