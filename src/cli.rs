//! The command line: `gateway [serve]`, `mock`, `check`, `migrate`, `keys`.

use crate::clock;
use crate::mock::MockArgs;
use crate::settings::{Effective, Flags, Settings, explained, read_file};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Parser)]
#[command(name = "gateway", version, about = "A self-hosted, OpenAI-compatible front door to every model provider")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the gateway (also what happens without a subcommand)
    Serve(Box<ServeArgs>),
    /// Run a scriptable upstream that speaks OpenAI and Anthropic, for demos, tests and load
    Mock(MockArgs),
    /// Show every setting with its source, open the store and compile the configuration, then leave
    Check(Box<ServeArgs>),
    /// Bring the database to this version's schema, then leave
    Migrate(Box<ServeArgs>),
    /// Keys, when they were lost
    Keys {
        #[command(subcommand)]
        command: KeysCommand,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a new Admin key for the first organisation and print it once
    NewAdmin(Box<ServeArgs>),
    /// Seal every secret anew with another master key, in one transaction
    RotateMaster {
        #[command(flatten)]
        args: Box<ServeArgs>,
        /// File with the new key; made, with a new key, when it is not there
        #[arg(long)]
        to: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) flags: Flags,
    /// Settings file (TOML), keys as the flags without dashes in front
    #[arg(long, env = "GATEWAY_SETTINGS")]
    pub(crate) settings: Option<PathBuf>,
    /// Take the listeners over from a running gateway that is sent SIGQUIT
    #[arg(long, help_heading = "Shutdown and upgrade")]
    pub(crate) upgrade: bool,
    /// Seconds by which this process is ahead of the machine's clock, so that tests of windows begin where none ends
    #[arg(long, env = "GATEWAY_CLOCK_AHEAD", default_value_t = 0, hide = true, allow_hyphen_values = true)]
    clock_ahead: i64,
}

/// Settings ready for use.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) settings: Settings,
    pub(crate) effective: Vec<Effective>,
    pub(crate) upgrade: bool,
}

/// The parsed line and clap's own record of it, which tells flags from environment.
pub(crate) fn parse() -> (Cli, ArgMatches) {
    let matches = explained(Cli::command()).get_matches();
    match Cli::from_arg_matches(&matches) {
        Ok(cli) => (cli, matches),
        Err(e) => e.exit(),
    }
}

impl ServeArgs {
    pub(crate) fn resolve(mut self, matches: &ArgMatches) -> Result<Resolved, String> {
        clock::set_ahead(self.clock_ahead);
        let file = read_file(self.settings.as_deref())?;
        self.flags.adopt_foreign_names()?;
        // The innermost subcommand holds the flags.
        let mut inner = matches;
        while let Some((_, next)) = inner.subcommand() {
            inner = next;
        }
        let (settings, effective) = Settings::resolve(self.flags, file, Some(inner));
        settings.check()?;
        Ok(Resolved { settings, effective, upgrade: self.upgrade })
    }
}
