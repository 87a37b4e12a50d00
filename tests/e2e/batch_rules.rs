//! What a batch is held to from its making to its end: its config, its file, its models, the room that there is, and
//! the record that it leaves.

use crate::area_forms::{FORM, form};
use crate::batches::{CHAT, answering, ask, asked, begin, ended, file, line, lines, results, text, upload};
use crate::harness::{Gateway, Upstream, eventually, gateway::target};
use serde_json::{Value, json};

#[tokio::test]
async fn a_config_that_changes_does_not_change_a_batch_that_runs() {
    let gateway = Gateway::with(&["--batch-parallel", "2", "--batch-lease", "1s"]).await;
    let admin = gateway.admin();
    let (before, after) = (answering(30).await, answering(1).await);
    let slug = admin.config("of-batch", &target(&before)).await;
    let file = file(&gateway, &lines(60)).await;
    let call = gateway.post("/v1/batches").header("x-gateway-config", &slug);
    let id = text(&call.json(&asked(&file)).send().await.expect(200).json(), "id");
    eventually("some lines", || async { (before.seen().len() > 3).then_some(()) }).await;
    admin.put(&format!("/configs/{slug}"), &json!({ "config": target(&after) })).await.expect(200);
    gateway.chat().header("x-gateway-config", &slug).json(&crate::harness::hello()).send().await.expect(200);
    assert_eq!(after.seen().len(), 1, "whoever calls now goes by the config in force");
    // A run that begins only now goes by the old one too, though the config is gone.
    admin.delete(&format!("/configs/{slug}")).await.expect(200);
    let gateway = gateway.restart_after_kill(&["--batch-parallel", "10", "--batch-lease", "1s"]).await;
    let batch = ended(&gateway, &id, "completed").await;
    assert_eq!(batch["request_counts"], json!({ "total": 60, "completed": 54, "failed": 6 }));
    assert_eq!(after.seen().len(), 1);
    let unknown = gateway.post("/v1/batches").header("x-gateway-config", "pc-unknown").json(&asked(&file)).send().await;
    assert!(unknown.expect(400).error().contains("pc-unknown"), "a config that is not there makes no batch");
}

#[tokio::test]
async fn a_default_config_that_comes_later_is_none_of_a_batchs() {
    let gateway = Gateway::with(&["--batch-parallel", "1"]).await;
    let (own, late) = (answering(50).await, answering(1).await);
    let admin = gateway.admin();
    let host = json!({ "custom_host": own.url() });
    let made = json!({
        "name": "own", "ai_provider_id": "openai", "key": "sk-upstream", "configurations": host,
        "create_default_provider": true, "default_provider_slug": "own",
    });
    admin.post("/integrations", &made).await.expect(200);
    let file = file(&gateway, &lines(20)).await;
    let call = gateway.post("/v1/batches").header("x-gateway-provider", "@own");
    let id = text(&call.json(&asked(&file)).send().await.expect(200).json(), "id");
    eventually("some lines", || async { (own.seen().len() > 1).then_some(()) }).await;
    let default = json!({ "name": "late", "config": target(&late), "isDefault": true });
    admin.post("/configs", &default).await.expect(200);
    ended(&gateway, &id, "completed").await;
    assert_eq!((own.seen().len(), late.seen().len()), (20, 0));
}

#[tokio::test]
async fn a_deleted_file_is_read_to_the_end_of_its_batch() {
    let gateway = Gateway::with(&["--batch-parallel", "2", "--file-store-max", "64KiB"]).await;
    let upstream = answering(50).await;
    let content = lines(300);
    assert!((33 << 10..60 << 10).contains(&content.len()), "two of {} do not fit", content.len());
    let file = file(&gateway, &content).await;
    let id = begin(&gateway, &target(&upstream), &file).await;
    eventually("some lines", || async { (upstream.seen().len() > 2).then_some(()) }).await;
    let path = format!("/v1/files/{file}");
    assert_eq!(gateway.call("DELETE", &path).send().await.expect(200).json()["deleted"], true);
    // Once it is deleted nobody finds it, nor makes a batch of it.
    let unknown = gateway.get(&path).send().await.expect(404).text();
    assert_eq!(gateway.get(&format!("{path}/content")).send().await.expect(404).text(), unknown);
    assert_eq!(gateway.call("DELETE", &path).send().await.expect(404).text(), unknown);
    assert_eq!(gateway.get("/v1/files?purpose=batch").send().await.expect(200).json()["data"], json!([]));
    gateway.post("/v1/batches").config(&target(&upstream)).json(&asked(&file)).send().await.expect(404);
    let cancelled = gateway.post(&format!("/v1/batches/{id}/cancel")).send().await.expect(200).json();
    assert_eq!(cancelled["status"], "cancelling");
    let batch = ended(&gateway, &id, "cancelled").await;
    let (good, bad) =
        (results(&gateway, &batch, "output_file_id").await, results(&gateway, &batch, "error_file_id").await);
    assert_eq!(good.len() + bad.len(), 300, "lines that nobody asked are told by name");
    // Its bytes go with the batch: there is room for as many again, once the results are deleted too.
    for which in ["output_file_id", "error_file_id"] {
        gateway.call("DELETE", &format!("/v1/files/{}", text(&batch, which))).send().await.expect(200);
    }
    eventually("the bytes to go", || async { (upload(&gateway, &content).await.status == 200).then_some(()) }).await;
}

