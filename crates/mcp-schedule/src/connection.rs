//! Connections with random delays of messages, which a test can cut.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, ready},
};

use mcp_protocol::{Message, RequestId};
use mcp_transport::{BoxFuture, Connect, Frame, FrameSender, Transport, TransportError, TrySendError};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::Schedule;

/// The open connections of a [connector](Schedule::connector). Clones share them.
///
/// ```
/// use mcp_schedule::explore;
/// use mcp_transport::{BoxFuture, Connect, Transport, TransportError, memory::duplex, recv};
///
/// /// Connects to a server that never sends a message.
/// struct Silent;
///
/// impl Connect for Silent {
///     fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
///         Box::pin(async {
///             let (client, server) = duplex(1);
///             // Only the cut ends the connection.
///             std::mem::forget(server);
///             Ok(Box::new(client) as Box<dyn Transport>)
///         })
///     }
///
///     fn describe(&self) -> String {
///         "a silent server".to_owned()
///     }
/// }
///
/// explore(4, async |schedule| {
///     let (connector, connections) = schedule.connector(Silent);
///     let mut transport = connector.connect().await.unwrap();
///     connections.cut();
///     assert!(recv(&mut transport).await.is_none());
///     assert_eq!(connections.opened(), 1);
/// });
/// ```
#[derive(Clone)]
pub struct Connections {
    schedule: Schedule,
    shared: Arc<Mutex<Open>>,
}

struct Open {
    /// Cuts the connections that are open now.
    cut: CancellationToken,
    count: usize,
}

impl Connections {
    /// Cuts the open connections, as a broken network does. Messages on their way are lost.
    pub fn cut(&self) {
        let cut = std::mem::take(&mut self.shared.lock().cut);
        self.schedule.record(|| "cut".to_owned());
        cut.cancel();
    }

    /// Returns the number of connections that were opened.
    #[must_use]
    pub fn opened(&self) -> usize {
        self.shared.lock().count
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("opened", &self.opened()).finish_non_exhaustive()
    }
}

/// Returns a connector with delays, and its connections.
pub(super) fn connector<C: Connect>(schedule: Schedule, inner: C) -> (impl Connect, Connections) {
    let open = Open { cut: CancellationToken::new(), count: 0 };
    let connections = Connections { schedule: schedule.clone(), shared: Arc::new(Mutex::new(open)) };
    (Connector { schedule, inner, connections: connections.clone() }, connections)
}

struct Connector<C> {
    schedule: Schedule,
    inner: C,
    connections: Connections,
}

impl<C: Connect> Connect for Connector<C> {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        Box::pin(async move {
            self.schedule.pause().await;
            self.schedule.record(|| "connect".to_owned());
            let transport = self.inner.connect().await?;
            let cut = {
                let mut open = self.connections.shared.lock();
                open.count += 1;
                open.cut.clone()
            };
            let sender = Arc::new(Sender {
                schedule: self.schedule.clone(),
                inner: Mutex::new(Some(transport.sender())),
                cut: cut.clone(),
            });
            let cutting = Box::pin(cut.cancelled_owned());
            let receiver = Receiver {
                schedule: self.schedule.clone(),
                inner: Some(transport),
                pause: Some(pause(&self.schedule)),
                cutting,
                sender,
            };
            Ok(Box::new(receiver) as Box<dyn Transport>)
        })
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn identity(&self) -> String {
        self.inner.identity()
    }

    fn starts_process(&self) -> bool {
        self.inner.starts_process()
    }
}

/// Returns the kind of a message and its method or its id. An id of a server is different in each run of a process.
fn describe(frame: &Frame) -> String {
    let of = |id: &RequestId| match id {
        RequestId::Integer(id) => id.to_string(),
        RequestId::String(_) => "of the server".to_owned(),
    };
    match Message::parse(&frame.message) {
        Ok(Message::Request(request)) => format!("request {} {}", of(&request.id), request.method),
        Ok(Message::Notification(notification)) => format!("notification {}", notification.method),
        Ok(Message::Response(response)) => format!("response {}", response.id.as_ref().map(of).unwrap_or_default()),
        Err(_) => "an invalid message".to_owned(),
    }
}

fn pause(schedule: &Schedule) -> BoxFuture<'static, ()> {
    let schedule = schedule.clone();
    Box::pin(async move { schedule.pause().await })
}

struct Receiver {
    schedule: Schedule,
    /// `None` after the cut.
    inner: Option<Box<dyn Transport>>,
    /// The rest of the pause before the next frame.
    pause: Option<BoxFuture<'static, ()>>,
    cutting: BoxFuture<'static, ()>,
    sender: Arc<Sender>,
}

impl Transport for Receiver {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        if self.cutting.as_mut().poll(cx).is_ready() {
            self.inner = None;
            self.sender.inner.lock().take();
            return Poll::Ready(None);
        }
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        let frame = ready!(inner.poll_recv(cx));
        self.schedule.record(|| match &frame {
            Some(Ok(frame)) => format!("received {}", describe(frame)),
            Some(Err(_)) => "received a fault".to_owned(),
            None => "end".to_owned(),
        });
        self.pause = Some(pause(&self.schedule));
        Poll::Ready(frame)
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        self.sender.clone()
    }
}

struct Sender {
    schedule: Schedule,
    /// `None` after the cut.
    inner: Mutex<Option<Arc<dyn FrameSender>>>,
    cut: CancellationToken,
}

impl Sender {
    fn inner(&self) -> Option<Arc<dyn FrameSender>> {
        self.inner.lock().clone().filter(|_| !self.cut.is_cancelled())
    }

    /// Runs a part of a send after a pause, until the cut.
    async fn until_cut(
        &self,
        part: impl Future<Output = Result<(), TransportError>> + Send,
    ) -> Result<(), TransportError> {
        let sending = async {
            self.schedule.pause().await;
            part.await
        };
        tokio::select! {
            biased;
            () = self.cut.cancelled() => Err(TransportError::closed()),
            sent = sending => sent,
        }
    }
}

impl FrameSender for Sender {
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(async move {
            let inner = self.inner().ok_or_else(TransportError::closed)?;
            self.schedule.record(|| format!("send {}", describe(&frame)));
            // The pause comes before the frame is queued: a sender that is dropped has queued nothing.
            self.until_cut(inner.send(frame)).await
        })
    }

    fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
        self.schedule.record(|| format!("send {}", describe(&frame)));
        match self.inner() {
            Some(inner) => inner.try_send(frame),
            None => Err(TrySendError::Closed(frame)),
        }
    }

    fn ready(&self, len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(async move {
            let inner = self.inner().ok_or_else(TransportError::closed)?;
            self.until_cut(inner.ready(len)).await
        })
    }

    fn close(&self, id: &RequestId) {
        if let Some(inner) = self.inner() {
            inner.close(id);
        }
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(async move {
            let inner = self.inner().ok_or_else(TransportError::closed)?;
            self.until_cut(inner.shutdown()).await
        })
    }
}
