//! Files that need each other in a circle can only be understood together, and only be moved together. In the folders
//! below there is no such circle but what is on a list that may only shrink.

use super::allowed::{Offence, judge};
use super::source::{Source, is_word, sources};
use std::collections::{BTreeMap, BTreeSet};

/// The root of a crate, and the modules of it that are looked at, by the start of their path.
const FOLDERS: &[(&str, &str)] = &[("domain/src/", "config"), ("admin/src/", "")];

/// Where a file stands in its crate: `config::plan`, and nothing for the root.
fn module(path: &str) -> Option<String> {
    let inside = path.strip_suffix(".rs")?;
    Some(if matches!(inside, "lib" | "main") { String::new() } else { inside.replace('/', "::") })
}

/// All paths that a tree of names at `at` stands for: `a::{b, c::d}` is two.
fn spelt(code: &[u8], mut at: usize, before: &str, out: &mut Vec<String>) -> usize {
    let mut path = before.to_owned();
    loop {
        let start = at;
        while is_word(code, at) {
            at += 1;
        }
        if at > start {
            let word = String::from_utf8_lossy(&code[start..at]);
            path = if path.is_empty() { word.into_owned() } else { format!("{path}::{word}") };
        }
        if code[at..].starts_with(b"::{") {
            at += 3;
            loop {
                while code.get(at).is_some_and(|b| b.is_ascii_whitespace() || *b == b',') {
                    at += 1;
                }
                match code.get(at) {
                    Some(b'*') => {
                        out.push(format!("{path}::*"));
                        at += 1;
                    }
                    Some(b) if *b != b'}' => {
                        let end = spelt(code, at, &path, out);
                        // Something that is no name.
                        at = if end == at { at + 1 } else { end };
                    }
                    _ => return at + 1,
                }
            }
        }
        if !code[at..].starts_with(b"::") || !is_word(code, at + 2) {
            break;
        }
        at += 2;
    }
    // All that a module has: `super::*` names the module above, though nothing of it by name.
    if code[at..].starts_with(b"::*") {
        path.push_str("::*");
        at += 3;
    }
    out.push(path);
    // What stands behind `as`.
    if code[at..].starts_with(b" as ") {
        at += 4;
        while is_word(code, at) {
            at += 1;
        }
    }
    at
}

/// All paths that a file names, as they are written from the root of its crate. `own` is where the file stands there.
pub(crate) fn named(own: &str, source: &Source) -> BTreeSet<String> {
    let program = &source.code.as_bytes()[..source.tests_from().min(source.code.len())];
    let mut out = BTreeSet::new();
    let mut at = 0;
    while at < program.len() {
        let begins = is_word(program, at) && (at == 0 || !is_word(program, at - 1) && program[at - 1] != b':');
        if !begins {
            at += 1;
            continue;
        }
        let mut paths = Vec::new();
        let end = spelt(program, at, "", &mut paths);
        for path in paths.iter().filter(|path| path.contains("::")) {
            let mut rest: Vec<&str> = path.split("::").collect();
            let mut base: Vec<&str> = own.split("::").filter(|part| !part.is_empty()).collect();
            while let Some(first) = rest.first().filter(|first| matches!(**first, "crate" | "self" | "super")) {
                match *first {
                    "crate" => base.clear(),
                    "super" => _ = base.pop(),
                    _ => {}
                }
                rest.remove(0);
            }
            // What a list of names ends in stands for the module itself.
            rest.retain(|part| *part != "self");
            out.insert(base.into_iter().chain(rest).collect::<Vec<_>>().join("::"));
        }
        at = end.max(at + 1);
    }
    out
}

/// The modules that a file names, of those that there are.
fn needs(own: &str, source: &Source, modules: &BTreeSet<String>) -> BTreeSet<String> {
    let longest = |path: &String| {
        let parts: Vec<&str> = path.split("::").collect();
        (0..=parts.len()).rev().map(|n| parts[..n].join("::")).find(|module| modules.contains(module))
    };
    named(own, source).iter().filter_map(longest).filter(|module| module != own).collect()
}

fn edges(root: &str, all: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let inside = all.iter().filter(|s| !s.is_test && s.path.starts_with(root));
    let files: Vec<(String, &Source)> = inside.filter_map(|s| Some((module(&s.path[root.len()..])?, s))).collect();
    let modules: BTreeSet<String> = files.iter().map(|(module, _)| module.clone()).collect();
    files.into_iter().map(|(module, source)| (module.clone(), needs(&module, source, &modules))).collect()
}

