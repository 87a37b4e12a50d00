//! What OpenAI's interface for assistants tells of runs, as far as usage is concerned: a run tells it once it has
//! ended, and its steps tell their shares of the same.
//! <https://platform.openai.com/docs/api-reference/runs/object>

use crate::wire::{JsonStr, read};
use serde::Deserialize;

/// A run that uses nothing more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRun {
    /// The run's id as its provider gave it.
    pub id: String,
    /// Seconds since 1970, where that is told.
    pub ended_secs: Option<i64>,
}

/// What an answer, or an event's data, tells of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ToldRun {
    Ended(EndedRun),
    /// A run that goes on, or a step: what it tells of usage is told again by the run at its end.
    Share,
}

#[derive(Deserialize)]
struct RunObject<'a> {
    #[serde(borrow)]
    object: Option<JsonStr<'a>>,
    #[serde(borrow)]
    id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    status: Option<JsonStr<'a>>,
    completed_at: Option<i64>,
    failed_at: Option<i64>,
    cancelled_at: Option<i64>,
    created_at: Option<i64>,
}

impl ToldRun {
    /// `None`: it is about something else.
    pub(crate) fn read(json: &[u8]) -> Option<Self> {
        // Few answers have the word at all.
        memchr::memmem::find(json, b"thread.run")?;
        let told = read::<RunObject<'_>>(json)?;
        let kind = told.object?.0;
        if kind != "thread.run" {
            return kind.starts_with("thread.run.").then_some(Self::Share);
        }
        let status = told.status.map(|status| status.0.into_owned()).unwrap_or_default();
        let goes_on = matches!(status.as_str(), "queued" | "in_progress" | "requires_action" | "cancelling");
        let ended_secs = told.completed_at.or(told.failed_at).or(told.cancelled_at).or(told.created_at);
        match told.id.filter(|_| !goes_on) {
            Some(id) => Some(Self::Ended(EndedRun { id: id.0.into_owned(), ended_secs })),
            None => Some(Self::Share),
        }
    }
}

impl EndedRun {
    /// `None`: it is no run, or one that goes on.
    pub fn read(json: &[u8]) -> Option<Self> {
        match ToldRun::read(json)? {
            ToldRun::Ended(run) => Some(run),
            ToldRun::Share => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read_run(json: &Value) -> Option<ToldRun> {
        ToldRun::read(json.to_string().as_bytes())
    }

    #[test]
    fn a_run_tells_its_end_and_all_before_it_is_a_share() {
        let run = |status: &str| json!({ "id": "run_1", "object": "thread.run", "status": status, "created_at": 5, "completed_at": 9 });
        for status in ["completed", "incomplete", "failed", "cancelled", "expired"] {
            let ended = EndedRun { id: "run_1".to_owned(), ended_secs: Some(9) };
            assert_eq!(read_run(&run(status)), Some(ToldRun::Ended(ended)), "{status}");
        }
        for status in ["queued", "in_progress", "requires_action", "cancelling"] {
            assert_eq!(read_run(&run(status)), Some(ToldRun::Share), "{status}");
        }
        let step = json!({ "id": "step_1", "object": "thread.run.step", "status": "completed", "usage": { "total_tokens": 3 } });
        assert_eq!(read_run(&step), Some(ToldRun::Share));
        let null =
            json!({ "id": "run_1", "object": "thread.run", "status": "failed", "completed_at": null, "created_at": 5 });
        assert_eq!(EndedRun::read(null.to_string().as_bytes()).and_then(|run| run.ended_secs), Some(5));
    }

    #[test]
    fn what_only_names_runs_is_none() {
        let list =
            json!({ "object": "list", "data": [{ "object": "thread.run", "id": "run_1", "status": "completed" }] });
        assert_eq!(read_run(&list), None);
        assert_eq!(read_run(&json!({ "object": "chat.completion", "id": "thread.run" })), None);
        assert_eq!(ToldRun::read(b"thread.run, and no JSON"), None);
    }
}
