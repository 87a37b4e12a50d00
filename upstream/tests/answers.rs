//! Answers of upstreams, good and broken, each by name: how it is read, whole, byte by byte and at seeded splits, and
//! then the close of the connection. A file of `corpus/` holds what was asked, the bytes (one line of text each, with
//! escapes) and behind `====` what is read of them.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../fuzz/answers.rs"]
mod answers;

use answers::{End, Outcome, outcome};
use gateway_upstream::http1::{self, RequestKind};
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn folder(path: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let entries = std::fs::read_dir(&folder).expect("a corpus");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

/// `\r`, `\n`, `\t`, `\\`, `\xNN`, and `\{N*TEXT}` for repetition.
fn bytes(line: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), line);
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let (code, behind) = rest[at + 1..].split_at(1);
        rest = behind;
        match code {
            "r" => out.push(b'\r'),
            "n" => out.push(b'\n'),
            "t" => out.push(b'\t'),
            "\\" => out.push(b'\\'),
            "x" => {
                out.push(u8::from_str_radix(&rest[..2], 16).expect("two digits"));
                rest = &rest[2..];
            }
            "{" => {
                let (inner, behind) = rest.split_once("\\}").expect("an end of the repetition");
                let (times, text) = inner.split_once('*').expect("how often, and what");
                out.extend(bytes(text).repeat(times.parse().expect("a number")));
                rest = behind;
            }
            other => panic!("no escape: {other}"),
        }
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

fn shown(outcome: &Outcome) -> String {
    let mut text = format!("status {}\n", outcome.status);
    for line in &outcome.headers {
        let _ = writeln!(text, "header {line}");
    }
    for line in &outcome.hop_by_hop {
        let _ = writeln!(text, "hop {line}");
    }
    if !outcome.body.is_empty() {
        let body = outcome.body.escape_ascii().to_string();
        let _ = if body.len() > 100 {
            writeln!(text, "body of {} bytes", outcome.body.len())
        } else {
            writeln!(text, "body {body}")
        };
    }
    let _ = match outcome.end {
        End::Kept => writeln!(text, "whole; the connection is kept"),
        End::Whole => writeln!(text, "whole; the connection is not used again"),
        End::MoreBehind => writeln!(text, "whole; more lies behind it"),
        End::Broken(why) => writeln!(text, "broken: {why}"),
    };
    text
}

#[test]
fn each_answer_is_read_as_its_file_says() {
    let (mut failed, files) = (String::new(), folder("tests/corpus"));
    assert!(files.len() > 50, "{} answers", files.len());
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a file");
        let (input, expected) = text.split_once("====\n").expect("two parts");
        let (asked, lines) = input.split_once('\n').expect("what was asked");
        let asked = match asked {
            "asked: content" => RequestKind::Content,
            "asked: head" => RequestKind::HeadOnly,
            "asked: websocket" => RequestKind::WebSocket,
            other => panic!("{}: {other}", file.display()),
        };
        let input: Vec<u8> = lines.lines().flat_map(bytes).collect();
        for seed in [3, 77, 201] {
            let found = shown(&outcome(asked, &input, seed));
            if found != expected {
                let _ = writeln!(failed, "{}\nexpected\n{expected}found\n{found}", file.display());
                break;
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn what_fuzzing_kept_breaks_nothing() {
    let files = folder("../fuzz/corpus/answers");
    assert!(files.len() > 10, "{} inputs", files.len());
    let mut failed = Vec::new();
    for file in files {
        let input = std::fs::read(&file).expect("a file");
        if std::panic::catch_unwind(|| answers::answers(&input)).is_err() {
            failed.push(file);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