#[tokio::test]
async fn models_that_may_not_be_called_fail_a_batch_before_anything_is_sent() {
    let gateway = Gateway::start().await;
    let upstream = answering(1).await;
    let (_, held) = gateway.admin().workspace_key("held", json!({ "allowed_models": ["good"] })).await;
    let chat = |id: &str, model: &str| line(id, CHAT, &json!({ "model": model, "messages": [ask(1)] }));
    let run = async |content: String, status: &str| {
        let body = form(&[("purpose", None, b"batch"), ("file", Some("f"), content.as_bytes())]);
        let made = gateway.post("/v1/files").key(&held).body(FORM, body).send().await.expect(200).json();
        let call = gateway.post("/v1/batches").key(&held).config(&target(&upstream));
        let made = call.json(&asked(&text(&made, "id"))).send().await.expect(200).json();
        ended(&gateway, &text(&made, "id"), status).await
    };
    let mixed = [chat("a", "good"), chat("b", "other"), chat("c", "good"), chat("d", "other")].concat();
    let failed = run(mixed, "failed").await;
    let told: Vec<_> = failed["errors"]["data"].as_array().expect("errors").clone();
    let places: Vec<_> = told.iter().map(|e| (text(e, "code"), e["line"].clone(), e["param"].clone())).collect();
    let at = |line: u64| ("model_not_permitted".to_owned(), json!(line), json!("body.model"));
    assert_eq!(places, [at(2), at(4)]);
    assert!(text(&told[0], "message").contains("other"), "{told:?}");
    assert!(upstream.seen().is_empty(), "nothing was sent");
    // What is wrong beside the model is the answer of its line alone.
    let odd = line("odd", CHAT, &json!({ "model": "good", "messages": "none" }));
    let batch = run([odd, chat("b", "good")].concat(), "completed").await;
    assert_eq!(batch["request_counts"], json!({ "total": 2, "completed": 1, "failed": 1 }));
}

