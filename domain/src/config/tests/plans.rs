//! Which targets a request goes to, and in which order.

use super::*;

#[test]
fn fallback_walks_by_its_list_through_nested_levels() {
    let c = valid(json!({
        "strategy": {"mode": "fallback", "on_status_codes": [429]},
        "targets": [
            {"strategy": {"mode": "fallback"}, "targets": [{"provider": "openai"}, {"provider": "groq"}]},
            {"provider": "anthropic"},
        ],
    }));
    let world = World::default();
    let [first, second, third] = ["config.targets[0].targets[0]", "config.targets[0].targets[1]", "config.targets[1]"];
    assert_eq!(world.walk(&c, 429), [first, second, third]);
    assert_eq!(world.walk(&c, 500), [first, second], "the inner one has no list; 500 is not in the outer's");
    assert_eq!(world.walk(&c, 200), [first]);
    let mut plan = world.begin(&c).expect("a target");
    assert!(!world.ask(&c, |asks| plan.next(500, true, asks)), "a gateway exception stops");
    assert_eq!((plan.number(), c.strategy()), (1, "fallback"));
}

#[test]
fn a_listed_2xx_moves_on_and_an_empty_list_never_does() {
    let with = |list: Value| {
        valid(json!({"strategy": {"mode": "fallback", "on_status_codes": list},
                     "targets": [{"provider": "openai"}, {"provider": "groq"}]}))
    };
    let world = World::default();
    assert_eq!(world.walk(&with(json!([200])), 200).len(), 2);
    assert_eq!(world.walk(&with(json!([])), 500).len(), 1);
}

#[test]
fn a_target_may_bring_its_own_list_where_the_strategy_has_none() {
    let c = |list: Value| {
        valid(json!({"strategy": {"mode": "fallback", "on_status_codes": list},
                     "targets": [{"provider": "openai", "on_status_codes": [429]}, {"provider": "groq"}]}))
    };
    let world = World::default();
    assert_eq!((world.walk(&c(Value::Null), 500).len(), world.walk(&c(Value::Null), 429).len()), (1, 2));
    assert_eq!(world.walk(&c(json!([500])), 429).len(), 1, "the strategy's list is the one that counts");
}

#[test]
fn weights_decide() {
    let c = valid(json!({"strategy": {"mode": "loadbalance"}, "targets": [
        {"provider": "openai", "weight": 0}, {"provider": "groq", "weight": 3}, {"provider": "anthropic", "weight": 1}]}));
    for (dice, place) in [(0.0, 1), (0.74, 1), (0.76, 2), (0.999_999, 2)] {
        let world = World { dice, ..World::default() };
        assert_eq!(world.walk(&c, 500), [format!("config.targets[{place}]")], "{dice}: a weight of 0 is never drawn");
    }
}

fn conditional(default: Option<&str>) -> Arc<Config> {
    valid(json!({
        "strategy": {"mode": "conditional", "default": default, "conditions": [
            {"query": {"metadata.plan": "paid"}, "then": "best"},
            {"query": {"params.model": {"$regex": "^gpt"}}, "then": "gpt"},
        ]},
        "targets": [{"name": "other", "provider": "groq"}, {"name": "gpt", "provider": "openai"},
                    {"name": "best", "provider": "anthropic"}],
    }))
}

#[test]
fn the_first_condition_that_matches_decides() {
    let asking = |plan: &'static str, model: &str| World {
        request: StubRequest { metadata: HashMap::from([("plan", plan)]), params: json!({"model": model}) },
        ..World::default()
    };
    let with_default = conditional(Some("other"));
    for (plan, model, place) in [("paid", "gpt-4", 2), ("free", "gpt-4", 1), ("free", "claude", 0)] {
        assert_eq!(asking(plan, model).walk(&with_default, 500), [format!("config.targets[{place}]")]);
    }
    let without = conditional(None);
    assert_eq!(asking("free", "claude").begin(&without).err(), Some(NoTarget::NoMatch("config".into())));
}

