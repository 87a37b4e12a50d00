//! A WHERE clause that grows: fragments written in this crate, values always bound.

use crate::session::Value;
use gateway_domain::ports::StoreError;
use std::fmt::Write;

/// SQLite takes 32,766 parameters, Postgres 65,535; no honest question needs a tenth of them.
const MOST_VALUES: usize = 3_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Filter<'v> {
    clause: String,
    values: Vec<Value<'v>>,
}

impl<'v> Filter<'v> {
    /// `test` holds one `?` where the value goes.
    pub(crate) fn and(&mut self, test: &'static str, value: impl Into<Value<'v>>) -> &mut Self {
        self.values.push(value.into());
        self.joint();
        let (before, after) = test.split_once('?').unwrap_or((test, ""));
        let _ = write!(self.clause, "{before}${}{after}", self.values.len());
        self
    }

    pub(crate) fn and_if<V: Into<Value<'v>>>(&mut self, test: &'static str, value: Option<V>) -> &mut Self {
        match value {
            Some(value) => self.and(test, value),
            None => self,
        }
    }

    /// An empty list asks for nothing in particular.
    pub(crate) fn and_in<V: Into<Value<'v>>>(
        &mut self,
        column: &'static str,
        values: impl IntoIterator<Item = V>,
    ) -> &mut Self {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return self;
        }
        self.joint();
        let _ = write!(self.clause, "{column} IN (");
        for (at, value) in values.enumerate() {
            self.values.push(value.into());
            let comma = if at == 0 { "" } else { ", " };
            let _ = write!(self.clause, "{comma}${}", self.values.len());
        }
        self.clause.push(')');
        self
    }

    /// Asks that at least one of `tests` holds. Each test holds as many `?` as it has values.
    pub(crate) fn and_any(&mut self, tests: impl IntoIterator<Item = (&'static str, Vec<Value<'v>>)>) -> &mut Self {
        let mut tests = tests.into_iter().peekable();
        if tests.peek().is_none() {
            return self;
        }
        self.joint();
        for (at, (test, values)) in tests.enumerate() {
            self.clause.push_str(if at == 0 { "(" } else { " OR " });
            let mut rest = test;
            for value in values {
                let (before, after) = rest.split_once('?').unwrap_or((rest, ""));
                self.values.push(value);
                let _ = write!(self.clause, "{before}${}", self.values.len());
                rest = after;
            }
            self.clause.push_str(rest);
        }
        self.clause.push(')');
        self
    }

    /// What stands behind a place in a list that is sorted by these two, the greatest first.
    pub(crate) fn and_behind(&mut self, time: i64, id: impl Into<Value<'v>>) -> &mut Self {
        self.values.push(time.into());
        self.values.push(id.into());
        self.joint();
        let at = self.values.len();
        let _ = write!(self.clause, "created_at <= ${0} AND (created_at < ${0} OR id < ${1})", at - 1, at);
        self
    }

    pub(crate) fn literal(&mut self, test: &'static str) -> &mut Self {
        self.joint();
        self.clause.push_str(test);
        self
    }

    fn joint(&mut self) {
        self.clause.push_str(if self.clause.is_empty() { " WHERE " } else { " AND " });
    }

    /// `select` ends with the table; `tail` groups what matches.
    pub(crate) fn grouped(self, select: &str, tail: &str) -> (String, Vec<Value<'v>>) {
        (format!("{select}{}{tail}", self.clause), self.values)
    }

    /// How many match.
    pub(crate) fn count(&self, table: &'static str) -> (String, Vec<Value<'v>>) {
        (format!("SELECT COUNT(*) FROM {table}{}", self.clause), self.values.clone())
    }

    /// One page of those that match. A page past every row is empty, not an error.
    pub(crate) fn page(
        self,
        select: &'static str,
        order: &'static str,
        page: u64,
        size: u64,
    ) -> (String, Vec<Value<'v>>) {
        self.slice(select, order, page.saturating_mul(size), size)
    }

    /// Selects at most `limit` of the rows that match, behind the first `offset`.
    pub(crate) fn slice(
        mut self,
        select: &'static str,
        order: &'static str,
        offset: u64,
        limit: u64,
    ) -> (String, Vec<Value<'v>>) {
        let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let at = self.values.len();
        self.values.push(whole(limit).into());
        self.values.push(whole(offset).into());
        let sql = format!("{select}{} ORDER BY {order} LIMIT ${} OFFSET ${}", self.clause, at + 1, at + 2);
        (sql, self.values)
    }

    pub(crate) fn delete(self, table: &'static str) -> (String, Vec<Value<'v>>) {
        (format!("DELETE FROM {table}{}", self.clause), self.values)
    }

    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if self.values.len() > MOST_VALUES {
            return Err(StoreError::Broken(format!("more than {MOST_VALUES} values to filter by")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbered_and_never_written() {
        let mut filter = Filter::default();
        filter.and("a = ?", "x' OR 1=1").and_if("b >= ?", None::<i64>).and_in("c", ["1", "2"]);
        filter.and_in("d", Vec::<i64>::new()).literal("e IS NULL").and_any([]);
        let mut any = Filter::default();
        any.and_any([("f = ?", vec![1.into()]), ("(g = ? AND h = ?)", vec!["x".into(), 2.into()])]);
        let (count, values) = any.count("t");
        assert_eq!(count, "SELECT COUNT(*) FROM t WHERE (f = $1 OR (g = $2 AND h = $3))");
        assert_eq!(values.len(), 3);
        let (count, values) = filter.count("t");
        assert_eq!(count, "SELECT COUNT(*) FROM t WHERE a = $1 AND c IN ($2, $3) AND e IS NULL");
        assert_eq!(values.len(), 3);
        let (page, values) = filter.page("SELECT a FROM t", "a DESC", 2, 10);
        assert!(page.ends_with("e IS NULL ORDER BY a DESC LIMIT $4 OFFSET $5"), "{page}");
        assert!(matches!(values[4], Value::Int(Some(20))));
    }
}
