//! Records in ClickHouse, through the real program: found and summed as elsewhere, none lost and none twice whatever
//! goes away or is killed, and moved there from files and back.

use crate::harness::{Gateway, eventually, hello, process::program};
use crate::journal::{blocking, metric, stored, stored_come_to};
use gateway_testing::ClickHouse;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;

async fn server() -> (ClickHouse, String) {
    blocking(|| {
        let server = ClickHouse::start();
        let url = server.create("records");
        (server, url)
    })
    .await
}

async fn change(mut server: ClickHouse, how: impl FnOnce(&mut ClickHouse) + Send + 'static) -> ClickHouse {
    blocking(move || {
        how(&mut server);
        server
    })
    .await
}

async fn ask(gateway: &Gateway, name: &str, times: usize) {
    for n in 0..times {
        let call = gateway.chat().provider("mock").header("x-gateway-trace-id", &format!("{name}-{n}"));
        call.header("x-gateway-metadata", r#"{"_user":"ann"}"#).json(&hello()).send().await.expect(200);
    }
}

async fn analysed(gateway: &Gateway, path: &str) -> Value {
    let range = "time_of_generation_min=2025-01-01&time_of_generation_max=2034-01-01";
    gateway.admin().get(&format!("/analytics/{path}?{range}")).await.expect(200).json()
}

/// Each call stands once in the list, and sums are those of the list.
async fn agrees(gateway: &Gateway, calls: u64) {
    stored_come_to(gateway, calls).await;
    let list = gateway.admin().get("/logs?page_size=1000").await.expect(200).json();
    let rows = list["data"].as_array().expect("rows");
    let mut traces: Vec<&str> = rows.iter().filter_map(|row| row["trace_id"].as_str()).collect();
    traces.sort_unstable();
    traces.dedup();
    assert_eq!(traces.len() as u64, calls, "each once");
    assert_eq!(analysed(gateway, "graphs/requests").await["summary"]["total"], calls);
    let tokens: u64 = rows.iter().filter_map(|row| row["metrics"]["total_units"].as_u64()).sum();
    assert_eq!(analysed(gateway, "graphs/tokens").await["summary"]["total"], tokens);
    assert_eq!(analysed(gateway, "groups/users").await["data"][0]["user"], "ann");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_are_found_and_summed_and_survive_kills_and_outages() {
    let (server, url) = server().await;
    let flags = ["--log-store-url", &*url, "--log-bodies", "all"];
    let gateway = Gateway::with(&flags).await;
    ask(&gateway, "first", 7).await;
    agrees(&gateway, 7).await;
    assert!(!gateway.folder().join("data/logs").exists(), "the configuration is in a file, records are not");
    let list = gateway.admin().get("/logs?trace_id=first-3").await.expect(200).json();
    assert_eq!(list["total"], 1);
    let id = list["data"][0]["id"].as_str().expect("an id").to_owned();
    let one = gateway.admin().get(&format!("/logs/{id}")).await.expect(200).json();
    assert!(one["request"]["body"]["messages"].is_array(), "{one}");

    // Away: calls go on, and their records wait, also for the process after a kill.
    let server = change(server, ClickHouse::stop).await;
    ask(&gateway, "away", 9).await;
    assert_eq!(stored(&gateway).await, None);
    eventually("records that wait", || async {
        (metric(&gateway, "gateway_journal_records").await == 9.0).then_some(())
    })
    .await;
    let gateway = gateway.restart_after_kill(&flags).await;
    ask(&gateway, "killed", 4).await;
    let server = change(server, ClickHouse::resume).await;
    agrees(&gateway, 20).await;
    assert_eq!(metric(&gateway, "gateway_records_dropped_total").await, 0.0);

    // Killed while it writes: what the journal has is there, once, whether the store had confirmed it or not.
    let before = gateway.journal_bytes();
    ask(&gateway, "written", 5).await;
    eventually("records on disk", || async { (gateway.journal_bytes() > before).then_some(()) }).await;
    let gateway = gateway.restart_after_kill(&flags).await;
    ask(&gateway, "last", 1).await;
    eventually("the last record", || async {
        let list = gateway.admin().get("/logs?trace_id=last-0").await;
        (list.status == 200 && list.json()["total"] == 1).then_some(())
    })
    .await;
    let there = stored(&gateway).await.expect("a list");
    assert!((21..=26).contains(&there), "{there}");
    agrees(&gateway, there).await;
    drop(server);
}

/// The command, with what it prints.
async fn moved(data: &Path, to: &str, from: &str) -> String {
    let mut command = program();
    let data = data.display().to_string();
    command.args(["move", "records", "--data-dir", &data, "--log-store-url", to, "--from", from]);
    let output = blocking(move || command.output().expect("it runs")).await;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(!format!("{out}{err}").contains("test-password"), "{err}");
    out.into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_move_there_and_back() {
    let (server, url) = server().await;
    let gateway = Gateway::with(&["--log-bodies", "all"]).await;
    ask(&gateway, "moved", 12).await;
    stored_come_to(&gateway, 12).await;
    let data = gateway.folder().join("data");
    let files = format!("sqlite:{}", data.join("logs").display());
    let back = format!("sqlite:{}", data.join("back").display());

    // Killed at some moment, and asked for again.
    let mut command = program();
    command.args(["move", "records", "--data-dir", &data.display().to_string(), "--log-store-url", &url]);
    command.args(["--from", &files]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    eventually("tables", || {
        let asked = server.ask("records", "SELECT count() FROM system.tables WHERE database = 'records'");
        async move { (asked.trim() != "0").then_some(()) }
    })
    .await;
    child.kill().expect("it is killed");
    child.wait().expect("it ended");
    let told = moved(&data, &url, &files).await;
    assert!(told.contains("the first store has 12 records") && told.contains("the second 12 at"), "{told}");
    let told = moved(&data, &url, &files).await;
    assert!(told.contains(" 0 records written"), "{told}");
    let told = moved(&data, &back, &url).await;
    assert!(told.contains("12 records written"), "{told}");

    let seen = async |gateway: &Gateway| {
        let list = gateway.admin().get("/logs?page_size=100").await.expect(200).json();
        let id = list["data"][0]["id"].as_str().expect("an id").to_owned();
        let one = gateway.admin().get(&format!("/logs/{id}")).await.expect(200).json();
        json!([list, one, analysed(gateway, "graphs/cost").await["summary"], analysed(gateway, "groups/model").await])
    };
    let want = seen(&gateway).await;
    let gateway = gateway.restart_with(&["--log-store-url", &url]).await;
    assert_eq!(seen(&gateway).await, want, "in ClickHouse");
    let gateway = gateway.restart_with(&["--log-store-url", &back]).await;
    assert_eq!(seen(&gateway).await, want, "in files again");
    let mut command = program();
    command.args(["move", "records", "--data-dir", &data.display().to_string(), "--from", &files]);
    let refused = blocking(move || command.output().expect("it runs")).await;
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("--from"), "{refused:?}");
}
