//! What of a config is accepted, what is refused and where, and what plans come out.

mod bounds;
mod hooks;
mod plans;
mod tables;

use super::plan::{Asks, NoTarget, Plan, RequestAttributes, Sticks};
use super::*;
use crate::egress::Trusted;
use crate::secret::Secret;
use serde_json::json;
use std::cell::RefCell;
use std::collections::HashMap;

const NOW: i64 = 1_700_000_000_000;

#[expect(clippy::needless_pass_by_value, reason = "called with literals")]
fn compiled(v: Value) -> Result<Config, Vec<ConfigProblem>> {
    read(&v, false)
}

fn read(v: &Value, saved: bool) -> Result<Config, Vec<ConfigProblem>> {
    let trusted = Trusted::default();
    let open = |s: &str| Some(Secret::new(s.to_owned()));
    let known = |s: &str| matches!(s, "openai" | "anthropic" | "groq" | "azure-openai" | "azure-ai");
    compile(v, &Context { known_provider: &known, trusted: &trusted, open: &open, saved })
}

#[track_caller]
fn valid(v: Value) -> Arc<Config> {
    Arc::new(compiled(v).expect("valid"))
}

/// A request without metadata, with this body.
#[derive(Default)]
struct StubRequest {
    metadata: HashMap<&'static str, &'static str>,
    params: Value,
}

impl RequestAttributes for StubRequest {
    fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).copied()
    }

    fn param(&self, key: &str) -> Option<&Value> {
        self.params.get(key)
    }

    fn pathname(&self) -> &str {
        "/v1/chat/completions"
    }
}

#[derive(Default)]
struct Memory(RefCell<HashMap<u128, (usize, i64)>>);

impl Sticks for Memory {
    fn find(&self, key: u128, now_ms: i64) -> Option<usize> {
        self.0.borrow().get(&key).filter(|(_, until)| *until > now_ms).map(|(place, _)| *place)
    }

    fn keep(&self, key: u128, place: usize, until_ms: i64) {
        self.0.borrow_mut().insert(key, (place, until_ms));
    }
}

/// Everything that choosing depends on, at hand.
#[derive(Default)]
struct World {
    dice: f64,
    later_ms: i64,
    request: StubRequest,
    memory: Memory,
    /// The breakers of each config, by the address at which it lies in memory.
    breakers: RefCell<HashMap<usize, Breakers>>,
}

impl World {
    fn breakers(&self, config: &Arc<Config>) -> Breakers {
        let mut known = self.breakers.borrow_mut();
        known.entry(Arc::as_ptr(config).addr()).or_insert_with(|| BreakerSet::new(config).all().clone()).clone()
    }

    fn ask<T>(&self, config: &Arc<Config>, then: impl FnOnce(&mut Asks<'_>) -> T) -> T {
        let mut dice = || self.dice;
        let breakers = self.breakers(config);
        then(&mut Asks {
            dice: &mut dice,
            now_ms: NOW + self.later_ms,
            look: &self.request,
            sticks: &self.memory,
            breakers: &breakers,
            tenant: b"tenant",
        })
    }

    fn begin(&self, config: &Arc<Config>) -> Result<Plan, NoTarget> {
        self.ask(config, |asks| Plan::begin(config.clone(), asks))
    }

    /// The paths that a plan goes through when each is answered with `status`.
    fn walk(&self, config: &Arc<Config>, status: u16) -> Vec<String> {
        let mut plan = self.begin(config).expect("a target");
        let mut out = vec![plan.leaf().path.to_string()];
        while self.ask(config, |asks| plan.next(status, false, asks)) {
            out.push(plan.leaf().path.to_string());
        }
        out
    }
}

fn only(config: &Config) -> &Leaf {
    config.leaves().next().expect("a leaf")
}

#[test]
fn casings_are_one_and_given_twice_is_a_problem() {
    let c =
        valid(json!({"provider": "openai", "apiKey": "k", "requestTimeout": 5, "overrideParams": {"maxTokens": 1}}));
    assert_eq!(only(&c).timeout_ms, Some(5));
    assert_eq!(only(&c).overrides[0].0, "maxTokens", "contents of override_params keep their casing");
    assert!(compiled(json!({"provider": "openai", "api_key": "a", "apiKey": "b"})).is_err());
    for spelling in
        ["strict_open_ai_compliance", "strictOpenAiCompliance", "strict_openai_compliance", "strictOpenAICompliance"]
    {
        let mut config = json!({"provider": "openai"});
        config[spelling] = json!(false);
        assert_eq!(only(&valid(config)).strict, Some(false), "{spelling}");
    }
}

#[test]
fn children_inherit_and_override() {
    let c = valid(json!({
        "strategy": {"mode": "fallback"}, "retry": {"attempts": 2, "on_status_codes": [500]}, "request_timeout": 100,
        "override_params": {"temperature": 0, "model": "a"}, "default_params": {"n": 1, "user": "p"},
        "drop_params": ["a.b"], "custom_host": "https://p.example.com", "forward_headers": ["X-A"],
        "strict_open_ai_compliance": false,
        "targets": [
            {"provider": "openai", "override_params": {"model": "@p/b"}, "default_params": {"user": "c"},
             "drop_params": ["c"]},
            {"provider": "anthropic", "retry": {"attempts": 1, "use_retry_after_headers": true}, "request_timeout": 7,
             "custom_host": "https://c.example.com", "forward_headers": ["x-b"], "strict_open_ai_compliance": true},
        ],
    }));
    let leaves: Vec<&Arc<Leaf>> = c.leaves().collect();
    let [first, second] = [leaves[0], leaves[1]];
    assert_eq!((first.retry.attempts, first.timeout_ms, first.model.as_deref()), (2, Some(100), Some("@p/b")));
    assert_eq!(first.overrides.len(), 2, "shallow merge, child wins");
    assert_eq!(*first.defaults, [("n".into(), "1".into()), ("user".into(), "\"c\"".into())]);
    assert_eq!((first.drops.len(), second.drops.len()), (2, 1), "both what the parent and what the child drops");
    assert_eq!((second.retry.attempts, second.retry.use_retry_after, second.timeout_ms), (1, true, Some(7)));
    assert_eq!(&*second.retry.statuses, RETRY_STATUSES, "a child's retry replaces the parent's whole");
    let hosts = [first, second].map(|l| l.custom_host.as_ref().expect("a host").authority());
    assert_eq!(hosts, ["p.example.com", "c.example.com"]);
    assert_eq!((&*first.forward_headers, &*second.forward_headers), (&["x-a".to_owned()][..], &["x-b".to_owned()][..]));
    assert_eq!((first.strict, second.strict), (Some(false), Some(true)));
}

#[test]
fn managed_providers_are_named_with_their_place() {
    let c = valid(json!({"strategy": {"mode": "single"}, "targets": [
        {"virtual_key": "vk"},
        {"strategy": {"mode": "single"}, "targets": [{"provider": "@p", "override_params": {"model": "@q/m"}}]},
    ]}));
    let named: Vec<(String, String)> = managed_slugs(&c).into_iter().map(|n| (n.slug.to_string(), n.path)).collect();
    let named: Vec<(&str, &str)> = named.iter().map(|(s, p)| (s.as_str(), p.as_str())).collect();
    assert_eq!(
        named,
        [
            ("vk", "targets,0,provider"),
            ("p", "targets,1,targets,0,provider"),
            ("q", "targets,1,targets,0,override_params,model"),
        ]
    );
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
