//! The key that asks, as it may know itself.

use crate::problem::{Problem, missing};
use crate::resource::{Resource as _, ResourceRow, render_rows};
use crate::route::{AdminCall, AdminReply};
use gateway_domain::resource::Kind;
use gateway_domain::resource::api_key::ApiKey;
use serde_json::json;

pub(super) async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    let actor = &call.actor;
    let found = call.app.directory.get(Kind::ApiKey, actor.org, None, &actor.key.to_string()).await?;
    let row = ResourceRow::<ApiKey>::read(&found.ok_or_else(|| missing(ApiKey::NOUN))?)?;
    let snapshot = call.snapshot();
    let org = snapshot.org(actor.org);
    let workspace = actor.workspace.and_then(|w| snapshot.workspace(w));
    let mut view = render_rows(std::slice::from_ref(&row), &call).await?.pop().unwrap_or_default();
    // What it may do now, which a role can make less than what it was given.
    view["scopes"] = json!(row.doc.scopes.within(&actor.scopes));
    view["organisation"] = json!(org.map(|o| json!({"id": o.id, "slug": &*o.slug, "name": &*o.name})));
    view["workspace"] = json!(workspace.map(|w| {
        let lists = &w.default_guardrails;
        json!({
            "id": w.id, "slug": &*w.slug, "name": &*w.name,
            "defaults": {
                "metadata": &*w.metadata, "input_guardrails": lists.input, "output_guardrails": lists.output,
            },
            "guardrail_exclusions": {
                "input_guardrails": w.exclusions.input, "output_guardrails": w.exclusions.output,
            },
        })
    }));
    Ok(AdminReply::json(view))
}
