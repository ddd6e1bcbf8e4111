//! What a handler knows about the request it serves, and how it speaks to the client while it runs.

use std::{
    any::{Any, TypeId},
    fmt,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use mcp_protocol::{
    ClientCapabilities, Implementation, LoggingLevel, LoggingMessageParams, Meta, Principal, ProgressParams,
    ProgressToken, ProtocolVersion, RequestId, Shape, TraceContext, jsonrpc, method::NotificationMethod, notification,
};
use mcp_transport::{Frame, FrameSender, Route, TrySendError};
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::{
    inputs::InputCollector,
    log_guard::hold_records,
    session::{Client, Session},
    tasks::{RunningTask, TaskUpgrade},
};

/// The request that a handler serves. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

/// The data of a request. The server is the last member, and of a type that only the rooms above know: a server holds
/// handlers, and handlers take contexts.
pub(crate) struct Inner<S: ?Sized = dyn Any + Send + Sync> {
    pub(crate) version: ProtocolVersion,
    pub(crate) request_id: Option<RequestId>,
    pub(crate) client: Client,
    pub(crate) principal: Option<Arc<Principal>>,
    pub(crate) raw_meta: Option<Box<str>>,
    /// Present when the handler takes `Inputs`.
    pub(crate) collector: Option<Arc<InputCollector>>,
    /// Present when the call may become a task.
    pub(crate) tasking: Option<Arc<TaskUpgrade>>,
    /// Whether the caller owns the process.
    pub(crate) is_local: bool,
    pub(crate) meta: OnceLock<Meta>,
    pub(crate) progress_token: Option<ProgressToken>,
    pub(crate) log_level: Option<LoggingLevel>,
    pub(crate) sink: Option<Arc<dyn FrameSender>>,
    pub(crate) cancel: CancellationToken,
    pub(crate) extensions: Extensions,
    /// Held while one notification is queued, so that several tasks of a handler cannot overtake each other, or the answer.
    pub(crate) outgoing: Mutex<Outgoing>,
    pub(crate) expired: AtomicBool,
    pub(crate) span: Span,
    pub(crate) server: S,
}

/// What was sent for a request.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    last_progress: Option<f64>,
    /// The answer is next: nothing more is queued before it.
    finished: bool,
}

impl Context {
    pub(crate) fn new<S: Any + Send + Sync>(inner: Inner<S>) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// The server, whose type the rooms above know.
    pub(crate) fn any_server(&self) -> &(dyn Any + Send + Sync) {
        &self.inner.server
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

    /// What the client can do: from `initialize` in a session (as far as the revision knows it), from this request otherwise.
    #[must_use]
    pub fn client_capabilities(&self) -> &ClientCapabilities {
        self.inner.client.capabilities()
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

    /// The trace that the client says the request belongs to (W3C trace context). The questions of [`Inputs`](crate::Inputs)
    /// carry it on by themselves; requests that a handler makes elsewhere are its own to mark.
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        self.meta().trace_context()
    }

    /// The span of the request, which the handler runs in. Work that it gives to other tasks stays in it by
    /// `.instrument(context.span().clone())`. It is disabled where no subscriber wants it.
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.inner.span
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

    /// Turns the call into a task now, rather than when the policy of the tool would: the client gets its answer, and the
    /// handler goes on. True when the call is a task afterwards. False when it stays a call, because the tool is not
    /// registered for tasks, the client does not take any, or there is no room for more.
    pub async fn detach(&self) -> bool {
        match self.tasking() {
            Some(tasking) => tasking.detach().await,
            None => false,
        }
    }

    /// The id of the task that the call has become, if it has.
    #[must_use]
    pub fn task_id(&self) -> Option<&str> {
        self.task().map(|task| task.id())
    }

    pub(crate) fn tasking(&self) -> Option<&Arc<TaskUpgrade>> {
        self.inner.tasking.as_ref()
    }

    fn task(&self) -> Option<&Arc<RunningTask>> {
        self.tasking()?.live()
    }

    pub(crate) fn session(&self) -> Option<&Session> {
        self.inner.client.session()
    }

    pub(crate) fn is_local(&self) -> bool {
        self.inner.is_local
    }

    pub(crate) fn collector(&self) -> Option<&Arc<InputCollector>> {
        self.inner.collector.as_ref()
    }

    /// What finds the request again as long as it lasts.
    #[cfg(feature = "log-layer")]
    pub(crate) fn downgrade(&self) -> std::sync::Weak<Inner> {
        Arc::downgrade(&self.inner)
    }

    /// The request that was found again.
    #[cfg(feature = "log-layer")]
    pub(crate) fn found(inner: Arc<Inner>) -> Self {
        Self { inner }
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
        self.notify::<notification::LoggingMessage>(&params, None).await;
    }

    /// Sends a log record if there is room for it now.
    #[cfg(feature = "log-layer")]
    pub(crate) fn try_log(&self, params: &LoggingMessageParams) {
        let Some(sink) = &self.inner.sink else { return };
        if let Some(task) = self.task() {
            return self.notify_about_task::<notification::LoggingMessage>(task, params, None);
        }
        let Ok(message) = jsonrpc::notification(notification::LoggingMessage::NAME, params) else { return };
        let mut frame = Frame::new(message);
        if let Some(id) = &self.inner.request_id {
            frame.route = Route::Request(id.clone());
        }
        let outgoing = self.outgoing();
        if !outgoing.finished && sink.try_send(frame).is_err() {
            tracing::debug!("a record found no room on its way to the client");
        }
    }

    /// Sends the client away while the call goes on: the connection that carries this call's messages ends, and the client
    /// asks for the rest later. For long calls that should not hold a connection (2025-11-25 over HTTP, in a session);
    /// everywhere else, and for clients that cannot come back, nothing happens. What is sent meanwhile is kept.
    pub fn close_stream(&self) {
        if let (Some(sink), Some(id)) = (&self.inner.sink, &self.inner.request_id) {
            sink.close(id);
        }
    }

    /// Marks the end: nothing more is sent for this request.
    pub(crate) fn finish(&self) {
        self.outgoing().finished = true;
        if let Some(collector) = &self.inner.collector {
            collector.end();
        }
    }

    fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.inner.outgoing.lock()
    }

