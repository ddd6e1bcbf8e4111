//! Log records of a server that belong to no call, behind a gateway.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    future::pending,
    pin::pin,
    sync::{Arc, OnceLock},
    task::Poll,
    time::Duration,
};

use mcp_agent::{Gateway, Host};
use mcp_client::{Client, Notifications, transport::Connect};
use mcp_protocol::{
    LoggingLevel, LoggingMessageParams, NotificationMethod as _, ProtocolVersion, RpcError, TaskSupport,
    notification::LoggingMessage,
};
use mcp_server::{
    prelude::*,
    source::{Source, SourceCall, SourceList, SourceOutcome, SourcePage},
};
use mcp_transport::BoxFuture;
use serde_json::{Value, json};
use tokio::{
    sync::Barrier,
    time::{sleep, timeout},
};

use crate::common::{Pipe, SOON, client, complete, over_http, page};

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

/// A gateway and its server over a pipe, whose records belong to no call. The order of the messages on a pipe stays.
struct World {
    server: Server,
    host: Host,
    gateway: Server,
}

impl World {
    async fn new() -> Self {
        let work = || async {
            pending::<()>().await;
            "done"
        };
        let server = Server::builder("s", "1")
            .versions([LEGACY])
            .limits(|limits| limits.tasks.ttl = TTL)
            .resource(resource("x:a", async || "a"))
            .tool(tool("log", async || "done"))
            .tool(tool("work", work).task(TaskSupport::Required))
            .build();
        let pipe: Arc<dyn Connect> = Arc::new(Pipe::new(server.clone()));
        let host = Host::builder("gateway", "1").server("s", pipe).start().await.unwrap();
        let gateway = Gateway::builder(host.clone()).build().unwrap().build();
        Self { server, host, gateway }
    }

    async fn user(&self) -> User {
        User::new(&self.gateway, LEGACY).await
    }

    /// Writes a record after a call of a user, and returns whether the record reaches the user.
    async fn reaches(&self, user: &mut User) -> bool {
        user.call().await;
        self.server.notify().log(LoggingLevel::Warning, "record");
        // The clock is paused, so the record arrives before this time.
        sleep(Duration::from_millis(1)).await;
        user.records().await > 0
    }
}

/// The lifetime of a task.
const TTL: Duration = Duration::from_secs(120);

#[tokio::test(start_paused = true)]
async fn a_session_receives_no_record_of_a_connection_with_another_user() {
    for other in ["nothing", "subscription", "tasks", "application", "client of the application"] {
        let world = World::new().await;
        let mut ada = world.user().await;
        assert!(world.reaches(&mut ada).await, "{other}");
        let mut grace = world.user().await;
        let used = async {
            match other {
                "subscription" => drop(grace.client.subscribe(["mcp://s/x:a"]).await.unwrap()),
                "tasks" => drop(grace.client.request_raw("tasks/list", json!({})).raw_result().await.unwrap()),
                "application" => drop(world.host.call("s__log", json!({})).await.unwrap()),
                "client of the application" => drop(world.host.client("s").await.unwrap()),
                _ => {}
            }
        };
        timeout(SOON, used).await.unwrap();
        assert_eq!(world.reaches(&mut ada).await, other == "nothing", "{other}");
        assert_eq!(grace.records().await, 0, "{other}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_counts_for_the_time_of_its_tasks() {
    let world = World::new().await;
    let (mut ada, grace) = (world.user().await, world.user().await);
    assert!(world.reaches(&mut ada).await);
    let started = timeout(SOON, grace.client.call_tool("s__work", ()).as_task().into_future()).await.unwrap().unwrap();
    assert!(started.task().is_some());
    grace.client.close().await;
    for (wait, expected) in [(1, false), (60, false), (TTL.as_secs(), true)] {
        sleep(Duration::from_secs(wait)).await;
        assert_eq!(world.reaches(&mut ada).await, expected, "after {wait} seconds");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_of_too_many_sessions_forwards_no_further_record() {
    for (others, expected) in [(15, true), (16, false)] {
        let world = World::new().await;
        let mut ada = world.user().await;
        for _ in 0..others {
            let other = world.user().await;
            other.call().await;
            other.client.close().await;
        }
        assert!(!world.reaches(&mut ada).await, "{others}");
        sleep(Duration::from_secs(31)).await;
        assert_eq!(world.reaches(&mut ada).await, expected, "{others}");
    }
}

/// A server that writes a record during each list of its tools.
struct Listing;

impl Source for Listing {
    fn list(&self, list: SourceList, call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        Box::pin(async move {
            if list == SourceList::Tools {
                let record = LoggingMessageParams::new(LoggingLevel::Warning, "record");
                call.forward_log(&record).await;
            }
            let tool = r#"{"name":"log","inputSchema":{"type":"object"}}"#;
            page([tool].into_iter().filter(|_| list == SourceList::Tools)).await
        })
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let result = json!({ "content": [{ "type": "text", "text": "done" }] });
        complete(result.to_string(), call.context().version())
    }
}

#[tokio::test]
async fn a_session_does_not_receive_the_records_of_the_lists_of_the_gateway() {
    let server = Server::builder::<()>("s", "1").versions([LEGACY]).source(Listing).build();
    let url = over_http(server.clone()).await;
    let host = Host::builder("gateway", "1").server("s", &*url).start().await.unwrap();
    let gateway = Gateway::builder(host.clone()).build().unwrap().versions([LEGACY]).build();
    let mut ada = User::new(&gateway, LEGACY).await;
    ada.call().await;
    // The client of the gateway reads the record before the list.
    let mut upstream = host.client("s").await.unwrap().notifications();
    server.notify().tools_changed();
    let recorded = async { while upstream.next().await.unwrap().method() != LoggingMessage::NAME {} };
    timeout(SOON, recorded).await.unwrap();
    ada.call().await;
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
