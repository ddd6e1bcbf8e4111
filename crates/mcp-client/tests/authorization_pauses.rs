//! Time limits that pause while an authorizer waits for the user or for a token.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_client::{
    Client, Error, State,
    http::{
        Authorizer, AuthorizerError, Http, Refusal, Target, Verdict,
        reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue},
    },
    protocol::ProtocolVersion,
    transport::{AuthorizationClocks, BoxFuture, Connect, Transport, TransportError},
};
use mcp_test::peer::ScriptedServer;
use tokio::{task::JoinHandle, time::sleep};

use crate::common::{Peers, Scripted, builder, discovery, scripted, start, tool_result, wait_until};

/// A connector with an authorizer, whose clocks the test pauses.
struct Authorized {
    inner: Scripted,
    clocks: AuthorizationClocks,
}

impl Connect for Authorized {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        self.inner.connect()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn authorization(&self) -> Option<AuthorizationClocks> {
        Some(self.clocks.clone())
    }
}

/// Begins to connect, with 5 s for the probe, 60 s for the connection and for the silence of a call.
fn connect() -> (AuthorizationClocks, JoinHandle<Result<Client, Error>>, Peers) {
    let (inner, peers) = scripted();
    let clocks = AuthorizationClocks::default();
    let connecting = start(builder().connect(Authorized { inner, clocks: clocks.clone() }));
    (clocks, connecting, peers)
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_login_of_five_minutes_does_not_end_the_probe_or_the_connection() {
    let (clocks, connecting, mut peers) = connect();
    let mut peer = peers.next().await;
    let probe = peer.expect("server/discover").await;
    let asking = (clocks.requests.pause(), clocks.user.pause());
    sleep(5 * MINUTE).await;
    drop(asking);
    peer.answer(probe, discovery(&["2026-07-28"])).await;
    // `initialize` would come before the call.
    let client = connecting.await.unwrap().unwrap();
    let call = start(client.call_tool("t", ()));
    let id = peer.expect("tools/call").await;
    peer.answer(id, tool_result("done")).await;
    assert_eq!(call.await.unwrap().unwrap().text(), "done");
}

#[tokio::test(start_paused = true)]
async fn the_probe_timeout_begins_when_the_request_is_authorized() {
    let (clocks, connecting, mut peers) = connect();
    let mut peer = peers.next().await;
    peer.expect("server/discover").await;
    // The authorization server is slow, and the user is not asked.
    let authorizing = clocks.requests.pause();
    sleep(Duration::from_secs(30)).await;
    drop(authorizing);
    let since = tokio::time::Instant::now();
    let id = peer.expect("initialize").await;
    assert!(since.elapsed() >= Duration::from_millis(4900), "{:?}", since.elapsed());
    peer.answer(id, crate::common::initialized("2025-11-25")).await;
    assert_eq!(connecting.await.unwrap().unwrap().version(), ProtocolVersion::V2025_11_25);
}

#[tokio::test(start_paused = true)]
async fn a_login_is_not_a_slow_start() {
    let (inner, mut peers) = scripted();
    let clocks = AuthorizationClocks::default();
    let reports = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reports);
    let builder = builder().on_slow_start(Duration::from_secs(10), move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let connecting = start(builder.connect(Authorized { inner, clocks: clocks.clone() }));
    let mut peer = peers.next().await;
    let probe = peer.expect("server/discover").await;
    let asking = (clocks.requests.pause(), clocks.user.pause());
    sleep(5 * MINUTE).await;
    drop(asking);
    sleep(Duration::from_secs(4)).await;
    assert_eq!(reports.load(Ordering::Relaxed), 0);
    peer.answer(probe, discovery(&["2026-07-28"])).await;
    connecting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_pause_of_a_login_is_limited() {
    let (clocks, connecting, mut peers) = connect();
    let _peer = peers.next().await;
    let _asking = (clocks.requests.pause(), clocks.user.pause());
    let since = tokio::time::Instant::now();
    let error = connecting.await.unwrap().unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    let difference = since.elapsed().abs_diff(11 * MINUTE);
    assert!(difference < Duration::from_secs(1), "{difference:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_a_login_in_a_visible_state() {
    let (clocks, connecting, mut peers) = connect();
    let mut peer = peers.next().await;
    peer.open_any(ProtocolVersion::V2026_07_28).await;
    let client = connecting.await.unwrap().unwrap();
    assert_eq!(client.state(), State::Ready);
    let call = start(client.call_tool("t", ()).total_timeout(Duration::from_secs(90)));
    let id = peer.expect("tools/call").await;
    let asking = clocks.user.pause();
    wait_until(|| client.state() == State::AwaitingUser).await;
    sleep(5 * MINUTE).await;
    drop(asking);
    wait_until(|| client.state() == State::Ready).await;
    sleep(Duration::from_secs(50)).await;
    peer.answer(id, tool_result("done")).await;
    assert_eq!(call.await.unwrap().unwrap().text(), "done");
    // The limits of the next call apply as before.
    let error = client.call_tool("t", ()).await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    // A login also pauses the wait for a connection.
    peer.close();
    let mut peer = peers.next().await;
    let asking = (clocks.requests.pause(), clocks.user.pause());
    let call = start(client.call_tool("t", ()).total_timeout(Duration::from_secs(90)));
    sleep(5 * MINUTE).await;
    drop(asking);
    peer.discovered().await;
    let id = peer.expect("tools/call").await;
    peer.answer(id, tool_result("again")).await;
    assert_eq!(call.await.unwrap().unwrap().text(), "again");
    client.close().await;
    assert_eq!(client.state(), State::Closed);
}

/// Asks the user for a while at the first request, then has a token.
struct SlowLogin {
    logins: Arc<AtomicUsize>,
    takes: Duration,
}

impl Authorizer for SlowLogin {
    fn authorize<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
        Box::pin(async {
            if self.logins.load(Ordering::Relaxed) == 0 {
                let _asking = target.asking_user();
                sleep(self.takes).await;
                self.logins.fetch_add(1, Ordering::Relaxed);
            }
            Ok(HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer t"))]))
        })
    }

    fn refused<'a>(&'a self, _: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        Box::pin(std::future::ready(Ok(Verdict::GiveUp)))
    }
}

#[tokio::test]
async fn a_slow_login_over_http_happens_once() {
    let server = ScriptedServer::for_revision(ProtocolVersion::V2026_07_28);
    let peer = server.listen().await.unwrap();
    let logins = Arc::new(AtomicUsize::new(0));
    let login = SlowLogin { logins: Arc::clone(&logins), takes: Duration::from_secs(5) };
    let client = builder()
        .probe_timeout(Duration::from_secs(2))
        .connect_timeout(Duration::from_secs(4))
        .connect(Http::new(peer.url()).unwrap().authorizer(login))
        .await
        .unwrap();
    assert_eq!(logins.load(Ordering::Relaxed), 1);
    assert!(server.seen_of("initialize").is_empty());
    client.close().await;
}
