//! Files, exports and the messages of logs in a bucket: the real program, two nodes, a bucket that goes away, a kill in
//! the middle of an upload, and the command that moves what is there.

use crate::area_forms::{FORM, form};
use crate::harness::process::program;
use crate::harness::{Answer, Gateway, Upstream, eventually, hello, reply};
use gateway_testing::{Bucket, Postgres};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Output;
use tokio::process::Command;

async fn bucket() -> Bucket {
    tokio::task::spawn_blocking(Bucket::start).await.expect("no panic")
}

/// Lines of a batch, more than one piece of a blob.
fn lines(marks: &str) -> String {
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": marks.repeat(30) }] });
    (0..1_500)
        .map(|n| {
            let line =
                json!({ "custom_id": format!("l{n}"), "method": "POST", "url": "/v1/chat/completions", "body": body });
            line.to_string() + "\n"
        })
        .collect()
}

async fn upload(gateway: &Gateway, lines: &str) -> Answer {
    let body = form(&[("purpose", None, b"batch"), ("file", Some("lines.jsonl"), lines.as_bytes())]);
    gateway.post("/v1/files").body(FORM, body).send().await
}

async fn uploaded(gateway: &Gateway, lines: &str) -> String {
    upload(gateway, lines).await.expect(200).json()["id"].as_str().expect("an id").to_owned()
}

async fn content(gateway: &Gateway, file: &str) -> String {
    gateway.get(&format!("/v1/files/{file}/content")).send().await.expect(200).text()
}

async fn files(gateway: &Gateway) -> Vec<Value> {
    gateway.get("/v1/files").send().await.expect(200).json()["data"].as_array().expect("a list").clone()
}

