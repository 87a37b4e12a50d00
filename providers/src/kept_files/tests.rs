//! Walks `tests/files/<family>/`: what is asked of the provider for each call about a file, and what its answers tell.
//! `UPDATE_GOLDEN=1` writes what is expected from what is.
//!
//! | file | holds |
//! |---|---|
//! | `source` | where the provider's calls and answers are documented |
//! | `calls.http` | expected: the calls, in their order |
//! | `told.json` | a page of files as the provider tells it; `shown.json` is how OpenAI's clients read them |

use super::*;
use std::fs;
use std::path::{Path, PathBuf};

const WORKSPACE: &str = "0192f0c1d2e37a4b8c5d6e7f8091a2b3";
const FILE: &str = "0192f0c1ffff7a4b8c5d112233445566";

fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files");
    let mut all: Vec<_> =
        fs::read_dir(root).expect("the folder").map(|entry| entry.expect("an entry").path()).collect();
    all.sort();
    all
}

fn slug(folder: &Path) -> String {
    folder.file_name().expect("a name").to_string_lossy().into_owned()
}

fn asked(call: &BatchCall) -> String {
    let body = match &call.body {
        BatchBody::None => String::new(),
        BatchBody::Json(json) => format!("{json}\n"),
        BatchBody::Lines(form) => {
            format!("content-type: {}\n\n{}THE FILE{}\n", form.content_type, form.front, form.back)
        }
    };
    format!("{:?}: {} {}\n{}\n", call.at, call.method, call.path, body.replace('\r', ""))
}

#[test]
#[expect(clippy::disallowed_methods, reason = "asked for by whoever runs the test")]
fn golden() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    for folder in folders() {
        let family = kept_files(&slug(&folder)).unwrap_or_else(|| panic!("no files of {}", slug(&folder)));
        let read = |name: &str| fs::read(folder.join(name)).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        assert!(!read("source").is_empty(), "{} says where it is documented", folder.display());
        let place = BatchPlace { bucket: None, parent: Some("accounts/my-account".to_owned()) };
        assert_eq!(family.lacks(&place), None);
        let id = new_name(WORKSPACE, FILE, "fine-tune");
        let filename = "my \"lines\"\r\n.jsonl";
        let new = NewFile { id: &id, filename, purpose: "fine-tune", lines: 3, place: &place };
        let mut calls = family.uploads(&new);
        calls.extend([
            family.look(&place, &id),
            family.content(&place, &id),
            family.delete(&place, &id),
            family.list(&place, None),
            family.list(&place, Some("a b")),
        ]);
        let calls: String = calls.iter().map(asked).collect();
        let (files, next) = page(family, &read("told.json")).expect("a page");
        let shown = |file: &ToldFile| file.shown(&file.id, purpose(&file.id).unwrap_or_else(|| family.usual_purpose()));
        let shown: Vec<Value> = files.iter().map(shown).collect();
        let shown = serde_json::to_string_pretty(&json!({ "files": shown, "next": next })).expect("JSON") + "\n";
        for (name, is) in [("calls.http", calls), ("shown.json", shown)] {
            let path = folder.join(name);
            if update {
                fs::write(&path, &is).expect("written");
            }
            assert_eq!(is, fs::read_to_string(&path).unwrap_or_default(), "{}/{name}", slug(&folder));
        }
    }
}

#[test]
fn every_family_has_its_folder() {
    let told: Vec<String> = folders().iter().map(|folder| slug(folder)).collect();
    let known = crate::catalog().providers();
    let with: Vec<&str> = known.iter().map(|info| info.slug).filter(|slug| kept_files(slug).is_some()).collect();
    assert_eq!(told, with);
}

#[test]
fn a_name_tells_whose_a_file_is_and_what_for() {
    let other = WORKSPACE.replace("a2b3", "a2b4");
    for (known, _) in PURPOSES {
        let name = new_name(WORKSPACE, FILE, known);
        assert!(name.len() <= 40 && is_name(&name), "{name}");
        assert_eq!((purpose(&name), owner(&name, WORKSPACE)), (Some(known), FileOwner::Own));
        assert_eq!(owner(&name, &other), FileOwner::Other);
    }
    for elsewhere in ["abc-123", "gw", "gwb-", "gwb-0000-0000", "gwx-6e7f8091a2b3-7a4b8c5d112233445566"] {
        assert_eq!((purpose(elsewhere), owner(elsewhere, WORKSPACE)), (None, FileOwner::Elsewhere), "{elsewhere}");
    }
    assert_eq!(owner("gw-batch-1", WORKSPACE), FileOwner::Other);
    for bad in ["", "a/b", "..", "a?b", "a%2fb", "a:b", &"a".repeat(129)] {
        assert!(!is_name(bad), "{bad}");
    }
}

#[test]
fn addresses_of_a_dataset_are_those_of_its_files() {
    let told = br#"{"filenameToSignedUrls":{"dataset/x/a.jsonl":"https://storage.example/a","b":"https://storage.example/b"}}"#;
    let addresses = kept_files("fireworks-ai").and_then(KeptFiles::addresses).expect("it tells addresses");
    assert_eq!(addresses(told), ["https://storage.example/a", "https://storage.example/b"]);
    assert!(addresses(b"{}").is_empty());
}