#[test]
fn a_conditional_without_a_match_is_passed_over_in_a_fallback() {
    let mut inner =
        json!({"strategy": {"mode": "conditional", "conditions": [{"query": {"metadata.x": "y"}, "then": "t"}]}});
    inner["targets"] = json!([{"name": "t", "provider": "openai"}]);
    let c = valid(
        json!({"strategy": {"mode": "fallback"}, "targets": [{"provider": "groq"}, inner, {"provider": "openai"}]}),
    );
    assert_eq!(World::default().walk(&c, 500), ["config.targets[0]", "config.targets[2]"]);
}

fn sticky() -> Arc<Config> {
    let targets: Vec<Value> = (0..8).map(|_| json!({"provider": "openai"})).collect();
    valid(json!({"strategy": {"mode": "loadbalance", "sticky": {
        "enabled": true, "hash_fields": ["metadata.user", "params.user.id"], "ttl": 60}}, "targets": targets}))
}

#[test]
fn who_agrees_in_the_fields_stays_for_the_ttl() {
    let c = sticky();
    let mut world = World::default();
    let users = ["ann", "bob", "cid", "dan", "eve", "fay", "gus", "hal", "ida", "jon", "kim", "lea"];
    let mut round = |later_ms: i64, dice: f64| -> Vec<String> {
        (world.later_ms, world.dice) = (later_ms, dice);
        let each = users.iter().map(|user| {
            world.request =
                StubRequest { metadata: HashMap::from([("user", *user)]), params: json!({"user": {"id": 1}}) };
            world.walk(&c, 500).remove(0)
        });
        each.collect()
    };
    let first = round(0, 0.1);
    assert_eq!(round(59_999, 0.9), first, "whatever the dice say");
    let distinct = |all: &[String]| all.iter().collect::<std::collections::HashSet<_>>().len();
    assert!(distinct(&first) > 3, "different users go to different targets: {first:?}");
    assert_ne!(round(60_000, 0.1), first, "after the ttl all are drawn again");
}

#[test]
fn a_request_without_any_field_is_drawn_like_any_other() {
    let c = sticky();
    for (dice, place) in [(0.0, 0), (0.99, 7)] {
        assert_eq!(World { dice, ..World::default() }.walk(&c, 500), [format!("config.targets[{place}]")]);
    }
}

#[test]
fn another_tenant_and_another_config_share_no_assignment() {
    let world = World {
        request: StubRequest { metadata: HashMap::from([("user", "ann")]), params: Value::Null },
        ..World::default()
    };
    world.walk(&sticky(), 500);
    let other = World {
        request: StubRequest { metadata: HashMap::from([("user", "ann")]), params: Value::Null },
        ..World::default()
    };
    let mut dice = || 0.0;
    let mut asks = Asks {
        dice: &mut dice,
        now_ms: NOW,
        look: &other.request,
        sticks: &world.memory,
        breakers: &[],
        tenant: b"another",
    };
    Plan::begin(sticky(), &mut asks).expect("a target");
    assert_eq!(world.memory.0.borrow().len(), 2);
}

fn broken(mode: &str) -> Arc<Config> {
    valid(json!({
        "strategy": {"mode": mode, "cb_config": {"failure_threshold": 2, "cooldown_interval": 30000}},
        "targets": [{"provider": "openai"}, {"provider": "groq"}, {"provider": "anthropic"}],
    }))
}

/// Opens the breaker of the target that the plan is at.
fn open(world: &World, plan: &Plan) {
    for _ in 0..2 {
        plan.record(503, NOW + world.later_ms, &world.breakers(plan.config()));
    }
}

#[test]
fn open_targets_are_left_out_and_keep_their_index() {
    let (c, mut world) = (broken("fallback"), World::default());
    open(&world, &world.begin(&c).expect("a target"));
    assert_eq!(world.walk(&c, 503), ["config.targets[1]", "config.targets[2]"]);
    let states: Vec<bool> = world.breakers(&c).iter().map(|b| b.is_open(NOW)).collect();
    assert_eq!(states, [true, false, false]);
    world.later_ms = 30_000;
    assert_eq!(world.walk(&c, 503).len(), 3, "closed after the cooldown");

    let (c, mut world) = (broken("loadbalance"), World::default());
    open(&world, &world.begin(&c).expect("a target"));
    for (dice, place) in [(0.0, 1), (0.49, 1), (0.51, 2), (0.99, 2)] {
        world.dice = dice;
        assert_eq!(world.walk(&c, 503), [format!("config.targets[{place}]")]);
    }
}

