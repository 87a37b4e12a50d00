//! House rules as tests: they read the source, and know nothing of what it does.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// `path: rule` of what breaks a rule for now. Lines may be taken out, never added.
const ALLOWED: &[&str] = &[];

/// The floor of each crate (`design`, floors); a crate that is not here fails until it is given one.
const FLOORS: &[(&str, u8)] = &[
    ("gateway-domain", 0),
    ("gateway-providers", 1),
    ("gateway-policies", 1),
    ("gateway-guardrails", 1),
    ("gateway-upstream", 2),
    ("gateway-store", 2),
    ("gateway-admin", 2),
    ("gateway-mock", 2),
    ("gateway", 3),
];

/// Crates beside the house: they may use any floor, and no floor may use them but in tests.
const BESIDE: &[&str] = &["gateway-testing", "bare-proxy", "load", "limits", "translate"];

const FILE_LINES: usize = 600;
const TEST_FILE_LINES: usize = 900;
const FUNCTION_LINES: usize = 80;
const TEST_FUNCTION_LINES: usize = 120;

struct Source {
    /// From the root of the repository.
    path: String,
    text: String,
    /// Code that only tests run: the whole file.
    is_test: bool,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files that git tracks or would: what is ignored is nobody's source.
fn tracked(pattern: &str) -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "--", pattern])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let text = String::from_utf8(listed.stdout).expect("paths are text");
    text.lines().filter(|p| root().join(p).is_file()).map(ToOwned::to_owned).collect()
}

fn sources() -> Vec<Source> {
    let read = |path: String| {
        let text = std::fs::read_to_string(root().join(&path)).expect("a source file");
        let is_test = path.split('/').any(|part| part == "tests" || part == "tests.rs" || part == "testing");
        Source { path, text, is_test }
    };
    let all: Vec<Source> = tracked("*.rs").into_iter().map(read).collect();
    assert!(all.len() > 20, "the source was not found");
    all
}

/// Fails with every offence that is not allowed, and with every allowance that is no longer needed.
fn judge(rule: &str, offences: &[String]) {
    let mut report = String::new();
    let allowed = |o: &String| {
        ALLOWED.iter().any(|a| o.starts_with(a.trim_end_matches(&format!(": {rule}"))) && a.ends_with(rule))
    };
    for offence in offences.iter().filter(|o| !allowed(o)) {
        let _ = writeln!(report, "  {offence}");
    }
    for allowance in ALLOWED.iter().filter(|a| a.ends_with(&format!(": {rule}"))) {
        let path = allowance.trim_end_matches(&format!(": {rule}"));
        if !offences.iter().any(|o| o.starts_with(path)) {
            let _ = writeln!(report, "  {allowance}: keeps the rule by now; take it off the list");
        }
    }
    assert!(report.is_empty(), "rule `{rule}`:\n{report}");
}

#[test]
fn files_are_short() {
    let offences = sources().into_iter().filter_map(|s| {
        let (lines, limit) = (s.text.lines().count(), if s.is_test { TEST_FILE_LINES } else { FILE_LINES });
        (lines > limit).then(|| format!("{}: {lines} lines, at most {limit}", s.path))
    });
    judge("file length", &offences.collect::<Vec<_>>());
}

#[test]
fn functions_are_short() {
    let mut offences = Vec::new();
    for source in sources() {
        let code = blanked(&source.text);
        let tests_from = code.find("#[cfg(test)]\nmod tests {").unwrap_or(usize::MAX);
        for (name, start, lines) in functions(&code) {
            let is_test = source.is_test || start > tests_from;
            let limit = if is_test { TEST_FUNCTION_LINES } else { FUNCTION_LINES };
            if lines > limit {
                offences.push(format!("{}: fn {name} has {lines} lines, at most {limit}", source.path));
            }
        }
    }
    judge("function length", &offences);
}

#[test]
fn modules_say_what_they_are() {
    let offences = sources().into_iter().filter_map(|s| {
        let has = s.text.trim_start().starts_with("//!") || s.text.starts_with("#!/");
        (!has).then(|| format!("{}: opens without `//!`", s.path))
    });
    judge("module docs", &offences.collect::<Vec<_>>());
}

#[test]
fn no_file_is_called_mod() {
    let offences = sources().into_iter().filter(|s| s.path.ends_with("/mod.rs")).map(|s| s.path);
    judge("no mod.rs", &offences.collect::<Vec<_>>());
}

