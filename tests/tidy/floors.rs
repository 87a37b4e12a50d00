//! A floor names only lower ones, and holds nothing that is not its own; `ARCHITECTURE.md` shows them.

use super::allowed::{Offence, judge};
use super::source::root;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// The floor of each crate of `ARCHITECTURE.md`; a crate that is not here fails until it is given one.
const FLOORS: &[(&str, u8)] = &[
    ("gateway-domain", 0),
    ("gateway-providers", 1),
    ("gateway-policies", 1),
    ("gateway-guardrails", 1),
    ("gateway-mcp", 1),
    ("gateway-realtime", 1),
    ("gateway-upstream", 2),
    ("gateway-store", 2),
    ("gateway-admin", 2),
    ("gateway-mock", 2),
    ("gateway-records", 3),
    ("gateway", 4),
];

/// Crates beside the house: they may use any floor, and no floor may use them but in tests.
const BESIDE: &[&str] = &["gateway-testing", "bare-proxy", "load", "limits", "records", "translate"];

#[test]
fn floors_look_down_only() {
    let packages = workspace();
    let mut offences = Vec::new();
    for (name, package) in &packages {
        let Some(floor) = floor(name) else {
            if !BESIDE.contains(&name.as_str()) {
                offences.push(Offence::new(name, "has no floor"));
            }
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let target = dependency["name"].as_str().expect("a name");
            let in_tests = dependency["kind"] == "dev";
            if BESIDE.contains(&target) && packages.contains_key(target) && !in_tests {
                offences.push(Offence::new(name, format!("depends on {target}, which is for tests")));
            }
            if let Some(below) = self::floor(target)
                && !in_tests
                && below >= floor
            {
                offences.push(Offence::new(name, format!("floor {floor} depends on {target}, floor {below}")));
            }
        }
    }
    judge("floors", &offences);
}

fn floor(name: &str) -> Option<u8> {
    FLOORS.iter().find(|(n, _)| *n == name).map(|(_, floor)| *floor)
}

/// What each floor never holds.
#[test]
fn floors_never_hold_what_is_not_theirs() {
    let never: &[(&str, &[&str])] = &[
        ("gateway-domain", &["tokio", "pingora", "axum", "sqlx", "reqwest", "hyper"]),
        ("gateway-providers", &["tokio", "pingora", "axum", "sqlx", "reqwest", "hyper"]),
        ("gateway-guardrails", &["tokio", "pingora", "axum", "sqlx", "reqwest", "hyper"]),
        ("gateway-realtime", &["tokio", "pingora", "axum", "sqlx", "reqwest", "hyper"]),
        ("gateway-mcp", &["tokio", "pingora", "axum", "sqlx", "reqwest", "hyper"]),
        ("gateway-policies", &["pingora", "axum", "sqlx", "reqwest", "hyper"]),
        ("gateway-upstream", &["pingora-proxy", "axum", "sqlx"]),
        ("gateway-store", &["pingora", "axum"]),
        ("gateway-admin", &["pingora", "pingora-core", "pingora-proxy", "sqlx", "gateway-store"]),
        ("gateway-mock", &["pingora", "axum", "sqlx", "reqwest", "gateway-domain", "gateway-providers"]),
        ("gateway-records", &["pingora", "pingora-proxy", "axum", "sqlx", "gateway-admin"]),
        ("gateway", &["sqlx"]),
    ];
    let packages = workspace();
    let mut offences = Vec::new();
    for (name, banned) in never {
        let package = packages.get(*name).unwrap_or_else(|| panic!("{name} is not in the workspace"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let target = dependency["name"].as_str().expect("a name");
            if dependency["kind"] != "dev" && banned.contains(&target) {
                offences.push(Offence::new(*name, format!("holds {target}")));
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
