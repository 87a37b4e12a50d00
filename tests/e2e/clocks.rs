//! Clocks that differ from ours: those of AWS and Google tell theirs by `date`, and what is signed follows them.

use crate::clouds::{bare, hello};
use crate::harness::{Gateway, Upstream, WORKSPACE_KEY, reply};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::process::Command;

/// Their clock is ahead of ours by so many hours, or behind.
fn theirs(hours: i64) -> Timestamp {
    Timestamp::now() + SignedDuration::from_hours(hours)
}

fn date(time: Timestamp) -> String {
    time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// What AWS takes: signatures of five minutes around its own time.
fn is_signed_at(seen: Option<&str>, now: Timestamp) -> bool {
    let signed = DateTime::strptime("%Y%m%dT%H%M%SZ", seen.expect("x-amz-date")).expect("a time");
    let signed = signed.to_zoned(jiff::tz::TimeZone::UTC).expect("UTC").timestamp();
    signed.duration_since(now).abs() < SignedDuration::from_mins(5)
}

fn too_late(now: Timestamp, body: &str) -> Vec<u8> {
    reply::whole(403, &[("date", &date(now)), ("x-amzn-errortype", "InvalidSignatureException")], body)
}

async fn bedrock(hours: i64) -> Upstream {
    Upstream::replying(move |seen| {
        let now = theirs(hours);
        if !is_signed_at(seen.header("x-amz-date"), now) {
            return too_late(now, r#"{"message":"Signature not yet current"}"#);
        }
        let message = json!({ "role": "assistant", "content": [{ "text": "Hello" }] });
        let answer = json!({ "output": { "message": message }, "stopReason": "end_turn",
                             "usage": { "inputTokens": 4, "outputTokens": 2, "totalTokens": 6 } });
        reply::json(200, &answer)
    })
    .await
}

async fn integration(gateway: &Gateway, family: &str, configurations: Value) {
    crate::clouds::integration(gateway, family, None, configurations).await;
}

fn keys(up: &Upstream) -> Value {
    json!({ "custom_host": bare(up), "aws_region": "eu-west-1", "aws_access_key_id": "AKIDSTATIC",
            "aws_secret_access_key": "very-secret-key-of-aws" })
}

/// The refusal is the caller's answer, since a POST is repeated by rule only; all after it are signed for their time.
#[tokio::test]
async fn signatures_follow_the_clock_of_who_checks_them() {
    for hours in [-3, 2] {
        let (up, gateway) = (bedrock(hours).await, Gateway::start().await);
        integration(&gateway, "bedrock", keys(&up)).await;
        let ask = || gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("@cloud").json(&hello("m.m"));
        let told = ask().send().await.expect(403).json();
        assert_eq!(told["error"]["message"], "bedrock error: Signature not yet current");
        for _ in 0..5 {
            ask().send().await.expect(200);
        }
        assert_eq!(up.seen().len(), 6);
    }
}

#[tokio::test]
async fn a_retry_rule_hides_the_difference() {
    let (up, gateway) = (bedrock(1).await, Gateway::start().await);
    integration(&gateway, "bedrock", keys(&up)).await;
    let config = json!({ "retry": { "attempts": 1, "on_status_codes": [403] } }).to_string();
    let ask = gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("@cloud").json(&hello("m.m"));
    ask.header("x-gateway-config", &config).send().await.expect(200);
    assert_eq!(up.seen().len(), 2);
}

/// A role is taken in the same request, and the end of its keys is read by the clock that told it.
#[tokio::test]
async fn a_role_is_taken_by_the_clock_of_who_gives_it() {
    let sts = Upstream::replying(|seen| {
        let now = theirs(-5);
        if !is_signed_at(seen.header("x-amz-date"), now) {
            let why =
                "<ErrorResponse><Error><Code>SignatureDoesNotMatch</Code><Message>Signature not yet current</Message>";
            return too_late(now, why);
        }
        let until = (now + SignedDuration::from_mins(15)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let keys = format!(
            "<AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>\
             <Expiration>{until}</Expiration>"
        );
        let headers = [("date", &*date(now)), ("content-type", "text/xml")];
        reply::whole(
            200,
            &headers,
            format!("<AssumeRoleResponse><Credentials>{keys}</Credentials></AssumeRoleResponse>"),
        )
    })
    .await;
    let up = bedrock(0).await;
    let gateway = Gateway::in_environment(&[("AWS_ENDPOINT_URL_STS", &bare(&sts))]).await;
    let mut settings = keys(&up);
    settings["aws_auth_type"] = "assumedRole".into();
    settings["aws_role_arn"] = "arn:aws:iam::123456789012:role/gateway".into();
    integration(&gateway, "bedrock", settings).await;
    for _ in 0..5 {
        let ask = gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("@cloud").json(&hello("m.m"));
        ask.send().await.expect(200);
    }
    assert_eq!(sts.seen().len(), 2, "refused once, then kept");
}

#[tokio::test]
async fn an_assertion_is_made_for_the_clock_of_its_endpoint() {
    let tokens = Upstream::replying(|seen| {
        let now = theirs(7);
        let text = seen.text();
        let assertion = text.split('&').find_map(|p| p.strip_prefix("assertion=")).expect("an assertion");
        let claims = URL_SAFE_NO_PAD.decode(assertion.split('.').nth(1).expect("claims")).expect("base64");
        let claims: Value = serde_json::from_slice(&claims).expect("JSON");
        let (from, until) = (claims["iat"].as_i64().expect("iat"), claims["exp"].as_i64().expect("exp"));
        let date = date(now);
        let headers = [("date", &*date), ("content-type", "application/json")];
        if (from..until).contains(&now.as_second()) && now.as_second() - from < 300 {
            return reply::whole(200, &headers, r#"{"access_token":"t1","expires_in":3600,"token_type":"Bearer"}"#);
        }
        let why = "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe.";
        let body = json!({ "error": "invalid_grant", "error_description": why });
        reply::whole(400, &headers, body.to_string())
    })
    .await;
    let answer = json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": "Hi" }] }, "finishReason": "STOP" }] });
    let up = Upstream::replying(move |_| reply::json(200, &answer)).await;
    let gateway = Gateway::start().await;
    let made =
        Command::new("openssl").args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]).output();
    let key = String::from_utf8(made.expect("openssl").stdout).expect("PEM");
    let account = json!({ "type": "service_account", "project_id": "p-1", "private_key": key,
                          "client_email": "robot@p-1.iam.gserviceaccount.com", "token_uri": format!("{}/token", bare(&tokens)) });
    let settings =
        json!({ "custom_host": bare(&up), "vertex_region": "global", "vertex_service_account_json": account });
    integration(&gateway, "vertex-ai", settings).await;
    for _ in 0..3 {
        let ask = gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider("@cloud");
        ask.json(&hello("gemini-2.5-flash")).send().await.expect(200);
    }
    assert_eq!(tokens.seen().len(), 2, "refused once, then made for their time and kept");
    assert_eq!(up.seen()[2].header("authorization"), Some("Bearer t1"));
}
