//! Saved prompts as targets of configs: each asked in its own words and at its own provider, in turn or by lot.

use crate::harness::{Answer, Gateway, Upstream, eventually, hello, reply, stand_at_noon, with};
use serde_json::{Value, json};

/// A gateway with two providers, each with a prompt of its own, and one that nobody asks by itself.
struct House {
    gateway: Gateway,
    one: Upstream,
    two: Upstream,
    first: String,
    second: String,
}

impl House {
    async fn new(first: impl Fn() -> Vec<u8> + Send + Sync + 'static) -> Self {
        let gateway = Gateway::start().await;
        let one = Upstream::replying(move |_| first()).await;
        let two = Upstream::replying(|seen| {
            if seen.json()["stream"] == true { reply::stream(&["t", "wo"]) } else { reply::chat("two") }
        })
        .await;
        gateway.admin().provider("one", "openai", Some(&one.url())).await;
        gateway.admin().provider("two", "openai", Some(&two.url())).await;
        let mut house = Self { gateway, one, two, first: String::new(), second: String::new() };
        let text = "[{\"role\": \"system\", \"content\": \"First, in {{language}}.\"}]";
        house.first = house
            .prompt(json!({"string": text, "model": "gpt-4o", "virtual_key": "one", "parameters": {"seed": 1}}))
            .await;
        let fields = json!({"string": "Second, in {{language}}.", "model": "gpt-4o-mini", "virtual_key": "two",
            "parameters": {"temperature": 0.5, "max_tokens": 7}});
        house.second = house.prompt(fields).await;
        house
    }

    async fn prompt(&self, fields: Value) -> String {
        let body = with(json!({"name": "p", "parameters": {}}), fields);
        let made = self.gateway.admin().post("/prompts", &body).await.expect(200).json();
        made["slug"].as_str().expect("a slug").to_owned()
    }

    fn targets(&self, mode: &str) -> Value {
        json!({"strategy": {"mode": mode}, "targets": [{"prompt_id": self.first}, {"promptId": self.second}]})
    }

    async fn call(&self, prompt: &str, config: &str, body: &Value) -> Answer {
        let path = format!("/v1/prompts/{prompt}/completions");
        self.gateway.post(&path).header("x-gateway-config", config).json(body).send().await
    }

    async fn chat(&self, config: &str, body: &Value) -> Answer {
        self.gateway.post("/v1/chat/completions").header("x-gateway-config", config).json(body).send().await
    }
}

fn broken() -> Vec<u8> {
    reply::error(500, &[])
}

#[tokio::test]
async fn a_fallback_asks_each_prompt_in_its_own_words_and_names_it_in_its_record() {
    let house = House::new(broken).await;
    let admin = house.gateway.admin();
    let config = admin.config("both", &house.targets("fallback")).await;
    let other = house.prompt(json!({"string": "Nobody asks this.", "model": "gpt-4", "virtual_key": "one"})).await;
    let body = json!({"variables": {"language": "French"}, "user": "ann", "model": "ignored"});
    // Whichever prompt is named: the config says which are asked.
    let answer = house.call(&other, &config, &body).await.expect(200);
    assert_eq!(answer.said(), "two");
    assert_eq!(answer.header("x-gateway-last-used-option-index"), Some("config.targets[1]"));
    let first = json!({"model": "gpt-4o", "messages": [{"role": "system", "content": "First, in French."}], "seed": 1,
        "user": "ann"});
    let second = json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Second, in French."}],
        "temperature": 0.5, "max_tokens": 7, "user": "ann"});
    assert_eq!((house.one.only().json(), house.two.only().json()), (first, second));
    let streamed = house.call(&other, &config, &with(body, json!({"stream": true}))).await.expect(200);
    assert_eq!(streamed.said(), "two");
    let named = eventually("a record for each prompt", || async {
        let logs = admin.get("/logs?page_size=50").await.expect(200).json();
        let all = logs["data"].as_array().expect("records").clone();
        (all.len() == 4).then_some(all)
    });
    let named = named.await;
    let told = |slug: &str| named.iter().filter(|log| log["metrics"]["prompt_slug"] == slug).count();
    assert_eq!((told(&house.first), told(&house.second), told(&other)), (2, 2, 0), "{named:?}");
    let read = admin.get(&format!("/prompts/{}", house.second)).await.expect(200).json();
    let of_second = named.iter().find(|log| log["metrics"]["prompt_slug"] == json!(house.second)).expect("a record");
    assert_eq!(of_second["metrics"]["prompt_id"], read["id"]);
    assert_eq!(of_second["metrics"]["prompt_version_id"], read["prompt_version_id"]);
    assert_eq!(of_second["metrics"]["ai_model"], "gpt-4o-mini");
    // The sums by prompt agree: a turn that was passed over is no request of its own.
    let range = "time_of_generation_min=2024-01-01T00:00:00Z&time_of_generation_max=2033-01-01T00:00:00Z";
    let groups = admin.get(&format!("/analytics/groups/prompt?{range}")).await.expect(200).json();
    let rows = groups["data"].as_array().expect("rows");
    let count = |slug: &str| rows.iter().find(|row| row["prompt"] == slug).map(|row| row["requests"].clone());
    assert_eq!((count(&house.first), count(&house.second), count(&other)), (Some(json!(0)), Some(json!(2)), None));
}

