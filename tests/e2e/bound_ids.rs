//! Objects that providers keep are found again where they are kept: ids are bound to their provider where several could
//! have been asked, and else stay as they came.

use crate::area_forms::{FORM, form};
use crate::harness::{Answer, Gateway, Seen, Upstream, gateway::target, reply, with};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A provider that keeps objects under ids of its own, and knows no others.
pub(crate) async fn keeping(name: &'static str) -> Upstream {
    Upstream::replying(move |seen| kept(name, seen)).await
}

pub(crate) fn kept(name: &str, seen: &Seen) -> Vec<u8> {
    let path = seen.target.trim_start_matches("/v1");
    let (file, batch, response) = (format!("file-{name}"), format!("batch_{name}"), format!("resp_{name}"));
    let described = json!({ "id": file, "object": "file", "bytes": 3, "filename": file, "purpose": "batch" });
    let body = match (seen.method.as_str(), path) {
        ("POST", "/files") => described,
        ("GET", "/files") => json!({ "object": "list", "data": [described], "first_id": file, "last_id": file }),
        ("GET", path) if path == format!("/files/{file}") => described,
        ("DELETE", path) if path == format!("/files/{file}") => {
            json!({ "id": file, "object": "file", "deleted": true })
        }
        ("GET", path) if path == format!("/files/{file}/content") => {
            return reply::whole(200, &[("content-type", "application/json")], format!("{{\"id\":\"{file}\"}}"));
        }
        ("POST", "/batches") => {
            let input = seen.json()["input_file_id"].clone();
            json!({ "id": batch, "object": "batch", "input_file_id": input, "metadata": { "id": batch } })
        }
        ("POST", path) if path == format!("/batches/{batch}/cancel") => json!({ "id": batch, "status": "cancelling" }),
        ("POST", "/responses") => {
            let asked = seen.json();
            let made = json!({ "id": response, "object": "response", "model": "gpt-4o", "status": "completed",
                "previous_response_id": asked["previous_response_id"], "output": [],
                "usage": { "input_tokens": 1, "output_tokens": 1, "total_tokens": 2 } });
            if asked["stream"] == true {
                let event = |kind: &str| {
                    let data = json!({ "type": kind, "response": made, "sequence_number": 0 });
                    format!("event: {kind}\ndata: {data}\n\n")
                };
                let events = event("response.created") + &event("response.completed");
                return reply::whole(200, &[("content-type", "text/event-stream")], events);
            }
            made
        }
        ("GET", path) if path == format!("/responses/{response}") => json!({ "id": response, "object": "response" }),
        _ => return reply::error(404, &[]),
    };
    reply::json(200, &body)
}

fn balanced(one: &Upstream, other: &Upstream) -> Value {
    json!({ "strategy": { "mode": "loadbalance" }, "targets": [target(one), target(other)] })
}

async fn upload(gateway: &Gateway, config: &Value) -> Answer {
    let body = form(&[("purpose", None, b"batch"), ("file", Some("lines.jsonl"), b"{}\n")]);
    gateway.post("/v1/files").config(config).body(FORM, body).send().await.expect(200)
}

pub(crate) fn id(answer: &Answer) -> String {
    answer.json()["id"].as_str().expect("an id").to_owned()
}

fn place(answer: &Answer) -> String {
    answer.header("x-gateway-last-used-option-index").unwrap_or_default().to_owned()
}

/// A file at each of both targets, by the place of its target.
async fn files(gateway: &Gateway, config: &Value) -> [String; 2] {
    let mut found = [None, None];
    for _ in 0..200 {
        let answer = upload(gateway, config).await;
        let number = usize::from(place(&answer) == "config.targets[1]");
        found[number] = Some(id(&answer));
        if let [Some(one), Some(other)] = &found {
            return [one.clone(), other.clone()];
        }
    }
    panic!("one target had all of 200 uploads");
}

