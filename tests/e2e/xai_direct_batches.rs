//! xAI's own batches of a file of the client's, by OpenAI's routes: counted once xAI has taken up all lines of the
//! file, each line as what it is an answer to.

use crate::batches::{CHAT, asked, text};
use crate::direct_batches::{counted_lines, lines};
use crate::family_batches::{FamilyProvider, Script, cost};
use crate::harness::call::Call;
use crate::harness::{Gateway, Upstream, eventually, reply, with};
use crate::xai_batches::{GROK, LOOK, RESULTS, answered, batch_reply, below, completion, grok, page, refused};
use serde_json::{Value, json};

const OUTPUT: &str = "/v1/files/batch_1.output/content";

fn new_batch(endpoint: &str) -> Value {
    json!({ "input_file_id": "file_1", "endpoint": endpoint, "completion_window": "24h" })
}

async fn make(gateway: &Gateway, config: &Value, body: &Value) -> Value {
    gateway.post("/v1/batches").config(config).json(body).send().await.expect(200).json()
}

fn get(gateway: &Gateway, config: &Value, path: &str) -> Call {
    gateway.get(path).config(config)
}

async fn look(gateway: &Gateway, config: &Value) -> Value {
    get(gateway, config, "/v1/batches/batch_1").send().await.expect(200).json()
}

/// One whose results are these; all else is told as usual.
fn with_results(rows: Vec<Value>) -> Box<Script> {
    let plain = grok(1);
    Box::new(move |seen, looks, cancelled| match (seen.method.as_str(), below(seen)) {
        ("GET", LOOK) => batch_reply([rows.len() as u64, 0, 0, 0, 0], json!({})),
        ("GET", "/files/file_1/content") => reply::whole(200, &[], "{}\n".repeat(rows.len())),
        ("GET", RESULTS) => page(&rows, &Value::Null),
        _ => plain(seen, looks, cancelled),
    })
}

fn row(name: &str, kind: &str, answer: Value) -> Value {
    let mut response = json!({});
    response[kind] = answer;
    json!({ "batch_request_id": name, "batch_result": { "response": response } })
}

#[tokio::test]
async fn xais_own_batches_are_made_listed_and_read_by_openais_routes() {
    let gateway = Gateway::start().await;
    let plain = grok(4);
    let script: Box<Script> = Box::new(move |seen, looks, cancelled| match (seen.method.as_str(), below(seen)) {
        ("GET", "/batches?limit=100") => {
            let state = json!({ "num_requests": 4, "num_pending": 4 });
            let one = json!({ "batch_id": "batch_1", "create_time": "2025-01-01", "expire_time": "2200-01-31",
                              "state": state });
            reply::json(200, &json!({ "batches": [one], "pagination_token": null }))
        }
        _ => plain(seen, looks, cancelled),
    });
    let provider = FamilyProvider::start(LOOK, script).await;
    let config = provider.config("x-ai");
    let body = with(new_batch(CHAT), json!({ "model": GROK, "metadata": asked("")["metadata"] }));
    let made = make(&gateway, &config, &body).await;
    assert_eq!((&made["id"], &made["status"]), (&json!("batch_1"), &json!("validating")));
    assert_eq!(provider.calls("POST", "/batches")[0].json()["input_file_id"], "file_1");
    let list = get(&gateway, &config, "/v1/batches").send().await.expect(200).json();
    assert_eq!((&list["data"][0]["id"], &list["data"][0]["status"]), (&json!("batch_1"), &json!("in_progress")));
    assert_eq!(list["data"][0]["expires_at"], 7_260_710_400_i64);
    let done = eventually("its end", || async {
        let told = look(&gateway, &config).await;
        (told["output_file_id"] == "batch_1.output").then_some(told)
    });
    let done = done.await;
    assert_eq!(done["request_counts"], json!({ "total": 4, "completed": 2, "failed": 2 }));
    // What two pages told is told once, and counted once.
    let output = get(&gateway, &config, OUTPUT).send().await.expect(200).text();
    let names: Vec<Value> =
        output.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["custom_id"].clone()).collect();
    assert_eq!(names, ["gw_line_3", "line-of-nobody", "line-0"].map(Value::from));
    let errors = lines(&gateway, &config, &done, "error_file_id").await;
    assert!(errors["line-1"].to_string().contains("no such tool") && errors.len() == 2, "{errors:?}");
    assert_eq!(errors["line-3"]["error"]["code"], "batch_cancelled");
    let costs = counted_lines(&gateway, "batch_1", &[1, 2, 4, 5]).await;
    assert!(costs["batch_1-1"] > 0.0 && costs["batch_1-2"].abs() < 1e-12, "{costs:?}");
    let more = gateway.admin().get("/logs?trace_id=batch_1-6").await.expect(200).json();
    assert_eq!(more["total"], 0, "{more}");
}

