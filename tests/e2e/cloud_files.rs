//! Files of providers that keep them in a bucket, by OpenAI's routes: the address of the object is the id, lines of a
//! batch go up as the models are asked, and no bucket but the target's own is reached.

use crate::area_forms::{FORM, form};
use crate::batches::{CHAT, line, text};
use crate::bound_ids::id;
use crate::cloud_batches::gemini;
use crate::clouds::bare;
use crate::family_batches::prompt;
use crate::harness::{Answer, Gateway, Seen, Upstream, call::Call, eventually, reply, with};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const NOVA: &str = "amazon.nova-lite-v1:0";
pub(crate) const GEMINI: &str = "gemini-2.5-flash";

/// Objects with what they are for, by their paths.
pub(crate) type Objects = Arc<Mutex<BTreeMap<String, (Vec<u8>, String)>>>;

pub(crate) fn stored(seen: &Seen, objects: &Objects) -> Vec<u8> {
    let mut objects = objects.lock();
    let missing = || {
        let told = "<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>";
        reply::whole(404, &[("content-type", "application/xml")], if seen.method == "HEAD" { "" } else { told })
    };
    match seen.method.as_str() {
        "PUT" => {
            let of = |name| seen.header(name).map(str::to_owned);
            let purpose = of("x-amz-meta-gateway-purpose").or_else(|| of("x-goog-meta-gateway-purpose"));
            objects.insert(seen.target.clone(), (seen.body.to_vec(), purpose.unwrap_or_default()));
            reply::whole(200, &[("etag", "\"1\"")], "")
        }
        "DELETE" => {
            objects.remove(&seen.target);
            reply::whole(204, &[], "")
        }
        "GET" if seen.target.contains("?") && seen.target.contains("list-type=2") => {
            // Two objects a page, in the order of their names.
            let (bucket, query) = seen.target.split_once('?').unwrap_or_default();
            let of = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
            let prefix = format!("{bucket}/{}", of("prefix").unwrap_or_default().replace("%2F", "/"));
            let from = of("continuation-token").and_then(|from| from.parse::<usize>().ok()).unwrap_or_default();
            let all: Vec<_> = objects.iter().filter(|(path, _)| path.starts_with(&prefix)).collect();
            let told = all.iter().skip(from).take(2).map(|(path, (body, _))| {
                let key = path.strip_prefix(&format!("{bucket}/")).unwrap_or(path);
                format!(
                    "<Contents><Key>{key}</Key><LastModified>2025-01-01T00:00:00.000Z</LastModified><Size>{}</Size></Contents>",
                    body.len()
                )
            });
            let (told, next) = (told.collect::<String>(), from + 2);
            let more = next < all.len();
            let next =
                format!("<IsTruncated>{more}</IsTruncated><NextContinuationToken>{next}</NextContinuationToken>");
            let page = format!("<ListBucketResult>{next}{told}</ListBucketResult>");
            reply::whole(200, &[("content-type", "application/xml")], page)
        }
        "GET" => match objects.get(&seen.target) {
            Some((body, _)) => reply::whole(200, &[("content-type", "application/jsonl")], body),
            None => missing(),
        },
        "HEAD" => match objects.get(&seen.target) {
            Some((body, purpose)) => format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nlast-modified: Wed, 01 Jan 2025 00:00:00 GMT\r\n\
                 x-amz-meta-gateway-purpose: {purpose}\r\nx-goog-meta-gateway-purpose: {purpose}\r\n\r\n",
                body.len()
            )
            .into_bytes(),
            None => missing(),
        },
        _ if seen.target.ends_with(":generateContent") => reply::json(200, &gemini("plain")),
        _ => {
            let message = json!({ "role": "assistant", "content": [{ "text": "plain" }] });
            let usage = json!({ "inputTokens": 1, "outputTokens": 1, "totalTokens": 2 });
            reply::json(200, &json!({ "output": { "message": message }, "stopReason": "end_turn", "usage": usage }))
        }
    }
}

pub(crate) async fn bucket() -> Upstream {
    let objects = Objects::default();
    Upstream::replying(move |seen| stored(seen, &objects)).await
}

pub(crate) fn aws(upstream: &Upstream) -> Value {
    json!({ "provider": "bedrock", "custom_host": bare(upstream), "aws_region": "us-east-1", "aws_access_key_id": "AKIDSTATIC",
            "aws_secret_access_key": "very-secret-key-of-aws", "aws_s3_bucket": "my-bucket" })
}