#[tokio::test]
async fn a_file_is_found_again_at_the_target_that_keeps_it() {
    let gateway = Gateway::start().await;
    let (one, other) = (keeping("one").await, keeping("other").await);
    let config = balanced(&one, &other);
    let files = files(&gateway, &config).await;
    for (number, (file, name)) in files.iter().zip(["one", "other"]).enumerate() {
        assert!(file.starts_with("file-gw1_") && !file.contains(name), "{file}");
        let path = format!("/v1/files/{file}");
        for _ in 0..5 {
            let found = gateway.get(&path).config(&config).send().await.expect(200);
            assert_eq!((id(&found), place(&found)), (file.clone(), format!("config.targets[{number}]")));
            assert_eq!(found.json()["filename"], format!("file-{name}"), "only ids are changed");
        }
        let content = gateway.get(&format!("{path}/content")).config(&config).send().await.expect(200);
        assert_eq!(content.text(), format!("{{\"id\":\"file-{name}\"}}"), "a file's bytes are its own");
        let batch = json!({ "input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h" });
        let made = gateway.post("/v1/batches").config(&config).json(&batch).send().await.expect(200);
        let told = made.json();
        assert_eq!((&told["input_file_id"], place(&made)), (&json!(file), format!("config.targets[{number}]")));
        assert_eq!(told["metadata"]["id"], format!("batch_{name}"), "what is the client's own stays");
        let cancel = format!("/v1/batches/{}/cancel", id(&made));
        assert_eq!(id(&gateway.post(&cancel).config(&config).send().await.expect(200)), id(&made));
        assert_eq!(gateway.call("DELETE", &path).config(&config).send().await.expect(200).json()["id"], json!(file));
    }
    let seen = [one.seen(), other.seen()].concat();
    assert!(seen.iter().all(|seen| !seen.target.contains("gw1_") && !seen.text().contains("gw1_")));
}

#[tokio::test]
async fn with_one_target_ids_stay_byte_for_byte() {
    let gateway = Gateway::start().await;
    let one = keeping("one").await;
    let same = json!({ "strategy": { "mode": "fallback" }, "targets": [target(&one), target(&one)] });
    for config in [target(&one), same] {
        assert_eq!(id(&upload(&gateway, &config).await), "file-one");
        let list = gateway.get("/v1/files").config(&config).send().await.expect(200).text();
        assert_eq!(list, kept_list("one"));
    }
}

fn kept_list(name: &str) -> String {
    let seen = Seen { method: "GET".into(), target: "/v1/files".into(), ..Seen::default() };
    let told = String::from_utf8(kept(name, &seen)).expect("text");
    told.split_once("\r\n\r\n").expect("a body").1.to_owned()
}

#[tokio::test]
async fn an_id_that_was_changed_or_is_of_another_workspace_is_unknown() {
    let gateway = Gateway::start().await;
    let (one, other) = (keeping("one").await, keeping("other").await);
    let config = balanced(&one, &other);
    let file = id(&upload(&gateway, &config).await);
    let calls = one.seen().len() + other.seen().len();
    let (admin, far) = (gateway.admin(), json!({ "name": "far", "slug": "far" }));
    admin.post("/admin/workspaces", &far).await.expect(200);
    let (_, stranger) = admin.workspace_key("stranger", json!({ "workspace_id": "far" })).await;
    let last = file.len() - 4;
    let changed =
        format!("{}{}{}", &file[..last], if &file[last..=last] == "A" { "B" } else { "A" }, &file[last + 1..]);
    let unlike = file.replacen("file-", "batch_", 1);
    let mut told = BTreeSet::new();
    for id in [&changed, &unlike, "file-gw1_AAAA", "file-gw1_AQ"] {
        told.insert(gateway.get(&format!("/v1/files/{id}")).config(&config).send().await.expect(404).text());
    }
    let foreign = gateway.get(&format!("/v1/files/{file}")).key(&stranger).config(&config);
    told.insert(foreign.send().await.expect(404).text());
    // A config that does not lead there.
    let elsewhere = target(&keeping("third").await);
    told.insert(gateway.get(&format!("/v1/files/{file}")).config(&elsewhere).send().await.expect(404).text());
    assert_eq!(told.len(), 1, "nobody learns why: {told:?}");
    assert_eq!(one.seen().len() + other.seen().len(), calls, "nothing went up");
}