/// Half of the file was read, and all of that half is done: the batch has not ended, and nothing of it is counted.
#[tokio::test]
async fn a_batch_whose_file_is_read_by_and_by_has_not_ended_with_its_first_lines() {
    let gateway = Gateway::start().await;
    let provider = FamilyProvider::start(LOOK, grok(4)).await;
    let config = provider.config("x-ai");
    make(&gateway, &config, &new_batch(CHAT)).await;
    assert_eq!(look(&gateway, &config).await["status"], "validating");
    let half = look(&gateway, &config).await;
    assert_eq!((&half["status"], &half["output_file_id"]), (&json!("in_progress"), &Value::Null), "{half}");
    assert_eq!(half["request_counts"]["completed"], 2);
    assert_eq!(look(&gateway, &config).await["status"], "in_progress");
    assert_eq!(provider.calls("GET", RESULTS).len(), 0, "nothing was counted");
    assert_eq!(look(&gateway, &config).await["status"], "completed");
    counted_lines(&gateway, "batch_1", &[1, 2, 4, 5]).await;
    assert_eq!(provider.calls("GET", RESULTS).len(), 1);
}

/// Nobody can say how many lines there are: what has nothing left to do for ten minutes has none to come.
#[tokio::test]
async fn one_whose_file_cannot_be_read_has_ended_some_minutes_after_it_was_made() {
    let gateway = Gateway::start().await;
    let plain = grok(1);
    let script: Box<Script> = Box::new(move |seen, looks, cancelled| match below(seen) {
        "/files/file_1/content" => reply::error(404, &[]),
        _ => plain(seen, looks, cancelled),
    });
    let provider = FamilyProvider::start(LOOK, script).await;
    let config = provider.config("x-ai");
    make(&gateway, &config, &new_batch(CHAT)).await;
    for _ in 0..3 {
        assert_eq!(look(&gateway, &config).await["status"], "in_progress");
    }
    assert_eq!(get(&gateway, &config, OUTPUT).send().await.expect(400).json()["error"]["param"], "batch_id");
    let gateway = gateway.restart_after_kill(&["--clock-ahead", "700"]).await;
    assert_eq!(look(&gateway, &config).await["status"], "completed");
    counted_lines(&gateway, "batch_1", &[1, 2, 4, 5]).await;
    assert_eq!(provider.calls("GET", "/files/file_1/content").len(), 1, "it was asked for once");
}

/// Results that are not told yet are counted at a later look, and those before them not again.
#[tokio::test]
async fn results_that_come_later_than_their_number_are_counted_later() {
    let gateway = Gateway::start().await;
    let plain = grok(1);
    let script: Box<Script> = Box::new(move |seen, looks, cancelled| match (seen.method.as_str(), below(seen)) {
        ("GET", LOOK) => batch_reply([4, 0, 4, 0, 0], json!({})),
        ("GET", RESULTS) => {
            let rows: Vec<Value> = (0..4).map(|n| answered(&format!("line-{n}"), n)).collect();
            page(&rows[..if looks < 2 { 2 } else { 4 }], &Value::Null)
        }
        _ => plain(seen, looks, cancelled),
    });
    let provider = FamilyProvider::start(LOOK, script).await;
    let config = provider.config("x-ai");
    make(&gateway, &config, &new_batch(CHAT)).await;
    assert_eq!(look(&gateway, &config).await["status"], "completed");
    counted_lines(&gateway, "batch_1", &[1, 2]).await;
    let whole = eventually("the rest", || async {
        look(&gateway, &config).await;
        let last = gateway.admin().get("/logs?trace_id=batch_1-4").await.expect(200).json();
        (last["total"] == 1).then_some(())
    });
    whole.await;
    counted_lines(&gateway, "batch_1", &[1, 2, 3, 4]).await;
}

