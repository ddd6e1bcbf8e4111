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

/// Serves until the process receives a signal, or the client of stdio closes its stream.
pub(crate) async fn run(command: Serving, options: &Options) -> Result<(), Failure> {
    // A signal also ends a start that takes long.
    let signals = Signals::install();
    match command {
        Serving::Serve { directory, listen } => directory::serve(&directory, &listen, options, signals).await,
        Serving::Gateway(gateway) => gateway::serve(&gateway, options, signals).await,
    }
}
