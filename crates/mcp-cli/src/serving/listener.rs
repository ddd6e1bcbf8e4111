//! A server on stdio or HTTP, until a signal.

use std::{
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
};

use mcp_protocol::ErrorChain;
use mcp_server::{
    Server,
    http::{HttpConfig, HttpServer},
};
use serde_json::json;

use crate::{args::Listen, failure::Failure, output::Output, screen::note, signals::Signals};

/// The transport of a server.
pub(super) enum Listener {
    Stdio,
    /// The host and the port of an address.
    Http(String, u16),
    /// Addresses that were resolved.
    Resolved(Vec<SocketAddr>),
}

impl Listener {
    /// Returns the transport of the options. HTTP has a loopback address.
    pub(super) fn local(listen: &Listen) -> Self {
        Self::at(&Ipv4Addr::LOCALHOST.to_string(), listen)
    }

    /// Returns the transport of the options. HTTP has this address.
    pub(super) fn at(host: &str, listen: &Listen) -> Self {
        if listen.stdio { Self::Stdio } else { Self::Http(host.to_owned(), listen.port) }
    }

    /// Serves `server` until a signal. Running calls have the grace period of the server.
    pub(super) async fn serve(
        &self,
        server: &Server,
        config: HttpConfig,
        name: &str,
        json: bool,
        mut signals: Signals,
    ) -> Result<(), Failure> {
        let failed = |error: &(dyn std::error::Error + 'static)| Failure::local(ErrorChain::new(error).to_string());
        let serving = async {
            match self {
                Self::Stdio => {
                    note(format!("mcp: {name} is served over stdio"));
                    server.serve_stdio().await.map_err(|error| failed(&error))
                }
                Self::Http(host, port) => {
                    let config = announced(config, name.to_owned(), json);
                    let served = server.serve_http_with((host.as_str(), *port), config).await;
                    served.map_err(|error| failed(&error))
                }
                Self::Resolved(addresses) => {
                    let config = announced(config, name.to_owned(), json);
                    server.serve_http_with(&addresses[..], config).await.map_err(|error| failed(&error))
                }
            }
        };
        let mut serving = pin!(serving);
        tokio::select! {
            done = &mut serving => return done,
            _ = signals.next() => server.shutdown(),
        }
        serving.await
    }
}

/// Adds the routes of all servers, and prints the URL when the server is ready.
fn announced(config: HttpConfig, name: String, json: bool) -> HttpConfig {
    let config = config.health("/health").readiness("/ready").sse("/sse", "/messages").ignore_signals();
    config.on_listening(move |address| {
        let url = format!("http://{address}/mcp");
        note(format!("mcp: {name} is served at {url}"));
        if json {
            // A reader that closed stdout needs no address.
            let _ = Output::new(true).value(&json!({ "url": url }));
        }
    })
}
