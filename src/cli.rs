//! The command line: `gateway [serve]`, `mock`, `check`, `migrate`, `keys`.

use crate::clock;
use crate::mock::MockArgs;
use crate::settings::{Effective, Settings, SettingsFlags, explained, read_file};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
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
    /// Write the configuration as one YAML document, without the values of secrets
    Export {
        #[command(flatten)]
        args: Box<ServeArgs>,
        /// Where to; standard output unless given
        #[arg(long)]
        to: Option<PathBuf>,
    },
    /// Put a configuration document in force, all of it or nothing
    Import {
        #[command(flatten)]
        args: Box<ServeArgs>,
        #[command(flatten)]
        document: DocumentArgs,
        /// Only say what would change
        #[arg(long)]
        dry_run: bool,
    },
    /// Say how a configuration document differs from what is stored; ends with 2 where it does
    Diff {
        #[command(flatten)]
        args: Box<ServeArgs>,
        #[command(flatten)]
        document: DocumentArgs,
    },
    /// Make a configuration document of another gateway's file, and say what it does not hold
    Convert {
        /// Gateway that the file is from: litellm or portkey
        #[arg(long)]
        from: ForeignForm,
        /// The file; `-` reads it from standard input
        file: PathBuf,
        /// Where to; standard output unless given
        #[arg(long)]
        to: Option<PathBuf>,
        /// The workspace that everything of one goes to
        #[arg(long, default_value = "default")]
        workspace: String,
        /// Hosts or CIDRs that custom hosts may reach though private, as for `serve`
        #[arg(long, value_delimiter = ',')]
        trusted_custom_hosts: Vec<String>,
    },
    /// Delete what the lists of a configuration document do not hold
    Prune {
        #[command(flatten)]
        args: Box<ServeArgs>,
        #[command(flatten)]
        document: DocumentArgs,
        /// Only say what would go
        #[arg(long)]
        dry_run: bool,
    },
    /// Say what would become of a request, as the running gateway sees it; nothing is sent to a provider
    Explain {
        /// JSON with `key`, `path` and, where they matter, `method`, `headers` and `body`; `-` reads it from standard
        /// input
        request: PathBuf,
        /// Where its Admin API is reached
        #[arg(long, default_value = "http://127.0.0.1:8790")]
        url: String,
        /// A key with the scope configs.read
        #[arg(long, env = "GATEWAY_EXPLAIN_KEY", hide_env_values = true)]
        admin_key: String,
    },
    /// Bring what is stored from one place to another, beside gateways that run
    Move {
        #[command(subcommand)]
        what: MoveCommand,
    },
    /// Keys, when they were lost
    Keys {
        #[command(subcommand)]
        command: KeysCommand,
    },
}

/// Files that can be made into documents.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ForeignForm {
    Litellm,
    Portkey,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MoveCommand {
    /// Records of calls: from another log store to the one of these settings. They stay where they were, too
    Records {
        #[command(flatten)]
        args: Box<ServeArgs>,
        /// Where they are: a URL as --log-store-url takes it
        #[arg(long, env = "GATEWAY_MOVE_FROM", hide_env_values = true)]
        from: String,
    },
    /// Files, results and exports: from all other places that --blob-url names, and from rows, to the first of them
    Blobs(Box<ServeArgs>),
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a new Admin key for the first organisation and print it once
    NewAdmin(Box<ServeArgs>),
    /// Sign access tokens of MCP clients with a new key from now on
    RotateSigning {
        #[command(flatten)]
        args: Box<ServeArgs>,
        /// What was signed before opens nothing from now on; clients refresh their tokens
        #[arg(long)]
        at_once: bool,
    },
    /// Seal every secret anew with another master key, in one transaction
    RotateMaster {
        #[command(flatten)]
        args: Box<ServeArgs>,
        /// File with the new key; made, with a new key, when it is not there
        #[arg(long)]
        to: PathBuf,
    },
}

/// A configuration document. Secrets that it names are read from the environment, under the names that it has for them.
#[derive(Debug, Args)]
pub(crate) struct DocumentArgs {
    /// The document; `-` reads it from standard input
    pub(crate) document: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) flags: SettingsFlags,
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
pub(crate) struct ResolvedSettings {
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
    pub(crate) fn resolve(mut self, matches: &ArgMatches) -> Result<ResolvedSettings, String> {
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
        Ok(ResolvedSettings { settings, effective, upgrade: self.upgrade })
    }
}
