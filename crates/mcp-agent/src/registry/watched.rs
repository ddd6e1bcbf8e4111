//! A connector that records the last stderr lines and the last fault of a server.

use std::{
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use mcp_client::transport::{AuthorizationClocks, BoxFuture, Connect, Frame, FrameSender, Transport, TransportError};
use parking_lot::Mutex;
use tokio::sync::watch;

/// A connector that records the last stderr lines and the last fault of a server.
pub(super) struct Watched {
    inner: Arc<dyn Connect>,
    record: Arc<Record>,
    /// Each open transport has a receiver.
    open: watch::Sender<()>,
}

#[derive(Default)]
struct Record {
    /// Weak, because a sender keeps its process running.
    sender: Mutex<Option<Weak<dyn FrameSender>>>,
    stderr: Mutex<Vec<String>>,
    fault: Mutex<Option<String>>,
}

impl Watched {
    pub(super) fn new(inner: Arc<dyn Connect>) -> Arc<Self> {
        Arc::new(Self { inner, record: Arc::default(), open: watch::Sender::default() })
    }

    pub(super) fn inner(&self) -> Arc<dyn Connect> {
        Arc::clone(&self.inner)
    }

    /// Waits until all transports are closed, and their processes have ended. The client bounds this wait.
    pub(super) async fn closed(&self) {
        self.open.closed().await;
    }

    /// Returns the last lines of the standard error, of the newest process.
    pub(super) fn stderr(&self) -> Vec<String> {
        self.record.read_stderr();
        self.record.stderr.lock().clone()
    }

    /// Returns the fault that ended the last connection, or the last attempt.
    pub(super) fn fault(&self) -> Option<String> {
        self.record.fault.lock().clone()
    }
}

impl Record {
    fn read_stderr(&self) {
        let sender = self.sender.lock().as_ref().and_then(Weak::upgrade);
        if let Some(lines) = sender.map(|sender| sender.diagnostics()).filter(|lines| !lines.is_empty()) {
            *self.stderr.lock() = lines;
        }
    }

    fn failed(&self, fault: &TransportError) {
        *self.fault.lock() = Some(fault.to_string());
    }
}

impl Connect for Watched {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        Box::pin(async {
            let transport = self.inner.connect().await.inspect_err(|fault| self.record.failed(fault))?;
            self.record.stderr.lock().clear();
            *self.record.sender.lock() = Some(Arc::downgrade(&transport.sender()));
            let (record, open) = (Arc::clone(&self.record), self.open.subscribe());
            Ok(Box::new(WatchedTransport { inner: transport, record, _open: open }) as Box<dyn Transport>)
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

struct WatchedTransport {
    inner: Box<dyn Transport>,
    record: Arc<Record>,
    _open: watch::Receiver<()>,
}

impl Transport for WatchedTransport {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        let received = self.inner.poll_recv(cx);
        match &received {
            Poll::Ready(Some(Err(fault))) if fault.request().is_none() => {
                self.record.failed(fault);
                self.record.read_stderr();
            }
            Poll::Ready(None) => self.record.read_stderr(),
            _ => {}
        }
        received
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        self.inner.sender()
    }
}
