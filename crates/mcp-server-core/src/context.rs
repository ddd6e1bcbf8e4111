//! The context of a request: its client, its metadata, and the notifications that its handler sends.

mod extensions;

use std::{
    any::Any,
    borrow::Borrow,
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
    trace::{self, Ending},
};

pub use self::extensions::Extensions;

/// The request that a handler serves. Cheap to clone.
///
/// # Example
/// ```
/// use mcp_protocol::LoggingLevel;
/// use mcp_server_core::{Context, Server, tool};
///
/// async fn greet(context: Context) -> String {
///     context.log(LoggingLevel::Info, "a client called `greet`").await;
///     if context.logs(LoggingLevel::Debug) {
///         context.log_as(LoggingLevel::Debug, Some("greeter"), context.meta()).await;
///     }
///     context.progress().report(0.5, Some(1.0), "greeting").await;
///     let client = context.client_info().map_or("unknown client", |info| info.name.as_str());
///     let user = context.principal().map_or("an anonymous user", |principal| &*principal.subject);
///     let (request, session) = (context.request_id(), context.session_id());
///     format!("Hello, {client} of {user}! {} {request:?} {session:?}", context.version())
/// }
///
/// async fn build(context: Context) -> &'static str {
///     let watcher = context.cancelled();
///     tokio::spawn(async move { watcher.await });
///     if context.detach().await {
///         println!("the call is now the task {:?}", context.task_id());
///     } else {
///         context.close_stream();
///     }
///     println!("{:?} {:?}", context.trace_context(), context.span());
///     println!("{:?} {:?}", context.client_capabilities(), context.extension::<u32>());
///     "built"
/// }
///
/// let server = Server::builder("hello", "1.0").tool(tool("greet", greet)).tool(tool("build", build)).build();
/// # let _ = server;
/// ```
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
    pub(crate) task_upgrade: Option<Arc<TaskUpgrade>>,
    /// Whether the caller is the process's own client.
    pub(crate) is_local: bool,
    pub(crate) meta: OnceLock<Meta>,
    pub(crate) progress_token: Option<ProgressToken>,
    pub(crate) log_level: Option<LoggingLevel>,
    pub(crate) sink: Option<Arc<dyn FrameSender>>,
    pub(crate) cancel: CancellationToken,
    pub(crate) extensions: Extensions,
    /// Locked while one notification is queued. Notifications of several tasks keep their order, and none follows the
    /// response.
    pub(crate) outgoing: Mutex<Outgoing>,
    pub(crate) expired: AtomicBool,
    /// Whether the span has the end of the call.
    pub(crate) ended: AtomicBool,
    pub(crate) span: Span,
    pub(crate) server: S,
}

/// The notifications that were sent for a request.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    last_progress: Option<f64>,
    /// The response is next, and no notification may follow.
    finished: bool,
}

impl Context {
    pub(crate) fn new<S: Any + Send + Sync>(inner: Inner<S>) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// Returns the server, whose type the rooms above know.
    pub(crate) fn any_server(&self) -> &(dyn Any + Send + Sync) {
        &self.inner.server
    }

