//! The rooms of the proxy: the modules beside each other below `src/proxy`. A room does not reach up into the module
//! that holds them all, and no rooms need each other in a circle; what does today is on a list that may only shrink.

use super::allowed::{Offence, judge};
use super::circles::named;
use super::source::{Source, sources};
use std::collections::{BTreeMap, BTreeSet};

const HOUSE: &str = "src/proxy/";
/// What holds the rooms.
const HELD: &str = "proxy";

/// The room of a file of the proxy.
fn room(path: &str) -> Option<&str> {
    let inside = path.strip_prefix(HOUSE)?;
    Some(inside.split(['/', '.']).next().unwrap_or(inside))
}

/// Where a file of the proxy stands in its crate.
fn module(path: &str) -> String {
    path.trim_start_matches("src/").trim_end_matches(".rs").replace('/', "::")
}

/// The names that the proxy gives out of its rooms, each with its room.
fn given_out(source: &Source) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for (at, _) in source.code.match_indices("use ") {
        let declared = source.code[at..].split_once(';').map_or("", |(declared, _)| declared);
        let one = Source { path: source.path.clone(), text: String::new(), code: declared.to_owned(), is_test: false };
        for path in named(HELD, &one) {
            let inside: Vec<&str> = path.strip_prefix("proxy::").unwrap_or_default().split("::").collect();
            if let [room, .., name] = inside[..]
                && name != "*"
            {
                out.insert(name.to_owned(), room.to_owned());
            }
        }
    }
    out
}

/// What of the proxy a file names: rooms, and `""` for what is of none.
fn rooms_of(source: &Source, rooms: &BTreeSet<&str>, given: &BTreeMap<String, String>) -> BTreeSet<String> {
    let below = |path: String| path.strip_prefix("proxy::").map(str::to_owned);
    let room = |path: String| {
        let name = path.split("::").next().unwrap_or_default();
        if rooms.contains(name) { name.to_owned() } else { given.get(name).cloned().unwrap_or_default() }
    };
    named(&module(&source.path), source).into_iter().filter_map(below).map(room).collect()
}

fn edges() -> BTreeMap<String, BTreeSet<String>> {
    let all = sources();
    let rooms: BTreeSet<&str> = all.iter().filter_map(|s| room(&s.path)).collect();
    let given = all.iter().find(|s| s.path == "src/proxy.rs").map(given_out).unwrap_or_default();
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in all.iter().filter(|s| !s.is_test) {
        let Some(room) = room(&source.path) else { continue };
        let to = rooms_of(source, &rooms, &given).into_iter().filter(|to| to != room);
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
    let rooms = BTreeSet::from(["a", "b", "c", "e"]);
    let proxy = source("src/proxy.rs", "mod a;\nmod b;\npub(crate) use b::{Given, deep::Other};\nuse c::Inner;\n");
    let given = given_out(&proxy);
    let found = |path: &str, code: &str| rooms_of(&source(path, code), &rooms, &given).into_iter().collect::<Vec<_>>();
    assert_eq!(found("src/proxy/a.rs", "use super::b::C;\nuse super::{D, e::F, g};\n"), ["", "b", "e"]);
    assert_eq!(found("src/proxy/a/b.rs", "use super::c::D;\nuse super::super::e::F;\n"), ["a", "e"]);
    assert_eq!(found("src/proxy/a.rs", "fn f(x: crate::proxy::b::C) {}"), ["b"]);
    assert_eq!(found("src/proxy/a.rs", "use crate::proxy::b;\nuse crate::clock;\n"), ["b"], "a whole room");
    assert_eq!(found("src/proxy/a.rs", "use super::{b::{self, x::{Y, Z}}, c::W};\n"), ["b", "c"], "lists in lists");
    assert_eq!(found("src/proxy/a.rs", "use super::{Given, Other, Inner};\n"), ["b", "c"], "given out by the proxy");
    assert_eq!(found("src/proxy/a.rs", "use crate::proxy::Gateway;\n"), [""]);
    assert_eq!(found("src/proxy/a.rs", "use super::*;\n"), [""], "all that the proxy has");
    assert_eq!(found("src/proxy/a.rs", "use super::b::*;\npub(in crate::proxy) fn f() {}\n"), ["b"]);
    assert_eq!(found("src/proxy/a.rs", "macro_rules! m { () => { $crate::proxy::c::f() }; }\n"), ["c"]);
    assert_eq!((room("src/proxy/a.rs"), room("src/proxy/b/c.rs"), room("src/a.rs")), (Some("a"), Some("b"), None));
}
