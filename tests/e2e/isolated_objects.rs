//! Workspaces that share a credential, and do not find each other's objects at the provider (`isolate_objects`).

use crate::area_forms::{FORM, form};
use crate::batches::text;
use crate::bound_ids::{id, keeping};
use crate::family_batches::{CLAUDE, CLAUDE_BATCH, FAST, FamilyProvider, by_provider, claude, claudes_results, four};
use crate::harness::{Answer, Gateway, Upstream, call::Call, eventually, hello, reply, with};
use serde_json::{Value, json};

/// Two workspaces with a provider of the same integration each: the keys of both.
async fn house(upstream: &Upstream, isolates: bool) -> (Gateway, [String; 2]) {
    house_of("openai", &upstream.url(), isolates).await
}

async fn house_of(family: &str, url: &str, isolates: bool) -> (Gateway, [String; 2]) {
    let gateway = Gateway::with(FAST).await;
    let configurations = json!({ "custom_host": url, "isolate_objects": isolates });
    let keys = gateway.admin().sharing(family, Some("sk-shared"), &configurations).await;
    (gateway, keys)
}

fn call(gateway: &Gateway, method: &str, path: &str, key: &str) -> Call {
    gateway.call(method, path).key(key).provider("@p")
}

async fn upload(gateway: &Gateway, key: &str) -> Answer {
    let body = form(&[("purpose", None, b"batch"), ("file", Some("lines.jsonl"), b"{}\n")]);
    call(gateway, "POST", "/v1/files", key).body(FORM, body).send().await.expect(200)
}

#[tokio::test]
async fn a_workspace_finds_its_own_objects_and_nobody_elses() {
    let upstream = keeping("one").await;
    let (gateway, [mine, theirs]) = house(&upstream, true).await;
    let file = id(&upload(&gateway, &mine).await);
    assert!(file.starts_with("file-gw1_"), "bound, though there is one target: {file}");
    let path = format!("/v1/files/{file}");
    assert_eq!(id(&call(&gateway, "GET", &path, &mine).send().await.expect(200)), file);
    let batch = json!({ "input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h" });
    let made = call(&gateway, "POST", "/v1/batches", &mine).json(&batch).send().await.expect(200);
    assert!(id(&made).starts_with("batch_gw1_"));
    let seen = upstream.seen().len();
    let unknown = call(&gateway, "GET", "/v1/files/file-gw1_AAAA", &mine).send().await.expect(404).text();
    let raw = with(batch.clone(), json!({ "input_file_id": "file-one" }));
    let chat = with(
        hello(),
        json!({ "messages": [{ "role": "user", "content": [{ "type": "file", "file": { "file_id": "file-one" } }] }] }),
    );
    let reference = json!({ "model": "gpt-4o", "input": [{ "type": "item_reference", "id": "rs_one" }] });
    let escaped = raw.to_string().replace("\"file-one\"", "\"file\\u002done\"");
    assert!(escaped.contains("u002d"), "{escaped}");
    for refused in [
        call(&gateway, "POST", "/v1/batches", &mine).body("application/json", escaped),
        call(&gateway, "GET", &path, &theirs),
        call(&gateway, "POST", "/v1/batches", &theirs).json(&batch),
        call(&gateway, "GET", "/v1/files/file-one", &mine),
        call(&gateway, "GET", "/v1/files/file-one/content", &mine),
        call(&gateway, "DELETE", "/v1/files/file-one", &mine),
        call(&gateway, "POST", "/v1/batches", &mine).json(&raw),
        call(&gateway, "POST", "/v1/chat/completions", &mine).json(&chat),
        call(&gateway, "POST", "/v1/responses", &mine).json(&reference),
    ] {
        assert_eq!(refused.send().await.expect(404).text(), unknown, "nobody learns whose it is");
    }
    for path in ["/v1/uploads", "/v1/threads", "/v1/proxy/files/file-one", "/v1/proxy/files", "/v1/some/other/path"] {
        let told = call(&gateway, "GET", path, &mine).send().await.expect(403);
        assert!(told.text().contains("isolate_objects"), "{path}: {}", told.text());
    }
    assert_eq!(upstream.seen().len(), seen, "nothing of it went up");
    assert_eq!(id(&call(&gateway, "DELETE", &path, &mine).send().await.expect(200)), file);
}

