//! Filters (RFC 7644, 3.4.2.2): which resources a question is about. Reading one is in [`mod@parse`], holding a
//! resource against one in [`evaluation`]. Both are bounded by the length and the depth that are read.

mod evaluation;
mod expression;
mod parse;

pub(super) use evaluation::{fits, holds};
pub(super) use expression::{Comparison, ScimFilter};
pub(super) use parse::{parse, parse_values};

#[cfg(test)]
mod tests;
