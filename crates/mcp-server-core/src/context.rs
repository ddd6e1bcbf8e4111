//! What a handler knows about the request it serves, and how it speaks to the client while it runs.

use std::{
    any::{Any, TypeId},
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_protocol::{
    ClientCapabilities, Implementation, LoggingLevel, LoggingMessageParams, Meta, Principal, ProgressParams,
    ProgressToken, ProtocolVersion, RequestId, Shape, jsonrpc, method::NotificationMethod, notification,
};
use mcp_transport::{Frame, FrameSender, Route};
use serde::Serialize;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::session::Session;

/// How long an answer waits for a notification that is being sent.
const TURN: Duration = Duration::from_secs(10);

/// The request that a handler serves. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) version: ProtocolVersion,
    pub(crate) request_id: Option<RequestId>,
    pub(crate) client: Client,
    pub(crate) principal: Option<Arc<Principal>>,
    pub(crate) raw_meta: Option<Box<str>>,
    pub(crate) meta: OnceLock<Meta>,
    pub(crate) progress_token: Option<ProgressToken>,
    pub(crate) log_level: Option<LoggingLevel>,
    pub(crate) sink: Option<Arc<dyn FrameSender>>,
    pub(crate) cancel: CancellationToken,
    pub(crate) extensions: Extensions,
    /// Held while one notification is sent, so that several tasks of a handler cannot overtake each other, or the answer.
    pub(crate) outgoing: tokio::sync::Mutex<Outgoing>,
    pub(crate) finished: AtomicBool,
    pub(crate) expired: AtomicBool,
}

/// What was sent for a request.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    last_progress: Option<f64>,
}

/// Who is on the other side, as far as it said.
#[derive(Clone)]
pub(crate) enum Client {
    /// Said once, at `initialize`.
    Session(Arc<Session>),
    /// Said on this request.
    Request(Arc<RequestClient>),
}

/// What a modern request says about its client.
#[derive(Debug, Default)]
pub(crate) struct RequestClient {
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) info: Option<Implementation>,
}

impl Context {
    pub(crate) fn new(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// The revision that this request speaks.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.inner.version
    }

    /// The id of the request; `None` for a call that came through no transport.
    #[must_use]
    pub fn request_id(&self) -> Option<&RequestId> {
        self.inner.request_id.as_ref()
    }

    /// What the client is called. For display and logs only: nobody checked it.
    #[must_use]
    pub fn client_info(&self) -> Option<&Implementation> {
        match &self.inner.client {
            Client::Session(session) => Some(session.client_info()),
            Client::Request(client) => client.info.as_ref(),
        }
    }

    /// What the client can do: from `initialize` in a session, from this request otherwise.
    #[must_use]
    pub fn client_capabilities(&self) -> &ClientCapabilities {
        match &self.inner.client {
            Client::Session(session) => session.client_capabilities(),
            Client::Request(client) => &client.capabilities,
        }
    }

