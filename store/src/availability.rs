//! How a database did last: whether it could be reached, and whether it took what was written. Calls of people are
//! refused at once while it is known to be away, but for one that looks again now and then; what follows the database
//! (the watcher, heart-beats, the shipper) waits its full time and so finds out that it is back.

use gateway_domain::ports::StoreError;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Time between two looks of people's calls at a server that is away.
const LOOK: Duration = Duration::from_secs(1);
/// How long such a look may take, and any call after the first sign that something is wrong.
const SHORT: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(crate) struct Reach(Mutex<ReachState>);

#[derive(Debug, Default)]
struct ReachState {
    standing: Standing,
    /// When a connection was there last.
    reached: Option<Instant>,
    /// Why the last write failed.
    writing: Option<String>,
}

#[derive(Debug, Default)]
enum Standing {
    #[default]
    Fine,
    /// A connection broke: nobody knows yet whether the server is gone.
    Suspect,
    Away {
        why: String,
        looked: Instant,
    },
}

/// How a call of somebody who waits for the answer may go on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CallAllowance {
    Full,
    Within(Duration),
    None(String),
}

impl Reach {
    pub(crate) fn patience(&self) -> CallAllowance {
        match &mut self.0.lock().standing {
            Standing::Fine => CallAllowance::Full,
            Standing::Suspect => CallAllowance::Within(SHORT),
            Standing::Away { looked, .. } if looked.elapsed() >= LOOK => {
                *looked = Instant::now();
                CallAllowance::Within(SHORT)
            }
            Standing::Away { why, .. } => CallAllowance::None(why.clone()),
        }
    }

    /// A connection was there, or was not; `began` is when it was asked for. Whoever began to wait while the server was
    /// away and gave up after it had come back says nothing of now.
    pub(crate) fn leased(&self, began: Instant, failed: Option<&StoreError>) {
        let mut state = self.0.lock();
        match failed {
            None => {
                state.standing = Standing::Fine;
                state.reached = Some(Instant::now());
            }
            Some(_) if state.reached.is_some_and(|reached| reached >= began) => {}
            Some(error) => state.standing = Standing::Away { why: error.to_string(), looked: Instant::now() },
        }
    }

    pub(crate) fn suspect(&self) {
        let mut state = self.0.lock();
        if matches!(state.standing, Standing::Fine) {
            state.standing = Standing::Suspect;
        }
    }

    /// What was to be written is there, or is not. A refusal for reasons of its own says nothing of the database.
    pub(crate) fn wrote(&self, failed: Option<&StoreError>) {
        let why = failed.filter(|error| !matches!(error, StoreError::Conflict(_))).map(ToString::to_string);
        self.0.lock().writing = why;
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        let state = self.0.lock();
        match &state.standing {
            Standing::Away { why, .. } => Some(format!("cannot be reached: {why}")),
            Standing::Fine | Standing::Suspect => state.writing.as_ref().map(|why| format!("takes no changes: {why}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_is_told_at_once_and_one_looks_again() {
        let reach = Reach::default();
        assert_eq!(reach.patience(), CallAllowance::Full);
        reach.suspect();
        assert_eq!(reach.patience(), CallAllowance::Within(SHORT));
        let gone = StoreError::Unavailable("gone".to_owned());
        let began = Instant::now();
        reach.leased(began, Some(&gone));
        assert!(matches!(reach.patience(), CallAllowance::None(why) if why.contains("gone")));
        reach.suspect();
        assert!(matches!(reach.patience(), CallAllowance::None(_)), "what is known is not forgotten by a guess");
        if let Standing::Away { looked, .. } = &mut reach.0.lock().standing {
            *looked = Instant::now().checked_sub(LOOK).expect("the machine is up for a second");
        }
        assert_eq!(reach.patience(), CallAllowance::Within(SHORT));
        assert!(matches!(reach.patience(), CallAllowance::None(_)), "one looks for all");
        reach.leased(began, None);
        assert_eq!((reach.patience(), reach.trouble()), (CallAllowance::Full, None));
        reach.leased(began, Some(&gone));
        assert_eq!(reach.patience(), CallAllowance::Full, "who waited since before it came back is late");
        reach.wrote(Some(&gone));
        assert!(reach.trouble().is_some_and(|why| why.contains("gone")));
        reach.wrote(Some(&StoreError::Conflict("slug".to_owned())));
        assert_eq!(reach.trouble(), None);
    }
}
