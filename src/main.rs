//! The gateway's program: reads the command line and hands over. Everything is wired in `serve`.

mod accounts;
mod cache;
mod cli;
mod clock;
mod connections;
mod flight;
mod guardrails;
mod ids;
mod issuers;
mod limits;
mod live;
mod metrics;
mod otlp;
mod parts;
mod peers;
mod proxy;
mod serve;
mod settings;
mod strangers;
mod telemetry;
mod units;
mod writer;

// Under the names that the modules of the program know them by.
use gateway_mock as mock;
use gateway_upstream as upstream;
use gateway_upstream::outbound;

use cli::{Command, KeysCommand};
use std::process::ExitCode;

/// Fewer and cheaper allocations than the system's allocator on the hot path.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let (cli, matches) = cli::parse();
    let outcome = match cli.command {
        None => cli.serve.resolve(&matches).and_then(serve::run),
        Some(Command::Serve(args)) => args.resolve(&matches).and_then(serve::run),
        Some(Command::Check(args)) => args.resolve(&matches).and_then(|r| serve::check(&r)),
        Some(Command::Migrate(args)) => args.resolve(&matches).and_then(|r| serve::migrate(&r)),
        Some(Command::Keys { command: KeysCommand::NewAdmin(args) }) => {
            args.resolve(&matches).and_then(|r| serve::new_admin_key(&r))
        }
        Some(Command::Keys { command: KeysCommand::RotateMaster { args, to } }) => {
            args.resolve(&matches).and_then(|r| serve::rotate_master_key(&r, &to))
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