pub(crate) fn google(upstream: &Upstream) -> Value {
    json!({ "provider": "vertex-ai", "api_key": "ya29.token", "custom_host": bare(upstream), "vertex_project_id": "p",
            "vertex_region": "us-central1", "vertex_storage_bucket_name": "my-bucket" })
}

fn upload(gateway: &Gateway, config: &Value, lines: &str) -> Call {
    // Fields may stand on either side of the file.
    let body = form(&[("file", Some("lines.jsonl"), lines.as_bytes()), ("purpose", None, b"batch")]);
    gateway.post("/v1/files").config(config).body(FORM, body)
}

fn lines(model: &str, count: usize) -> String {
    (0..count).map(|n| line(&format!("line-{n}"), CHAT, &prompt(model, n))).collect()
}

async fn made(gateway: &Gateway, config: &Value, lines: &str) -> Value {
    upload(gateway, config, lines).send().await.expect(200).json()
}

#[tokio::test]
async fn a_file_goes_to_the_bucket_as_lines_of_the_family_and_is_found_by_its_address() {
    let gateway = Gateway::start().await;
    let upstream = bucket().await;
    for (config, model, scheme) in [(aws(&upstream), NOVA, "s3"), (google(&upstream), GEMINI, "gs")] {
        let file = made(&gateway, &config, &lines(model, 3)).await;
        let held = file["id"].as_str().expect("an id").to_owned();
        let begins = format!("{scheme}%3A%2F%2Fmy-bucket%2Fgateway-files%2F");
        assert!(held.starts_with(&begins) && held.ends_with("%2Flines.jsonl"), "{held}");
        let told = ["object", "filename", "purpose", "status"].map(|name| file[name].clone());
        assert_eq!(told, ["file", "lines.jsonl", "batch", "processed"].map(Value::from));
        assert!((1_500_000_000..10_000_000_000).contains(&file["created_at"].as_i64().expect("seconds")), "{file}");
        // What went up is what a call of each would be.
        let up = upstream.seen().into_iter().rfind(|seen| seen.method == "PUT").expect("it went up");
        assert_eq!(
            (up.body.len() as u64, up.header("content-type")),
            (file["bytes"].as_u64().unwrap_or(0), Some("application/jsonl"))
        );
        let sent: Vec<Value> = up.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        gateway.chat().config(&config).json(&prompt(model, 1)).send().await.expect(200);
        let asked = upstream.seen().pop().expect("a call").json();
        let second = match scheme {
            "s3" => json!({ "recordId": "line-1", "modelInput": asked }),
            _ => json!({ "requestId": "line-1", "request": asked }),
        };
        assert_eq!((sent.len(), &sent[1]), (3, &second));
        let authorization = up.header("authorization").unwrap_or_default().to_owned();
        match scheme {
            "s3" => assert!(
                authorization.contains("/us-east-1/s3/aws4_request")
                    && authorization.contains("x-amz-meta-gateway-purpose"),
                "{authorization}"
            ),
            _ => assert_eq!(authorization, "Bearer ya29.token"),
        }
        // Looked at, read and removed.
        let path = format!("/v1/files/{held}");
        let call = |method: &str, path: &str| gateway.call(method, path).config(&config);
        let found = call("GET", &path).send().await.expect(200);
        assert_eq!(found.header("x-gateway-provider"), config["provider"].as_str());
        assert_eq!(found.json(), with(file.clone(), json!({ "created_at": 1_735_689_600 })));
        let content = call("GET", &format!("{path}/content")).send().await.expect(200);
        assert_eq!((content.text(), content.whole), (up.text(), true));
        let gone = call("DELETE", &path).send().await.expect(200).json();
        assert_eq!(gone, json!({ "id": held, "object": "file", "deleted": true }));
        let unknown = call("GET", &path).send().await.expect(404).text();
        assert!(unknown.contains("No object with this id is known"), "{unknown}");
        call("DELETE", &path).send().await.expect(404);
    }
    let all = gateway.admin().get("/logs").await.expect(200).json();
    assert!(!all.to_string().contains("very-secret-key-of-aws"));
}

