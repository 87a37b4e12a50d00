//! Guardrails in each of their written forms, and each refusal with the check and the field that it names.

use super::{CompileContext, ListedGuardrail, raw_hooks, shorthand};
use crate::fixture::compile;
use crate::{Direction, GuardrailProblem, HookType, StreamMode, stream_mode};
use gateway_domain::egress::Trusted;
use serde_json::{Map, Value, json};
use std::sync::{Arc, LazyLock};

fn none(_: &str) -> Option<Map<String, Value>> {
    None
}

static NOBODY: LazyLock<Trusted> = LazyLock::new(Trusted::default);

fn setup() -> CompileContext<'static> {
    CompileContext { credentials: &none, trusted: &NOBODY }
}

/// A check as it is written, and how the problem begins.
type RefusedCheck = (Value, &'static str);

/// Checks of texts that are refused.
fn refusals_of_texts() -> Vec<RefusedCheck> {
    let long = "a".repeat(70_000);
    let many = vec!["a"; 10_001];
    vec![
        (json!({"id": "contains"}), "check `default.contains`: `words` is required"),
        (json!({"id": "contains", "parameters": {"words": []}}), "check `default.contains`: `words` must not be empty"),
        (
            json!({"id": "contains", "parameters": {"words": [1]}}),
            "check `default.contains`: `words` must be a list of strings",
        ),
        (
            json!({"id": "contains", "parameters": {"words": many}}),
            "check `default.contains`: `words` must have at most 10000 entries",
        ),
        (
            json!({"id": "contains", "parameters": {"words": ["a"], "operator": "some"}}),
            "check `default.contains`: `operator` must be one of: any, all, none",
        ),
        (
            json!({"id": "contains", "parameters": {"words": ["a"], "word": 1}}),
            "check `default.contains`: `word` is not a parameter of this check",
        ),
        (
            json!({"id": "contains", "parameters": {"words": [long]}}),
            "check `default.contains`: `parameters` must have at most 65536 bytes",
        ),
        (
            json!({"id": "contains", "parameters": {"words": ["a"], "failOnError": 1}}),
            "check `default.contains`: `failOnError` must be true or false",
        ),
        (
            json!({"id": "contains", "parameters": {"words": ["a"], "scan_scope": "x"}}),
            "check `default.contains`: `scan_scope` must be one of: last_message, last_user_message, user_messages, all_messages",
        ),
        (
            json!({"id": "regexMatch", "parameters": {"rule": "("}}),
            "check `default.regexMatch`: `rule` has an unclosed group",
        ),
        (
            json!({"id": "regexReplace", "parameters": {"rule": "/a/y"}}),
            "check `default.regexReplace`: `rule` must not be sticky (`y`): every match is replaced",
        ),
        (
            json!({"id": "wordCount", "parameters": {"minWords": -1}}),
            "check `default.wordCount`: `minWords` must be an integer of 0..9007199254740992",
        ),
        (
            json!({"id": "wordCount", "parameters": {"minWords": 3, "maxWords": 2}}),
            "check `default.wordCount`: `maxWords` must not be below the minimum",
        ),
        (
            json!({"id": "jsonSchema", "parameters": {"schema": {"$ref": "https://a.example/s.json"}}}),
            "check `default.jsonSchema`: `schema` is no schema that can be used: ",
        ),
        (
            json!({"id": "jsonSchema", "parameters": {"schema": {"pattern": "(?=a)b"}}}),
            "check `default.jsonSchema`: `schema` is no schema that can be used: ",
        ),
        (
            json!({"id": "containsCode", "parameters": {"format": "Cobol"}}),
            "check `default.containsCode`: `format` must be one of: SQL, ",
        ),
    ]
}

/// Checks that ask outside and are refused.
fn refusals_of_outside() -> Vec<RefusedCheck> {
    vec![
        (
            json!({"id": "webhook", "parameters": {"webhookURL": "ftp://a"}}),
            "check `default.webhook`: `webhookURL` must begin with https:// or http://",
        ),
        (
            json!({"id": "webhook", "parameters": {"webhookURL": "https://u:p@a.example"}}),
            "check `default.webhook`: `webhookURL` must not contain credentials",
        ),
        (
            json!({"id": "webhook", "parameters": {"webhookURL": "https://a.example", "timeout": 0}}),
            "check `default.webhook`: `timeout` must be an integer of 1..60000",
        ),
        (
            json!({"id": "webhook", "parameters": {"webhookURL": "https://a.example", "headers": {"host": "x"}}}),
            "check `default.webhook`: `headers.host` belongs to the connection and cannot be set",
        ),
        (
            json!({"id": "webhook", "parameters": {"webhookURL": "https://a.example", "headers": {"x": "a\nb"}}}),
            "check `default.webhook`: `headers.x` must be a text that a header can hold",
        ),
        (
            json!({"id": "jwt", "parameters": {}}),
            "check `default.jwt`: `jwksUri` or one of `jwks` and `introspectEndpoint` is required, and only one",
        ),
        (
            json!({"id": "jwt", "parameters": {"jwksUri": "https://a.example", "algorithms": ["HS256"]}}),
            "check `default.jwt`: `algorithms` must not hold `HS256`; known are: ",
        ),
        (
            json!({"id": "jwt", "parameters": {"jwksUri": "https://a.example", "extractClaims": ["a"]}}),
            "check `default.jwt`: `extractClaims` is not served: claims are judged, and go into no header",
        ),
        (
            json!({"id": "pangea.pii", "parameters": {}}),
            "check `pangea.pii`: `credentials.apiKey` is required: save it for the organisation, or give it here",
        ),
        (
            json!({"id": "lakera.guard", "parameters": {"credentials": {"apiKey": "k", "apiBase": "http://a.example"}}}),
            "check `lakera.guard`: `credentials.apiBase` must begin with https://",
        ),
        (
            json!({"id": "pangea.pii", "parameters": {"credentials": {"apiKey": "k", "domain": "a/b"}}}),
            "check `pangea.pii`: `credentials.domain` must be the name of a host",
        ),
        (
            json!({"id": "pangea.pii", "parameters": {"redact": "yes", "credentials": {"apiKey": "k", "domain": "a.example"}}}),
            "check `pangea.pii`: `redact` must be true or false",
        ),
        (
            json!({"id": "bedrock.guard", "parameters": {"guardrailId": "g/x", "guardrailVersion": "1", "credentials": {"awsRegion": "us-east-1"}}}),
            "check `bedrock.guard`: `guardrailId` must be letters, digits and hyphens",
        ),
    ]
}

/// Checks that are refused for their ids or their form, and checks of requests.
fn refusals_of_forms() -> Vec<RefusedCheck> {
    vec![
        (json!({"id": "nothing"}), "check `default.nothing` is not a check that this gateway knows"),
        (json!({"id": "acme.scan"}), "check `acme.scan` is not a check that this gateway knows"),
        (json!({"id": "pro.gibberish"}), "check `pro.gibberish` needs a model that this gateway does not serve"),
        (
            json!({"id": "jsonSchema", "parameters": {"schema": {"type": "nothing"}}}),
            "check `default.jsonSchema`: `schema` is no schema that can be used: ",
        ),
        (
            json!({"id": "allowedRequestTypes", "parameters": {"allowedTypes": ["a"], "blockedTypes": ["a"]}}),
            "check `default.allowedRequestTypes`: `blockedTypes` must not hold `a`, which is allowed too",
        ),
        (
            json!({"id": "requestParametersCheck", "parameters": {"params": {"allowedKeys": ["a"], "blockedKeys": ["a"]}}}),
            "check `default.requestParametersCheck`: `params.blockedKeys` must not hold `a`, which is allowed too",
        ),
        (
            json!({"id": "requestParametersCheck", "parameters": {"params": {"keys": ["a"]}}}),
            "check `default.requestParametersCheck`: `params.keys` is not a parameter of this check",
        ),
        (
            json!({"id": "pro.pii", "parameters": {"categories": ["NAME"]}}),
            "check `pro.pii`: `categories` must not hold `NAME`, which needs an analyser",
        ),
        (
            json!({"id": "pro.language", "parameters": {"language": ["english"]}}),
            "check `pro.language`: `language` must not hold `english`: codes are ISO 639-3 with a script, such as eng_Latn",
        ),
        (json!({"parameters": {}}), "`checks[0].id` is required"),
        (
            json!({"id": "contains", "enabled": true, "parameters": {"words": ["a"]}}),
            "`checks[0].enabled` is not a known key",
        ),
        (json!({"id": "contains", "is_enabled": false}), "check `default.contains`: `words` is required"),
        (json!("contains"), "`checks[0]` must be an object"),
    ]
}

/// Each refusal names check, field and rule.
#[test]
fn refusals_name_check_and_field() {
    let all = [refusals_of_texts(), refusals_of_outside(), refusals_of_forms()].concat();
    for (check, expected) in all {
        let problems = compile(&json!([check]), &json!({})).expect_err(&check.to_string());
        let told: Vec<String> = problems.iter().map(GuardrailProblem::to_string).collect();
        assert!(told.iter().any(|t| t.starts_with(expected)), "{expected}\nwas {told:?}");
        assert!(told.iter().all(|t| t.len() < 2_000));
    }
    for (checks, actions, expected) in [
        (json!([]), json!({}), "`checks` must hold at least one check"),
        (json!({}), json!({}), "`checks` must be a list of at least one check"),
        (json!(vec![json!({"id": "notNull"}); 51]), json!({}), "`checks` must have at most 50 entries"),
        (json!([{"id": "notNull"}]), json!({"deny": 1}), "`actions.deny` must be true or false"),
        (json!([{"id": "notNull"}]), json!({"denied": true}), "`actions.denied` is not a known key"),
        (
            json!([{"id": "notNull"}]),
            json!({"on_fail": {"feedback": {"value": "x"}}}),
            "`on_fail.feedback.value` must be a number",
        ),
        (
            json!([{"id": "notNull"}]),
            json!({"on_fail": {"feedback": {"metadata": "x"}}}),
            "`on_fail.feedback.metadata` must be an object, or the JSON text of one",
        ),
        (
            json!([{"id": "notNull"}]),
            json!({"stream": {"mode": "wait"}}),
            "`stream.mode` must be one of: auto, hold, window, after",
        ),
        (
            json!([{"id": "notNull"}]),
            json!({"stream": {"overlap": 0}}),
            "`stream.overlap` must be an integer of 1..8192",
        ),
    ] {
        let problems = compile(&checks, &actions).expect_err(expected);
        assert!(problems.iter().any(|p| p.to_string() == expected), "{expected}\nwas {problems:?}");
    }
}

/// What needs the whole text cannot flow, what rewrites cannot come after.
#[test]
fn stream_modes_that_a_check_cannot_run_in_are_refused() {
    let schema = json!([{"id": "jsonSchema", "parameters": {"schema": {}}}]);
    let replace = json!([{"id": "regexReplace", "parameters": {"rule": "a"}}]);
    let told =
        |checks: &Value, mode: &str| compile(checks, &json!({"stream": mode})).map_err(|p| p[0].to_string()).err();
    assert_eq!(
        told(&schema, "window").as_deref(),
        Some("check `default.jsonSchema`: `stream.mode` must not be `window`: this check needs the whole text")
    );
    assert_eq!(
        told(&replace, "after").as_deref(),
        Some("check `default.regexReplace`: `stream.mode` must not be `after`: this check rewrites")
    );
    assert_eq!((told(&schema, "hold"), told(&schema, "after"), told(&replace, "window")), (None, None, None));
}

/// One that holds holds the stream, and what `auto` means.
#[test]
fn modes_follow_the_checks() {
    let forbid = json!({"id": "contains", "parameters": {"words": ["a"], "operator": "none"}});
    let want = json!({"id": "contains", "parameters": {"words": ["a"]}});
    for (checks, actions, expected) in [
        (json!([forbid]), json!({}), StreamMode::Window),
        (json!([{"id": "regexReplace", "parameters": {"rule": "a"}}]), json!({}), StreamMode::Window),
        (json!([{"id": "regexMatch", "parameters": {"rule": "a", "not": true}}]), json!({}), StreamMode::Window),
        (json!([{"id": "wordCount", "parameters": {"maxWords": 9}}]), json!({"deny": true}), StreamMode::Window),
        (json!([{"id": "alluppercase"}]), json!({}), StreamMode::Window),
        (json!([want]), json!({}), StreamMode::After),
        (json!([want]), json!({"deny": true}), StreamMode::Hold),
        (json!([forbid, want]), json!({"deny": true}), StreamMode::Hold),
        (json!([{"id": "wordCount", "parameters": {"minWords": 1}}]), json!({}), StreamMode::After),
        (json!([{"id": "webhook", "parameters": {"webhookURL": "https://a.example"}}]), json!({}), StreamMode::Hold),
        (
            json!([{"id": "pangea.pii", "parameters": {"credentials": {"apiKey": "k", "domain": "d.example"}}}]),
            json!({}),
            StreamMode::Window,
        ),
        (
            json!([{"id": "pangea.pii", "parameters": {"redact": true, "credentials": {"apiKey": "k", "domain": "d.example"}}}]),
            json!({}),
            StreamMode::Hold,
        ),
        (json!([forbid]), json!({"stream": {"mode": "hold", "window": 100}}), StreamMode::Hold),
    ] {
        assert_eq!(compile(&checks, &actions).unwrap().stream_mode(), expected, "{checks} {actions}");
    }
    let window = compile(&json!([forbid]), &json!({})).unwrap();
    let hold = compile(&json!([want]), &json!({"deny": true})).unwrap();
    let after = compile(&json!([want]), &json!({})).unwrap();
    let beside = compile(&json!([want]), &json!({"deny": true, "async": true})).unwrap();
    assert_eq!(stream_mode([&window, &hold]), Some(StreamMode::Hold));
    assert_eq!(stream_mode([&after, &window]), Some(StreamMode::Window));
    assert_eq!(stream_mode([&after]), Some(StreamMode::After));
    assert_eq!(stream_mode([&beside]), None);
}

fn inline(entry: &ListedGuardrail) -> &Arc<crate::Guardrail> {
    match entry {
        ListedGuardrail::Inline(guardrail) => guardrail,
        ListedGuardrail::Saved(slug) => panic!("saved {slug}"),
    }
}

#[test]
fn raw_hooks_are_read_in_both_casings() {
    let list = json!([
        {"id": "my-slug"},
        {"id": "h", "checks": [{"id": "default.notNull"}], "deny": true, "onFail": {"feedback": {"value": -1}}, "softDeny200": true},
        {"type": "mutator", "checks": [{"id": "addPrefix", "parameters": {"prefix": "p"}}], "sequential": true}]);
    let entries = raw_hooks(&list, Direction::Input, &setup()).unwrap();
    assert!(matches!(&entries[0], ListedGuardrail::Saved(slug) if slug == "my-slug"));
    let second = inline(&entries[1]);
    assert!(
        second.id() == "h"
            && second.actions().deny
            && second.actions().soft_deny_200
            && second.hook_type() == HookType::Guardrail
    );
    assert!(second.actions().on_fail.is_some());
    let third = inline(&entries[2]);
    assert!(
        third.id().starts_with("input_guardrail_")
            && third.hook_type() == HookType::Mutator
            && third.actions().sequential
    );
    let problems = raw_hooks(&json!([{"id": "a", "deny": true, "DENY": true}]), Direction::Input, &setup());
    assert!(problems.is_err());
    assert!(raw_hooks(&json!(vec![json!({"id": "a"}); 21]), Direction::Input, &setup()).is_err());
}

#[test]
fn the_short_form_is_slugs_and_checks() {
    let list = json!(["my-slug", {
        "default.contains": {"words": ["a"], "operator": "none"}, "wordCount": {"maxWords": 5, "is_enabled": false},
        "other": {"id": "default.notNull"}, "deny": true, "async": false, "onSuccess": {"feedback": {"value": 1}},
        "guardrail_version_id": "v", "stream": "hold"}, {"id": "saved-one"}]);
    let entries = shorthand(&list, Direction::Output, HookType::Guardrail, &setup()).unwrap();
    assert!(matches!(&entries[0], ListedGuardrail::Saved(slug) if slug == "my-slug"));
    assert!(matches!(&entries[2], ListedGuardrail::Saved(slug) if slug == "saved-one"));
    let guardrail = inline(&entries[1]);
    let ids: Vec<&str> = guardrail.checks().iter().map(|c| c.id()).collect();
    assert_eq!(ids, ["default.contains", "default.notNull"]);
    assert!(guardrail.actions().deny && guardrail.id().starts_with("output_guardrail_"));
    assert_eq!(guardrail.stream_mode(), StreamMode::Hold);
    let mutators =
        shorthand(&json!([{"addPrefix": {"prefix": "p"}}]), Direction::Input, HookType::Mutator, &setup()).unwrap();
    assert_eq!(inline(&mutators[0]).hook_type(), HookType::Mutator);
    for (list, expected) in [
        (json!({}), "must be a list"),
        (json!([1]), "`[0]` must be a slug or an object of checks"),
        (json!([""]), "`[0]` must be a slug or an object of checks"),
        (json!([{"deny": true}]), "`checks` must hold at least one check"),
        (json!([{"contains": 1}]), "check `contains` must be an object of parameters"),
        (
            json!([{"contains": {"words": ["a"], "is_enabled": "no"}}]),
            "check `contains`: `is_enabled` must be true or false",
        ),
    ] {
        let problems = shorthand(&list, Direction::Input, HookType::Guardrail, &setup()).expect_err(expected);
        assert_eq!(problems[0].to_string(), expected);
    }
}

/// Which of the client's headers may be sent on.
#[test]
fn headers_that_are_never_sent_on_are_refused() {
    let told = |name: &str| {
        let parameters = json!({"webhookURL": "https://a.example", "forwardHeaders": [name]});
        compile(&json!([{"id": "webhook", "parameters": parameters}]), &json!({})).map_err(|p| p[0].to_string()).err()
    };
    for name in ["x-team", "traceparent", "x-gateway-trace-id", "X-Gateway-Span-Id", "user-agent"] {
        assert_eq!(told(name), None, "{name}");
    }
    for name in [
        "authorization",
        "Authorization",
        "x-api-key",
        "api-key",
        "ocp-apim-subscription-key",
        "proxy-authorization",
        "cookie",
        "metadata",
        "metadata-flavor",
        "x-aws-ec2-metadata-token",
        "x-aws-ec2-metadata-token-ttl-seconds",
        "x-gateway-api-key",
        "x-gateway-config",
        "host",
        "connection",
        "transfer-encoding",
        "a b",
        "x:y",
        "é",
    ] {
        assert!(
            told(name).is_some_and(|t| t.starts_with("check `default.webhook`: `forwardHeaders[0]` must")),
            "{name}"
        );
    }
}
