//! What a client with types takes: a Go program that decodes JSON reads null and what is absent as nothing, but fails
//! for a boolean where it has a number, and for a fraction where it has an integer.

use GoType::{Anything, Bool, Float, Int, Many, Object, One, Text, TextMap, Texts, Time};
use serde_json::Value;

/// A type of a field, as the client declares it.
#[derive(Clone, Copy, Debug)]
pub(super) enum GoType {
    Text,
    Int,
    Float,
    Bool,
    /// `time.Time`
    Time,
    Texts,
    /// `map[string]string`
    TextMap,
    Object,
    /// `interface{}`
    Anything,
    One(&'static [GoField]),
    Many(&'static [GoField]),
}

pub(super) type GoField = (&'static str, GoType);

/// Fails where the client could not read the value.
pub(super) fn decodes(value: &Value, fields: &[GoField], at: &str) {
    assert!(value.is_object(), "{at} is no object: {value}");
    for (name, wanted) in fields {
        field(&value[*name], *wanted, &format!("{at}.{name}"));
    }
}

fn field(value: &Value, wanted: GoType, at: &str) {
    let texts = |value: &Value| value.as_array().is_some_and(|all| all.iter().all(Value::is_string));
    let fits = match (value, wanted) {
        (Value::Null, _) | (_, Anything) => true,
        (value, Text) => value.is_string(),
        (value, Int) => value.is_i64(),
        (value, Float) => value.is_number(),
        (value, Bool) => value.is_boolean(),
        (value, Time) => value.as_str().is_some_and(|t| t.len() >= 20 && t.ends_with('Z') && t.contains('T')),
        (value, Texts) => texts(value),
        (value, TextMap) => value.as_object().is_some_and(|map| map.values().all(Value::is_string)),
        (value, Object) => value.is_object(),
        (value, One(inside)) => {
            decodes(value, inside, at);
            true
        }
        (value, Many(inside)) => {
            let all = value.as_array().unwrap_or_else(|| panic!("{at} is no list: {value}"));
            all.iter().for_each(|one| decodes(one, inside, at));
            true
        }
    };
    assert!(fits, "{at} is not {wanted:?}: {value}");
}

/// The budget of a workspace, and of its share of an integration.
const WHOLE_BUDGET: &[GoField] =
    &[("type", Text), ("credit_limit", Int), ("alert_threshold", Int), ("periodic_reset", Text)];
const BUDGET: &[GoField] = &[
    ("type", Text),
    ("credit_limit", Float),
    ("alert_threshold", Float),
    ("periodic_reset", Text),
    ("periodic_reset_days", Int),
    ("next_usage_reset_at", Text),
];
const RATE: &[GoField] = &[("type", Text), ("unit", Text), ("value", Int)];
const CONDITION: &[GoField] = &[("key", Text), ("value", Text)];
const MAPPING: &[GoField] = &[("target_field", Text), ("secret_reference_id", Text), ("secret_key", Text)];

pub(super) const WORKSPACE: &[GoField] = &[
    ("id", Text),
    ("slug", Text),
    ("name", Text),
    ("icon", Text),
    ("description", Text),
    ("defaults", One(&[("metadata", TextMap)])),
    ("rate_limits", Many(RATE)),
    ("usage_limits", Many(WHOLE_BUDGET)),
    ("created_at", Time),
    ("last_updated_at", Time),
];
pub(super) const USER: &[GoField] =
    &[("id", Text), ("email", Text), ("role", Text), ("status", Text), ("created_at", Time), ("updated_at", Time)];
pub(super) const MEMBER: &[GoField] = &[
    ("id", Text),
    ("user_id", Text),
    ("workspace_id", Text),
    ("role", Text),
    ("email", Text),
    ("first_name", Text),
    ("last_name", Text),
    ("created_at", Time),
];
pub(super) const INVITE: &[GoField] = &[
    ("id", Text),
    ("email", Text),
    ("role", Text),
    ("status", Text),
    ("workspaces", Many(&[("id", Text), ("role", Text)])),
    ("created_at", Time),
    ("expires_at", Time),
];
pub(super) const INTEGRATION: &[GoField] = &[
    ("id", Text),
    ("slug", Text),
    ("name", Text),
    ("ai_provider_id", Text),
    ("description", Text),
    ("status", Text),
    ("masked_key", Text),
    ("configurations", Object),
    ("type", Text),
    ("workspace_id", Text),
    ("secret_mappings", Many(MAPPING)),
    ("created_at", Time),
    ("last_updated_at", Time),
];
pub(super) const SHARES: &[GoField] = &[
    ("total", Int),
    (
        "workspaces",
        Many(&[("id", Text), ("enabled", Bool), ("usage_limits", Many(WHOLE_BUDGET)), ("rate_limits", Many(RATE))]),
    ),
];
const PRICE: &[GoField] = &[("price", Float)];
pub(super) const MODELS: &[GoField] = &[
    ("allow_all_models", Bool),
    (
        "models",
        Many(&[
            ("slug", Text),
            ("enabled", Bool),
            ("is_custom", Anything),
            ("is_finetune", Anything),
            ("base_model_slug", Text),
            (
                "pricing_config",
                One(&[
                    ("type", Text),
                    ("pay_as_you_go", One(&[("request_token", One(PRICE)), ("response_token", One(PRICE))])),
                ]),
            ),
        ]),
    ),
];
pub(super) const KEY: &[GoField] = &[
    ("id", Text),
    ("key", Text),
    ("name", Text),
    ("description", Text),
    ("type", Text),
    ("organisation_id", Text),
    ("workspace_id", Text),
    ("user_id", Text),
    ("status", Text),
    ("creation_mode", Text),
    ("rate_limits", Many(RATE)),
    ("usage_limits", One(BUDGET)),
    ("scopes", Texts),
    ("defaults", One(&[("metadata", TextMap), ("config_id", Text), ("allow_config_override", Bool)])),
    ("alert_emails", Texts),
    ("allow_config_override", Int),
    ("expires_at", Time),
    ("last_reset_at", Time),
    (
        "rotation_policy",
        One(&[("rotation_period", Text), ("next_rotation_at", Text), ("key_transition_period_ms", Int)]),
    ),
    ("created_at", Time),
    ("last_updated_at", Time),
];
pub(super) const PROVIDER: &[GoField] = &[
    ("id", Text),
    ("slug", Text),
    ("name", Text),
    ("ai_provider_name", Text),
    ("integration_id", Text),
    ("workspace_id", Text),
    ("status", Text),
    ("note", Text),
    ("model_config", Object),
    ("rate_limits", Many(RATE)),
    ("usage_limits", One(BUDGET)),
    ("created_at", Time),
    ("expires_at", Time),
];
pub(super) const CONFIG: &[GoField] = &[
    ("id", Text),
    ("slug", Text),
    ("name", Text),
    ("config", Anything),
    ("workspace_id", Text),
    ("organisation_id", Text),
    ("is_default", Int),
    ("status", Text),
    ("owner_id", Text),
    ("updated_by", Text),
    ("format", Text),
    ("type", Text),
    ("version_id", Text),
    ("created_at", Time),
    ("last_updated_at", Time),
];
pub(super) const PROMPT: &[GoField] = &[
    ("id", Text),
    ("slug", Text),
    ("name", Text),
    ("collection_id", Text),
    ("string", Text),
    ("parameters", Object),
    ("model", Text),
    ("virtual_key", Text),
    ("functions", Anything),
    ("tools", Anything),
    ("tool_choice", Anything),
    ("template_metadata", Object),
    ("is_raw_template", Int),
    ("prompt_version", Int),
    ("prompt_version_id", Text),
    ("prompt_version_status", Text),
    ("prompt_version_description", Text),
    ("status", Text),
    ("created_at", Time),
    ("last_updated_at", Time),
];
pub(super) const PARTIAL: &[GoField] = &[
    ("id", Text),
    ("slug", Text),
    ("name", Text),
    ("string", Text),
    ("status", Text),
    ("version", Int),
    ("prompt_partial_version_id", Text),
    ("version_description", Text),
    ("collection_id", Text),
    ("created_at", Time),
    ("last_updated_at", Time),
];
pub(super) const COLLECTION: &[GoField] = &[
    ("id", Text),
    ("name", Text),
    ("workspace_id", Text),
    ("slug", Text),
    ("parent_collection_id", Text),
    ("is_default", Int),
    ("status", Text),
    ("created_at", Text),
    ("last_updated_at", Text),
];
pub(super) const GUARDRAIL: &[GoField] = &[
    ("id", Text),
    ("slug", Text),
    ("name", Text),
    ("organisation_id", Text),
    ("workspace_id", Text),
    ("checks", Many(&[("id", Text), ("is_enabled", Bool), ("parameters", Object)])),
    ("actions", Object),
    ("status", Text),
    ("version_id", Text),
    ("owner_id", Text),
    ("updated_by", Text),
    ("created_at", Time),
    ("last_updated_at", Time),
];
pub(super) const POLICY: &[GoField] = &[
    ("id", Text),
    ("name", Text),
    ("conditions", Many(CONDITION)),
    ("group_by", Many(&[("key", Text)])),
    ("type", Text),
    ("unit", Text),
    ("value", Float),
    ("credit_limit", Float),
    ("alert_threshold", Float),
    ("periodic_reset", Text),
    ("status", Text),
    ("workspace_id", Text),
    ("organisation_id", Text),
    ("created_at", Time),
    ("last_updated_at", Time),
];
pub(super) const MCP_INTEGRATION: &[GoField] = &[
    ("id", Text),
    ("slug", Text),
    ("name", Text),
    ("description", Text),
    ("url", Text),
    ("auth_type", Text),
    ("transport", Text),
    ("workspace_id", Text),
    ("type", Text),
    ("status", Text),
    ("owner_id", Text),
    ("created_at", Text),
    ("last_updated_at", Text),
];
pub(super) const CAPABILITIES: &[GoField] = &[("data", Many(&[("name", Text), ("type", Text), ("enabled", Bool)]))];
pub(super) const OPENED: &[GoField] = &[("workspaces", Many(&[("id", Text), ("enabled", Bool)]))];
pub(super) const SECRET_REFERENCE: &[GoField] = &[
    ("id", Text),
    ("slug", Text),
    ("organisation_id", Text),
    ("name", Text),
    ("description", Text),
    ("manager_type", Text),
    ("secret_path", Text),
    ("secret_key", Text),
    ("allow_all_workspaces", Bool),
    ("allowed_workspaces", Texts),
    ("tags", TextMap),
    ("status", Text),
    ("created_by", Text),
    ("created_at", Time),
    ("last_updated_at", Time),
    ("auth_config", Object),
    ("object", Text),
];
pub(super) const SCIM_MAPPING: &[GoField] =
    &[("id", Text), ("workspace_id", Text), ("scim_group", Text), ("scim_group_id", Text), ("role", Text)];
