//! Floor 2: the control plane. An axum router over the house's ports: configs, integrations, providers, keys,
//! policies, logs, health. Never pingora and never a concrete store: it is handed both ends.

mod account_cache;
mod actor;
mod agent_card;
mod alerts;
mod analytics;
mod app;
mod audit;
mod batch_output;
mod bootstrap;
mod change;
mod contract;
mod cookies;
mod denied_callers;
mod difference;
mod entity_tag;
mod feedback;
mod grant;
mod history;
mod idempotency;
mod input;
mod logs;
mod manifest;
mod mcp_account;
mod mcp_probe;
mod mcp_sync;
mod nodes;
mod oauth;
mod object_or_list;
mod openapi;
mod organisation_seed;
mod organisations;
mod path_kind;
mod pending_syncs;
mod prices;
mod problem;
mod public;
mod refusal;
mod registry;
mod reply;
mod request_target;
mod resource;
mod route;
mod router;
mod schema;
mod scim;
mod scope_challenges;
mod seal;
mod signature;
mod sso;
mod tokenize;
mod upkeep;

pub use account_cache::{AccountToken, KeptAccounts, RenewalCounts};
pub use actor::Actor;
pub use agent_card::{public_agent_card, public_card};
pub use alerts::{
    ALERT_LEASE, AlertRound, BudgetMail, DeliveredAlert, MAIL_JOB, check_alerts, deliver_alert, deliver_mail,
    mail_budget,
};
pub use app::{
    App, ClientAddr, ComponentStatus, Counting, DirectoryBounds, ProcessSetting, Quotas, Status, system_random,
};
pub use bootstrap::{BootstrapError, Bootstrapped, bootstrap, new_admin_key};
pub use denied_callers::audit_turned_away;
pub use logs::{EXPORT_LEASE, run_export};
pub use manifest::{
    ConfigurationReport, Conversion, ConvertedFile, ExportedConfiguration, FieldChange, ForeignFile, ItemChange,
    ManifestAct, NewSecret, convert_configuration, export_configuration, use_configuration,
};
pub use mcp_account::{ConnectFor, NoAccountToken, account_token, connect_url, lapse_account};
pub use mcp_sync::{MCP_SYNC_JOB, MCP_SYNC_LEASE, McpSyncOutcome, hasten_mcp_syncs, plan_mcp_syncs, sync_mcp};
pub use oauth::{AccessToken, BadAccessToken, IdentityClaims, read_access_token, rotate_signing_key, sign_identity};
pub use pending_syncs::WantedSyncs;
pub use problem::Problem;
pub use router::{RouteInfo, is_control_plane, router, routes};
pub use signature::signed_by;
pub use upkeep::{Alert, alert, maintain, reprice};