#[tokio::test]
async fn the_first_line_that_cannot_be_asked_ends_the_upload_and_nothing_is_left() {
    let gateway = Gateway::start().await;
    let upstream = bucket().await;
    let config = aws(&upstream);
    let with_17 = |broken: &str| -> String {
        let line_of = |n: usize| match n {
            17 => broken.to_owned() + "\n",
            n => line(&format!("line-{n}"), CHAT, &prompt(NOVA, n)),
        };
        (1..=20).map(line_of).collect()
    };
    let one = |body: Value| line("l17", CHAT, &body).trim().to_owned();
    for (broken, why) in [
        ("{\"custom_id\": ".to_owned(), "is no request of a batch"),
        (one(with(prompt(NOVA, 1), json!({ "n": 2 }))), "n"),
        (one(with(prompt(NOVA, 1), json!({ "stream": true }))), "stream"),
        (one(prompt("amazon.nova-pro-v1:0", 1)), NOVA),
        (line("line-3", CHAT, &prompt(NOVA, 1)).trim().to_owned(), "duplicate_custom_id"),
        (line("l 17", CHAT, &prompt(NOVA, 1)).trim().to_owned(), "custom_id"),
        (line("l17", "/v1/embeddings", &prompt(NOVA, 1)).trim().to_owned(), "mismatched_endpoint"),
    ] {
        let told = upload(&gateway, &config, &with_17(&broken)).send().await.expect(400);
        let error = told.json()["error"].clone();
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.contains("Line 17 ") && message.contains(why) && error["param"] == "file", "{why}: {message}");
    }
    assert!(upstream.seen().is_empty(), "nothing went up");
    for (lines, why) in [("", "file"), ("\n\n", "file")] {
        assert!(upload(&gateway, &config, lines).send().await.expect(400).text().contains(why));
    }
}

#[tokio::test]
async fn buckets_lead_nowhere_else_and_ids_are_decoded_once() {
    let gateway = Gateway::start().await;
    let upstream = bucket().await;
    let config = aws(&upstream);
    let file = made(&gateway, &config, &lines(NOVA, 1)).await;
    let held = file["id"].as_str().expect("an id").to_owned();
    let seen = upstream.seen().len();
    // A bucket that would lead elsewhere is none.
    let keyed = |call: Call, bucket: &str| {
        let headers =
            [("aws-region", "us-east-1"), ("aws-access-key-id", "AKIDSTATIC"), ("aws-secret-access-key", "s")];
        let named = headers
            .iter()
            .fold(call.provider("bedrock"), |call, (name, value)| call.header(&format!("x-gateway-{name}"), value));
        let host = bare(&upstream);
        named.header("x-gateway-custom-host", &host).header("x-gateway-aws-s3-bucket", bucket)
    };
    let plain = lines(NOVA, 1);
    let body = || form(&[("purpose", None, b"batch"), ("file", Some("l.jsonl"), plain.as_bytes())]);
    for bucket in ["evil.com/x", "a@b"] {
        let told = keyed(gateway.post("/v1/files").body(FORM, body()), bucket).send().await.expect(400);
        assert!(told.text().contains("aws-s3-bucket") || told.text().contains("aws_s3_bucket"), "{}", told.text());
        let told = upload(&gateway, &with(config.clone(), json!({ "aws_s3_bucket": bucket })), &plain).send().await;
        assert!(told.expect(400).text().contains("aws_s3_bucket"));
    }
    // Encoded twice it is no address; nor is that of another bucket, store, or the gateway's own batches.
    let twice = held.replace('%', "%25");
    let elsewhere = held.replace("my-bucket", "other-bucket");
    let texts = |answer: Answer| answer.expect(404).text();
    let mut told = Vec::new();
    for id in
        [&*twice, &elsewhere, &held.replace("s3%", "gs%"), "s3%3A%2F%2Fmy-bucket%2Fgateway-batches%2Fb%2Fl", "file-1"]
    {
        for (method, tail) in [("GET", ""), ("GET", "/content"), ("DELETE", "")] {
            told.push(texts(gateway.call(method, &format!("/v1/files/{id}{tail}")).config(&config).send().await));
        }
    }
    assert!(told.iter().all(|text| *text == told[0]), "{told:?}");
    assert_eq!(upstream.seen().len(), seen, "before any connection");
    // What did not come by here is not removed by here.
    let foreign = gateway.call("DELETE", "/v1/files/s3%3A%2F%2Fmy-bucket%2Fin%2Fown.jsonl").config(&config);
    foreign.send().await.expect(403);
    // What cannot be asked at all is told before anything is read.
    let mut keyless = with(config.clone(), json!({ "api_key": "bedrock-api-key" }));
    for name in ["aws_access_key_id", "aws_secret_access_key"] {
        keyless.as_object_mut().expect("an object").remove(name);
    }
    assert!(upload(&gateway, &keyless, &plain).send().await.expect(400).text().contains("AWS keys"));
    let mut bucketless = config.clone();
    bucketless.as_object_mut().expect("an object").remove("aws_s3_bucket");
    assert!(upload(&gateway, &bucketless, &plain).send().await.expect(400).text().contains("aws_s3_bucket"));
}

