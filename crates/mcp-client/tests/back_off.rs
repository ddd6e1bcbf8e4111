//! Unreachable servers: the number of attempts, the delays between them, and the errors of calls.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    error::Error as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_client::{
    Client, Reconnect, State,
    protocol::ProtocolVersion,
    transport::{BoxFuture, Connect, Transport, TransportError},
};
use tokio::time::Instant;

use crate::common::{Scripted, builder, scripted, scripted_site::predicates, wait_until};

const SECOND: Duration = Duration::from_secs(1);

/// Is reached once, and then fails so; without a fault, attempts take for ever.
struct ReachedOnce {
    first: Scripted,
    later: Option<TransportError>,
    attempts: Arc<AtomicUsize>,
}

impl Connect for ReachedOnce {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        if self.attempts.fetch_add(1, Ordering::SeqCst) == 0 {
            return self.first.connect();
        }
        match self.later.clone() {
            Some(fault) => Box::pin(async { Err(fault) }),
            None => Box::pin(std::future::pending()),
        }
    }

    fn describe(&self) -> String {
        "the server".into()
    }
}

/// A client whose connection was lost, and the counter of its attempts since then.
async fn lost(later: impl Into<Option<TransportError>>) -> (Client, Arc<AtomicUsize>) {
    let (first, mut peers) = scripted();
    let attempts = Arc::new(AtomicUsize::new(0));
    let connector = ReachedOnce { first, later: later.into(), attempts: Arc::clone(&attempts) };
    let connecting = tokio::spawn(builder().reconnect(Reconnect::default()).connect(connector));
    let mut peer = peers.next().await;
    peer.open_any(ProtocolVersion::V2026_07_28).await;
    let client = connecting.await.unwrap().unwrap();
    let mut states = client.states();
    peer.close();
    states.wait_for(|state| *state != State::Ready).await.unwrap();
    attempts.store(1, Ordering::SeqCst);
    (client, attempts)
}

