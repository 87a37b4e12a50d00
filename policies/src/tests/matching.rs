//! Which calls a policy applies to, as a table: condition, call, verdict.

use super::fixture::{KEY, WORKSPACE, found, index, pairs, requests, subject};
use crate::{Stage, Subject};
use gateway_domain::id::KeyId;
use serde_json::{Value, json};
use uuid::Uuid;

/// Whether a policy with these conditions and groups takes from the call, in either stage.
fn applies(conditions: &Value, groups: &[&str], subject: &Subject<'_>) -> bool {
    let index = index(&[requests("rpm", 1, conditions, groups)]);
    let asks = |stage| found(&index, stage, subject).len();
    let (caller, target) = (asks(Stage::Caller), asks(Stage::Target));
    assert!(caller + target <= 1, "counted twice: {conditions}");
    caller + target == 1
}

fn of_metadata(conditions: &Value, metadata: &[(&str, &str)]) -> bool {
    applies(conditions, &[], &Subject { metadata: &pairs(metadata), ..subject() })
}

fn of_model(condition: &Value, model: &str) -> bool {
    applies(&json!([condition]), &[], &Subject { model: Some(model), ..subject() })
}

#[test]
fn each_key_looks_at_its_own_attribute() {
    let metadata = pairs(&[("_user", "ann")]);
    let full = Subject {
        metadata: &metadata,
        virtual_key: Some("openai-prod"),
        provider: Some("openai"),
        config: Some("pc-main"),
        prompt: Some("pp-hello"),
        ..subject()
    };
    for (key, value) in [
        ("api_key", KEY),
        ("workspace_id", WORKSPACE),
        ("virtual_key", "openai-prod"),
        ("provider", "openai"),
        ("config", "pc-main"),
        ("prompt", "pp-hello"),
        ("model", "gpt-4o"),
        ("endpoint_type", "chatComplete"),
        ("metadata._user", "ann"),
    ] {
        let is = |value: &str| applies(&json!([{"key": key, "value": value}]), &[], &full);
        assert!(is(value), "{key} is {value}");
        assert!(is("*"), "{key} is there");
        assert!(!is("other") && !is(&Uuid::nil().to_string()), "{key} is not another");
        assert!(applies(&json!([{"key": key, "excludes": "other"}]), &[], &full), "{key} is not excluded");
        assert!(!applies(&json!([{"key": key, "excludes": [value]}]), &[], &full), "{key} is excluded");
        assert!(!applies(&json!([{"key": key, "excludes": "*"}]), &[], &full), "any {key} is excluded");
        assert!(applies(&json!([{"key": "model", "value": "*"}]), &[key], &full), "grouped by {key}");
    }
}

#[test]
fn a_missing_value_meets_nothing() {
    let none = Subject { api_key: None, model: None, endpoint_type: "", config: Some(""), ..subject() };
    for key in ["api_key", "virtual_key", "provider", "config", "prompt", "model", "endpoint_type", "metadata._user"] {
        for condition in [json!({"key": key, "value": "*"}), json!({"key": key, "excludes": "other"})] {
            assert!(!applies(&json!([condition]), &[], &none), "{condition}");
        }
        assert!(!applies(&json!([{"key": "workspace_id", "value": "*"}]), &[key], &none), "grouped by {key}");
    }
    assert!(!of_metadata(&json!([{"key": "metadata.team", "value": "*"}]), &[("team", "")]), "empty is missing");
}

#[test]
fn conditions_all_values_any() {
    let team = |v: &Value| json!([{"key": "metadata.team", "value": v}, {"key": "metadata.env", "value": "prod"}]);
    for (conditions, metadata, expected) in [
        (team(&json!("a")), &[("team", "a"), ("env", "prod")][..], true),
        (team(&json!("a")), &[("team", "a"), ("env", "dev")], false),
        (team(&json!("a")), &[("team", "a")], false),
        (team(&json!("a")), &[("env", "prod")], false),
        (team(&json!(["b", "a", "c"])), &[("env", "prod"), ("team", "c")], true),
        (team(&json!(["b", "a", "b"])), &[("env", "prod"), ("team", "b")], true),
        (team(&json!(["b", "a"])), &[("env", "prod"), ("team", "c")], false),
        (team(&json!(["b", "*"])), &[("env", "prod"), ("team", "c")], true),
    ] {
        assert_eq!(of_metadata(&conditions, metadata), expected, "{conditions} on {metadata:?}");
    }
}

