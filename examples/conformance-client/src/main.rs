//! The client of the official conformance suites: `conformance-client <url>`.
//!
//! The suite sets environment variables: `MCP_CONFORMANCE_SCENARIO` names the scenario,
//! `MCP_CONFORMANCE_PROTOCOL_VERSION` names the revision, and `MCP_CONFORMANCE_CONTEXT` holds further parameters as JSON.
//! The server of the suite checks the messages of the client. The program fails only if a call fails.

#![expect(clippy::print_stderr, reason = "a program prints to its streams")]

use std::{env, error::Error, io, process::ExitCode};

use mcp_client::protocol::ProtocolVersion;

use self::scenarios::Run;

mod authorization;
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
    match run.execute().await {
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

/// Reads the scenario from the command line and the environment.
fn read() -> Result<Run, Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let (Some(url), None) = (args.next(), args.next()) else { return Err("one URL is required".into()) };
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO")?;
    // The older release of the suite does not set the variable. The client then detects the revision.
    let version = env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").ok();
    let version = version.map(|version| version.parse::<ProtocolVersion>()).transpose()?;
    let context = env::var("MCP_CONFORMANCE_CONTEXT").ok();
    let context = context.map(|context| serde_json::from_str(&context)).transpose()?;
    Ok(Run { url, scenario, version, context: context.unwrap_or_default() })
}
