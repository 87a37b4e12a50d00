//! What a key is held to at this moment: every limit that holds for its calls, or for some of them, with what is used
//! and left. Who counts is asked; nothing is counted here.

use crate::change::Action;
use crate::problem::{Problem, missing, not_built};
use crate::resource::{Resource as _, locate};
use crate::route::{AdminCall, AdminReply};
use gateway_domain::counters::Measured;
use gateway_domain::id::KeyId;
use gateway_domain::ports::{Holder, KeyLimit};
use gateway_domain::resource::api_key::ApiKey;
use gateway_domain::resource::budget::{Amount, Spend};
use serde_json::{Value, json};
use uuid::Uuid;

/// Shows the limits of the key that asks. They are no secret to it: refusals tell them.
pub(super) async fn own(call: AdminCall) -> Result<AdminReply, Problem> {
    let key = call.actor.key;
    list_limits(&call, key).await
}

pub(super) async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<ApiKey>(&call, call.query.text("workspace_id"), Action::Read).await?;
    list_limits(&call, KeyId(row.id)).await
}

async fn list_limits(call: &AdminCall, key: KeyId) -> Result<AdminReply, Problem> {
    let limits = call.app.key_limits.as_ref();
    let limits = limits.ok_or_else(|| not_built(call.method.as_str(), call.route.path))?;
    // A token is no key that is stored: what it is held to stands in it.
    let key = call.snapshot().key_by_id(key).cloned().ok_or_else(|| missing(ApiKey::NOUN))?;
    let data: Vec<Value> = limits.limits_of(&key).await.iter().map(shown).collect();
    let counting = call.app.status.counting().name();
    Ok(AdminReply::json(json!({"object": "list", "total": data.len(), "counting": counting, "data": data})))
}

fn shown(limit: &KeyLimit) -> Value {
    let (kind, id) = holder(limit.holder);
    let spend = match limit.measured {
        Measured::Requests => Spend::Requests,
        Measured::Tokens => Spend::Tokens,
        Measured::Cost => Spend::Cost,
    };
    let amount = |units: u64| Amount::shown(units, spend);
    json!({
        "object": "limit",
        "holder": {
            "type": kind, "id": id, "name": &*limit.name, "slug": Some(&*limit.slug).filter(|slug| !slug.is_empty()),
        },
        "target": limit.target,
        "type": spend,
        "unit": limit.unit,
        "limit": amount(limit.limit),
        "used": limit.count.map(|count| amount(count.used)),
        "left": limit.count.map(|count| amount(count.left)),
        "window_began_at": limit.count.map(|count| count.began_at),
        "resets_at": limit.count.and_then(|count| count.ends_at),
        "value_key": limit.value_key,
        "depends_on": limit.depends_on,
    })
}

const fn holder(holder: Holder) -> (&'static str, Uuid) {
    match holder {
        Holder::Policy(id) => ("policy", id.0),
        Holder::Key(id) => ("api_key", id.0),
        Holder::Workspace(id) => ("workspace", id.0),
        Holder::Provider(id) => ("provider", id.0),
        Holder::Integration(id, _) => ("integration", id.0),
        Holder::Claim(id) => ("claim", id.0),
    }
}
