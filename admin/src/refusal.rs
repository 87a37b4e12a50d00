//! Changes that were refused, in the audit trail: who tried what, and why it was not done. Keeps nothing of the
//! body: what it holds may be a secret wherever it stands. Bounded, since anybody with a key can be refused.

use crate::actor::Actor;
use crate::app::App;
use crate::change::{AdminHead, ChangeOrigin, RefusedChange, commit};
use crate::path_kind::subject;
use crate::problem::Problem;
use crate::route::{AdminRoute, Gate};
use gateway_domain::id::{OrgId, WorkspaceId};
use gateway_domain::ports::Batch;
use gateway_domain::resource::Kind;
use gateway_domain::time::Timestamp;
use http::Method;
use parking_lot::Mutex;

/// The name in the path of what is to change; the last one, where several stand there.
fn named(pattern: &str, path: &str) -> String {
    const MOST: usize = 255;
    let both = pattern.rsplit('/').zip(path.rsplit('/'));
    let name = both.into_iter().find(|(segment, _)| segment.starts_with('{')).map_or("", |(_, name)| name);
    name.chars().take(MOST).collect()
}

/// A change that somebody with a key asks for.
pub(crate) struct ChangeAttempt<'a> {
    app: &'a App,
    origin: ChangeOrigin<'a>,
    at: Timestamp,
    org: OrgId,
    workspace: Option<WorkspaceId>,
    action: &'static str,
    kind: Kind,
    id: String,
}

impl<'a> ChangeAttempt<'a> {
    /// `None` for who only reads.
    pub(crate) fn of(app: &'a App, route: &AdminRoute, actor: &Actor, head: AdminHead<'_>) -> Option<Self> {
        let Gate::Scopes([scope, ..], _) = &route.gate else { return None };
        let kind = subject(route.path).filter(|_| route.method != Method::GET)?;
        Some(Self {
            app,
            origin: ChangeOrigin::of_head(app, actor, head),
            at: head.at,
            org: actor.org,
            workspace: actor.workspace,
            action: scope.name().rsplit('.').next().unwrap_or_default(),
            kind,
            id: named(route.path, head.parts.uri.path()),
        })
    }

    /// What failed for reasons of ours is no refusal.
    pub(crate) async fn refused(self, problem: &Problem, bound: &Refusals) {
        if problem.status.is_server_error() || !bound.takes(self.at) {
            return;
        }
        let audit = self.origin.audit_refusal(&RefusedChange {
            org: self.org,
            workspace: self.workspace,
            action: self.action,
            kind: self.kind,
            id: self.id,
            status: problem.status.as_u16(),
            why: &problem.message,
        });
        let batch = Batch { audit: vec![audit], ..Batch::default() };
        let seen = self.app.live.snapshot().revision;
        if let Err(problem) = commit(self.app, seen, |_| Ok(batch)).await {
            tracing::warn!(message = problem.message, "a refusal is not in the audit trail");
        }
    }
}

/// How many were written in the running minute.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<(i64, u32)>);

impl Refusals {
    const MOST: u32 = 300;

    fn takes(&self, now: Timestamp) -> bool {
        const MINUTE: i64 = 60 * 1_000_000;
        let mut held = self.0.lock();
        let minute = now.micros() / MINUTE;
        if held.0 != minute {
            *held = (minute, 0);
        }
        held.1 = held.1.saturating_add(1);
        if held.1 == Self::MOST + 1 {
            tracing::warn!("many changes are refused: the rest of this minute is not in the audit trail");
        }
        held.1 <= Self::MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::table;

    #[test]
    fn each_change_has_a_subject_and_an_action() {
        for route in table().iter().filter(|r| r.method != Method::GET) {
            let Gate::Scopes(scopes, _) = &route.gate else { continue };
            let tells = route.path.starts_with("/feedback") || route.path.starts_with("/logs");
            let compares =
                ["/configuration/diff", "/configs/explain", "/gateway/tokenize", "/batches/{id}"].contains(&route.path);
            if route.path.ends_with("/invoke") || tells || compares {
                assert!(subject(route.path).is_none(), "it changes nothing that is configured");
                continue;
            }
            assert!(subject(route.path).is_some(), "{}", route.path);
            let action = scopes[0].name().rsplit('.').next();
            assert!(
                ["create", "update", "delete", "rotate", "publish"].map(Some).contains(&action),
                "{} {action:?}",
                route.path
            );
        }
    }

    #[test]
    fn names_come_from_the_end_of_the_path() {
        for (pattern, path, name) in [
            ("/configs", "/v1/configs", ""),
            ("/configs/{id}", "/v1/v2/configs/pc-1", "pc-1"),
            ("/configs/{id}/rollback", "/v2/configs/pc-1/rollback", "pc-1"),
            ("/workspaces/{id}/users/{user_id}", "/v1/workspaces/w/users/u", "u"),
        ] {
            assert_eq!(named(pattern, path), name, "{path}");
        }
    }

    #[test]
    fn a_minute_holds_so_many() {
        let bound = Refusals::default();
        let taken = |at: i64| (0..1_000).filter(|_| bound.takes(Timestamp(at))).count();
        assert_eq!((taken(0), taken(59_999_999), taken(60_000_000)), (300, 0, 300));
    }
}
