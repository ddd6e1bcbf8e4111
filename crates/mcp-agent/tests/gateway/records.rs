//! Log records of a server that belong to no call, behind a gateway.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use mcp_agent::{Gateway, GatewayBuilder, Host, ServerOptions, Sharing};
use mcp_client::{Client, Notifications, transport::Connect};
use mcp_protocol::{
    LoggingLevel, LoggingMessageParams, NotificationMethod as _, ProtocolVersion, RpcError,
    notification::{LoggingMessage, ToolListChanged},
};
use mcp_server::{
    prelude::*,
    source::{Source, SourceCall, SourceList, SourcePage, SourceSubscription},
};
use mcp_transport::BoxFuture;
use serde_json::Value;
use tokio::{sync::Barrier, time::timeout};

use crate::common::{Pipe, SOON, client, over_http, page};

const LEGACY: ProtocolVersion = ProtocolVersion::V2025_11_25;

/// Returns the builder of a gateway in front of a server over a pipe. Its tool writes a record while two calls run.
async fn builder(sharing: Sharing) -> GatewayBuilder {
    let both = Arc::new(Barrier::new(2));
    let server = Server::builder("s", "1")
        .versions([LEGACY])
        .tool(tool("log", move |context: Context| {
            let both = Arc::clone(&both);
            async move {
                both.wait().await;
                context.log(LoggingLevel::Warning, "record").await;
                both.wait().await;
                "done"
            }
        }))
        .build();
    let pipe: Arc<dyn Connect> = Arc::new(Pipe::new(server));
    let host = Host::builder("gateway", "1").server_with("s", pipe, ServerOptions::new().sharing(sharing));
    Gateway::builder(host.start().await.unwrap())
}

async fn gateway(sharing: Sharing) -> Server {
    builder(sharing).await.build().unwrap().build()
}

struct User {
    client: Client,
    notifications: Notifications,
}

impl User {
    /// Connects a user to a gateway at a URL, which gives each connection a session.
    async fn new(url: &str) -> Self {
        Self::of(client().versions([LEGACY]).connect(url).await.unwrap())
    }

    fn of(client: Client) -> Self {
        let notifications = client.notifications();
        Self { client, notifications }
    }

    async fn call(&self) {
        let called = self.client.call_tool("s__log", ()).log_level(LoggingLevel::Info).into_future();
        assert_eq!(timeout(SOON, called).await.unwrap().unwrap().text(), "done");
    }

    /// Returns the number of the log records that the gateway has sent before this call. It sends a notification behind them.
    async fn records(&mut self, gateway: &Server) -> usize {
        gateway.notify().tools_changed();
        let counted = async {
            let mut records = 0;
            loop {
                match self.notifications.next().await.unwrap().method() {
                    LoggingMessage::NAME => records += 1,
                    ToolListChanged::NAME => return records,
                    _ => {}
                }
            }
        };
        timeout(SOON, counted).await.unwrap()
    }
}

// The records of a call precede its result, so all of them have arrived after the calls.
#[tokio::test]
async fn a_session_receives_the_records_of_its_parallel_calls_on_a_connection_of_its_own_alone() {
    for (sharing, expected) in [(Sharing::Session, 2), (Sharing::Principal, 0), (Sharing::All, 0)] {
        let gateway = gateway(sharing).await;
        let mut ada = User::new(&over_http(gateway.clone()).await).await;
        tokio::join!(ada.call(), ada.call());
        assert_eq!(ada.records(&gateway).await, expected, "{sharing:?}");
    }
}

#[tokio::test]
async fn the_only_client_receives_the_records_of_its_parallel_calls_on_each_connection() {
    for sharing in [Sharing::Session, Sharing::Principal, Sharing::All] {
        for (is_only, expected) in [(false, 0), (true, 2)] {
            let builder = builder(sharing).await;
            let builder = if is_only { builder.one_client() } else { builder };
            let gateway = builder.build().unwrap().build();
            // A session over a pipe has no id, as over stdio.
            let pipe = Pipe::new(gateway.clone());
            let mut ada = User::of(client().versions([LEGACY]).connect(pipe).await.unwrap());
            tokio::join!(ada.call(), ada.call());
            assert_eq!(ada.records(&gateway).await, expected, "{sharing:?}");
        }
    }
}

#[tokio::test]
async fn a_session_does_not_receive_the_records_of_another_session() {
    let gateway = gateway(Sharing::Session).await;
    let url = over_http(gateway.clone()).await;
    let mut ada = User::new(&url).await;
    let mut grace = User::new(&url).await;
    tokio::join!(ada.call(), ada.call());
    // Each client receives the notification behind the records of both, so the second count has those of the second calls.
    assert_eq!((ada.records(&gateway).await, grace.records(&gateway).await), (2, 0));
    tokio::join!(grace.call(), grace.call());
    assert_eq!((grace.records(&gateway).await, grace.records(&gateway).await), (0, 2));
    for _ in 0..3 {
        assert_eq!(ada.records(&gateway).await, 0);
    }
}

/// A server that writes a record during each subscription, and counts the subscriptions.
#[derive(Clone, Default)]
struct Recording(Arc<AtomicUsize>);

impl Source for Recording {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page((list == SourceList::Resources).then_some(r#"{"name":"a","uri":"x:a"}"#))
    }

    fn subscribe(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceSubscription, RpcError>> {
        Box::pin(async move {
            call.forward_log(&LoggingMessageParams::new(LoggingLevel::Warning, "record")).await;
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(SourceSubscription::default())
        })
    }
}

#[tokio::test]
async fn a_session_does_not_receive_the_records_of_its_subscription() {
    let recording = Recording::default();
    let server = Server::builder::<()>("s", "1").versions([LEGACY]).source(recording.clone()).build();
    let host = Host::builder("gateway", "1").server_with(
        "s",
        &*over_http(server).await,
        ServerOptions::new().sharing(Sharing::Session),
    );
    let gateway = Gateway::builder(host.start().await.unwrap()).build().unwrap().versions([LEGACY]).build();
    let mut ada = User::new(&over_http(gateway.clone()).await).await;
    let _subscription = timeout(SOON, ada.client.subscribe(["mcp://s/x:a"])).await.unwrap().unwrap();
    // The record precedes the answer of the server on the stream of the request.
    assert_eq!((recording.0.load(Ordering::SeqCst), ada.records(&gateway).await), (1, 0));
}

#[tokio::test]
async fn a_record_on_the_stream_of_a_session_reaches_the_session_of_the_connection() {
    let server: Arc<OnceLock<Server>> = Arc::default();
    let logging = Arc::clone(&server);
    let built = Server::builder("s", "1")
        .versions([LEGACY])
        .tool(tool("log", move || {
            logging.get().unwrap().notify().log(LoggingLevel::Warning, "record");
            std::future::ready("done")
        }))
        .build();
    let url = over_http(server.get_or_init(|| built).clone()).await;
    let host = Host::builder("gateway", "1")
        .server_with("s", &*url, ServerOptions::new().sharing(Sharing::Session))
        .start()
        .await
        .unwrap();
    let gateway = Gateway::builder(host).build().unwrap().versions([LEGACY]).build();
    let mut ada = User::new(&over_http(gateway.clone()).await).await;
    ada.call().await;
    let record = async {
        loop {
            let notification = ada.notifications.next().await.unwrap();
            if notification.method() == LoggingMessage::NAME {
                return notification.decode::<Value>().unwrap();
            }
        }
    };
    assert_eq!(timeout(SOON, record).await.unwrap()["data"], "record");
}