/// Whether so many blobs are counted, and so many objects that none of them names.
async fn kept_and_unnamed(gateway: &Gateway, blobs: u64, unnamed: u64) -> Option<()> {
    let metrics = gateway.metrics().await;
    let says = |line: String| metrics.lines().any(|told| told == line);
    let all = says(format!("gateway_blobs {blobs}")) && says(format!("gateway_blob_objects_unnamed {unnamed}"));
    all.then_some(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_node_writes_another_serves_and_a_bucket_that_is_away_is_told() {
    let bucket = bucket().await;
    let database = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("objects"))).await;
    let (_postgres, url) = database.expect("no panic");
    let blobs = bucket.url();
    let one = Gateway::with(&["--database-url", &url, "--blob-url", &blobs]).await;
    let key = one.folder().join("data/master.key").display().to_string();
    let two = Gateway::with(&["--database-url", &url, "--blob-url", &blobs, "--master-key-file", &key]).await;
    let text = lines("canary");
    let id = uploaded(&one, &text).await;
    assert!(content(&two, &id).await == text, "the other node serves the same");
    let objects = bucket.objects();
    assert!(objects.len() > 1, "{objects:?}");
    for object in &objects {
        assert!(!bucket.object(object).windows(6).any(|part| part == b"canary"), "{object} is sealed");
    }
    bucket.cut();
    let refused = upload(&one, &text).await.expect(503);
    let told = refused.text();
    assert!(!told.contains("bucket") && !told.contains("127.0.0.1"), "{told}");
    assert_eq!(refused.header("content-type"), Some("application/json"));
    assert_eq!(files(&two).await.len(), 1, "nothing of it is to be seen");
    two.chat().json(&json!({})).send().await.expect(400);
    let away = two.get(&format!("/v1/files/{id}/content")).send().await;
    assert_eq!(away.status, 503, "{}", away.text());
    bucket.mend();
    assert!(content(&two, &id).await == text, "nothing is lost");
    let again = uploaded(&two, &text).await;
    one.call("DELETE", &format!("/v1/files/{again}")).send().await.expect(200);
    one.call("DELETE", &format!("/v1/files/{id}")).send().await.expect(200);
    let settings = one.admin().get("/nodes/settings").await.expect(200).text();
    assert!(settings.contains("blob-url") && !settings.contains("AKIDTEST"), "{settings}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_in_the_middle_of_an_upload_leaves_no_half_file_and_no_garbage() {
    let bucket = bucket().await;
    let blobs = bucket.url();
    let gateway = Gateway::with(&["--blob-url", &blobs]).await;
    let kept = uploaded(&gateway, "{\"custom_id\": \"a\"}\n").await;
    let text = lines("killed");
    bucket.stall();
    // It is not given up before the process is gone: that would be another story.
    let body = form(&[("purpose", None, b"batch"), ("file", Some("lines.jsonl"), text.as_bytes())]);
    let begun = gateway.post("/v1/files").body(FORM, body).send();
    tokio::pin!(begun);
    tokio::select! {
        answer = &mut begun => panic!("nothing answered it: {answer:?}"),
        () = eventually("an object is on its way", || async { bucket.was_asked().then_some(()) }) => {}
    }
    let gateway = gateway.restart_after_kill(&["--blob-url", &blobs]).await;
    bucket.mend();
    eventually("the object is known", || kept_and_unnamed(&gateway, 2, 1)).await;
    let names: Vec<Value> = files(&gateway).await.into_iter().map(|file| file["id"].clone()).collect();
    assert_eq!(names, [json!(kept)]);
    let whole = uploaded(&gateway, &text).await;
    let objects = bucket.objects().len();
    // Three days on, what a dead process left is over.
    let gateway = gateway.restart_with(&["--blob-url", &blobs, "--clock-ahead", "259200"]).await;
    eventually("all that was left is gone", || kept_and_unnamed(&gateway, 2, 0)).await;
    assert_eq!(bucket.objects().len(), objects);
    assert!(content(&gateway, &whole).await == text);
}

async fn moved(folder: &Path, urls: &[&str]) -> Output {
    let mut command = Command::from(program());
    command.args(["move", "blobs", "--data-dir"]).arg(folder.join("data"));
    for url in urls {
        command.args(["--blob-url", url]);
    }
    command.output().await.expect("it runs")
}

/// There and back beside a gateway that serves, and the settings check knows a bucket that does not answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_move_to_a_bucket_and_back_while_they_are_served() {
    let bucket = bucket().await;
    let there = bucket.url();
    let gateway = Gateway::start().await;
    let text = lines("moved");
    let id = uploaded(&gateway, &text).await;
    let gateway = gateway.restart_with(&["--blob-url", &there]).await;
    assert!(content(&gateway, &id).await == text, "still in rows");
    let folder = gateway.folder();
    bucket.cut();
    let failed = moved(&folder, &[&there]).await;
    let told = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(!failed.status.success() && told.contains("run it again") && !told.contains("secret"), "{told}");
    bucket.mend();
    let done = moved(&folder, &[&there]).await;
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(bucket.objects().len() > 1);
    assert!(content(&gateway, &id).await == text, "from the bucket");
    let back = moved(&folder, &["rows:", &there]).await;
    assert!(back.status.success(), "{}", String::from_utf8_lossy(&back.stderr));
    assert!(bucket.objects().is_empty(), "nothing is left there");
    assert!(content(&gateway, &id).await == text, "from rows again");
    let gateway = gateway.restart().await;
    assert!(content(&gateway, &id).await == text, "no bucket is needed any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_that_cannot_be_is_refused_at_start_and_one_that_is_away_by_the_check() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = async |urls: &[&str]| {
        let mut command = Command::from(program());
        command.arg("check").arg("--data-dir").arg(folder.path());
        for url in urls {
            command.args(["--blob-url", url]);
        }
        let output = command.output().await.expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (url, why) in [("gs://bucket/x", "'gs'"), ("s3://k:hidden@b", "bucket"), ("s3://bucket?no=1", "'no'")] {
        let (is_fine, told) = said(&[url]).await;
        assert!(!is_fine && told.contains("--blob-url") && told.contains(why) && !told.contains("hidden"), "{told}");
    }
    let bucket = bucket().await;
    assert!(said(&[&bucket.url()]).await.0);
    bucket.cut();
    let (is_fine, told) = said(&[&bucket.url()]).await;
    assert!(!is_fine && told.contains("s3://blobs/kept/here/"), "{told}");
    let files = format!("file://{}", folder.path().join("shared").display());
    assert!(said(&["rows:", &files]).await.0, "a folder is one too");
}

/// The log with this trace, as it is shown.
async fn logged(gateway: &Gateway, trace: &str) -> Answer {
    let path = format!("/logs?trace_id={trace}");
    let id = eventually("a record", || async {
        let found = gateway.admin().get(&path).await.expect(200).json();
        found["data"][0]["id"].as_str().map(ToOwned::to_owned)
    })
    .await;
    gateway.admin().get(&format!("/logs/{id}")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_logs_lie_in_a_bucket_and_wait_while_it_is_away() {
    let bucket = bucket().await;
    let url = bucket.url();
    let flags = ["--log-bodies", "all", "--log-bodies-url", &url];
    let gateway = Gateway::with(&flags).await;
    let upstream = Upstream::replying(|_| reply::chat("said in the bucket")).await;
    let ask = async |gateway: &Gateway, trace: &str| {
        let call = gateway.chat_through(&upstream).header("x-gateway-trace-id", trace);
        call.json(&hello()).send().await.expect(200);
    };
    ask(&gateway, "there").await;
    let shown = logged(&gateway, "there").await.expect(200).json();
    assert_eq!(shown["response"]["body"]["choices"][0]["message"]["content"], "said in the bucket", "{shown}");
    let objects = bucket.objects();
    assert_eq!(objects.len(), 1, "{objects:?}");
    let files = std::fs::read_dir(gateway.folder().join("data/logs")).expect("a folder");
    for file in files.map(|file| file.expect("a file").path()) {
        let bytes = std::fs::read(&file).unwrap_or_default();
        assert!(memchr::memmem::find(&bytes, b"said in the bucket").is_none(), "{}", file.display());
    }

    bucket.cut();
    assert_eq!(logged(&gateway, "there").await.status, 503);
    ask(&gateway, "waits").await;
    eventually("it is in the journal", || async {
        let files = std::fs::read_dir(gateway.folder().join("data/journal")).expect("a folder");
        let all: Vec<u8> = files.flat_map(|f| std::fs::read(f.expect("a file").path()).unwrap_or_default()).collect();
        memchr::memmem::find(&all, b"waits").map(drop)
    })
    .await;
    // Killed with a record whose messages nobody takes.
    let gateway = gateway.restart_after_kill(&flags).await;
    let found = gateway.admin().get("/logs?trace_id=waits").await.expect(200).json();
    assert_eq!(found["total"], 0, "{found}");
    bucket.mend();
    let shown = logged(&gateway, "waits").await.expect(200).json();
    assert_eq!(shown["response"]["body"]["choices"][0]["message"]["content"], "said in the bucket", "{shown}");
    let shown = logged(&gateway, "there").await.expect(200).json();
    assert_eq!(shown["request"]["body"]["messages"], hello()["messages"], "{shown}");
}
