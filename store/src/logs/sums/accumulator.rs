//! What comes of a question, while it is read: cells that add up, and what is left of the room that it has.

use super::stretch::Stretch;
use gateway_domain::analytics::{Fact, SumCell, SumQuery, Sums, SumsFound};
use serde_json::{Map, Value};
use smol_str::SmolStr;
use std::collections::BTreeMap;

/// More cells are no answer that anybody looks at.
pub(in crate::logs) const MOST_CELLS: usize = 200_000;

pub(in crate::logs) struct Gather<'q> {
    pub(in crate::logs) query: &'q SumQuery,
    cells: BTreeMap<(usize, Vec<SmolStr>), Sums>,
    records: u64,
    is_partial: bool,
    is_cut: bool,
}

impl<'q> Gather<'q> {
    pub(in crate::logs) const fn of(query: &'q SumQuery) -> Self {
        Self { query, cells: BTreeMap::new(), records: 0, is_partial: false, is_cut: false }
    }

    /// Records that may still be read one by one.
    pub(super) const fn room(&self) -> u64 {
        self.query.most_records.saturating_sub(self.records)
    }

    pub(super) const fn takes_one_more(&mut self) -> bool {
        if self.room() == 0 {
            self.is_partial = true;
            return false;
        }
        self.records += 1;
        true
    }

    /// Something could not be read.
    pub(in crate::logs) const fn miss(&mut self) {
        self.is_partial = true;
    }

    /// Everything was read, and there was room for it.
    pub(super) const fn is_whole(&self) -> bool {
        !self.is_partial
    }

    /// What was gathered apart from this, of another time.
    pub(super) fn merge(&mut self, other: Self) {
        self.is_partial |= other.is_partial;
        self.is_cut |= other.is_cut;
        self.records += other.records;
        for (key, sums) in other.cells {
            if let Some(cell) = self.cell_at(key) {
                cell.merge(&sums);
            }
        }
    }

    pub(super) fn is_of_one_span(&self, stretch: &Stretch) -> bool {
        self.span(stretch.from) == self.span(stretch.to - 1)
    }

    fn span(&self, at: i64) -> usize {
        let edges = &self.query.edges;
        let behind = edges.partition_point(|edge| edge.micros() <= at);
        behind.saturating_sub(1).min(edges.len().saturating_sub(2))
    }

    pub(super) fn add_fact(&mut self, fact: &Fact, values: Vec<SmolStr>) {
        let at = fact.created_at.micros();
        if let Some(sums) = self.cell(at, values) {
            sums.add(fact);
        }
    }

    pub(in crate::logs) fn add(&mut self, at: i64, values: Vec<SmolStr>, sums: &Sums, is_cut: bool) {
        self.is_cut |= is_cut;
        if let Some(cell) = self.cell(at, values) {
            cell.merge(sums);
        }
    }

    fn cell(&mut self, at: i64, values: Vec<SmolStr>) -> Option<&mut Sums> {
        self.cell_at((self.span(at), values))
    }

    fn cell_at(&mut self, key: (usize, Vec<SmolStr>)) -> Option<&mut Sums> {
        if self.cells.len() >= MOST_CELLS && !self.cells.contains_key(&key) {
            self.is_partial = true;
            return None;
        }
        Some(self.cells.entry(key).or_default())
    }

    pub(in crate::logs) fn found(self) -> SumsFound {
        let cell = |((span, values), sums)| SumCell { span, values, sums };
        SumsFound {
            cells: self.cells.into_iter().map(cell).collect(),
            is_partial: self.is_partial,
            is_cut: self.is_cut,
            records_read: self.records,
        }
    }
}

/// The value of a key in a JSON object of texts; empty where there is none.
pub(in crate::logs) fn value_in(metadata: &str, key: &str) -> SmolStr {
    let read: Map<String, Value> = serde_json::from_str(metadata).unwrap_or_default();
    read.get(key).and_then(Value::as_str).map(SmolStr::from).unwrap_or_default()
}
