//! What the parameters of queries mean. A name means one thing on every route, so that each is described once.

use crate::idempotency::Repeat;
use crate::route::{AdminRoute, Gate};
use http::Method;
use serde_json::{Value, json};

/// `None` for a name that nobody described.
pub(super) fn of(name: &str) -> Option<Value> {
    let told = match name {
        "current_page" | "currentPage" => {
            ("Which page, from 0", json!({"type": "integer", "minimum": 0, "default": 0}))
        }
        "page_size" | "pageSize" => {
            ("Rows of a page", json!({"type": "integer", "minimum": 0, "maximum": 1000, "default": 100}))
        }
        "workspace_id" | "workspace_slug" => ("The workspace, by id or slug", text()),
        "token" => ("What the link says that it opens", text()),
        "organisation_id" => ("The organisation; only the key's own", uuid()),
        "page" => ("Which page, from 1 where it is so told", json!({"type": "integer", "minimum": 0})),
        "id" => ("Only this one", text()),
        "ids" => ("Only these, by id, with commas between", text()),
        "user_id" => ("Of this user or key, by id", text()),
        "grant_id" => ("Of this grant, by id", uuid()),
        "api_key_ids" => ("Of these keys, by id, with commas between", text()),
        "request_id" => ("Of this request", uuid()),
        "parent_collection_id" | "collection_id" => ("What lies in this collection, by id or slug", text()),
        "status" => ("Only what has this status", text()),
        "role" => ("Only those with this role", text()),
        "email" => ("Only who has this address", json!({"type": "string", "format": "email"})),
        "name" => ("Only what has this in its name", text()),
        "search" => ("Only what has this in its name or slug", text()),
        "exact_name" => ("Only what has this name", text()),
        "name_format" => ("With the icon before the name, or without", one_of(&["display", "plain"])),
        "type" | "manager_type" => ("Only what is of this type", text()),
        "tags" => ("Only what has all of these tags: a JSON object of strings", text()),
        "target" => ("Only what holds calls of this kind", one_of(&["llm", "mcp_tools"])),
        "unit" => ("Only what counts by this window", text()),
        "test" | "test_model" => ("The credential is tried before it is saved; with this model", text()),
        "include_usage" => ("With what was used", json!({"type": "boolean"})),
        "show_prompt_share" => ("With whom each is shared", json!({"type": "boolean"})),
        "version" => ("This version, by its number", json!({"type": "integer", "minimum": 1})),
        "from" | "to" => ("A version, by number or id", text()),
        "slugs" => ("These models, with commas between", text()),
        "time_of_generation_min" | "start_time" => ("Not before this moment", time()),
        "time_of_generation_max" | "end_time" => ("Not after this moment", time()),
        "total_units_min" => ("At least so many tokens", json!({"type": "integer", "minimum": 0})),
        "total_units_max" => ("At most so many tokens", json!({"type": "integer", "minimum": 0})),
        "cost_min" => ("At least so many cents", json!({"type": "number", "minimum": 0})),
        "cost_max" => ("At most so many cents", json!({"type": "number", "minimum": 0})),
        "status_code" => ("With one of these statuses, with commas between", text()),
        "response_status_code" => ("Answered with this status", json!({"type": "integer"})),
        "metadata" => ("With all of these metadata: a JSON object of strings", text()),
        "virtual_keys" => ("By one of these providers of the workspace, with commas between", text()),
        "configs" => ("By one of these configs, with commas between", text()),
        "ai_org" => ("At one of these families, with commas between", text()),
        "ai_model" => ("By one of these models, with commas between", text()),
        "ai_org_model" => ("By one of these, each as family__model, with commas between", text()),
        "trace_id" => ("Of one of these traces, with commas between", text()),
        "span_id" => ("Of one of these spans, with commas between", text()),
        "cache_status" => ("With one of disabled, hit, miss, refreshed, with commas between", text()),
        "prompt_slug" => ("From one of these saved prompts, with commas between", text()),
        "prompt_token_min" | "completion_token_min" => ("At least so many of these", json!({"type": "integer"})),
        "prompt_token_max" | "completion_token_max" => ("At most so many of these", json!({"type": "integer"})),
        "weighted_feedback_min" => ("With feedback of at least this", json!({"type": "number"})),
        "weighted_feedback_max" => ("With feedback of at most this", json!({"type": "number"})),
        "columns" => ("These columns, with commas between", text()),
        "order_by" => ("Sorted by this column", text()),
        "order_by_type" => ("Upwards or downwards", one_of(&["asc", "desc"])),
        "time_zone" => ("The zone that days begin in", text()),
        "include_total" => ("With the number of all", json!({"type": "boolean"})),
        "cursor" => ("`start`, then the next_cursor of each page", text()),
        "method" => ("By this method", one_of(&["POST", "PUT", "DELETE"])),
        "uri" => ("At this path", text()),
        "user_type" => ("By users or by keys", one_of(&["user", "api_key"])),
        "resource_type" => ("Of this kind of thing", text()),
        "action" => ("This was done", text()),
        "client_ip" => ("From this address", text()),
        "country" => ("From this country; no row has one", text()),
        name => of_scim(name).or_else(|| Some((of_sign_on(name)?, text())))?,
    };
    let (description, schema) = told;
    Some(json!({"name": name, "in": "query", "description": description, "schema": schema}))
}

