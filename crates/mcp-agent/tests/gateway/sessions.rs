//! The state of sessions behind a gateway: the levels of log records, and the changes of roots.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use mcp_agent::{Gateway, Host, ServerState};
use mcp_client::{Client, Notifications, Reconnect, transport::Connect};
use mcp_protocol::{LoggingLevel, ProtocolVersion, Root};
use mcp_server::{ClientNotification, prelude::*};
use mcp_test::peer::{Reply, ScriptedServer};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::common::{Pipe, SOON, client, over_http};

const LEGACY: ProtocolVersion = ProtocolVersion::V2025_11_25;

/// A server whose tool writes a record of each level, and returns the lowest level that its client receives.
fn logging() -> Server {
    Server::builder("s", "1")
        .versions([LEGACY])
        .tool(tool("log", async |context: Context| {
            for level in LoggingLevel::ALL {
                context.log(level, level.as_str()).await;
            }
            let lowest = LoggingLevel::ALL.into_iter().find(|level| context.logs(*level));
            lowest.map_or("none", LoggingLevel::as_str)
        }))
        .build()
}

/// A client, and the log records that it receives.
struct User {
    client: Client,
    notifications: Notifications,
}

impl User {
    async fn new(gateway: &Server) -> Self {
        let client = client().connect(gateway).await.unwrap();
        let notifications = client.notifications();
        Self { client, notifications }
    }

    /// Calls the tool. Returns the level at the server, and the lowest level of the received records.
    async fn call(&mut self, level: Option<LoggingLevel>) -> (String, Option<String>) {
        let mut call = self.client.call_tool("s__log", ());
        if let Some(level) = level {
            call = call.log_level(level);
        }
        let at_server = timeout(SOON, call.into_future()).await.unwrap().unwrap().text();
        let mut lowest: Option<String> = None;
        // The records precede the result, so all of them have arrived.
        loop {
            let next = std::future::poll_fn(|cx| {
                Poll::Ready(match pin!(self.notifications.next()).poll(cx) {
                    Poll::Ready(record) => record,
                    Poll::Pending => None,
                })
            });
            let Some(record) = next.await else { return (at_server, lowest) };
            let params: Value = record.decode().unwrap();
            let level = params["level"].as_str().unwrap().to_owned();
            assert_eq!(params["data"], json!(level));
            lowest.get_or_insert(level);
        }
    }

    async fn set(&self, level: LoggingLevel) {
        timeout(SOON, self.client.set_log_level(level)).await.unwrap().unwrap();
    }
}

fn levels(at_server: &str, received: &str) -> (String, Option<String>) {
    (at_server.to_owned(), Some(received.to_owned()))
}

#[tokio::test]
async fn sessions_share_the_lowest_level_and_receive_the_records_of_their_own() {
    let host = Host::builder("gateway", "1").server("s", &*over_http(logging()).await).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().versions([LEGACY]).build();
    let (mut ada, mut grace) = (User::new(&gateway).await, User::new(&gateway).await);
    // Without a level of a client, the server chooses.
    assert_eq!(ada.call(None).await, levels("info", "info"));
    ada.set(LoggingLevel::Debug).await;
    assert_eq!(ada.call(None).await, levels("debug", "debug"));
    assert_eq!(grace.call(None).await, levels("debug", "info"));
    grace.set(LoggingLevel::Error).await;
    assert_eq!(grace.call(None).await, levels("debug", "error"));
    ada.set(LoggingLevel::Critical).await;
    assert_eq!(ada.call(None).await, levels("error", "critical"));
    assert_eq!(grace.call(None).await, levels("error", "error"));
    // A session that has ended does not count.
    grace.client.close().await;
    let highest = async {
        loop {
            for level in [LoggingLevel::Alert, LoggingLevel::Emergency] {
                ada.set(level).await;
                if ada.call(None).await == levels(level.as_str(), level.as_str()) {
                    return;
                }
            }
        }
    };
    timeout(SOON, highest).await.unwrap();
}

#[tokio::test]
async fn a_stateless_request_lowers_the_level_of_a_server_with_sessions() {
    let host = Host::builder("gateway", "1").server("s", &*over_http(logging()).await).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().versions([ProtocolVersion::LATEST]).build();
    let mut user = User::new(&gateway).await;
    for (level, at_server, received) in [
        (None, "info", None),
        (Some(LoggingLevel::Error), "error", Some("error")),
        (Some(LoggingLevel::Debug), "debug", Some("debug")),
        (Some(LoggingLevel::Warning), "debug", Some("warning")),
        (None, "debug", None),
    ] {
        assert_eq!(user.call(level).await, (at_server.to_owned(), received.map(str::to_owned)), "{level:?}");
    }
}