#[test]
fn what_is_excluded_never_matches() {
    let rule = json!([{"key": "metadata.team", "value": "*", "excludes": ["x", "y"]}]);
    for (team, expected) in [("a", true), ("x", false), ("y", false), ("xy", true)] {
        assert_eq!(of_metadata(&rule, &[("team", team)]), expected, "{team}");
    }
    let both = json!([{"key": "metadata.team", "value": ["a", "b"], "excludes": "b"}]);
    assert!(of_metadata(&both, &[("team", "a")]) && !of_metadata(&both, &[("team", "b")]));
}

#[test]
fn wildcards_inside_a_value_are_for_models_only() {
    assert!(!of_metadata(&json!([{"key": "metadata.team", "value": "a*"}]), &[("team", "abc")]));
    assert!(of_metadata(&json!([{"key": "metadata.team", "value": "a*"}]), &[("team", "a*")]));
    assert!(!of_metadata(&json!([{"key": "metadata.team", "value": "**"}]), &[("team", "abc")]));
}

#[test]
fn models() {
    for (value, model, expected) in [
        (json!("gpt-4o"), "gpt-4o", true),
        (json!("gpt-4o"), "gpt-4o-mini", false),
        (json!("gpt-4o"), "GPT-4o", false),
        (json!("gpt-4*"), "gpt-4o-mini", true),
        (json!("gpt-4*"), "gpt-3.5", false),
        (json!("gpt-*-mini"), "gpt-4o-mini", true),
        (json!("*-mini"), "gpt-4o-mini", true),
        (json!("*-mini"), "gpt-4o", false),
        (json!(["o3", "gpt-4*"]), "gpt-4o", true),
        (json!(["gpt-4o", "gpt-4*", "*4o"]), "gpt-4o", true),
        (json!("@openai/gpt-4o"), "@openai/gpt-4o", true),
        (json!("@openai/gpt-4o"), "gpt-4o", false),
        (json!("@openai/gpt-4o"), "@azure/gpt-4o", false),
        (json!("@openai/*"), "@openai/gpt-4o", true),
        (json!("@openai/*"), "@openai-eu/gpt-4o", false),
        (json!("@openai/*"), "gpt-4o", false),
        (json!("@*/gpt-4o"), "@openai/gpt-4o", true),
        // However a model is addressed, its name stays what it is.
        (json!("gpt-4o"), "@openai/gpt-4o", true),
        (json!("gpt-4*"), "@openai/gpt-4o", true),
        (json!("gpt-4*"), "@openai/o3", false),
        (json!("meta/llama-*"), "@groq/meta/llama-3", true),
        (json!("llama-*"), "meta/llama-3", false),
        (json!("é*"), "ü", false),
        (json!("éa*"), "éab", true),
    ] {
        assert_eq!(of_model(&json!({"key": "model", "value": value}), model), expected, "{value} on {model}");
    }
    let but = json!({"key": "model", "value": "*", "excludes": ["*-mini", "o3"]});
    for (model, expected) in [("gpt-4o", true), ("gpt-4o-mini", false), ("o3", false), ("@p/o3", false), ("o3x", true)]
    {
        assert_eq!(of_model(&but, model), expected, "{model}");
    }
}

