//! A connector that answers from a recording.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use mcp_protocol::RequestId;
use mcp_transport::{BoxFuture, Connect, Frame, FrameSender, Transport, TransportError, TrySendError};
use parking_lot::Mutex;

use super::{
    recording::Recording,
    script::{Script, Step},
};

/// Opens connections that answer from a recording. [`Recording::connector`] creates it.
///
/// ```
/// use mcp_agent::record::{Recording, ReplayConnector};
/// use mcp_transport::Connect;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_agent::record::RecordingError> {
/// let recording = Recording::parse("{\"format\":\"mcp-recording\",\"version\":1}\n")?;
/// let connector: ReplayConnector = recording.connector("files");
/// let error = connector.connect().await.err().unwrap();
/// assert!(error.is_unreachable());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ReplayConnector {
    recording: Recording,
    server: String,
}

impl ReplayConnector {
    pub(super) fn new(recording: Recording, server: String) -> Self {
        Self { recording, server }
    }
}

impl Connect for ReplayConnector {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        Box::pin(async move {
            let script = self.recording.next(&self.server).map_err(TransportError::unreachable)?;
            Ok(Box::new(ReplayTransport { sender: Arc::new(ReplaySender { script }) }) as Box<dyn Transport>)
        })
    }

    fn describe(&self) -> String {
        format!("{} (from a recording)", self.server)
    }
}

struct ReplayTransport {
    sender: Arc<ReplaySender>,
}

impl Transport for ReplayTransport {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        match self.sender.script.lock().next(cx.waker()) {
            None => Poll::Pending,
            Some(Step::Frame(frame)) => Poll::Ready(Some(Ok(frame))),
            Some(Step::Fault(error)) => Poll::Ready(Some(Err(error))),
            Some(Step::End) => Poll::Ready(None),
        }
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        self.sender.clone()
    }
}

impl Drop for ReplayTransport {
    fn drop(&mut self) {
        self.sender.script.lock().close();
    }
}

struct ReplaySender {
    script: Arc<Mutex<Script>>,
}

impl FrameSender for ReplaySender {
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
        let sent = self.try_send(frame);
        Box::pin(async move { sent.map_err(|_| TransportError::closed()) })
    }

    fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
        let mut script = self.script.lock();
        if script.is_closed() {
            return Err(TrySendError::Closed(frame));
        }
        script.accept(&frame.message);
        Ok(())
    }

    fn ready(&self, _: usize) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(async { Ok(()) })
    }

    fn close(&self, _: &RequestId) {}

    fn has_request_streams(&self) -> bool {
        self.script.lock().has_request_streams()
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        self.script.lock().close();
        Box::pin(async { Ok(()) })
    }
}
