//! What is wrong with a guardrail as it was written: named by check and field, so that whoever wrote it finds the
//! place.

use std::fmt;

/// More are not listed: whoever wrote so many mends these first.
const MOST: usize = 50;

/// One broken rule. `check` is the id of the check as it was written, or empty for fields of the guardrail itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardrailProblem {
    pub check: String,
    /// A path within the check's parameters, or the field of the guardrail.
    pub field: String,
    /// A rule, as the rest of a sentence that begins with the field: "must be true or false".
    pub message: String,
}

impl fmt::Display for GuardrailProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.check.is_empty(), self.field.is_empty()) {
            (true, true) => f.write_str(&self.message),
            (true, false) => write!(f, "`{}` {}", self.field, self.message),
            (false, true) => write!(f, "check `{}` {}", self.check, self.message),
            (false, false) => write!(f, "check `{}`: `{}` {}", self.check, self.field, self.message),
        }
    }
}

/// Bytes that the patterns of one guardrail may take together.
const MOST_PATTERNS: usize = 4 << 20;

/// The broken rules found so far, and what was compiled beside them.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    list: Vec<GuardrailProblem>,
    patterns: usize,
}

impl Problems {
    pub(crate) fn add(&mut self, check: &str, field: &str, message: impl Into<String>) {
        if self.list.len() < MOST {
            let short = |text: &str| text.chars().take(120).collect::<String>();
            self.list.push(GuardrailProblem { check: short(check), field: short(field), message: message.into() });
        }
    }

    /// Counts a compiled pattern; false: those of one guardrail take too much.
    pub(crate) fn weigh(&mut self, bytes: usize) -> bool {
        self.patterns += bytes;
        self.patterns <= MOST_PATTERNS
    }

    /// What the patterns take that were compiled so far.
    pub(crate) const fn weight(&self) -> usize {
        self.patterns
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn into_result<T>(self, value: T) -> Result<T, Vec<GuardrailProblem>> {
        if self.list.is_empty() { Ok(value) } else { Err(self.list) }
    }
}
