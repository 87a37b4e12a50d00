//! Logs by what was thought of them: a weighted average of all feedback of a trace. Feedback lies apart from records,
//! so that the traces are found first, and the records by them.

use crate::input::QueryString;
use crate::problem::{Problem, bad};
use crate::route::AdminCall;
use gateway_domain::feedback::{FeedbackQuery, Opinion, TraceFeedback};
use gateway_domain::record::LogQuery;
use gateway_domain::time::Timestamp;
use std::collections::HashMap;

pub(super) const LEAST: &str = "weighted_feedback_min";
pub(super) const MOST: &str = "weighted_feedback_max";

/// Pieces of feedback that one question reads, the newest first.
pub(crate) const MOST_READ: u64 = 100_000;
/// Traces that one question may be about.
pub(crate) const MOST_TRACES: usize = 2_000;

/// Opinions that add up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opinions {
    pub(crate) count: u64,
    weighted: i128,
    weight: i128,
}

impl Opinions {
    pub(crate) fn add(&mut self, opinion: &Opinion) {
        self.count += 1;
        self.weighted += i128::from(opinion.value) * i128::from(opinion.weight);
        self.weight += i128::from(opinion.weight);
    }

    pub(crate) const fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.weighted += other.weighted;
        self.weight += other.weight;
    }

    /// `None`: none has any weight.
    #[expect(clippy::cast_precision_loss, reason = "told to people, never counted with")]
    pub(crate) fn average(self) -> Option<f64> {
        (self.weight > 0).then(|| self.weighted as f64 / self.weight as f64 / 1e3)
    }
}

/// Adds opinions up for each trace. The traces are in the order in which they were told of, the newest first.
pub(crate) fn by_trace(found: &[TraceFeedback]) -> Vec<(&str, Opinions)> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut traces: Vec<(&str, Opinions)> = Vec::new();
    for feedback in found {
        let at = *places.entry(&feedback.trace_id).or_insert_with(|| {
            traces.push((&feedback.trace_id, Opinions::default()));
            traces.len() - 1
        });
        traces[at].1.add(&feedback.opinion);
    }
    traces
}

/// Narrows a query to traces whose average lies within the bounds; only feedback since `from` counts. `None`: no record
/// matches.
pub(super) async fn narrow(
    call: &AdminCall,
    q: &QueryString,
    mut query: LogQuery,
    from: Option<Timestamp>,
) -> Result<Option<LogQuery>, Problem> {
    let (least, most) = (bound(q, LEAST)?, bound(q, MOST)?);
    if least.is_none() && most.is_none() {
        return Ok(Some(query));
    }
    // Whoever sees own logs only sees no feedback of others, and nobody knows whose it is.
    if !call.actor.sees_all {
        return Ok(None);
    }
    let named = query.trace_id.take().into_iter().chain(std::mem::take(&mut query.trace_ids)).collect();
    let asked = FeedbackQuery {
        org: Some(call.actor.org),
        workspaces: query.workspaces.clone(),
        from,
        to: None,
        trace_ids: named,
        most: MOST_READ,
        id: None,
    };
    let found = call.app.feedbacks.feedbacks(&asked).await?;
    let is_meant = |average: f64| least.is_none_or(|least| average >= least) && most.is_none_or(|most| average <= most);
    let traces = by_trace(&found).into_iter().filter(|(_, opinions)| opinions.average().is_some_and(is_meant));
    query.trace_ids = traces.map(|(trace, _)| trace.to_owned()).collect();
    if found.len() as u64 >= MOST_READ || query.trace_ids.len() > MOST_TRACES {
        let name = if least.is_some() { LEAST } else { MOST };
        return Err(bad(name, format_args!("is about more than {MOST_TRACES} traces: ask for a shorter time")));
    }
    Ok(Some(query).filter(|query| !query.trace_ids.is_empty()))
}

fn bound(q: &QueryString, name: &str) -> Result<Option<f64>, Problem> {
    const RULE: &str = "must be a number from -10 to 10";
    let given = q.parsed::<f64>(name, RULE)?;
    if given.is_some_and(|number| !(-10.0..=10.0).contains(&number)) { Err(bad(name, RULE)) } else { Ok(given) }
}
