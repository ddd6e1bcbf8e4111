//! The connections of a command, which the program closes at its end.

use std::sync::OnceLock;

use mcp_agent::Host;
use mcp_client::Client;

/// The connections of a command: to the server of the command line, or to the servers of a configuration file.
#[derive(Default)]
pub(crate) struct Opened {
    pub(crate) client: OnceLock<Client>,
    host: OnceLock<Host>,
}

impl Opened {
    /// Keeps the host of a command.
    pub(crate) fn keep_host(&self, host: &Host) {
        self.host.get_or_init(|| host.clone());
    }

    /// Closes the connections, and waits until the processes of the servers have ended.
    pub(crate) async fn close(&self) {
        if let Some(client) = self.client.get() {
            client.close().await;
        }
        if let Some(host) = self.host.get() {
            host.shutdown().await;
        }
    }
}
