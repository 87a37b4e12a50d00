//! What a key is held to: every limit of its calls with what is used and left, told to admins and to the key itself, by
//! the counters that its calls are held to.

use crate::harness::{Gateway, Upstream, eventually, gateway::target, hello, reply, stand_at_noon, with};
use gateway_testing::Redis;
use serde_json::{Value, json};

/// The limit of this holder and type.
fn limit<'a>(told: &'a Value, holder: &str, measured: &str) -> &'a Value {
    let rows = told["data"].as_array().expect("a list");
    let found = rows.iter().find(|row| row["holder"]["type"] == holder && row["type"] == measured);
    found.unwrap_or_else(|| panic!("no {measured} of {holder} in {told}"))
}

async fn policy(gateway: &Gateway, kind: &str, fields: Value) -> String {
    let made = gateway.admin().post(&format!("/policies/{kind}"), &fields).await.expect(200).json();
    made["id"].as_str().expect("an id").to_owned()
}

async fn upstream() -> Upstream {
    Upstream::replying(|_| {
        let mut body = reply::completion("hi");
        body["usage"] = json!({ "prompt_tokens": 0, "completion_tokens": 2_000, "total_tokens": 2_000 });
        reply::whole(200, &[("content-type", "application/json")], body.to_string())
    })
    .await
}

async fn ask(gateway: &Gateway, key: &str, config: &Value) {
    let body = with(hello(), json!({ "model": "gpt-4o", "max_tokens": 2_000 }));
    gateway.chat().key(key).config(config).json(&body).send().await.expect(200);
}

/// A key with limits of its own, a policy for each of its calls, one for some, and one that is somebody else's.
async fn limited(gateway: &Gateway) -> (String, String) {
    let fields = json!({ "scopes": ["completions.write"], "rate_limits": [{ "type": "requests", "unit": "rpd", "value": 10 }],
        "usage_limits": { "type": "cost", "credit_limit": 1, "periodic_reset": "monthly" },
        "defaults": { "metadata": { "team": "red" } } });
    let (id, key) = gateway.admin().workspace_key("held", fields).await;
    let everybody = json!([{ "key": "api_key", "value": "*" }]);
    let each = json!([{ "key": "api_key" }]);
    let rate = |name: &str, more: Value| {
        with(
            json!({ "name": name, "type": "tokens", "unit": "rpd", "value": 100_000, "conditions": everybody, "group_by": each }),
            more,
        )
    };
    policy(gateway, "rate-limits", rate("All", json!({}))).await;
    policy(gateway, "rate-limits", rate("Some", json!({ "group_by": [{ "key": "model" }, { "key": "api_key" }] })))
        .await;
    policy(
        gateway,
        "rate-limits",
        rate("Others", json!({ "conditions": [{ "key": "metadata.team", "value": "blue" }] })),
    )
    .await;
    policy(
        gateway,
        "rate-limits",
        rate(
            "Ours",
            json!({ "conditions": [{ "key": "metadata.team", "value": "red" }],
        "group_by": [{ "key": "metadata.team" }] }),
        ),
    )
    .await;
    (id, key)
}

fn names(told: &Value) -> Vec<&str> {
    let rows = told["data"].as_array().expect("a list");
    let mut names: Vec<&str> = rows.iter().map(|row| row["holder"]["name"].as_str().expect("a name")).collect();
    names.sort_unstable();
    names
}

fn row<'a>(told: &'a Value, name: &str) -> &'a Value {
    told["data"].as_array().expect("a list").iter().find(|row| row["holder"]["name"] == name).expect("told")
}

