//! The server of a directory.

use std::path::Path;

use mcp_client::Client;
use mcp_server::{Server, content::server_from_dir, http::HttpConfig};

use super::listener::Listener;
use crate::{
    args::{Listen, Options},
    failure::Failure,
    screen::warn,
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
    if is_empty(&server).await {
        warn(&format!("{name} has no tools, prompts, resources and skills: the server has no content"));
    }
    let listener = Listener::local(listen);
    listener.serve(&server, HttpConfig::new(), &name, options.json, signals).await
}

/// Whether a server lists no items. The files of skills are resources. The template of a directory exists also without files.
async fn is_empty(server: &Server) -> bool {
    let Ok(client) = Client::connect(server).await else { return false };
    let (tools, prompts, resources) = tokio::join!(client.list_tools(), client.list_prompts(), client.list_resources());
    client.close().await;
    // A server without a capability does not answer its list.
    let has_items = [
        tools.is_ok_and(|list| !list.is_empty()),
        prompts.is_ok_and(|list| !list.is_empty()),
        resources.is_ok_and(|list| !list.is_empty()),
    ];
    !has_items.contains(&true)
}
