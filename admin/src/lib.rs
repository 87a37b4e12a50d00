//! Floor 2: the control plane. An axum router over the house's ports: configs, integrations, providers, keys,
//! policies, logs, health. Never pingora and never a concrete store: it is handed both ends.

mod actor;
mod agent_card;
mod alerts;
mod analytics;
mod app;
mod asked_row;
mod asked_scope;
mod audit;
mod batch_output;
mod bootstrap;
mod change;
mod contract;
mod cookies;
mod difference;
mod entity_tag;
mod feedback;
mod founding;
mod grant;
mod history;
mod input;
mod kept_accounts;
mod logs;
mod manifest;
mod mcp_account;
mod mcp_probe;
mod mcp_sync;
mod nodes;
mod oauth;
mod openapi;
mod organisations;
mod path_kind;
mod prices;
mod problem;
mod public;
mod refusal;
mod registry;
mod repeat;
mod reply;
mod resource;
mod route;
mod router;
mod schema;
mod scim;
mod seal;
mod several;
mod signature;
mod sso;
mod tokenize;
mod turned_away;
mod upkeep;
mod wanted_syncs;

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
pub use kept_accounts::{AccountToken, KeptAccounts, RenewalCounts};
pub use logs::{EXPORT_LEASE, run_export};
pub use manifest::{
    ConfigurationReport, Conversion, ConvertedFile, ExportedConfiguration, FieldChange, ForeignFile, ItemChange,
    ManifestAct, NewSecret, convert_configuration, export_configuration, use_configuration,
};
pub use mcp_account::{ConnectFor, NoAccountToken, account_token, connect_url, lapse_account};
pub use mcp_sync::{MCP_SYNC_JOB, MCP_SYNC_LEASE, McpSyncOutcome, hasten_mcp_syncs, plan_mcp_syncs, sync_mcp};
pub use oauth::{AccessToken, BadAccessToken, IdentityClaims, read_access_token, rotate_signing_key, sign_identity};
pub use problem::Problem;
pub use router::{RouteInfo, is_control_plane, router, routes};
pub use signature::signed_by;
pub use turned_away::audit_turned_away;
pub use upkeep::{Alert, alert, maintain, reprice};
pub use wanted_syncs::WantedSyncs;
