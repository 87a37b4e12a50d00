//! What must stand beside the code: each setting in its page, each dialect in its golden folder, each place that the
//! map of the code names, and each folder and crate on that map.

use super::allowed::{Offence, judge};
use super::source::{root, tracked};

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
    let untold: Vec<Offence> = names
        .into_iter()
        .filter(|name| !page.contains(&format!("`--{name}`")))
        .map(|name| Offence::new(name, "is not there"))
        .collect();
    judge("settings are documented", &untold);
}

/// Each dialect has unary, stream, tool-call and error cases; what a provider with
/// a quirk needs beside is known to the providers' own tests.
#[test]
fn golden_folders_are_there() {
    let cases = tracked("providers/tests/golden/*");
    let mut offences = Vec::new();
    for dialect in ["openai", "anthropic"] {
        for case in ["unary", "stream", "tool-call", "error"] {
            let folder = format!("providers/tests/golden/{dialect}/{case}/");
            if !cases.iter().any(|path| path.starts_with(&folder)) {
                offences.push(Offence::new(folder, "is missing"));
            }
        }
    }
    judge("golden folders", &offences);
}

/// Paths that a page names as code: files, and folders with a slash behind them.
fn named_paths(page: &str) -> Vec<&str> {
    let quoted = page.split('`').skip(1).step_by(2);
    let is_path = |text: &&str| {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-./".contains(c);
        let is_file = [".rs", ".json", ".sql", ".sh", ".txt"].iter().any(|end| text.ends_with(end));
        text.chars().all(is_plain) && !text.starts_with('/') && (is_file || text.ends_with('/'))
    };
    quoted.filter(is_path).collect()
}

/// A path may be written from any folder on: `exchange/attempt.rs`.
fn is_there(path: &str, all: &[String]) -> bool {
    let behind = format!("/{path}");
    all.iter().any(|file| match path.ends_with('/') {
        true => file.starts_with(path) || file.contains(&behind),
        false => file == path || file.ends_with(&behind),
    })
}

#[test]
fn what_the_map_names_is_there() {
    let (page, all) = (std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap(), tracked("*"));
    let named = named_paths(&page);
    assert!(named.len() > 150, "{}", named.len());
    let lost = named.iter().filter(|path| !is_there(path, &all));
    let lost: Vec<Offence> = lost.map(|path| Offence::new(*path, "is not in the repository")).collect();
    judge("places of the map", &lost);
}

#[test]
fn the_map_names_every_folder_and_crate() {
    let (page, all) = (std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap(), tracked("*"));
    let top = all.iter().filter_map(|file| file.split_once('/').map(|(folder, _)| folder.to_owned()));
    let crates = all.iter().filter_map(|file| file.strip_suffix("/Cargo.toml").map(ToOwned::to_owned));
    // What begins with a point is of tools; measurements of single parts are told of in their own page.
    let shown = top.chain(crates).filter(|folder| !folder.starts_with('.') && !folder.starts_with("benches/"));
    let all: std::collections::BTreeSet<String> = shown.collect();
    assert!(all.len() > 10, "{all:?}");
    let untold =
        all.iter().filter(|folder| !page.contains(&format!("`{folder}`")) && !page.contains(&format!("`{folder}/")));
    let untold: Vec<Offence> = untold.map(|folder| Offence::new(folder, "is not on the map")).collect();
    judge("folders of the map", &untold);
}

#[test]
fn paths_are_told_from_other_code() {
    let page = "`src/a.rs` and `b/` but not `GET /v1/x`, `a.b`, `/v1/files/` or `Vec::new`; `c/d.rs`";
    assert_eq!(named_paths(page), ["src/a.rs", "b/", "c/d.rs"]);
    let all = ["src/a.rs".to_owned(), "src/x/c/d.rs".to_owned(), "b/e.rs".to_owned()];
    assert!(is_there("c/d.rs", &all) && is_there("b/", &all) && is_there("x/c/", &all));
    assert!(!is_there("d", &all) && !is_there("e/d.rs", &all) && !is_there("b/d.rs", &all));
}
