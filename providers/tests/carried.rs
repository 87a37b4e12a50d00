//! The table "What is carried" of `docs/providers.md`, cell by cell: each feature is asked of each family, and is found
//! in what goes upstream, or named as dropped, or refused by field.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use bytes::Bytes;
use gateway_domain::cloud::{CloudSettings, setting};
use gateway_domain::{Dialect, Operation};
use gateway_providers::{Call, adapter};
use http::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Feature, model by family where it matters, what is asked for, and text that must stand in what goes upstream, in one
/// of its spellings.
fn features() -> Vec<(&'static str, Value, &'static str)> {
    let part =
        |part: Value| json!({ "messages": [{ "role": "user", "content": [{ "type": "text", "text": "Hi" }, part] }] });
    let function =
        |name: &str| json!({ "type": "function", "function": { "name": name, "parameters": { "type": "object" } } });
    let called =
        |id: &str, name: &str| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": "{}" } });
    let result = |id: &str, text: &str| json!({ "role": "tool", "tool_call_id": id, "content": text });
    let calls = json!([called("call_1", "one"), called("call_2", "two")]);
    let turns = json!([
        { "role": "user", "content": "Hi" },
        { "role": "assistant", "content": null, "tool_calls": calls },
        result("call_1", "first"),
        result("call_2", "second-result"),
    ]);
    let format =
        json!({ "name": "v", "schema": { "type": "object", "properties": { "marked": { "type": "string" } } } });
    let thought = json!([
        { "role": "user", "content": "Hi" },
        { "role": "assistant", "content": "Hello", "content_blocks": [
            { "type": "thinking", "thinking": "Hmm", "signature": "gw1.0000000000005eed.s.c2lnbmVk" },
            { "type": "text", "text": "Hello" },
        ] },
        { "role": "user", "content": "Go on" },
    ]);
    vec![
        (
            "tools, chosen by name",
            json!({ "tools": [function("marked")], "tool_choice": { "type": "function", "function": { "name": "marked" } } }),
            "marked",
        ),
        (
            "parallel calls and their results",
            json!({ "messages": turns, "tools": [function("one"), function("two")] }),
            "second-result",
        ),
        (
            "`parallel_tool_calls: false`",
            json!({ "tools": [function("f")], "parallel_tool_calls": false }),
            "parallel_tool",
        ),
        (
            "image, inline",
            part(json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,bWFya2Vk" } })),
            "bWFya2Vk",
        ),
        (
            "image, by address",
            part(json!({ "type": "image_url", "image_url": { "url": "https://x.example/marked.png" } })),
            "marked.png",
        ),
        (
            "file, inline PDF",
            part(
                json!({ "type": "file", "file": { "filename": "a.pdf", "file_data": "data:application/pdf;base64,bWFya2Vk" } }),
            ),
            "bWFya2Vk",
        ),
        (
            "audio, inline",
            part(json!({ "type": "input_audio", "input_audio": { "format": "wav", "data": "bWFya2Vk" } })),
            "bWFya2Vk",
        ),
        ("JSON by schema", json!({ "response_format": { "type": "json_schema", "json_schema": format } }), "marked"),
        ("any JSON", json!({ "response_format": { "type": "json_object" } }), "json"),
        ("`n` above 1", json!({ "n": 2 }), ":2"),
        ("log-probabilities", json!({ "logprobs": true }), "logprobs"),
        ("`reasoning_effort`", json!({ "reasoning_effort": "high" }), ""),
        ("signed thinking of an earlier turn", json!({ "messages": thought }), "c2lnbmVk"),
        (
            "`cache_control` of parts",
            json!({ "messages": [{ "role": "user", "content": [{ "type": "text", "text": "Hi", "cache_control": { "type": "ephemeral" } }] }] }),
            "ephemeral|cachePoint",
        ),
        (
            "answers as audio",
            json!({ "modalities": ["text", "audio"], "audio": { "voice": "alloy", "format": "wav" } }),
            "alloy",
        ),
        ("`seed`", json!({ "seed": 77 }), "77"),
        ("`logit_bias`", json!({ "logit_bias": { "9": 1 } }), "logit_bias"),
    ]
}

fn model(slug: &str) -> &'static str {
    match slug {
        "anthropic" => "claude-sonnet-4-5",
        "google" => "gemini-2.5-flash",
        "cohere" => "command-a-reasoning-08-2025",
        "mistral-ai" => "mistral-large-latest",
        "bedrock" => "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "vertex-ai" => "gemini-2.5-flash",
        _ => "gpt-5",
    }
}

fn outcome(slug: &str, more: &Value, mark: &str) -> String {
    let mut body = json!({ "model": model(slug), "messages": [{ "role": "user", "content": "Hi" }] });
    let (Some(body_map), Some(more)) = (body.as_object_mut(), more.as_object()) else { panic!("objects") };
    body_map.extend(more.clone());
    let (body, mut settings) = (Bytes::from(body.to_string()), CloudSettings::default());
    for (name, value) in [("vertex_region", "global"), ("vertex_project_id", "p"), ("azure_resource_name", "r")] {
        settings.set(setting(name).expect("a setting"), value.to_owned()).expect("valid");
    }
    let call = Call {
        operation: Operation::ChatCompletions,
        dialect: Dialect::OpenAi,
        method: &Method::POST,
        tail: "/chat/completions",
        query: None,
        body: &body,
        model: Some(model(slug)),
        form: None,
        sound_ms: None,
        model_span: None,
        stream: false,
        wants_usage: false,
        strict: true,
        now_ms: 1_750_000_000_123,
        dice: 7,
        origin: 0x5eed,
        settings: &settings,
        keeps: None,
    };
    match adapter(slug).expect("a family").request(&call) {
        Err(fault) => {
            assert_eq!(fault.status(), 400, "{slug}: {}", fault.message());
            assert!(fault.param().is_some(), "{slug}: {} names no field", fault.message());
            "refused".to_owned()
        }
        Ok(sent) if sent.adjusted == ["response_format"] => {
            let sent = String::from_utf8_lossy(&sent.body.join()).into_owned();
            assert!(sent.contains("one valid JSON object"), "{slug} is told nothing: {sent}");
            "in words".to_owned()
        }
        Ok(sent) if !sent.adjusted.is_empty() => "dropped".to_owned(),
        Ok(sent) => {
            let sent = String::from_utf8_lossy(&sent.body.join()).into_owned();
            assert!(mark.split('|').any(|mark| sent.contains(mark)), "{slug} neither carries nor names {mark}: {sent}");
            "yes".to_owned()
        }
    }
}

#[test]
fn the_page_says_what_becomes_of_each_feature() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/providers.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, table) = page.split_once("### What is carried").expect("the section");
    let mut rows = table.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells =
        |line: &str| -> Vec<String> { line.trim_matches('|').split('|').map(|c| c.trim().to_owned()).collect() };
    let families = cells(rows.next().expect("a head"));
    let told: BTreeMap<String, Vec<String>> =
        rows.skip(1).map(cells).map(|c| (c[0].clone(), c[1..].to_vec())).collect();
    let mut made = Vec::new();
    for (feature, more, mark) in features() {
        let row = families[1..].iter().map(|slug| outcome(slug.trim_matches('`'), &more, mark)).collect::<Vec<_>>();
        made.push((feature, row));
    }
    let shown: Vec<String> = made.iter().map(|(f, row)| format!("| {f} | {} |", row.join(" | "))).collect();
    let same = made.len() == told.len() && made.iter().all(|(f, row)| told.get(*f) == Some(row));
    assert!(same, "the table should be:\n{}", shown.join("\n"));
}
