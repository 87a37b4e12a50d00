//! The benchmarks' tool: drives a server over HTTP/1.1 keep-alive connections and reports what it
//! saw as one JSON object, or plays the cheapest possible upstream. It must not know the gateway:
//! what to send, headers included, comes from the command line.

mod chunked;
mod client;
mod report;
mod request;
mod run;
mod sse;
mod tool;
mod upstream;
mod wire;

use std::io::Write;

use clap::Parser;
use tokio::runtime::Builder;

#[derive(Debug, Parser)]
#[command(about = "Load generator and cheap upstream for the benchmarks")]
enum Command {
    /// Send requests and report, as JSON, what came back
    Run(run::Settings),
    /// Answer every request at once, with one chat completion or a stream of events
    Upstream(upstream::Settings),
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    match Command::parse() {
        Command::Run(settings) => {
            let report = runtime.block_on(run::run(&settings))?;
            writeln!(std::io::stdout(), "{}", serde_json::to_string(&report)?)?;
        }
        Command::Upstream(settings) => runtime.block_on(upstream::serve(&settings))?,
    }
    Ok(())
}
