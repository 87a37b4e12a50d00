//! Calls over WebRTC and SIP whose node is killed, leaves or stands still: another goes on with them, or the same one
//! when it is back, and nothing that is said in them counts twice.

use crate::area_forms::FORM;
use crate::cluster::database;
use crate::harness::{Answer, Gateway, WORKSPACE_KEY, eventually, eventually_within, stand_at_noon};
use crate::realtime::records;
use crate::realtime_calls::{CallHouse, asking, call, house, limited, parts, used, watched};
use gateway_testing::Postgres;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Time for a lease to end, and for another node to look.
const TAKEN: Duration = Duration::from_secs(40);
/// Stands in no record, and so in no row but that of the call.
const PRIVATE: &str = "a-note-that-nobody-may-read";

/// Two nodes on one database, of which each knows the other.
struct TwoNodes {
    one: Gateway,
    two: Gateway,
    house: CallHouse,
    _postgres: Arc<Postgres>,
}

impl TwoNodes {
    async fn start(name: &'static str) -> Self {
        let (_postgres, url) = database(name).await;
        let one = Gateway::with(&["--database-url", &url]).await;
        let key = one.folder().join("data/master.key").display().to_string();
        let two = Gateway::with(&["--database-url", &url, "--master-key-file", &key]).await;
        let house = CallHouse::open(true).await;
        for provider in ["main", "spare"] {
            one.admin().provider(provider, "openai", Some(&house.upstream.url())).await;
        }
        for node in [&one, &two] {
            let both = || async { node.metrics().await.contains("gateway_nodes 2\n").then_some(()) };
            eventually_within(TAKEN, "both nodes", both).await;
        }
        Self { one, two, house, _postgres }
    }

    async fn kill_one(&mut self) {
        self.one.process.signal("KILL");
        self.one.process.exit(Duration::from_secs(20)).await;
    }

    async fn taken(&self) {
        sockets(&self.house, 2).await;
        watched(&self.two, 1).await;
    }
}

/// So many sockets were opened beside the call.
async fn sockets(house: &CallHouse, count: usize) {
    let opened = || async { (house.asked("/v1/realtime") == count).then_some(()) };
    eventually_within(TAKEN, &format!("{count} sockets beside the call"), opened).await;
}

/// All that was said of sessions in this trace.
async fn sessions(gateway: &Gateway, trace: &str, count: usize) -> Vec<Value> {
    let admin = gateway.admin();
    eventually(&format!("{count} sessions of {trace}"), || async {
        let list = admin.get(&format!("/logs?trace_id={trace}&page_size=50")).await.expect(200).json();
        let mut found = Vec::new();
        for row in list["data"].as_array().expect("rows") {
            let id = row["id"].as_str().expect("an id");
            let record = admin.get(&format!("/logs/{id}")).await.expect(200).json();
            if !record["realtime"]["totals"].is_null() {
                found.push(record["realtime"].clone());
            }
        }
        (found.len() == count).then_some(found)
    })
    .await
}

fn ended(id: &str, tokens: u64) -> Value {
    let usage = json!({ "total_tokens": tokens, "input_tokens": tokens / 2, "output_tokens": tokens - tokens / 2 });
    json!({ "type": "response.done", "response": { "id": id, "status": "completed", "usage": usage } })
}

fn holds(folder: &Path, text: &str) -> bool {
    let entries = std::fs::read_dir(folder).expect("a folder").filter_map(Result::ok);
    let holds_text = |bytes: Vec<u8>| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    entries.map(|entry| entry.path()).any(|path| match path.is_dir() {
        true => holds(&path, text),
        false => std::fs::read(&path).is_ok_and(holds_text),
    })
}

/// Asks for a call by a config that leads to two providers.
async fn call_by(gateway: &Gateway, key: &str, (config, trace): (&str, &str)) -> Answer {
    let session = json!({ "type": "realtime", "model": "gpt-realtime" });
    let asked = gateway.post("/v1/realtime/calls").key(key).header("x-gateway-config", config);
    asked.header("x-gateway-trace-id", trace).body(FORM, parts(&session)).send().await
}

#[tokio::test]
async fn a_node_that_was_killed_goes_on_with_its_calls() {
    let (gateway, house) = house().await;
    let (id, key) = limited(&gateway, 10_000).await;
    let session = json!({ "type": "realtime", "model": "@main/gpt-realtime" });
    let asked = asking(&gateway, &key, "killed").header("x-private", PRIVATE).body(FORM, parts(&session));
    asked.send().await.expect(201);
    house.respond("resp_1", 30);
    used(&gateway, &id, 30).await;
    house.send_event(json!({ "type": "response.created", "response": { "id": "resp_2" } }));
    // It is claimed by the time that the next one is counted.
    house.respond("resp_3", 5);
    used(&gateway, &id, 35).await;
    let written = || async {
        let list = gateway.admin().get("/logs?trace_id=killed&page_size=5").await.expect(200).json();
        (list["data"].as_array().map(Vec::len) == Some(3)).then_some(())
    };
    eventually("the records so far", written).await;
    assert!(!holds(&gateway.folder().join("data"), PRIVATE), "rows of calls are sealed");
    let gateway = gateway.restart_after_kill(&[]).await;
    sockets(&house, 2).await;
    watched(&gateway, 1).await;
    assert!(gateway.metrics().await.contains("gateway_realtime_calls_taken_total{outcome=\"watched\"} 1\n"));
    // Begun before, ended afterwards: whoever would have counted it is dead.
    house.send_event(ended("resp_2", 12));
    house.respond("resp_4", 8);
    used(&gateway, &id, 55).await;
    house.send_event(Value::Null);
    watched(&gateway, 0).await;
    let session = sessions(&gateway, "killed", 1).await.remove(0);
    assert_eq!((&session["ended"], &session["call_id"]), (&json!("provider"), &json!("rtc_1")), "{session}");
    assert_eq!(session["totals"]["responses"], 2, "{session}");
    assert_eq!(house.asked("/v1/realtime/calls/rtc_1/hangup"), 0);
}

