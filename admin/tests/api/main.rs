//! The Admin API over a real store, one file per part of it: on SQLite, and by `postgres` all of it on Postgres.
#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on says why")]

mod access;
mod analytics;
mod api_keys;
mod audit;
mod bootstrap;
mod clients;
mod configs;
mod described;
mod fields;
mod guardrail_uses;
mod guardrails;
mod harness;
mod integrations;
mod limits;
mod logs;
mod matrix;
mod nodes;
mod openapi;
mod people;
mod plugins;
mod policies;
mod postgres;
mod prompts;
mod providers;
mod public;
mod rotation;
mod secrets;
mod settings;
mod standings;
mod terraform;
mod tokens;
mod usage_limits;
mod virtual_keys;
mod workspaces;
mod writes;
