//! Requests that their client may send again because it never saw the answer
//! (draft-ietf-httpapi-idempotency-key-header): the first is carried out, and the others are told what it was told. The
//! mark of a change of the configuration is written with that change, so that no node can do one without the other;
//! what is kept elsewhere is marked before.

use crate::actor::Actor;
use crate::app::App;
use crate::path_kind::{changes_nothing, has_own_rules, subject};
use crate::problem::{Problem, bad, conflict, internal, limited, mismatched};
use crate::reply::{AdminReply, KeptReply};
use bytes::Bytes;
use gateway_domain::digest::digest;
use gateway_domain::id::OrgId;
use gateway_domain::ports::{ANSWERS_KEPT_MICROS, AnswerMark, Batch, Revision, Vault};
use gateway_domain::time::Timestamp;
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::HashSet;
use std::sync::Arc;

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// Characters of the name that a client gives its request.
const MOST_NAME: usize = 255;
/// Longer answers are not kept; that the request was carried out is.
const MOST_ANSWER: usize = 64 * 1024;

/// One such request.
#[derive(Debug)]
pub(crate) struct Repeat {
    id: String,
    org: OrgId,
    request: String,
    at: Timestamp,
    /// Whether its mark goes with a change of the configuration.
    is_change: bool,
    state: Mutex<RepeatState>,
}

#[derive(Debug, Default)]
struct RepeatState {
    promised: Option<Value>,
    /// What was kept with the change; a mark without an answer is empty.
    kept: Option<String>,
    is_marked: bool,
    /// Somebody else has carried it out meanwhile.
    is_late: bool,
}

/// Those that this node is carrying out.
#[derive(Debug, Default)]
pub(crate) struct RunningRepeats(Mutex<HashSet<String>>);

struct RunningRepeat<'a> {
    all: &'a RunningRepeats,
    id: &'a str,
}

impl Drop for RunningRepeat<'_> {
    fn drop(&mut self) {
        self.all.0.lock().remove(self.id);
    }
}

impl RunningRepeats {
    fn enter<'a>(&'a self, id: &'a str) -> Option<RunningRepeat<'a>> {
        self.0.lock().insert(id.to_owned()).then(|| RunningRepeat { all: self, id })
    }
}

impl Repeat {
    /// Whether a route listens to the header: what is safe, or judges and compares only, may be asked again as it is.
    pub(crate) fn is_taken_by(method: &Method, path: &str) -> bool {
        *method != Method::GET && !changes_nothing(path) && !has_own_rules(path)
    }

    /// `None` where the client gave no name, or it is of no matter. `path` as the route has it.
    pub(crate) fn of(
        path: &str,
        actor: &Actor,
        parts: &Parts,
        bytes: &Bytes,
        at: Timestamp,
    ) -> Result<Option<Arc<Self>>, Problem> {
        if !Self::is_taken_by(&parts.method, path) {
            return Ok(None);
        }
        let Some(name) = name(&parts.headers)? else { return Ok(None) };
        let asker = [actor.org.to_string(), actor.key.to_string(), name];
        let asked = [parts.method.as_str(), parts.uri.path(), parts.uri.query().unwrap_or_default()];
        Ok(Some(Arc::new(Self {
            id: digest(asker.iter().map(String::as_bytes)),
            org: actor.org,
            request: digest(asked.iter().map(|text| text.as_bytes()).chain([&**bytes])),
            at,
            is_change: subject(path).is_some(),
            state: Mutex::default(),
        })))
    }

    /// What will be answered once the change is committed.
    pub(crate) fn promise(&self, body: Value) {
        self.state.lock().promised = Some(body);
    }

    /// The mark that goes with what is about to be committed.
    pub(crate) fn mark(&self, batch: &Batch, next: Revision, vault: &dyn Vault) -> Option<AnswerMark> {
        let mut state = self.state.lock();
        let is_empty = batch.rows.is_empty() && batch.audit.is_empty();
        if !self.is_change || state.is_marked || is_empty {
            return None;
        }
        let revision = (!batch.rows.is_empty()).then_some(next);
        let promised = state.promised.take().map(|body| KeptReply { status: 200, body, revision });
        state.kept = promised.and_then(|reply| written(&reply));
        let answer = state.kept.as_deref().map(|text| vault.seal(text));
        Some(self.with(answer))
    }

    pub(crate) fn is_marked(&self) {
        self.state.lock().is_marked = true;
    }

