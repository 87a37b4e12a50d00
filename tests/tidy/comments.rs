//! Comments are for strangers: modules open with what they are, nothing is left undone, and what is cited can be read.

use super::allowed::{Offence, judge};
use super::source::{root, sources, tracked};

#[test]
fn modules_say_what_they_are() {
    let offences = sources().into_iter().filter_map(|s| {
        let has = s.text.trim_start().starts_with("//!") || s.text.starts_with("#!/");
        (!has).then(|| Offence::new(s.path, "opens without `//!`"))
    });
    judge("module docs", &offences.collect::<Vec<_>>());
}

/// What must not stand in a source file, in two halves so that this file does not hold it.
#[test]
fn nothing_is_left_undone() {
    let words = [("TO", "DO"), ("FIX", "ME"), ("#[ign", "ore"), ("to", "do!("), ("unimple", "mented!("), ("dbg", "!(")];
    let mut offences = Vec::new();
    for source in sources() {
        for (at, line) in source.text.lines().enumerate() {
            for (left, right) in words {
                if has_word(line, &format!("{left}{right}")) {
                    offences.push(Offence::new(&source.path, format!("{left}{right} in line {}", at + 1)));
                }
            }
        }
    }
    judge("nothing undone", &offences);
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !letter(before) && (word.ends_with('(') || !letter(after))
    })
}

/// A page that is not in the repository explains nothing to who reads the code: an RFC, a provider's page or one of
/// `docs/` does. Numbers of invariants are not the reader's either.
#[test]
fn what_comments_cite_can_be_read() {
    let mut offences = Vec::new();
    for source in sources() {
        for (at, line) in source.text.lines().enumerate() {
            if let Some(cited) = comment(line).and_then(unreadable) {
                offences.push(Offence::new(&source.path, format!("cites {cited} in line {}", at + 1)));
            }
        }
    }
    for page in ["*.md", "*.toml", "*.yml", "*.yaml", "*.py", "*.sh", "Makefile"].into_iter().flat_map(tracked) {
        let text = std::fs::read_to_string(root().join(&page)).expect("a page");
        if let Some(cited) = text.lines().find_map(unreadable) {
            offences.push(Offence::new(page, format!("cites {cited}")));
        }
    }
    judge("readable citations", &offences);
}

fn comment(line: &str) -> Option<&str> {
    line.find("//").map(|at| &line[at..])
}

/// What is cited that nobody can open.
fn unreadable(text: &str) -> Option<&str> {
    let words = text.split_whitespace();
    let pages = words.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric() && c != '/'));
    let mut pages = pages.peekable();
    while let Some(page) = pages.next() {
        let design = page == concat!("design", ".md") || text.contains(concat!("`desi", "gn`"));
        let spec = page.starts_with(concat!("spec", "/"));
        let invariant =
            page == "invariant" && pages.peek().is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()));
        if design || spec || invariant {
            return Some(page);
        }
    }
    None
}

#[test]
fn citations_are_found() {
    let (spec, design) = (concat!("// as `spec", "/auth.md` says"), concat!("/// (`design", ".md` §3)"));
    for line in [spec, design, concat!("//! checked (invar", "iant 6)")] {
        assert!(comment(line).and_then(unreadable).is_some(), "{line}");
    }
    for line in ["// RFC 9110, 7.6.1", "/// see `docs/configs.md`", "// the invariant holds", "let spec = 1;"] {
        assert!(comment(line).and_then(unreadable).is_none(), "{line}");
    }
}

/// The measures measure: without this, a mistake above would pass every rule.
#[test]
fn words_are_found_whole() {
    assert!(has_word("a TO DO", "TO") && !has_word("aTO", "TO") && !has_word("TOOLS", "TOOL"));
}

/// Lints are silenced by `expect`, which complains when there is nothing to silence.
#[test]
fn lints_are_expected_not_allowed() {
    let (left, right) = ("[al", "low(");
    let offences = sources().into_iter().filter_map(|s| {
        s.text.contains(&format!("{left}{right}")).then(|| Offence::new(s.path, "use #[expect(…, reason)]"))
    });
    judge("no allow", &offences.collect::<Vec<_>>());
}

/// Beginnings after which a comment is a piece of a sentence, whose rest the reader would have to guess.
const FRAGMENTS: [&str; 4] = ["Of ", "As ", "Whose ", "The same "];

#[test]
fn comments_are_sentences() {
    let mut offences = Vec::new();
    for source in sources() {
        for (at, said) in paragraphs(&source.text) {
            if let Some(start) = FRAGMENTS.iter().find(|start| said.starts_with(**start)) {
                offences.push(Offence::new(&source.path, format!("a comment begins with `{start}` in line {at}")));
            }
        }
    }
    judge("comments are sentences", &offences);
}

/// First lines of paragraphs of comments, each with its number.
fn paragraphs(text: &str) -> Vec<(usize, &str)> {
    let mut goes_on = false;
    let begins = text.lines().enumerate().filter_map(|(at, line)| {
        let said = line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']).trim_start());
        let begins = said.filter(|said| !goes_on && !said.is_empty());
        goes_on = said.is_some_and(|said| !said.is_empty());
        begins.map(|said| (at + 1, said))
    });
    begins.collect()
}

#[test]
fn paragraphs_of_comments_are_found() {
    let text = "//! One\n//! Of two\n\n/// Of three\nlet a = 1; // Of four\n    // Five\n    //\n    // As six\n";
    let found = [(1, "One"), (4, "Of three"), (6, "Five"), (8, "As six")];
    assert_eq!(paragraphs(text), found);
}
