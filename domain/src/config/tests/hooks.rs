//! Where guardrails of a config stand, and which of them a target has.

use super::super::hooks::{HookKey, HookSide};
use super::*;

/// The lists that a target has for a side: their keys, paths and values.
fn of(config: &Config, leaf: usize, side: HookSide) -> Vec<(HookKey, String, Value)> {
    let leaf = config.leaves().nth(leaf).expect("a target");
    let place = match side {
        HookSide::Input => leaf.hooks.input,
        HookSide::Output => leaf.hooks.output,
    };
    let lists = place.map(|place| &config.hooks[place].lists);
    lists.into_iter().flatten().map(|l| (l.key, l.path.clone(), l.value.clone())).collect()
}

#[test]
fn a_target_inherits_each_side_or_sets_it() {
    let c = valid(json!({
        "inputGuardrails": ["in"], "after_request_hooks": [{"id": "after"}], "outputMutators": ["mutator"],
        "strategy": {"mode": "fallback"},
        "targets": [
            {"provider": "openai"},
            {"provider": "openai", "beforeRequestHooks": [{"id": "own"}]},
            {"provider": "openai", "output_guardrails": []},
        ],
    }));
    let own = |key: HookKey, path: &str, value: Value| (key, path.to_owned(), value);
    let input = own(HookKey::InputGuardrails, "input_guardrails", json!(["in"]));
    let output = [
        own(HookKey::AfterRequestHooks, "after_request_hooks", json!([{"id": "after"}])),
        own(HookKey::OutputMutators, "output_mutators", json!(["mutator"])),
    ];
    assert_eq!(of(&c, 0, HookSide::Input), std::slice::from_ref(&input));
    assert_eq!(of(&c, 0, HookSide::Output), output);
    let before = own(HookKey::BeforeRequestHooks, "targets,1,before_request_hooks", json!([{"id": "own"}]));
    assert_eq!(of(&c, 1, HookSide::Input), [before], "what a target sets replaces the whole side");
    assert_eq!(of(&c, 1, HookSide::Output), output, "and leaves the other");
    assert_eq!(of(&c, 2, HookSide::Input), [input]);
    let none = own(HookKey::OutputGuardrails, "targets,2,output_guardrails", json!([]));
    assert_eq!(of(&c, 2, HookSide::Output), [none]);
}

#[test]
fn without_lists_there_is_nothing_to_ask() {
    let c = valid(json!({"provider": "openai"}));
    assert!(c.hooks.is_empty() && c.leaves().all(|leaf| leaf.hooks.is_empty()));
}

/// What a target without guardrails carries of those of others: nothing, and two numbers of its own.
#[test]
fn ten_thousand_configs_with_guardrails_leave_the_others_without() {
    let guarded = |n: usize| {
        let check = json!([{"contains": {"words": [format!("word{n}")], "operator": "none"}, "deny": true}]);
        valid(json!({"provider": "openai", "input_guardrails": check}))
    };
    let all: Vec<_> = (0..10_000).map(guarded).collect();
    let plain = valid(json!({"provider": "openai"}));
    assert!(plain.hooks.is_empty() && plain.leaves().all(|leaf| leaf.hooks.is_empty()));
    assert!(all.iter().all(|c| c.hooks.len() == 1 && c.leaves().all(|leaf| leaf.hooks.input == Some(0))));
    assert!(size_of::<crate::config::hooks::LeafHooks>() <= 4 * size_of::<usize>());
}

#[test]
fn parameters_keep_their_casing_and_their_credentials_are_opened() {
    let list = json!([{"webhook": {"webhookURL": "https://x.example/a?sealed", "headers": {"X-Key": "sealed"}},
                       "pangea.textGuard": {"credentials": {"apiKey": "sealed"}}}]);
    let opens = |s: &str| (s == "sealed").then(|| Secret::new("open".to_owned()));
    let (trusted, known) = (Trusted::default(), |_: &str| true);
    let context = Context { known_provider: &known, trusted: &trusted, open: &opens, saved: true };
    let c = compile(&json!({"input_guardrails": list.clone()}), &context).expect("valid");
    let held = &c.hooks[0].lists[0].value;
    assert_eq!(held[0]["webhook"]["headers"]["X-Key"], "open");
    assert_eq!(held[0]["pangea.textGuard"]["credentials"]["apiKey"], "open");
    assert_eq!(held[0]["webhook"]["webhookURL"], "https://x.example/a?open");
    let closed = json!({"input_guardrails": [{"webhook": {"headers": {"x-key": "other"}}}]});
    let problems = compile(&closed, &context).expect_err("another master key");
    assert_eq!(problems[0].path, "input_guardrails");
    let mut document = json!({"targets": [{"inputGuardrails": list}]});
    let mut found = Vec::new();
    visit_secrets(&mut document, &mut |text| found.push(text.clone()));
    assert_eq!(found, ["sealed", "sealed", "sealed"], "each is sealed at rest and masked when shown");
}
