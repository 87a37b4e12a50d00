//! What breaks a rule for now, in a list for each rule (`allowed/<rule>.txt`), each line a place and how often the rule
//! is broken there if more than once. A list may shrink and never grow: an offence that is not on it fails, and so does
//! a line that is no offence any more. `TIDY_SHRINK=1` takes such lines off.

use super::source::root;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Where a rule is broken, in words that stay while lines move, and what is wrong there.
pub(crate) struct Offence {
    key: String,
    detail: String,
}

impl Offence {
    pub(crate) fn new(key: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { key: key.into(), detail: detail.into() }
    }
}

const TIMES: &str = " ×";

/// Fails with every offence that is not allowed, and with every allowance that is no longer needed.
#[expect(clippy::disallowed_methods, reason = "the environment of a test is not the program's")]
pub(crate) fn judge(rule: &str, offences: &[Offence]) {
    let path = root().join(format!("tests/tidy/allowed/{}.txt", rule.replace(' ', "-")));
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let allowed: BTreeMap<&str, usize> = lines.map(counted).collect();
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for offence in offences {
        found.entry(&offence.key).or_default().push(&offence.detail);
    }
    let times = |key: &str| found.get(key).map_or(0, Vec::len);
    let needless: Vec<String> = allowed
        .iter()
        .filter(|(key, most)| times(key) < **most)
        .map(|(key, most)| format!("{key}: {} and not {most}", times(key)))
        .collect();
    if std::env::var_os("TIDY_SHRINK").is_some() {
        let head = text.lines().take_while(|line| line.starts_with('#')).map(ToOwned::to_owned);
        let kept = allowed.iter().map(|(key, most)| (key, times(key).min(*most))).filter(|(_, times)| *times > 0);
        let kept = kept.map(|(key, n)| if n > 1 { format!("{key}{TIMES}{n}") } else { (*key).to_owned() });
        let shrunk: String = head.chain(kept).map(|line| line + "\n").collect();
        if shrunk != text {
            std::fs::write(&path, shrunk).expect("the list is written");
        }
    } else {
        assert!(
            needless.is_empty(),
            "rule `{rule}` is broken less by now; TIDY_SHRINK=1 mends {path:?}: {needless:#?}"
        );
    }
    let mut report = String::new();
    for (key, details) in found {
        if details.len() > allowed.get(key).copied().unwrap_or(0) {
            let _ = writeln!(report, "  {key}: {}", details.join("; "));
        }
    }
    assert!(report.is_empty(), "rule `{rule}`:\n{report}");
}

fn counted(line: &str) -> (&str, usize) {
    let split = line.split_once(TIMES).and_then(|(key, times)| Some((key, times.parse().ok()?)));
    split.unwrap_or((line, 1))
}
