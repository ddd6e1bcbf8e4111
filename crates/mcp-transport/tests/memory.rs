//! The memory transport: order, limits, and both ways to end it.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use mcp_protocol::RequestId;
use mcp_transport::{Frame, Hints, Line, Route, Transport, TrySendError, memory::duplex, recv};

/// Fails instead of hanging; under a paused clock at once.
async fn bounded<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.unwrap()
}

/// Polls once.
fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

async fn text(transport: &mut impl Transport) -> Option<String> {
    let frame = bounded(recv(transport)).await?.unwrap();
    Some(String::from_utf8(frame.message.to_vec()).unwrap())
}

#[tokio::test]
async fn transfers_frames_in_order_in_both_directions() {
    let (mut a, mut b) = duplex(8);
    let mut hints = Hints::default();
    hints.name = Some("add".into());
    let frame = Frame::new("1").with_route(Route::Request(RequestId::from(7))).with_hints(hints);
    a.sender().send_in_pieces(frame, Line::new("2"), Bytes::from_static(b"3")).await.unwrap();
    a.sender().send(Frame::new("2\n")).await.unwrap();
    b.sender().try_send(Frame::new("3")).unwrap();

    let first = recv(&mut b).await.unwrap().unwrap();
    assert_eq!(first.message, "123");
    assert_eq!(first.route, Route::Request(RequestId::from(7)));
    assert_eq!(first.hints.name.as_deref(), Some("add"));
    assert_eq!(text(&mut b).await.as_deref(), Some("2\n"));
    assert_eq!(text(&mut a).await.as_deref(), Some("3"));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_blocks_its_sender() {
    let (a, mut b) = duplex(2);
    let sender = a.sender();
    sender.try_send(Frame::new("1")).unwrap();
    sender.try_send(Frame::new("2")).unwrap();
    let refused = sender.try_send(Frame::new("3")).unwrap_err();
    assert!(matches!(refused, TrySendError::Full(_)));
    assert_eq!(refused.into_frame().message, "3");

    // A dropped send leaves nothing in the queue.
    assert!(poll(sender.send(Frame::new("dropped"))).is_pending());
    let waiting = tokio::spawn({
        let sender = a.sender();
        async move { sender.send(Frame::new("4")).await }
    });
    assert_eq!(text(&mut b).await.as_deref(), Some("1"));
    bounded(waiting).await.unwrap().unwrap();
    assert_eq!(text(&mut b).await.as_deref(), Some("2"));
    assert_eq!(text(&mut b).await.as_deref(), Some("4"));
    assert!(poll(recv(&mut b)).is_pending());
}

#[tokio::test]
async fn the_end_follows_queued_frames() {
    let (a, mut b) = duplex(8);
    let sender = a.sender();
    sender.send(Frame::new("1")).await.unwrap();
    sender.shutdown().await.unwrap();
    assert!(sender.send(Frame::new("2")).await.unwrap_err().is_closed());
    assert!(matches!(sender.try_send(Frame::new("2")), Err(TrySendError::Closed(_))));
    assert_eq!(text(&mut b).await.as_deref(), Some("1"));
    assert_eq!(text(&mut b).await, None);
    assert_eq!(text(&mut b).await, None);
    drop(a);
}

#[tokio::test]
async fn dropping_the_last_sender_ends_the_stream() {
    let (a, mut b) = duplex(8);
    let sender = a.sender();
    drop(a);
    sender.send(Frame::new("still here")).await.unwrap();
    assert_eq!(text(&mut b).await.as_deref(), Some("still here"));
    assert!(poll(recv(&mut b)).is_pending());
    drop(sender);
    assert_eq!(text(&mut b).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_sender_fails_when_the_receiver_is_dropped() {
    let (a, b) = duplex(1);
    let sender = a.sender();
    sender.send(Frame::new("1")).await.unwrap();
    let waiting = tokio::spawn(async move { sender.send(Frame::new("2")).await });
    tokio::task::yield_now().await;
    drop(b);
    assert!(bounded(waiting).await.unwrap().unwrap_err().is_closed());
}
