//! `--trace`: every message on stderr, as it travels. Without it only what is none, since that is why nothing works.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use mcp_protocol::RequestId;
use mcp_transport::{BoxFuture, Connect, Frame, FrameSender, Transport, TransportError, TrySendError};

use crate::{
    output::{line, printable},
    screen::note,
};

/// What is shown of a line that is no message.
const SHOWN: usize = 200;

/// Shows what goes through the transports of another connector.
pub(crate) struct Traced {
    inner: Arc<dyn Connect>,
    shows_all: bool,
}

impl Traced {
    /// Shows every message, or only what is none.
    pub(crate) fn new(inner: Arc<dyn Connect>, shows_all: bool) -> Self {
        Self { inner, shows_all }
    }
}

impl Connect for Traced {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        Box::pin(async move {
            let shows_all = self.shows_all;
            if shows_all {
                note(format!("-- connecting to {}", line(&self.inner.describe())));
            }
            let transport = self.inner.connect().await.inspect_err(|error| {
                if shows_all {
                    note(format!("-- {}", printable(&error.to_string())));
                }
            })?;
            let inner = transport.sender();
            let sender = if shows_all { Arc::new(TracedSender(inner)) } else { inner };
            Ok(Box::new(TracedTransport { transport, sender, shows_all }) as Box<dyn Transport>)
        })
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

impl fmt::Debug for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Traced").field(&self.inner.describe()).finish()
    }
}

struct TracedTransport {
    transport: Box<dyn Transport>,
    sender: Arc<dyn FrameSender>,
    shows_all: bool,
}

impl Transport for TracedTransport {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        let received = ready!(self.transport.poll_recv(cx));
        match &received {
            _ if !self.shows_all => {
                if let Some(Ok(frame)) = &received {
                    show_garbage(frame);
                }
            }
            Some(Ok(frame)) => show("<-", frame),
            Some(Err(error)) => note(format!("<- {}", printable(&error.to_string()))),
            None => note("-- the connection has ended"),
        }
        Poll::Ready(received)
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        self.sender.clone()
    }
}

struct TracedSender(Arc<dyn FrameSender>);

impl FrameSender for TracedSender {
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
        show("->", &frame);
        self.0.send(frame)
    }

    fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
        let shown = frame.clone();
        self.0.try_send(frame).inspect(|()| show("->", &shown))
    }

    fn ready(&self, len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
        self.0.ready(len)
    }

    fn close(&self, id: &RequestId) {
        self.0.close(id);
    }

    fn has_request_streams(&self) -> bool {
        self.0.has_request_streams()
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        self.0.shutdown()
    }

    fn shutdown_within(&self) -> Option<Duration> {
        self.0.shutdown_within()
    }
}

fn show(direction: &str, frame: &Frame) {
    note(format!("{direction} {}", printable(&String::from_utf8_lossy(&frame.message))));
}

/// Servers print what they should log: on their stdout it stands where messages are expected.
fn show_garbage(frame: &Frame) {
    if !matches!(frame.message.trim_ascii_start().first(), Some(b'{' | b'[') | None) {
        let text = String::from_utf8_lossy(&frame.message[..frame.message.len().min(SHOWN)]);
        note(format!("mcp: warning: the server sent what is no message: {}", line(&text)));
    }
}
