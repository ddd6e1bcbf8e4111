//! A connector that watches messages: it prints them with `--trace`, and otherwise warns about lines that are not messages.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use mcp_protocol::RequestId;
use mcp_transport::{
    AuthorizationClocks, BoxFuture, Connect, Frame, FrameSender, Transport, TransportError, TrySendError,
};

use crate::{
    screen::{note, warn},
    style::{self, Style},
    text::{line, printable},
};

/// The number of bytes shown of a line that is not a message.
const MAX_SHOWN: usize = 200;

/// Wraps a connector and watches the messages of its transports.
pub(crate) struct TracedConnector {
    inner: Arc<dyn Connect>,
    traces: bool,
    /// The server as the subject of a sentence.
    server: Arc<str>,
}

impl TracedConnector {
    /// Prints every message if `traces` is set. Otherwise prints only received lines that are not messages.
    pub(crate) fn new(inner: Arc<dyn Connect>, traces: bool) -> Self {
        Self { inner, traces, server: "the server".into() }
    }

    /// Sets the name of the server for warnings.
    pub(crate) fn named(self, name: &str) -> Self {
        Self { server: format!("the server `{}`", line(name)).into(), ..self }
    }
}

impl Connect for TracedConnector {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        Box::pin(async move {
            let traces = self.traces;
            if traces {
                note(format!("-- connecting to {}", line(&self.inner.describe())));
            }
            let transport = self.inner.connect().await.inspect_err(|error| {
                if traces {
                    note(format!("-- {}", printable(&error.to_string())));
                }
            })?;
            let inner = transport.sender();
            let sender = if traces { Arc::new(TracedSender(inner)) } else { inner };
            let server = Arc::clone(&self.server);
            Ok(Box::new(TracedTransport { transport, sender, traces, server }) as Box<dyn Transport>)
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

impl fmt::Debug for TracedConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TracedConnector").field(&self.inner.describe()).finish()
    }
}

struct TracedTransport {
    transport: Box<dyn Transport>,
    sender: Arc<dyn FrameSender>,
    traces: bool,
    server: Arc<str>,
}

impl Transport for TracedTransport {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        let received = ready!(self.transport.poll_recv(cx));
        match &received {
            Some(Ok(frame)) if self.traces => print("<-", frame),
            Some(Err(error)) if self.traces => note(format!("<- {}", printable(&error.to_string()))),
            None if self.traces => note("-- the connection is closed"),
            Some(Ok(frame)) if !is_message(frame) => warn_about(&self.server, frame),
            _ => {}
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
        print("->", &frame);
        self.0.send(frame)
    }

    fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
        let shown = frame.clone();
        self.0.try_send(frame).inspect(|()| print("->", &shown))
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

    fn unread(&self) -> Option<BoxFuture<'_, ()>> {
        self.0.unread()
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        self.0.shutdown()
    }

    fn diagnostics(&self) -> Vec<String> {
        self.0.diagnostics()
    }

    fn shutdown_within(&self) -> Option<Duration> {
        self.0.shutdown_within()
    }
}

fn print(direction: &str, frame: &Frame) {
    note(format!("{} {}", style::err(Style::Type, direction), printable(&String::from_utf8_lossy(&frame.message))));
}

/// Returns whether the frame begins like a JSON-RPC message. An empty line is not reported, so it passes too.
fn is_message(frame: &Frame) -> bool {
    matches!(frame.message.trim_ascii_start().first(), Some(b'{' | b'[') | None)
}

/// Warns about a log line on stdout, where the server must write messages only.
fn warn_about(server: &str, frame: &Frame) {
    let text = String::from_utf8_lossy(&frame.message[..frame.message.len().min(MAX_SHOWN)]);
    warn(&format!("{server} wrote a line that is not a message: {}", line(&text)));
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    /// A sender in which each method has a result of its own, so that a method that is not forwarded is visible.
    #[derive(Default)]
    struct Fixed {
        closed: Mutex<Vec<RequestId>>,
    }

    fn failed(method: &'static str) -> BoxFuture<'static, Result<(), TransportError>> {
        Box::pin(async move { Err(TransportError::unreachable(method)) })
    }

    impl FrameSender for Fixed {
        fn send(&self, _: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
            failed("send")
        }

        fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
            Err(TrySendError::Full(frame))
        }

        fn ready(&self, _: usize) -> BoxFuture<'_, Result<(), TransportError>> {
            failed("ready")
        }

        fn close(&self, id: &RequestId) {
            self.closed.lock().push(id.clone());
        }

        fn has_request_streams(&self) -> bool {
            true
        }

        fn unread(&self) -> Option<BoxFuture<'_, ()>> {
            Some(Box::pin(async {}))
        }

        fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
            failed("shutdown")
        }

        fn diagnostics(&self) -> Vec<String> {
            vec!["the last line".to_owned()]
        }

        fn shutdown_within(&self) -> Option<Duration> {
            Some(Duration::from_secs(7))
        }
    }

    #[tokio::test]
    async fn a_traced_sender_forwards_every_method() {
        let inner = Arc::new(Fixed::default());
        let sender = TracedSender(inner.clone());
        let frame = Frame::new("{}");
        assert_eq!(sender.send(frame.clone()).await.unwrap_err().to_string(), "send");
        assert!(matches!(sender.try_send(frame), Err(TrySendError::Full(frame)) if frame.message == "{}"));
        assert_eq!(sender.ready(1).await.unwrap_err().to_string(), "ready");
        assert_eq!(sender.shutdown().await.unwrap_err().to_string(), "shutdown");
        sender.close(&RequestId::from(7));
        assert_eq!(*inner.closed.lock(), [RequestId::from(7)]);
        assert!(sender.has_request_streams() && sender.unread().is_some());
        assert_eq!(sender.diagnostics(), ["the last line"]);
        assert_eq!(sender.shutdown_within(), Some(Duration::from_secs(7)));
    }
}
