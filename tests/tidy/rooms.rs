//! The rooms of the proxy: the modules beside each other below `src/proxy`. A room does not reach up into the module that
//! holds them all, and no rooms need each other in a circle; what does today is on a list that may only shrink.

use super::allowed::{Offence, judge};
use super::source::{Source, sources};
use std::collections::{BTreeMap, BTreeSet};

const HOUSE: &str = "src/proxy/";

/// The room of a file of the proxy.
fn room(path: &str) -> Option<&str> {
    let inside = path.strip_prefix(HOUSE)?;
    Some(inside.split(['/', '.']).next().unwrap_or(inside))
}

/// The modules below the proxy that a file names from outside of its own, `""` for the proxy itself.
fn named(source: &Source) -> BTreeSet<String> {
    let program = &source.code[..source.tests_from().min(source.code.len())];
    let depth = source.path.strip_prefix(HOUSE).map_or(0, |inside| inside.matches('/').count());
    let up = format!("{}super::", "super::".repeat(depth));
    let mut out = BTreeSet::new();
    for start in [up.as_str(), "crate::proxy::"] {
        for (at, _) in program.match_indices(start) {
            if program[..at].ends_with("super::") || program[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
            {
                continue;
            }
            let rest = &program[at + start.len()..];
            if rest.starts_with("super::") {
                continue;
            }
            let items = rest.strip_prefix('{').and_then(|list| list.split('}').next()).unwrap_or(rest);
            let ends = if rest.starts_with('{') { &[','][..] } else { &[';', '\n', '(', ' ', ')', ',', '>', '<'] };
            let many = items.split(ends).take(if rest.starts_with('{') { usize::MAX } else { 1 });
            out.extend(many.filter_map(|item| {
                let first = item.trim().split("::").next()?.split(' ').next()?;
                let is_module = first.starts_with(|c: char| c.is_ascii_lowercase()) && item.contains("::");
                (!first.is_empty()).then(|| if is_module { first.to_owned() } else { String::new() })
            }));
        }
    }
    out
}

fn edges() -> BTreeMap<String, BTreeSet<String>> {
    let all = sources();
    let rooms: BTreeSet<&str> = all.iter().filter_map(|s| room(&s.path)).collect();
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in all.iter().filter(|s| !s.is_test) {
        let Some(room) = room(&source.path) else { continue };
        let to = named(source).into_iter().filter(|to| to != room);
        // A function or constant of the proxy itself looks like a room that there is not.
        let to = to.map(|to| if rooms.contains(to.as_str()) { to } else { String::new() });
        edges.entry(room.to_owned()).or_default().extend(to);
    }
    edges
}

#[test]
fn rooms_do_not_reach_up() {
    let offences = edges().into_iter().filter(|(_, to)| to.contains(""));
    let offences = offences.map(|(room, _)| Offence::new(room, "names something of src/proxy.rs, which holds it"));
    judge("rooms reach up", &offences.collect::<Vec<_>>());
}

#[test]
fn rooms_do_not_need_each_other_in_circles() {
    let edges = edges();
    let reaches = |from: &str, wanted: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(room) = next.pop() {
            for to in edges.get(&room).into_iter().flatten() {
                if to == wanted {
                    return true;
                }
                if seen.insert(to.clone()) {
                    next.push(to.clone());
                }
            }
        }
        false
    };
    let mut offences = Vec::new();
    for (from, all) in &edges {
        for to in all.iter().filter(|to| !to.is_empty() && reaches(to, from)) {
            offences.push(Offence::new(format!("{from} -> {to}"), "is part of a circle"));
        }
    }
    judge("circles of rooms", &offences);
}

#[test]
fn names_of_rooms_are_found() {
    let source = |path: &str, code: &str| Source {
        path: path.to_owned(),
        text: String::new(),
        code: code.to_owned(),
        is_test: false,
    };
    let found = |path: &str, code: &str| named(&source(path, code)).into_iter().collect::<Vec<_>>();
    assert_eq!(found("src/proxy/a.rs", "use super::b::C;\nuse super::{D, e::F, g};\n"), ["", "b", "e"]);
    assert_eq!(found("src/proxy/a/b.rs", "use super::c::D;\nuse super::super::e::F;\n"), ["e"]);
    assert_eq!(found("src/proxy/a.rs", "fn f(x: crate::proxy::b::C) {}"), ["b"]);
    assert_eq!((room("src/proxy/a.rs"), room("src/proxy/b/c.rs"), room("src/a.rs")), (Some("a"), Some("b"), None));
}
