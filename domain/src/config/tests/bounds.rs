//! What one config may cost: each bound at its edge and one beyond, in a config of a request and in a saved one.

use super::*;
use crate::config::plan::NoTarget;

fn target(name: &str) -> Value {
    json!({"name": name, "provider": "openai"})
}

fn conditional(queries: &[Value]) -> Value {
    let conditions: Vec<Value> = queries.iter().map(|query| json!({"query": query, "then": "a"})).collect();
    json!({"strategy": {"mode": "conditional", "conditions": conditions, "default": "a"}, "targets": [target("a")]})
}

/// A query of one pattern.
fn pattern(text: &str) -> Value {
    json!({"metadata.u": {"$regex": text}})
}

fn patterns(text: &str, count: usize) -> Value {
    conditional(&vec![pattern(text); count])
}

/// The only problem of a config.
#[track_caller]
fn refused(config: &Value, saved: bool) -> ConfigProblem {
    let mut problems = read(config, saved).map(|c| c.memory()).expect_err("is beyond a bound");
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.remove(0)
}

/// Targets of a fallback, in groups of 50.
fn groups(count: usize) -> Value {
    let leaf = json!({"provider": "openai"});
    let group = |n: usize| match n {
        0 => leaf.clone(),
        n => json!({"strategy": {"mode": "fallback"}, "targets": vec![leaf.clone(); n]}),
    };
    let whole = (0..count / 51).map(|_| group(50));
    let rest = (count % 51).checked_sub(1).map(group);
    json!({"strategy": {"mode": "fallback"}, "targets": whole.chain(rest).collect::<Vec<_>>()})
}