#[tokio::test]
async fn objects_of_two_targets_in_one_call_are_refused_by_name() {
    let gateway = Gateway::start().await;
    let (one, other) = (keeping("one").await, keeping("other").await);
    let config = balanced(&one, &other);
    let [mine, theirs] = files(&gateway, &config).await;
    let job = json!({ "model": "gpt-4o-mini", "training_file": mine, "validation_file": theirs });
    let refused = gateway.post("/v1/fine_tuning/jobs").config(&config).json(&job).send().await.expect(400);
    assert!(refused.error().contains("training_file and validation_file"), "{}", refused.text());
}

#[tokio::test]
async fn a_response_is_followed_up_where_it_was_made() {
    let gateway = Gateway::start().await;
    let (one, other) = (keeping("one").await, keeping("other").await);
    let config = balanced(&one, &other);
    let ask = async |fields: Value| {
        let body = with(json!({ "model": "gpt-4o", "input": "hi" }), fields);
        gateway.post("/v1/responses").config(&config).json(&body).send().await.expect(200)
    };
    let first = ask(json!({})).await;
    let (made, at) = (id(&first), place(&first));
    assert!(made.starts_with("resp_gw1_"), "{made}");
    for number in 0..20 {
        let answer = ask(json!({ "previous_response_id": made, "stream": number % 2 == 1 })).await;
        assert_eq!(place(&answer), at);
        if number % 2 == 0 {
            let told = answer.json();
            assert_eq!((&told["id"], &told["previous_response_id"]), (&json!(made), &json!(made)));
        } else {
            let events = answer.events();
            let bound = events.iter().filter(|event| event.contains(&format!("\"id\":\"{made}\""))).count();
            assert_eq!(bound, events.len(), "{events:?}");
        }
    }
    let got = gateway.get(&format!("/v1/responses/{made}")).config(&config).send().await.expect(200);
    assert_eq!((id(&got), place(&got)), (made, at));
    let seen = [one.seen(), other.seen()].concat();
    assert!(seen.iter().all(|seen| !seen.text().contains("gw1_") && !seen.target.contains("gw1_")));
}

#[tokio::test]
async fn a_bound_id_is_never_taken_to_another_target() {
    let gateway = Gateway::start().await;
    let broken = Upstream::replying(|seen| match seen.method.as_str() {
        "POST" => kept("broken", seen),
        _ => reply::error(500, &[]),
    });
    let (broken, spare) = (broken.await, keeping("spare").await);
    let targets = json!([with(target(&broken), json!({ "retry": { "attempts": 1 } })), target(&spare)]);
    let config = json!({ "strategy": { "mode": "fallback" }, "targets": targets });
    let file = id(&upload(&gateway, &config).await);
    let path = format!("/v1/files/{file}");
    gateway.get(&path).config(&config).send().await.expect(500);
    assert_eq!((broken.seen().len(), spare.seen().len()), (1 + 2, 0), "tried again there, and nowhere else");
    // An id as its provider made it leads to the first target.
    let untried = json!({ "strategy": { "mode": "fallback" }, "targets": [target(&broken), target(&spare)] });
    gateway.get("/v1/files/file-spare").config(&untried).send().await.expect(500);
    gateway.get("/v1/files").config(&untried).send().await.expect(500);
    assert!(spare.seen().is_empty());
}

#[tokio::test]
async fn a_bound_id_leads_to_its_provider_without_a_config() {
    let gateway = Gateway::start().await;
    let (one, other) = (keeping("one").await, keeping("other").await);
    let admin = gateway.admin();
    admin.provider("one", "openai", Some(&one.url())).await;
    admin.provider("other", "openai", Some(&other.url())).await;
    let config =
        json!({ "strategy": { "mode": "loadbalance" }, "targets": [{ "provider": "@one" }, { "provider": "@other" }] });
    let files = files(&gateway, &config).await;
    for (file, name) in files.iter().zip(["one", "other"]) {
        let found = gateway.get(&format!("/v1/files/{file}")).send().await.expect(200).json();
        assert_eq!((&found["id"], &found["filename"]), (&json!(file), &json!(format!("file-{name}"))));
        let batch = json!({ "input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h" });
        let made = gateway.post("/v1/batches").json(&batch).send().await.expect(200);
        assert!(id(&made).starts_with("batch_gw1_"));
    }
    admin.delete("/providers/one").await.expect(200);
    gateway.get(&format!("/v1/files/{}", files[0])).send().await.expect(404);
    gateway.get(&format!("/v1/files/{}", files[1])).send().await.expect(200);
}