#[tokio::test]
async fn a_chat_request_goes_on_behind_the_prompts_own_messages() {
    let house = House::new(broken).await;
    let config = house.gateway.admin().config("both", &house.targets("fallback")).await;
    let body = json!({"model": "whatever", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9,
        "variables": {"language": "Danish"}});
    assert_eq!(house.chat(&config, &body).await.expect(200).said(), "two");
    let want = json!({"model": "gpt-4o", "seed": 1, "max_tokens": 9, "messages": [
        {"role": "system", "content": "First, in Danish."}, {"role": "user", "content": "Hi"}]});
    assert_eq!(house.one.only().json(), want);
    let sent = house.two.only().json();
    assert_eq!(
        (&sent["model"], &sent["max_tokens"], &sent["temperature"]),
        (&json!("gpt-4o-mini"), &json!(9), &json!(0.5))
    );
    assert_eq!(sent["messages"][1], json!({"role": "user", "content": "Hi"}));
    // A target without a prompt gets what the client sent, also behind one with a prompt.
    let mixed = json!({"strategy": {"mode": "fallback"}, "targets": [
        {"prompt_id": house.first}, {"provider": "@two", "drop_params": ["variables"]}]});
    let answer = house.gateway.post("/v1/chat/completions").config(&mixed).json(&body).send().await.expect(200);
    assert_eq!(answer.said(), "two");
    let own = json!({"model": "whatever", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9});
    assert_eq!(house.two.seen().last().expect("a call").json(), own);
    let bad = with(body, json!({"variables": []}));
    let answer = house.gateway.post("/v1/chat/completions").config(&json!({"prompt_id": house.first})).json(&bad);
    assert!(answer.send().await.expect(400).error().contains("variables"));
}

#[tokio::test]
async fn prompts_share_the_load_and_a_target_says_more_than_its_prompt() {
    let house = House::new(|| reply::chat("one")).await;
    let config = house.gateway.admin().config("both", &house.targets("loadbalance")).await;
    for _ in 0..40 {
        house.call(&house.first, &config, &json!({})).await.expect(200);
    }
    let (one, two) = (house.one.seen(), house.two.seen());
    assert_eq!(one.len() + two.len(), 40);
    assert!(one.len() > 4 && two.len() > 4, "{} and {}", one.len(), two.len());
    assert!(one.iter().all(|seen| seen.json()["model"] == "gpt-4o"));
    assert!(two.iter().all(|seen| seen.json()["model"] == "gpt-4o-mini"));
    // Provider and parameters of the target beat those of the prompt, and a header of the request beats neither.
    let own = json!({"prompt_id": format!("{}@1", house.first), "provider": "@two",
        "override_params": {"model": "gpt-4.1", "seed": 5}});
    let path = format!("/v1/prompts/{}/completions", house.second);
    let answer = house.gateway.post(&path).config(&own).provider("@one").json(&json!({})).send().await.expect(200);
    assert_eq!(answer.said(), "two");
    let sent = house.two.seen().last().expect("a call").json();
    assert_eq!((&sent["model"], &sent["seed"]), (&json!("gpt-4.1"), &json!(5)));
    let alone = json!({"prompt_id": house.first});
    let answer = house.gateway.post(&path).config(&alone).provider("@two").json(&json!({})).send().await.expect(200);
    assert_eq!(answer.said(), "one");
}