#[test]
fn a_whole_config_is_bounded_lower_inline_than_saved() {
    let literals = |n: usize| conditional(&vec![json!({"metadata.u": "x"}); n]);
    let among = |n: usize| conditional(&[json!({"metadata.u": {"$in": vec!["x"; n - 1]}})]);
    let long = |n: usize| {
        let frame = json!({"provider": "openai", "override_params": {"x": ""}}).to_string().len();
        json!({"provider": "openai", "override_params": {"x": "y".repeat(n - frame)}})
    };
    type Make<'m> = &'m dyn Fn(usize) -> Value;
    let rows: &[(Make<'_>, usize, usize, &str)] = &[
        (&literals, 128, 2000, "conditions"),
        (&among, 1000, 20_000, "comparisons in conditions"),
        (&groups, 256, 4000, "targets at all levels"),
        (&|n| patterns("^gpt", n), 32, 256, "patterns"),
        (&|n| patterns(&r"\d".repeat(8), n / 8), 64, 512, "classes of characters in patterns"),
        (&long, 32 << 10, 1 << 20, "bytes of text"),
    ];
    for (make, inline, saved, noun) in rows {
        assert!(read(&make(*inline), false).is_ok(), "{inline} {noun}: {:?}", read(&make(*inline), false).err());
        let problem = refused(&make(inline + 8), false);
        let rule =
            format!("goes beyond the {inline} {noun} that an inline config may have; a saved one may have {saved}");
        assert_eq!(problem.message, rule, "at {}", problem.path);
        assert!(read(&make(*saved), true).is_ok(), "{saved} {noun}: {:?}", read(&make(*saved), true).err());
        let problem = refused(&make(saved + 8), true);
        assert_eq!(problem.message, format!("goes beyond the {saved} {noun} that a saved config may have"));
    }
}

#[test]
fn compiled_patterns_are_weighed_as_they_are() {
    // Some 88 KiB each.
    assert!(read(&patterns(r"\w{5}", 2), false).is_ok());
    let problem = refused(&patterns(r"\w{5}", 8), false);
    assert_eq!(problem.path, "strategy,conditions,2,query,metadata.u,$regex", "told where the bound was passed");
    assert!(problem.message.starts_with("goes beyond the 262144 bytes of compiled patterns"), "{}", problem.message);
    assert!(read(&patterns(r"\w{5}", 20), true).is_ok());
    assert!(read(&patterns(r"\w{5}", 40), true).is_err());

    let two = read(&patterns(r"\w{5}", 2), false).map_or(0, |c| c.memory());
    assert!((150_000..300_000).contains(&two), "{two}");
    let plain = read(&patterns("^gpt", 2), false).map_or(0, |c| c.memory());
    assert!((1000..20_000).contains(&plain), "{plain}");
}

#[test]
fn one_pattern_is_bounded() {
    for (text, rule) in [
        ("a".repeat(513), "must be a pattern of at most 512 bytes"),
        (r"\w{20}".to_owned(), "is too large a pattern: it takes more than 128 KiB once compiled"),
        ("(a".to_owned(), "must be a regular expression without look-around or back-references"),
        ("(?=a)".to_owned(), "must be a regular expression without look-around or back-references"),
    ] {
        let problem = refused(&conditional(&[pattern(&text)]), true);
        assert_eq!(problem.message, rule);
        assert_eq!(problem.path, "strategy,conditions,0,query,metadata.u,$regex");
    }
    let problems = read(&patterns(r"\w{20}", 32), false).expect_err("too large");
    assert!(problems.len() <= 4, "the bound on all ends the work on those that are refused: {problems:?}");
}

#[test]
fn parts_of_objects_are_bounded() {
    let object = |n: usize| (0..n).map(|i| (format!("k{i}"), json!(1))).collect::<serde_json::Map<_, _>>();
    let names = |n: usize| (0..n).map(|i| format!("x-h{i}")).collect::<Vec<_>>();
    let keys = |n: usize| conditional(&(0..n).map(|i| json!({format!("params.k{i}"): 1})).collect::<Vec<_>>());
    let with = |key: &str, value: Value| json!({"provider": "openai", key: value});
    for (good, bad, path, rule) in [
        (
            with("override_params", object(256).into()),
            with("override_params", object(257).into()),
            "override_params",
            "must hold at most 256 parameters, inherited ones among them",
        ),
        (
            with("forward_headers", names(100).into()),
            with("forward_headers", names(101).into()),
            "forward_headers",
            "must name at most 100 headers",
        ),
        (
            with("drop_params", names(100).into()),
            with("drop_params", names(101).into()),
            "drop_params",
            "must hold at most 100 paths, inherited ones among them",
        ),
        (
            with("metadata", (0..64).map(|i| (i.to_string(), json!("v"))).collect::<serde_json::Map<_, _>>().into()),
            with("metadata", (0..65).map(|i| (i.to_string(), json!("v"))).collect::<serde_json::Map<_, _>>().into()),
            "metadata",
            "must hold at most 64 pairs",
        ),
        (keys(64), keys(65), "config", "must name at most 64 keys of the body in its conditions and sticky fields"),
    ] {
        assert!(read(&good, false).is_ok(), "{path}: {:?}", read(&good, false).err());
        let problem = refused(&bad, false);
        assert_eq!((problem.path.as_str(), problem.message.as_str()), (path, rule));
    }
    let statuses = |n: usize| with("retry", json!({"attempts": 1, "on_status_codes": vec![500; n]}));
    assert!(read(&statuses(500), false).is_ok());
    assert_eq!(refused(&statuses(501), false).path, "retry,on_status_codes");
    assert_eq!(refused(&object(129).into(), false).message, "must have at most 128 keys");
}

#[test]
fn what_targets_inherit_is_not_copied_for_each() {
    let big = "x".repeat(20 << 10);
    let plain: Vec<Value> = (0..100).map(|_| json!({"provider": "openai"})).collect();
    let shared = json!({"strategy": {"mode": "fallback"}, "targets": plain, "override_params": {"big": big}});
    let memory = read(&shared, false).map_or(usize::MAX, |c| c.memory());
    assert!(memory < 200_000, "{memory}");

    // Each adds to what it inherits, and so holds a copy of it.
    let adding: Vec<Value> = (0..100).map(|i| json!({"provider": "openai", "override_params": {"i": i}})).collect();
    let copied = json!({"strategy": {"mode": "fallback"}, "targets": adding, "override_params": {"big": big}});
    let problem = refused(&copied, false);
    assert!(problem.message.starts_with("goes beyond the 1048576 bytes once it is compiled"), "{}", problem.message);
    assert!(read(&copied, true).is_ok());
}

#[test]
fn what_is_told_of_a_bad_config_is_short() {
    let long = "y".repeat(5000);
    let targets: Vec<Value> = (0..90).map(|i| json!({"provider": format!("{long}{i}"), long.clone(): 1})).collect();
    let config = json!({"strategy": {"mode": "fallback"}, "targets": targets});
    let problems = read(&config, true).expect_err("has problems");
    assert_eq!(problems.len(), 51);
    assert_eq!(problems.last().map(|p| p.message.as_str()), Some("and 130 more problems"));
    assert!(problems.iter().all(|p| p.line().len() < 500), "{:?}", problems.iter().map(|p| p.line().len()).max());
}

#[test]
fn patterns_that_would_take_long_for_a_request_are_told_of() {
    let world = |text: String| World {
        request: StubRequest { params: json!({"text": text}), ..<_>::default() },
        ..<_>::default()
    };
    let query = |text: &str| json!({"params.text": {"$regex": text}});
    // 88 KiB of pattern: a few thousand bytes of text are all that it may look at.
    let config = Arc::new(read(&conditional(&[query(r"\w{5}z")]), false).expect("valid"));
    assert!(world("ab ".repeat(1000)).begin(&config).is_ok());
    let stuck = world("ab ".repeat(10_000)).begin(&config).err();
    assert_eq!(stuck, Some(NoTarget::TooMuchWork("config".into())));
    // A plain pattern reads whatever of a value is read at all.
    let config = Arc::new(read(&conditional(&[query("needle")]), false).expect("valid"));
    assert!(world("ab ".repeat(100_000)).begin(&config).is_ok());
}

#[test]
fn one_request_tries_a_hundred_targets_at_most() {
    let config = Arc::new(read(&groups(255), true).expect("valid"));
    assert_eq!(World::default().walk(&config, 500).len(), 100);
}
