//! Queries as they stand in a config document: operators that are known, patterns that can be built.

use super::pattern::{PatternRefusal, QueryPattern, classes};
use super::{FieldTest, Op, Query, QueryClause, QueryKey, QueryValue};
use crate::config::compiler::Compiler;
use crate::config::cost::{Cost, PATTERN_MEMORY, PATTERN_TEXT, quoted};
use crate::config::place::At;
use serde_json::{Map, Value};

/// Deeper nesting of `$and` and `$or` has no use.
const MOST_DEPTH: usize = 16;

impl Compiler<'_> {
    pub(in crate::config) fn query(&mut self, at: &At<'_>, value: &Value, depth: usize) -> Query {
        let Value::Object(map) = value else {
            self.here(at, "must be an object");
            return Query::default();
        };
        if depth > MOST_DEPTH {
            self.here(at, format!("must not be nested deeper than {MOST_DEPTH} levels"));
            return Query::default();
        }
        if !self.spend(at, Cost::Tests, map.len().max(1)) {
            return Query::default();
        }
        let parts = map.iter().filter_map(|(key, value)| {
            let at = at.then(key);
            Some(match key.as_str() {
                "$and" => QueryClause::And(self.queries(&at, value, depth)),
                "$or" => QueryClause::Or(self.queries(&at, value, depth)),
                op if op.starts_with('$') => {
                    self.here(&at, unsupported(op));
                    return None;
                }
                path => QueryClause::Field(QueryKey::parse(path), self.test(&at, value)),
            })
        });
        Query(parts.collect())
    }

    fn queries(&mut self, at: &At<'_>, value: &Value, depth: usize) -> Vec<Query> {
        let Some(list) = value.as_array() else {
            self.here(at, "must be an array of queries");
            return Vec::new();
        };
        let numbered = list.iter().enumerate();
        numbered.map(|(i, query)| self.query(&at.then(&i.to_string()), query, depth + 1)).collect()
    }

    fn test(&mut self, at: &At<'_>, value: &Value) -> FieldTest {
        match value {
            Value::Object(ops) => FieldTest::All(self.operators(at, ops)),
            Value::Array(_) => {
                self.here(at, "must be a literal or an object of operators; a list goes into $in");
                FieldTest::All(Vec::new())
            }
            literal => FieldTest::Is(literal.clone()),
        }
    }

    fn operators(&mut self, at: &At<'_>, ops: &Map<String, Value>) -> Vec<Op> {
        let listed = |v: &Value| v.as_array().map_or(1, Vec::len);
        if !self.spend(at, Cost::Tests, ops.values().map(listed).sum()) {
            return Vec::new();
        }
        let list = |v: &Value| v.as_array().cloned();
        let made = ops.iter().filter_map(|(name, value)| {
            Some(match name.as_str() {
                "$eq" => Op::Eq(value.clone()),
                "$ne" => Op::Ne(value.clone()),
                "$gt" => Op::Gt(QueryValue::Json(value).number()),
                "$gte" => Op::Gte(QueryValue::Json(value).number()),
                "$lt" => Op::Lt(QueryValue::Json(value).number()),
                "$lte" => Op::Lte(QueryValue::Json(value).number()),
                "$in" => Op::In(list(value)),
                "$nin" => Op::Nin(list(value)),
                "$regex" => Op::Regex(self.pattern(&at.then(name), value)?),
                other => {
                    self.here(&at.then(name), unsupported(other));
                    return None;
                }
            })
        });
        made.collect()
    }
}

impl Compiler<'_> {
    /// A pattern that cannot be built would silently never match, so it is told instead.
    fn pattern(&mut self, at: &At<'_>, value: &Value) -> Option<QueryPattern> {
        let rule = "must be a regular expression without look-around or back-references";
        let Some(text) = value.as_str() else {
            self.here(at, rule);
            return None;
        };
        if text.len() > PATTERN_TEXT {
            self.here(at, format!("must be a pattern of at most {PATTERN_TEXT} bytes"));
            return None;
        }
        let Some(classes) = classes(text) else {
            self.here(at, rule);
            return None;
        };
        // Each is asked, so that a bound once passed ends all that comes behind it.
        let within = self.spend(at, Cost::Patterns, 1) & self.spend(at, Cost::Classes, classes);
        if !within || !self.spend(at, Cost::PatternMemory, 0) {
            return None;
        }
        match QueryPattern::build(text) {
            Ok(pattern) => self.spend(at, Cost::PatternMemory, pattern.memory()).then_some(pattern),
            Err(refusal) => {
                match refusal {
                    PatternRefusal::Syntax => self.here(at, rule),
                    PatternRefusal::TooLarge => {
                        let most = PATTERN_MEMORY >> 10;
                        self.here(at, format!("is too large a pattern: it takes more than {most} KiB once compiled"));
                    }
                }
                // What was refused was work all the same.
                self.spend(at, Cost::PatternMemory, PATTERN_MEMORY);
                None
            }
        }
    }
}

fn unsupported(name: &str) -> String {
    format!("Unsupported operator used in the query router: {}", quoted(name))
}
