//! What a run of an assistant used, which compatible servers tell at its end and every time that it is looked at:
//! counted with the first answer that tells of the end, be it a stream or a look, at whichever node. Steps and lists
//! tell of it once more and count nothing.

use super::{CallParts, Exchange};
use crate::bookings::{BookingId, ClaimedBy, Knowledge, RecordClaim};
use crate::clock;
use crate::proxy::deliver::Outcome;
use crate::proxy::request::Request;
use crate::proxy::{objects, own_objects, target};
use gateway_domain::Operation;
use gateway_domain::ports::StoreError;
use gateway_providers::EndedRun;
use http::Method;
use uuid::Uuid;

/// The call is about one run, whose answer must be read whole where it is no stream.
pub(super) fn are_meant(request: &Request) -> bool {
    let route = &request.ask.route;
    // Every call is asked this: most are told by their operation.
    matches!(route.operation, Operation::CreateRun | Operation::ModifyRun | Operation::Proxy)
        && is_about_one(route.tail())
}

/// `/threads/runs` makes a thread with its run; below a thread there are its runs, and what is done about one.
fn is_about_one(tail: &str) -> bool {
    let is_front = |part: &&str| matches!(*part, "openai" | "v1");
    // One more than any of them has.
    let parts: Vec<&str> = tail.trim_matches('/').split('/').skip_while(is_front).take(6).collect();
    matches!(
        parts[..],
        ["threads", "runs"]
            | ["threads", _, "runs"]
            | ["threads", _, "runs", _]
            | ["threads", _, "runs", _, "submit_tool_outputs" | "cancel"]
    )
}

/// `None`: the answer is about something else, or the run goes on, or it is a stream, which tells at its end.
pub(super) fn seen(request: &Request, outcome: &Outcome) -> Option<Box<EndedRun>> {
    let Outcome::Whole(answer) = outcome else { return None };
    if !are_meant(request) || answer.usage.is_none() {
        return None;
    }
    EndedRun::read(&answer.original).map(Box::new)
}

impl Exchange<'_> {
    /// Whether what was told is of a run, and was counted with another call. `record`: of this one.
    pub(super) async fn was_counted(&self, run: Option<Box<EndedRun>>, record: Uuid) -> bool {
        match run {
            None => false,
            // Boxed, as few calls have it.
            Some(run) => !Box::pin(self.counts_run(&run, record)).await,
        }
    }

    async fn counts_run(&self, run: &EndedRun, record: Uuid) -> bool {
        let Ok(aim) = target::resolve_place(self.routing.plan.leaf(), self.routing.inline, self.request) else {
            return true;
        };
        let keeper = objects::keeper_of(&aim, self.request);
        let id = BookingId::of(&[b"run", &keeper, run.id.as_bytes()]);
        // What a call brought to its end has ended now, whatever the clock of its server says.
        let told = run.ended_secs.filter(|_| self.request.ask.method == Method::GET);
        let ended = told.unwrap_or_else(|| clock::now().secs());
        match self.claims(id, ended, record).await {
            Ok(is_ours) => is_ours,
            Err(e) => {
                tracing::warn!(error = %e, "whether a run was counted before is not known");
                // A look can be repeated, and the next one counts it; what made the run go on cannot.
                self.request.ask.method != Method::GET
            }
        }
    }

    async fn claims(&self, id: BookingId, ended_secs: i64, record: Uuid) -> Result<bool, StoreError> {
        let CallParts { bookings, booked_records, .. } = self.parts;
        let (owner, by) = (own_objects::owner(self.request), ClaimedBy { record, node: &booked_records.node });
        let (turn, earlier) = match bookings.claim((id, owner), ended_secs, by).await? {
            RecordClaim::Ours => return Ok(true),
            RecordClaim::Past => return Ok(false),
            RecordClaim::Unsure(turn, earlier) => (turn, earlier),
        };
        let known = match turn.unsure() {
            Some((unsure, _)) => booked_records.knowledge(unsure).await,
            None => Knowledge::Later,
        };
        let was_counted = match known {
            Knowledge::Later => return Ok(false),
            Knowledge::Never => true,
            Knowledge::ByRecord => booked_records.has_record(earlier, owner.workspace).await?,
        };
        if was_counted {
            turn.end(bookings, true).await?;
            return Ok(false);
        }
        turn.claims(bookings, by).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_about_one_run_are_told_from_lists_and_steps() {
        for about in [
            "/threads/runs",
            "/threads/t/runs",
            "/threads/t/runs/",
            "/threads/t/runs/r",
            "/threads/t/runs/r/cancel",
            "/threads/t/runs/r/submit_tool_outputs",
            "/openai/threads/t/runs/r",
            "/openai/v1/threads/t/runs/r",
        ] {
            assert!(is_about_one(about), "{about}");
        }
        for other in [
            "/x/threads/t/runs/r",
            "/threads/t",
            "/threads/t/messages",
            "/threads/t/runs/r/steps",
            "/threads/t/runs/r/steps/s",
        ] {
            assert!(!is_about_one(other), "{other}");
        }
    }
}
