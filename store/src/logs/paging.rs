//! A page of records out of days that lie behind one another, the newest first. Where a time is set, what was found in
//! it is the page, with the place to go on from.

use super::day::Day;
use super::query::Cut;
use futures_util::future::join_all;
use gateway_domain::Timestamp;
use gateway_domain::ports::StoreError;
use gateway_domain::record::{LogCursor, LogQuery, LogRecord, Page};
use std::collections::VecDeque;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

/// A store that can be asked for one day at a time.
pub(super) trait ByDay: Sync {
    fn count(&self, day: Day, query: &LogQuery) -> impl Future<Output = Result<u64, StoreError>> + Send;
    fn slice(
        &self,
        day: Day,
        query: &LogQuery,
        slice: RecordSlice,
    ) -> impl Future<Output = Result<RowsFound, StoreError>> + Send;
}

/// A slice of those records of a day that match, newest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordSlice {
    pub(super) place: (u64, u64),
    /// Bytes that it may have of what clients decide the length of: where it has more, it is weighed and not read.
    pub(super) most_bytes: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct RowsFound {
    pub(super) rows: Vec<LogRecord>,
    /// Bytes of what clients decide the length of; 0 where no bound was set.
    pub(super) bytes: u64,
}

/// What one day gives to a page.
struct PagePart {
    /// What is left to be given by the days behind it.
    cut: Cut,
    /// All that match, also those that stand on other pages.
    count: u64,
    rows: Vec<LogRecord>,
    is_too_large: bool,
}

/// `days`: all that there are, newest first.
pub(super) async fn page(of: &impl ByDay, days: Vec<Day>, query: &LogQuery) -> Result<Page<LogRecord>, StoreError> {
    let from = query.from.map(Day::of);
    let to = query.to.into_iter().chain(query.cursor.map(|c| c.created_at)).min().map(Day::of);
    let within = |day: &Day| from.is_none_or(|from| *day >= from) && to.is_none_or(|to| *day <= to);
    let days: Vec<Day> = days.into_iter().filter(within).collect();
    let until = query.time.map(|time| Instant::now() + time);
    let (mut cut, mut found) = (Cut::page(query), Page::of(0));
    let mut first: Option<StoreError> = None;
    let mut counted = CountsAhead::new(of, query, until);
    for (at, day) in days.iter().enumerate() {
        if query.cursor.is_some() && cut.is_full() {
            break;
        }
        let part = match counted.next(&days[at..]).await {
            Some(Ok(count)) => within_time(until, part(of, *day, query, (count, cut))).await,
            Some(Err(error)) => Some(Err(error)),
            None => None,
        };
        match part {
            Some(Ok(part)) if part.is_too_large => return Ok(Page { is_too_large: true, rows: Vec::new(), ..found }),
            Some(Ok(part)) => {
                cut = part.cut;
                found.total += part.count;
                found.rows.extend(part.rows);
            }
            Some(Err(error)) => {
                tracing::warn!(day = day.name(), %error, "records of a day cannot be read");
                found.missing.push(day.name());
                first.get_or_insert(error);
            }
            None => {
                found.is_partial = true;
                // Who has got nowhere would only be sent to the same place again.
                let behind = day.end().filter(|_| days.first() != Some(day));
                found.resume = behind.map(|end| LogCursor { created_at: Timestamp(end), id: Uuid::nil() });
                break;
            }
        }
    }
    match first {
        // One damaged day hides nothing but itself; where there is no other, it is an error.
        Some(error) if found.missing.len() == days.len() => Err(error),
        _ => Ok(found),
    }
}

/// `None`: the time is up.
async fn within_time<T>(until: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match until {
        Some(until) if Instant::now() >= until => None,
        Some(until) => timeout_at(until, work).await.ok(),
        None => Some(work.await),
    }
}

/// Days that are counted at the same time.
const AT_ONCE: usize = 4;

