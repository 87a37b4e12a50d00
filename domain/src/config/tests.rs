//! What of a config is accepted, what is refused and where, and what plans come out.

use super::*;
use serde_json::json;

#[expect(clippy::needless_pass_by_value, reason = "called with literals")]
fn compiled(v: Value) -> Result<Config, Vec<Problem>> {
    let trusted = Trusted::default();
    let open = |s: &str| Some(Secret::new(s.to_owned()));
    let known = |s: &str| matches!(s, "openai" | "anthropic" | "groq");
    compile(&v, &Context { known_provider: &known, trusted: &trusted, open: &open, saved: false })
}

fn leaves(c: &Config, dice: f64) -> Vec<String> {
    c.plan(&mut || dice).attempts.iter().map(|a| a.leaf.path.to_string()).collect()
}

#[test]
fn every_problem_is_listed_with_its_path() {
    let problems = compiled(json!({
        "strategy": {"mode": "roundrobin", "on_status_codes": ["x"]},
        "retry": {"attempts": 9},
        "targets": [
            {"provider": "nobody", "weight": -1},
            {"provider": "openai", "custom_host": "http://10.0.0.1", "cache": {"mode": "simple"}},
            {"provider": "openai", "retires": 3, "requestTimeout": "1s"},
        ],
    }))
    .expect_err("has problems");
    let lines: Vec<String> = problems.iter().map(|p| p.path.clone()).collect();
    assert!(
        compiled(json!({"strategy": {"mode": "single"}, "provider": "openai", "targets": [{"provider": "openai"}]}))
            .is_err()
    );
    for path in [
        "strategy,mode",
        "strategy,on_status_codes",
        "retry,attempts",
        "targets,0,weight",
        "targets,0,provider",
        "targets,1,custom_host",
        "targets,1,cache",
        "targets,2,retires",
        "targets,2,request_timeout",
    ] {
        assert!(lines.contains(&path.to_owned()), "{path} in {lines:?}");
    }
}

#[test]
fn casings_are_one_and_given_twice_is_a_problem() {
    let c =
        compiled(json!({"provider": "openai", "apiKey": "k", "requestTimeout": 5, "overrideParams": {"maxTokens": 1}}));
    let c = c.expect("valid");
    let NodeKind::Leaf(leaf) = &c.root.kind else { panic!("a leaf") };
    assert_eq!(leaf.timeout_ms, Some(5));
    assert_eq!(leaf.overrides[0].0, "maxTokens", "contents of override_params keep their casing");
    assert!(compiled(json!({"provider": "openai", "api_key": "a", "apiKey": "b"})).is_err());
}

#[test]
fn children_inherit_and_override() {
    let c = compiled(json!({
        "strategy": {"mode": "fallback"}, "retry": {"attempts": 2, "on_status_codes": [500]}, "request_timeout": 100,
        "override_params": {"temperature": 0, "model": "a"},
        "targets": [
            {"provider": "openai", "override_params": {"model": "@p/b"}},
            {"provider": "anthropic", "retry": {"attempts": 1, "use_retry_after_headers": true}, "request_timeout": 7},
        ],
    }))
    .expect("valid");
    let plan = c.plan(&mut || 0.0);
    let [first, second] = [&plan.attempts[0].leaf, &plan.attempts[1].leaf];
    assert_eq!((first.retry.attempts, first.timeout_ms, first.model.as_deref()), (2, Some(100), Some("@p/b")));
    assert_eq!(first.overrides.len(), 2, "shallow merge, child wins");
    assert_eq!((second.retry.attempts, second.retry.use_retry_after, second.timeout_ms), (1, true, Some(7)));
    assert_eq!(&*second.retry.statuses, RETRY_STATUSES, "a child's retry replaces the parent's whole");
}

#[test]
fn fallback_walks_by_its_list_through_nested_levels() {
    let c = compiled(json!({
        "strategy": {"mode": "fallback", "on_status_codes": [429]},
        "targets": [
            {"strategy": {"mode": "fallback"}, "targets": [{"provider": "openai"}, {"provider": "groq"}]},
            {"provider": "anthropic"},
        ],
    }))
    .expect("valid");
    assert_eq!(leaves(&c, 0.0), ["config.targets[0].targets[0]", "config.targets[0].targets[1]", "config.targets[1]"]);
    let p = c.plan(&mut || 0.0);
    assert_eq!(p.next(0, 200, false), None);
    assert_eq!(p.next(0, 500, false), Some(1), "the inner one has no list");
    assert_eq!(p.next(1, 500, false), None, "500 is not in the outer list");
    assert_eq!(p.next(1, 429, false), Some(2));
    assert_eq!(p.next(0, 500, true), None, "a gateway exception stops");
    assert_eq!(p.next(2, 500, false), None);
}

#[test]
fn a_listed_2xx_moves_on_and_an_empty_list_never_does() {
    let with = |list: Value| {
        compiled(json!({"strategy": {"mode": "fallback", "on_status_codes": list},
                        "targets": [{"provider": "openai"}, {"provider": "groq"}]}))
        .expect("valid")
        .plan(&mut || 0.0)
    };
    assert_eq!(with(json!([200])).next(0, 200, false), Some(1));
    assert_eq!(with(json!([])).next(0, 500, false), None);
}

#[test]
fn weights_decide() {
    let c = compiled(json!({"strategy": {"mode": "loadbalance"}, "targets": [
        {"provider": "openai", "weight": 0}, {"provider": "groq", "weight": 3}, {"provider": "anthropic", "weight": 1}]}))
    .expect("valid");
    assert_eq!(leaves(&c, 0.0), ["config.targets[1]"], "a weight of 0 is never drawn");
    assert_eq!(leaves(&c, 0.74), ["config.targets[1]"]);
    assert_eq!(leaves(&c, 0.76), ["config.targets[2]"]);
    assert_eq!(leaves(&c, 0.999_999), ["config.targets[2]"]);
    assert!(
        compiled(json!({"strategy": {"mode": "loadbalance"}, "targets": [{"provider": "openai", "weight": 0}]}))
            .is_err()
    );
}

#[test]
fn managed_providers_are_named() {
    let c = compiled(json!({"strategy": {"mode": "single"}, "targets": [{"virtual_key": "vk"}, {"provider": "@p"}]}))
        .expect("valid");
    let slugs: Vec<String> = managed_slugs(&c).iter().map(ToString::to_string).collect();
    assert_eq!(slugs, ["vk", "p"]);
    let inline_host = json!({"provider": "@p", "custom_host": "https://api.example.com"});
    assert!(compiled(inline_host).is_err(), "a managed credential never meets an inline host");
    assert_eq!(split_model("@p/org/model"), Some(("p", "org/model")));
    assert_eq!(split_model("@p"), None);
}

#[test]
fn secrets_are_visited_at_every_depth() {
    let mut v = json!({"apiKey": "a", "targets": [{"api_key": "b", "override_params": {"api_key": "no"}}]});
    let mut seen = Vec::new();
    visit_secrets(&mut v, &mut |s| seen.push(std::mem::replace(s, "x".into())));
    assert_eq!(seen, ["a", "b"]);
    assert_eq!(v["targets"][0]["override_params"]["api_key"], "no");
}