/// What directories ask with.
fn of_scim(name: &str) -> Option<(&'static str, Value)> {
    Some(match name {
        "filter" => ("Only what this holds for (RFC 7644, 3.4.2.2)", text()),
        "startIndex" => ("The first that is shown, from 1", json!({"type": "integer", "default": 1})),
        "count" => ("How many are shown, at most 200", json!({"type": "integer", "default": 100})),
        "attributes" => ("Only these attributes, with commas between", text()),
        "excludedAttributes" => ("Without these attributes, with commas between", text()),
        "scim_group_id" => ("Of this group, by id", uuid()),
        _ => return None,
    })
}

/// What browsers bring that come to sign in, or back from where they did.
fn of_sign_on(name: &str) -> Option<&'static str> {
    Some(match name {
        "return_to" => "The path of this server to end at",
        "code" => "What the provider gives for a token",
        "state" => "Which sign-in is answered",
        "iss" => "Which provider answers (RFC 9207)",
        "error" | "error_description" | "error_uri" => "Why the provider says no",
        "session_state" | "scope" => "What providers add; not read",
        _ => return None,
    })
}

/// The headers that ask for a state of what a path names.
pub(super) fn conditions(route: &AdminRoute) -> Vec<Value> {
    if !route.is_of_one() {
        return Vec::new();
    }
    let reads = route.method == Method::GET;
    let (matching, other) = if reads {
        ("Shown only in one of these states", "Shown only if it is none of these answers")
    } else {
        ("Done only in one of these states: entity tags with commas between, or *", "Done in none of these states")
    };
    [("If-Match", matching), ("If-None-Match", other)]
        .map(|(name, told)| json!({"name": name, "in": "header", "description": told, "schema": text()}))
        .into()
}

/// The header that names a request, so that it may be sent again.
pub(super) fn repeat(route: &AdminRoute) -> Option<Value> {
    let told =
        "A name of this request, no other's within a day: sent again, it is not done again, and answered as before";
    let schema = json!({"type": "string", "minLength": 1, "maxLength": 255});
    let guarded = !matches!(route.gate, Gate::Public(_) | Gate::Guest(_));
    (guarded && Repeat::is_taken_by(&route.method, route.path))
        .then(|| json!({"name": "Idempotency-Key", "in": "header", "description": told, "schema": schema}))
}

fn text() -> Value {
    json!({"type": "string"})
}

fn uuid() -> Value {
    json!({"type": "string", "format": "uuid"})
}

fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

fn one_of(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}
