//! The traits of transports, their senders and their connectors.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use mcp_protocol::RequestId;

use crate::{AuthorizationClocks, Frame, Line, TransportError, TrySendError};

/// A boxed `Send` future: the return type of asynchronous methods in object-safe traits.
///
/// ```
/// use mcp_transport::BoxFuture;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), std::io::Error> {
/// let future: BoxFuture<'_, u8> = Box::pin(async { 7 });
/// assert_eq!(future.await, 7);
/// # Ok(())
/// # }
/// ```
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A request in the future of its caller ([`FrameSender::exchange`]).
pub type Exchange = BoxFuture<'static, Option<Frame>>;

/// A bidirectional channel of [`Frame`]s to one peer. The value itself receives, and [`Transport::sender`] sends.
///
/// After an error a transport may continue: an oversized line loses only itself, and an error of one request
/// ([`TransportError::request`]) ends only that request. So callers receive until `None`.
///
/// A transport that counts the frames that pass:
///
/// ```
/// use std::{
///     sync::Arc,
///     task::{Context, Poll, ready},
/// };
///
/// use mcp_transport::{Frame, FrameSender, Transport, TransportError, memory, recv};
///
/// struct Counted<T> {
///     inner: T,
///     received: usize,
/// }
///
/// impl<T: Transport> Transport for Counted<T> {
///     fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
///         let frame = ready!(self.inner.poll_recv(cx));
///         self.received += usize::from(frame.is_some());
///         Poll::Ready(frame)
///     }
///
///     fn sender(&self) -> Arc<dyn FrameSender> {
///         self.inner.sender()
///     }
/// }
///
/// # impl<T: std::fmt::Debug> std::fmt::Debug for Counted<T> {
/// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { self.inner.fmt(f) }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), TransportError> {
/// let (client, server) = memory::duplex(16);
/// let mut server = Counted { inner: server, received: 0 };
/// client.sender().send(Frame::new("{}")).await?;
/// assert!(recv(&mut server).await.is_some());
/// assert_eq!(server.received, 1);
/// # Ok(())
/// # }
/// ```
pub trait Transport: Send + 'static {
    /// Polls for the next inbound frame; `None` after the end. Cancel safe.
    ///
    /// [`recv`] is the same as a future.
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>>;

    /// Returns the sending half. Any task can use it, also after the receiving half is dropped.
    fn sender(&self) -> Arc<dyn FrameSender>;
}

/// The sending half of a [`Transport`].
///
/// The transport itself holds one sender. When the last sender is dropped, the transport closes.
///
/// ```
/// use mcp_transport::{Frame, Transport, TrySendError, memory, recv};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_transport::TransportError> {
/// let (client, mut server) = memory::duplex(1);
/// let sender = client.sender();
/// sender.send(Frame::new("1")).await?;
/// // The queue has capacity for one frame.
/// let Err(TrySendError::Full(second)) = sender.try_send(Frame::new("2")) else { panic!("the queue is full") };
///
/// recv(&mut server).await;
/// sender.ready(second.message.len()).await?;
/// sender.try_send(second).expect("the queue has capacity");
///
/// sender.shutdown().await?;
/// assert!(sender.send(Frame::new("3")).await.unwrap_err().is_closed());
/// // The queued frame is delivered before the end.
/// assert_eq!(recv(&mut server).await.unwrap()?.message, "2");
/// assert!(recv(&mut server).await.is_none());
/// # Ok(())
/// # }
/// ```
pub trait FrameSender: Send + Sync + 'static {
    /// Waits for capacity in the bounded queue, then queues the frame. If the future is dropped earlier, nothing is
    /// queued.
    ///
    /// # Errors
    /// [`TransportError::is_closed`] when the transport is closed, or the error that ended it. A frame that cannot be
    /// sent on this transport is rejected with a [lasting](TransportError::is_lasting) error, and the transport
    /// continues.
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>>;

    /// Waits for capacity, then queues a message in three pieces: the message of the frame, `body` and `end`. A server sends a
    /// prepared list or a large text as `body`. A sender that writes the pieces one after the other copies no body.
    ///
    /// Default: joins the pieces, then [`FrameSender::send`]. A sender that wraps another one forwards the call, so that the other one
    /// decides.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use mcp_transport::{Frame, Line, Transport, memory, recv};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_transport::TransportError> {
    /// let (client, mut server) = memory::duplex(1);
    /// let list = Line::new("[1,2,3]");
    /// let start = Frame::new(r#"{"id":1,"result":"#);
    /// client.sender().send_in_pieces(start, list, Bytes::from_static(b"}")).await?;
    /// assert_eq!(recv(&mut server).await.unwrap()?.message, r#"{"id":1,"result":[1,2,3]}"#);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`FrameSender::send`].
    fn send_in_pieces(&self, mut frame: Frame, body: Line, end: Bytes) -> BoxFuture<'_, Result<(), TransportError>> {
        frame.message = [&frame.message[..], &body, &end].concat().into();
        self.send(frame)
    }

    /// Waits for capacity, then sends a request: in a task of the transport, or in the future of the caller. The second
    /// form returns an [`Exchange`], and the caller polls it. It returns the response of the request. It returns `None` if
    /// [`Transport::poll_recv`] delivers the response, other messages or a fault. The drop of the exchange ends the stream of
    /// the request, and [`FrameSender::close`] has no effect before the exchange returns `None`.
    ///
    /// Default: [`FrameSender::send`].
    ///
    /// ```
    /// use mcp_transport::{Frame, Transport, memory, recv};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_transport::TransportError> {
    /// let (client, mut server) = memory::duplex(1);
    /// // A transport in memory has one stream for all messages.
    /// assert!(client.sender().exchange(Frame::new("1")).await?.is_none());
    /// assert_eq!(recv(&mut server).await.unwrap()?.message, "1");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`FrameSender::send`].
    fn exchange(&self, frame: Frame) -> BoxFuture<'_, Result<Option<Exchange>, TransportError>> {
        Box::pin(async move { self.send(frame).await.map(|()| None) })
    }

    /// Queues the frame without waiting.
    ///
    /// # Errors
    /// Gives the frame back when the queue is full, when the transport is closed, or when the frame cannot be sent on
    /// it.
    fn try_send(&self, frame: Frame) -> Result<(), TrySendError>;

    /// Waits until the queue has capacity for a message of `len` bytes. Another task can use the capacity first, so
    /// [`FrameSender::try_send`] can still fail.
    ///
    /// # Errors
    /// The errors of [`FrameSender::send`].
    fn ready(&self, len: usize) -> BoxFuture<'_, Result<(), TransportError>>;

    /// Ends the stream of a request after its queued frames. Does nothing when requests have no streams.
    fn close(&self, id: &RequestId);

    /// Whether each request has its own stream, as over Streamable HTTP. A client then cancels a request of
    /// 2026-07-28 by closing the stream, and otherwise by a notification. Default: `false`.
    fn has_request_streams(&self) -> bool {
        false
    }

    /// Returns a future that completes when the peer opens its receiving stream. `None` when the peer can receive now.
    /// An HTTP session has no receiving stream until its client opens it.
    fn unread(&self) -> Option<BoxFuture<'_, ()>> {
        None
    }

    /// Rejects further frames, writes the queued frames and closes. The caller sets the timeout: if the future is
    /// dropped, the transport finishes on its own.
    ///
    /// # Errors
    /// The error that prevented the writing of a queued frame.
    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>>;

    /// Returns the last lines that the peer wrote beside its messages, oldest first: the standard error of a child
    /// process. Empty for other transports.
    fn diagnostics(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the maximum time of [`FrameSender::shutdown`], if the transport limits it. A child process for example
    /// is killed after a time. Default: `None`.
    fn shutdown_within(&self) -> Option<Duration> {
        None
    }
}

