//! AWS Bedrock through the real binary: Converse and its binary streams, keys that sign by integration and by header,
//! roles and the identity of the machine. That signatures are right is said by botocore (`tests/sdk`).

use crate::harness::{Answer, Gateway, Upstream, WORKSPACE_KEY, eventually, reply};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

const MODEL: &str = "us.amazon.nova-lite-v1:0";

fn answer(text: &str) -> Value {
    json!({ "output": { "message": { "role": "assistant", "content": [{ "text": text }] } }, "stopReason": "end_turn",
            "usage": { "inputTokens": 4, "outputTokens": 2, "totalTokens": 6 }, "metrics": { "latencyMs": 9 } })
}

/// CRC-32 as frames carry it (IEEE 802.3).
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & 0_u32.wrapping_sub(crc & 1)))
    })
}

fn frame(kind: &str, name: &str, payload: &Value) -> Vec<u8> {
    let about = if kind == "exception" { ":exception-type" } else { ":event-type" };
    let mut headers = Vec::new();
    for (key, value) in [(about, name), (":content-type", "application/json"), (":message-type", kind)] {
        headers.push(u8::try_from(key.len()).expect("short"));
        headers.extend(key.as_bytes());
        headers.push(7);
        headers.extend(u16::try_from(value.len()).expect("short").to_be_bytes());
        headers.extend(value.as_bytes());
    }
    let payload = payload.to_string();
    let length = u32::try_from(headers.len() + payload.len() + 16).expect("short");
    let mut out = length.to_be_bytes().to_vec();
    out.extend(u32::try_from(headers.len()).expect("short").to_be_bytes());
    out.extend(checksum(&out).to_be_bytes());
    out.extend(headers);
    out.extend(payload.as_bytes());
    out.extend(checksum(&out).to_be_bytes());
    out
}

/// A stream of frames as one answer, each frame cut in the middle.
fn streamed(frames: &[Vec<u8>]) -> Vec<u8> {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut out = head.as_bytes().to_vec();
    for frame in frames {
        let (first, rest) = frame.split_at(frame.len() / 2);
        out.extend([reply::chunk(first), reply::chunk(rest)].concat());
    }
    out.extend(reply::LAST_CHUNK);
    out
}

fn said(texts: &[&str]) -> Vec<Vec<u8>> {
    let mut all = vec![frame("event", "messageStart", &json!({ "role": "assistant" }))];
    all.extend(texts.iter().map(|text| {
        frame("event", "contentBlockDelta", &json!({ "contentBlockIndex": 0, "delta": { "text": text } }))
    }));
    all
}

fn ended(mut frames: Vec<Vec<u8>>) -> Vec<u8> {
    let usage = json!({ "usage": { "inputTokens": 4, "outputTokens": 2, "totalTokens": 6 }, "metrics": {} });
    frames.push(frame("event", "messageStop", &json!({ "stopReason": "end_turn" })));
    frames.push(frame("event", "metadata", &usage));
    streamed(&frames)
}

async fn converse() -> Upstream {
    Upstream::replying(|seen| {
        if seen.target.ends_with("-stream") { ended(said(&["Hel", "lo"])) } else { reply::json(200, &answer("Hello")) }
    })
    .await
}

fn hello() -> Value {
    json!({ "model": MODEL, "messages": [{ "role": "user", "content": "Hi" }] })
}

fn bare(upstream: &Upstream) -> String {
    upstream.url().trim_end_matches("/v1").to_owned()
}

async fn integration(gateway: &Gateway, key: Option<&str>, configurations: Value) {
    let admin = gateway.admin();
    let body = json!({ "name": "cloud", "slug": "cloud-i", "ai_provider_id": "bedrock", "key": key,
                       "create_default_provider": false, "configurations": configurations });
    admin.post("/integrations", &body).await.expect(200);
    let provider = json!({ "name": "cloud", "slug": "cloud", "integration_id": "cloud-i" });
    admin.post("/providers", &provider).await.expect(200);
}

fn keys(upstream: &Upstream) -> Value {
    json!({ "custom_host": bare(upstream), "aws_auth_type": "accessKey", "aws_region": "eu-west-1",
            "aws_access_key_id": "AKIDSTATIC", "aws_secret_access_key": "very-secret-key-of-aws" })
}

