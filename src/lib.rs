//! The gateway's program as a library: the command line, the settings, the service on the proxy port and the wiring of
//! everything below. What starts it is `main.rs`; whoever builds on it calls [`run`], and nothing else is to be seen.

mod auth_failures;
mod batches;
mod bookings;
mod budget_alerts;
mod cache;
mod cli;
mod clock;
mod configuration;
mod connections;
mod downloads;
mod explain;
mod explanations;
mod guardrails;
mod health;
mod ids;
mod in_flight;
mod issuers;
mod job_kind;
mod kept_objects;
mod kept_responses;
mod limits;
mod mcp_connections;
mod node_id;
mod own_records;
mod peers;
mod price_list;
mod proxy;
mod record_health;
mod runtime_config;
mod secrets;
mod serve;
mod settings;
mod telemetry;
mod token_counter;
mod units;

// Under the names that the modules of the program know them by.
use gateway_mock as mock;
use gateway_records::{metrics, otlp, usage_checkpoint, writer};
use gateway_upstream as upstream;
use gateway_upstream::outbound;

use cli::{Command, ForeignForm, KeysCommand, MoveCommand};
use gateway_admin::{ForeignFile, ManifestAct};
use std::process::ExitCode;

/// What `gateway diff` ends with where a document and what is stored are not the same, as `diff` has it for scripts.
const DIFFERENT: u8 = 2;

/// Reads the command line and does what it says; comes back when that is done.
pub fn run() -> ExitCode {
    let (cli, matches) = cli::parse();
    let outcome = match cli.command {
        None => cli.serve.resolve(&matches).and_then(serve::run),
        Some(Command::Serve(args)) => args.resolve(&matches).and_then(serve::run),
        Some(Command::Check(args)) => args.resolve(&matches).and_then(|r| serve::check(&r)),
        Some(Command::Migrate(args)) => args.resolve(&matches).and_then(|r| serve::migrate(&r)),
        Some(Command::Move { what: MoveCommand::Records { args, from } }) => {
            args.resolve(&matches).and_then(|r| serve::move_records(&r.settings, &from))
        }
        Some(Command::Move { what: MoveCommand::Blobs(args) }) => {
            args.resolve(&matches).and_then(|r| serve::relocate_blobs(&r))
        }
        Some(Command::Keys { command: KeysCommand::NewAdmin(args) }) => {
            args.resolve(&matches).and_then(|r| serve::new_admin_key(&r))
        }
        Some(Command::Keys { command: KeysCommand::RotateSigning { args, at_once } }) => {
            args.resolve(&matches).and_then(|r| serve::rotate_signing_key(&r, at_once))
        }
        Some(Command::Keys { command: KeysCommand::RotateMaster { args, to } }) => {
            args.resolve(&matches).and_then(|r| serve::rotate_master_key(&r, &to))
        }
        Some(Command::Export { args, to }) => {
            args.resolve(&matches).and_then(|r| configuration::export(&r.settings, to.as_deref()))
        }
        Some(Command::Explain { request, url, admin_key }) => explain::explain(&request, &url, &admin_key),
        Some(Command::Import { args, document, dry_run }) => {
            let act = ManifestAct::Import { dry_run };
            args.resolve(&matches).and_then(|r| configuration::apply(&r.settings, &document.document, act))
        }
        Some(Command::Diff { args, document }) => {
            let same = args.resolve(&matches).and_then(|r| configuration::diff(&r.settings, &document.document));
            match same {
                Ok(false) => return ExitCode::from(DIFFERENT),
                Ok(true) => Ok(()),
                Err(why) => Err(why),
            }
        }
        Some(Command::Convert { from, file, to, workspace, trusted_custom_hosts }) => {
            let of = match from {
                ForeignForm::Litellm => ForeignFile::LiteLlm,
                ForeignForm::Portkey => ForeignFile::Portkey,
            };
            configuration::convert(&file, of, to.as_deref(), (&workspace, &trusted_custom_hosts))
        }
        Some(Command::Prune { args, document, dry_run }) => {
            let act = ManifestAct::Prune { dry_run };
            args.resolve(&matches).and_then(|r| configuration::apply(&r.settings, &document.document, act))
        }
        Some(Command::Mock(args)) => serve::mock(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            telemetry::complain(&why);
            ExitCode::FAILURE
        }
    }
}