#[tokio::test]
async fn files_that_came_by_one_workspace_are_unknown_to_the_next() {
    let upstream = bucket().await;
    let gateway = Gateway::start().await;
    let mut configurations = aws(&upstream);
    configurations.as_object_mut().expect("an object").remove("provider");
    let keys = gateway.admin().sharing("bedrock", None, &configurations).await;
    let plain = lines(NOVA, 1);
    let body = form(&[("purpose", None, b"batch"), ("file", Some("l.jsonl"), plain.as_bytes())]);
    let made = gateway.post("/v1/files").key(&keys[0]).provider("@p").body(FORM, body).send().await.expect(200);
    let path = format!("/v1/files/{}", id(&made));
    let call = |key: &str, method: &str, path: &str| gateway.call(method, path).key(key).provider("@p");
    call(&keys[0], "GET", &path).send().await.expect(200);
    for (key, known) in [(&keys[0], 1), (&keys[1], 0)] {
        let list = call(key, "GET", "/v1/files").send().await.expect(200).json();
        assert_eq!(list["data"].as_array().map(Vec::len), Some(known), "{list}");
    }
    let unknown = call(&keys[1], "GET", "/v1/files/nothing").send().await.expect(404).text();
    for (method, tail) in [("GET", ""), ("GET", "/content"), ("DELETE", "")] {
        assert_eq!(call(&keys[1], method, &format!("{path}{tail}")).send().await.expect(404).text(), unknown);
    }
    // A setting of the request's own does not stand beside a saved credential.
    call(&keys[0], "GET", &path).header("x-gateway-aws-s3-bucket", "other-bucket").send().await.expect(400);
}

#[tokio::test]
async fn a_list_holds_the_newest_first_and_those_of_the_workspace_alone() {
    let gateway = Gateway::start().await;
    for (cloud, model) in [(aws as fn(&Upstream) -> Value, NOVA), (google, GEMINI)] {
        let upstream = bucket().await;
        let config = cloud(&upstream);
        let list = |query: &str| {
            let path = format!("/v1/files{query}");
            let call = gateway.get(&path).config(&config);
            async move { call.send().await }
        };
        let empty = list("").await.expect(200).json();
        assert_eq!(
            empty,
            json!({ "object": "list", "data": [], "first_id": null, "last_id": null, "has_more": false })
        );
        let mut made = Vec::new();
        for purpose in ["batch", "fine-tune", "batch"] {
            let lines = lines(model, 1);
            let body = form(&[("file", Some("l.jsonl"), lines.as_bytes()), ("purpose", None, purpose.as_bytes())]);
            made.push(gateway.post("/v1/files").config(&config).body(FORM, body).send().await.expect(200).json());
        }
        made.reverse();
        let same = |file: &Value| with(file.clone(), json!({ "created_at": 1_735_689_600 }));
        let all = list("?limit=10000&order=desc").await.expect(200).json();
        assert_eq!(all["data"], json!(made.iter().map(same).collect::<Vec<_>>()));
        assert_eq!((&all["first_id"], &all["last_id"]), (&made[0]["id"], &made[2]["id"]));
        let asked = upstream.seen().pop().expect("a call").target;
        assert!(asked.contains("list-type=2") && asked.contains("prefix=gateway-files%2F"), "{asked}");
        let first = list("?limit=1").await.expect(200).json();
        assert_eq!((&first["data"][0]["id"], &first["has_more"]), (&made[0]["id"], &json!(true)));
        let after = text(&first, "last_id").replace('%', "%25");
        let rest = list(&format!("?after={after}")).await.expect(200).json();
        assert_eq!((&rest["data"][0]["id"], &rest["has_more"]), (&made[1]["id"], &json!(false)));
        let tuned = list("?purpose=fine-tune").await.expect(200).json();
        assert_eq!((tuned["data"].as_array().map(Vec::len), &tuned["data"][0]["id"]), (Some(1), &made[1]["id"]));
        for (query, why) in
            [("?limit=0", "limit"), ("?order=asc", "order"), ("?after=x", "after"), ("?a=b", "a is not")]
        {
            let told = list(query).await.expect(400).text();
            assert!(told.contains(why), "{query}: {told}");
        }
    }
}