/// How many match on each day, some days ahead. Behind a cursor nothing is counted.
struct CountsAhead<'q, D> {
    of: &'q D,
    query: &'q LogQuery,
    until: Option<Instant>,
    ahead: VecDeque<DayCount>,
}

/// `None`: the time was up.
type DayCount = Option<Result<u64, StoreError>>;

impl<'q, D: ByDay> CountsAhead<'q, D> {
    const fn new(of: &'q D, query: &'q LogQuery, until: Option<Instant>) -> Self {
        Self { of, query, until, ahead: VecDeque::new() }
    }

    /// How many records match of the first of the days that are left.
    async fn next(&mut self, left: &[Day]) -> DayCount {
        if self.query.cursor.is_some() {
            return Some(Ok(0));
        }
        if self.ahead.is_empty() {
            let counts = left.iter().take(AT_ONCE).map(|day| within_time(self.until, self.of.count(*day, self.query)));
            self.ahead = join_all(counts).await.into();
        }
        self.ahead.pop_front().flatten()
    }
}

/// Reads what a day adds to the page. Where there is a cursor, no records are passed over.
async fn part(of: &impl ByDay, day: Day, query: &LogQuery, (count, cut): (u64, Cut)) -> Result<PagePart, StoreError> {
    let mut part = PagePart { cut, count, rows: Vec::new(), is_too_large: false };
    let place = if query.cursor.is_some() { Some(cut.rest()) } else { part.cut.of(count) };
    let Some(place) = place else { return Ok(part) };
    let found = of.slice(day, query, RecordSlice { place, most_bytes: part.cut.left }).await?;
    if let Some(left) = &mut part.cut.left {
        part.is_too_large = found.bytes > *left;
        *left = left.saturating_sub(found.bytes);
    }
    part.rows = found.rows;
    if query.cursor.is_some() {
        part.cut.took(part.rows.len());
    }
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const DAY: i64 = 86_400_000_000;

    /// A record a day; the first days answer never.
    struct SlowUntil(i64);

    impl ByDay for SlowUntil {
        async fn count(&self, _: Day, _: &LogQuery) -> Result<u64, StoreError> {
            Ok(1)
        }

        async fn slice(&self, day: Day, _: &LogQuery, _: RecordSlice) -> Result<RowsFound, StoreError> {
            if day.start() < Some(self.0 * DAY) {
                std::future::pending::<()>().await;
            }
            let record = LogRecord { created_at: Timestamp(day.start().unwrap_or_default()), ..LogRecord::blank() };
            Ok(RowsFound { rows: vec![record], bytes: 0 })
        }
    }

    #[tokio::test]
    async fn what_was_found_in_time_is_shown_with_the_place_to_go_on_from() {
        let days = || [5, 4, 3].map(|day| Day::of(Timestamp(day * DAY))).to_vec();
        let asked = LogQuery {
            page_size: 10,
            cursor: Some(LogCursor::START),
            // What answers at once is in time, however long it took to come to it.
            time: Some(Duration::from_millis(20)),
            ..LogQuery::default()
        };
        let found = page(&SlowUntil(4), days(), &asked).await.expect("a page");
        assert!(found.is_partial && found.rows.len() == 2);
        let place = found.resume.expect("a place");
        assert_eq!((place.created_at, place.id), (Timestamp(4 * DAY), Uuid::nil()));
        let behind = page(&SlowUntil(0), days(), &LogQuery { cursor: Some(place), ..asked.clone() }).await;
        assert!(behind.is_ok_and(|found| !found.is_partial && found.rows.len() == 2));
        // Nowhere to go on from: the newest day is not looked through yet.
        let found = page(&SlowUntil(6), days(), &asked).await.expect("a page");
        assert!(found.is_partial && found.rows.is_empty() && found.resume.is_none());
        let untimed = page(&SlowUntil(0), days(), &LogQuery { time: None, ..asked }).await.expect("a page");
        assert!(!untimed.is_partial && untimed.rows.len() == 3);
    }
}
