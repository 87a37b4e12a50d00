//! The Admin API as a client uses it. Knows routes of resources, not their documents.

use super::call::{Answer, Call};
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub(crate) struct Admin<'a> {
    client: &'a reqwest::Client,
    base: String,
    key: String,
}

impl<'a> Admin<'a> {
    pub(crate) fn new(client: &'a reqwest::Client, base: String, key: &str) -> Self {
        Self { client, base, key: key.to_owned() }
    }

    #[must_use]
    pub(crate) fn with_key(&self, key: &str) -> Self {
        Self { key: key.to_owned(), ..self.clone() }
    }

    pub(crate) fn call(&self, method: &str, path: &str) -> Call {
        Call::new(self.client, method, &format!("{}{path}", self.base)).key(&self.key)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path).send().await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.call("POST", path).json(body).send().await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.call("PUT", path).json(body).send().await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.call("DELETE", path).send().await
    }

    /// An integration at `host` and a provider `slug` on it, in the default workspace.
    pub(crate) async fn provider(&self, slug: &str, family: &str, host: Option<&str>) {
        let mut integration = json!({
            "name": format!("{slug} integration"), "slug": format!("{slug}-integration"), "ai_provider_id": family,
            "key": "sk-managed", "create_default_provider": false,
        });
        if let Some(host) = host {
            integration["configurations"] = json!({ "custom_host": host });
        }
        self.post("/integrations", &integration).await.expect(200);
        let provider = json!({ "name": slug, "slug": slug, "integration_id": format!("{slug}-integration") });
        self.post("/providers", &provider).await.expect(200);
    }

    /// Slug of a saved config.
    pub(crate) async fn config(&self, name: &str, config: &Value) -> String {
        let made = self.post("/configs", &json!({ "name": name, "config": config })).await.expect(200).json();
        let id = made["data"]["id"].as_str().expect("an id").to_owned();
        let slug = made["data"]["slug"].as_str().map(ToOwned::to_owned);
        match slug {
            Some(slug) => slug,
            None => {
                let all = self.get("/configs").await.expect(200).json();
                let mine = all["data"].as_array().expect("a list").iter().find(|c| c["id"] == id.as_str());
                mine.expect("the config is listed")["slug"].as_str().expect("a slug").to_owned()
            }
        }
    }

    /// Id and secret of a key that may call models in the default workspace.
    pub(crate) async fn workspace_key(&self, name: &str, fields: Value) -> (String, String) {
        let body = super::with(json!({ "name": name, "scopes": ["completions.write"] }), fields);
        let made = self.post("/api-keys/workspace/service", &body).await.expect(200).json();
        let field = |name: &str| made[name].as_str().unwrap_or_else(|| panic!("no {name}: {made}")).to_owned();
        (field("id"), field("key"))
    }

    /// Keys of two workspaces, each with a provider `p` of one integration that they share.
    pub(crate) async fn sharing(&self, provider: &str, key: Option<&str>, configurations: &Value) -> [String; 2] {
        let integration = json!({
            "name": "shared", "slug": "shared", "ai_provider_id": provider, "key": key,
            "create_default_provider": false, "configurations": configurations,
        });
        self.post("/integrations", &integration).await.expect(200);
        self.post("/admin/workspaces", &json!({ "name": "far", "slug": "far" })).await.expect(200);
        let global = json!({ "global_workspace_access": { "enabled": true } });
        self.put("/integrations/shared/workspaces", &global).await.expect(200);
        let mut keys = [String::new(), String::new()];
        for (key, workspace) in keys.iter_mut().zip(["default", "far"]) {
            let provider = json!({ "name": "p", "slug": "p", "integration_id": "shared", "workspace_id": workspace });
            self.post("/providers", &provider).await.expect(200);
            *key = self.workspace_key(workspace, json!({ "workspace_id": workspace })).await.1;
        }
        keys
    }
}