/// A server that accepts the first level, and sends this reply to further ones.
fn scripted(reply: Reply) -> ScriptedServer {
    let tools = json!({ "tools": [{ "name": "log", "inputSchema": { "type": "object" } }] });
    let done = json!({ "content": [{ "type": "text", "text": "done" }] });
    ScriptedServer::for_revision(LEGACY)
        .on("notifications/initialized", Reply::silence())
        .on("notifications/cancelled", Reply::silence())
        .on("resources/list", Reply::result(json!({ "resources": [] })))
        .on("resources/templates/list", Reply::result(json!({ "resourceTemplates": [] })))
        .on("prompts/list", Reply::result(json!({ "prompts": [] })))
        .on("tools/list", Reply::result(tools))
        .on("tools/call", Reply::result(done))
        .on("logging/setLevel", reply)
}

// The clock is paused. It advances only while each task waits for a time.
#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_accept_a_level_receives_no_other_level_and_serves_the_calls() {
    for reply in [Reply::error(-32601, "no such method"), Reply::silence()] {
        let server = scripted(reply);
        let host = Host::builder("gateway", "1").server("s", server.clone()).start().await.unwrap();
        let gateway = Gateway::builder(host).build().unwrap().versions([LEGACY]).build();
        let mut user = User::new(&gateway).await;
        for level in [LoggingLevel::Debug, LoggingLevel::Error, LoggingLevel::Alert] {
            user.set(level).await;
            assert_eq!(user.call(None).await, ("done".to_owned(), None));
        }
        // The server accepts the first level. It does not receive a level after the one that it did not accept.
        let sent = server.seen_of("logging/setLevel");
        let levels: Vec<_> = sent.iter().map(|request| request["params"]["level"].as_str().unwrap()).collect();
        assert!(levels.starts_with(&["debug", "error"]) && !levels.contains(&"alert"), "{levels:?}");
    }
}