#[test]
fn when_all_are_open_all_are_used() {
    for mode in ["fallback", "loadbalance"] {
        let (c, world) = (broken(mode), World::default());
        for _ in 0..3 {
            open(&world, &world.begin(&c).expect("a target"));
        }
        assert!(world.breakers(&c).iter().all(|b| b.is_open(NOW)), "{mode}");
        assert_eq!(world.walk(&c, 503).len(), if mode == "fallback" { 3 } else { 1 });
        assert_eq!(world.walk(&c, 503)[0], "config.targets[0]");
    }
}

#[test]
fn a_branch_is_ill_when_all_its_targets_are() {
    let c = valid(json!({
        "strategy": {"mode": "fallback", "cb_config": {"failure_threshold": 2}},
        "targets": [
            {"strategy": {"mode": "loadbalance"}, "targets": [{"provider": "openai"}, {"provider": "openai", "weight": 0}]},
            {"provider": "groq"},
        ],
    }));
    let world = World::default();
    open(&world, &world.begin(&c).expect("a target"));
    assert_eq!(world.walk(&c, 503), ["config.targets[1]"]);
}

#[test]
fn rules_are_inherited_and_not_looked_at_below_conditional() {
    let c = valid(json!({
        "strategy": {"mode": "fallback", "cb_config": {"failure_threshold": 2}},
        "targets": [
            {"provider": "openai", "cb_config": {"failure_threshold": 7}},
            {"strategy": {"mode": "fallback"}, "targets": [{"provider": "groq"}]},
            {"strategy": {"mode": "conditional", "default": "a", "conditions": [{"query": {}, "then": "a"}]},
             "targets": [{"name": "a", "provider": "openai"}]},
        ],
    }));
    let rules: Vec<(String, Option<u32>)> =
        c.guarded().iter().map(|g| (g.path.to_string(), g.rules.threshold)).collect();
    assert_eq!(rules, [("config.targets[0]".into(), Some(7)), ("config.targets[1].targets[0]".into(), Some(2))]);
}

#[test]
fn an_assignment_to_an_open_target_moves() {
    let c = valid(json!({
        "strategy": {"mode": "loadbalance", "cb_config": {"failure_threshold": 2},
                     "sticky": {"enabled": true, "hash_fields": ["metadata.user"]}},
        "targets": [{"provider": "openai"}, {"provider": "groq"}],
    }));
    let request = StubRequest { metadata: HashMap::from([("user", "ann")]), params: Value::Null };
    let world = World { request, ..World::default() };
    let first = world.walk(&c, 200).remove(0);
    open(&world, &world.begin(&c).expect("a target"));
    let second = world.walk(&c, 200).remove(0);
    assert_ne!(first, second);
    assert_eq!(world.walk(&c, 200), [second], "and stays where it went");
}

#[test]
fn an_edit_keeps_the_breakers_of_targets_that_stay() {
    let config = |targets: Value| {
        valid(json!({"strategy": {"mode": "fallback", "cb_config": {"failure_threshold": 1}}, "targets": targets}))
    };
    let (openai, groq) = (json!({"provider": "openai"}), json!({"provider": "groq"}));
    let set = BreakerSet::new(&config(json!([openai, groq, openai])));
    set.all().iter().skip(1).for_each(|b| b.record(503, NOW));
    let open = |set: &BreakerSet| set.all().iter().map(|b| b.is_open(NOW)).collect::<Vec<_>>();
    assert_eq!(open(&set), [false, true, true]);
    for (targets, expected) in [
        (json!([groq, openai, openai]), vec![true, false, true]),
        (json!([{"provider": "anthropic"}, openai, groq]), vec![false, false, true]),
        (json!([{"provider": "groq", "weight": 2, "retry": {"attempts": 1}}]), vec![true]),
        (json!([{"provider": "groq", "override_params": {"model": "other"}}]), vec![false]),
        (json!([{"provider": "groq", "custom_host": "https://other.example"}]), vec![false]),
        (json!([{"provider": "groq", "cb_config": {"failure_threshold": 2}}]), vec![false]),
    ] {
        let edited = config(targets.clone());
        let carried = set.carried(&edited);
        assert_eq!(open(&carried), expected, "{targets}");
        assert!(carried.is_of(&edited) && !set.is_of(&edited));
    }
}