/// Fields of forms name objects as fields of JSON do.
#[tokio::test]
async fn ids_in_forms_and_in_deep_bodies_are_those_of_the_workspace() {
    let upstream = keeping("one").await;
    let (gateway, [mine, theirs]) = house(&upstream, true).await;
    let file = id(&upload(&gateway, &mine).await);
    let edit = |field: &str, id: &str| {
        let parts =
            [("model", None, b"painter".as_slice()), (field, None, id.as_bytes()), ("image", Some("a.png"), b"a")];
        form(&parts)
    };
    let path = "/v1/images/edits";
    let before = upstream.seen().len();
    let unknown = call(&gateway, "GET", "/v1/files/file-gw1_AAAA", &mine).send().await.expect(404).text();
    for field in ["file_id", "file_ids[]", "images[0][file_id]"] {
        let raw = call(&gateway, "POST", path, &mine).body(FORM, edit(field, "file-one")).send().await.expect(404);
        assert_eq!(raw.text(), unknown, "{field}");
        call(&gateway, "POST", path, &theirs).body(FORM, edit(field, &file)).send().await.expect(404);
    }
    let deep = |levels: usize| {
        let nested = format!("{}\"file-one\"{}", "{\"file_id\":".repeat(levels), "}".repeat(levels));
        format!("{{\"model\":\"m\",\"messages\":[{{\"role\":\"user\",\"content\":\"hi\"}}],\"extra\":{nested}}}")
    };
    let chat = async |levels: usize| {
        let body = deep(levels);
        call(&gateway, "POST", "/v1/chat/completions", &mine).body("application/json", body).send().await
    };
    assert_eq!(chat(63).await.expect(404).text(), unknown);
    let told = chat(64).await.expect(400).text();
    assert!(told.contains("64 levels") && told.contains("isolate_objects"), "{told}");
    // Nobody knows what a form names that streams up.
    let made = form(&[("file_id", None, b"file-one")]);
    for path in ["/v1/containers", "/v1/containers/"] {
        let told = call(&gateway, "POST", path, &mine).body(FORM, made.clone()).send().await.expect(403);
        assert!(told.text().contains("isolate_objects"), "{}", told.text());
    }
    assert_eq!(upstream.seen().len(), before, "nothing of it went up");
    // Its own goes up as the provider calls it, with every byte of the file.
    call(&gateway, "POST", path, &mine).body(FORM, edit("images[0][file_id]", &file)).send().await;
    let seen = upstream.seen().pop().expect("it went up");
    assert_eq!(seen.body, edit("images[0][file_id]", "file-one"));
    // A client's own texts are nobody's ids.
    call(&gateway, "POST", path, &mine).body(FORM, edit("prompt", "file-one")).send().await;
    assert_eq!(upstream.seen().len(), before + 2);
}

/// A provider that makes a file of the parts of an upload, and lists it.
async fn assembling() -> Upstream {
    Upstream::replying(|seen| {
        let path = seen.target.trim_start_matches("/v1").split('?').next().unwrap_or_default();
        let upload = |status: &str| json!({ "id": "upload_one", "object": "upload", "status": status, "file": null });
        // One whose beginning does not say what it names.
        let file = json!({ "id": "assistant-made", "object": "file", "filename": "lines.jsonl", "purpose": "batch" });
        let body = match (seen.method.as_str(), path) {
            ("POST", "/uploads") => upload("pending"),
            ("POST", "/uploads/upload_one/parts") => {
                json!({ "id": "part_one", "object": "upload.part", "upload_id": "upload_one" })
            }
            ("POST", "/uploads/upload_one/complete") => with(upload("completed"), json!({ "file": file })),
            ("POST", "/uploads/upload_one/cancel") => upload("cancelled"),
            ("GET", "/files") => json!({ "object": "list", "data": [file], "has_more": false }),
            ("GET", "/files/assistant-made") => file,
            _ => return reply::error(404, &[]),
        };
        reply::json(200, &body)
    })
    .await
}

#[tokio::test]
async fn an_upload_its_parts_and_the_file_of_them_are_those_of_the_workspace() {
    let upstream = assembling().await;
    let (gateway, [mine, theirs]) = house(&upstream, true).await;
    let begin = json!({ "filename": "lines.jsonl", "purpose": "batch", "bytes": 6, "mime_type": "text/jsonl" });
    let upload = id(&call(&gateway, "POST", "/v1/uploads", &mine).json(&begin).send().await.expect(200));
    assert!(upload.starts_with("upload_gw1_"), "{upload}");
    let at = |upload: &str, what: &str| format!("/v1/uploads/{upload}/{what}");
    let piece = || form(&[("data", Some("part"), b"{}\n{}\n")]);
    let parts = at(&upload, "parts");
    let part = call(&gateway, "POST", &parts, &mine).body(FORM, piece()).send().await.expect(200).json();
    assert_eq!(part["upload_id"], json!(upload));
    let part = text(&part, "id");
    assert!(part.starts_with("part_gw1_"), "{part}");
    let seen = upstream.seen().len();
    let unknown = call(&gateway, "GET", "/v1/files/file-gw1_AAAA", &mine).send().await.expect(404).text();
    let complete = |part: &str| json!({ "part_ids": [part] });
    let begun = call(&gateway, "POST", &at("upload_one", "parts"), &mine).body(FORM, piece());
    for refused in [
        begun,
        call(&gateway, "POST", &at("upload_one", "complete"), &mine).json(&complete(&part)),
        call(&gateway, "POST", &at("upload_one", "cancel"), &mine),
        call(&gateway, "POST", &at(&upload, "complete"), &mine).json(&complete("part_one")),
        call(&gateway, "POST", &parts, &theirs).body(FORM, piece()),
        call(&gateway, "POST", &at(&upload, "complete"), &theirs).json(&complete(&part)),
        call(&gateway, "POST", &at(&upload, "cancel"), &theirs),
        call(&gateway, "GET", &format!("/v1/uploads/{upload}"), &theirs),
    ] {
        assert_eq!(refused.send().await.expect(404).text(), unknown, "nobody learns whose it is");
    }
    // Only parts have a form that nobody reads.
    let told = call(&gateway, "POST", &at(&upload, "complete/parts"), &mine).body(FORM, piece()).send().await;
    assert!(told.status == 404 || told.status == 403, "{}", told.text());
    assert_eq!(upstream.seen().len(), seen, "nothing of it went up");
    let done = call(&gateway, "POST", &at(&upload, "complete"), &mine).json(&complete(&part)).send().await.expect(200);
    let last = upstream.seen().pop().expect("it went up");
    assert_eq!((&*last.target, last.json()), ("/v1/uploads/upload_one/complete", complete("part_one")));
    let file = text(&done.json()["file"], "id");
    assert!(file.starts_with("gw1_") && id(&done) == upload, "{}", done.text());
    assert_eq!(id(&call(&gateway, "GET", &format!("/v1/files/{file}"), &mine).send().await.expect(200)), file);
    call(&gateway, "GET", &format!("/v1/files/{file}"), &theirs).send().await.expect(404);
    call(&gateway, "GET", "/v1/files/assistant-made", &mine).send().await.expect(404);
    for (key, shown) in [(&mine, json!([file])), (&theirs, json!([]))] {
        let list = call(&gateway, "GET", "/v1/files", key).send().await.expect(200).json();
        let ids: Vec<_> = list["data"].as_array().expect("a list").iter().map(|file| file["id"].clone()).collect();
        assert_eq!(json!(ids), shown);
    }
    let cancelled = call(&gateway, "POST", &at(&upload, "cancel"), &mine).send().await.expect(200);
    assert_eq!((id(&cancelled), text(&cancelled.json(), "status")), (upload, "cancelled".to_owned()));
}