#[tokio::test]
async fn among_several_targets_addresses_are_bound() {
    let gateway = Gateway::start().await;
    let upstream = bucket().await;
    let config = json!({ "strategy": { "mode": "fallback" }, "targets": [aws(&upstream), google(&upstream)] });
    let file = made(&gateway, &config, &lines(NOVA, 1)).await;
    let held = file["id"].as_str().expect("an id").to_owned();
    assert!(held.starts_with("gw1_") && !held.contains("my-bucket"), "{held}");
    let path = format!("/v1/files/{held}");
    let found = gateway.get(&path).config(&config).send().await.expect(200);
    assert_eq!(found.json()["id"], file["id"], "equal each time");
    gateway.get(&format!("{path}/content")).config(&config).send().await.expect(200);
    let mut other = held.clone().into_bytes();
    other[20] = if other[20] == b'A' { b'B' } else { b'A' };
    let other = String::from_utf8(other).expect("text");
    gateway.get(&format!("/v1/files/{other}")).config(&config).send().await.expect(404);
    assert_eq!(gateway.call("DELETE", &path).config(&config).send().await.expect(200).json()["id"], file["id"]);
}

#[tokio::test]
async fn what_is_on_its_way_takes_room_and_gives_it_back() {
    let gateway = Gateway::with(&["--file-store-max", "256KiB"]).await;
    let upstream = bucket().await;
    let config = aws(&upstream);
    let large: String = (0..40)
        .map(|n| line(&format!("l-{n}"), CHAT, &with(prompt(NOVA, n), json!({ "user": "u".repeat(8_000) }))))
        .collect();
    let full = upload(&gateway, &config, &large).send().await.expect(400);
    assert_eq!(full.json()["error"]["code"], "storage_full", "{}", full.text());
    // Together they are more than there is room for.
    let plain = lines(NOVA, 200);
    assert!(plain.len() * 12 > 256 << 10);
    for _ in 0..12 {
        let taken = || async { (upload(&gateway, &config, &plain).send().await.status == 200).then_some(()) };
        eventually("room for the next one", taken).await;
    }
}

/// What a provider is sent goes by in pieces, however much it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_file_goes_up_in_little_memory() {
    const LARGE: usize = 150 << 20;
    let gateway = Gateway::with(&["--max-body", "1MiB"]).await;
    let upstream = bucket().await;
    let config = aws(&upstream);
    let filler = "x".repeat(16 << 10);
    let long = |n: usize| {
        let message = json!({ "role": "user", "content": format!("{n} {filler}") });
        line(&format!("line-{n}"), CHAT, &json!({ "model": NOVA, "messages": [message] }))
    };
    let lines: String = (0..1_000).map(long).collect();
    let file = made(&gateway, &config, &lines).await;
    assert!(file["bytes"].as_u64() > Some(15 << 20), "{file}");
    let before = gateway.memory("VmHWM");
    let large = form(&[("purpose", None, b"user_data"), ("file", Some("large.bin"), &vec![b'x'; LARGE])]);
    let openai = json!({ "provider": "openai", "api_key": "k", "custom_host": upstream.url() });
    for config in [&config, &openai] {
        gateway.post("/v1/files").config(config).body(FORM, large.clone()).send().await.expect(200);
        assert!(upstream.seen().pop().is_some_and(|seen| seen.body.len() >= LARGE), "all of it");
    }
    let grown = gateway.memory("VmHWM").saturating_sub(before);
    // What the database keeps of its own pages grows a little, and has a bound.
    assert!(grown < 64, "{grown} MiB more at most");
}
