//! The public API's control plane, operation by operation: served, or told by name to be missing and why.

use gateway_admin::{is_control_plane, routes};
use http::Method;
use std::collections::BTreeSet;

const LIST: &str = include_str!("public-operations.txt");
const ALL: usize = 160;

struct PublicOperation {
    method: Method,
    path: &'static str,
    /// Empty for what this service answers.
    mark: &'static str,
}

fn operations() -> Vec<PublicOperation> {
    let lines = LIST.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut parts = line.splitn(3, ' ');
            let method = parts.next().and_then(|m| m.parse().ok()).expect("a method");
            let path = parts.next().expect("a path");
            PublicOperation { method, path, mark: parts.next().unwrap_or_default() }
        })
        .collect()
}

/// A route may take any name where the public path has a word.
fn fits(ours: &str, theirs: &str) -> bool {
    let (ours, theirs): (Vec<&str>, Vec<&str>) = (ours.split('/').collect(), theirs.split('/').collect());
    let open = ours.last().is_some_and(|last| last.starts_with("{*"));
    let long_enough = if open { theirs.len() >= ours.len() } else { theirs.len() == ours.len() };
    long_enough && ours.iter().zip(&theirs).all(|(our, their)| our.starts_with('{') || our == their)
}

#[test]
fn every_public_operation_is_served_or_said_to_be_missing() {
    let (all, served) = (operations(), routes());
    assert_eq!(all.len(), ALL);
    let (mut unmarked, mut missing) = (Vec::new(), BTreeSet::new());
    for operation in &all {
        let PublicOperation { method, path, mark } = operation;
        let here = served.iter().any(|route| route.method == *method && fits(route.path, path));
        match mark.split_once(": ") {
            Some(("missing", why)) if !here => _ = missing.insert(format!("{method} {path} waits for {why}")),
            _ if here || *mark == "proxy" => {}
            _ => unmarked.push(format!("{method} {path}")),
        }
        // Served or not, none of it ever goes to a provider.
        let plain: String = path.chars().filter(|c| !matches!(c, '{' | '}')).collect();
        let place = if path.starts_with("/model-configs") { plain } else { format!("/v1{plain}") };
        assert!(is_control_plane(method, &place) || *mark == "proxy", "{method} {path}");
    }
    assert!(unmarked.is_empty(), "neither served nor marked as missing: {unmarked:#?}");
    println!("{} of {ALL} are served; {missing:#?}", ALL - missing.len());
}
