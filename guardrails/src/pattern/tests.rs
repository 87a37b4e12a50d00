//! Patterns against what Node finds, within their limits, and how they are refused.

use super::{MatchReach, Pattern, PatternFlags, ReplacementTemplate};
use serde::Deserialize;
use std::time::{Duration, Instant};

#[derive(Deserialize)]
struct Corpus {
    node: String,
    cases: Vec<NodeCase>,
}

#[derive(Deserialize)]
struct NodeCase {
    pattern: String,
    flags: String,
    text: String,
    #[serde(default)]
    error: bool,
    #[serde(rename = "match")]
    found: Option<ExpectedMatch>,
}

#[derive(Deserialize)]
struct ExpectedMatch {
    index: usize,
    groups: Vec<Option<String>>,
}

fn compile(pattern: &str) -> Pattern {
    Pattern::compile(pattern, PatternFlags::default()).unwrap()
}

/// Patterns that Node takes and we refuse: a look-behind without a bound reads the text again at every place.
const REFUSED: &[&str] = &["(?<=a+)b"];
/// Loops over what can be nothing: ECMAScript goes on after an empty turn, the engines stop. And a place between the
/// halves of a surrogate pair, which is none here.
const OTHERWISE: &[&str] = &["(?:|a)*", "(?:|a)+", "(?:^|a)+", "(?:^|a)*", r"\B"];

/// Captures of an earlier turn of a loop: ECMAScript forgets them, the engines keep them.
const KEPT_CAPTURES: &[&str] = &[r"(z)((a+)?(b+)?(c))*"];

