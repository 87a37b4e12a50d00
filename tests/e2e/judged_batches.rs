//! Guardrails over batches that a provider runs: lines are judged before they go up and answers before they are told,
//! with the verdicts, answers and records of a call.

use crate::batches::{batch, ended, file, results, text};
use crate::family_batches::{
    CLAUDE, CLAUDE_BATCH, FAST, FamilyProvider, by_provider, claude, claudes_results, four, make,
};
use crate::guardrail_cases::forbids;
use crate::harness::{Gateway, Upstream, eventually, reply, with};
use crate::managed_batches::{NativeProvider, calls, three};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// What guardrails said of a call, by its record.
async fn said(gateway: &Gateway, trace: &str) -> Value {
    let found = eventually(trace, || async {
        let list = gateway.admin().get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
        (list["total"] == 1).then(|| list["data"][0].clone())
    });
    let id = text(&found.await, "id");
    gateway.admin().get(&format!("/logs/{id}")).await.expect(200).json()
}

fn status(line: &Value) -> &Value {
    &line["response"]["status_code"]
}

#[tokio::test]
async fn answers_of_a_provider_are_judged_and_denied_ones_stand_in_the_error_file() {
    let gateway = Gateway::with(FAST).await;
    let (_, upstream) = NativeProvider::start(2).await;
    let config = with(
        crate::harness::gateway::target(&upstream),
        json!({ "input_guardrails": [forbids("line-1")], "output_guardrails": [forbids("line-2")] }),
    );
    let file = file(&gateway, &three("gpt-4o-mini")).await;
    let id = make(&gateway, &config, &by_provider(&file)).await;
    let batch = ended(&gateway, &id, "completed").await;
    assert_eq!(batch["request_counts"], json!({ "total": 3, "completed": 1, "failed": 2 }));
    assert!(batch["finalizing_at"].is_i64(), "{batch}");
    let (good, bad) =
        (results(&gateway, &batch, "output_file_id").await, results(&gateway, &batch, "error_file_id").await);
    assert_eq!(good.keys().collect::<Vec<_>>(), ["line-0"]);
    assert!(good["line-0"]["response"]["body"]["hook_results"]["after_request_hooks"].is_array(), "{good:?}");
    for (line, side) in [("line-1", "before_request_hooks"), ("line-2", "after_request_hooks")] {
        let body = &bad[line]["response"]["body"];
        assert_eq!((status(&bad[line]), &body["error"]["type"]), (&json!(446), &json!("hooks_failed")), "{line}");
        assert_eq!(body["hook_results"][side][0]["verdict"], false, "{body}");
    }
    let up = calls(&upstream, "POST", "/files")[0].text();
    assert!(up.contains("line-0") && up.contains("line-2") && !up.contains("line-1"), "{up}");
    // Each line has one record, which tells both verdicts; what was answered costs what it costs.
    let (first, second, third) = (
        said(&gateway, &format!("{id}-1")).await,
        said(&gateway, &format!("{id}-2")).await,
        said(&gateway, &format!("{id}-3")).await,
    );
    let verdicts = |record: &Value| {
        ["before_request_hooks", "after_request_hooks"].map(|side| record["hook_results"][side][0]["verdict"].clone())
    };
    let [pass, deny] = [json!(true), json!(false)];
    assert_eq!(verdicts(&first), [pass.clone(), pass.clone()], "{first}");
    assert_eq!(verdicts(&second), [deny.clone(), Value::Null], "{second}");
    assert_eq!(verdicts(&third), [pass, deny], "{third}");
    assert_eq!((&second["response"]["status"], &third["response"]["status"]), (&json!(446), &json!(446)));
    let cost = |record: &Value| record["metrics"]["cost"].as_f64().unwrap_or_default();
    assert!(cost(&second) == 0.0 && cost(&third) > 0.0 && (cost(&first) - cost(&third)).abs() < 1e-9, "{third}");
}

#[tokio::test]
async fn lines_and_answers_of_another_family_are_judged_as_the_client_reads_them() {
    let gateway = Gateway::with(FAST).await;
    let provider = FamilyProvider::start(CLAUDE_BATCH, claude(2, claudes_results)).await;
    let guards = json!({ "input_guardrails": [forbids("line-1")], "output_guardrails": [forbids("answer-2")] });
    let config = with(provider.config("anthropic"), guards);
    let id = make(&gateway, &config, &by_provider(&file(&gateway, &four(CLAUDE)).await)).await;
    let batch = ended(&gateway, &id, "completed").await;
    assert_eq!(batch["request_counts"], json!({ "total": 4, "completed": 1, "failed": 3 }));
    let bad = results(&gateway, &batch, "error_file_id").await;
    assert_eq!((status(&bad["line-1"]), status(&bad["line two, with words"])), (&json!(446), &json!(446)));
    let made = provider.calls("POST", "/messages/batches")[0].json();
    assert_eq!(made["requests"].as_array().expect("a list").len(), 3);
    // Where every line is denied nothing goes up at all.
    let all = with(provider.config("anthropic"), json!({ "input_guardrails": [forbids("line")] }));
    let id = make(&gateway, &all, &by_provider(&file(&gateway, &four(CLAUDE)).await)).await;
    let batch = ended(&gateway, &id, "completed").await;
    assert_eq!(batch["request_counts"], json!({ "total": 4, "completed": 0, "failed": 4 }));
    assert_eq!(provider.calls("POST", "/messages/batches").len(), 1);
}

