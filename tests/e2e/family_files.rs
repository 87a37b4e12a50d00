//! Files at families whose objects for them are not OpenAI's: clients of OpenAI's read OpenAI's, the family's own
//! clients read what the family says.

use crate::area_forms::{FORM, form};
use crate::harness::{Gateway, Upstream, reply};
use serde_json::{Value, json};

fn file() -> Value {
    json!({ "id": "file_1", "type": "file", "filename": "a.pdf", "mime_type": "application/pdf", "size_bytes": 12,
            "created_at": "2025-01-01T00:00:00Z", "downloadable": false })
}

async fn claude() -> Upstream {
    Upstream::replying(|seen| match (seen.method.as_str(), seen.target.split('?').next().unwrap_or_default()) {
        ("POST", "/v1/files") | ("GET", "/v1/files/file_1") => reply::json(200, &file()),
        ("GET", "/v1/files") => reply::json(200, &json!({ "data": [file()], "has_more": false })),
        ("DELETE", "/v1/files/file_1") => reply::json(200, &json!({ "id": "file_1", "type": "file_deleted" })),
        ("GET", "/v1/files/file_1/content") => {
            reply::whole(200, &[("content-type", "application/pdf")], "what is in it")
        }
        _ => {
            let error = json!({ "type": "not_found_error", "message": "no such file" });
            reply::json(404, &json!({ "type": "error", "error": error }))
        }
    })
    .await
}

#[tokio::test]
async fn anthropics_files_are_openais_for_clients_of_openais() {
    let (gateway, upstream) = (Gateway::start().await, claude().await);
    let config = json!({ "provider": "anthropic", "api_key": "sk-upstream", "custom_host": upstream.url() });
    let body = form(&[("purpose", None, b"user_data"), ("file", Some("a.pdf"), b"what is in it")]);
    let made = gateway.post("/v1/files").config(&config).body(FORM, body).send().await.expect(200).json();
    let shown = json!({ "id": "file_1", "object": "file", "bytes": 12, "created_at": 1_735_689_600, "filename": "a.pdf",
                        "purpose": "user_data", "status": "processed" });
    assert_eq!(made, shown);
    let up = &upstream.seen()[0];
    let beta = up.header("anthropic-beta");
    assert_eq!((beta, up.header("anthropic-version")), (Some("files-api-2025-04-14"), Some("2023-06-01")));
    assert!(up.text().contains("what is in it") && up.header("x-api-key") == Some("sk-upstream"));
    let get = |path: &str| gateway.get(path).config(&config);
    assert_eq!(get("/v1/files/file_1").send().await.expect(200).json(), shown);
    let list = get("/v1/files?limit=10000&after=file_0&purpose=user_data").send().await.expect(200).json();
    assert_eq!((&list["object"], &list["data"][0], &list["last_id"]), (&json!("list"), &shown, &json!("file_1")));
    assert_eq!(upstream.seen()[2].target, "/v1/files?limit=1000&after_id=file_0");
    assert_eq!(get("/v1/files/file_1/content").send().await.expect(200).text(), "what is in it");
    let gone = gateway.call("DELETE", "/v1/files/file_1").config(&config).send().await.expect(200).json();
    assert_eq!(gone, json!({ "id": "file_1", "object": "file", "deleted": true }));
    let error = get("/v1/files/file_2").send().await.expect(404).json();
    assert!(error["error"]["message"].as_str().is_some_and(|told| told.contains("no such file")), "{error}");
    // Anthropic's own clients say their version, and get Anthropic's own.
    let own = get("/v1/files/file_1").header("anthropic-version", "2023-06-01").send().await.expect(200).json();
    assert_eq!(own, file());
    assert_eq!(get("/v1/proxy/files/file_1").send().await.expect(200).json(), file());
}