#[tokio::test]
async fn a_prompt_that_cannot_be_asked_is_told_and_the_next_target_has_its_turn() {
    let house = House::new(|| reply::chat("one")).await;
    let admin = house.gateway.admin();
    let save = async |config: Value| admin.post("/configs", &json!({"name": "c", "config": config})).await;
    let nowhere = save(json!({"strategy": {"mode": "single"}, "targets": [{"prompt_id": "pp-nowhere"}]})).await;
    assert!(nowhere.expect(400).text().contains("targets,0,prompt_id"));
    let unpublished = json!({"prompt_id": format!("{}@production", house.first)});
    assert!(save(unpublished.clone()).await.expect(400).text().contains("names no version"));
    admin.post("/admin/workspaces", &json!({"name": "Team", "slug": "team"})).await.expect(200);
    let theirs = json!({"name": "t", "string": "Theirs", "model": "gpt-4o", "virtual_key": null, "parameters": {},
        "workspace_id": "team"});
    let theirs = admin.post("/prompts", &theirs).await.expect(200).json()["slug"].as_str().expect("a slug").to_owned();
    let foreign = save(json!({"prompt_id": theirs})).await.expect(400).text();
    assert!(foreign.contains("is not a prompt of this workspace"), "{foreign}");
    // What the request itself brings is looked for when it is that target's turn.
    for dangling in [json!({"prompt_id": "pp-nowhere"}), unpublished, json!({"prompt_id": theirs})] {
        let alone = house.gateway.chat().config(&dangling).json(&hello()).send().await.expect(404);
        assert!(alone.text().contains("prompt"), "{}", alone.text());
        let then = json!({"strategy": {"mode": "fallback"}, "targets": [dangling, {"prompt_id": house.second}]});
        assert_eq!(house.gateway.chat().config(&then).json(&hello()).send().await.expect(200).said(), "two");
    }
    // While a config asks it, it is not deleted; and what is shared is not taken from others who ask it.
    let config = admin.config("both", &house.targets("fallback")).await;
    let refused = admin.delete(&format!("/prompts/{}", house.first)).await.expect(409).text();
    assert!(refused.contains(&config), "{refused}");
    admin.post(&format!("/prompts/{theirs}/share"), &json!({"workspaces": ["default"]})).await.expect(200);
    let fields = json!({"name": "shared", "config": {"strategy": {"mode": "fallback"},
        "targets": [{"prompt_id": theirs, "provider": "@one"}, {"prompt_id": house.second}]}});
    let shared = admin.post("/configs", &fields).await.expect(200).json()["slug"].as_str().expect("a slug").to_owned();
    assert_eq!(house.chat(&shared, &hello()).await.expect(200).said(), "one");
    assert_eq!(house.one.seen().last().expect("a call").json()["messages"][0]["content"], "Theirs");
    let refused = admin.delete(&format!("/prompts/{theirs}/share")).await.expect(409).text();
    assert!(refused.contains("`default`"), "{refused}");
    admin.delete(&format!("/prompts/{theirs}")).await.expect(409);
    // A version that goes out of force afterwards is passed over.
    let labels = admin.get("/labels").await.expect(200).json();
    let label = with(json!({}), json!({"label_id": labels["data"][0]["id"]}));
    let name = labels["data"][0]["name"].as_str().expect("a name");
    admin.put(&format!("/prompts/{}/versions/1", house.first), &label).await.expect(200);
    let labelled = json!({"strategy": {"mode": "fallback"}, "targets": [
        {"prompt_id": format!("{}@{name}", house.first)}, {"prompt_id": house.second}]});
    let labelled = admin.config("labelled", &labelled).await;
    assert_eq!(house.chat(&labelled, &hello()).await.expect(200).said(), "one");
    admin.put(&format!("/prompts/{}/versions/1", house.first), &json!({"label_id": null})).await.expect(200);
    assert_eq!(house.chat(&labelled, &hello()).await.expect(200).said(), "two");
    for path in ["/v1/embeddings", "/v1/messages"] {
        let body = with(hello(), json!({"input": "x", "max_tokens": 5}));
        let call = house.gateway.post(path).config(&json!({"prompt_id": house.second})).json(&body);
        assert!(call.send().await.expect(400).text().contains("prompt_id"), "{path}");
    }
}

