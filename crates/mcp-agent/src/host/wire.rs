//! The recorder and the recording of a host, between the servers and their connectors.

use std::sync::Arc;

use mcp_client::transport::Connect;

use crate::{
    config::{Endpoint, ServerDefinition},
    record::{Recorder, Recording},
};

/// The shortest value of a variable that counts as a secret, in bytes. Shorter values, such as `debug`, are also words of
/// messages.
const SHORTEST: usize = 8;
/// The shortest value of a header, and of a variable with the name of a secret.
const SHORTEST_SECRET: usize = 4;

/// Records the connections of a host, or answers them from a recording.
#[derive(Default)]
pub(super) struct Wire {
    pub(super) recorder: Option<Recorder>,
    pub(super) recording: Option<Recording>,
}

impl Wire {
    /// Returns the connector that the host uses for a server.
    pub(super) fn connector(&self, server: &str, connector: Arc<dyn Connect>) -> Arc<dyn Connect> {
        let connector = match &self.recording {
            Some(recording) => Arc::new(recording.connector(server)),
            None => connector,
        };
        match &self.recorder {
            Some(recorder) => Arc::new(recorder.connector_of(server, connector)),
            None => connector,
        }
    }

    /// Keeps the configured values of a server out of the recording.
    pub(super) fn hide_secrets(&self, definition: &ServerDefinition) {
        let Some(recorder) = &self.recorder else { return };
        let hide = |value: &str, shortest: usize| {
            if value.len() >= shortest {
                recorder.hide(value);
            }
        };
        match &definition.endpoint {
            Endpoint::Stdio(stdio) => {
                for (name, value) in &stdio.env {
                    hide(value.expose(), if is_secret(name) { SHORTEST_SECRET } else { SHORTEST });
                }
            }
            Endpoint::Http(http) => {
                for (_, value) in &http.headers {
                    hide(value.expose(), SHORTEST_SECRET);
                    // The credentials follow the name of their scheme.
                    if let Some((_, credentials)) = value.expose().split_once(' ') {
                        hide(credentials.trim(), SHORTEST_SECRET);
                    }
                }
                if let Some(secret) = &http.oauth_client_secret {
                    hide(secret.expose(), SHORTEST_SECRET);
                }
            }
        }
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL", "PWD"].iter().any(|part| name.contains(part))
}