#[tokio::test]
async fn a_batch_leaves_a_record_of_its_own_with_counts_and_cost() {
    let gateway = Gateway::start().await;
    let upstream = answering(1).await;
    let file = file(&gateway, &lines(10)).await;
    let call =
        gateway.post("/v1/batches").config(&target(&upstream)).header("x-gateway-metadata", r#"{"team":"blue"}"#);
    let id = text(&call.json(&asked(&file)).send().await.expect(200).json(), "id");
    ended(&gateway, &id, "completed").await;
    let record = |trace: String| {
        let gateway = &gateway;
        async move {
            eventually("the record", || async {
                let list = gateway.admin().get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
                list["data"].get(0).cloned()
            })
            .await
        }
    };
    let shown = record(id.clone()).await;
    let (counts, own) = (&shown["batch"], shown["metrics"].clone());
    assert_eq!((&shown["kind"], &counts["status"]), (&json!("batch"), &json!("completed")));
    assert_eq!(["lines", "completed", "failed"].map(|name| &counts[name]), [&json!(10), &json!(9), &json!(1)]);
    assert_eq!(["input_tokens", "output_tokens"].map(|name| &counts[name]), [&json!(45), &json!(27)]);
    let pairs =
        own["metadata.key"].as_array().expect("keys").iter().zip(own["metadata.value"].as_array().expect("values"));
    let told: serde_json::Map<String, Value> =
        pairs.map(|(key, value)| (key.as_str().unwrap_or_default().to_owned(), value.clone())).collect();
    let is = |name: &str, value: &str| assert_eq!(told[name], json!(value), "{name} of {told:?}");
    for (name, value) in [
        ("batch_id", id.as_str()),
        ("batch_status", "completed"),
        ("batch_lines", "10"),
        ("batch_completed", "9"),
        ("batch_failed", "1"),
        ("batch_input_tokens", "45"),
        ("batch_output_tokens", "27"),
        ("team", "blue"),
    ] {
        is(name, value);
    }
    let mut sum = 0.0;
    for n in 1..=9 {
        sum += record(format!("{id}-{n}")).await["metrics"]["cost"].as_f64().expect("a cost");
    }
    let cost: f64 = told["batch_cost"].as_str().and_then(|cost| cost.parse().ok()).expect("a cost");
    assert!(sum > 0.0 && (cost - sum).abs() < 1e-9, "{cost} for lines of {sum}");
    assert_eq!(counts["cost"], json!(cost));
    assert!(own["cost"].as_f64().is_none_or(|cost| cost == 0.0), "nothing is counted twice: {own}");
}

#[tokio::test]
async fn a_full_file_store_refuses_uploads_and_keeps_results() {
    let gateway = Gateway::with(&["--file-store-max", "8KiB"]).await;
    let upstream = answering(1).await;
    let content = lines(25);
    let kept = file(&gateway, &content).await;
    let left = 8 * 1024 - content.len();
    // The setup of a batch takes its room too.
    let id = begin(&gateway, &target(&upstream), &kept).await;
    let batch = ended(&gateway, &id, "completed").await;
    let good = results(&gateway, &batch, "output_file_id").await;
    let size = good.values().map(|line| line.to_string().len()).sum::<usize>();
    assert!(good.len() == 23 && size > left, "results of {size} bytes where {left} were left");
    for refused in [
        upload(&gateway, &lines(1)).await.expect(400),
        gateway.post("/v1/batches").config(&target(&upstream)).json(&asked(&kept)).send().await.expect(400),
    ] {
        assert_eq!(refused.json()["error"]["code"], "storage_full");
        assert!(refused.error().contains("--file-store-max"), "{}", refused.text());
    }
    let results = text(&batch, "output_file_id");
    gateway.call("DELETE", &format!("/v1/files/{results}")).send().await.expect(200);
    file(&gateway, &lines(1)).await;
    let told = gateway.metrics().await;
    assert!(told.lines().any(|line| line == "gateway_file_store_max_bytes 8192"), "{told}");
}

#[tokio::test]
async fn a_batch_ends_before_its_file_does() {
    let gateway = Gateway::start().await;
    let body = form(&[
        ("purpose", None, b"batch"),
        ("expires_after[anchor]", None, b"created_at"),
        ("expires_after[seconds]", None, b"3600"),
        ("file", Some("f"), lines(1).as_bytes()),
    ]);
    let file = gateway.post("/v1/files").body(FORM, body).send().await.expect(200).json();
    let upstream = Upstream::replying(|_| crate::harness::reply::chat("hi")).await;
    let call = gateway.post("/v1/batches").config(&target(&upstream));
    let batch = call.json(&asked(&text(&file, "id"))).send().await.expect(200).json();
    assert_eq!(batch["expires_at"].as_i64(), file["expires_at"].as_i64().map(|at| at - 600));
    ended(&gateway, &text(&batch, "id"), "completed").await;
}

#[tokio::test]
async fn files_without_lines_and_lines_that_are_none_fail_a_batch_and_a_mark_at_the_head_does_not() {
    let gateway = Gateway::start().await;
    let upstream = answering(1).await;
    let good = lines(1);
    for (content, code, param, line) in [
        (String::new(), "empty_file", Value::Null, Value::Null),
        ("\n \r\n\n".to_owned(), "empty_file", Value::Null, Value::Null),
        (good.replace("\"line-0\"", "5"), "invalid_json_line", json!("custom_id"), json!(1)),
        (good.clone() + "[\"a\",\"POST\",\"/v1/chat/completions\",{}]\n", "invalid_json_line", Value::Null, json!(2)),
        (good.replace("\"model\":", "\"model\":\"m\",\"model\":"), "invalid_body", json!("body.model"), json!(1)),
    ] {
        let id = begin(&gateway, &target(&upstream), &file(&gateway, &content).await).await;
        let batch = ended(&gateway, &id, "failed").await;
        let told = &batch["errors"]["data"][0];
        assert_eq!((&told["code"], &told["param"], &told["line"]), (&json!(code), &param, &line), "{batch}");
        assert!(!told["message"].to_string().contains("struct"), "{told}");
    }
    assert!(upstream.seen().is_empty(), "nothing was sent");
    let marked = file(&gateway, &format!("\u{feff}{}", lines(2).replace('\n', "\r\n"))).await;
    let id = begin(&gateway, &target(&upstream), &marked).await;
    let batch = ended(&gateway, &id, "completed").await;
    assert_eq!(batch["request_counts"], json!({ "total": 2, "completed": 2, "failed": 0 }));
}

#[tokio::test]
async fn what_makes_a_batch_is_held_to_its_kinds() {
    let gateway = Gateway::start().await;
    let upstream = answering(1).await;
    let input = file(&gateway, &lines(1)).await;
    for (name, value, field) in [
        ("gateway_options", json!(5), "gateway_options"),
        ("gateway_options", json!([]), "gateway_options"),
        ("output_expires_after", json!(["created_at", 3600]), "output_expires_after"),
        ("output_expires_after", json!({ "anchor": 5, "seconds": 3600 }), "output_expires_after.anchor"),
        ("output_expires_after", json!({ "anchor": "created_at", "seconds": "3600" }), "output_expires_after.seconds"),
        ("output_expires_after", json!({ "days": 1 }), "output_expires_after.days"),
    ] {
        let mut body = asked(&input);
        body[name] = value.clone();
        let refused = gateway.post("/v1/batches").config(&target(&upstream)).json(&body).send().await.expect(400);
        assert_eq!(refused.json()["error"]["param"], field, "{value}: {}", refused.text());
        assert!(!refused.text().contains("struct") && !refused.text().contains("i64"), "{}", refused.text());
    }
}

#[tokio::test]
async fn forms_of_files_are_refused_by_what_is_wrong_with_them() {
    let gateway = Gateway::start().await;
    let upload = async |body: Vec<u8>| gateway.post("/v1/files").body(FORM, body).send().await.expect(400).error();
    let part = ("file", Some("f"), &b"{}\n"[..]);
    let twice = form(&[("purpose", None, b"vision"), ("purpose", None, b"batch"), part]);
    assert_eq!(upload(twice).await, "purpose stands there twice");
    assert_eq!(upload(form(&[("purpose", None, b"batch"), part, part])).await, "file stands there twice");
    let good = form(&[("purpose", None, b"batch"), part]);
    let ahead = |header: &str| {
        let mut body = format!("--b\r\n{header}\r\n\r\nx\r\n").into_bytes();
        body.extend_from_slice(&good);
        body
    };
    let nameless = upload(ahead("content-disposition: form-data")).await;
    assert!(nameless.starts_with("A part of the form has no name"), "{nameless}");
    let many = upload(ahead(&"a: b\r\n".repeat(40))).await;
    assert!(many.contains("the header of a part has more than 32 lines"), "{many}");
    // What ends no header is not held until the largest file would be over.
    for body in [ahead(&format!("a: {}", "b".repeat(2 << 20))), [vec![b'a'; 2 << 20], good.clone()].concat()] {
        let long = upload(body).await;
        assert!(long.contains("more than 65536 bytes stand before or in the header of a part"), "{long}");
    }
}

#[tokio::test]
async fn files_of_one_purpose_are_found_behind_those_of_others() {
    let gateway = Gateway::start().await;
    let mut ids = Vec::new();
    for purpose in [&b"vision"[..], b"batch", b"batch", b"batch"] {
        let body = form(&[("purpose", None, purpose), ("file", Some("f"), b"{}\n")]);
        let made = gateway.post("/v1/files").provider("gateway").body(FORM, body).send().await.expect(200);
        ids.push(text(&made.json(), "id"));
    }
    let list = async |query: &str| {
        let list = gateway.get(&format!("/v1/files?{query}")).provider("gateway").send().await.expect(200).json();
        let ids: Vec<_> = list["data"].as_array().expect("files").iter().map(|file| text(file, "id")).collect();
        (ids, list["has_more"] == true)
    };
    assert_eq!(list("purpose=vision&limit=2").await, (vec![ids[0].clone()], false));
    assert_eq!(list("purpose=batch&limit=2").await, (vec![ids[3].clone(), ids[2].clone()], true));
    let rest = format!("purpose=batch&limit=2&after={}", ids[2]);
    assert_eq!(list(&rest).await, (vec![ids[1].clone()], false));
}
