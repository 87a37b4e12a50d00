//! What each built-in check costs that asks nobody: on a message of one kilobyte and on one of a hundred, with the
//! search for the text and the results made. `cargo bench -p gateway-guardrails --bench checks`.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a program for developers")]

use gateway_domain::Timestamp;
use gateway_domain::egress::Trusted;
use gateway_guardrails::definition::{self, CompileContext};
use gateway_guardrails::{
    BodyShape, Content, Direction, Facts, Guardrail, GuardrailSubject, HookResults, Run, Timing, with_results,
};
use serde_json::{Value, json};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUNDS: u32 = 2_000;
const WORDS: &str =
    "The people of several towns were glad to hear that the river had gone back to its bed, and said so. ";

fn checks() -> Vec<(&'static str, Value)> {
    let words: Vec<String> = (0..50).map(|n| format!("forbidden{n}")).collect();
    let schema = json!({"type": "object", "required": ["a"]});
    vec![
        ("regexMatch", json!({"rule": "[0-9]{3}-[0-9]{2}-[0-9]{4}", "not": true})),
        ("regexMatch", json!({"rule": "(?<!un)happy(?= people)", "not": true})),
        ("regexReplace", json!({"rule": "river", "redactText": "*"})),
        ("sentenceCount", json!({})),
        ("wordCount", json!({})),
        ("characterCount", json!({})),
        ("contains", json!({"words": words, "operator": "none"})),
        ("endsWith", json!({"suffix": "so."})),
        ("alllowercase", json!({})),
        ("jsonSchema", json!({"schema": schema})),
        ("jsonKeys", json!({"keys": ["a"]})),
        ("containsCode", json!({"format": "SQL", "not": true})),
        ("notNull", json!({})),
        ("modelWhitelist", json!({"models": ["gpt-*"]})),
        ("requiredMetadataKeys", json!({"metadataKeys": ["user"]})),
        ("pro.pii", json!({"categories": ["EMAIL_ADDRESS", "PHONE_NUMBER", "IP_ADDRESS", "CREDIT_CARD", "SSN"]})),
        ("pro.language", json!({"language": ["eng_Latn"]})),
    ]
}

fn compiled(id: &str, parameters: &Value) -> Arc<Guardrail> {
    let none = |_: &str| None;
    let checks = json!([{"id": id, "parameters": parameters}]);
    Arc::new(
        definition::saved(
            "g",
            &checks,
            &json!({}),
            &CompileContext { credentials: &none, trusted: &Trusted::default() },
        )
        .expect("a sound guardrail"),
    )
}

/// One judgement as the proxy has it: content from bytes, verdict, results in the answer.
fn judge(guardrail: &Arc<Guardrail>, body: &bytes::Bytes, facts: &Arc<Facts>) {
    let content = Content::new(body.clone(), BodyShape::Chat, Direction::Output);
    let facts = Arc::clone(facts);
    let subject = GuardrailSubject { content, request: None, request_is_transformed: false, status: Some(200), facts };
    let run = Run::begin(std::slice::from_ref(guardrail), subject, Timing::Sync, Timestamp(0));
    let judged = run.finish(Timestamp(0));
    let results = HookResults { before_request_hooks: Vec::new(), after_request_hooks: judged.results };
    black_box(with_results(body, &results));
}

fn measure(mut call: impl FnMut()) -> Duration {
    (0..ROUNDS / 10).for_each(|_| call());
    let started = Instant::now();
    (0..ROUNDS).for_each(|_| call());
    started.elapsed() / ROUNDS
}

fn main() {
    let facts = Facts { model: "gpt-4o".into(), metadata: vec![("user".into(), "ann".into())], ..Facts::default() };
    let facts = Arc::new(facts);
    for (id, parameters) in checks() {
        let guardrail = compiled(id, &parameters);
        let mut line = String::new();
        for times in [10, 1_000] {
            let text = WORDS.repeat(times);
            let body = json!({"choices": [{"message": {"role": "assistant", "content": text}}]}).to_string().into();
            let took = measure(|| judge(&guardrail, &body, &facts));
            line.push_str(&format!("{:>10.2} µs on {:>3} kB", took.as_secs_f64() * 1e6, text.len() / 1_000));
        }
        println!("{line}  {id}");
    }
}
