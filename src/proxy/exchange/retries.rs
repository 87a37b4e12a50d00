//! Tries one target again as the retry rules say. Knows neither providers nor connections: what is tried is an
//! argument, and so is the pause between two tries.

use super::backoff::{Backoff, Next};
use crate::proxy::client::ClientLeft;
use crate::proxy::deliver::Outcome;
use gateway_domain::FaultKind;
use gateway_domain::config::Retry;
use std::time::Duration;

/// One target that can be tried.
pub(crate) trait Tries: Send {
    fn once(&mut self) -> impl Future<Output = Result<Outcome, ClientLeft>> + Send;
    /// Lets an answer go that is not wanted, and waits.
    fn pause(&mut self, unwanted: Outcome, wait: Duration) -> impl Future<Output = Result<(), ClientLeft>> + Send;
    /// What was asked can be sent once more.
    fn can_repeat(&self) -> bool;
    /// The time that is left for the whole request; `None` is unlimited.
    fn left(&self) -> Option<Duration>;
}

/// `retries` becomes the number of the retry that answered, or -1 when none was left.
pub(crate) async fn run(tries: &mut impl Tries, retry: &Retry, retries: &mut i32) -> Result<Outcome, ClientLeft> {
    let mut backoff = Backoff::default();
    loop {
        let outcome = tries.once().await?;
        *retries = i32::try_from(backoff.tries).unwrap_or(i32::MAX);
        if !wants_retry(&outcome, retry) || !tries.can_repeat() {
            return Ok(outcome);
        }
        let retry_after = if outcome.status() == 429 { outcome.retry_after() } else { None };
        let wait = match backoff.next(retry, retry_after, tries.left()) {
            Next::Wait(wait) => wait,
            Next::Stop { used_up } => {
                if used_up {
                    *retries = -1;
                }
                return Ok(outcome);
            }
        };
        Box::pin(tries.pause(outcome, wait)).await?;
    }
}