    /// Returns the revision of the request.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.inner.version
    }

    /// Returns the id of the request; `None` for a local call without a transport.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn request_id(&self) -> Option<&RequestId> {
        self.inner.request_id.as_ref()
    }

    /// Returns the name and version of the client. They are not authenticated: use them for display and logs only.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn client_info(&self) -> Option<&Implementation> {
        match &self.inner.client {
            Client::Session(session) => Some(session.client_info()),
            Client::Request(client) => client.info.as_ref(),
        }
    }

    /// Returns the capabilities of the client: from `initialize` in a session, otherwise from this request.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn client_capabilities(&self) -> &ClientCapabilities {
        self.inner.client.capabilities()
    }

    /// Returns the id of the HTTP session. It identifies a session, not a user.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        match &self.inner.client {
            Client::Session(session) => session.id(),
            Client::Request(_) => None,
        }
    }

    /// Returns the authenticated principal of the caller.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn principal(&self) -> Option<&Principal> {
        self.inner.principal.as_deref()
    }

    /// Returns the `_meta` of the request; empty when the request has none.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn meta(&self) -> &Meta {
        self.inner.meta.get_or_init(|| {
            self.inner.raw_meta.as_deref().and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default()
        })
    }

    /// Returns the trace context of the client (W3C). [`Inputs`](crate::Inputs) passes it on. A handler passes it on
    /// itself in requests to other systems.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        self.meta().trace_context()
    }

    /// Returns the span in which the handler runs. Use `.instrument(context.span().clone())` for work on other tasks.
    /// The span is disabled when no subscriber records it.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.inner.span
    }

    /// Returns a value that the transport or a layer attached to the request.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.inner.extensions.get::<T>()
    }

    /// Returns a future that completes when the client cancels the request, the time limit is over, or the connection
    /// is lost. The handler itself is dropped then. Use this for work on other tasks.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn cancelled(&self) -> Cancelled {
        Cancelled { token: self.inner.cancel.clone() }
    }

    /// Turns the call into a task now, before the task policy does. The client gets its response, and the handler
    /// continues.
    ///
    /// Returns true when the call is a task afterwards. Returns false when the tool does not support tasks, the client
    /// does not support them, or the limits are reached.
    ///
    /// See the [example](Self#example).
    pub async fn detach(&self) -> bool {
        match self.task_upgrade() {
            Some(upgrade) => upgrade.detach().await,
            None => false,
        }
    }

    /// Returns the id of the task that the call became.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn task_id(&self) -> Option<&str> {
        self.task().map(|task| task.id())
    }

    pub(crate) fn task_upgrade(&self) -> Option<&Arc<TaskUpgrade>> {
        self.inner.task_upgrade.as_ref()
    }

    fn task(&self) -> Option<&Arc<RunningTask>> {
        self.task_upgrade()?.running_task()
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

    /// Returns a weak reference to the request.
    #[cfg(feature = "log-layer")]
    pub(crate) fn downgrade(&self) -> std::sync::Weak<Inner> {
        Arc::downgrade(&self.inner)
    }

    /// Creates a context from a weak reference that was upgraded.
    #[cfg(feature = "log-layer")]
    pub(crate) fn found(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    /// Returns the progress reporter of this request.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress { context: self.clone() }
    }

    /// Whether the client receives log records of this level.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn logs(&self, level: LoggingLevel) -> bool {
        let wanted = match &self.inner.client {
            Client::Session(session) => Some(session.log_level()),
            Client::Request(_) => self.inner.log_level,
        };
        self.inner.sink.is_some() && wanted.is_some_and(|wanted| level >= wanted)
    }

    /// Sends a log record to the client (`notifications/message`), if the client requested records of this level. In
    /// 2026-07-28 a client receives none by default. Log records must not contain secrets.
    ///
    /// See the [example](Self#example).
    pub async fn log(&self, level: LoggingLevel, data: impl Serialize) {
        self.log_as(level, None, data).await;
    }

    /// Sends a log record with the name of a logger, like [`Context::log`].
    ///
    /// See the [example](Self#example).
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

    /// Sends a log record if the transport has capacity.
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

    /// Closes the stream of this call while the call continues. The client reconnects later and receives the missed
    /// messages.
    ///
    /// Use it for long calls that should not hold a connection (2025-11-25 over HTTP, in a session). In all other cases
    /// this has no effect.
    ///
    /// See the [example](Self#example).
    pub fn close_stream(&self) {
        if let (Some(sink), Some(id)) = (&self.inner.sink, &self.inner.request_id) {
            sink.close(id);
        }
    }

    /// Stops all notifications of this request before its response is sent.
    pub(crate) fn finish(&self) {
        self.outgoing().finished = true;
        if let Some(collector) = &self.inner.collector {
            collector.end();
        }
    }

    /// Finishes the call, and records its end in the span. Only the first end counts.
    pub(crate) fn end(&self, ending: Ending<'_>) {
        self.finish();
        if !self.inner.ended.swap(true, Ordering::AcqRel) {
            trace::ended(&self.inner.span, ending);
        }
    }

    fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.inner.outgoing.lock()
    }

    /// Marks that the time limit is over, so that work on other tasks is cancelled too.
    pub(crate) fn expire(&self) {
        self.inner.expired.store(true, Ordering::Release);
    }

    pub(crate) fn has_expired(&self) -> bool {
        self.inner.expired.load(Ordering::Acquire)
    }

    /// Queues a notification, and waits for capacity if necessary. A progress value is queued only if it is larger than
    /// the last.
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
                    // The stream may be closed while the call continues: a lost connection does not cancel a call of a
                    // session.
                    Err(_) => {
                        tracing::debug!(method = N::NAME, "a notification found its stream closed");
                        break;
                    }
                }
            }
            if sink.ready(len).await.is_err() {
                return;
            }
            // The call may have become a task while it waited, and its response is sent.
            if let Some(task) = self.task() {
                return self.notify_about_task::<N>(task, params, progress);
            }
        }
        // Nothing above waits any more. Yielding lets the runtime cancel a handler that only sends notifications.
        tokio::task::coop::consume_budget().await;
    }

    /// Sends a notification of a task, after the response to its call. In a session it uses the session's own stream
    /// and names the task. The extension has no such notifications (SEP-2663).
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

