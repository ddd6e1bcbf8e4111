//! Layers around handlers, tower's own and one of ours: `docs/layers.md` explains them.

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

/// Something that takes its time.
async fn report() -> &'static str {
    tokio::time::sleep(Duration::from_secs(2)).await;
    "All is well."
}

/// Says in words for the client what would be a reference number.
fn busy(error: BoxError) -> BoxError {
    if error.is::<Elapsed>() { RpcError::internal("there are too many reports at the moment").into() } else { error }
}

fn server() -> Server {
    let patience = ServiceBuilder::new().map_err(busy).layer(TimeoutLayer::new(Duration::from_secs(5))).into_inner();
    Server::builder("middleware", env!("CARGO_PKG_VERSION"))
        .tool(
            tool("report", report)
                .description("How things are.")
                .read_only()
                .layer(ConcurrencyLimitLayer::new(1))
                // The last one is the first that a call meets: the time in the queue counts.
                .layer(patience),
        )
        .tool(tool("now", async || "Now.").description("What time it is."))
        .layer(layer_fn(Audit))
        .build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    server().serve_http("127.0.0.1:8080").await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn reports_wait_for_each_other_and_not_too_long() {
        let server = server();
        let report = || server.call_tool("report", json!({}));
        let (first, second, third) = tokio::join!(report(), report(), report());
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(third.unwrap_err().message, "there are too many reports at the moment");
        assert!(server.call_tool("now", json!({})).await.is_ok());
    }
}
