//! Runs of assistants at servers that are compatible with OpenAI's interface for them: what a run used is told at its
//! end and at every look behind it, and is paid for once.

use crate::area_forms::{ask, metrics_of};
use crate::clouds::integration;
use crate::cluster::database;
use crate::harness::{Gateway, Upstream, WORKSPACE_KEY, eventually, reply};
use crate::long_tail_areas::priced;
use crate::passed_batches::{note_of_counting, workspace_of};
use serde_json::{Value, json};

const USAGE: (u64, u64) = (100, 50);

fn run(id: &str, status: &str) -> Value {
    let usage = json!({ "prompt_tokens": USAGE.0, "completion_tokens": USAGE.1, "total_tokens": USAGE.0 + USAGE.1 });
    let usage = if status == "completed" { usage } else { Value::Null };
    let age = if id == "run_old" { 40 * 86_400 } else { 5 };
    json!({ "id": id, "object": "thread.run", "status": status, "model": "gpt-small", "assistant_id": "asst_1",
            "thread_id": "thread_1", "created_at": jiff::Timestamp::now().as_second() - age, "usage": usage })
}

fn step(id: &str) -> Value {
    json!({ "id": format!("step_{id}"), "object": "thread.run.step", "run_id": id, "status": "completed", "model": "gpt-small",
            "usage": { "prompt_tokens": 60, "completion_tokens": 30, "total_tokens": 90 } })
}

fn events(all: &[(&str, Value)]) -> Vec<u8> {
    let all = all.iter().map(|(name, data)| format!("event: {name}\ndata: {data}\n\n"));
    let body = all.collect::<String>() + "event: done\ndata: [DONE]\n\n";
    reply::whole(200, &[("content-type", "text/event-stream")], body)
}

/// Runs whose id begins with `run_waits` wait for what a tool said; all others are done.
async fn assistants() -> Upstream {
    Upstream::replying(|seen| {
        let path = seen.target.split('?').next().unwrap_or_default().trim_start_matches("/v1");
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let id = parts.get(3).copied().unwrap_or_default();
        match (seen.method.as_str(), &parts[..]) {
            ("POST", ["threads", _, "runs"]) if seen.json()["stream"] == true => {
                let id = seen.json()["metadata"]["id"].as_str().unwrap_or("run_streamed").to_owned();
                if id.starts_with("run_waits") {
                    let needs = ("thread.run.requires_action", run(&id, "requires_action"));
                    return events(&[
                        ("thread.run.created", run(&id, "queued")),
                        ("thread.run.step.completed", step(&id)),
                        needs,
                    ]);
                }
                let done = ("thread.run.completed", run(&id, "completed"));
                events(&[("thread.run.created", run(&id, "queued")), ("thread.run.step.completed", step(&id)), done])
            }
            ("POST", ["threads", _, "runs", id, "submit_tool_outputs"]) => {
                events(&[("thread.run.step.completed", step(id)), ("thread.run.completed", run(id, "completed"))])
            }
            ("POST", ["threads", _, "runs"]) => reply::json(200, &run("run_polled", "queued")),
            ("GET", ["threads", _, "runs"]) => reply::json(
                200,
                &json!({ "object": "list", "data": [run("run_listed", "completed")], "has_more": false }),
            ),
            ("GET", ["threads", _, "runs", "run_goes_on"]) => reply::json(200, &run("run_goes_on", "in_progress")),
            ("GET", ["threads", _, "runs", _]) => reply::json(200, &run(id, "completed")),
            ("GET", ["threads", _, "runs", _, "steps"]) => {
                reply::json(200, &json!({ "object": "list", "data": [step(id)], "has_more": false }))
            }
            ("GET", ["threads", _, "runs", _, "steps", _]) => reply::json(200, &step(id)),
            other => panic!("nobody asks {other:?}"),
        }
    })
    .await
}

/// Its upstream, which serves until it is dropped.
async fn assistants_of(gateway: &Gateway) -> Upstream {
    let upstream = assistants().await;
    integration(gateway, "openai", Some("sk-a"), json!({ "custom_host": upstream.url() })).await;
    let rates = json!({ "request_token": { "price": 0.01 }, "response_token": { "price": 0.02 } });
    priced(gateway, "gpt-small", rates).await;
    upstream
}

/// The costs of all calls with this trace, in cents.
async fn costs(gateway: &Gateway, trace: &str, calls: usize) -> Vec<f64> {
    let all = eventually(trace, || async {
        let list = gateway.admin().get(&format!("/logs?page_size=200&trace_id={trace}")).await.expect(200).json();
        let all = list["data"].as_array().expect("records").clone();
        (all.len() >= calls).then_some(all)
    });
    let all = all.await;
    assert_eq!(all.len(), calls, "{all:?}");
    all.iter().filter_map(|record| record["metrics"]["cost"].as_f64()).filter(|cost| *cost > 0.0).collect()
}

