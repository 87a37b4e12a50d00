//! The gateway from outside: its real binary between real clients and scripted upstreams.
//! One module per subject; nothing here reaches into the program.

#[cfg(test)]
#[path = "../harness/harness.rs"]
mod harness;

#[cfg(test)]
mod admin_rules;
#[cfg(test)]
mod agent_cards;
#[cfg(test)]
mod agent_clocks;
#[cfg(test)]
mod agent_hooks;
#[cfg(test)]
mod agent_nodes;
#[cfg(test)]
mod agent_script;
#[cfg(test)]
mod agent_sign_in;
#[cfg(test)]
mod agent_slow;
#[cfg(test)]
mod agents;
#[cfg(test)]
mod alerts;
#[cfg(test)]
mod allowed_models;
#[cfg(test)]
mod analytics;
#[cfg(test)]
mod area_answers;
#[cfg(test)]
mod area_edges;
#[cfg(test)]
mod area_forms;
#[cfg(test)]
mod area_rules;
#[cfg(test)]
mod azure;
#[cfg(test)]
mod batch_rules;
#[cfg(test)]
mod batches;
#[cfg(test)]
mod bedrock;
mod bodies;
#[cfg(test)]
mod bound_ids;
#[cfg(test)]
mod browsers;
#[cfg(test)]
mod budget_rules;
#[cfg(test)]
mod budgets;
#[cfg(test)]
mod cached;
#[cfg(test)]
mod canary;
#[cfg(test)]
mod captured;
#[cfg(test)]
mod catalogue;
#[cfg(test)]
mod clocks;
#[cfg(test)]
mod cloud_batches;
#[cfg(test)]
mod cloud_files;
#[cfg(test)]
mod clouds;
#[cfg(test)]
mod cluster;
#[cfg(test)]
mod columns;
#[cfg(test)]
mod compressed;
#[cfg(test)]
mod config_costs;
#[cfg(test)]
mod config_rows;
#[cfg(test)]
mod config_rules;
#[cfg(test)]
mod configs;
#[cfg(test)]
mod configuration;
#[cfg(test)]
mod control;
#[cfg(test)]
mod converted;
#[cfg(test)]
mod credential_trials;
#[cfg(test)]
mod custom_hosts;
#[cfg(test)]
mod dashboard;
#[cfg(test)]
mod deployments;
#[cfg(test)]
mod dialects;
#[cfg(test)]
mod direct_batches;
#[cfg(test)]
mod direct_families;
#[cfg(test)]
mod exact;
#[cfg(test)]
mod explained;
#[cfg(test)]
mod exports;
#[cfg(test)]
mod family_batches;
#[cfg(test)]
mod family_files;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod first_request;
#[cfg(test)]
mod forbidden;
#[cfg(test)]
mod framing;
#[cfg(test)]
mod graph_sums;
#[cfg(test)]
mod guarded_streams;
#[cfg(test)]
mod guardrail_addresses;
#[cfg(test)]
mod guardrail_cases;
#[cfg(test)]
mod guardrail_defaults;
#[cfg(test)]
mod guardrail_rows;
#[cfg(test)]
mod guardrails;
#[cfg(test)]
mod handed_on;
#[cfg(test)]
mod headers;
#[cfg(test)]
mod health;
#[cfg(test)]
mod held_answers;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod in_force;
#[cfg(test)]
mod isolated_lists;
mod isolated_objects;
#[cfg(test)]
mod jobs;
#[cfg(test)]
mod journal;
#[cfg(test)]
mod judged_batches;
#[cfg(test)]
mod kept_files;
#[cfg(test)]
mod kept_responses;
#[cfg(test)]
mod key_limits;
#[cfg(test)]
mod key_uses;
#[cfg(test)]
mod large_exports;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod live_sessions;
#[cfg(test)]
mod load;
#[cfg(test)]
mod long_tail;
mod long_tail_areas;
#[cfg(test)]
mod long_tail_clouds;
mod long_tail_rows;
#[cfg(test)]
mod long_tail_shapes;
#[cfg(test)]
mod loss;
#[cfg(test)]
mod managed_batches;
#[cfg(test)]
mod matrix;
#[cfg(test)]
mod mcp;
#[cfg(test)]
mod mcp_access;
#[cfg(test)]
mod mcp_account_attacks;
#[cfg(test)]
mod mcp_account_server;
#[cfg(test)]
mod mcp_accounts;
#[cfg(test)]
mod mcp_all;
#[cfg(test)]
mod mcp_authorization;
#[cfg(test)]
mod mcp_client;
#[cfg(test)]
mod mcp_definitions;
#[cfg(test)]
mod mcp_eras;
#[cfg(test)]
mod mcp_external_auth;
#[cfg(test)]
mod mcp_kept;
#[cfg(test)]
mod mcp_legacy_clients;
#[cfg(test)]
mod mcp_made_clients;
#[cfg(test)]
mod mcp_members;
#[cfg(test)]
mod mcp_nodes;
#[cfg(test)]
mod mcp_notices;
#[cfg(test)]
mod mcp_pages;
#[cfg(test)]
mod mcp_registry;
#[cfg(test)]
mod mcp_rows;
#[cfg(test)]
mod mcp_script;
#[cfg(test)]
mod mcp_secrets;
#[cfg(test)]
mod mcp_sign_in;
#[cfg(test)]
mod mcp_sign_in_attacks;
#[cfg(test)]
mod mcp_sse;
#[cfg(test)]
mod mcp_sse_server;
#[cfg(test)]
mod mcp_stdio;
#[cfg(test)]
mod mcp_streams;
#[cfg(test)]
mod mcp_sync_load;
#[cfg(test)]
mod mcp_tasks;
#[cfg(test)]
mod mcp_upstream_sign_in;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod models;
#[cfg(test)]
mod native_models;
#[cfg(test)]
mod newcomers;
#[cfg(test)]
mod no_answers;
#[cfg(test)]
mod object_storage;
#[cfg(test)]
mod open_connections;
#[cfg(test)]
mod organisations;
#[cfg(test)]
mod otlp;
#[cfg(test)]
mod outside_checks;
#[cfg(test)]
mod own_headers;
#[cfg(test)]
mod own_logs;
#[cfg(test)]
mod params;
#[cfg(test)]
mod partners;
#[cfg(test)]
mod passed_batches;
mod passthrough;
#[cfg(test)]
mod postgres;
#[cfg(test)]
mod prices;
#[cfg(test)]
mod promised_json;
#[cfg(test)]
mod prompt_targets;
#[cfg(test)]
mod prompts;
#[cfg(test)]
mod raw_http1;
#[cfg(test)]
mod raw_http2;
#[cfg(test)]
mod realtime;
#[cfg(test)]
mod realtime_calls;
#[cfg(test)]
mod realtime_ends;
#[cfg(test)]
mod realtime_frames;
#[cfg(test)]
mod realtime_guardrails;
#[cfg(test)]
mod realtime_keys;
#[cfg(test)]
mod realtime_openings;
#[cfg(test)]
mod realtime_paths;
#[cfg(test)]
mod realtime_takeover;
#[cfg(test)]
mod record_fields;
#[cfg(test)]
mod records;
#[cfg(test)]
mod relayed;
#[cfg(test)]
mod repeats;
mod reserved;
#[cfg(test)]
mod responses_socket;
#[cfg(test)]
mod retries;
#[cfg(test)]
mod routing;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod saved;
#[cfg(test)]
mod saved_addresses;
#[cfg(test)]
mod saved_providers;
#[cfg(test)]
mod scim;
#[cfg(test)]
#[cfg(test)]
mod secret_reads;
mod secret_references;
#[cfg(test)]
mod shared_limits;
#[cfg(test)]
mod shared_prompts;
#[cfg(test)]
mod shield;
#[cfg(test)]
mod shutdown;
#[cfg(test)]
mod sso;
#[cfg(test)]
mod sso_attacks;
#[cfg(test)]
mod sso_people;
#[cfg(test)]
mod startup;
#[cfg(test)]
mod strangers;
#[cfg(test)]
mod strategies;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod tenants;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod token_limits;
#[cfg(test)]
mod tokenize;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod tool_addresses;
#[cfg(test)]
mod tool_canary;
#[cfg(test)]
mod tool_matrix;
#[cfg(test)]
mod tuning;
#[cfg(test)]
mod turned_away;
#[cfg(test)]
mod undone;
#[cfg(test)]
mod unsure_batches;
#[cfg(test)]
mod untold_usage;
#[cfg(test)]
mod upgrade;
#[cfg(test)]
mod upload_clocks;
mod uploads;
#[cfg(test)]
mod watched_batches;
#[cfg(test)]
mod ways;
#[cfg(test)]
mod workspaces;
#[cfg(test)]
mod xai_batches;
#[cfg(test)]
mod xai_direct_batches;
