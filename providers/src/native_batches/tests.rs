//! Walks `tests/batches/<family>/`: what is asked of the provider for a batch, and what its answers tell. No case has
//! code here. `UPDATE_GOLDEN=1` writes what is expected from what is.
//!
//! | file | holds |
//! |---|---|
//! | `batch.json` | `operation`, `model`, `options`, `file`, and `lines` with `name` and `body` as the translator makes them |
//! | `source` | where the provider's answers are documented |
//! | `calls.http` | expected: the calls of the batch, in their order |
//! | `told-*.json` | what the provider tells of a batch; `standing-*.txt` is how it is read |
//! | `results.jsonl` | the provider's results; `answers.txt` is how they are read |

use super::*;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Batch {
    operation: String,
    model: Option<String>,
    #[serde(default)]
    options: Map<String, Value>,
    file: Option<String>,
    #[serde(default)]
    place: BatchPlace,
    lines: Vec<BatchSampleLine>,
}

#[derive(Deserialize)]
struct BatchSampleLine {
    name: String,
    body: Box<RawValue>,
}

fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/batches");
    let mut all: Vec<_> =
        fs::read_dir(root).expect("the folder").map(|entry| entry.expect("an entry").path()).collect();
    all.sort();
    all
}

fn slug(folder: &Path) -> String {
    folder.file_name().expect("a name").to_string_lossy().into_owned()
}

fn shown(family: &dyn NativeBatches, batch: &Batch, call: &BatchCall) -> String {
    let body = match &call.body {
        BatchBody::None => String::new(),
        BatchBody::Json(json) => format!("{json}\n"),
        BatchBody::Lines(form) => {
            let lines = batch.lines.iter().map(|line| NewLine { name: &line.name, body: &line.body });
            let lines: Vec<_> = lines.map(|line| String::from_utf8(family.line(&line)).expect("text")).collect();
            format!("content-type: {}\n\n{}{}{}\n", form.content_type, form.front, lines.join(form.between), form.back)
        }
    };
    let at = if call.at == CloudService::Api { String::new() } else { format!("{:?}: ", call.at) };
    format!("{at}{} {}\n{}\n", call.method, call.path, body.replace('\r', ""))
}

fn calls(family: &dyn NativeBatches, batch: &Batch) -> String {
    let new = NewBatchAsk {
        own_id: "gw_batch_1",
        operation: Operation::parse(&batch.operation).expect("an operation"),
        model: batch.model.as_deref(),
        options: &batch.options,
        file: batch.file.as_deref(),
        place: &batch.place,
    };
    assert_eq!(family.lacks(&new), None);
    let file = batch.file.as_deref().unwrap_or_default();
    let all = [
        family.ahead(&new, batch.lines.len() as u64),
        family.upload(&new),
        family.readiness(file),
        family.search(&new),
        family.file_content(file),
        Some(family.creation(&new)),
        Some(family.look("ID")),
        Some(family.cancel("ID")),
        family.removal(file),
    ];
    all.iter().flatten().map(|call| shown(family, batch, call)).collect()
}

fn line(told: &NativeLine) -> String {
    match &told.end {
        LineEnd::Answered { status, body } => format!("{} {status} {}\n", told.name, String::from_utf8_lossy(body)),
        LineEnd::Other(OtherAnswer { endpoint, body, cost }) => {
            let cost = cost.map(|cost| format!(" {} nanodollars", cost.0)).unwrap_or_default();
            format!("{} {}{cost} {}\n", told.name, endpoint.unwrap_or("unknown"), String::from_utf8_lossy(body))
        }
        LineEnd::Cancelled => format!("{} cancelled\n", told.name),
        LineEnd::Expired => format!("{} expired\n", told.name),
    }
}

fn standing(family: &dyn NativeBatches, told: &[u8]) -> String {
    let Some(NativeStanding { id, state, problems, results, told }) = family.standing(told) else {
        return "none\n".to_owned();
    };
    let lines: String = told.iter().map(line).collect();
    let results: Vec<_> = results.iter().map(|call| call.path.as_str()).collect();
    format!("{id} {state:?}\nproblems: {}\nresults: {}\n{lines}", problems.join("; "), results.join(" "))
}

/// What is expected of a folder, by file name.
fn outcome(folder: &Path) -> Vec<(String, String)> {
    let family = native_batches(&slug(folder)).unwrap_or_else(|| panic!("no batches of {}", slug(folder)));
    let read = |name: &str| fs::read(folder.join(name)).unwrap_or_else(|e| panic!("{}: {name}: {e}", folder.display()));
    let batch: Batch = serde_json::from_slice(&read("batch.json")).expect("batch.json");
    assert!(!read("source").is_empty(), "{} says where it is documented", folder.display());
    let mut out = vec![("calls.http".to_owned(), calls(family, &batch))];
    let mut told: Vec<_> = fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry")).collect();
    told.sort_by_key(fs::DirEntry::file_name);
    for entry in told {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(rest) = name.strip_prefix("told-").and_then(|rest| rest.strip_suffix(".json")) {
            out.push((format!("standing-{rest}.txt"), standing(family, &read(&name))));
        }
    }
    if folder.join("results.jsonl").exists() {
        let results = String::from_utf8(read("results.jsonl")).expect("text");
        let answers = results.lines().filter_map(|text| family.answer(text.as_bytes()));
        out.push(("answers.txt".to_owned(), answers.map(|told| line(&told)).collect()));
    }
    out
}

#[test]
#[expect(clippy::disallowed_methods, reason = "asked for by whoever runs the test")]
fn golden() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    for folder in folders() {
        for (name, is) in outcome(&folder) {
            let path = folder.join(&name);
            if update {
                fs::write(&path, &is).expect("written");
            }
            let expected = fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(is, expected, "{}/{name}", slug(&folder));
        }
    }
}

#[test]
fn every_family_has_its_folder_and_every_state_is_told() {
    let told: Vec<String> = folders().iter().map(|folder| slug(folder)).collect();
    let known = crate::catalog().providers();
    let with: Vec<&str> = known.iter().map(|info| info.slug).filter(|slug| native_batches(slug).is_some()).collect();
    assert_eq!(told, with);
    for folder in folders() {
        let all: String = outcome(&folder).into_iter().map(|(_, text)| text).collect();
        for state in ["InProgress", "Completed", "Cancelled"] {
            assert!(all.contains(state), "{} tells of {state}", slug(&folder));
        }
    }
}