#[test]
fn names_say_something() {
    let vague = ["util", "utils", "helper", "helpers", "manager", "common", "misc"];
    let offences = sources().into_iter().filter_map(|s| {
        let stem = Path::new(&s.path).file_stem()?.to_str()?.to_owned();
        let is_vague = stem.split('_').any(|word| vague.contains(&word)) || stem.ends_with("service_impl");
        is_vague.then(|| format!("{}: what is in it?", s.path))
    });
    judge("file names", &offences.collect::<Vec<_>>());
}

/// What must not stand in a source file, in two halves so that this file does not hold it.
#[test]
fn nothing_is_left_undone() {
    let words = [("TO", "DO"), ("FIX", "ME"), ("#[ign", "ore"), ("to", "do!("), ("unimple", "mented!("), ("dbg", "!(")];
    let mut offences = Vec::new();
    for source in sources() {
        for (at, line) in source.text.lines().enumerate() {
            for (left, right) in words {
                if has_word(line, &format!("{left}{right}")) {
                    offences.push(format!("{}: {left}{right} in line {}", source.path, at + 1));
                }
            }
        }
    }
    judge("nothing undone", &offences);
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !letter(before) && (word.ends_with('(') || !letter(after))
    })
}

/// Lints are silenced by `expect`, which complains when there is nothing to silence.
#[test]
fn every_setting_is_told_of() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let (settings, page) = (read("src/settings.rs"), read("docs/configuration.md"));
    let names: Vec<String> = settings
        .lines()
        .filter_map(|line| line.split_once(": [").map(|(name, _)| name.trim().replace('_', "-")))
        .filter(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
        .collect();
    assert!(names.len() > 50, "{names:?}");
    let untold: Vec<String> = names.into_iter().filter(|name| !page.contains(&format!("`--{name}`"))).collect();
    judge("a setting stands in docs/configuration.md", &untold);
}

#[test]
fn lints_are_expected_not_allowed() {
    let (left, right) = ("[al", "low(");
    let offences = sources().into_iter().filter_map(|s| {
        s.text.contains(&format!("{left}{right}")).then(|| format!("{}: use #[expect(…, reason)]", s.path))
    });
    judge("no allow", &offences.collect::<Vec<_>>());
}

#[test]
fn floors_look_down_only() {
    let packages = workspace();
    let mut offences = Vec::new();
    for (name, package) in &packages {
        let Some(floor) = floor(name) else {
            if !BESIDE.contains(&name.as_str()) {
                offences.push(format!("{name}: has no floor"));
            }
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let target = dependency["name"].as_str().expect("a name");
            let in_tests = dependency["kind"] == "dev";
            if BESIDE.contains(&target) && packages.contains_key(target) && !in_tests {
                offences.push(format!("{name}: depends on {target}, which is for tests"));
            }
            if let Some(below) = self::floor(target)
                && !in_tests
                && below >= floor
            {
                offences.push(format!("{name} (floor {floor}): depends on {target} (floor {below})"));
            }
        }
    }
    judge("floors", &offences);
}

fn floor(name: &str) -> Option<u8> {
    FLOORS.iter().find(|(n, _)| *n == name).map(|(_, floor)| *floor)
}

/// What each floor never holds (`design`, floors).
#[test]
fn floors_never_hold_what_is_not_theirs() {
    let never: &[(&str, &[&str])] = &[
        ("gateway-domain", &["tokio", "pingora", "axum", "sqlx", "reqwest", "hyper"]),
        ("gateway-providers", &["tokio", "pingora", "axum", "sqlx", "reqwest", "hyper"]),
        ("gateway-policies", &["pingora", "axum", "sqlx", "reqwest", "hyper"]),
        ("gateway-guardrails", &["tokio", "pingora", "axum", "sqlx", "reqwest", "hyper"]),
        ("gateway-upstream", &["pingora-proxy", "axum", "sqlx"]),
        ("gateway-store", &["pingora", "axum"]),
        ("gateway-admin", &["pingora", "pingora-core", "pingora-proxy", "sqlx", "gateway-store"]),
        ("gateway-mock", &["pingora", "axum", "sqlx", "reqwest", "gateway-domain", "gateway-providers"]),
        ("gateway", &["sqlx"]),
    ];
    let packages = workspace();
    let mut offences = Vec::new();
    for (name, banned) in never {
        let package = packages.get(*name).unwrap_or_else(|| panic!("{name} is not in the workspace"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let target = dependency["name"].as_str().expect("a name");
            if dependency["kind"] != "dev" && banned.contains(&target) {
                offences.push(format!("{name}: holds {target}"));
            }
        }
    }
    judge("what floors hold", &offences);
}

fn workspace() -> BTreeMap<String, Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages").iter();
    packages.map(|p| (p["name"].as_str().expect("a name").to_owned(), p.clone())).collect()
}

