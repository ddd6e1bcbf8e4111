//! Log records of a server that belong to no call, behind a gateway.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    pin::pin,
    sync::{Arc, OnceLock},
    task::Poll,
    time::Duration,
};

use mcp_agent::{Gateway, Host};
use mcp_client::{Client, Notifications, transport::Connect};
use mcp_protocol::{LoggingLevel, NotificationMethod as _, ProtocolVersion, notification::LoggingMessage};
use mcp_server::prelude::*;
use serde_json::Value;
use tokio::{
    sync::Barrier,
    time::{sleep, timeout},
};

use crate::common::{Pipe, SOON, client, over_http};

const LEGACY: ProtocolVersion = ProtocolVersion::V2025_11_25;

/// A gateway in front of a server over a pipe. Its tool writes a record while two calls run.
async fn gateway() -> Server {
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
    let host = Host::builder("gateway", "1").server("s", pipe).start().await.unwrap();
    Gateway::builder(host).build().unwrap().build()
}

struct User {
    client: Client,
    notifications: Notifications,
}

impl User {
    async fn new(gateway: &Server, version: ProtocolVersion) -> Self {
        let client = client().versions([version]).connect(gateway).await.unwrap();
        let notifications = client.notifications();
        Self { client, notifications }
    }

    async fn call(&self) {
        let called = self.client.call_tool("s__log", ()).log_level(LoggingLevel::Info).into_future();
        assert_eq!(timeout(SOON, called).await.unwrap().unwrap().text(), "done");
    }

    /// Returns the number of the log records that have arrived.
    async fn records(&mut self) -> usize {
        let mut records = 0;
        while let Some(notification) = std::future::poll_fn(|cx| {
            Poll::Ready(match pin!(self.notifications.next()).poll(cx) {
                Poll::Ready(notification) => notification,
                Poll::Pending => None,
            })
        })
        .await
        {
            records += usize::from(notification.method() == LoggingMessage::NAME);
        }
        records
    }
}

// The records of a call precede its result, so all of them have arrived after the calls. The clock is paused. It advances only while
// each task waits for a time.
#[tokio::test(start_paused = true)]
async fn the_only_session_of_a_connection_receives_the_records_of_its_parallel_calls() {
    let gateway = gateway().await;
    let mut ada = User::new(&gateway, LEGACY).await;
    tokio::join!(ada.call(), ada.call());
    assert_eq!(ada.records().await, 2);
    // The record can be about the call of the other session.
    let mut grace = User::new(&gateway, LEGACY).await;
    tokio::join!(ada.call(), grace.call());
    assert_eq!((ada.records().await, grace.records().await), (0, 0));
    grace.client.close().await;
    for (wait, expected) in [(1, 0), (20, 0), (11, 2)] {
        sleep(Duration::from_secs(wait)).await;
        tokio::join!(ada.call(), ada.call());
        assert_eq!(ada.records().await, expected, "after {wait} seconds");
    }
}

#[tokio::test]
async fn a_session_does_not_receive_the_records_of_stateless_requests() {
    let gateway = gateway().await;
    let (mut ada, grace) = (User::new(&gateway, LEGACY).await, User::new(&gateway, ProtocolVersion::LATEST).await);
    tokio::join!(ada.call(), grace.call());
    assert_eq!(ada.records().await, 0);
}

#[tokio::test]
async fn a_record_on_the_stream_of_the_session_reaches_the_only_session_of_the_connection() {
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
    let host = Host::builder("gateway", "1").server("s", &*url).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().versions([LEGACY]).build();
    let mut ada = User::new(&gateway, LEGACY).await;
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
