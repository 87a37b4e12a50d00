//! Frames of realtime sessions: what is none, or no event, does not pass; pings are answered, large messages come
//! whole, and nothing is held for a client that does not read.

use crate::harness::{Gateway, LiveProvider, Said, WORKSPACE_KEY, eventually};
use crate::realtime::{answering, create, open, records};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn what_is_no_frame_or_no_event_does_not_pass() {
    let gateway = Gateway::start().await;
    let (provider, heard) = answering(4).await;
    let mask = [1, 2, 3, 4];
    let masked = |bytes: &[u8]| bytes.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]).collect::<Vec<u8>>();
    let frame = |first: u8, payload: &[u8]| {
        let length = u8::try_from(payload.len()).expect("short");
        [&[first, 0x80 | length][..], &mask, &masked(payload)].concat()
    };
    for (what, bytes, code) in [
        ("unmasked", vec![0x81, 2, b'{', b'}'], 1002),
        ("a reserved bit", frame(0xc1, b"{}"), 1002),
        ("of no known kind", frame(0x83, b"{}"), 1002),
        ("binary", frame(0x82, b"{}"), 1003),
        ("no UTF-8", frame(0x81, &[0xff, 0xfe]), 1007),
        ("huge", [&[0x81, 0xff][..], &(17_u64 << 20).to_be_bytes(), &mask].concat(), 1009),
        ("goes on with nothing", frame(0x80, b"{}"), 1002),
        ("half a code", frame(0x88, &[3]), 1002),
    ] {
        let mut client = open(&gateway, &provider, WORKSPACE_KEY, "foreign").await;
        client.event("session.created").await;
        client.bytes().write_all(&bytes).await.expect("the gateway reads");
        assert_eq!(client.end().await.code(), Some(code), "{what}");
    }
    assert!(heard.kinds().iter().all(String::is_empty), "nothing went up but ends: {:?}", heard.all());
    // What is no event is told of, and the session goes on.
    let mut client = open(&gateway, &provider, WORKSPACE_KEY, "goes-on").await;
    for text in ["", "{", "[]", r#"{"type":"x","type":"response.create"}"#] {
        client.send(Message::text(text)).await;
        let error = client.event("error").await;
        assert_eq!(error["error"]["code"], "invalid_event", "{text}");
    }
    client.send(Message::text(r#"{"type":"session.update","event_id":"mine","session":{"model":5}}"#)).await;
    let error = client.event("error").await["error"].clone();
    let told = (&error["code"], &error["event_id"], &error["message"]);
    let message = json!("`session.model` of an event must be a string");
    assert_eq!(told, (&json!("invalid_event"), &json!("mine"), &message));
    // A message in pieces with a ping among them is one message.
    let text = create().to_string();
    let (one, two) = text.as_bytes().split_at(9);
    let pieces = [frame(0x01, one), frame(0x89, b"ping"), frame(0x80, two)].concat();
    client.bytes().write_all(&pieces).await.expect("the gateway reads");
    client.event("response.done").await;
    assert_eq!(heard.kinds().last().map(String::as_str), Some("response.create"));
    client.close(1000, "").await;
}

#[tokio::test]
async fn pings_are_answered_by_the_other_side() {
    let gateway = Gateway::start().await;
    let (provider, _) = answering(4).await;
    let mut client = open(&gateway, &provider, WORKSPACE_KEY, "ping").await;
    client.event("session.created").await;
    client.send(Message::Ping(b"there?".to_vec().into())).await;
    assert_eq!(client.next().await, Said::Pong(b"there?".to_vec()));
    client.close(1000, "").await;
}

#[tokio::test]
async fn large_messages_pass_whole_and_a_client_that_does_not_read_is_let_go() {
    let gateway = Gateway::with(&["--idle-timeout", "1s"]).await;
    let provider = LiveProvider::scripted(|mut socket| async move {
        let asked = socket.event("input_audio_buffer.append").await;
        let sound = asked["audio"].as_str().expect("sound").to_owned();
        socket.say(&json!({ "type": "response.output_audio.delta", "response_id": "r", "delta": sound })).await;
        // More than all buffers between here and there.
        while socket.say(&json!({ "type": "response.output_audio.delta", "response_id": "r", "delta": sound })).await {}
    })
    .await;
    let mut client = open(&gateway, &provider, WORKSPACE_KEY, "slow").await;
    let sound = "A".repeat(3 << 20);
    client.say(&json!({ "type": "input_audio_buffer.append", "audio": sound })).await;
    let back = client.next().await.event();
    assert_eq!(back["delta"].as_str().map(str::len), Some(3 << 20));
    let (session, _) = records(&gateway, "slow", 1).await;
    assert_eq!(session["realtime"]["ended"], "client_gone", "{session}");
    eventually("nothing is held", || async {
        gateway.metrics().await.contains("gateway_buffered_bytes 0").then_some(())
    })
    .await;
    drop(client);
}