#[tokio::test]
async fn without_it_ids_stay_and_it_can_be_switched_at_any_time() {
    let upstream = keeping("one").await;
    let (gateway, [mine, theirs]) = house(&upstream, false).await;
    assert_eq!(id(&upload(&gateway, &mine).await), "file-one");
    call(&gateway, "GET", "/v1/files/file-one", &theirs).send().await.expect(200);
    let admin = gateway.admin();
    let shown = async |isolates: Value| {
        admin
            .put("/integrations/shared", &json!({ "configurations": { "isolate_objects": isolates } }))
            .await
            .expect(200);
        admin.get("/integrations/shared").await.expect(200).json()["configurations"]["isolate_objects"].clone()
    };
    assert_eq!(shown(json!(true)).await, true);
    call(&gateway, "GET", "/v1/files/file-one", &theirs).send().await.expect(404);
    assert_eq!(shown(json!(false)).await, Value::Null);
    call(&gateway, "GET", "/v1/files/file-one", &theirs).send().await.expect(200);
}

/// A batch that a provider runs holds the provider's ids inside: they are nobody's to ask for, and the batch is one
/// workspace's.
#[tokio::test]
async fn a_family_batch_of_one_workspace_is_unknown_to_the_other() {
    let provider = FamilyProvider::start(CLAUDE_BATCH, claude(2, claudes_results)).await;
    let config = provider.config("anthropic");
    let url = config["custom_host"].as_str().expect("an address");
    let (gateway, [mine, theirs]) = house_of("anthropic", url, true).await;
    let lines = four(CLAUDE);
    let body = form(&[("purpose", None, b"batch"), ("file", Some("lines.jsonl"), lines.as_bytes())]);
    let file = text(&gateway.post("/v1/files").key(&mine).body(FORM, body).send().await.expect(200).json(), "id");
    let made = call(&gateway, "POST", "/v1/batches", &mine).json(&by_provider(&file)).send().await.expect(200).json();
    let path = format!("/v1/batches/{}", text(&made, "id"));
    let batch = eventually("the batch to end", || async {
        let batch = gateway.get(&path).key(&mine).send().await.expect(200).json();
        (batch["status"] == "completed").then_some(batch)
    })
    .await;
    assert_eq!(batch["request_counts"]["completed"], 2);
    let unknown = gateway.get("/v1/batches/gw_batch_00000000000000000000000000000000").key(&theirs);
    let unknown = unknown.send().await.expect(404).text();
    let output = format!("/v1/files/{}/content", text(&batch, "output_file_id"));
    for path in [path.clone(), format!("{path}/output"), output] {
        assert_eq!(gateway.get(&path).key(&theirs).send().await.expect(404).text(), unknown, "{path}");
    }
    assert_eq!(gateway.post(&format!("{path}/cancel")).key(&theirs).send().await.expect(404).text(), unknown);
    let listed = gateway.get("/v1/batches").key(&theirs).send().await.expect(200).json();
    assert_eq!(listed["data"], json!([]));
    // Nobody may ask for the provider's own id, not even whoever made the batch.
    for key in [&mine, &theirs] {
        call(&gateway, "GET", "/v1/batches/msgbatch_1", key).send().await.expect(404);
    }
}
