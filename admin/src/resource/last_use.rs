//! Puts into the views of keys when they were last used, which stands beside their rows: a use changes no key.

use super::row::{Resource, ResourceRow};
use crate::problem::Problem;
use crate::route::AdminCall;
use serde_json::{Value, json};

pub(super) async fn show<R: Resource>(
    call: &AdminCall,
    rows: &[ResourceRow<R>],
    views: &mut [Value],
) -> Result<(), Problem> {
    // Either every row of a kind is a key or none is.
    let keys: Vec<_> = rows.iter().filter_map(R::used_as).collect();
    if keys.is_empty() {
        return Ok(());
    }
    let found = call.app.uses.last_uses(&keys).await?;
    for (key, view) in keys.iter().zip(views) {
        view["last_used_at"] = json!(found.get(key));
    }
    Ok(())
}
