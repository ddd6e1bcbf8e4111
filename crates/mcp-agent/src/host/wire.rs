//! The recorder and the recording of a host, between the servers and their connectors.

use std::sync::Arc;

use mcp_client::transport::Connect;

use crate::{
    ServerOptions,
    config::{Endpoint, ServerDefinition, secrets_of_texts},
    record::{Recorder, Recording},
};

/// The shortest value of a variable that counts as a secret, in bytes. Shorter values, such as `debug`, are also words of
/// messages.
const SHORTEST: usize = 8;
/// The shortest value of a header, and of a variable, an argument or a part of a URL with the name of a secret.
const SHORTEST_SECRET: usize = 4;

/// Records the connections of a host, or answers them from a recording.
#[derive(Clone, Default)]
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

    /// Returns the options of a server whose connectors of principals are those that the host uses.
    pub(super) fn options(&self, server: &str, mut options: ServerOptions) -> ServerOptions {
        let (wire, server) = (self.clone(), server.to_owned());
        options.connectors =
            options.connectors.map(|connectors| connectors.map(move |connector| wire.connector(&server, connector)));
        options
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
                    hide(value.expose(), shortest(is_secret(name)));
                }
                for name in &stdio.inherited_env {
                    if let Ok(value) = std::env::var(name) {
                        hide(&value, shortest(is_secret(name)));
                    }
                }
                let args = stdio.args.iter().map(String::as_str);
                secrets_of_texts(args, &mut |value, is_named| hide(value, shortest(is_named)));
            }
            Endpoint::Http(http) => {
                secrets_of_texts([http.url.as_str()], &mut |value, is_named| hide(value, shortest(is_named)));
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

fn shortest(is_secret: bool) -> usize {
    if is_secret { SHORTEST_SECRET } else { SHORTEST }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL", "PWD"].iter().any(|part| name.contains(part))
}
