//! The commands that serve clients until a signal.

mod auth;
mod directory;
mod gateway;
mod listener;

use crate::{
    args::{Options, Serving},
    failure::Failure,
    signals::Signals,
};

/// The options without an effect on a gateway: its clients answer the questions of servers, and its clients set the level of log records.
const NOT_OF_GATEWAY: [&str; 6] = ["--root", "--sample-with", "--answer", "--yes", "--decline", "--log-level"];
/// The options with an effect on the server of a directory.
const OF_DIRECTORY: [&str; 1] = ["--trace"];

/// Serves until the process receives a signal, or the client of stdio closes its stream.
pub(crate) async fn run(command: Serving, options: &Options) -> Result<(), Failure> {
    // A signal also ends a start that takes long.
    let signals = Signals::install();
    match command {
        Serving::Serve { directory, listen } => {
            check_options("serve", options, |name| OF_DIRECTORY.contains(&name))?;
            directory::serve(&directory, &listen, options, signals).await
        }
        Serving::Gateway(gateway) => {
            check_options("gateway", options, |name| !NOT_OF_GATEWAY.contains(&name))?;
            gateway::serve(&gateway, options, signals).await
        }
    }
}

/// Rejects options without an effect.
fn check_options(command: &str, options: &Options, has_effect: impl Fn(&str) -> bool) -> Result<(), Failure> {
    match options.given().find(|name| !has_effect(name)) {
        Some(name) => Err(Failure::usage(format!("the option {name} has no effect on `mcp {command}`; remove it"))),
        None => Ok(()),
    }
}
