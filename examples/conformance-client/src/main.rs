//! The client that the official conformance suites are run against: `conformance-client <url>`.
//!
//! The suite says in the environment what it plays: `MCP_CONFORMANCE_SCENARIO` names the scenario,
//! `MCP_CONFORMANCE_PROTOCOL_VERSION` the revision, and `MCP_CONFORMANCE_CONTEXT` has what the scenario wants to be told, as
//! JSON. What the suite looks at is what its server gets to see; the program only fails when a call does.

#![expect(clippy::print_stderr, reason = "a program speaks through its streams")]

use std::{env, error::Error, io, process::ExitCode};

use mcp_client::protocol::ProtocolVersion;

use self::scenarios::Run;

mod scenarios;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).init();
    let run = match read() {
        Ok(run) => run,
        Err(error) => {
            eprintln!("error: {error}\n\nusage: conformance-client URL, with MCP_CONFORMANCE_SCENARIO set");
            return ExitCode::from(2);
        }
    };
    match run.play().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut cause: Option<&dyn Error> = Some(&*error);
            while let Some(error) = cause {
                eprintln!("error: {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

/// What is to be played, as the suite says it.
fn read() -> Result<Run, Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let (Some(url), None) = (args.next(), args.next()) else { return Err("one URL is wanted".into()) };
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO")?;
    // The older release of the suite does not say it: then the client finds out by itself.
    let version = env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").ok();
    let version = version.map(|version| version.parse::<ProtocolVersion>()).transpose()?;
    let context = env::var("MCP_CONFORMANCE_CONTEXT").ok();
    let context = context.map(|context| serde_json::from_str(&context)).transpose()?;
    Ok(Run { url, scenario, version, context: context.unwrap_or_default() })
}