#[tokio::test]
async fn limits_of_a_prompt_hold_for_its_target_and_the_next_has_its_turn() {
    stand_at_noon();
    let house = House::new(|| reply::chat("one")).await;
    let admin = house.gateway.admin();
    let config = admin.config("both", &house.targets("fallback")).await;
    for (slug, most) in [(&house.first, 2), (&house.second, 3)] {
        let policy =
            json!({"type": "requests", "unit": "rpd", "value": most, "conditions": [{"key": "prompt", "value": slug}]});
        admin.post("/policies/rate-limits", &policy).await.expect(200);
    }
    let mut said = Vec::new();
    for _ in 0..5 {
        said.push(house.chat(&config, &hello()).await.expect(200).said());
    }
    assert_eq!(said, ["one", "one", "two", "two", "two"]);
    house.chat(&config, &hello()).await.expect(429);
    assert_eq!((house.one.seen().len(), house.two.seen().len()), (2, 3));
}

/// Guardrails judge what a prompt says, and answers are kept for what was asked there.
#[tokio::test]
async fn guardrails_and_caches_see_the_words_of_each_prompt() {
    let house = House::new(|| reply::chat("one")).await;
    let check = json!({"default.contains": {"words": ["French"], "operator": "none"}, "deny": true});
    let mut config = house.targets("fallback");
    config["targets"][0]["input_guardrails"] = json!([check]);
    config["cache"] = "simple".into();
    let config = house.gateway.admin().config("guarded", &config).await;
    let ask = async |language: &str| {
        house.call(&house.first, &config, &json!({"variables": {"language": language}})).await.expect(200)
    };
    // Denied at the first prompt, whose words they are; the second has no such guardrail.
    let french = ask("French").await;
    assert_eq!((french.said().as_str(), french.header("x-gateway-cache-status")), ("two", Some("MISS")));
    assert_eq!((house.one.seen().len(), house.two.seen().len()), (0, 1));
    assert_eq!(ask("French").await.header("x-gateway-cache-status"), Some("HIT"));
    assert_eq!(ask("Danish").await.said(), "one");
    assert_eq!(ask("Danish").await.header("x-gateway-cache-status"), Some("HIT"));
    assert_eq!(ask("Greek").await.header("x-gateway-cache-status"), Some("MISS"), "other variables, another question");
    assert_eq!((house.one.seen().len(), house.two.seen().len()), (2, 1));
}

/// A key that is held to its config may be asked through prompts, and to some models only by the prompts of these.
#[tokio::test]
async fn keys_are_held_to_their_config_and_models_through_prompts() {
    let house = House::new(|| reply::chat("one")).await;
    let admin = house.gateway.admin();
    let config = admin.config("both", &house.targets("fallback")).await;
    let fields =
        json!({"defaults": {"config_id": config, "allow_config_override": false}, "allowed_models": ["gpt-4o-mini"]});
    let (_, key) = admin.workspace_key("held", fields).await;
    let path = format!("/v1/prompts/{}/completions", house.first);
    let ask = || house.gateway.post(&path).key(&key).json(&json!({}));
    assert_eq!(ask().send().await.expect(200).said(), "two", "the first prompt's model is closed to the key");
    assert_eq!(house.one.seen().len(), 0);
    ask().provider("@one").send().await.expect(400);
}