/// The id of the key that signed, with the region and the service that it signed for.
fn credential(header: Option<&str>) -> String {
    let header = header.expect("a signature");
    let (credential, rest) =
        header.strip_prefix("AWS4-HMAC-SHA256 Credential=").expect("AWS's").split_once(", ").expect("parts");
    assert!(rest.starts_with("SignedHeaders=content-type;host;x-amz-date"), "{rest}");
    let parts: Vec<&str> = credential.split('/').collect();
    assert_eq!(parts[4], "aws4_request");
    format!("{}/{}/{}", parts[0], parts[2], parts[3])
}

#[tokio::test]
async fn chat_reaches_converse_signed_and_comes_back() {
    let (up, gateway) = (converse().await, Gateway::start().await);
    integration(&gateway, None, keys(&up)).await;
    let shown = gateway.admin().get("/integrations/cloud-i").await.expect(200).text();
    assert!(shown.contains("eu-west-1") && !shown.contains("very-secret"), "{shown}");
    let ask = |body: &Value| gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("@cloud").json(body);
    let told = ask(&hello()).send().await.expect(200).json();
    assert_eq!(told["choices"][0]["message"]["content"], "Hello");
    let seen = up.only();
    assert_eq!(seen.target, "/model/us.amazon.nova-lite-v1%3A0/converse");
    assert_eq!(seen.json(), json!({ "messages": [{ "role": "user", "content": [{ "text": "Hi" }] }] }));
    assert_eq!(credential(seen.header("authorization")), "AKIDSTATIC/eu-west-1/bedrock");
    assert_eq!(seen.header("x-amz-security-token"), None);
    let mut body = hello();
    body["stream"] = true.into();
    let answer = ask(&body).send().await.expect(200);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let text = answer.text();
    assert!(text.contains("\"content\":\"Hel\"") && text.ends_with("data: [DONE]\n\n"), "{text}");
    let target = "/model/us.amazon.nova-lite-v1%3A0/converse-stream";
    assert_eq!(up.seen()[1].target, target);
}

fn exception() -> Vec<u8> {
    frame("exception", "throttlingException", &json!({ "message": "Too many tokens" }))
}

#[tokio::test]
async fn an_exception_behind_content_is_an_event() {
    // The exception comes once the client has the head of its answer, which goes down with the content.
    let begun = Arc::new(Notify::new());
    let awaited = begun.clone();
    let up = Upstream::scripted(move |mut peer| {
        let awaited = awaited.clone();
        async move {
            peer.request().await;
            let whole = streamed(&[said(&["Hel"]), vec![exception()]].concat());
            let (content, rest) = whole.split_at(streamed(&said(&["Hel"])).len() - reply::LAST_CHUNK.len());
            peer.send(content).await;
            awaited.notified().await;
            peer.send(rest).await;
        }
    })
    .await;
    let gateway = Gateway::start().await;
    integration(&gateway, None, keys(&up)).await;
    let mut body = hello();
    (body["stream"], body["max_tokens"]) = (true.into(), 9.into());
    let open = gateway.post("/v1/messages").key(WORKSPACE_KEY).provider("@cloud").json(&body).open().await;
    begun.notify_one();
    let text = Answer::read(open, Instant::now()).await.expect(200).text();
    assert!(text.contains("event: error") && text.contains("rate_limit_error"), "{text}");
    assert!(!text.contains("message_stop"), "{text}");
}

#[tokio::test]
async fn an_exception_before_content_is_an_answer() {
    let up = Upstream::in_turn(vec![streamed(&[exception()]), streamed(&said(&["Hel"]))]).await;
    let gateway = Gateway::start().await;
    integration(&gateway, None, keys(&up)).await;
    let mut body = hello();
    (body["stream"], body["max_tokens"]) = (true.into(), 9.into());
    let ask = |path: &str| gateway.post(path).key(WORKSPACE_KEY).provider("@cloud").json(&body);
    // Before any content it is an answer of its own, so that another target may be tried.
    let told = ask("/v1/chat/completions").send().await.expect(429).json();
    assert_eq!(told["error"]["message"], "bedrock error: Too many tokens");
    let text = ask("/v1/chat/completions").send().await.expect(200).text();
    assert!(text.contains("ended before it was complete") && !text.contains("[DONE]"), "{text}");
}

#[tokio::test]
async fn the_type_of_an_error_comes_from_its_head() {
    let head = [("content-type", "application/json"), ("x-amzn-errortype", "ValidationException:http://internal/")];
    let body = r#"{"message":"The provided model identifier is invalid."}"#;
    let up = Upstream::replying(move |_| reply::whole(400, &head, body)).await;
    let gateway = Gateway::start().await;
    integration(&gateway, None, keys(&up)).await;
    let ask = gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("@cloud").json(&hello());
    let told = ask.send().await.expect(400).json();
    assert_eq!(told["error"]["type"], "ValidationException");
    assert_eq!(told["error"]["message"], "bedrock error: The provided model identifier is invalid.");
}

