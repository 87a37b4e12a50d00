//! Handing over under load: a thousand streams under way and new requests all the time, and none of them is lost, nor
//! is its record.

use crate::harness::{Gateway, Upstream, WORKSPACE_KEY, call::Call, eventually, hello, reply, with};
use crate::realtime::{create, holding, open, records};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;

const STREAMS: usize = 1_000;
/// Who ask all the while, each with a new connection for each request.
const ASKING: usize = 4;

/// Streams `one` at once, and the rest when told.
async fn patient(go: watch::Receiver<bool>) -> Upstream {
    Upstream::scripted(move |mut peer| {
        let mut go = go.clone();
        async move {
            while peer.request().await.is_some() {
                peer.send([reply::STREAM, &reply::role(), &reply::delta("one ")].concat()).await;
                let _ = go.wait_for(|go| *go).await;
                let rest = [reply::delta("two"), reply::finish(), reply::done(), reply::LAST_CHUNK.to_vec()];
                peer.send(rest.concat()).await;
            }
        }
    })
    .await
}

/// Opens a stream, and comes back with what is left of it when its first event is here.
async fn opened(call: Call) -> (reqwest::Response, Vec<u8>) {
    let mut response = call.json(&with(hello(), json!({ "stream": true }))).open().await;
    assert_eq!(response.status(), 200);
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains("one ") {
        text.extend_from_slice(&response.chunk().await.expect("bytes").expect("the first events"));
    }
    (response, text)
}

async fn finished((mut response, mut text): (reqwest::Response, Vec<u8>)) {
    while let Some(more) = response.chunk().await.expect("the stream goes on in the old process") {
        text.extend_from_slice(&more);
    }
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("two") && text.trim_end().ends_with("[DONE]"), "{text}");
}

/// Asks until told to stop: how many were answered, and how long the slowest took.
async fn asking(url: String, stop: Arc<AtomicBool>) -> (usize, Duration) {
    let (mut answered, mut slowest) = (0, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let begun = Instant::now();
        let call = Call::new(&client, "POST", &url).key(WORKSPACE_KEY);
        call.provider("mock").json(&hello()).send().await.expect(200);
        (answered, slowest) = (answered + 1, slowest.max(begun.elapsed()));
    }
    (answered, slowest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_under_a_thousand_streams_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("upgrade.sock").display().to_string();
    let mut old = Gateway::with(&["--upgrade-sock", &socket]).await;
    let (go, told) = watch::channel(false);
    let upstream = patient(told).await;
    let mut opening = JoinSet::new();
    for _ in 0..STREAMS {
        opening.spawn(opened(old.chat_through(&upstream)));
    }
    let open = opening.join_all().await;
    assert_eq!(open.len(), STREAMS);

    let (stop, mut load) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
    for _ in 0..ASKING {
        load.spawn(asking(old.url("/v1/chat/completions"), stop.clone()));
    }
    let begun = Instant::now();
    let mut new = old.succeed(&["--upgrade", "--upgrade-sock", &socket]);
    old.process.signal("QUIT");
    new.ready_as_successor(&old).await;
    let took_over = begun.elapsed();
    assert!(old.process.exited().is_none(), "the old process left its streams behind");
    // The new one serves streams of its own before the old one's have ended.
    let mut late = JoinSet::new();
    for _ in 0..100 {
        late.spawn(opened(new.chat_through(&upstream)));
    }
    let late = late.join_all().await;
    let _ = go.send(true);
    let mut ending = JoinSet::new();
    let all = open.len() + late.len();
    open.into_iter().chain(late).for_each(|stream| drop(ending.spawn(finished(stream))));
    assert_eq!(ending.join_all().await.len(), all);
    let status = old.process.exit(Duration::from_secs(30)).await;
    assert!(status.success(), "{status}");
    stop.store(true, Ordering::Relaxed);
    let asked = load.join_all().await;
    let answered: usize = asked.iter().map(|(answered, _)| answered).sum();
    let slowest = asked.iter().map(|(_, slowest)| *slowest).max().unwrap_or_default();
    println!(
        "{STREAMS} streams handed past an upgrade, {answered} requests answered meanwhile, the slowest in {slowest:?}; \
         the new process was ready after {took_over:?}"
    );
    assert!(answered > 10, "only {answered} requests fell into the upgrade");
    eventually("every record", || async {
        let told = new.admin().get("/logs?page_size=1").await.expect(200).json();
        (told["total"] == all + answered).then_some(())
    })
    .await;
}

/// A socket cannot be handed over: who is silent is told to come again, who waits for an answer gets it first, and both
/// come to the new process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn realtime_sessions_end_well_in_an_upgrade_and_open_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("upgrade.sock").display().to_string();
    let mut old = Gateway::with(&["--upgrade-sock", &socket]).await;
    let (provider, _, _go) = holding().await;
    let (busy_provider, _, busy_go) = holding().await;
    let mut quiet = open(&old, &provider, WORKSPACE_KEY, "quiet").await;
    quiet.event("session.created").await;
    let mut busy = open(&old, &busy_provider, WORKSPACE_KEY, "busy").await;
    busy.say(&create()).await;
    busy.event("response.created").await;
    let mut new = old.succeed(&["--upgrade", "--upgrade-sock", &socket]);
    old.process.signal("QUIT");
    new.ready_as_successor(&old).await;
    assert_eq!(quiet.end().await.code(), Some(1001), "going away: the client opens another");
    assert!(old.process.exited().is_none(), "the old process left a response behind");
    let mut again = open(&new, &provider, WORKSPACE_KEY, "again").await;
    again.event("session.created").await;
    busy_go.send_replace(1);
    busy.event("response.done").await;
    assert_eq!(busy.end().await.code(), Some(1001));
    drop((quiet, busy));
    let status = old.process.exit(Duration::from_secs(30)).await;
    assert!(status.success(), "{status}");
    let (session, parts) = records(&new, "busy", 2).await;
    assert_eq!((&session["realtime"]["ended"], parts.len()), (&json!("draining"), 1), "{session}");
    assert_eq!(parts[0]["realtime"]["status"], "completed");
    again.say(&create()).await;
    again.event("response.created").await;
}