/// A connector: opens transports to one peer, for the first connection and for each reconnection.
///
/// A connector that hands the other end of each connection to a server in the same process:
///
/// ```
/// use mcp_transport::{
///     BoxFuture, Connect, Transport, TransportError,
///     memory::{self, MemoryTransport},
/// };
/// use tokio::sync::mpsc;
///
/// struct InProcess {
///     server: mpsc::Sender<MemoryTransport>,
/// }
///
/// impl Connect for InProcess {
///     fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
///         Box::pin(async {
///             let (client, server) = memory::duplex(16);
///             self.server.send(server).await.map_err(TransportError::unreachable)?;
///             Ok(Box::new(client) as Box<dyn Transport>)
///         })
///     }
///
///     fn describe(&self) -> String {
///         "the server in this process".to_owned()
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), TransportError> {
/// let (sender, mut accepted) = mpsc::channel(1);
/// let connector = InProcess { server: sender };
/// let _client = connector.connect().await?;
/// assert!(accepted.recv().await.is_some());
///
/// drop(accepted);
/// let error = connector.connect().await.err().unwrap();
/// assert!(error.is_unreachable());
/// # Ok(())
/// # }
/// ```
pub trait Connect: Send + Sync + 'static {
    /// Opens a new transport.
    ///
    /// # Errors
    /// The reason why the peer cannot be reached.
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>>;

    /// Returns a short name of the peer for logs and errors. It holds no secrets.
    fn describe(&self) -> String;

    /// Returns a text that identifies the peer: a program with its arguments and the names of its variables, or a URL with the
    /// names of its headers. Lists that a program stored belong to a peer while this text does not change. A connector that
    /// wraps another one returns the text of that one. Do not print it: arguments can be secret.
    ///
    /// Default: [`Connect::describe`].
    fn identity(&self) -> String {
        self.describe()
    }

    /// Returns the clocks of the authorization. A connector that wraps another one returns the clocks of that one.
    /// Default: `None`, for a connector whose requests need no authorization.
    fn authorization(&self) -> Option<AuthorizationClocks> {
        None
    }

    /// Whether each connection starts a process of its own, whose state no other connection reaches. A connector that wraps another
    /// one returns the value of that one. Default: `false`.
    fn starts_process(&self) -> bool {
        false
    }
}

/// Receives the next inbound frame of a transport; `None` after the end. Cancel safe.
///
/// ```
/// use mcp_transport::{Frame, Transport, memory, recv};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_transport::TransportError> {
/// let (client, mut server) = memory::duplex(16);
/// client.sender().send(Frame::new("{}")).await?;
/// drop(client);
/// while let Some(frame) = recv(&mut server).await {
///     assert_eq!(frame?.message, "{}");
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// See [`Transport::poll_recv`].
pub async fn recv<T: Transport + ?Sized>(transport: &mut T) -> Option<Result<Frame, TransportError>> {
    poll_fn(|cx| transport.poll_recv(cx)).await
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        (**self).poll_recv(cx)
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        (**self).sender()
    }
}
