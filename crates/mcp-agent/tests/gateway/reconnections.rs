//! Calls while the host connects again to a lost server: each of them can be repeated. The clock is paused: it advances only while each
//! task waits for a time.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_agent::{
    CallError, Gateway, Host, HostBuilder,
    policy::{Effect, PendingApproval},
};
use mcp_client::{
    Reconnect,
    transport::{BoxFuture, Connect, Transport, TransportError},
};
use mcp_protocol::{ElicitResult, ErrorCode, JsonObject, ProtocolVersion};
use mcp_server::prelude::*;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::common::{Pipe, SOON, cells, client};

/// Connects to a server by a pipe, until the server is lost.
#[derive(Clone)]
struct Breaking(Pipe, Arc<AtomicBool>);

impl Breaking {
    fn new(version: ProtocolVersion) -> Self {
        Self::of(Server::builder("s", "1").versions([version]).tool(tool("t", async || "done")).build())
    }

    fn of(server: Server) -> Self {
        Self(Pipe::new(server), Arc::default())
    }

    fn set_broken(&self, is_broken: bool) {
        self.1.store(is_broken, Ordering::SeqCst);
        if is_broken {
            self.0.kill();
        }
    }

    /// Returns a host that connects three times to a lost server.
    fn host(&self) -> HostBuilder {
        let reconnect = Reconnect::default().attempts(3).first(Duration::from_millis(100));
        Host::builder("gateway", "1").reconnect(reconnect).server("s", self.clone())
    }
}

