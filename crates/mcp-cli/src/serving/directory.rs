//! The server of a directory.

use std::path::Path;

use mcp_server::{content::server_from_dir, http::HttpConfig};

use super::listener::Listener;
use crate::{
    args::{Listen, Options},
    failure::Failure,
    screen::warn,
    signals::Signals,
    text::line,
};

/// The directories with the content of a server.
const PARTS: [&str; 4] = ["tools", "prompts", "resources", "skills"];

/// Serves a directory. The log of the program has a warning for each file with a fault.
pub(super) async fn serve(
    directory: &Path,
    listen: &Listen,
    options: &Options,
    signals: Signals,
) -> Result<(), Failure> {
    let server = server_from_dir(directory).map_err(|error| Failure::usage(error.to_string()))?;
    let name = line(&directory.display().to_string());
    if PARTS.iter().all(|part| is_empty(&directory.join(part))) {
        warn(&format!(
            "{name} has no files in `tools`, `prompts`, `resources` and `skills`: the server has no content"
        ));
    }
    let listener = Listener::local(listen);
    listener.serve(&server, HttpConfig::new(), &name, options.json, signals).await
}

/// Whether a directory does not exist or has no entries.
fn is_empty(directory: &Path) -> bool {
    directory.read_dir().is_ok_and(|mut entries| entries.next().is_none()) || !directory.exists()
}