    /// Marks that the time was up: what the handler handed to other tasks ends as well.
    pub(crate) fn expire(&self) {
        self.inner.expired.store(true, Ordering::Release);
    }

    pub(crate) fn has_expired(&self) -> bool {
        self.inner.expired.load(Ordering::Acquire)
    }

    /// Queues a notification, waiting for room if need be. With a progress it is queued only if that grew.
    async fn notify<N: NotificationMethod>(&self, params: &(impl Serialize + Sync), progress: Option<f64>) {
        let Some(sink) = &self.inner.sink else { return };
        if let Some(task) = self.task() {
            return self.notify_about_task::<N>(task, params, progress);
        }
        let Ok(message) = jsonrpc::notification(N::NAME, params) else { return };
        let len = message.len();
        let mut frame = Frame::new(message);
        if let Some(id) = &self.inner.request_id {
            frame.route = Route::Request(id.clone());
        }
        loop {
            {
                let _guard = hold_records();
                let mut outgoing = self.outgoing();
                let is_stale = progress.is_some_and(|new| outgoing.last_progress.is_some_and(|last| new <= last));
                if outgoing.finished || is_stale {
                    return;
                }
                match sink.try_send(frame) {
                    Ok(()) => {
                        outgoing.last_progress = progress.or(outgoing.last_progress);
                        return;
                    }
                    Err(TrySendError::Full(back)) => frame = back,
                    // The stream may be gone while the work goes on (a legacy disconnect is not a cancel).
                    Err(_) => {
                        tracing::debug!(method = N::NAME, "a notification found its stream closed");
                        break;
                    }
                }
            }
            if sink.ready(len).await.is_err() {
                return;
            }
            // The call may have become a task while it waited, whose answer is out.
            if let Some(task) = self.task() {
                return self.notify_about_task::<N>(task, params, progress);
            }
        }
        // Nothing is waited for any more, so that a handler which only speaks could not be ended.
        tokio::task::coop::consume_budget().await;
    }

    /// The answer to the request is out: in a session what comes later goes where unasked messages go, and names the task.
    /// The extension has no such messages (SEP-2663).
    fn notify_about_task<N: NotificationMethod>(
        &self,
        task: &RunningTask,
        params: &(impl Serialize + Sync),
        progress: Option<f64>,
    ) {
        let Client::Session(session) = &self.inner.client else { return };
        let _guard = hold_records();
        let mut outgoing = self.outgoing();
        let is_stale = progress.is_some_and(|new| outgoing.last_progress.is_some_and(|last| new <= last));
        if outgoing.finished || is_stale {
            return;
        }
        let Ok(mut params) = serde_json::to_value(params) else { return };
        params["_meta"][mcp_protocol::meta::keys::RELATED_TASK] = serde_json::json!({ "taskId": task.id() });
        if let Ok(message) = jsonrpc::notification(N::NAME, &params) {
            session.send(message);
            outgoing.last_progress = progress.or(outgoing.last_progress);
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
    /// is not sent (utilities/progress). The words are also what a task says of itself, where the call has become one.
    pub async fn report(&self, progress: f64, total: Option<f64>, message: impl Into<Option<&str>>) {
        let inner = &self.context.inner;
        let message = message.into();
        if let (Some(tasking), Some(words)) = (self.context.tasking(), message) {
            tasking.say(words);
        }
        let Some(token) = inner.progress_token.as_ref().filter(|_| inner.sink.is_some()) else { return };
        if !progress.is_finite() {
            return;
        }
        let mut params = ProgressParams::new(token.clone(), progress);
        params.total = total.filter(|total| total.is_finite());
        params.message = message.map(str::to_owned);
        params.shape(inner.version);
        self.context.notify::<notification::Progress>(&params, Some(progress)).await;
    }
}

/// Resolves when the request is cancelled, its time is up, or its connection is gone: `cancelled.await`.
#[derive(Debug, Clone)]
pub struct Cancelled {
    token: CancellationToken,
}

impl Cancelled {
    pub(crate) fn new(token: CancellationToken) -> Self {
        Self { token }
    }

    /// Whether it already is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }
}

impl IntoFuture for Cancelled {
    type Output = ();
    type IntoFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.token.cancelled_owned())
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

/// The URI that is read: for handlers of resources and resource templates.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made to be taken apart in a handler's arguments")]
pub struct ResourceUri(pub String);