/// Guardrails of somebody's own that answer when they may, and count what they are asked.
async fn judge(open: &Arc<AtomicBool>) -> (Upstream, Arc<AtomicUsize>) {
    let (open, asked) = (open.clone(), Arc::<AtomicUsize>::default());
    let counted = asked.clone();
    let upstream = Upstream::scripted(move |mut peer| {
        let (open, counted) = (open.clone(), counted.clone());
        async move {
            while let Some(_seen) = peer.request().await {
                counted.fetch_add(1, SeqCst);
                while !open.load(SeqCst) {
                    peer.pause(20).await;
                }
                if !peer.send(reply::json(200, &json!({ "verdict": true }))).await {
                    return;
                }
            }
        }
    });
    (upstream.await, asked)
}

#[tokio::test]
async fn a_batch_whose_answers_were_being_judged_when_its_node_died_ends_once_and_right() {
    let gateway = Gateway::with(FAST).await;
    let (provider, upstream) = NativeProvider::start(1).await;
    let open = Arc::<AtomicBool>::default();
    let (webhook, asked) = judge(&open).await;
    let check = json!({ "default.webhook": { "webhookURL": webhook.url(), "timeout": 9000 }, "deny": true });
    let config = with(crate::harness::gateway::target(&upstream), json!({ "output_guardrails": [check] }));
    let file = file(&gateway, &three("gpt-4o-mini")).await;
    let id = make(&gateway, &config, &by_provider(&file)).await;
    eventually("answers to be judged", || async { (asked.load(SeqCst) > 0).then_some(()) }).await;
    assert_eq!(batch(&gateway, &id).await["status"], "processing_post_request_guardrails");
    gateway.post(&format!("/v1/batches/{id}/cancel")).send().await.expect(200);
    assert_eq!(batch(&gateway, &id).await["status"], "processing_post_request_guardrails", "it has ended there");
    let gateway = gateway.restart_after_kill(FAST).await;
    open.store(true, SeqCst);
    let batch = ended(&gateway, &id, "completed").await;
    assert_eq!(batch["request_counts"], json!({ "total": 3, "completed": 2, "failed": 1 }));
    assert_eq!(results(&gateway, &batch, "output_file_id").await.len(), 2);
    assert_eq!(provider.made(), 1);
}

/// One of two answers had its record when the node died, and the other was still being judged.
#[tokio::test]
async fn answers_that_a_killed_node_was_about_to_count_are_counted_once() {
    let gateway = Gateway::with(FAST).await;
    let (_, upstream) = NativeProvider::start(1).await;
    let open = Arc::<AtomicBool>::default();
    let is_open = open.clone();
    let webhook = Upstream::scripted(move |mut peer| {
        let open = is_open.clone();
        async move {
            while let Some(seen) = peer.request().await {
                while !open.load(SeqCst) && !seen.text().contains("line-0") {
                    peer.pause(20).await;
                }
                if !peer.send(reply::json(200, &json!({ "verdict": true }))).await {
                    return;
                }
            }
        }
    });
    let webhook = webhook.await;
    let check = json!({ "default.webhook": { "webhookURL": webhook.url(), "timeout": 9000 }, "deny": true });
    let config = with(crate::harness::gateway::target(&upstream), json!({ "output_guardrails": [check] }));
    let limits = json!({ "usage_limits": { "credit_limit": 1_000, "type": "tokens" } });
    let (key_id, key) = gateway.admin().workspace_key("counted", limits).await;
    let content = three("gpt-4o-mini");
    let parts = [("purpose", None, b"batch".as_slice()), ("file", Some("f"), content.as_bytes())];
    let form = crate::area_forms::form(&parts);
    let made = gateway.post("/v1/files").key(&key).body(crate::area_forms::FORM, form).send().await.expect(200).json();
    let call = gateway.post("/v1/batches").key(&key).config(&config).json(&by_provider(&text(&made, "id")));
    let id = text(&call.send().await.expect(200).json(), "id");
    said(&gateway, &format!("{id}-1")).await;
    let none = gateway.admin().get(&format!("/logs?trace_id={id}-3")).await.expect(200).json();
    assert_eq!(none["total"], 0, "{none}");
    let gateway = gateway.restart_after_kill(FAST).await;
    open.store(true, SeqCst);
    eventually("the batch to end", || async {
        let batch = gateway.get(&format!("/v1/batches/{id}")).key(&key).send().await.expect(200).json();
        (batch["status"] == "completed").then_some(())
    })
    .await;
    for number in [1, 3] {
        said(&gateway, &format!("{id}-{number}")).await;
    }
    let shown = gateway.admin().get(&format!("/api-keys/{key_id}")).await.expect(200).json();
    assert_eq!(shown["usage_limits"]["current_usage"], 16, "two lines of eight tokens each: {shown}");
}