    /// The id of the HTTP session, where there is one. It names a conversation, never a person.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        match &self.inner.client {
            Client::Session(session) => session.id(),
            Client::Request(_) => None,
        }
    }

    /// Who calls, when somebody was authenticated.
    #[must_use]
    pub fn principal(&self) -> Option<&Principal> {
        self.inner.principal.as_deref()
    }

    /// The `_meta` of the request; empty when there was none.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        self.inner.meta.get_or_init(|| {
            self.inner.raw_meta.as_deref().and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default()
        })
    }

    /// A value that the transport or a layer attached to the request.
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.inner.extensions.get::<T>()
    }

    /// Resolves when the client cancels the request, its time is up, or its connection is gone. The handler's own future
    /// is dropped then; this is for work that it handed to other tasks.
    #[must_use]
    pub fn cancelled(&self) -> Cancelled {
        Cancelled { token: self.inner.cancel.clone() }
    }

    pub(crate) fn cancellation_token(&self) -> CancellationToken {
        self.inner.cancel.clone()
    }

    /// The sender of progress for this request.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress { context: self.clone() }
    }

    /// Whether a record of this level would be sent to the client.
    #[must_use]
    pub fn logs(&self, level: LoggingLevel) -> bool {
        let wanted = match &self.inner.client {
            Client::Session(session) => Some(session.log_level()),
            Client::Request(_) => self.inner.log_level,
        };
        self.inner.sink.is_some() && wanted.is_some_and(|wanted| level >= wanted)
    }

    /// Sends a log record to the client with the answer to this request (`notifications/message`). Nothing is sent below
    /// the level that the client asked for, or when it asked for none (2026-07-28). No secrets belong in it.
    pub async fn log(&self, level: LoggingLevel, data: impl Serialize) {
        self.log_as(level, None, data).await;
    }

    /// Like [`Context::log`], under the name of a logger.
    pub async fn log_as(&self, level: LoggingLevel, logger: Option<&str>, data: impl Serialize) {
        if !self.logs(level) {
            return;
        }
        let Ok(data) = serde_json::to_value(data) else {
            tracing::warn!("a log record cannot be written as JSON");
            return;
        };
        let mut params = LoggingMessageParams::new(level, data);
        params.logger = logger.map(str::to_owned);
        let outgoing = self.inner.outgoing.lock().await;
        self.notify::<notification::LoggingMessage>(&outgoing, &params).await;
    }

    /// Marks the end, once the notification that is being sent has left: nothing more is sent for this request.
    pub(crate) async fn finish(&self) {
        self.inner.finished.store(true, Ordering::Release);
        if self.inner.outgoing.try_lock().is_err() {
            // Whoever holds the turn may never be polled again.
            let _ = tokio::time::timeout(TURN, self.inner.outgoing.lock()).await;
        }
    }

    /// Marks that the time was up: what the handler handed to other tasks ends as well.
    pub(crate) fn expire(&self) {
        self.inner.expired.store(true, Ordering::Release);
    }

    pub(crate) fn has_expired(&self) -> bool {
        self.inner.expired.load(Ordering::Acquire)
    }

    /// Sends a notification while its turn is held.
    async fn notify<N: NotificationMethod>(&self, _turn: &Outgoing, params: &(impl Serialize + Sync)) {
        let (Some(sink), false) = (&self.inner.sink, self.inner.finished.load(Ordering::Acquire)) else { return };
        let Ok(message) = jsonrpc::notification(N::NAME, params) else { return };
        let mut frame = Frame::new(message);
        if let Some(id) = &self.inner.request_id {
            frame.route = Route::Request(id.clone());
        }
        // The stream may be gone while the work goes on (a legacy disconnect is not a cancel).
        if sink.send(frame).await.is_err() {
            tracing::debug!(method = N::NAME, "a notification found its stream closed");
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("version", &self.inner.version)
            .field("request_id", &self.inner.request_id)
            .finish_non_exhaustive()
    }
}

/// Reports progress of the request that a handler serves. Nothing is sent when the client gave no token.
#[derive(Debug, Clone)]
pub struct Progress {
    context: Context,
}

impl Progress {
    /// Whether the client asked for progress.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.context.inner.progress_token.is_some() && self.context.inner.sink.is_some()
    }

    /// Sends one notification: how much is done, of how much, and in words. `progress` must grow; a value that does not
    /// is not sent (utilities/progress).
    pub async fn report(&self, progress: f64, total: Option<f64>, message: impl Into<Option<&str>>) {
        let inner = &self.context.inner;
        let Some(token) = inner.progress_token.as_ref().filter(|_| inner.sink.is_some()) else { return };
        let mut outgoing = inner.outgoing.lock().await;
        if !progress.is_finite() || outgoing.last_progress.is_some_and(|last| progress <= last) {
            return;
        }
        outgoing.last_progress = Some(progress);
        let mut params = ProgressParams::new(token.clone(), progress);
        params.total = total.filter(|total| total.is_finite());
        params.message = message.into().map(str::to_owned);
        params.shape(inner.version);
        self.context.notify::<notification::Progress>(&outgoing, &params).await;
    }
}

/// Resolves when the request is cancelled, its time is up, or its connection is gone: `cancelled.await`.
#[derive(Debug, Clone)]
pub struct Cancelled {
    token: CancellationToken,
}

impl Cancelled {
    /// Whether it already is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }
}

impl IntoFuture for Cancelled {
    type Output = ();
    type IntoFuture = WaitForCancellationFutureOwned;

    fn into_future(self) -> Self::IntoFuture {
        self.token.cancelled_owned()
    }
}

/// Values that a transport or a layer attaches to a request, one of each type.
#[derive(Clone, Default)]
pub struct Extensions {
    /// A handful at most, so that looking through them is the fastest way.
    list: Option<Arc<Vec<Attached>>>,
}

type Attached = (TypeId, Arc<dyn Any + Send + Sync>);

impl Extensions {
    /// Attaches a value; one of the same type is replaced.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        let list = Arc::make_mut(self.list.get_or_insert_default());
        list.retain(|(id, _)| *id != TypeId::of::<T>());
        list.push((TypeId::of::<T>(), Arc::new(value)));
    }

    /// The value of a type.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.list.as_ref()?.iter().find(|(id, _)| *id == TypeId::of::<T>())?.1.downcast_ref()
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extensions").field("len", &self.list.as_ref().map_or(0, |list| list.len())).finish()
    }
}

/// The arguments that a completion handler completes: which one, how far it is typed, what else is known.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Completing {
    /// The name of the argument or variable.
    pub argument: String,
    /// What was typed so far.
    pub value: String,
    /// The arguments that are already settled (2025-06-18 and later).
    pub context: std::collections::BTreeMap<String, String>,
}