    pub(crate) fn is_late(&self) {
        self.state.lock().is_late = true;
    }

    fn with(&self, answer: Option<String>) -> AnswerMark {
        let Self { id, org, request, at, .. } = self;
        AnswerMark { id: id.clone(), org: *org, request: request.clone(), answer, created_at: *at }
    }

    /// Carries it out, or says what came of it before.
    pub(crate) async fn once(
        &self,
        app: &App,
        running: &RunningRepeats,
        run: impl Future<Output = Result<AdminReply, Problem>> + Send,
    ) -> Result<AdminReply, Problem> {
        let still = || conflict("the first request with this idempotency-key is being carried out");
        let _running = running.enter(&self.id).ok_or_else(still)?;
        if let Some(reply) = self.before(app).await? {
            return Ok(reply);
        }
        let most = app.quotas.kept_answers;
        if app.answers.kept_answers(Some(self.org)).await? >= most {
            return Err(limited(format!("at most {most} writes of a day may have an idempotency-key")));
        }
        if !self.is_change && !app.answers.mark(&self.with(None)).await? {
            return Err(still());
        }
        match run.await {
            Ok(reply) => {
                self.keep(app, reply.kept()).await;
                Ok(reply)
            }
            Err(problem) => self.after(app, problem).await,
        }
    }

    async fn before(&self, app: &App) -> Result<Option<AdminReply>, Problem> {
        let found = app.answers.kept_answer(&self.id, self.at.plus_micros(-ANSWERS_KEPT_MICROS)).await?;
        let Some(found) = found else { return Ok(None) };
        if found.request != self.request {
            return Err(mismatched("this idempotency-key was sent with another request: each needs one of its own"));
        }
        let lost = "a request with this idempotency-key was begun, and what it was answered is not known: look whether it \
            was carried out, and send what is still to be done with another one";
        let sealed = found.answer.ok_or_else(|| conflict(lost))?;
        let text = app.vault.open(&sealed).map_err(internal)?;
        let kept: KeptReply = serde_json::from_str(text.expose()).map_err(internal)?;
        Ok(Some(AdminReply::once_more(kept)))
    }

    /// The answer as it was given, where that is not what was kept with the change.
    async fn keep(&self, app: &App, reply: Option<KeptReply>) {
        let text = reply.as_ref().and_then(written);
        let is_kept = {
            let state = self.state.lock();
            (self.is_change && !state.is_marked) || state.kept == text
        };
        let Some(text) = text.filter(|_| !is_kept) else { return };
        if let Err(error) = app.answers.keep_answer(&self.id, &app.vault.seal(&text)).await {
            tracing::warn!(%error, "an answer is not kept for those who ask again");
        }
    }

    async fn after(&self, app: &App, problem: Problem) -> Result<AdminReply, Problem> {
        if self.state.lock().is_late {
            return self.before(app).await?.ok_or(problem);
        }
        // What failed for reasons of ours may have been done in part.
        if !self.is_change && !problem.status.is_server_error() {
            app.answers.unmark(&self.id).await?;
        }
        Err(problem)
    }
}

fn written(reply: &KeptReply) -> Option<String> {
    serde_json::to_string(reply).ok().filter(|text| text.len() <= MOST_ANSWER)
}

/// The name that a client gives its request: a string of RFC 9651, or the same without its quotes.
fn name(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut all = headers.get_all(&HEADER).iter();
    let Some(value) = all.next() else { return Ok(None) };
    if all.next().is_some() {
        return Err(bad(&HEADER, "must be given once"));
    }
    let text = value.to_str().map_err(|_| bad(&HEADER, "must be printable ASCII"))?.trim();
    let name = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(text);
    if name.is_empty() || name.len() > MOST_NAME {
        return Err(bad(&HEADER, format_args!("must have 1 to {MOST_NAME} characters")));
    }
    Ok(Some(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_name_is_one_text_of_some_length() {
        let read = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(HEADER, HeaderValue::from_str(value).expect("a value"));
            }
            name(&headers)
        };
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&["\"a b\""]), Ok(Some("a b".to_owned())));
        assert_eq!(read(&["a b"]), read(&["\"a b\""]));
        assert!(read(&[&"a".repeat(255)]).is_ok());
        for values in [&[""][..], &["\"\""], &[&"a".repeat(256)], &["a", "a"]] {
            assert!(read(values).is_err_and(|p| p.message.starts_with("idempotency-key must")), "{values:?}");
        }
    }
}
