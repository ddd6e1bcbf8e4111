//! A server on stdio or HTTP, until a signal.

use std::{net::Ipv4Addr, pin::pin};

use mcp_protocol::ErrorChain;
use mcp_server::{
    Server,
    http::{HttpConfig, HttpServer},
};
use serde_json::json;

use crate::{args::Listen, failure::Failure, output::Output, screen::note, signals::Signals};

/// Serves `server` until a signal. Calls that run have the grace period of the server. A second signal ends them at once.
pub(super) async fn serve(
    server: &Server,
    listen: &Listen,
    config: HttpConfig,
    name: &str,
    json: bool,
    mut signals: Signals,
) -> Result<(), Failure> {
    let failed = |error: &(dyn std::error::Error + 'static)| Failure::local(ErrorChain::new(error).to_string());
    let serving = async {
        if listen.stdio {
            note(format!("mcp: {name} is served over stdio"));
            return server.serve_stdio().await.map_err(|error| failed(&error));
        }
        let text = format!("mcp: {name} is served at ");
        let config = config.health("/health").sse("/sse", "/messages").ignore_signals().on_listening(move |address| {
            let url = format!("http://{address}/mcp");
            note(format!("{text}{url}"));
            if json {
                // A reader that closed stdout needs no address.
                let _ = Output::new(true).value(&json!({ "url": url }));
            }
        });
        let address = (Ipv4Addr::LOCALHOST, listen.port);
        server.serve_http_with(address, config).await.map_err(|error| failed(&error))
    };
    let mut serving = pin!(serving);
    tokio::select! {
        done = &mut serving => return done,
        _ = signals.next() => server.shutdown(),
    }
    tokio::select! {
        done = serving => done,
        code = signals.next() => Err(Failure::interrupted(code)),
    }
}