#[tokio::test]
async fn a_run_is_paid_for_once_however_often_and_wherever_it_is_looked_at() {
    let (_postgres, url) = database("runs").await;
    let gateway = Gateway::with(&["--database-url", &url]).await;
    let _upstream = assistants_of(&gateway).await;
    let master = gateway.folder().join("data/master.key").display().to_string();
    let second = Gateway::with(&["--database-url", &url, "--master-key-file", &master]).await;
    let look = |gateway: &Gateway, path: &str, trace: &str| {
        let call = gateway.get(&format!("/v1/threads/thread_1/runs{path}")).key(WORKSPACE_KEY).provider("@cloud");
        call.header("x-gateway-trace-id", trace)
    };
    eventually("the other node knows the provider", || async {
        (look(&second, "/run_goes_on", "waits").send().await.status == 200).then_some(())
    })
    .await;
    let made = ask(&gateway, "/v1/threads/thread_1/runs", "polls").provider("@cloud");
    let made = made.json(&json!({ "assistant_id": "asst_1" })).send().await.expect(200).json();
    assert_eq!((&made["id"], &made["status"]), (&json!("run_polled"), &json!("queued")));
    let looks = (0..20).map(|n| look(if n % 2 == 0 { &gateway } else { &second }, "/run_polled", "polls").send());
    for answer in futures_util::future::join_all(looks).await {
        let run = answer.expect(200).json();
        assert_eq!((&run["id"], &run["usage"]["prompt_tokens"]), (&json!("run_polled"), &json!(100)), "as it is told");
    }
    assert_eq!(costs(&gateway, "polls", 21).await, [2.0], "one of the looks, at whichever node");
    for path in ["", "/run_polled/steps", "/run_polled/steps/step_run_polled", "/run_goes_on"] {
        look(&gateway, path, "shares").send().await.expect(200);
    }
    assert!(costs(&gateway, "shares", 4).await.is_empty(), "lists, steps and what goes on");
    look(&gateway, "/run_other", "other").send().await.expect(200);
    assert_eq!(costs(&gateway, "other", 1).await, [2.0], "another run is paid for by itself");
}

/// A node may be killed between its claim and its record, as its note is made to say here.
#[tokio::test]
async fn a_run_whose_record_a_killed_node_did_not_write_is_paid_for_by_a_later_look() {
    let gateway = Gateway::start().await;
    let _upstream = assistants_of(&gateway).await;
    let look = async |gateway: &Gateway, trace: &str| {
        let call = gateway.get("/v1/threads/thread_1/runs/run_done").key(WORKSPACE_KEY).provider("@cloud");
        call.header("x-gateway-trace-id", trace).send().await.expect(200);
        metrics_of(gateway, trace).await["cost"].as_f64().unwrap_or(0.0)
    };
    assert_eq!(look(&gateway, "first").await, 2.0);
    let (folder, workspace) = (gateway.folder(), workspace_of(&gateway, "first").await);
    let record = gateway.admin().get("/logs?trace_id=first").await.expect(200).json()["data"][0]["id"].clone();
    note_of_counting(&folder, &workspace, |note| {
        assert_eq!((&note["unsure"]["record"], &note["is_done"]), (&record, &json!(false)), "{note}");
        note["until"] = 0.into();
    })
    .await;
    assert_eq!(look(&gateway, "alive").await, 0.0, "it writes its records itself");
    let gateway = gateway.restart_after_kill(&[]).await;
    assert_eq!(look(&gateway, "written").await, 0.0);
    note_of_counting(&folder, &workspace, |note| {
        assert_eq!(note["is_done"], true, "{note}");
        note["is_done"] = false.into();
        note["unsure"]["record"] = "0195a0aa-0000-7000-8000-000000000001".into();
    })
    .await;
    assert_eq!(look(&gateway, "lost").await, 2.0);
    assert_eq!(look(&gateway, "again").await, 0.0);
}

#[tokio::test]
async fn a_stream_that_tells_the_end_of_a_run_pays_for_it_and_looks_do_not() {
    let gateway = Gateway::start().await;
    let _upstream = assistants_of(&gateway).await;
    let stream = async |path: &str, trace: &str, body: Value| {
        let call = ask(&gateway, &format!("/v1/threads/thread_1/runs{path}"), trace).provider("@cloud");
        let answer = call.json(&body).send().await.expect(200);
        assert!(answer.text().ends_with("event: done\ndata: [DONE]\n\n"), "{}", answer.text());
        metrics_of(&gateway, trace).await["cost"].as_f64().unwrap_or(0.0)
    };
    let look = async |id: &str, trace: &str| {
        let call = gateway.get(&format!("/v1/threads/thread_1/runs/{id}")).key(WORKSPACE_KEY).provider("@cloud");
        call.header("x-gateway-trace-id", trace).send().await.expect(200);
        metrics_of(&gateway, trace).await["cost"].as_f64().unwrap_or(0.0)
    };
    let asked = |id: &str| json!({ "assistant_id": "asst_1", "stream": true, "metadata": { "id": id } });
    assert_eq!(stream("", "streams", asked("run_streamed")).await, 2.0);
    assert_eq!(look("run_streamed", "looks").await, 0.0);
    // One that waits for a tool has told its first step, which the run tells again at its end.
    assert_eq!(stream("", "waits", asked("run_waits")).await, 0.0);
    let outputs = json!({ "tool_outputs": [{ "tool_call_id": "call_1", "output": "sunny" }], "stream": true });
    assert_eq!(stream("/run_waits/submit_tool_outputs", "continues", outputs).await, 2.0);
    assert_eq!(look("run_waits", "looks-again").await, 0.0);
    // Servers may have a clock of their own.
    assert_eq!(stream("", "old", asked("run_old")).await, 2.0);
    assert_eq!(look("run_old", "looks-old").await, 0.0);
    // A run that was asked for by a path that passes untouched is paid for once, too.
    let raw = ask(&gateway, "/v1/proxy/threads/thread_1/runs", "raw").provider("@cloud");
    raw.json(&asked("run_raw")).send().await.expect(200);
    assert_eq!(metrics_of(&gateway, "raw").await["cost"], 2.0);
    assert_eq!(look("run_raw", "looks-raw").await, 0.0);
}