#[tokio::test]
async fn a_call_that_ended_while_nobody_watched_has_its_record() {
    let (gateway, house) = house().await;
    call(&gateway, WORKSPACE_KEY, "over").await.expect(201);
    watched(&gateway, 1).await;
    let written = || async {
        let list = gateway.admin().get("/logs?trace_id=over").await.expect(200).json();
        (list["data"].as_array().map(Vec::len) == Some(1)).then_some(())
    };
    eventually("the record of the call", written).await;
    house.listens.store(false, SeqCst);
    let gateway = gateway.restart_after_kill(&[]).await;
    let found = || async {
        let metrics = gateway.metrics().await;
        metrics.contains("gateway_realtime_calls_taken_total{outcome=\"ended\"} 1\n").then_some(())
    };
    eventually_within(TAKEN, "it is found to be over", found).await;
    let (session, _) = records(&gateway, "over", 2).await;
    assert_eq!((&session["realtime"]["ended"], &session["realtime"]["call_id"]), (&json!("provider"), &json!("rtc_1")));
    assert_eq!(session["realtime"]["totals"]["responses"], 0, "{session}");
    assert_eq!(house.asked("/v1/realtime/calls/rtc_1/hangup"), 0, "it was over");
    watched(&gateway, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_counts_and_hangs_up_where_one_was_killed() {
    stand_at_noon();
    let mut nodes = TwoNodes::start("call_killed").await;
    let (id, key) = limited(&nodes.one, 100).await;
    let both =
        json!({ "strategy": { "mode": "fallback" }, "targets": [{ "provider": "@main" }, { "provider": "@spare" }] });
    let config = nodes.one.admin().config("both", &both).await;
    call_by(&nodes.one, &key, (&config, "killed")).await.expect(201);
    nodes.house.respond("resp_1", 30);
    used(&nodes.one, &id, 30).await;
    nodes.kill_one().await;
    // The call has the config that it began with, whatever becomes of that.
    let other = json!({ "config": { "provider": "@spare" } });
    nodes.two.admin().put(&format!("/configs/{config}"), &other).await.expect(200);
    nodes.taken().await;
    nodes.house.respond("resp_2", 20);
    used(&nodes.two, &id, 50).await;
    assert_eq!(nodes.house.asked("/v1/realtime/calls/rtc_1/hangup"), 0, "there is something left");
    nodes.house.respond("resp_3", 60);
    nodes.house.hung_up().await;
    let session = sessions(&nodes.two, "killed", 1).await.remove(0);
    assert_eq!(session["ended"], "budget_exhausted", "{session}");
    watched(&nodes.two, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_key_went_with_its_node_is_hung_up() {
    let mut nodes = TwoNodes::start("call_revoked").await;
    let (id, key) = limited(&nodes.one, 10_000).await;
    call(&nodes.one, &key, "revoked").await.expect(201);
    watched(&nodes.one, 1).await;
    nodes.kill_one().await;
    nodes.two.admin().delete(&format!("/api-keys/{id}")).await.expect(200);
    let hung_up = || async { (nodes.house.asked("/v1/realtime/calls/rtc_1/hangup") == 1).then_some(()) };
    eventually_within(TAKEN, "it is hung up", hung_up).await;
    let session = sessions(&nodes.two, "revoked", 1).await.remove(0);
    assert_eq!(session["ended"], "revoked", "{session}");
    assert_eq!(nodes.house.asked("/v1/realtime"), 1, "nobody listened again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_leaves_hands_its_calls_over() {
    let mut nodes = TwoNodes::start("call_handed").await;
    let (id, key) = limited(&nodes.one, 10_000).await;
    call(&nodes.one, &key, "handed").await.expect(201);
    nodes.house.respond("resp_1", 30);
    used(&nodes.one, &id, 30).await;
    nodes.one.process.signal("TERM");
    assert!(nodes.one.process.exit(Duration::from_secs(30)).await.success());
    nodes.taken().await;
    nodes.house.respond("resp_2", 20);
    used(&nodes.two, &id, 50).await;
    nodes.house.send_event(Value::Null);
    let told = sessions(&nodes.two, "handed", 2).await;
    let ends: Vec<&Value> = told.iter().map(|session| &session["ended"]).collect();
    assert!(ends.contains(&&json!("handed_over")) && ends.contains(&&json!("provider")), "{ends:?}");
    assert_eq!(nodes.house.asked("/v1/realtime/calls/rtc_1/hangup"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_two_nodes_hear_counts_once() {
    let nodes = TwoNodes::start("call_paused").await;
    let (id, key) = limited(&nodes.one, 10_000).await;
    call(&nodes.one, &key, "paused").await.expect(201);
    nodes.house.respond("resp_1", 30);
    used(&nodes.one, &id, 30).await;
    // It stands still for longer than its lease, and hears the rest when it goes on.
    nodes.one.process.signal("STOP");
    nodes.taken().await;
    for n in 2..6 {
        nodes.house.respond(&format!("resp_{n}"), 10);
    }
    nodes.one.process.signal("CONT");
    used(&nodes.two, &id, 70).await;
    watched(&nodes.one, 0).await;
    nodes.house.respond("resp_6", 5);
    used(&nodes.two, &id, 75).await;
    let told = sessions(&nodes.two, "paused", 1).await.remove(0);
    assert_eq!(told["ended"], "handed_over", "{told}");
    assert_eq!(nodes.house.asked("/v1/realtime/calls/rtc_1/hangup"), 0, "the other goes on with it");
}