#[test]
fn an_unread_model_counts_as_matching() {
    let unread = Subject { model: None, unread: true, ..subject() };
    for condition in [
        json!({"key": "model", "value": "gpt-4o"}),
        json!({"key": "model", "value": ["gpt-*", "@p/*"]}),
        json!({"key": "model", "value": "*"}),
        json!({"key": "model", "excludes": "*-mini"}),
    ] {
        assert!(applies(&json!([condition]), &[], &unread), "{condition}");
        let with = |key: &str| json!([condition, {"key": "api_key", "value": key}]);
        assert!(applies(&with(KEY), &[], &unread), "{condition} of this key");
        assert!(!applies(&with(&Uuid::nil().to_string()), &[], &unread), "{condition} of another key");
    }
    assert!(applies(&json!([{"key": "api_key", "value": "*"}]), &["model"], &unread), "grouped as unread");
    assert!(!applies(&json!([{"key": "config", "value": "*"}]), &[], &unread), "headers are always read");
    let told = Subject { model: Some("o3"), unread: true, ..subject() };
    assert!(!applies(&json!([{"key": "model", "value": "gpt-4o"}]), &[], &told), "a model that is known counts");
}

#[test]
fn target_keys_wait_for_the_target() {
    let rules = [
        requests("rpm", 1, &json!([{"key": "api_key", "value": "*"}]), &[]),
        requests("rpm", 1, &json!([{"key": "provider", "value": "openai"}]), &[]),
        requests("rpm", 1, &json!([{"key": "virtual_key", "excludes": "x"}, {"key": "model", "value": "*"}]), &[]),
        requests("rpm", 1, &json!([{"key": "model", "value": "gpt-4o"}]), &["virtual_key"]),
    ];
    let index = index(&rules);
    let call = Subject { provider: Some("openai"), virtual_key: Some("prod"), ..subject() };
    let sorted = |stage| {
        let mut slugs = found(&index, stage, &call);
        slugs.sort_unstable();
        slugs
    };
    assert_eq!(sorted(Stage::Caller), ["policy-1"]);
    assert_eq!(sorted(Stage::Target), ["policy-2", "policy-3", "policy-4"]);
}

#[test]
fn ids_match_however_they_are_spelled() {
    let condition = json!([{"key": "api_key", "value": ["not an id", KEY.to_uppercase()]}]);
    assert!(applies(&condition, &[], &subject()));
    assert!(!applies(&condition, &[], &Subject { api_key: Some(KeyId(Uuid::nil())), ..subject() }));
}

#[test]
fn the_first_pair_of_a_name_counts() {
    let twice = [("team", "a"), ("team", "b")];
    assert!(of_metadata(&json!([{"key": "metadata.team", "value": ["a", "b"]}]), &twice));
    assert!(!of_metadata(&json!([{"key": "metadata.team", "value": "b"}]), &twice));
}

#[test]
fn tool_calls_have_policies_of_their_own() {
    let of_tools = |conditions: Value, groups: &[&str]| {
        let mut rule = requests("rpm", 1, &conditions, groups);
        rule["target"] = json!("mcp_tools");
        rule
    };
    let anyone = json!([{"key": "workspace_id", "value": "*"}]);
    let index = index(&[
        requests("rpm", 1, &anyone, &[]),
        of_tools(anyone, &[]),
        of_tools(json!([{"key": "mcp_server", "value": ["files", "mail"]}]), &["mcp_tool"]),
        of_tools(
            json!([{"key": "mcp_tool", "value": "send", "excludes": "read"}, {"key": "mcp_server", "value": "*"}]),
            &[],
        ),
        of_tools(json!([{"key": "mcp_server", "excludes": "mail"}]), &["api_key"]),
    ]);
    let tool = |server, tool| Subject { mcp_server: Some(server), mcp_tool: Some(tool), model: None, ..subject() };
    let sorted = |stage, call: &Subject<'_>| {
        let mut slugs = found(&index, stage, call);
        slugs.sort_unstable();
        slugs
    };
    assert_eq!(sorted(Stage::Tool, &tool("mail", "send")), ["policy-2", "policy-3", "policy-4"]);
    assert_eq!(sorted(Stage::Tool, &tool("files", "read")), ["policy-2", "policy-3", "policy-5"]);
    // The api key is unavailable where tool calls are signed in by OAuth.
    assert_eq!(sorted(Stage::Tool, &Subject { api_key: None, ..tool("web", "send") }), ["policy-2", "policy-4"]);
    assert_eq!(sorted(Stage::Caller, &subject()), ["policy-1"]);
    assert!(sorted(Stage::Target, &subject()).is_empty());
}
