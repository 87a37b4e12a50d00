//! Prompts of one workspace that another calls: rendered where they lie, sent by whoever calls them.

use crate::harness::{Answer, Gateway, Upstream, reply, stand_at_noon};
use serde_json::{Value, json};

struct Neighbourhood {
    gateway: Gateway,
    /// The provider `up` of the default workspace, and that of `team`.
    own: Upstream,
    theirs: Upstream,
    key: String,
}

impl Neighbourhood {
    async fn new() -> Self {
        let gateway = Gateway::start().await;
        let (own, theirs) =
            (Upstream::replying(|_| reply::chat("a")).await, Upstream::replying(|_| reply::chat("b")).await);
        let admin = gateway.admin();
        admin.provider("up", "openai", Some(&own.url())).await;
        admin.post("/admin/workspaces", &json!({ "name": "Team", "slug": "team" })).await.expect(200);
        let integration = json!({ "name": "t", "slug": "their-integration", "ai_provider_id": "openai", "key": "sk-theirs",
            "create_default_provider": false, "configurations": { "custom_host": theirs.url() } });
        admin.post("/integrations", &integration).await.expect(200);
        let seats = json!({ "workspaces": [{ "id": "team", "enabled": true }] });
        admin.put("/integrations/their-integration/workspaces", &seats).await.expect(200);
        let provider =
            json!({ "name": "up", "slug": "up", "integration_id": "their-integration", "workspace_id": "team" });
        admin.post("/providers", &provider).await.expect(200);
        let scopes = json!({ "workspace_id": "team", "scopes": ["completions.write", "prompts.render"] });
        let (_, key) = admin.workspace_key("theirs", scopes).await;
        Self { gateway, own, theirs, key }
    }

    async fn made(&self, path: &str, body: Value) -> String {
        let made = self.gateway.admin().post(path, &body).await.expect(200).json();
        made["slug"].as_str().expect("a slug").to_owned()
    }

    async fn ask(&self, prompt: &str) -> Answer {
        let path = format!("/v1/prompts/{prompt}/completions");
        self.gateway.post(&path).key(&self.key).json(&json!({ "variables": { "name": "Ann" } })).send().await
    }

    async fn call(&self, prompt: &str, status: u16) -> String {
        self.ask(prompt).await.expect(status).text()
    }

    async fn try_to_call(&self, prompt: &str) -> u16 {
        self.ask(prompt).await.status
    }
}

#[tokio::test]
async fn a_shared_prompt_says_the_same_to_everybody_and_asks_the_callers_provider() {
    let here = Neighbourhood::new().await;
    let admin = here.gateway.admin();
    let inner = here.made("/prompts/partials", json!({ "name": "inner", "string": "Be brief." })).await;
    let outer = json!({ "name": "outer", "string": format!("{{{{>{inner}}}}} Be kind.") });
    let outer = here.made("/prompts/partials", outer).await;
    let label = admin.post("/labels", &json!({ "name": "canary" })).await.expect(200).json()["id"].clone();
    let prompt = json!({ "name": "p", "string": format!("{{{{>{outer}}}}} Hi {{{{name}}}}"), "parameters": {}, "model": "gpt-4o",
        "virtual_key": "up" });
    let prompt = here.made("/prompts", prompt).await;
    let labelled = json!({ "label_id": label });
    admin.put(&format!("/prompts/{prompt}/versions/1"), &labelled).await.expect(200);
    assert!(here.call(&prompt, 404).await.contains("does not exist"));
    let share = json!({ "workspaces": ["team"] });
    admin.post(&format!("/prompts/{prompt}/share"), &share).await.expect(200);
    for name in [prompt.clone(), format!("{prompt}@canary"), format!("{prompt}@latest")] {
        here.call(&name, 200).await;
        let sent = here.theirs.seen().last().expect("a call").json();
        assert_eq!(sent["messages"][0]["content"], "Be brief. Be kind. Hi Ann", "{name}");
    }
    assert_eq!((here.own.seen().len(), here.theirs.seen().len()), (0, 3), "the credential is the caller's own");
    // A partial of others stands in prompts of one's own, and finds its own where it lies.
    admin.post(&format!("/prompts/partials/{outer}/share"), &json!({ "access": "organisation" })).await.expect(200);
    let mine = json!({ "name": "q", "string": format!("{{{{>{outer}}}}} Bye"), "parameters": {}, "model": "gpt-4o",
        "virtual_key": "up", "workspace_id": "team" });
    let mine = here.made("/prompts", mine).await;
    here.call(&mine, 200).await;
    assert_eq!(here.theirs.seen().last().expect("a call").json()["messages"][0]["content"], "Be brief. Be kind. Bye");
    // What is taken back is gone with the answer.
    admin.delete(&format!("/prompts/{prompt}/share")).await.expect(200);
    here.call(&prompt, 404).await;
    let again = json!({ "access": "organisation" });
    admin.put(&format!("/prompts/{prompt}/share"), &again).await.expect(200);
    here.call(&prompt, 200).await;
    admin.delete(&format!("/prompts/{prompt}")).await.expect(200);
    here.call(&prompt, 404).await;
}

/// A prompt may be a condition, and what calls are counted by.
#[tokio::test]
async fn policies_tell_prompts_apart() {
    stand_at_noon();
    let here = Neighbourhood::new().await;
    let admin = here.gateway.admin();
    let prompt = async |text: &str| {
        let body = json!({ "name": text, "string": text, "parameters": {}, "model": "gpt-4o", "virtual_key": "up",
            "workspace_id": "team" });
        here.made("/prompts", body).await
    };
    let (one, two, three) = (prompt("one").await, prompt("two").await, prompt("three").await);
    let each = json!({ "name": "each", "type": "requests", "unit": "rpd", "value": 2, "workspace_id": "team",
        "conditions": [{ "key": "prompt", "excludes": &three }], "group_by": [{ "key": "prompt" }] });
    admin.post("/policies/rate-limits", &each).await.expect(200);
    let budget = json!({ "name": "spent", "type": "tokens", "credit_limit": 100, "workspace_id": "team",
        "conditions": [{ "key": "prompt", "value": "*" }], "group_by": [{ "key": "prompt" }] });
    for name in [&one, &one, &two] {
        here.call(name, 200).await;
    }
    here.call(&one, 429).await;
    here.call(&two, 200).await;
    here.call(&two, 429).await;
    for _ in 0..4 {
        here.call(&three, 200).await;
    }
    admin.post("/policies/usage-limits", &budget).await.expect(200);
    let (four, five) = (prompt("four").await, prompt("five").await);
    // A call holds back what it may need, so that a few reach the limit.
    let mut calls = 0;
    while here.try_to_call(&three).await == 200 {
        calls += 1;
        assert!(calls < 100, "the budget is never spent");
    }
    assert!(calls > 0, "the budget holds for what is counted under it");
    let each = json!({ "status": "archived" });
    let policies = admin.get("/policies/rate-limits?workspace_id=team").await.expect(200).json();
    let path = format!("/policies/rate-limits/{}", policies["data"][0]["id"].as_str().expect("an id"));
    admin.put(&path, &each).await.expect(200);
    assert_eq!(here.try_to_call(&three).await, 412);
    for name in [&four, &five] {
        here.call(name, 200).await;
    }
    let chat = json!({ "model": "gpt-4o", "messages": [{ "role": "user", "content": "hi" }] });
    here.gateway.post("/v1/chat/completions").key(&here.key).provider("@up").json(&chat).send().await.expect(200);
}