#[tokio::test]
async fn an_api_key_goes_as_it_is() {
    let (up, gateway) = (converse().await, Gateway::start().await);
    let settings = json!({ "custom_host": bare(&up), "aws_auth_type": "apiKey", "aws_region": "eu-west-1" });
    integration(&gateway, Some("bedrock-api-key-1"), settings).await;
    let ask = gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("@cloud").json(&hello());
    ask.send().await.expect(200);
    assert_eq!(up.only().header("authorization"), Some("Bearer bedrock-api-key-1"));
}

#[tokio::test]
async fn settings_by_header_sign_with_their_own_keys_only() {
    let (up, gateway) = (converse().await, Gateway::start().await);
    let call = |pairs: &[(&str, &str)]| {
        let call = gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("bedrock");
        let call = call.header("x-gateway-custom-host", &bare(&up)).json(&hello());
        pairs.iter().fold(call, |call, (name, value)| call.header(name, value))
    };
    let region = ("x-gateway-aws-region", "us-west-2");
    let own = [
        region,
        ("x-gateway-aws-access-key-id", "ASIAMINE"),
        ("x-gateway-aws-secret-access-key", "mine"),
        ("x-gateway-aws-session-token", "session=="),
    ];
    call(&own).send().await.expect(200);
    let seen = up.only();
    assert_eq!(seen.header("x-amz-security-token"), Some("session=="));
    let signed = seen.header("authorization").expect("signed");
    assert!(signed.contains("Credential=ASIAMINE/") && signed.contains("/us-west-2/bedrock/"), "{signed}");
    assert!(signed.contains("SignedHeaders=content-type;host;x-amz-date;x-amz-security-token,"), "{signed}");
    // The machine's identity is nobody's to borrow, nor is a role that it could take.
    let role = ("x-gateway-aws-role-arn", "arn:aws:iam::123456789012:role/gateway");
    for pairs in [&[region, ("x-gateway-aws-auth-type", "serviceRole")][..], &[region, role]] {
        let told = call(pairs).send().await.expect(400).text();
        assert!(told.contains("aws_auth_type"), "{told}");
    }
    for (pairs, field) in [
        (&[region][..], "aws_access_key_id"),
        (&own[1..], "aws_region"),
        (&[region, own[1]][..], "aws_secret_access_key"),
        (&[region, ("x-gateway-aws-role-arn", "arn:aws:s3:::bucket")][..], "aws_role_arn"),
        (&[("x-gateway-aws-region", "evil.example/")][..], "aws_region"),
    ] {
        let told = call(pairs).send().await.expect(400).text();
        assert!(told.contains(field) || told.contains(&field.replace('_', "-")), "{field}: {told}");
    }
    integration(&gateway, None, keys(&up)).await;
    let saved = gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("@cloud").json(&hello());
    let told = saved.header("x-gateway-aws-region", "us-west-2").send().await.expect(400).text();
    assert!(told.contains("aws_region"), "{told}");
    assert_eq!(up.seen().len(), 1);
}