#[tokio::test]
async fn each_kind_of_answer_is_told_and_costs_what_it_does() {
    let gateway = Gateway::start().await;
    let message =
        json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "hi" }] });
    let used = json!({ "input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100 });
    let response = json!({ "id": "r", "object": "response", "model": GROK, "output": [message], "usage": used });
    let picture = |more: Value| with(json!({ "data": [{ "url": "https://imgen.x.ai/a.jpg" }] }), more);
    let ticks = |ticks: u64| json!({ "usage": { "cost_in_usd_ticks": ticks } });
    let video = json!({ "video": { "url": "https://vidgen.x.ai/a.mp4", "duration": 8 } });
    let rows = vec![
        answered("chat", 0),
        row("responses", "responses", response),
        row("picture", "image_generation", picture(json!({ "model": "grok-imagine-image" }))),
        row("edited", "image_edit", picture(ticks(100_000_000))),
        row("video", "video_generation", with(video.clone(), ticks(500_000_000))),
        row("unheard of", "thing", json!({ "thing": 1, "model": GROK, "usage": used })),
        json!({ "batch_request_id": "nothing", "batch_result": { "response": null, "error": null } }),
        refused("bad", 3, "no such tool"),
    ];
    let provider = FamilyProvider::start(LOOK, with_results(rows)).await;
    let config = provider.config("x-ai");
    make(&gateway, &config, &new_batch(CHAT)).await;
    let done = look(&gateway, &config).await;
    assert_eq!(done["status"], "completed");
    let good = lines(&gateway, &config, &done, "output_file_id").await;
    let names: Vec<_> = good.keys().map(String::as_str).collect();
    assert_eq!(names, ["chat", "edited", "picture", "responses", "unheard of", "video"]);
    assert_eq!(good["video"]["response"]["body"]["video"], video["video"]);
    assert_eq!(good["unheard of"]["response"]["body"]["thing"], 1);
    assert_eq!(good["responses"]["response"]["body"]["output"][0]["content"][0]["text"], "hi");
    let bad = lines(&gateway, &config, &done, "error_file_id").await;
    assert_eq!(bad.keys().collect::<Vec<_>>(), ["bad", "nothing"]);
    let nothing = &bad["nothing"]["response"];
    assert_eq!((&nothing["status_code"], &nothing["body"]["error"]["code"]), (&json!(502), &json!("no_answer")));
    assert!(text(&nothing["body"]["error"], "message").contains("neither an answer"), "{nothing}");
    let costs = counted_lines(&gateway, "batch_1", &[1, 2, 3, 4, 5, 6, 7, 8]).await;
    let of = |number: usize| costs[&format!("batch_1-{number}")];
    let call = gateway.chat().config(&config).header("x-gateway-trace-id", "full");
    call.json(&json!({ "model": GROK, "messages": [{ "role": "user", "content": "hi" }] })).send().await.expect(200);
    let half = cost(&gateway, "full").await / 2.0;
    // What is billed by the picture costs that in a batch as well.
    for (number, cents) in [(1, half), (2, half), (3, 2.0), (4, 1.0), (5, 5.0), (6, half), (7, 0.0), (8, 0.0)] {
        assert!((of(number) - cents).abs() < 1e-9, "line {number}: {} of {cents}", of(number));
    }
    assert!(half > 0.0);
}

#[tokio::test]
async fn batches_are_made_of_responses_and_pictures_too() {
    let gateway = Gateway::start().await;
    let drawn = json!({ "data": [{ "url": "https://imgen.x.ai/a.jpg" }] });
    let provider = FamilyProvider::start(LOOK, with_results(vec![row("a", "image_generation", drawn)])).await;
    let config = provider.config("x-ai");
    let other = gateway.post("/v1/batches").config(&config).json(&new_batch("/v1/embeddings"));
    assert_eq!(other.send().await.expect(400).json()["error"]["param"], "endpoint");
    let responses = make(&gateway, &config, &new_batch("/v1/responses")).await;
    assert_eq!(responses["endpoint"], "/v1/responses");
    let done = look(&gateway, &config).await;
    assert_eq!((&done["status"], &done["endpoint"]), (&json!("completed"), &json!("/v1/responses")));
}

/// They make none themselves; in a batch of their model what was answered besides is told, and paid for by whoever
/// looks.
#[tokio::test]
async fn keys_that_are_held_to_models_read_and_pay_for_all_that_was_answered() {
    let gateway = Gateway::start().await;
    let (_, key) = gateway.admin().workspace_key("held", json!({ "allowed_models": [GROK] })).await;
    let usage = json!({ "cost_in_usd_ticks": 100_000_000 });
    let drawn = json!({ "data": [{ "url": "https://imgen.x.ai/a.jpg" }], "usage": usage });
    let rows = vec![answered("chat", 0), row("picture", "image_generation", drawn)];
    let provider = FamilyProvider::start(LOOK, with_results(rows)).await;
    let config = provider.config("x-ai");
    let body = with(new_batch(CHAT), json!({ "model": GROK }));
    gateway.post("/v1/batches").key(&key).config(&config).json(&body).send().await.expect(403);
    make(&gateway, &config, &body).await;
    let by = async |path: &str| get(&gateway, &config, path).key(&key).send().await.expect(200);
    assert_eq!(by("/v1/batches/batch_1").await.json()["status"], "completed");
    let output = by(OUTPUT).await.text();
    assert!(output.lines().count() == 2 && output.contains("imgen.x.ai"), "{output}");
    let costs = counted_lines(&gateway, "batch_1", &[1, 2]).await;
    assert!(costs["batch_1-1"] > 0.0 && (costs["batch_1-2"] - 1.0).abs() < 1e-9, "{costs:?}");
}

#[tokio::test]
async fn one_whose_time_is_over_has_expired_and_what_was_answered_is_told_and_counted() {
    let gateway = Gateway::start().await;
    let plain = grok(1);
    let script: Box<Script> = Box::new(move |seen, looks, cancelled| match (seen.method.as_str(), below(seen)) {
        ("GET", LOOK) => batch_reply([4, 3, 1, 0, 0], json!({ "expire_time": "2025-12-11T00:00:00Z" })),
        ("GET", RESULTS) => page(&[answered("line-0", 0)], &Value::Null),
        _ => plain(seen, looks, cancelled),
    });
    let provider = FamilyProvider::start(LOOK, script).await;
    let config = provider.config("x-ai");
    make(&gateway, &config, &new_batch(CHAT)).await;
    let done = look(&gateway, &config).await;
    assert_eq!((&done["status"], &done["expires_at"]), (&json!("expired"), &json!(1_765_411_200)));
    assert_eq!(done["expired_at"], done["expires_at"]);
    assert_eq!(lines(&gateway, &config, &done, "output_file_id").await.len(), 1);
    counted_lines(&gateway, "batch_1", &[1]).await;
}

/// A page of more bytes than are held is asked for again with fewer results; what xAI has moved is read where it says.
#[tokio::test]
async fn pages_that_are_too_large_or_elsewhere_are_read_all_the_same() {
    let gateway = Gateway::start().await;
    let elsewhere = Upstream::replying(|seen| {
        assert_eq!((seen.target.as_str(), seen.header("authorization")), ("/page?signed=1", None));
        page(&[answered("line-1", 1)], &Value::Null)
    })
    .await;
    let moved = format!("{}/page?signed=1", crate::clouds::bare(&elsewhere));
    let plain = grok(1);
    let script: Box<Script> = Box::new(move |seen, looks, cancelled| match (seen.method.as_str(), below(seen)) {
        ("GET", LOOK) => batch_reply([4, 0, 2, 0, 0], json!({})),
        ("GET", RESULTS) => {
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 70000000\r\n\r\n{".to_vec()
        }
        ("GET", "/batches/batch_1/results?limit=100") => page(&[answered("line-0", 0)], &json!("t")),
        ("GET", "/batches/batch_1/results?limit=100&pagination_token=t") => {
            reply::whole(302, &[("location", &moved)], "")
        }
        _ => plain(seen, looks, cancelled),
    });
    let provider = FamilyProvider::start(LOOK, script).await;
    let config = provider.config("x-ai");
    make(&gateway, &config, &new_batch(CHAT)).await;
    let done = look(&gateway, &config).await;
    let good = lines(&gateway, &config, &done, "output_file_id").await;
    assert_eq!(good.keys().collect::<Vec<_>>(), ["line-0", "line-1"]);
    assert_eq!(good["line-1"]["response"]["body"]["choices"], completion(1)["choices"]);
    counted_lines(&gateway, "batch_1", &[1, 2]).await;
}
