//! When something at a provider is looked at next, and when no more: by how old it is, how near its window ends, and
//! what the looks before found. Knows no clock and no provider.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Times the shortest pause that the longest one has.
const LONGEST: u32 = 12;
/// Looks in a row by which the provider knew nothing of it.
const MOST_UNKNOWN: u32 = 4;
/// Looks in a row that found it at an end without anything to count: results may come a little later than that is told.
const MOST_EMPTY: u32 = 3;

/// What the operator says of looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchTimes {
    /// The first look, and the shortest pause between two. Zero: nothing is watched.
    pub(crate) every: Duration,
    /// How long a batch is watched in all.
    pub(crate) lasts: Duration,
}

/// What looks found until now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct WatchProgress {
    pub(super) looks: u32,
    /// Looks in a row that found the batch unknown to its provider; `empty` and `failed` count looks in a row too.
    pub(super) unknown: u32,
    empty: u32,
    failed: u32,
    /// When it is to be done, in seconds since 1970.
    pub(super) window_ends: Option<i64>,
}

/// What one look found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BatchLook {
    /// It goes on; until when, where the provider says so, in seconds since 1970.
    Open(Option<i64>),
    Counted,
    /// It ended, and there is nothing to count.
    Empty,
    /// It never will have anything to count.
    Nothing,
    /// The provider knows of none.
    Unknown,
    /// Nobody can say: why.
    Failed(String),
}

/// Why nothing is looked at any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchEnd {
    Counted,
    Nothing,
    /// The provider knows nothing of it.
    Gone,
    /// It took too long.
    GivenUp,
    /// Nobody is there any more whom it could be charged to.
    Homeless,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NextLook {
    In(Duration, WatchProgress),
    Never(WatchEnd),
}

/// How old it is, and how far its window's end is, before or behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct WatchMoment {
    pub(super) age: Duration,
    pub(super) from_end: Option<Duration>,
}

pub(super) fn next(before: &WatchProgress, found: &BatchLook, at: WatchMoment, times: WatchTimes) -> NextLook {
    let before = WatchProgress { looks: before.looks.saturating_add(1), ..before.clone() };
    let mut after = WatchProgress { looks: before.looks, window_ends: before.window_ends, ..WatchProgress::default() };
    let pause = match found {
        BatchLook::Counted => return NextLook::Never(WatchEnd::Counted),
        BatchLook::Nothing => return NextLook::Never(WatchEnd::Nothing),
        BatchLook::Empty if before.empty + 1 >= MOST_EMPTY => return NextLook::Never(WatchEnd::Nothing),
        BatchLook::Unknown if before.unknown + 1 >= MOST_UNKNOWN => return NextLook::Never(WatchEnd::Gone),
        BatchLook::Open(ends) => {
            after.window_ends = ends.or(before.window_ends);
            pause(at, times.every)
        }
        BatchLook::Empty => {
            after.empty = before.empty + 1;
            times.every
        }
        BatchLook::Unknown => {
            after.unknown = before.unknown + 1;
            backed_off(after.unknown, times.every)
        }
        BatchLook::Failed(_) => {
            // What was found before stays found: a provider that is away says nothing of it.
            (after.unknown, after.empty, after.failed) =
                (before.unknown, before.empty, before.failed.saturating_add(1));
            backed_off(after.failed, times.every)
        }
    };
    if at.age >= times.lasts {
        return NextLook::Never(WatchEnd::GivenUp);
    }
    // The last look is one at the end of the time, and not before it.
    let left = times.lasts.saturating_sub(at.age).max(times.every);
    NextLook::In(pause.min(left), after)
}

/// Half as long as it has been there, or as its window's end is away, whichever is shorter.
fn pause(at: WatchMoment, every: Duration) -> Duration {
    let near = at.from_end.map_or(at.age, |from_end| from_end.min(at.age));
    (near / 2).clamp(every, every.saturating_mul(LONGEST))
}