// The clock is paused. It advances only while each task waits for a time.
#[tokio::test(start_paused = true)]
async fn a_server_that_starts_again_receives_levels_again() {
    for (reply, reconnect) in [
        (Reply::error(-32601, "no such method"), Reconnect::never()),
        // The client of the connection opens it again.
        (Reply::error(-32601, "no such method"), Reconnect::default()),
        (Reply::silence(), Reconnect::never()),
    ] {
        let server = scripted(reply).on("logging/setLevel", Reply::result(json!({})));
        let host =
            Host::builder("gateway", "1").reconnect(reconnect).server("s", server.clone()).start().await.unwrap();
        let gateway = Gateway::builder(host.clone()).build().unwrap().versions([LEGACY]).build();
        let mut user = User::new(&gateway).await;
        for level in [LoggingLevel::Debug, LoggingLevel::Error, LoggingLevel::Alert] {
            user.set(level).await;
            user.call(None).await;
        }
        let last = || server.seen_of("logging/setLevel").pop().unwrap()["params"]["level"].as_str().unwrap().to_owned();
        assert_eq!(last(), "error");
        server.crash();
        server.wait_until_disconnected().await;
        let is_ready = || host.status("s").unwrap().state == ServerState::Ready;
        let restarted = async {
            while user.client.call_tool("s__log", ()).await.is_err() || !is_ready() {
                sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(SOON, restarted).await.unwrap();
        user.set(LoggingLevel::Critical).await;
        assert_eq!(user.call(None).await.0, "done");
        assert_eq!(last(), "critical");
    }
}

#[tokio::test]
async fn changed_roots_reach_the_server_before_the_next_call_of_the_session() {
    for is_http in [true, false] {
        let changes = Arc::new(AtomicUsize::new(0));
        let (counted, read) = (Arc::clone(&changes), Arc::clone(&changes));
        let server = Server::builder("s", "1")
            .versions([LEGACY])
            .on_notification(move |notification: ClientNotification| {
                if notification.method() == "notifications/roots/list_changed" {
                    counted.fetch_add(1, Ordering::SeqCst);
                }
                std::future::ready(())
            })
            .tool(tool("changes", move || {
                let read = Arc::clone(&read);
                async move { read.load(Ordering::SeqCst).to_string() }
            }))
            .build();
        let connector: Arc<dyn Connect> = match is_http {
            true => Arc::new(mcp_client::http::Http::new(over_http(server).await).unwrap()),
            false => Arc::new(Pipe::new(server)),
        };
        let host = Host::builder("gateway", "1").server("s", connector).start().await.unwrap();
        let gateway = Gateway::builder(host).build().unwrap().versions([LEGACY]).build();
        let connect = || client().roots([Root::new("file:///a")]).connect(&gateway);
        let (ada, grace) = (connect().await.unwrap(), connect().await.unwrap());
        let call = async |client: &Client| {
            let called = timeout(SOON, client.call_tool("s__changes", ()).into_future()).await.unwrap();
            called.unwrap().text()
        };
        assert_eq!((call(&ada).await, call(&grace).await), ("0".to_owned(), "0".to_owned()));
        ada.roots().unwrap().add(Root::new("file:///b")).unwrap();
        // The gateway receives the notification before the call of the same client or during it. The next call follows it.
        let seen = async { while call(&ada).await != "1" {} };
        timeout(SOON, seen).await.unwrap();
        assert_eq!((call(&grace).await, call(&ada).await), ("1".to_owned(), "1".to_owned()), "{is_http}");
    }
}

#[tokio::test]
async fn changed_roots_do_not_set_a_level() {
    let roots_changed = "notifications/roots/list_changed";
    let server = scripted(Reply::result(json!({}))).on(roots_changed, Reply::silence());
    let host = Host::builder("gateway", "1").server("s", server.clone()).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().versions([LEGACY]).build();
    let user = client().roots([Root::new("file:///a")]).connect(&gateway).await.unwrap();
    let call = async || timeout(SOON, user.call_tool("s__log", ()).into_future()).await.unwrap().unwrap();
    call().await;
    user.roots().unwrap().add(Root::new("file:///b")).unwrap();
    // The gateway receives the notification before the next call or during it.
    let notified = async {
        while server.seen_of(roots_changed).is_empty() {
            call().await;
        }
    };
    timeout(SOON, notified).await.unwrap();
    call().await;
    assert!(server.seen_of("logging/setLevel").is_empty(), "no client has set a level");
}

// The clock is paused. It advances only while each task waits for a time.
#[tokio::test(start_paused = true)]
async fn a_level_that_a_server_does_not_accept_delays_calls_for_five_seconds_in_all() {
    let (none, limit) = (Duration::ZERO, Duration::from_secs(2));
    for (host, waits, expected) in [(None, 1, Duration::from_secs(5)), (Some(limit), 5, limit / 2)] {
        let server = scripted(Reply::silence());
        let builder = Host::builder("gateway", "1").server("s", server.clone());
        let host = match host {
            Some(limit) => builder.call_timeout(limit),
            None => builder,
        };
        let gateway = Gateway::builder(host.start().await.unwrap()).build().unwrap().versions([LEGACY]).build();
        let (mut ada, mut grace) = (User::new(&gateway).await, User::new(&gateway).await);
        ada.set(LoggingLevel::Debug).await;
        assert_eq!((ada.call(None).await.0, grace.call(None).await.0), ("done".to_owned(), "done".to_owned()));
        ada.set(LoggingLevel::Error).await;
        let sent = server.seen_of("logging/setLevel").len();
        let began = Instant::now();
        let slow = tokio::spawn(async move { (ada.call(None).await.0, ada) });
        server.wait_for("logging/setLevel", sent + 1).await;
        // The level of another session has not changed.
        assert_eq!((grace.call(None).await.0, began.elapsed()), ("done".to_owned(), none));
        let (called, mut ada) = timeout(SOON, slow).await.unwrap().unwrap();
        assert_eq!((called, began.elapsed().as_secs()), ("done".to_owned(), expected.as_secs()));
        let further = [LoggingLevel::Alert, LoggingLevel::Critical].into_iter().cycle();
        let mut call = async |level: LoggingLevel| {
            ada.set(level).await;
            let began = Instant::now();
            assert_eq!(ada.call(None).await.0, "done");
            began.elapsed().as_secs()
        };
        // The short time limit of one call does not decide about the levels of all sessions.
        for level in further.clone().take(waits - 1) {
            assert_eq!(call(level).await, expected.as_secs());
        }
        // The server receives no further level.
        for level in further.take(2) {
            assert_eq!(call(level).await, none.as_secs());
        }
        assert_eq!(server.seen_of("logging/setLevel").len(), sent + waits);
    }
}
