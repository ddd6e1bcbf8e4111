//! Calls that run while the host removes or replaces their server.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::Arc;

use mcp_agent::{CallError, Gateway, Host, ServerOptions};
use mcp_client::transport::Connect;
use mcp_protocol::{ErrorCode, ProtocolVersion};
use mcp_server::prelude::*;
use serde_json::json;
use tokio::{sync::mpsc, time::timeout};

use crate::{
    common::{Pipe, REVISIONS, SOON, cells, client, over_http},
    rounds::User,
};

/// A server whose tool has an effect and then runs without an end. The receiver counts the effects.
fn paying(version: ProtocolVersion) -> (Server, mpsc::UnboundedReceiver<()>) {
    let (paid, effects) = mpsc::unbounded_channel();
    let pay = move || {
        paid.send(()).unwrap();
        std::future::pending::<&'static str>()
    };
    (Server::builder("s", "1").versions([version]).tool(tool("pay", pay)).build(), effects)
}

async fn connector(server: Server, is_http: bool) -> Arc<dyn Connect> {
    match is_http {
        true => Arc::new(mcp_client::http::Http::new(over_http(server).await).unwrap()),
        false => Arc::new(Pipe::new(server)),
    }
}

/// Ends the server of a running call.
async fn end_server(host: &Host, is_replaced: bool) {
    if is_replaced {
        let other = Server::builder("s", "2").tool(tool("pay", async || "paid")).build();
        timeout(SOON, host.replace("s", Arc::new(Pipe::new(other)), ServerOptions::new())).await.unwrap().unwrap();
    } else {
        assert!(timeout(SOON, host.remove("s")).await.unwrap());
    }
}

#[tokio::test]
async fn a_call_that_the_server_received_cannot_be_repeated() {
    for (down, up) in cells() {
        for (is_http, is_replaced, can_be_asked) in
            [(false, false, false), (false, true, false), (true, false, false), (false, false, true)]
        {
            let case = format!("{down} to {up}, HTTP: {is_http}, replaced: {is_replaced}, questions: {can_be_asked}");
            let (server, mut effects) = paying(up);
            let connector = connector(server, is_http).await;
            let host = Host::builder("gateway", "1").server_with("s", connector, ServerOptions::new());
            let host = host.start().await.unwrap();
            let gateway = Gateway::builder(host.clone()).build().unwrap().versions([down]).build();
            // The call of a modern client that can be asked is parked.
            let user = if can_be_asked { client().handler(User::new("ada")) } else { client() };
            let user = user.connect(&gateway).await.unwrap();
            let call = tokio::spawn(user.call_tool("s__pay", ()).into_future());
            timeout(SOON, effects.recv()).await.unwrap().unwrap();
            end_server(&host, is_replaced).await;
            let error = timeout(SOON, call).await.unwrap().unwrap().unwrap_err().rpc().unwrap().clone();
            assert_eq!(error.code, ErrorCode::INTERNAL_ERROR, "{case}: {error}");
            assert_eq!(&*error.message, "the connection to the server failed", "{case}");
            assert_eq!(error.data, Some(json!({ "server": "s", "retryable": false })), "{case}");
        }
    }
}

#[tokio::test]
async fn a_call_of_the_host_that_the_server_received_is_an_error_of_the_client() {
    for up in REVISIONS {
        let (server, mut effects) = paying(up);
        let host = Host::builder("host", "1").server("s", Pipe::new(server)).start().await.unwrap();
        let call = tokio::spawn(host.call("s:pay", ()).into_future());
        timeout(SOON, effects.recv()).await.unwrap().unwrap();
        end_server(&host, false).await;
        match timeout(SOON, call).await.unwrap().unwrap().unwrap_err() {
            CallError::Client { error, .. } => assert!(error.is_closed() && error.was_sent(), "{up}: {error:?}"),
            other => panic!("{up}: {other:?}"),
        }
    }
}
