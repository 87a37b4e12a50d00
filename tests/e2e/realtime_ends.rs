//! How realtime sessions end: by either side, by silence and age, with their key, with the process; each is told both
//! ways and stands in the record.

use crate::harness::{Gateway, LiveProvider, Said, WORKSPACE_KEY, eventually};
use crate::realtime::{Heard, answering, create, created, holding, open, records};
use serde_json::json;

#[tokio::test]
async fn ends_are_told_both_ways() {
    let gateway = Gateway::start().await;
    let heard = Heard::default();
    let noted = heard.clone();
    let provider = LiveProvider::scripted(move |mut socket| {
        let heard = noted.clone();
        async move {
            socket.say(&created()).await;
            match socket.next().await {
                Said::Event(event) if event["type"] == "end" => {
                    socket.close(4002, "enough").await;
                    heard.note(&json!({ "closed": socket.end().await.code() }));
                }
                Said::Event(event) if event["type"] == "die" => drop(socket),
                Said::Close(told) => heard.note(&json!({ "closed": told })),
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
    let mut client = open(&gateway, &provider, WORKSPACE_KEY, "client-ends").await;
    client.event("session.created").await;
    client.close(4001, "over").await;
    assert_eq!(client.end().await.code(), Some(4001), "its own word comes back");
    eventually("the code comes up", || async { (heard.all() == [json!({ "closed": [4001, "over"] })]).then_some(()) })
        .await;
    let mut client = open(&gateway, &provider, WORKSPACE_KEY, "provider-ends").await;
    client.say(&json!({ "type": "end" })).await;
    assert_eq!(client.end().await, Said::Close(Some((4002, "enough".to_owned()))));
    let mut client = open(&gateway, &provider, WORKSPACE_KEY, "provider-dies").await;
    client.say(&json!({ "type": "die" })).await;
    assert_eq!(client.end().await.code(), Some(1011));
    for (trace, ended, by, code) in [
        ("client-ends", "client", "client", 4001),
        ("provider-ends", "provider", "provider", 4002),
        ("provider-dies", "provider_gone", "provider", 1011),
    ] {
        let (session, _) = records(&gateway, trace, 1).await;
        let note = &session["realtime"];
        assert_eq!(
            (&note["ended"], &note["closed_by"], &note["close_code"]),
            (&json!(ended), &json!(by), &json!(code))
        );
    }
}

#[tokio::test]
async fn a_client_that_vanishes_pays_for_what_was_said_until_then() {
    let gateway = Gateway::start().await;
    let (provider, heard, _go) = holding().await;
    let mut client = open(&gateway, &provider, WORKSPACE_KEY, "vanished").await;
    client.say(&create()).await;
    client.event("response.output_text.delta").await;
    drop(client);
    eventually("the provider hears of it", || async { (heard.all().last()?["gone"] == true).then_some(()) }).await;
    assert_eq!(heard.all()[1]["closed"], 1001, "{:?}", heard.all());
    let (session, parts) = records(&gateway, "vanished", 2).await;
    assert_eq!((&session["fault"], &session["realtime"]["ended"]), (&json!("client_gone"), &json!("client_gone")));
    let part = &parts[0];
    assert_eq!(part["realtime"]["status"], "cut", "{part}");
    assert_eq!(part["metrics"]["res_units"], 25, "a token for four of its hundred characters: {part}");
}

#[tokio::test]
async fn silence_and_age_end_a_session() {
    let (provider, _) = answering(4).await;
    for (flag, ended) in [("--realtime-idle", "idle"), ("--realtime-max-time", "too_long")] {
        let gateway = Gateway::with(&[flag, "1s"]).await;
        let mut client = open(&gateway, &provider, WORKSPACE_KEY, ended).await;
        assert_eq!(client.end().await.code(), Some(1001), "{flag}");
        let (session, _) = records(&gateway, ended, 1).await;
        assert_eq!((&session["realtime"]["ended"], &session["realtime"]["close_code"]), (&json!(ended), &json!(1001)));
    }
}

#[tokio::test]
async fn a_key_that_is_taken_away_ends_its_sessions() {
    let gateway = Gateway::start().await;
    let (provider, _) = answering(4).await;
    let (id, key) = gateway.admin().workspace_key("gone", json!({})).await;
    let mut client = open(&gateway, &provider, &key, "revoked").await;
    client.event("session.created").await;
    gateway.admin().delete(&format!("/api-keys/{id}")).await.expect(200);
    assert_eq!(client.end().await.code(), Some(1008));
    let (session, _) = records(&gateway, "revoked", 1).await;
    assert_eq!(session["realtime"]["ended"], "revoked");
}

#[tokio::test]
async fn a_process_that_leaves_ends_quiet_sessions_and_waits_for_responses() {
    let mut gateway = Gateway::start().await;
    let (provider, _, go) = holding().await;
    let mut quiet = open(&gateway, &provider, WORKSPACE_KEY, "quiet").await;
    quiet.event("session.created").await;
    let (busy_provider, _, busy_go) = holding().await;
    let mut busy = open(&gateway, &busy_provider, WORKSPACE_KEY, "busy").await;
    busy.say(&create()).await;
    busy.event("response.created").await;
    gateway.process.signal("TERM");
    assert_eq!(quiet.end().await.code(), Some(1001));
    busy_go.send_replace(1);
    busy.event("response.done").await;
    assert_eq!(busy.end().await.code(), Some(1001));
    drop((quiet, busy, go));
    assert!(gateway.process.exit(std::time::Duration::from_secs(30)).await.success());
}