#[tokio::test]
async fn another_output_takes_the_place_of_the_one_that_is_being_judged() {
    let gateway = Gateway::with(FAST).await;
    let (_, upstream) = NativeProvider::start(1).await;
    let open = Arc::<AtomicBool>::default();
    let (webhook, asked) = judge(&open).await;
    let check = json!({ "default.webhook": { "webhookURL": webhook.url(), "timeout": 9000 }, "deny": true });
    let config = with(crate::harness::gateway::target(&upstream), json!({ "output_guardrails": [check] }));
    let input = file(&gateway, &three("gpt-4o-mini")).await;
    let own = "{\"custom_id\": \"line-0\", \"response\": null}\n";
    let output = file(&gateway, own).await;
    let id = make(&gateway, &config, &by_provider(&input)).await;
    let put = |id: &str, body: Value| {
        let call = gateway.call("PUT", &format!("/v2/batches/{id}")).json(&body);
        async move { call.send().await }
    };
    let with_file = |file: &str| json!({ "internal_output_file_id": file });
    eventually("answers to be judged", || async { (asked.load(SeqCst) > 0).then_some(()) }).await;
    for (id, body, status, word) in [
        (&*id, with_file("file-of-a-provider"), 400, "internal_output_file_id"),
        (&*id, with_file(&id), 400, "internal_output_file_id"),
        (&*id, json!({ "internal_output_file_id": 1 }), 400, "internal_output_file_id"),
        (&*id, json!({}), 400, "internal_output_file_id"),
        (&*id, with(with_file(&output), json!({ "status": "completed" })), 400, "status"),
        ("batch_of_a_provider", with_file(&output), 404, "batch"),
        (&*output, with_file(&output), 404, "batch"),
    ] {
        let told = put(id, body).await.expect(status).text();
        assert!(told.contains(word), "{told}");
    }
    // Other workspaces see neither the batch nor its file.
    let workspace = gateway.admin().post("/workspaces", &json!({ "name": "others" })).await.expect(200).json();
    let place = json!({ "workspace_id": workspace["id"], "scopes": ["completions.write"] });
    let (_, stranger) = gateway.admin().workspace_key("others", place).await;
    let path = format!("/v2/batches/{id}");
    gateway.call("PUT", &path).key(&stranger).json(&with_file(&output)).send().await.expect(404);
    assert_eq!(batch(&gateway, &id).await["status"], "processing_post_request_guardrails");
    for _ in 0..2 {
        let told = put(&id, with_file(&output)).await.expect(200).json();
        assert_eq!((&told["status"], &told["output_file_id"]), (&json!("completed"), &json!(output)), "{told}");
    }
    open.store(true, SeqCst);
    // What was answered is judged and counted all the same.
    let counted = eventually("all to be counted", || async {
        let batch = batch(&gateway, &id).await;
        (batch["request_counts"]["failed"] == 1).then_some(batch)
    });
    let batch = counted.await;
    assert_eq!((&batch["status"], &batch["output_file_id"]), (&json!("completed"), &json!(output)), "{batch}");
    assert_eq!(batch["request_counts"], json!({ "total": 3, "completed": 2, "failed": 1 }));
    assert_eq!(results(&gateway, &batch, "error_file_id").await.len(), 1);
    let content = gateway.get(&format!("/v1/files/{output}/content")).send().await.expect(200).text();
    assert_eq!(content, own);
    // One that ended by itself has its output.
    let other = make(&gateway, &config, &by_provider(&file(&gateway, &three("gpt-4o-mini")).await)).await;
    let ended = ended(&gateway, &other, "completed").await;
    let refused = put(&other, with_file(&output)).await.expect(409).text();
    assert!(refused.contains("completed"), "{refused}");
    assert_eq!(crate::batches::batch(&gateway, &other).await["output_file_id"], ended["output_file_id"]);
}
