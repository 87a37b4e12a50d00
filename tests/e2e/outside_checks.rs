//! Checks that ask outside while an answer streams: in windows, held and behind it; slow, dead, lying and huge
//! services; calls of tools; partners over TLS.

use crate::guarded_streams::{asks, guarded, is_done, says};
use crate::harness::{Answer, Gateway, Upstream, gateway::target, hello, reply, with};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

async fn ask(gateway: &Gateway, upstream: &Upstream, check: Value) -> Answer {
    gateway.chat().config(&guarded(upstream, json!([check]))).json(&asks()).send().await
}

/// A webhook that says of itself that it judges parts.
fn webhook(url: &str, more: Value) -> Value {
    let parameters = with(json!({ "webhookURL": url, "streams": true, "timeout": 5_000 }), more);
    let stream = json!({ "mode": "window", "window": 20, "overlap": 8, "max_wait_ms": 50 });
    json!({ "default.webhook": parameters, "deny": true, "stream": stream })
}

/// Passes what does not hold the word, after some time.
async fn judge(word: &'static str, pause: u64) -> Upstream {
    Upstream::scripted(move |mut peer| async move {
        while let Some(seen) = peer.request().await {
            peer.pause(pause).await;
            let verdict = !seen.text().contains(word);
            if !peer.send(reply::json(200, &json!({ "verdict": verdict }))).await {
                return;
            }
        }
    })
    .await
}

fn words(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("word{n} ")).collect()
}

#[tokio::test]
async fn windows_are_judged_outside_in_their_order_and_all_of_the_text_arrives() {
    let gateway = Gateway::start().await;
    let texts = words(40);
    let pieces: Vec<&str> = texts.iter().map(String::as_str).collect();
    let upstream = says(&pieces).await;
    let service = judge("nothing of it", 20).await;
    let answer = ask(&gateway, &upstream, webhook(&service.url(), json!({}))).await.expect(200);
    assert_eq!((answer.said(), is_done(&answer)), (texts.concat(), true));
    let asked = service.seen();
    assert!(asked.len() > 1, "one window would be the whole");
    let text = |seen: &crate::harness::Seen| seen.json()["response"]["text"].as_str().expect("a text").to_owned();
    // Each window begins with the end of the one before it.
    for pair in asked.windows(2) {
        let (before, after) = (text(&pair[0]), text(&pair[1]));
        let overlap: String = before.chars().rev().take(8).collect::<Vec<_>>().into_iter().rev().collect();
        assert!(after.starts_with(&overlap), "{before} / {after}");
    }
    let payload = asked[0].json();
    assert_eq!(
        (&payload["eventType"], &payload["request"]["isStreamingRequest"]),
        (&json!("afterRequestHook"), &json!(true))
    );
}

