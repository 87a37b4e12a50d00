//! The records of a day, one after the other, the newest first, read a page at a time.

use super::super::day::Day;
use gateway_domain::Timestamp;
use gateway_domain::ports::{LogStore, StoreError};
use gateway_domain::record::{LogCursor, LogQuery, LogRecord};
use std::cmp::Ordering;
use std::vec::IntoIter;

const PAGE: u64 = 1_000;

pub(super) struct Walk<'s> {
    store: &'s dyn LogStore,
    query: LogQuery,
    page: IntoIter<LogRecord>,
    is_over: bool,
    /// Looked at, and not yet passed.
    here: Option<LogRecord>,
}

impl<'s> Walk<'s> {
    pub(super) fn of(store: &'s dyn LogStore, day: Day) -> Self {
        let query = LogQuery {
            from: day.start().map(Timestamp),
            to: day.end().map(|end| Timestamp(end - 1)),
            cursor: Some(LogCursor::START),
            page_size: PAGE,
            ..LogQuery::default()
        };
        Self { store, query, page: Vec::new().into_iter(), is_over: false, here: None }
    }

    pub(super) async fn next(&mut self) -> Result<Option<LogRecord>, StoreError> {
        if let Some(record) = self.page.next() {
            return Ok(Some(record));
        }
        if self.is_over {
            return Ok(None);
        }
        let page = self.store.query(&self.query).await?;
        if !page.missing.is_empty() {
            return Err(StoreError::Broken(format!("days that cannot be read: {}", page.missing.join(", "))));
        }
        match page.rows.last() {
            Some(last) => self.query.cursor = Some(LogCursor { created_at: last.created_at, id: last.id }),
            None => self.is_over = true,
        }
        self.page = page.rows.into_iter();
        Ok(self.page.next())
    }

    /// This store's record with the same time and id. Records are asked for in the order of the walk.
    pub(super) async fn at(&mut self, record: &LogRecord) -> Result<Option<&LogRecord>, StoreError> {
        loop {
            if self.here.is_none() {
                self.here = self.next().await?;
            }
            let order = self.here.as_ref().map(|here| (here.created_at, here.id).cmp(&(record.created_at, record.id)));
            match order {
                Some(Ordering::Greater) => self.here = None,
                Some(Ordering::Equal) => return Ok(self.here.as_ref()),
                Some(Ordering::Less) | None => return Ok(None),
            }
        }
    }
}