/// `guardrails/tests/ecmascript.py` asks Node.
#[test]
fn patterns_find_what_node_finds() {
    let corpus: Corpus = serde_json::from_str(include_str!("../../tests/ecmascript.json")).unwrap();
    assert!(corpus.node.starts_with('v') && corpus.cases.len() > 600, "the corpus is there");
    let mut wrong = Vec::new();
    for case in &corpus.cases {
        let name = format!("/{}/{} on {:?}", case.pattern, case.flags, case.text);
        let flags = PatternFlags::parse(&case.flags).unwrap();
        let compiled = Pattern::compile(&case.pattern, flags);
        match (case.error, compiled) {
            // Names of properties are read without regard to case, and there are more of them.
            (true, Ok(_)) if case.pattern.contains("\\p{") => {}
            (true, Ok(_)) => wrong.push(format!("{name}: Node refuses it")),
            (true, Err(_)) => {}
            (false, Err(bad)) if !REFUSED.contains(&case.pattern.as_str()) => wrong.push(format!("{name}: {bad}")),
            (false, Err(_)) => {}
            (false, Ok(pattern)) => {
                let found = pattern.groups_at(&case.text, 0).unwrap();
                let texts = found.as_ref().map(|g| -> Vec<Option<String>> {
                    g.0.iter().map(|r| r.clone().map(|r| case.text[r].to_owned())).collect()
                });
                let index = found.as_ref().map(|g| case.text[..g.whole().start].encode_utf16().count());
                let expected = case.found.as_ref().map(|f| f.groups.clone());
                let same = match (&texts, &expected) {
                    (Some(a), Some(b)) if KEPT_CAPTURES.contains(&case.pattern.as_str()) => a[0] == b[0],
                    (a, b) => a == b,
                };
                let is_known = OTHERWISE.contains(&case.pattern.as_str());
                if is_known {
                    continue;
                }
                if !same || index != case.found.as_ref().map(|f| f.index) {
                    wrong.push(format!("{name}: {texts:?} at {index:?}, Node {expected:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn bad_patterns_say_why() {
    for (pattern, expected) in [
        ("(", "has an unclosed group"),
        (")", "has an unmatched `)`"),
        ("[a", "has an unclosed `[`"),
        ("a**", "has nothing to repeat before a quantifier"),
        ("[z-a]", "has a range out of order in a class"),
        ("a{3,2}", "has numbers out of order in a quantifier"),
        ("\\", "ends in a backslash"),
        (r"[\ud800-\udbff][\udc00-\udfff]", "has half of a surrogate pair"),
        ("(?<n>a)(?<n>b)", "names two groups `n`"),
        ("(?:a{1000}){1000}", "must compile to at most 1048576 bytes"),
    ] {
        let bad = Pattern::compile(pattern, PatternFlags::default()).expect_err(pattern);
        assert_eq!(bad.0, expected, "{pattern}");
    }
    let deep = format!("{}a{}", "(".repeat(51), ")".repeat(51));
    assert!(Pattern::compile(&deep, PatternFlags::default()).unwrap_err().0.contains("nest"), "depth");
    assert!(Pattern::compile(&"a".repeat(super::LONGEST + 1), PatternFlags::default()).is_err(), "length");
    for (letters, expected) in [("gg", "names the flag `g` twice"), ("x", "has the unknown flag `x`")] {
        assert_eq!(PatternFlags::parse(letters).unwrap_err().0, expected);
    }
    assert!(PatternFlags::parse("y").unwrap_err().0.contains("sticky"));
}

/// Patterns that take backtracking engines exponential or polynomial time, with a text that makes them.
const SLOW: &[(&str, &str, &str)] = &[
    ("(a+)+$", "a", "!"),
    ("(a|a)*$", "a", "!"),
    ("(a|aa)+$", "a", "!"),
    ("(.*a){12}$", "a", "!"),
    ("^(([a-z])+.)+[A-Z]([a-z])+$", "a", "!"),
    (r"(a*)*\1b", "a", ""),
    (r"(?=(a+)+$)b", "a", "!"),
    (r"(?:(a+)+)(?!.)\1", "a", "!"),
    (r"(?<=(a|aa){1,50})b", "a", "!"),
    (r"(?=.*x)y", "a", "!"),
    (r"(a+)+(?=b)", "a", "!"),
    (r"(\w+\s?)+(?=!)$", "a ", "?"),
    (r"^(?=.*x)(?=.*y)(a+)+$", "a", "!"),
    (r"(x+x+)+(?!z)y", "x", ""),
    (r"(.*)(.*)(.*)(.*)\1\2\3\4z", "ab", ""),
    (r"foo(?=.*bar)", "foo ", ""),
];

/// A search ends soon, whatever pattern and text are.
#[test]
fn slow_patterns_end_within_their_limit() {
    let mut slowest = Duration::ZERO;
    let mut limited = 0;
    for (source, unit, end) in SLOW {
        let pattern = compile(source);
        for length in [60, 2_000, 9_000] {
            let text = format!("{}{end}", unit.repeat(length));
            let before = Instant::now();
            limited += usize::from(pattern.is_match(&text).is_err());
            let took = before.elapsed();
            // Tests run unoptimised and beside each other: the bound tells a second from a year.
            assert!(took < Duration::from_secs(20), "{source} took {took:?} on {} bytes", text.len());
            slowest = slowest.max(took);
        }
    }
    assert!(limited > 5, "the limit is reached: {limited}, the slowest took {slowest:?}");
    assert!(compile(r"(a*)*\1b").is_match(&"a".repeat(60)).is_err(), "it says that it did not finish");
    assert_eq!(compile("(a+)+$").is_match(&format!("{}!", "a".repeat(60))), Ok(false), "linear time needs no limit");
}

#[test]
fn reach_says_what_a_stream_holds() {
    for (pattern, expected) in [
        ("abc", MatchReach::Within(3)),
        ("a{2,5}", MatchReach::Within(5)),
        (r"\bab\b", MatchReach::Within(6)),
        ("é", MatchReach::Within(2)),
        ("a+", MatchReach::Unknown),
        ("a(?=b)", MatchReach::Unknown),
    ] {
        assert_eq!(compile(pattern).reach(), expected, "{pattern}");
    }
}

#[test]
fn templates_expand_as_in_ecmascript() {
    let text = "john smith";
    for (pattern, template, expected) in [
        (r"(\w+) (\w+)", "$2 $1", "smith john"),
        (r"(?<first>\w+) (?<last>\w+)", "$<last>, $<first>", "smith, john"),
        (r"(\w+) (\w+)", "$$1", "$1"),
        (r"(\w+) (\w+)", "[$&]", "[john smith]"),
        (r"\w+", "$1", "$1"),
        (r"(\w+) (\w+)", "$3$0$", "$3$0$"),
        (r"(\w+) (\w+)", "$<last>", "$<last>"),
        (r"(?<a>\w+)", "$<b>x$<", "x$<"),
        (r"(\w+) (\w+)", "$10", "john0"),
    ] {
        let pattern = compile(pattern);
        let groups = pattern.groups_at(text, 0).unwrap().unwrap();
        assert_eq!(ReplacementTemplate::parse(template, &pattern).expand(text, &groups), expected, "{template}");
    }
}

/// What people write, on texts as long as people send, ends by itself.
#[test]
fn ordinary_look_around_reaches_no_limit() {
    let words = "the unhappy people of 1234 towns were happy to see foobaz at 99px in their books, and went on. ";
    for (source, expected) in [
        ("foo(?=bar)", false),
        ("(?<!un)happy", true),
        (r"\d{5}(?!\d|px)", false),
        (r"\bhappier\b(?! than)", false),
        (r"(\w)\1\1", false),
        (r"(?<=\$)\d+", false),
        (r"^(?!.*forbidden).*happy", true),
        (r"\Bzzz", false),
        ("(?=.*xyz)abc", false),
    ] {
        let pattern = compile(source);
        for times in [1, 40, 300] {
            if times > 40 && source.contains(".*") {
                continue;
            }
            let text = words.repeat(times);
            let before = Instant::now();
            assert_eq!(pattern.is_match(&text), Ok(expected), "{source} on {} bytes", text.len());
            assert!(
                before.elapsed() < Duration::from_secs(20),
                "{source} on {} bytes took {:?}",
                text.len(),
                before.elapsed()
            );
        }
        assert!(pattern.is_match(&words.repeat(400)).is_err(), "longer texts are not searched");
    }
}