#[tokio::test]
async fn nothing_of_a_window_that_is_refused_leaves() {
    let gateway = Gateway::start().await;
    let service = judge("secret", 10).await;
    let check = || webhook(&service.url(), json!({}));
    let at_once = says(&["a secret at once"]).await;
    ask(&gateway, &at_once, check()).await.expect(446);
    for word in [&["a secret is told"][..], &["a sec", "ret is told"]] {
        let mut texts = words(12);
        texts.extend(word.iter().map(|piece| (*piece).to_owned()));
        texts.extend(words(12));
        let pieces: Vec<&str> = texts.iter().map(String::as_str).collect();
        let upstream = says(&pieces).await;
        let answer = ask(&gateway, &upstream, check()).await;
        let said = if answer.status == 200 { answer.said() } else { String::new() };
        assert!(words(12).concat().starts_with(&said), "{said}");
        assert!(!answer.text().contains("secret") && !answer.text().contains("ret is"), "{}", answer.text());
        assert!(answer.text().contains("hooks_failed") && !is_done(&answer), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_service_slower_than_the_stream_holds_it_up_within_bounds() {
    let gateway = Gateway::start().await;
    let text = "0123456789abcdef".repeat(4 << 10);
    let pieces: Vec<&str> = text.as_bytes().chunks(1 << 10).map(|c| std::str::from_utf8(c).expect("ASCII")).collect();
    // Half a megabyte: several times what waits in memory.
    let all: Vec<&str> = std::iter::repeat_n(&pieces[..], 8).flatten().copied().collect();
    let upstream = says(&all).await;
    let service = judge("nothing of it", 40).await;
    let before = gateway.memory("VmRSS");
    let answer = ask(&gateway, &upstream, webhook(&service.url(), json!({}))).await.expect(200);
    assert_eq!(answer.said().len(), text.len() * 8);
    assert!(is_done(&answer));
    assert!(service.seen().len() > 2);
    assert!(gateway.memory("VmHWM").saturating_sub(before) < 64 << 20, "what waits is bounded");
    let largest = service.seen().iter().map(|seen| seen.body.len()).max().expect("some");
    assert!(largest < 256 << 10, "no window is larger than what may wait: {largest}");
}

/// Replies that are no verdict, with what the result calls each, and whether it fails the check by itself.
fn lies() -> Vec<(&'static str, Vec<u8>, Option<&'static str>)> {
    let typed = |kind: &str, body: &str| reply::whole(200, &[("content-type", kind)], body);
    vec![
        ("a page", typed("text/html", "<html>ok</html>"), Some("InvalidReply")),
        ("nothing", typed("application/json", ""), Some("InvalidReply")),
        ("half", typed("application/json", "{\"verdict\":tr"), Some("InvalidReply")),
        ("an empty object", typed("application/json", "{}"), None),
        ("a text", typed("application/json", "{\"verdict\":\"true\"}"), None),
        ("a number", typed("application/json", "{\"verdict\":1}"), None),
        ("a list", typed("application/json", "[true]"), None),
        ("a failure", reply::json(500, &json!({ "verdict": true })), Some("HttpError")),
        (
            "a huge one",
            reply::whole(200, &[("content-type", "application/json")], vec![b' '; 9 << 20]),
            Some("ReplyTooLong"),
        ),
    ]
}

#[tokio::test]
async fn services_that_lie_or_fail_are_errors_on_every_kind_of_answer() {
    let gateway = Gateway::start().await;
    let streamed = says(&["fine ", "and ", "well"]).await;
    let whole = Upstream::replying(|_| reply::chat("fine and well")).await;
    for (name, bytes, error) in lies() {
        let service = Upstream::replying(move |_| bytes.clone()).await;
        for mode in ["window", "hold", "whole"] {
            let tried = async |fails: bool| {
                let more = json!({ "failOnError": fails });
                let mut check = webhook(&service.url(), more);
                if mode != "window" {
                    check["stream"] = "hold".into();
                }
                if mode == "whole" {
                    let config = guarded(&whole, json!([check]));
                    return gateway.chat().config(&config).json(&hello()).send().await;
                }
                ask(&gateway, &streamed, check).await
            };
            let (open, closed) = (tried(false).await, tried(true).await);
            // What is an error of the service passes unless told; what is no verdict never does.
            let expected = if error.is_some() { 200 } else { 446 };
            assert_eq!((open.status, closed.status), (expected, 446), "{name} {mode}: {}", open.text());
            if expected == 200 {
                assert_eq!(open.said(), "fine and well", "{name} {mode}");
            }
            if let (Some(error), true) = (error, mode != "window") {
                assert!(closed.text().contains(error), "{name} {mode}: {}", closed.text());
            }
            // A host rests after five errors in a row: an answer that is none clears them.
            if name == "a failure" || name == "a huge one" {
                break;
            }
        }
    }
}

#[tokio::test]
async fn services_that_are_dead_or_silent_end_with_their_time() {
    let gateway = Gateway::start().await;
    let upstream = says(&["fine ", "and ", "well"]).await;
    let nobody = crate::harness::ports::Port::reserve();
    let silent = Upstream::scripted(|mut peer| async move { while peer.request().await.is_some() {} }).await;
    for url in [format!("http://{}/", nobody.address), silent.url()] {
        for mode in [json!({ "mode": "window", "max_wait_ms": 50 }), json!("hold"), json!("after")] {
            for fails in [false, true] {
                let began = Instant::now();
                let parameters = json!({ "webhookURL": url, "streams": true, "timeout": 200, "failOnError": fails });
                // One that rewrites cannot stand behind what has left.
                let id = if mode == "after" { "default.log" } else { "default.webhook" };
                let parameters = match id {
                    "default.log" => json!({ "logURL": url, "timeout": 200, "failOnError": fails }),
                    _ => parameters,
                };
                let check = json!({ id: parameters, "deny": mode != "after", "stream": mode });
                let answer = ask(&gateway, &upstream, check).await;
                let expected = if fails && mode != "after" { 446 } else { 200 };
                assert_eq!(answer.status, expected, "{url} {mode} {fails}: {}", answer.text());
                if expected == 200 {
                    assert_eq!((answer.said().as_str(), is_done(&answer)), ("fine and well", true), "{url} {mode}");
                }
                assert!(began.elapsed() < Duration::from_secs(3), "{url} {mode}: {:?}", began.elapsed());
            }
        }
    }
}

#[tokio::test]
async fn a_part_of_a_stream_is_not_rewritten() {
    let gateway = Gateway::start().await;
    let upstream = says(&["fine ", "and ", "well"]).await;
    let service = Upstream::replying(|_| {
        let changed = json!({ "choices": [{ "message": { "content": "other" } }] });
        reply::json(200, &json!({ "verdict": true, "transformedData": { "response": { "json": changed } } }))
    })
    .await;
    let denied = ask(&gateway, &upstream, webhook(&service.url(), json!({}))).await.expect(446);
    assert!(denied.text().contains("UnchangeableBody"), "{}", denied.text());
    // Whole, the same webhook may.
    let mut whole = webhook(&service.url(), json!({}));
    whole["stream"] = "hold".into();
    assert_eq!(ask(&gateway, &upstream, whole).await.expect(200).said(), "other");
}

#[tokio::test]
async fn a_webhook_judges_parts_only_where_it_says_so() {
    let gateway = Gateway::start().await;
    let upstream = says(&["fine"]).await;
    let service = judge("nothing of it", 0).await;
    let check = json!({ "default.webhook": { "webhookURL": service.url() }, "deny": true, "stream": "window" });
    let refused = ask(&gateway, &upstream, check).await.expect(400).text();
    assert!(refused.contains("default.webhook") && refused.contains("window"), "{refused}");
}

/// A stream of text, two calls and more text.
fn calling(arguments: &[&[&str]]) -> Vec<u8> {
    let event = |delta: Value, finish: Value| {
        let chunk = json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
        reply::chunk(format!("data: {chunk}\n\n"))
    };
    let mut out = [reply::STREAM.to_vec(), reply::role(), reply::delta("let me see. ")].concat();
    for (index, pieces) in arguments.iter().enumerate() {
        let open = json!({ "index": index, "id": format!("c{index}"), "type": "function",
            "function": { "name": "send", "arguments": "" } });
        out.extend(event(json!({ "tool_calls": [open] }), Value::Null));
        for piece in *pieces {
            let call = json!({ "index": index, "function": { "arguments": piece } });
            out.extend(event(json!({ "tool_calls": [call] }), Value::Null));
        }
    }
    out.extend(event(json!({}), json!("tool_calls")));
    out.extend([reply::done(), reply::LAST_CHUNK.to_vec()].concat());
    out
}

#[tokio::test]
async fn arguments_of_calls_are_told_outside_whole_before_they_leave() {
    let gateway = Gateway::start().await;
    let stream = calling(&[&["{\"to\":\"bo", "b\"}"], &["{\"text\":\"a s\\u0065", "cret\"}"]]);
    let upstream = Upstream::replying(move |_| stream.clone()).await;
    let fine = judge("nothing of it", 10).await;
    let answer = ask(&gateway, &upstream, webhook(&fine.url(), json!({}))).await.expect(200);
    assert!(is_done(&answer) && answer.text().contains("{\\\"to\\\":\\\"bo"), "{}", answer.text());
    let told: Vec<String> = fine.seen().iter().map(|seen| seen.text()).collect();
    let call = |arguments: &str| {
        let of = |body: &String| {
            serde_json::from_str::<Value>(body).ok()?["response"]["json"]["choices"][0]["message"]
            ["tool_calls"][0]["function"]["arguments"].as_str().map(|told| told == arguments)
        };
        told.iter().any(|body| of(body) == Some(true))
    };
    assert!(call("{\"to\":\"bob\"}") && call("{\"text\":\"a s\\u0065cret\"}"), "{told:?}");

    // Spelt as it is written, which the service has to read.
    let service = Upstream::replying(|seen| {
        let arguments =
            seen.json()["response"]["json"]["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
                .as_str()
                .map(|arguments| serde_json::from_str::<Value>(arguments).expect("JSON").to_string());
        reply::json(200, &json!({ "verdict": !arguments.is_some_and(|text| text.contains("secret")) }))
    })
    .await;
    let denied = ask(&gateway, &upstream, webhook(&service.url(), json!({}))).await;
    assert!(denied.text().contains("hooks_failed") && !is_done(&denied), "{}", denied.text());
    assert!(!denied.text().contains("cret") && !denied.text().contains("\\\"text\\\""), "{}", denied.text());
}

const CERTIFICATE: &[u8] = include_bytes!("../harness/tls/cert.pem");
const KEY: &[u8] = include_bytes!("../harness/tls/key.pem");

/// A service behind a certificate of its own: one reply for each connection. Gives its port, and what it was sent.
async fn behind_tls(reply: impl Fn(&str) -> Value + Send + Sync + 'static) -> (u16, Arc<Mutex<Vec<String>>>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(CERTIFICATE).map(|c| c.expect("a certificate")).collect();
    let key = PrivateKeyDer::from_pem_slice(KEY).expect("a key");
    let ring = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let builder = tokio_rustls::rustls::ServerConfig::builder_with_provider(ring);
    let builder = builder.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
    let config = builder.with_single_cert(certificates, key).expect("a pair");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let (port, seen) = (listener.local_addr().expect("bound").port(), Arc::<Mutex<Vec<String>>>::default());
    let book = seen.clone();
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(socket).await else { continue };
            let (mut request, mut piece) = (Vec::new(), [0; 4096]);
            // Bodies end with the brace that their length says; these are small and come in one piece or two.
            while !String::from_utf8_lossy(&request).trim_end().ends_with('}') {
                match stream.read(&mut piece).await {
                    Ok(read) if read > 0 => request.extend_from_slice(&piece[..read]),
                    _ => break,
                }
            }
            let request = String::from_utf8_lossy(&request).into_owned();
            let body = reply(&request).to_string();
            book.lock().expect("no panic").push(request);
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    serving.detach_all();
    (port, seen)
}

#[tokio::test]
async fn a_partner_is_asked_over_tls_by_an_authority_that_the_machine_trusts() {
    const SECRET: &str = "lk-over-tls-0123456789";
    let (port, seen) = behind_tls(|request| json!({ "flagged": request.contains("secret"), "breakdown": [] })).await;
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/harness/tls/cert.pem");
    let gateway = Gateway::in_environment(&[("SSL_CERT_FILE", &file.display().to_string())]).await;
    let base = format!("https://127.0.0.1:{port}");
    let saved = json!({ "partner": "lakera", "credentials": { "apiKey": SECRET, "apiBase": base } });
    gateway.admin().post("/plugins", &saved).await.expect(200);
    let upstream = Upstream::replying(|_| reply::chat("fine")).await;
    let check = json!({ "lakera.guard": { "failOnError": true, "projectId": "p-1" }, "deny": true });
    let config = with(target(&upstream), json!({ "input_guardrails": [check] }));
    let asking = |text: &str| json!({ "model": "m", "messages": [{ "role": "user", "content": text }] });
    let call = async |gateway: &Gateway, text: &str| gateway.chat().config(&config).json(&asking(text)).send().await;
    call(&gateway, "all well").await.expect(200);
    call(&gateway, "a secret").await.expect(446);
    let asked = seen.lock().expect("no panic").clone();
    assert_eq!(asked.len(), 2);
    assert!(asked[0].starts_with("POST /v2/guard HTTP/1.1\r\n"), "{}", asked[0]);
    assert!(asked[0].to_ascii_lowercase().contains(&format!("authorization: bearer {SECRET}")), "{}", asked[0]);
    assert!(asked[0].contains("\"project_id\":\"p-1\"") && asked[0].contains("all well"), "{}", asked[0]);

    // Streams, in windows.
    let stream = says(&["all ", "is ", "well, ", "and a secret ", "too"]).await;
    let check = json!({ "lakera.guard": { "failOnError": true }, "deny": true, "stream": "window" });
    let cut = ask(&gateway, &stream, check).await;
    assert!(cut.text().contains("hooks_failed") && !cut.text().contains("secret"), "{}", cut.text());

    // Nobody else trusts that certificate, and no setting makes them.
    let other = Gateway::start().await;
    other.admin().post("/plugins", &saved).await.expect(200);
    let before = seen.lock().expect("no panic").len();
    let denied = call(&other, "all well").await.expect(446);
    assert!(denied.text().contains("Unreachable"), "{}", denied.text());
    assert_eq!(seen.lock().expect("no panic").len(), before, "nothing was said before the certificate was looked at");
    assert!(!denied.text().contains(SECRET));
}
