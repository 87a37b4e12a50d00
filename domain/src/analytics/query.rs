//! What is asked of sums, and what comes back.

use super::{SumParts, Sums};
use crate::record::LogQuery;
use crate::time::Timestamp;
use smol_str::SmolStr;
use std::time::Duration;

/// What sums are told apart by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dimension {
    Workspace,
    Key,
    /// `_user` of metadata.
    User,
    Provider,
    VirtualKey,
    Model,
    Status,
    Config,
    /// Slug of the saved prompt.
    Prompt,
    /// Found in single records alone: no rollup tells traces apart.
    Trace,
    /// Any key of metadata; those that the organisation names are in rollups.
    Metadata(SmolStr),
}

#[derive(Clone, Debug)]
pub struct SumQuery {
    /// Its filters. Its times and pages are of no account.
    pub of: LogQuery,
    /// Where spans begin, oldest first, and behind the last one where it ends: two at least.
    pub edges: Vec<Timestamp>,
    pub by: Vec<Dimension>,
    /// What is told of each.
    pub parts: SumParts,
    /// What may be read of single records, where rollups do not do.
    pub most_records: u64,
    pub time: Duration,
}

/// What the records of one span have in sum that are alike in all that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumCell {
    /// Which span, from 0.
    pub span: usize,
    pub values: Vec<SmolStr>,
    pub sums: Sums,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SumsFound {
    /// Ordered by span, then by values.
    pub cells: Vec<SumCell>,
    /// Not all records could be read in the time or the room that there was.
    pub is_partial: bool,
    /// Values that it was asked by were too many to be kept apart: those are empty.
    pub is_cut: bool,
    /// Single records that were read.
    pub records_read: u64,
}