/// Twice as long each time.
fn backed_off(times: u32, every: Duration) -> Duration {
    let grown = 1_u32.checked_shl(times.saturating_sub(1)).unwrap_or(LONGEST);
    every.saturating_mul(grown.clamp(1, LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: WatchTimes = WatchTimes { every: Duration::from_secs(300), lasts: Duration::from_secs(8 * 86_400) };
    const DAY: u64 = 86_400;

    fn at(age: u64, from_end: Option<u64>) -> WatchMoment {
        WatchMoment { age: Duration::from_secs(age), from_end: from_end.map(Duration::from_secs) }
    }

    fn paused(next: &NextLook) -> u64 {
        match next {
            NextLook::In(pause, _) => pause.as_secs(),
            NextLook::Never(end) => panic!("it ended: {end:?}"),
        }
    }

    #[test]
    fn pauses_grow_with_the_age_and_shrink_towards_the_end_of_the_window() {
        let table: &[(u64, Option<u64>, u64)] = &[
            (0, None, 300),
            (300, None, 300),
            (900, None, 450),
            (3_600, None, 1_800),
            (7_200, None, 3_600),
            (5 * DAY, None, 3_600),
            (3_600, Some(DAY - 3_600), 1_800),
            (DAY - 7_200, Some(7_200), 3_600),
            (DAY - 3_600, Some(3_600), 1_800),
            (DAY - 600, Some(600), 300),
            (DAY, Some(0), 300),
            (DAY + 1_200, Some(1_200), 600),
            (2 * DAY, Some(DAY), 3_600),
        ];
        for (age, from_end, expected) in table {
            let next = next(&WatchProgress::default(), &BatchLook::Open(None), at(*age, *from_end), TIMES);
            assert_eq!(paused(&next), *expected, "{age} s old, {from_end:?} s from the end");
        }
    }

    #[test]
    fn a_batch_of_a_day_is_looked_at_some_fifty_times_and_soon_after_its_end() {
        let (mut age, mut looks) = (TIMES.every.as_secs(), 0);
        while age < DAY {
            let next = next(&WatchProgress::default(), &BatchLook::Open(None), at(age, Some(DAY - age)), TIMES);
            (age, looks) = (age + paused(&next), looks + 1);
        }
        assert!((30..60).contains(&looks) && age - DAY < 600, "{looks} looks, the last {} s late", age - DAY);
    }

    #[test]
    fn what_is_found_ends_it_or_makes_it_wait() {
        let look = |progress: &WatchProgress, found: BatchLook| next(progress, &found, at(600, None), TIMES);
        let mut progress = WatchProgress::default();
        for expected in [300, 600, 1_200] {
            let NextLook::In(pause, after) = look(&progress, BatchLook::Unknown) else { panic!("it ended") };
            assert_eq!(pause.as_secs(), expected);
            progress = after;
        }
        // A provider that is away says nothing of what it knows.
        let NextLook::In(pause, away) = look(&progress, BatchLook::Failed("away".into())) else { panic!("it ended") };
        assert_eq!((pause.as_secs(), away.unknown), (300, 3));
        assert_eq!(look(&away, BatchLook::Unknown), NextLook::Never(WatchEnd::Gone));
        let NextLook::In(_, there) = look(&progress, BatchLook::Open(Some(7))) else { panic!("it ended") };
        assert_eq!((there.unknown, there.window_ends, there.looks), (0, Some(7), 4), "it is there after all");
        let mut progress = WatchProgress::default();
        let mut pauses = Vec::new();
        for _ in 0..40 {
            let NextLook::In(pause, after) = look(&progress, BatchLook::Failed("away".into())) else {
                panic!("it ended")
            };
            pauses.push(pause.as_secs());
            progress = after;
        }
        assert_eq!((&pauses[..5], pauses[39]), (&[300, 600, 1_200, 2_400, 3_600][..], 3_600));
        assert_eq!(look(&progress, BatchLook::Counted), NextLook::Never(WatchEnd::Counted));
        assert_eq!(look(&progress, BatchLook::Nothing), NextLook::Never(WatchEnd::Nothing));
        let mut progress = WatchProgress::default();
        for _ in 1..MOST_EMPTY {
            let NextLook::In(pause, after) = look(&progress, BatchLook::Empty) else { panic!("it ended") };
            assert_eq!(pause, TIMES.every);
            progress = after;
        }
        assert_eq!(look(&progress, BatchLook::Empty), NextLook::Never(WatchEnd::Nothing));
    }

    #[test]
    fn it_ends_after_its_time_whatever_is_found() {
        let lasts = TIMES.lasts.as_secs();
        for found in [BatchLook::Open(None), BatchLook::Unknown, BatchLook::Empty, BatchLook::Failed("away".into())] {
            let look = |age| next(&WatchProgress::default(), &found, at(age, None), TIMES);
            assert_eq!(look(lasts), NextLook::Never(WatchEnd::GivenUp), "{found:?}");
            assert!(paused(&look(lasts - 1_000)) <= 1_000, "one more at the very end");
        }
    }
}
