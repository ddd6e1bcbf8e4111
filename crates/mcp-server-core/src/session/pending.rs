//! The server's requests to one client that wait for a response. Only the session of the request can answer them.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use mcp_protocol::{
    CancelledParams, InputRequest, NotificationMethod, ProgressParams, ProgressToken, RequestId, RpcError, jsonrpc,
    notification,
};
use mcp_transport::{Frame, FrameSender, Route, TrySendError};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::error::InputError;

/// A client's response to a request of the server.
pub(crate) type Answer = Result<Value, RpcError>;

/// Receives the progress that the client reports for a request of the server.
#[derive(Clone)]
pub(crate) struct ProgressListener(Arc<dyn Fn(ProgressParams) + Send + Sync>);

impl ProgressListener {
    pub(crate) fn new(listener: impl Fn(ProgressParams) + Send + Sync + 'static) -> Self {
        Self(Arc::new(listener))
    }
}

impl fmt::Debug for ProgressListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressListener").finish_non_exhaustive()
    }
}

/// The most requests of one session that wait at once.
const WAITING: usize = 256;

/// The pending requests of one session.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    questions: HashMap<RequestId, Question>,
    /// The session is over, and no response arrives any more.
    is_closed: bool,
}

#[derive(Debug)]
struct Question {
    answer: oneshot::Sender<Answer>,
    /// The token of the progress that the client may send.
    progress: Option<ProgressToken>,
    listener: Option<ProgressListener>,
}

impl PendingRequests {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.waiting().is_closed
    }

    /// Sends a request on the stream of the client's request, or on the session's own stream, and waits for the
    /// response. With a listener, the request has a progress token of the server.
    ///
    /// Dropping the future cancels the request.
    pub(crate) async fn ask(
        &self,
        id: RequestId,
        request: &InputRequest,
        sink: Option<&dyn FrameSender>,
        outbox: &dyn FrameSender,
        about: &RequestId,
        listener: Option<ProgressListener>,
    ) -> Result<Value, InputError> {
        let mut params = request.params.clone().unwrap_or_else(|| json!({}));
        if listener.is_some()
            && let Value::Object(params) = &mut params
            && let Value::Object(meta) = params.entry("_meta").or_insert_with(|| json!({}))
        {
            // The id of a request is unique in its session.
            meta.insert("progressToken".to_owned(), json!(id));
        }
        let message = jsonrpc::request(&id, &request.method, &params).map_err(|e| InputError::misuse(e.to_string()))?;
        let progress = serde_json::from_value(params["_meta"]["progressToken"].clone()).ok();
        let (sender, receiver) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            if waiting.is_closed {
                return Err(InputError::gone());
            }
            if waiting.questions.len() >= WAITING {
                return Err(InputError::misuse("too many questions wait in this session"));
            }
            waiting.questions.insert(id.clone(), Question { answer: sender, progress, listener });
        }
        let mut taken_back = CancelOnDrop { requests: self, id, sink, outbox, answered: false };
        let frame = Frame::new(message).with_route(Route::Request(about.clone()));
        // The stream of the client's request may be closed while the session is open.
        let sent = match sink {
            Some(sink) => sink.send(frame.clone()).await,
            None => Err(mcp_transport::TransportError::closed()),
        };
        if sent.is_err() {
            outbox.send(frame).await.map_err(|_| InputError::gone())?;
        }
        let answer = receiver.await.map_err(|_| InputError::gone())?;
        taken_back.answered = true;
        answer.map_err(InputError::refused)
    }

    /// Passes a response to its request. Returns false when no request waits for it.
    pub(crate) fn answer(&self, id: &RequestId, answer: Answer) -> bool {
        let waiting = self.waiting().questions.remove(id);
        waiting.is_some_and(|question| question.answer.send(answer).is_ok())
    }

    /// Passes the progress of a pending request to its listener. Returns false without a listener.
    pub(crate) fn progress(&self, message: &jsonrpc::Notification<'_>) -> bool {
        let has_listener = |question: &Question| question.listener.is_some();
        if !self.waiting().questions.values().any(has_listener) {
            return false;
        }
        let Ok(notice) = jsonrpc::decode_params::<ProgressParams>(&message.method, message.params) else {
            return false;
        };
        let listener = {
            let waiting = self.waiting();
            let is_named = |question: &&Question| question.progress.as_ref() == Some(&notice.progress_token);
            waiting.questions.values().find(is_named).and_then(|question| question.listener.clone())
        };
        let is_found = listener.is_some();
        if let Some(ProgressListener(listener)) = listener {
            listener(notice);
        }
        is_found
    }

    /// Whether a pending request has this progress token.
    pub(crate) fn awaits_progress(&self, token: &ProgressToken) -> bool {
        self.waiting().questions.values().any(|question| question.progress.as_ref() == Some(token))
    }

    /// Fails all pending requests and rejects new ones, because the session is over.
    pub(crate) fn close(&self) {
        let mut waiting = self.waiting();
        waiting.is_closed = true;
        waiting.questions.clear();
    }
}

/// Returns the id of a new request. It has the name of the node that asks, if the nodes of a fleet share the session.
pub(crate) fn new_id(node: Option<&str>) -> RequestId {
    // The counter is shared by all sessions, so a response never matches a request of a later session.
    static NEXT: AtomicI64 = AtomicI64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    RequestId::from(match node {
        Some(node) => format!("server-{number}@{node}"),
        None => format!("server-{number}"),
    })
}

/// Returns the name of the node in the id of a request.
pub(crate) fn node_of(id: &RequestId) -> Option<&str> {
    let RequestId::String(id) = id else { return None };
    id.strip_prefix("server-")?.split_once('@').map(|(_, node)| node)
}

/// Forgets a request when its future is dropped, and sends the client a cancellation.
struct CancelOnDrop<'a> {
    requests: &'a PendingRequests,
    id: RequestId,
    sink: Option<&'a dyn FrameSender>,
    outbox: &'a dyn FrameSender,
    answered: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let waited = self.requests.waiting().questions.remove(&self.id).is_some();
        if self.answered || !waited {
            return;
        }
        let params = CancelledParams::new(self.id.clone());
        if let Ok(message) = jsonrpc::notification(notification::Cancelled::NAME, &params) {
            // Best effort: without the cancellation the client answers a request that is no longer pending.
            let frame = Frame::new(message);
            let unsent = match self.sink {
                Some(sink) => sink.try_send(frame).err().map(TrySendError::into_frame),
                None => Some(frame),
            };
            if let Some(frame) = unsent {
                let _ = self.outbox.try_send(frame);
            }
        }
    }
}