/// `2026-11-21T15:00:00Z`, so many seconds from now.
fn later(seconds: u64) -> String {
    let then = std::time::SystemTime::now() + Duration::from_secs(seconds);
    let output = std::process::Command::new("date")
        .args(["-u", "+%Y-%m-%dT%H:%M:%SZ", "-d"])
        .arg(format!("@{}", then.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs()))
        .output()
        .expect("date");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

/// Gives `ASIA1`, `ASIA2` … that live for so long, to roles and to tokens of platforms.
async fn sts(lives: u64) -> Upstream {
    let calls = AtomicUsize::new(0);
    Upstream::replying(move |_| {
        let (call, until) = (calls.fetch_add(1, SeqCst) + 1, later(lives));
        let xml = format!(
            "<R><Credentials><AccessKeyId>ASIA{call}</AccessKeyId><SecretAccessKey>s{call}</SecretAccessKey>\
             <SessionToken>token{call}</SessionToken><Expiration>{until}</Expiration></Credentials></R>"
        );
        reply::whole(200, &[("content-type", "text/xml")], xml)
    })
    .await
}

fn role(up: &Upstream) -> Value {
    json!({ "custom_host": bare(up), "aws_auth_type": "assumedRole", "aws_region": "eu-west-1",
            "aws_role_arn": "arn:aws:iam::123456789012:role/gateway", "aws_external_id": "tenant/7" })
}

#[tokio::test]
async fn a_role_is_assumed_once_for_a_crowd() {
    let (up, sts) = (converse().await, sts(3600).await);
    let gateway = Gateway::in_environment(&[("AWS_ENDPOINT_URL_STS", &bare(&sts))]).await;
    let mut settings = role(&up);
    settings["aws_access_key_id"] = "AKIDSTATIC".into();
    settings["aws_secret_access_key"] = "very-secret-key-of-aws".into();
    settings["aws_role_session_name"] = "team-a".into();
    integration(&gateway, None, settings).await;
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..30 {
        let call = gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("@cloud").json(&hello());
        crowd.spawn(async move { call.send().await.expect(200) });
    }
    crowd.join_all().await;
    for seen in up.seen() {
        assert_eq!(credential(seen.header("authorization")), "ASIA1/eu-west-1/bedrock");
        assert_eq!(seen.header("x-amz-security-token"), Some("token1"));
    }
    let asked = sts.only();
    assert_eq!(credential(asked.header("authorization")), "AKIDSTATIC/eu-west-1/sts");
    assert_eq!(
        asked.text(),
        "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fgateway\
         &RoleSessionName=team-a&ExternalId=tenant%2F7"
    );
}

#[tokio::test]
async fn keys_are_renewed_under_load_and_nobody_notices() {
    let (up, sts) = (converse().await, sts(3).await);
    let environment = [
        ("AWS_ENDPOINT_URL_STS", &*bare(&sts)),
        ("AWS_ASSUME_ROLE_ACCESS_KEY_ID", "AKIDOPERATOR"),
        ("AWS_ASSUME_ROLE_SECRET_ACCESS_KEY", "of-the-operator"),
    ];
    let gateway = Gateway::in_environment(&environment).await;
    integration(&gateway, None, role(&up)).await;
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        let call = gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("@cloud").json(&hello());
        call.send().await.expect(200);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let fetched = sts.seen().len();
    assert!((2..=7).contains(&fetched), "{fetched} fetches of keys of three seconds");
    assert_eq!(credential(sts.seen()[0].header("authorization")), "AKIDOPERATOR/eu-west-1/sts");
    let signed: BTreeSet<String> = up.seen().iter().map(|seen| credential(seen.header("authorization"))).collect();
    assert!(signed.len() >= 2 && signed.len() <= fetched, "{signed:?}");
}

#[tokio::test]
async fn a_refused_role_is_told_in_the_clients_dialect() {
    let xml = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>not authorized to perform: sts:AssumeRole\
               </Message></Error></ErrorResponse>";
    let (up, sts) = (converse().await, Upstream::replying(move |_| reply::whole(403, &[], xml)).await);
    let environment = [
        ("AWS_ENDPOINT_URL_STS", &*bare(&sts)),
        ("AWS_ACCESS_KEY_ID", "AKIDHOST"),
        ("AWS_SECRET_ACCESS_KEY", "of-the-host"),
    ];
    let gateway = Gateway::in_environment(&environment).await;
    integration(&gateway, None, role(&up)).await;
    let mut body = hello();
    body["max_tokens"] = 5.into();
    let call = gateway.post("/v1/messages").key(WORKSPACE_KEY).provider("@cloud").json(&body);
    let told = call.send().await.expect(401).json();
    assert_eq!(told["error"]["type"], "authentication_error");
    let message = told["error"]["message"].as_str().expect("a message");
    assert!(message.contains("bedrock") && message.contains("AccessDenied: not authorized"), "{message}");
    assert!(up.seen().is_empty());
}

fn service_role(up: &Upstream) -> Value {
    json!({ "custom_host": bare(up), "aws_auth_type": "serviceRole", "aws_region": "eu-west-1" })
}

async fn signed_by(gateway: &Gateway, up: &Upstream) -> (String, Option<String>) {
    integration(gateway, None, service_role(up)).await;
    let call = gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("@cloud").json(&hello());
    call.send().await.expect(200);
    let seen = up.only();
    (credential(seen.header("authorization")), seen.header("x-amz-security-token").map(str::to_owned))
}

#[tokio::test]
async fn a_token_of_the_platform_is_exchanged() {
    let (up, sts) = (converse().await, sts(3600).await);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "eyJ.of.eks\n").expect("written");
    let environment = [
        ("AWS_ENDPOINT_URL_STS", &*bare(&sts)),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", file.path().to_str().expect("text")),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/pod"),
    ];
    let gateway = Gateway::in_environment(&environment).await;
    assert_eq!(signed_by(&gateway, &up).await, ("ASIA1/eu-west-1/bedrock".into(), Some("token1".into())));
    let asked = sts.only();
    assert_eq!(asked.header("authorization"), None, "the token is the proof");
    assert_eq!(
        asked.text(),
        "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fpod\
         &RoleSessionName=gateway&WebIdentityToken=eyJ.of.eks"
    );
}

