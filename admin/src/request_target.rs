//! What one request is about: the stored row that its path names, the state in which the client wants to find it
//! (RFC 9110, section 13), and the state in which it is left. Handlers say which row they found; everything else is
//! done where requests come in and where they are committed.

use crate::entity_tag::{TagList, of_answer, of_state};
use crate::path_kind::{has_own_rules, names_one, subject};
use crate::problem::{Problem, bad, stale};
use crate::reply::AdminReply;
use gateway_domain::ports::{Changes, Revision};
use gateway_domain::resource::{Kind, Stored};
use http::{HeaderMap, Method, header};
use parking_lot::Mutex;
use uuid::Uuid;

#[derive(Debug, Default)]
pub(crate) struct AskedRow {
    /// The kind of resource that the route changes or shows; `None`: nothing that is configured.
    kind: Option<Kind>,
    /// Whether the path names one resource of that kind.
    is_one: bool,
    if_match: Option<TagList>,
    if_none_match: Option<TagList>,
    state: Mutex<AskedState>,
}

#[derive(Debug, Default)]
struct AskedState {
    row: Option<FoundRow>,
    /// Whether the conditions were held against the row while nobody else could write.
    is_checked: bool,
}

#[derive(Clone, Copy, Debug)]
struct FoundRow {
    id: Uuid,
    revision: Revision,
    is_there: bool,
}

impl AskedRow {
    /// `path` as the route has it. Refuses conditions where nothing would be held to them.
    pub(crate) fn of(method: &Method, path: &str, headers: &HeaderMap) -> Result<Self, Problem> {
        if has_own_rules(path) {
            return Ok(Self::default());
        }
        let if_match = TagList::of(headers, &header::IF_MATCH)?;
        let if_none_match = TagList::of(headers, &header::IF_NONE_MATCH)?;
        let is_one = names_one(path);
        for (given, name) in [(&if_match, header::IF_MATCH), (&if_none_match, header::IF_NONE_MATCH)] {
            if given.is_some() && !is_one && *method != Method::GET {
                return Err(bad(name, "is not taken here: the path names nothing that has a state"));
            }
        }
        let kind = subject(path);
        Ok(Self { kind, is_one, if_match, if_none_match, state: Mutex::default() })
    }

    /// The row that the path names. What is found later is looked at on the way.
    pub(crate) fn found(&self, row: &Stored) {
        self.state.lock().row.get_or_insert(FoundRow { id: row.id, revision: row.revision, is_there: true });
    }

    /// Inside the transaction: whether the row is still in a state that the client wants. `changes`: what others wrote.
    pub(crate) fn check(&self, changes: &Changes) -> Result<(), Problem> {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.is_checked, true) {
            // A second write of the same request finds what the first has made.
            return Ok(());
        }
        state.row = state.row.map(|row| newest(row, changes));
        self.hold(state.row)
    }

    /// Before something is done that is no part of a transaction: by the row as it was found.
    pub(crate) fn check_found(&self) -> Result<(), Problem> {
        let (row, is_checked) = {
            let state = self.state.lock();
            (state.row, state.is_checked)
        };
        // Once this request has written, the row is what it made of it: the conditions are met already.
        if is_checked { Ok(()) } else { self.hold(row) }
    }

    fn hold(&self, row: Option<FoundRow>) -> Result<(), Problem> {
        let there = row.filter(|row| row.is_there);
        let is_in = |tags: &TagList| there.is_some_and(|row| tags.has_state(row.revision));
        if self.if_match.as_ref().is_some_and(|tags| !is_in(tags)) {
            return Err(stale("it was changed since: read it again (if-match)"));
        }
        if self.if_none_match.as_ref().is_some_and(is_in) {
            return Err(stale("it is in the state that it must not be in (if-none-match)"));
        }
        Ok(())
    }

    /// What a commit made of the row, or the one row that it made. `changes`: all of them, its own at the end.
    pub(crate) fn wrote(&self, changes: &Changes) {
        let mut state = self.state.lock();
        if let Some(row) = state.row {
            state.row = Some(newest(row, changes));
            return;
        }
        let made = changes.rows.iter().filter(|r| r.revision == changes.revision);
        let mut made = made.filter(|r| self.kind.is_some_and(|kind| r.kind == kind.name()));
        if let (Some(row), None) = (made.next(), made.next()) {
            state.row = Some(FoundRow { id: row.id, revision: row.revision, is_there: row.deleted_at.is_none() });
        }
    }

    /// The answer with its tag, or what stands for it where the client has seen it already.
    pub(crate) fn answer(&self, method: &Method, reply: AdminReply) -> Result<AdminReply, Problem> {
        let row = self.state.lock().row;
        if *method != Method::GET && *method != Method::HEAD {
            // Where nothing was written nothing can have been lost; what was asked for is still no answer.
            self.check_found()?;
            let there = row.filter(|row| row.is_there && self.kind.is_some());
            return Ok(match there {
                Some(row) => reply.tagged(of_state(row.revision)),
                None => reply,
            });
        }
        let Some(body) = reply.shows().filter(|_| self.is_one) else { return Ok(reply) };
        let revision = row.map_or(0, |row| row.revision);
        if self.if_match.as_ref().is_some_and(|tags| !tags.has_state(revision)) {
            return Err(stale("it was changed since: read it again (if-match)"));
        }
        let tag = of_answer(revision, &body);
        let seen = self.if_none_match.as_ref().is_some_and(|tags| tags.has(&tag));
        Ok(if seen { AdminReply::unchanged(tag) } else { reply.tagged(tag) })
    }
}

fn newest(row: FoundRow, changes: &Changes) -> FoundRow {
    let same = changes.rows.iter().filter(|r| r.id == row.id && r.revision >= row.revision);
    let last = same.max_by_key(|r| r.revision);
    last.map_or(row, |r| FoundRow { revision: r.revision, is_there: r.deleted_at.is_none(), ..row })
}