/// Network failures always count; the gateway's own time-out and every status only when listed.
fn wants_retry(outcome: &Outcome, retry: &Retry) -> bool {
    match outcome {
        Outcome::Fault(fault) => match fault.kind() {
            FaultKind::Unreachable | FaultKind::UpstreamBroken | FaultKind::UpstreamSilent => true,
            _ => retry.statuses.contains(&fault.status()) && !fault.kind().row().exception,
        },
        other => retry.statuses.contains(&other.status()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::deliver::{WholeAnswer, bare_head};
    use bytes::Bytes;
    use gateway_domain::Fault;
    use pingora::{Error, ErrorType};
    use std::collections::VecDeque;

    /// Answers as the script says; remembers how long it was to wait.
    #[derive(Default)]
    struct Script {
        outcomes: VecDeque<Result<Outcome, ClientLeft>>,
        waits: Vec<u64>,
        let_go: Vec<u16>,
        once_only: bool,
        left: Option<Duration>,
        leaves_in_pause: bool,
    }

    impl Tries for Script {
        async fn once(&mut self) -> Result<Outcome, ClientLeft> {
            self.outcomes.pop_front().expect("no try that the script does not know")
        }

        async fn pause(&mut self, unwanted: Outcome, wait: Duration) -> Result<(), ClientLeft> {
            self.let_go.push(unwanted.status());
            self.waits.push(u64::try_from(wait.as_millis()).expect("short"));
            if self.leaves_in_pause { Err(ClientLeft::Silent) } else { Ok(()) }
        }

        fn can_repeat(&self) -> bool {
            !self.once_only
        }

        fn left(&self) -> Option<Duration> {
            self.left
        }
    }

    fn status(status: u16) -> Result<Outcome, ClientLeft> {
        Ok(Outcome::Whole(Box::new(WholeAnswer::new(bare_head(status), Bytes::new()))))
    }

    fn after(code: u16, name: &'static str, value: &'static str) -> Result<Outcome, ClientLeft> {
        let mut head = bare_head(code);
        head.insert_header(name, value).expect("a header");
        Ok(Outcome::Whole(Box::new(WholeAnswer::new(head, Bytes::new()))))
    }

    fn fault(kind: FaultKind) -> Result<Outcome, ClientLeft> {
        Ok(Outcome::Fault(Fault::new(kind, "x")))
    }

    fn script(outcomes: impl IntoIterator<Item = Result<Outcome, ClientLeft>>) -> Script {
        Script { outcomes: outcomes.into_iter().collect(), ..Script::default() }
    }

    fn rules(attempts: u32, statuses: &[u16]) -> Retry {
        Retry { attempts, statuses: statuses.into(), use_retry_after: true, ..Retry::default() }
    }

    async fn ran(script: &mut Script, retry: &Retry) -> (u16, i32) {
        let mut retries = 0;
        let outcome = run(script, retry, &mut retries).await.expect("an answer");
        (outcome.status(), retries)
    }

    #[tokio::test]
    async fn an_answer_that_is_not_listed_stands() {
        for code in [200, 400, 401, 500] {
            let mut script = script([status(code)]);
            assert_eq!(ran(&mut script, &rules(3, &[503])).await, (code, 0));
            assert_eq!(script.waits, [0; 0]);
        }
    }

    #[tokio::test]
    async fn a_listed_status_is_tried_again_until_it_is_another() {
        let mut script = script([status(503), status(503), status(200)]);
        assert_eq!(ran(&mut script, &rules(5, &[503])).await, (200, 2));
        assert_eq!(script.waits, [1000, 2000]);
        assert_eq!(script.let_go, [503, 503]);
    }

    #[tokio::test]
    async fn the_last_answer_stands_when_no_retry_is_left() {
        let mut script = script([status(503), status(502), status(503)]);
        assert_eq!(ran(&mut script, &rules(2, &[502, 503])).await, (503, -1));
        assert_eq!(script.let_go, [503, 502], "what the client gets is not let go");
    }

    #[tokio::test]
    async fn no_rule_no_retry() {
        let mut script = script([fault(FaultKind::Unreachable)]);
        assert_eq!(ran(&mut script, &rules(0, &[])).await, (503, 0));
    }

    #[tokio::test]
    async fn network_failures_need_no_listing() {
        for kind in [FaultKind::Unreachable, FaultKind::UpstreamBroken, FaultKind::UpstreamSilent] {
            let mut script = script([fault(kind), status(200)]);
            assert_eq!(ran(&mut script, &rules(1, &[])).await, (200, 1), "{kind:?}");
        }
    }

    #[tokio::test]
    async fn the_gateways_own_refusals_are_tried_again_where_they_are_listed() {
        for (kind, listed, tries) in [
            (FaultKind::TimedOut, &[][..], 0),
            (FaultKind::TimedOut, &[408], 1),
            (FaultKind::RateLimited, &[], 0),
            (FaultKind::RateLimited, &[429], 1),
            (FaultKind::BadBody, &[], 0),
        ] {
            let mut script = script([fault(kind), status(200)]);
            assert_eq!(ran(&mut script, &rules(1, listed)).await.1, tries, "{kind:?} {listed:?}");
        }
    }

    #[tokio::test]
    async fn a_429_says_how_long_to_wait() {
        let mut script = script([after(429, "retry-after-ms", "40"), after(429, "retry-after", "2"), status(200)]);
        assert_eq!(ran(&mut script, &rules(5, &[429])).await, (200, 2));
        assert_eq!(script.waits, [40, 2000]);
    }

    #[tokio::test]
    async fn only_a_429_does() {
        let mut script = script([after(503, "retry-after-ms", "40"), status(200)]);
        assert_eq!(ran(&mut script, &rules(5, &[503])).await, (200, 1));
        assert_eq!(script.waits, [1000]);
    }

    #[tokio::test]
    async fn what_cannot_be_sent_again_is_not() {
        let mut script = Script { once_only: true, ..script([status(503)]) };
        assert_eq!(ran(&mut script, &rules(5, &[503])).await, (503, 0));
    }

    #[tokio::test]
    async fn no_try_begins_after_the_time_for_the_whole() {
        let mut script = Script { left: Some(Duration::from_millis(900)), ..script([status(503)]) };
        assert_eq!(ran(&mut script, &rules(5, &[503])).await, (503, -1));
        assert_eq!(script.waits, [0; 0]);
    }

    #[tokio::test]
    async fn a_client_that_leaves_ends_the_tries() {
        let gone = || Err(ClientLeft::Gone(Error::explain(ErrorType::ConnectionClosed, "gone")));
        let mut retries = 0;
        let mut leaves = script([status(503), gone()]);
        assert!(matches!(run(&mut leaves, &rules(5, &[503]), &mut retries).await, Err(ClientLeft::Gone(_))));
        let mut leaves = Script { leaves_in_pause: true, ..script([status(503)]) };
        assert!(matches!(run(&mut leaves, &rules(5, &[503]), &mut retries).await, Err(ClientLeft::Silent)));
        assert_eq!(leaves.let_go, [503]);
    }
}
