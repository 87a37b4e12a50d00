//! Connections to files of days, kept from one question for the next: a question about months goes through as many
//! files, and to open each of them takes longer than to read what is asked. Knows paths of no files and no tables.

use super::day::Day;
use parking_lot::Mutex;
use sqlx::sqlite::SqliteConnection;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Each is a thread and three file descriptors. When all places are taken the rest is opened anew each time, so that a
/// question about more days still finds some of them.
const MOST: usize = 100;
/// So long one waits for the next question.
const IDLE: Duration = Duration::from_secs(300);

#[derive(Debug)]
struct IdleReader {
    connection: Box<SqliteConnection>,
    since: Instant,
}

#[derive(Debug, Default)]
pub(super) struct DayReaders(Mutex<HashMap<Day, IdleReader>>);

impl DayReaders {
    pub(super) fn take(&self, day: Day) -> Option<Box<SqliteConnection>> {
        self.0.lock().remove(&day).map(|idle| idle.connection)
    }

    /// Only of a connection whose last question is answered: one that was given up in its middle is to be dropped.
    pub(super) fn keep(&self, day: Day, connection: Box<SqliteConnection>) {
        let mut idle = self.0.lock();
        if idle.len() < MOST {
            idle.insert(day, IdleReader { connection, since: Instant::now() });
        }
    }

    /// Its file goes.
    pub(super) fn forget(&self, day: Day) {
        self.0.lock().remove(&day);
    }

    pub(super) fn close_idle(&self) {
        self.0.lock().retain(|_, idle| idle.since.elapsed() < IDLE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::Timestamp;
    use sqlx::Connection;

    fn day(n: i64) -> Day {
        Day::of(Timestamp::from_secs(n * 86_400))
    }

    async fn connection() -> Box<SqliteConnection> {
        Box::new(SqliteConnection::connect("sqlite::memory:").await.unwrap())
    }

    #[tokio::test]
    async fn what_is_kept_is_taken_once() {
        let readers = DayReaders::default();
        readers.keep(day(1), connection().await);
        assert!(readers.take(day(2)).is_none());
        assert!(readers.take(day(1)).is_some() && readers.take(day(1)).is_none());
        readers.keep(day(1), connection().await);
        readers.forget(day(1));
        assert!(readers.take(day(1)).is_none());
    }

    #[tokio::test]
    async fn there_is_room_for_so_many_and_for_so_long() {
        let readers = DayReaders::default();
        for n in 0..=MOST {
            readers.keep(day(n as i64), connection().await);
        }
        assert_eq!(readers.0.lock().len(), MOST);
        readers.close_idle();
        assert_eq!(readers.0.lock().len(), MOST, "they just came");
        for idle in readers.0.lock().values_mut() {
            idle.since -= IDLE;
        }
        readers.close_idle();
        assert!(readers.0.lock().is_empty());
    }
}
