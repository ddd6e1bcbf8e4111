//! The server of a directory.

use std::path::Path;

use mcp_server::{content::server_from_dir, http::HttpConfig};

use super::listener::Listener;
use crate::{
    args::{Listen, Options},
    failure::Failure,
    signals::Signals,
    text::line,
};

/// Serves a directory. The log of the program has a warning for each file with a fault.
pub(super) async fn serve(
    directory: &Path,
    listen: &Listen,
    options: &Options,
    signals: Signals,
) -> Result<(), Failure> {
    let server = server_from_dir(directory).map_err(|error| Failure::usage(error.to_string()))?;
    let name = line(&directory.display().to_string());
    let listener = Listener::local(listen);
    listener.serve(&server, HttpConfig::new(), &name, options.json, signals).await
}
