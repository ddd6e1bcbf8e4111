//! Log records of calls over HTTP, in a process whose subscriber has another layer beside the log layer.

#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::time::Duration;

use http::Method;
use http_body_util::BodyExt;
use mcp_server_core::{LogRecords, Server, tool};
use mcp_server_http::{HttpConfig, HttpServer};
use serde_json::json;
use tracing_subscriber::{fmt, layer::SubscriberExt as _};

use crate::common::{initialized, legacy, open, opened, request, send, stateless};

/// Starts the process with a global subscriber.
const CHILD: &str = "MCP_TEST_LOG_LAYER_OVER_HTTP";

#[test]
fn the_events_of_a_call_go_to_its_client_alone_beside_another_layer() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if std::env::var_os(CHILD).is_none() {
        let test = "log_layer::the_events_of_a_call_go_to_its_client_alone_beside_another_layer";
        let mut process = tokio::process::Command::new(std::env::current_exe().unwrap());
        process.args(["--exact", test, "--nocapture"]).env(CHILD, "1").kill_on_drop(true);
        let output = runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(60), process.output()).await.expect("the process ends").unwrap()
        });
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let greets = async || {
        tracing::info!(target: "app", "first");
        tracing::info!(target: "app", "second");
        "done"
    };
    let server = Server::builder("logs", "1").tool(tool("greets", greets)).build();
    let layers = tracing_subscriber::registry().with(fmt::layer().with_writer(std::io::sink));
    let log_layer = server.log_layer(LogRecords::from_targets(["app"]));
    tracing::subscriber::set_global_default(layers.with(log_layer)).unwrap();
    runtime.block_on(async {
        let service = server.into_service(HttpConfig::new());
        let (session, other) = (open(&service).await, open(&service).await);
        initialized(&service, &session).await;
        initialized(&service, &other).await;
        let (own, foreign) = (opened(&service, &session).await, opened(&service, &other).await);
        let params = json!({ "name": "greets" });
        let with_level = json!({ "name": "greets", "_meta": { "io.modelcontextprotocol/logLevel": "info" } });
        for request in [
            legacy(Some(&session), "tools/call", params.clone()),
            legacy(Some(&session), "tools/call", params),
            stateless("tools/call", with_level, &[]),
        ] {
            let events = send(&service, request).await.events();
            let texts: Vec<_> =
                events.iter().map(|event| event["params"]["data"]["message"].as_str().unwrap_or("response")).collect();
            assert_eq!(texts, ["first", "second", "response"]);
        }
        // No event went to a stream of a session.
        for (id, stream) in [(&session, own), (&other, foreign)] {
            send(&service, request(Method::DELETE, &[("mcp-session-id", id)], "")).await;
            assert_eq!(stream.collect().await.unwrap().to_bytes(), "");
        }
    });
}
