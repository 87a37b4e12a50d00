//! `containsCode`: a fenced block of a language, told by the first word of its mark.

use super::{BuiltJudge, selection};
use crate::check::{Case, CheckOutcome, Judge, JudgeStep, each_text, excerpt};
use crate::content::Selection;
use crate::parameters::Parameters;
use serde_json::json;

/// Languages by the names that the parameter takes, each with the spellings of marks.
const LANGUAGES: &[(&str, &[&str])] = &[
    ("SQL", &["sql", "mysql", "postgresql", "postgres", "plsql", "tsql", "sqlite"]),
    ("Python", &["python", "py", "python3", "py3", "ipython"]),
    ("TypeScript", &["typescript", "ts", "tsx"]),
    ("JavaScript", &["javascript", "js", "jsx", "mjs", "cjs", "node"]),
    ("Java", &["java"]),
    ("C#", &["c#", "csharp", "cs"]),
    ("C++", &["c++", "cpp", "cc", "cxx", "hpp"]),
    ("C", &["c", "h"]),
    ("Ruby", &["ruby", "rb"]),
    ("PHP", &["php"]),
    ("Swift", &["swift"]),
    ("Kotlin", &["kotlin", "kt", "kts"]),
    ("Go", &["go", "golang"]),
    ("Rust", &["rust", "rs"]),
    ("Scala", &["scala"]),
    ("R", &["r"]),
    ("Perl", &["perl", "pl"]),
    ("Shell", &["shell", "sh", "bash", "zsh", "fish", "console", "shell-session"]),
    ("HTML", &["html", "htm", "xhtml"]),
    ("CSS", &["css", "scss", "sass", "less"]),
    ("XML", &["xml", "svg"]),
    ("JSON", &["json", "jsonc", "json5", "jsonl"]),
    ("YAML", &["yaml", "yml"]),
    ("Markdown", &["markdown", "md"]),
    ("Dockerfile", &["dockerfile", "docker"]),
];
/// Blocks whose languages results tell of.
const MOST_TOLD: usize = 100;

#[derive(Debug)]
struct ContainsCode {
    format: &'static str,
    not: bool,
    selection: Selection,
}

pub(super) fn contains_code(p: &Parameters<'_>) -> BuiltJudge {
    let wanted = p.required_text("format");
    let found = LANGUAGES.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
    if found.is_none() && !wanted.is_empty() {
        let names: Vec<&str> = LANGUAGES.iter().map(|(name, _)| *name).collect();
        p.problem("format", format!("must be one of: {}", names.join(", ")));
    }
    let (not, selection) = (p.flag("not", false), selection(p, Selection::TEXT));
    found.map(|(format, _)| Box::new(ContainsCode { format, not, selection }) as _)
}

/// The name of a language by a mark, or the mark itself.
fn language(mark: &str) -> String {
    let lower = mark.to_lowercase();
    let known = LANGUAGES.iter().find(|(_, spellings)| spellings.contains(&lower.as_str()));
    known.map_or(lower, |(name, _)| (*name).to_owned())
}

/// A fenced block of Markdown: what stands between two lines of backticks or tildes.
pub(super) struct FencedBlock<'t> {
    pub(super) mark: &'t str,
    pub(super) inside: &'t str,
}

/// The blocks of a text; one that is never closed ends with the text. Fences may stand inside a line, as models put
/// them: "Here: ```json {…}```".
pub(super) fn blocks(text: &str) -> Vec<FencedBlock<'_>> {
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some(open) = rest.find("```") {
        let length = rest[open..].bytes().take_while(|b| *b == b'`').count();
        let (fence, after) = (&rest[open..open + length], &rest[open + length..]);
        let mark_end = after.find(|c: char| c.is_whitespace() || "`,:;".contains(c)).unwrap_or(after.len());
        let line_end = after.find('\n').unwrap_or(after.len());
        let close = after.find(fence);
        // On its own line the mark may have attributes behind it, which are no part of the block.
        let inside_from = if close.is_some_and(|c| c < line_end) { mark_end } else { line_end };
        let inside_to = close.unwrap_or(after.len());
        let (from, to) = (inside_from.min(inside_to), inside_to);
        let mark = after[..mark_end.min(inside_to)].trim_matches(|c| matches!(c, '{' | '}' | '.' | ','));
        out.push(FencedBlock { mark, inside: &after[from..to] });
        rest = close.map_or("", |c| &after[c + fence.len()..]);
    }
    out
}

impl Judge for ContainsCode {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        let judge = |text: &str| {
            let mut formats: Vec<String> = Vec::new();
            for block in blocks(text).iter().filter(|b| !b.mark.is_empty()) {
                let name = language(block.mark);
                if !formats.contains(&name) && formats.len() < MOST_TOLD {
                    formats.push(name);
                }
            }
            let found = formats.iter().any(|f| f == self.format);
            let verdict = found != self.not;
            let explanation = match (found, formats.is_empty()) {
                (true, _) => format!("A block of {} was found", self.format),
                (false, true) => "No block of code was found".to_owned(),
                (false, false) => format!("No block of {} was found", self.format),
            };
            let data = json!({"explanation": explanation, "searchedFormat": self.format, "not": self.not,
                "foundFormats": formats, "textExcerpt": excerpt(text)});
            CheckOutcome::new(verdict, data)
        };
        each_text(case, self.selection, false, |joined| judge(&joined.text)).into()
    }
}
