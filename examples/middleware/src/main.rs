//! Layers around handlers: two of tower and a custom audit log. `docs/layers.md` explains the program.

use std::{error::Error, io, time::Duration};

use mcp_server::prelude::*;
use tower::{
    BoxError, ServiceBuilder,
    layer::layer_fn,
    limit::ConcurrencyLimitLayer,
    timeout::{TimeoutLayer, error::Elapsed},
};

use self::audit::Audit;

mod audit;

/// A slow tool.
async fn report() -> &'static str {
    tokio::time::sleep(Duration::from_secs(2)).await;
    "All is well."
}

/// Replaces a timeout by an error that the client can read. Other errors reach the client as a reference number.
fn readable(error: BoxError) -> BoxError {
    if error.is::<Elapsed>() { RpcError::internal("too many reports run at the moment").into() } else { error }
}

fn server() -> Server {
    let timeout = ServiceBuilder::new().map_err(readable).layer(TimeoutLayer::new(Duration::from_secs(5))).into_inner();
    Server::builder("middleware", env!("CARGO_PKG_VERSION"))
        .tool(
            tool("report", report)
                .description("Write a report.")
                .read_only()
                .layer(ConcurrencyLimitLayer::new(1))
                // The layer added last runs first, so the timeout includes the time in the queue.
                .layer(timeout),
        )
        .tool(tool("now", async || "Now.").description("Return the current time."))
        .layer(layer_fn(Audit))
        .build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).init();
    server().serve_http("127.0.0.1:8080").await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_report_that_waits_longer_than_the_timeout_fails() {
        let server = server();
        let report = || server.call_tool("report", json!({}));
        let (first, second, third) = tokio::join!(report(), report(), report());
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(third.unwrap_err().message, "too many reports run at the moment");
        assert!(server.call_tool("now", json!({})).await.is_ok());
    }
}
