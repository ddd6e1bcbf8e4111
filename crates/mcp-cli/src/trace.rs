//! `--trace`: every message on stderr, as it travels.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, ready},
};

use mcp_protocol::RequestId;
use mcp_transport::{BoxFuture, Connect, Frame, FrameSender, Transport, TransportError, TrySendError};

use crate::output::printable;

/// Shows what goes through the transports of another connector.
pub(crate) struct Traced(Arc<dyn Connect>);

impl Traced {
    pub(crate) fn new(inner: Arc<dyn Connect>) -> Self {
        Self(inner)
    }
}

impl Connect for Traced {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        Box::pin(async move {
            eprintln!("-- connecting to {}", self.0.describe());
            let transport = self.0.connect().await.inspect_err(|error| eprintln!("-- {error}"))?;
            let sender = Arc::new(TracedSender(transport.sender()));
            Ok(Box::new(TracedTransport { transport, sender }) as Box<dyn Transport>)
        })
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

impl fmt::Debug for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Traced").field(&self.0.describe()).finish()
    }
}

struct TracedTransport {
    transport: Box<dyn Transport>,
    sender: Arc<TracedSender>,
}

impl Transport for TracedTransport {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        let received = ready!(self.transport.poll_recv(cx));
        match &received {
            Some(Ok(frame)) => show("<-", frame),
            Some(Err(error)) => eprintln!("<- {}", printable(&error.to_string())),
            None => eprintln!("-- the connection has ended"),
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

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        self.0.shutdown()
    }
}

fn show(direction: &str, frame: &Frame) {
    eprintln!("{direction} {}", printable(&String::from_utf8_lossy(&frame.message)));
}