/// Whether a way leads from one module to the other.
fn leads(edges: &BTreeMap<String, BTreeSet<String>>, from: &str, to: &str) -> bool {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        for below in edges.get(module).into_iter().flatten() {
            if below == to {
                return true;
            }
            if seen.insert(below) {
                next.push(below);
            }
        }
    }
    false
}

#[test]
fn files_do_not_need_each_other_in_circles() {
    let all = sources();
    let mut offences = Vec::new();
    for (root, start) in FOLDERS {
        let mut edges = edges(root, &all);
        // A circle that leads through files outside is theirs.
        edges.retain(|from, _| from.starts_with(start));
        for (from, below) in &edges {
            for to in below.iter().filter(|to| leads(&edges, to, from)) {
                offences.push(Offence::new(format!("{root}: {from} -> {to}"), "is part of a circle"));
            }
        }
    }
    judge("circles of files", &offences);
}

/// The modules beside each other at the root of a crate, each with those that it names, by what the root gives out too.
fn tops(root: &str, all: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let inside = || all.iter().filter(|s| !s.is_test && s.path.starts_with(root));
    let first = |path: &str| path.split("::").next().unwrap_or_default().to_owned();
    let own = |source: &Source| module(&source.path[root.len()..]).unwrap_or_default();
    let tops: BTreeSet<String> = inside().map(|source| first(&own(source))).filter(|top| !top.is_empty()).collect();
    let given: BTreeMap<String, String> = inside()
        .filter(|source| own(source).is_empty())
        .flat_map(|source| named("", source))
        .filter_map(|path| Some((path.rsplit_once("::")?.1.to_owned(), first(&path))))
        .collect();
    let mut out: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in inside().filter(|source| !own(source).is_empty()) {
        let top = first(&own(source));
        let names = named(&own(source), source).into_iter().map(|path| first(&path));
        let named = names.filter_map(|name| if tops.contains(&name) { Some(name) } else { given.get(&name).cloned() });
        out.entry(top.clone()).or_default().extend(named.filter(|name| *name != top));
    }
    out
}

/// A module and the parts of it may name each other; what stands beside each other may not.
#[test]
fn nouns_do_not_need_each_other_in_circles() {
    let edges = tops("domain/src/", &sources());
    assert!(edges.len() > 30, "{edges:?}");
    let mut offences = Vec::new();
    for (from, below) in &edges {
        for to in below.iter().filter(|to| leads(&edges, to, from)) {
            offences.push(Offence::new(format!("{from} -> {to}"), "is part of a circle"));
        }
    }
    judge("circles of nouns", &offences);
}

#[test]
fn modules_at_the_root_are_found_by_what_is_given_out() {
    let source = |path: &str, code: &str| Source {
        path: path.to_owned(),
        text: String::new(),
        code: code.to_owned(),
        is_test: false,
    };
    let all = [
        source("x/src/lib.rs", "pub mod a;\npub mod b;\npub use b::{Given, Other};\n"),
        source("x/src/a.rs", "mod part;\nuse crate::Given;\n"),
        source("x/src/a/part.rs", "use super::Thing;\nuse crate::c::D;\n"),
        source("x/src/b.rs", "use std::fmt;\n"),
        source("x/src/c.rs", "use crate::a::part::E;\n"),
    ];
    let found = tops("x/src/", &all);
    let of = |top: &str| found[top].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!((of("a"), of("b"), of("c")), (vec!["b", "c"], vec![], vec!["a"]));
}

#[test]
fn what_a_file_needs_is_found() {
    let modules: BTreeSet<String> =
        ["", "a", "a::b", "a::c", "a::c::d", "e"].into_iter().map(ToOwned::to_owned).collect();
    let found = |own: &str, code: &str| {
        let source = Source { path: String::new(), text: String::new(), code: code.to_owned(), is_test: false };
        needs(own, &source, &modules).into_iter().collect::<Vec<_>>()
    };
    assert_eq!(found("a", "mod b;\npub use c::{d::X, Y as Z};\nuse crate::e::F;\n"), ["a::c", "a::c::d", "e"]);
    assert_eq!(found("a::b", "use super::c::{self, D};\nuse super::Noun;\n"), ["a", "a::c"]);
    assert_eq!(found("a::c::d", "fn f(x: super::super::b::X) -> crate::Y {}"), ["", "a::b"]);
    assert_eq!(found("a::b", "use super::*;\n"), ["a"], "all of the module above");
    assert_eq!(found("a::b", "use super::{*};\nuse crate::{e::*};\n"), ["a", "e"], "all, in a list");
    assert_eq!(found("e", "use std::a::b;\nlet x = b::c();"), Vec::<String>::new());
}
