//! Answers that a provider compressed though nobody asked: read, counted and unpacked on the known routes, within the
//! bounds of any other answer; on pass-through they are the provider's bytes.

use crate::harness::{Gateway, Upstream, eventually, gateway::target, hello, reply, with};
use serde_json::{Value, json};
use std::io::Write;

fn packed(coding: &str, plain: &[u8]) -> Vec<u8> {
    let level = flate2::Compression::best();
    match coding {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(plain).and_then(|()| encoder.finish()).expect("memory")
        }
        "deflate" => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(plain).and_then(|()| encoder.finish()).expect("memory")
        }
        "br" => {
            let mut out = Vec::new();
            brotli::CompressorWriter::new(&mut out, 4096, 9, 22).write_all(plain).expect("memory");
            out
        }
        _ => zstd::encode_all(plain, 19).expect("memory"),
    }
}

/// Answers everything compressed: whole ones, streams where one is asked for, errors for `user: bad`.
async fn upstream(coding: &'static str) -> Upstream {
    Upstream::replying(move |seen| {
        let body = seen.json();
        let (status, media, plain) = match (&body["user"], &body["stream"]) {
            (Value::String(user), _) if user == "bad" => {
                (429, "application/json", json!({ "error": { "message": "slow down" } }).to_string())
            }
            (Value::String(user), _) if user == "bomb" => (200, "application/json", " ".repeat(200 << 20)),
            (_, Value::Bool(true)) => {
                let events = String::from_utf8(reply::stream(&["one ", "two"])).expect("text");
                let events = events.lines().filter(|l| l.starts_with("data: ")).map(|l| format!("{l}\n\n")).collect();
                (200, "text/event-stream", events)
            }
            _ => (200, "application/json", reply::completion("hi").to_string()),
        };
        let headers = [("content-type", media), ("content-encoding", coding)];
        reply::whole(status, &headers, packed(coding, plain.as_bytes()))
    })
    .await
}

#[tokio::test]
async fn known_routes_answer_readable_and_counted() {
    let gateway = Gateway::start().await;
    for coding in ["gzip", "deflate", "br", "zstd"] {
        let upstream = upstream(coding).await;
        let ask = async |more: Value| gateway.chat_through(&upstream).json(&with(hello(), more)).send().await;
        let whole = ask(json!({})).await.expect(200);
        assert_eq!((whole.said().as_str(), whole.header("content-encoding")), ("hi", None), "{coding}");
        let streamed = ask(json!({ "stream": true })).await.expect(200);
        assert_eq!((streamed.said().as_str(), streamed.header("content-encoding")), ("one two", None), "{coding}");
        assert!(streamed.text().ends_with("data: [DONE]\n\n"), "{}", streamed.text());
        let refused = ask(json!({ "user": "bad" })).await.expect(429);
        assert!(refused.error().contains("slow down"), "{}", refused.error());
        let trace = whole.header("x-gateway-trace-id").expect("an id").to_owned();
        let record = eventually("the record", || async {
            let list = gateway.admin().get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
            list["data"].as_array().filter(|l| !l.is_empty()).map(|l| l[0].clone())
        })
        .await;
        assert!(record["metrics"]["total_units"].as_u64().is_some_and(|n| n > 0), "{record}");
        // A translated family's answer is read too: what comes is no message, and is quoted.
        let claude = with(target(&upstream), json!({ "provider": "anthropic" }));
        let answer = gateway.chat().config(&claude).json(&hello()).send().await.expect(502);
        assert!(answer.error().contains("chat.completion"), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_bomb_is_a_502_and_takes_no_room() {
    let gateway = Gateway::with(&["--max-body", "8MiB", "--max-buffered-bytes", "64MiB"]).await;
    for coding in ["gzip", "br", "zstd"] {
        let upstream = upstream(coding).await;
        let before = gateway.memory("VmHWM");
        let answer = gateway.chat_through(&upstream).json(&with(hello(), json!({ "user": "bomb" }))).send().await;
        assert_eq!(answer.status, 502, "{coding}: {}", answer.text());
        assert!(gateway.memory("VmHWM") < before + 64, "{coding}: {} MiB more", gateway.memory("VmHWM") - before);
    }
    let odd = Upstream::replying(|_| {
        let headers = [("content-type", "application/json"), ("content-encoding", "compress")];
        reply::whole(200, &headers, reply::completion("hi").to_string())
    })
    .await;
    gateway.chat_through(&odd).json(&hello()).send().await.expect(502);
    let broken = Upstream::replying(|_| {
        let headers = [("content-type", "application/json"), ("content-encoding", "gzip")];
        reply::whole(200, &headers, "no gzip at all")
    })
    .await;
    let answer = gateway.chat_through(&broken).json(&hello()).send().await.expect(502);
    assert!(answer.error().contains("cannot be unpacked"), "{}", answer.error());
}

#[tokio::test]
async fn pass_through_keeps_the_bytes() {
    let gateway = Gateway::start().await;
    let upstream = upstream("gzip").await;
    let call = gateway.post("/v1/proxy/chat/completions").config(&target(&upstream));
    let answer = call.json(&hello()).send().await.expect(200);
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    assert_eq!(answer.body, packed("gzip", reply::completion("hi").to_string().as_bytes()));
}

/// What a host that the client brings says of tokens is believed as far as it can be true.
#[tokio::test]
async fn a_hosts_own_counts_are_bounded_by_what_passed() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| {
        let usage =
            json!({ "prompt_tokens": 9_000_000_000_000_000_000_u64, "completion_tokens": 5, "total_tokens": 9 });
        reply::json(200, &with(reply::completion("hi"), json!({ "usage": usage })))
    })
    .await;
    let units = async |answer: crate::harness::Answer| {
        let trace = answer.expect(200).header("x-gateway-trace-id").expect("an id").to_owned();
        eventually("the record", || async {
            let list = gateway.admin().get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
            list["data"].as_array()?.first()?["metrics"]["req_units"].as_u64()
        })
        .await
    };
    let told = units(gateway.chat_through(&upstream).json(&hello()).send().await).await;
    assert!((1..2_200_000).contains(&told), "{told}");
    // An admin's host is believed.
    gateway.admin().provider("own", "openai", Some(&upstream.url())).await;
    let told = units(gateway.chat().provider("@own").json(&hello()).send().await).await;
    assert!(told > 2_200_000, "{told}");
}