/// A request that fails at one prompt takes nothing of that prompt's limit, nor twice of the workspace's.
#[tokio::test]
async fn what_a_failed_prompt_held_is_given_back() {
    stand_at_noon();
    let house = House::new(broken).await;
    let admin = house.gateway.admin();
    let config = admin.config("both", &house.targets("fallback")).await;
    let all = json!({"type": "requests", "unit": "rpd", "value": 3, "conditions": [{"key": "api_key", "value": "*"}]});
    admin.post("/policies/rate-limits", &all).await.expect(200);
    let of_first = json!({"type": "requests", "unit": "rpd", "value": 1,
        "conditions": [{"key": "prompt", "value": house.first}]});
    admin.post("/policies/rate-limits", &of_first).await.expect(200);
    for _ in 0..3 {
        assert_eq!(house.chat(&config, &hello()).await.expect(200).said(), "two");
    }
    house.chat(&config, &hello()).await.expect(429);
    assert_eq!(house.one.seen().len(), 3, "each of them was let in");
}

#[tokio::test]
async fn what_would_be_asked_is_explained_and_carried_as_code_by_name() {
    let house = House::new(|| reply::chat("one")).await;
    let admin = house.gateway.admin();
    let id = admin.get(&format!("/prompts/{}", house.first)).await.expect(200).json()["id"].clone();
    let id = id.as_str().expect("an id");
    let targets = json!({"strategy": {"mode": "fallback"}, "targets": [
        {"prompt_id": format!("{id}@1")}, {"prompt_id": house.second}, {"provider": "@two"}]});
    let config = admin.config("both", &targets).await;
    let (key, _) = admin.workspace_key("app", json!({})).await;
    let policy = json!({"name": "Of the second", "type": "requests", "unit": "rpd", "value": 3,
        "conditions": [{"key": "prompt", "value": house.second}]});
    admin.post("/policies/rate-limits", &policy).await.expect(200);
    let supposed =
        json!({"key": key, "path": "/v1/chat/completions", "headers": {"x-gateway-config": config}, "body": hello()});
    let told = admin.post("/configs/explain", &supposed).await.expect(200).json();
    let target = |at: usize| &told["targets"][at];
    let asked = json!({"asked_for": format!("{id}@1"), "slug": house.first, "version": 1});
    assert_eq!((&target(0)["prompt"], &target(0)["model"]), (&asked, &json!("gpt-4o")), "{told}");
    assert_eq!((&target(1)["virtual_key"], &target(1)["model"]), (&json!("two"), &json!("gpt-4o-mini")));
    assert!(target(1)["limits"].to_string().contains("Of the second"), "{told}");
    assert!(!target(0)["limits"].to_string().contains("Of the second"), "{told}");
    assert_eq!((&target(2)["prompt"], &target(2)["model"]), (&Value::Null, &hello()["model"]));
    assert_eq!((house.one.seen().len(), house.two.seen().len()), (0, 0));
    let document =
        admin.get("/configuration").await.expect(200).json()["document"].as_str().expect("a text").to_owned();
    assert!(document.contains(&format!("prompt_id: {}@1", house.first)) && !document.contains(id), "{document}");
    let other = Gateway::start().await;
    let secrets = json!({"GATEWAY_SECRET_INTEGRATION_ONE_INTEGRATION_KEY": "sk-1", "GATEWAY_SECRET_INTEGRATION_TWO_INTEGRATION_KEY": "sk-2"});
    let told = other.admin().post("/configuration/import", &json!({"document": document, "secrets": secrets})).await;
    told.expect(200);
    assert_eq!(other.admin().get("/configuration").await.expect(200).json()["document"], document);
    let call = other.post("/v1/chat/completions").header("x-gateway-config", &config).json(&hello());
    assert_eq!(call.send().await.expect(200).said(), "one");
}