/// Ends a call as cancelled when it is dropped before its end.
pub(crate) struct EndGuard<C: Borrow<Context>>(pub(crate) C);

impl<C: Borrow<Context>> Drop for EndGuard<C> {
    fn drop(&mut self) {
        self.0.borrow().end(Ending::Cancelled);
    }
}

/// Reports the progress of a request. Nothing is sent when the client gave no progress token.
///
/// # Example
/// ```
/// use mcp_server_core::{Progress, Server, tool};
///
/// async fn count(progress: Progress) -> String {
///     if progress.is_wanted() {
///         println!("the client shows progress");
///     }
///     for step in 1..=3 {
///         progress.report(f64::from(step), Some(3.0), "counting").await;
///     }
///     "done".to_owned()
/// }
///
/// let server = Server::builder("counter", "1.0").tool(tool("count", count)).build();
/// # let _ = server;
/// ```
#[derive(Debug, Clone)]
pub struct Progress {
    context: Context,
}

impl Progress {
    /// Whether the client gave a progress token.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.context.inner.progress_token.is_some() && self.context.inner.sink.is_some()
    }

    /// Sends a progress notification with the work done, the total, and a message. A value that does not grow is not
    /// sent (utilities/progress). The message also becomes the status message of a task.
    ///
    /// See the [example](Self#example).
    pub async fn report(&self, progress: f64, total: Option<f64>, message: impl Into<Option<&str>>) {
        let inner = &self.context.inner;
        let message = message.into();
        if let (Some(upgrade), Some(message)) = (self.context.task_upgrade(), message) {
            upgrade.set_message(message);
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

/// Completes when the request is cancelled, its time limit is over, or its connection is lost: `cancelled.await`.
///
/// # Example
/// ```
/// use mcp_server_core::{Cancelled, Server, tool};
///
/// async fn watch(cancelled: Cancelled) -> &'static str {
///     tokio::spawn(async move {
///         if !cancelled.is_cancelled() {
///             cancelled.await;
///         }
///         // Stop the work on this task.
///     });
///     "watching"
/// }
///
/// let server = Server::builder("watcher", "1.0").tool(tool("watch", watch)).build();
/// # let _ = server;
/// ```
#[derive(Debug, Clone)]
pub struct Cancelled {
    token: CancellationToken,
}

impl Cancelled {
    pub(crate) fn new(token: CancellationToken) -> Self {
        Self { token }
    }

    /// Whether the request is cancelled already.
    ///
    /// See the [example](Self#example).
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

/// The argument that a completion handler completes.
///
/// ```
/// use mcp_server_core::{Completing, PromptRoute, prompt};
///
/// let route: PromptRoute = prompt("review", async || "Review my code.")
///     .complete("language", async |completing: Completing| vec![format!("{}ust", completing.value)]);
/// # let _ = route;
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Completing {
    /// The name of the argument or variable.
    pub argument: String,
    /// The text that the user typed so far.
    pub value: String,
    /// The other arguments that have a value already (2025-06-18 and later).
    pub context: std::collections::BTreeMap<String, String>,
}

/// The URI of a read, for handlers of resources and resource templates.
///
/// ```
/// use mcp_server_core::{ResourceUri, TemplateRoute, template};
///
/// let route: TemplateRoute = template("notes://{date}", async |ResourceUri(uri): ResourceUri| format!("read {uri}"));
/// # let _ = route;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made to be taken apart in a handler's arguments")]
pub struct ResourceUri(pub String);
