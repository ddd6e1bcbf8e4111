//! A connector whose connections are recorded.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use mcp_protocol::RequestId;
use mcp_transport::{
    AuthorizationClocks, BoxFuture, Connect, Frame, FrameSender, Transport, TransportError, TrySendError,
};

use super::recorder::Recorder;

/// Opens connections of another connector, and records their messages. [`Recorder::connector`] creates it.
///
/// ```
/// use mcp_agent::record::{Recorder, RecordingConnector};
/// use mcp_server::Server;
/// use mcp_transport::Connect;
///
/// let server = Server::builder("greeter", "1.0").build();
/// let connector: RecordingConnector = Recorder::new(std::io::sink()).connector("greeter", server);
/// assert_eq!(connector.describe(), "greeter (in memory)");
/// ```
pub struct RecordingConnector {
    recorder: Recorder,
    server: String,
    inner: Arc<dyn Connect>,
}

impl RecordingConnector {
    pub(super) fn new(recorder: Recorder, server: String, inner: Arc<dyn Connect>) -> Self {
        Self { recorder, server, inner }
    }
}

impl Connect for RecordingConnector {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        Box::pin(async move {
            let connection = self.recorder.open();
            let opened = self.inner.connect().await;
            let streams = opened.as_ref().map(|transport| transport.sender().has_request_streams());
            self.recorder.opened(connection, &self.server, streams);
            let transport = opened?;
            let recorder = self.recorder.clone();
            let inner = transport.sender();
            let sender = Arc::new(RecordingSender { recorder, connection, inner, is_closing: AtomicBool::new(false) });
            Ok(Box::new(RecordingTransport { transport, sender }) as Box<dyn Transport>)
        })
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn identity(&self) -> String {
        self.inner.identity()
    }

    fn authorization(&self) -> Option<AuthorizationClocks> {
        self.inner.authorization()
    }

    fn starts_process(&self) -> bool {
        self.inner.starts_process()
    }
}

impl fmt::Debug for RecordingConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingConnector").field("server", &self.server).finish_non_exhaustive()
    }
}

struct RecordingTransport {
    transport: Box<dyn Transport>,
    sender: Arc<RecordingSender>,
}

impl Transport for RecordingTransport {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        let received = ready!(self.transport.poll_recv(cx));
        let RecordingSender { recorder, connection, is_closing, .. } = &*self.sender;
        match &received {
            Some(Ok(frame)) => recorder.received(*connection, frame),
            Some(Err(error)) => recorder.fault(*connection, error),
            // Only an end that the host did not cause belongs to the server.
            None if !is_closing.swap(true, Ordering::Relaxed) => recorder.ended(*connection),
            None => {}
        }
        Poll::Ready(received)
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        self.sender.clone()
    }
}

struct RecordingSender {
    recorder: Recorder,
    connection: u64,
    inner: Arc<dyn FrameSender>,
    /// Whether the host closes the connection, or its end is recorded.
    is_closing: AtomicBool,
}

impl FrameSender for RecordingSender {
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(async move {
            let mut frame = frame;
            loop {
                frame = match self.try_send(frame) {
                    Ok(()) => return Ok(()),
                    Err(TrySendError::Full(frame)) => frame,
                    // The frame cannot be sent: the inner sender knows the reason.
                    Err(other) => return self.inner.send(other.into_frame()).await,
                };
                self.inner.ready(frame.message.len()).await?;
            }
        })
    }

    fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
        let recorded = frame.clone();
        self.recorder.sent(self.connection, &recorded, || self.inner.try_send(frame))
    }

    fn ready(&self, len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
        self.inner.ready(len)
    }

    fn close(&self, id: &RequestId) {
        self.inner.close(id);
    }

    fn has_request_streams(&self) -> bool {
        self.inner.has_request_streams()
    }

    fn unread(&self) -> Option<BoxFuture<'_, ()>> {
        self.inner.unread()
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        self.is_closing.store(true, Ordering::Relaxed);
        self.inner.shutdown()
    }

    fn diagnostics(&self) -> Vec<String> {
        self.inner.diagnostics()
    }

    fn shutdown_within(&self) -> Option<Duration> {
        self.inner.shutdown_within()
    }
}