/// Each dialect has unary, stream, tool-call and error cases (`design`, translation); what a provider with
/// a quirk needs beside is known to the providers' own tests.
#[test]
fn golden_folders_are_there() {
    let cases = tracked("providers/tests/golden/*");
    let mut offences = Vec::new();
    for dialect in ["openai", "anthropic"] {
        for case in ["unary", "stream", "tool-call", "error"] {
            let folder = format!("providers/tests/golden/{dialect}/{case}/");
            if !cases.iter().any(|path| path.starts_with(&folder)) {
                offences.push(format!("{folder}: is missing"));
            }
        }
    }
    judge("golden folders", &offences);
}

/// The code with comments, strings and characters turned to blanks, so that braces can be counted.
fn blanked(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => find(bytes, at, b"\n").unwrap_or(bytes.len()),
            b'/' if bytes.get(at + 1) == Some(&b'*') => find(bytes, at + 2, b"*/").map_or(bytes.len(), |e| e + 2),
            b'"' => string_end(bytes, at + 1),
            b'r' if !is_word(bytes, at.wrapping_sub(1)) => raw_string_end(bytes, at).unwrap_or(at + 1),
            b'\'' => char_end(bytes, at).unwrap_or(at + 1),
            _ => at + 1,
        };
        if end > at + 1 {
            out[at..end].iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
        }
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn find(bytes: &[u8], from: usize, needle: &[u8]) -> Option<usize> {
    bytes.get(from..)?.windows(needle.len()).position(|w| w == needle).map(|at| from + at)
}

fn is_word(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn raw_string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes[at + 1..].iter().take_while(|b| **b == b'#').count();
    if bytes.get(at + 1 + hashes) != Some(&b'"') {
        return None;
    }
    let close = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    Some(find(bytes, at + 2 + hashes, &close).map_or(bytes.len(), |e| e + close.len()))
}

/// `None` for a lifetime.
fn char_end(bytes: &[u8], at: usize) -> Option<usize> {
    let end = if bytes.get(at + 1) == Some(&b'\\') { find(bytes, at + 3, b"'")? } else { find(bytes, at + 2, b"'")? };
    (end - at <= 12 && (bytes[at + 1] == b'\\' || end - at <= 5 && !is_word(bytes, at + 2))).then_some(end + 1)
}

/// Name, offset and length in lines of each function that has a body.
fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if is_word(bytes, at.wrapping_sub(1)) {
            continue;
        }
        let name: String = code[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let Some(open) = code[at..].find(['{', ';']).map(|o| at + o) else { continue };
        if name.is_empty() || bytes[open] == b';' {
            continue;
        }
        let mut depth = 0usize;
        for (end, byte) in bytes.iter().enumerate().skip(open) {
            depth = match byte {
                b'{' => depth + 1,
                b'}' => depth - 1,
                _ => continue,
            };
            if depth == 0 {
                found.push((name, at, code[at..=end].lines().count()));
                break;
            }
        }
    }
    found
}

/// The measures measure: without this, a mistake above would pass every rule.
#[test]
fn lengths_are_counted_past_braces_in_text() {
    let code = "fn a() {\n let b = \"}{\"; // }\n let c = '}'; let d = r#\"}\"#;\n 'x: loop { break 'x }\n}\nfn e();\nfn f() { }\n";
    let found: Vec<(String, usize)> = functions(&blanked(code)).into_iter().map(|(n, _, l)| (n, l)).collect();
    assert_eq!(found, [("a".to_owned(), 5), ("f".to_owned(), 1)]);
    assert!(has_word("a TO DO", "TO") && !has_word("aTO", "TO") && !has_word("TOOLS", "TOOL"));
}