async fn down(client: &Client) {
    client.states().wait_for(|state| *state == State::Down).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_connection_in_time_reports_the_reason() {
    for (later, cause) in
        [(Some(TransportError::unreachable("refused")), "refused"), (None, "there was no connection for 1s")]
    {
        let (client, _attempts) = lost(later).await;
        for error in [
            client.call_tool("t", ()).idle_timeout(SECOND).await.unwrap_err(),
            client.call_tool("t", ()).total_timeout(SECOND).await.unwrap_err(),
        ] {
            assert_eq!(predicates(&error), "unreachable retryable", "{error:?}");
            assert_eq!(error.to_string(), "the server cannot be reached");
            assert_eq!(error.source().unwrap().to_string(), cause);
        }
    }
    let (client, _attempts) = lost(None).await;
    let error = client.notify("notifications/x", ()).await.unwrap_err();
    assert_eq!(predicates(&error), "unreachable retryable", "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn each_delay_doubles() {
    // The expected delays in quarters of a second, after a stable connection and after a short one.
    for (lasted, waits) in [(60, 1 + 2), (0, 1 + 2 + 4)] {
        let (first, mut peers) = scripted();
        let later = Some(TransportError::unreachable("refused"));
        let reconnect = Reconnect::default().attempts(3);
        let connector = ReachedOnce { first, later, attempts: Arc::default() };
        let connecting = tokio::spawn(builder().reconnect(reconnect).connect(connector));
        let mut peer = peers.next().await;
        peer.open_any(ProtocolVersion::V2026_07_28).await;
        let client = connecting.await.unwrap().unwrap();
        tokio::time::sleep(lasted * SECOND).await;
        let lost = Instant::now();
        peer.close();
        down(&client).await;
        let (waited, meant) = (lost.elapsed(), waits * SECOND / 4);
        assert!(waited >= meant.mul_f64(0.74) && waited <= meant.mul_f64(1.26), "{lasted}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_shortens_the_delay() {
    let (client, attempts) = lost(TransportError::unreachable("refused")).await;
    let before = attempts.load(Ordering::SeqCst);
    client.states().wait_for(|state| *state == State::Connecting { attempt: 7 }).await.unwrap();
    let so_far = attempts.load(Ordering::SeqCst);
    assert_eq!(so_far - before, 6);
    // The seventh attempt is due after about 16 seconds. Waiting calls cause at most one attempt per second.
    let calls: Vec<_> =
        (0..10).map(|_| tokio::spawn(client.call_tool("t", ()).idle_timeout(9 * SECOND).into_future())).collect();
    tokio::time::sleep(3 * SECOND).await;
    assert_eq!(attempts.load(Ordering::SeqCst), so_far + 1);
    for _ in 0..3 {
        let call = client.call_tool("t", ()).idle_timeout(SECOND / 10);
        assert!(call.await.unwrap_err().is_unreachable());
    }
    tokio::time::sleep(SECOND).await;
    assert!((so_far + 2..=so_far + 3).contains(&attempts.load(Ordering::SeqCst)));
    // They do not count as those of the policy.
    assert_eq!(client.state(), State::Connecting { attempt: 7 });
    for call in calls {
        assert!(call.await.unwrap().unwrap_err().is_unreachable());
    }
}

#[tokio::test(start_paused = true)]
async fn a_permanent_error_is_not_retried() {
    let (client, attempts) = lost(TransportError::other("a redirect").lasting()).await;
    let started = Instant::now();
    down(&client).await;
    // The first wait after a connection that was of no use is short.
    assert!(attempts.load(Ordering::SeqCst) == 2 && started.elapsed() < SECOND, "{:?}", started.elapsed());
    // A new call makes one more attempt.
    let error = client.call_tool("t", ()).await.unwrap_err();
    assert_eq!(predicates(&error), "unreachable", "{error:?}");
    assert_eq!(attempts.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn respects_retry_after() {
    let busy = |seconds| TransportError::http(503, Some(seconds * SECOND), "");
    // As long as the longest wait, it is waited for.
    let (client, attempts) = lost(busy(30)).await;
    let started = Instant::now();
    down(&client).await;
    assert_eq!((attempts.load(Ordering::SeqCst), started.elapsed().as_secs()), (9, 210));
    // Calls fail at once while a longer delay runs.
    let (client, attempts) = lost(busy(3600)).await;
    let started = Instant::now();
    down(&client).await;
    for _ in 0..3 {
        let error = client.call_tool("t", ()).await.unwrap_err();
        assert_eq!(predicates(&error), "503 after 3600s unreachable retryable", "{error:?}");
    }
    assert!(attempts.load(Ordering::SeqCst) == 2 && started.elapsed() < SECOND, "{:?}", started.elapsed());
    tokio::time::advance(3600 * SECOND).await;
    client.call_tool("t", ()).await.unwrap_err();
    assert_eq!(attempts.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_can_delay_the_next_attempt_by_one_day_at_most() {
    let (client, attempts) = lost(TransportError::http(503, Some(Duration::MAX), "")).await;
    down(&client).await;
    let error = client.call_tool("t", ()).await.unwrap_err();
    assert_eq!(predicates(&error), "503 after 86400s unreachable retryable", "{error:?}");
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
    tokio::time::advance(86_400 * SECOND).await;
    client.call_tool("t", ()).await.unwrap_err();
    assert_eq!(attempts.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn reconnect_ends_the_wait_before_the_next_attempt() {
    let busy = |seconds| TransportError::http(503, Some(seconds * SECOND), "");
    let late = State::Connecting { attempt: 7 };
    for (fault, state) in [
        // A longer wait than the back-off stops the attempts.
        (busy(3600), State::Down),
        (busy(30), State::Connecting { attempt: 2 }),
        (TransportError::unreachable("refused"), late),
        (TransportError::unreachable("refused"), State::Down),
    ] {
        let (client, attempts) = lost(fault.clone()).await;
        client.states().wait_for(|now| *now == state).await.unwrap();
        let (before, since) = (attempts.load(Ordering::SeqCst), Instant::now());
        for n in 1..=2 {
            client.reconnect();
            wait_until(|| attempts.load(Ordering::SeqCst) == before + n).await;
            // The wait after the attempt begins.
            tokio::time::sleep(SECOND / 1000).await;
        }
        assert!(since.elapsed() < SECOND / 100, "{fault:?}");
        assert_eq!(attempts.load(Ordering::SeqCst), before + 2, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn reconnect_during_an_attempt_does_not_cause_another_one() {
    let (client, attempts) = lost(None).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
    client.reconnect();
    // The attempt times out, and the back-off begins.
    client.states().wait_for(|now| *now == State::Connecting { attempt: 2 }).await.unwrap();
    tokio::time::sleep(SECOND / 4).await;
    assert_eq!((attempts.load(Ordering::SeqCst), client.state()), (2, State::Connecting { attempt: 2 }));
}

#[tokio::test]
async fn rejects_a_ping_interval_of_zero() {
    let (connector, _peers) = scripted();
    let error = builder().ping_interval(Duration::ZERO).connect(connector).await.unwrap_err();
    assert_eq!(predicates(&error), "request", "{error:?}");
}
