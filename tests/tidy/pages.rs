//! What must stand beside the code: each setting in its page, each dialect in its golden folder.

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