#[tokio::test]
async fn a_key_sees_what_is_left_of_each_limit() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let (id, key) = limited(&gateway).await;
    let upstream = upstream().await;
    let config = target(&upstream);
    let path = format!("/api-keys/{id}/limits");
    let before = gateway.admin().get(&path).await.expect(200).json();
    assert_eq!(names(&before), ["All", "Ours", "Some", "held", "held"], "{before}");
    assert_eq!(before["counting"], "process");
    let (requests, cost) = (limit(&before, "api_key", "requests"), limit(&before, "api_key", "cost"));
    assert_eq!((&requests["used"], &requests["left"], &requests["unit"]), (&json!(0), &json!(10), &json!("rpd")));
    assert_eq!((&cost["used"], &cost["left"], &cost["unit"]), (&json!(0), &json!(1), &json!(null)));
    assert!(cost["resets_at"].is_string() && requests["resets_at"].is_string(), "{before}");
    for _ in 0..2 {
        ask(&gateway, &key, &config).await;
    }
    // What a call held is part of what is used until the call is settled.
    let after = eventually("both calls are settled", || async {
        let told = gateway.admin().get(&path).await.expect(200).json();
        let is_settled = limit(&told, "api_key", "cost")["used"] == 0.04 && row(&told, "Ours")["used"] == 4_000;
        (is_settled && row(&told, "All")["used"] == 4_000).then_some(told)
    })
    .await;
    let (requests, cost) = (limit(&after, "api_key", "requests"), limit(&after, "api_key", "cost"));
    assert_eq!((&requests["used"], &requests["left"]), (&json!(2), &json!(8)), "{after}");
    assert_eq!((&cost["used"], &cost["left"]), (&json!(0.04), &json!(0.96)), "{after}");
    let (all, ours, some) = (row(&after, "All"), row(&after, "Ours"), row(&after, "Some"));
    assert_eq!((&all["used"], &all["left"], &all["depends_on"]), (&json!(4_000), &json!(96_000), &json!([])));
    assert_eq!(all["value_key"], format!("api_key:{id}"));
    assert_eq!((&ours["used"], &ours["value_key"]), (&json!(4_000), &json!("metadata.team:red")));
    assert_eq!((&some["used"], &some["left"], &some["depends_on"]), (&json!(null), &json!(null), &json!(["model"])));
    // The key sees the same, and no other key does.
    let own = gateway.get("/v1/api-keys/self/limits").key(&key).send().await.expect(200).json();
    assert_eq!(own["data"], after["data"]);
    let looked = gateway.admin().get(&path).await.expect(200).json();
    assert_eq!(looked["data"], after["data"], "a look takes nothing");
    let (_, other) = gateway.admin().workspace_key("other", json!({ "scopes": ["completions.write"] })).await;
    gateway.get(&format!("/v1{path}")).key(&other).send().await.expect(403);
}

#[tokio::test]
async fn what_is_used_up_and_what_targets_allow_is_told_too() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    let admin = gateway.admin();
    admin.provider("up", "openai", Some(&upstream.url())).await;
    let limits = json!({ "rate_limits": [{ "type": "requests", "unit": "rpd", "value": 5 }] });
    admin.put("/providers/up", &limits).await.expect(200);
    let fields =
        json!({ "scopes": ["completions.write"], "rate_limits": [{ "type": "requests", "unit": "rpd", "value": 1 }] });
    let (id, key) = admin.workspace_key("k", fields).await;
    let body = with(hello(), json!({ "model": "gpt-4o" }));
    gateway.chat().key(&key).provider("@up").json(&body).send().await.expect(200);
    gateway.chat().key(&key).provider("@up").json(&body).send().await.expect(429);
    let told = admin.get(&format!("/api-keys/{id}/limits")).await.expect(200).json();
    let own = limit(&told, "api_key", "requests");
    assert_eq!((&own["used"], &own["left"]), (&json!(1), &json!(0)), "{told}");
    let target = limit(&told, "provider", "requests");
    assert_eq!(
        (&target["used"], &target["left"], &target["holder"]["slug"]),
        (&json!(1), &json!(4), &json!("up")),
        "{told}"
    );
    assert_eq!(target["depends_on"], json!(["virtual_key"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_share_a_redis_tell_what_both_counted() {
    stand_at_noon();
    let redis = tokio::task::spawn_blocking(Redis::start).await.expect("no panic");
    let database = tokio::task::spawn_blocking(|| {
        (gateway_testing::Postgres::shared(), gateway_testing::Postgres::shared().create("key_limits"))
    });
    let (_postgres, url) = database.await.expect("no panic");
    let redis_url = redis.url();
    let flags = ["--database-url", &url, "--redis-url", &redis_url];
    let one = Gateway::with(&flags).await;
    let key_file = one.folder().join("data/master.key").display().to_string();
    let two = Gateway::with(&[&flags[..], &["--master-key-file", &key_file]].concat()).await;
    let (id, key) = limited(&one).await;
    let upstream = upstream().await;
    let config = target(&upstream);
    eventually("the other node knows the key", || async {
        let answer = two.get("/v1/api-keys/self/limits").key(&key).send().await;
        (answer.status == 200).then_some(())
    })
    .await;
    ask(&one, &key, &config).await;
    ask(&two, &key, &config).await;
    for node in [&one, &two] {
        let told = eventually("both calls are counted", || async {
            let told = node.admin().get(&format!("/api-keys/{id}/limits")).await.expect(200).json();
            let is_whole = limit(&told, "api_key", "requests")["used"] == 2 && row(&told, "All")["used"] == 4_000;
            is_whole.then_some(told)
        })
        .await;
        assert_eq!(told["counting"], "redis");
    }
}