fn credentials_reply(id: &str) -> Vec<u8> {
    let keys = json!({ "Code": "Success", "AccessKeyId": id, "SecretAccessKey": "s", "Token": "t", "Expiration": later(3600) });
    reply::json(200, &keys)
}

#[tokio::test]
async fn a_containers_role_signs() {
    let (up, agent) = (converse().await, Upstream::replying(|_| credentials_reply("ASIATASK")).await);
    let url = format!("{}/v2/credentials/a", bare(&agent));
    let environment = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*url), ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "opener")];
    let gateway = Gateway::in_environment(&environment).await;
    assert_eq!(signed_by(&gateway, &up).await, ("ASIATASK/eu-west-1/bedrock".into(), Some("t".into())));
    assert_eq!((&*agent.only().target, agent.only().header("authorization")), ("/v2/credentials/a", Some("opener")));
}

#[tokio::test]
async fn an_instances_role_signs() {
    let up = converse().await;
    let metadata = Upstream::replying(|seen| match (seen.method.as_str(), seen.target.as_str()) {
        ("PUT", "/latest/api/token") => reply::whole(200, &[], "imds-token"),
        (_, _) if seen.header("x-aws-ec2-metadata-token") != Some("imds-token") => reply::whole(401, &[], ""),
        (_, "/latest/meta-data/iam/security-credentials/") => reply::whole(200, &[], "the-role\n"),
        (_, "/latest/meta-data/iam/security-credentials/the-role") => credentials_reply("ASIAHOST"),
        _ => reply::whole(404, &[], ""),
    })
    .await;
    let gateway = Gateway::in_environment(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &bare(&metadata))]).await;
    assert_eq!(signed_by(&gateway, &up).await, ("ASIAHOST/eu-west-1/bedrock".into(), Some("t".into())));
}

#[tokio::test]
async fn the_native_api_passes_signed_anew_and_is_counted() {
    let (up, gateway) = (converse().await, Gateway::start().await);
    integration(&gateway, None, keys(&up)).await;
    let path = "/v1/proxy/model/us.amazon.nova-lite-v1%3A0/converse";
    let native = json!({ "messages": [{ "role": "user", "content": [{ "text": "Hi" }] }] });
    let call = |path: &str| {
        let call = gateway.post(path).key(WORKSPACE_KEY).provider("@cloud").json(&native);
        // boto3 signs like this for whatever it is told to call.
        let call = call
            .header("authorization", "AWS4-HMAC-SHA256 Credential=AKIDCLIENT/20260101/us-east-1/bedrock/aws4_request");
        call.header("x-amz-date", "20260101T000000Z").header("x-amz-security-token", "of-the-client")
    };
    let told = call(path).send().await.expect(200).json();
    assert_eq!(told, answer("Hello"));
    let seen = up.only();
    assert_eq!(seen.target, "/model/us.amazon.nova-lite-v1%3A0/converse");
    assert_eq!(credential(seen.header("authorization")), "AKIDSTATIC/eu-west-1/bedrock");
    assert_eq!(seen.header("x-amz-security-token"), None);
    assert_ne!(seen.header("x-amz-date"), Some("20260101T000000Z"));
    assert_eq!(seen.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case("x-amz-date")).count(), 1);
    let stream = call("/v1/proxy/model/us.amazon.nova-lite-v1%3A0/converse-stream").send().await.expect(200);
    assert_eq!(stream.header("content-type"), Some("application/vnd.amazon.eventstream"));
    assert!(stream.text().contains("contentBlockDelta"));
    let units = eventually("two records", || async {
        let list = gateway.admin().get("/logs").await.expect(200).json();
        let rows = list["data"].as_array().expect("a list").clone();
        (rows.len() == 2).then_some(rows)
    });
    for row in units.await {
        let id = row["id"].as_str().or_else(|| row["_id"].as_str()).expect("an id");
        let detail = gateway.admin().get(&format!("/logs/{id}")).await.expect(200).json();
        let detail = if detail["data"].is_object() { detail["data"].clone() } else { detail };
        let metrics = &detail["metrics"];
        assert_eq!((&metrics["req_units"], &metrics["res_units"]), (&json!(4), &json!(2)), "{detail}");
    }
}