impl Connect for Breaking {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        Box::pin(async {
            if self.1.load(Ordering::SeqCst) {
                // A call can begin during the attempt.
                sleep(Duration::from_millis(200)).await;
                return Err(TransportError::unreachable("the port is closed"));
            }
            self.0.connect().await
        })
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

/// The times between the loss of the server and the calls.
fn delays() -> impl Iterator<Item = Duration> {
    (0..51).map(|number| Duration::from_millis(40) * number)
}

#[tokio::test(start_paused = true)]
async fn a_call_at_the_end_of_a_reconnection_can_be_repeated() {
    for (down, up) in cells() {
        let server = Breaking::new(up);
        let gateway = Gateway::builder(server.host().start().await.unwrap()).build().unwrap().versions([down]).build();
        let user = client().connect(&gateway).await.unwrap();
        assert_eq!(user.call_tool("s__t", ()).await.unwrap().text(), "done", "{down} to {up}");
        server.set_broken(true);
        let mut calls = JoinSet::new();
        for delay in delays() {
            let user = user.clone();
            calls.spawn(async move {
                sleep(delay).await;
                (delay, user.call_tool("s__t", ()).await)
            });
        }
        while let Some(called) = timeout(SOON * 10, calls.join_next()).await.unwrap() {
            let (delay, called) = called.unwrap();
            let error = called.unwrap_err().rpc().unwrap().clone();
            let data = error.data.clone().unwrap();
            assert_eq!(error.code, ErrorCode::INTERNAL_ERROR, "{down} to {up}, {delay:?}: {error}");
            assert_eq!(data["server"], "s", "{delay:?}: {error:?}");
            // The server can have received the call at the time of the loss.
            let is_permitted = data["retryable"] == true || (delay.is_zero() && data["retryable"] == false);
            assert!(is_permitted, "{down} to {up}, {delay:?}: {error:?}");
        }
        server.set_broken(false);
        let repeated = timeout(SOON * 10, async {
            while user.call_tool("s__t", ()).await.is_err() {
                sleep(Duration::from_millis(500)).await;
            }
        });
        repeated.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_lost_server_is_a_part_of_the_time_without_progress() {
    for (down, up) in cells() {
        let silent = tool("t", std::future::pending::<&'static str>).read_only();
        let server = Breaking::of(Server::builder("s", "1").versions([up]).tool(silent).build());
        let reconnect = Reconnect::default().attempts(100);
        let host = Host::builder("gateway", "1").reconnect(reconnect).server("s", server.clone());
        let gateway = Gateway::builder(host.start().await.unwrap()).build().unwrap().versions([down]).build();
        let user = client().connect(&gateway).await.unwrap();
        let began = Instant::now();
        let call = tokio::spawn(user.call_tool("s__t", ()).idle_timeout(SOON * 10).into_future());
        sleep(Duration::from_secs(20)).await;
        server.set_broken(true);
        let error = timeout(SOON * 10, call).await.unwrap().unwrap().unwrap_err().rpc().unwrap().clone();
        let lasted = began.elapsed().as_secs();
        assert!((59..=61).contains(&lasted), "{down} to {up}: {lasted} s, {error}");
        assert_eq!(error.data, Some(json!({ "server": "s", "retryable": true })), "{down} to {up}");
    }
}

#[derive(Deserialize, JsonSchema)]
struct Answer {
    name: String,
}

/// Calls a tool that asks, at a server that is lost before the answer of the user. Returns the data of the error.
async fn lost_between_rounds(down: ProtocolVersion, is_read_only: bool, is_approved: bool) -> Value {
    let ask = tool("t", async |inputs: Inputs| {
        let Answer { name } = inputs.elicit("name", "Your name?").await?;
        Ok::<_, ToolError>(name)
    });
    let ask = if is_read_only { ask.read_only() } else { ask };
    let server = Breaking::of(Server::builder("s", "1").versions([ProtocolVersion::V2026_07_28]).tool(ask).build());
    let host = server.host();
    let host = match is_approved {
        true => host.default_effect(Effect::Ask).approver(|_: PendingApproval| async { true }),
        false => host,
    };
    let gateway = Gateway::builder(host.start().await.unwrap()).build().unwrap().versions([down]).build();
    let lost = server.clone();
    let user = client().on_elicit(move |_form| {
        lost.set_broken(true);
        async { Ok(ElicitResult::accept(JsonObject::new().with("name", "ada"))) }
    });
    let user = user.connect(&gateway).await.unwrap();
    let called = timeout(SOON * 10, user.call_tool("s__t", ()).into_future()).await.unwrap();
    called.unwrap_err().rpc().unwrap().data.clone().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_later_round_that_cannot_be_repeated_alone_is_retryable_only_with_the_hints_of_its_tool() {
    let [legacy, modern] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];
    for (down, is_read_only, is_approved, is_retryable) in [
        (legacy, false, false, false),
        (legacy, true, false, true),
        (legacy, false, true, false),
        (modern, false, false, true),
        (modern, true, false, true),
        // The state of an approved call is used.
        (modern, true, true, false),
    ] {
        let data = lost_between_rounds(down, is_read_only, is_approved).await;
        let expected = (&json!("s"), &json!(is_retryable));
        assert_eq!((&data["server"], &data["retryable"]), expected, "{down} {is_read_only} {is_approved}: {data}");
        assert!(is_retryable || data.get("retryAfterMs").is_none(), "{data}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_the_host_at_the_end_of_a_reconnection_finds_the_server_unavailable() {
    let server = Breaking::new(ProtocolVersion::V2025_11_25);
    let host = server.host().start().await.unwrap();
    assert_eq!(host.call("s:t", ()).await.unwrap().text(), "done");
    server.set_broken(true);
    let mut calls = JoinSet::new();
    for delay in delays() {
        let host = host.clone();
        calls.spawn(async move {
            sleep(delay).await;
            host.call("s:t", ()).await.unwrap_err()
        });
    }
    while let Some(error) = timeout(SOON * 10, calls.join_next()).await.unwrap() {
        match error.unwrap() {
            CallError::Unavailable { .. } => {}
            CallError::Client { error, .. } => assert!(error.is_retryable(), "{error:?}"),
            other => panic!("{other:?}"),
        }
    }
}
