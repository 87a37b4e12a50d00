//! What of sign-ins is over goes: grants that nobody refreshed, codes, clients that nobody uses, keys that were
//! replaced. Each node that serves the Admin API does it; what one has done, the others find done.

use super::signing::{gone, superseded};
use crate::app::App;
use crate::change::{Action, ChangeOrigin, WriteView, commit};
use crate::problem::Problem;
use crate::resource::tombstone;
use gateway_domain::ports::Batch;
use gateway_domain::resource::{Kind, Stored};
use gateway_domain::time::Timestamp;
use serde_json::Map;

const DAY_MICROS: i64 = 86_400 * 1_000_000;
/// A code can be told as brought twice for so long.
const CODES_MICROS: i64 = DAY_MICROS;
const CLIENTS_MICROS: i64 = 30 * DAY_MICROS;
/// Grants that are ended in one round.
const MOST: u32 = 500;

pub(crate) async fn sweep(app: &App, now: Timestamp) -> Result<(), Problem> {
    let Some(store) = &app.oauth else { return Ok(()) };
    store.forget_codes(now.plus_micros(-CODES_MICROS)).await?;
    store.forget_clients(now.plus_micros(-CLIENTS_MICROS)).await?;
    let seen = app.live.snapshot().revision;
    let ended = store.ended_grants(now, MOST).await?;
    let mut rows: Vec<Stored> = Vec::new();
    for grant in &ended {
        if let Some(row) = app.directory.get(Kind::McpGrant, grant.org, None, &grant.grant.to_string()).await? {
            rows.push(tombstone(row, now)?);
        }
    }
    rows.extend(gone(app, &superseded(&app.live.snapshot(), now, false)).await?);
    if !rows.is_empty() {
        let decide = |around: &WriteView<'_>| {
            let kind = |row: &Stored| Kind::parse(&row.kind);
            rows.retain(|row| kind(row).is_some_and(|kind| around.since(kind, row.id, row.version - 1).is_none()));
            let origin = ChangeOrigin::of_upkeep(app);
            let audit = rows.iter().map(|row| origin.audit(Action::Delete, row, &Map::new())).collect();
            Ok(Batch { rows, audit, ..Batch::default() })
        };
        commit(app, seen, decide).await?;
    }
    // Forgotten after the grants themselves have ended: one that could not be ended is found again.
    for grant in ended {
        store.end_grant(grant.grant).await?;
    }
    Ok(())
}
