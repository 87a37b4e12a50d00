//! What clients think of calls, by the trace that an answer told. Kept while the client waits; shown by analytics.

use crate::object_or_list::{OneGiven, one_or_several};
use crate::problem::{Problem, bad, limited, missing};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::feedback::{FeedbackQuery, MOST_OF_TRACE, Opinion, TraceFeedback, VALUES};
use gateway_domain::metadata;
use gateway_domain::ports::{FeedbackKept, FeedbackPlace};
use gateway_domain::record::LogQuery;
use gateway_domain::scope::Scope;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use smol_str::SmolStr;
use uuid::Uuid;

const LONGEST_TRACE: usize = 512;
const MOST_AT_ONCE: usize = 100;
/// How far back the call of a trace is looked for.
const MODEL_MICROS: i64 = 7 * 86_400 * 1_000_000;

pub(crate) fn routes() -> Vec<AdminRoute> {
    const WRITE: &[Scope] = &[Scope::named("logs.write"), Scope::named("feedbacks.write")];
    vec![
        authed(Method::POST, "/feedback", WRITE, "Say what a call was worth", create).takes::<NewFeedback>().asks(HERE),
        authed(Method::PUT, "/feedback/{id}", WRITE, "Change what was said of a call", change)
            .takes::<ChangedFeedback>()
            .asks(HERE),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewFeedback {
    trace_id: String,
    value: i64,
    #[serde(default)]
    weight: Option<f64>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangedFeedback {
    /// Needed, which is said when there is something to change.
    #[serde(default)]
    value: Option<i64>,
    #[serde(default)]
    weight: Option<f64>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

/// `under`: where it stands in the body.
fn opinion(
    under: &str,
    value: i64,
    weight: Option<f64>,
    given: Option<Map<String, Value>>,
) -> Result<Opinion, Problem> {
    if !VALUES.contains(&value) {
        let rule = format!("must be an integer of {}..{}", VALUES.start(), VALUES.end());
        return Err(bad(format_args!("{under}value"), rule));
    }
    let given = given.unwrap_or_default();
    metadata::read(&given).map_err(|why| bad(format_args!("{under}metadata"), why.rule()))?;
    #[expect(clippy::cast_precision_loss, reason = "checked to be small")]
    let made = Opinion::of(value as f64, weight.unwrap_or(1.0), Value::Object(given).to_string());
    made.ok_or_else(|| bad(format_args!("{under}weight"), "must be a number of 0..1"))
}

fn saved(ids: &[Uuid]) -> AdminReply {
    AdminReply::json(json!({"status": "success", "message": "Feedback successfully saved", "feedback_ids": ids}))
}

fn place(call: &AdminCall) -> Result<FeedbackPlace, Problem> {
    let workspace = call.actor.home(&call.snapshot(), call.query.text("workspace_id"))?;
    Ok(FeedbackPlace { org: call.actor.org, workspace })
}

async fn create(call: AdminCall) -> Result<AdminReply, Problem> {
    let place = place(&call)?;
    let mut told = Vec::new();
    for OneGiven { given, under } in one_or_several::<NewFeedback>(&call, MOST_AT_ONCE)? {
        if given.trace_id.is_empty() || given.trace_id.len() > LONGEST_TRACE {
            return Err(bad(format_args!("{under}trace_id"), format_args!("must be of 1..{LONGEST_TRACE} bytes")));
        }
        let opinion = opinion(&under, given.value, given.weight, given.metadata)?;
        told.push((given.trace_id, opinion));
    }
    let mut ids = Vec::new();
    for (trace_id, opinion) in told {
        let feedback = TraceFeedback {
            id: call.app.id(),
            org: place.org,
            workspace: place.workspace,
            opinion,
            model: model(&call, place, &trace_id).await,
            trace_id,
            source: SmolStr::new_static("client"),
            created_at: call.now,
        };
        match call.app.feedbacks.keep(&feedback).await? {
            FeedbackKept::Kept => ids.push(feedback.id),
            FeedbackKept::Full => {
                return Err(limited(format!("a trace has at most {MOST_OF_TRACE} pieces of feedback")));
            }
        }
    }
    Ok(saved(&ids))
}

/// The model of the call that the feedback is about; empty where its record is not known yet.
async fn model(call: &AdminCall, place: FeedbackPlace, trace: &str) -> SmolStr {
    let query = LogQuery {
        org: Some(place.org),
        workspaces: vec![place.workspace],
        from: Some(call.now.plus_micros(-MODEL_MICROS)),
        trace_id: Some(trace.to_owned()),
        page_size: 20,
        most_bytes: Some(1 << 20),
        ..LogQuery::default()
    };
    // The feedback is as good without the model.
    let Ok(page) = call.app.logs.query(&query).await else { return SmolStr::default() };
    page.rows.iter().find(|record| record.last).map(|record| record.model.clone()).unwrap_or_default()
}

async fn change(call: AdminCall) -> Result<AdminReply, Problem> {
    let place = place(&call)?;
    let id: Uuid = call.var("id").parse().map_err(|_| missing("feedback"))?;
    let given: ChangedFeedback = call.body()?.read()?;
    let (org, workspaces) = (Some(place.org), vec![place.workspace]);
    let query = FeedbackQuery { id: Some(id), org, workspaces, most: 1, ..FeedbackQuery::default() };
    if call.app.feedbacks.feedbacks(&query).await?.is_empty() {
        return Err(missing("feedback"));
    }
    let value = given.value.ok_or_else(|| bad("value", "is required"))?;
    let opinion = opinion("", value, given.weight, given.metadata)?;
    if call.app.feedbacks.change(place, id, &opinion, call.now).await? {
        return Ok(saved(&[id]));
    }
    Err(missing("feedback"))
}
