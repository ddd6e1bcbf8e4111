//! The context of a request: its client, its metadata, and the notifications that its handler sends.

mod arguments;
mod cancelled;
mod end;
mod extensions;
mod notify;
mod progress;

use std::{
    any::Any,
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use mcp_protocol::{
    ClientCapabilities, Implementation, LoggingLevel, Meta, Principal, ProgressToken, ProtocolVersion, RequestId,
    TraceContext,
};
use mcp_transport::FrameSender;
use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::{
    inputs::InputCollector,
    session::{CancelReason, Client, Session},
    tasks::{RunningTask, TaskUpgrade},
    trace::AccessRecord,
};

pub(crate) use self::end::EndGuard;
pub use self::{
    arguments::{Completing, ResourceUri},
    cancelled::Cancelled,
    extensions::Extensions,
    progress::{Progress, ProgressNumber},
};

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
///     context.progress().report(0.5, 1.0, "greeting").await;
///     let client = context.client_info().map_or("unknown client", |info| info.name.as_str());
///     let user = context.principal().map_or("an anonymous user", |principal| &*principal.subject);
///     let (request, session) = (context.request_id(), context.session_id());
///     format!("Hello, {client} of {user}! {} {request:?} {session:?}", context.version())
/// }
///
/// async fn build(context: Context) -> &'static str {
///     let (watcher, request) = (context.cancelled(), context.clone());
///     tokio::spawn(async move {
///         watcher.await;
///         println!("cancelled: {:?}", request.cancellation_reason());
///     });
///     if context.detach().await {
///         println!("the call is now the task {:?}", context.task_id());
///     } else {
///         context.close_stream();
///     }
///     println!("{:?} {:?} {}", context.trace_context(), context.span(), context.is_local());
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
    /// Present if a cancellation of the client can find the request.
    pub(crate) cancel_reason: OnceLock<CancelReason>,
    pub(crate) extensions: Extensions,
    /// Locked while one notification is queued. Notifications of several tasks keep their order, and none follows the
    /// response.
    pub(crate) outgoing: Mutex<Outgoing>,
    pub(crate) expired: AtomicBool,
    pub(crate) span: Span,
    /// Whether the client receives the details of faults.
    pub(crate) shows_faults: bool,
    /// Present if the access log is enabled.
    pub(crate) access: Option<Box<AccessRecord>>,
    pub(crate) server: S,
}

/// The notifications that were sent for a request.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    last_progress: Option<f64>,
    /// The request has ended: its response is next, and no notification may follow.
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
        Cancelled::new(self.inner.cancel.clone())
    }

    /// Returns the reason for which the client cancelled the request (`notifications/cancelled`), for logs. It has at most 1,024 bytes.
    ///
    /// `None` before the cancellation, and without a reason. A closed connection has none. The handler itself is dropped at the
    /// cancellation, so work on other tasks and the drop of a value read it.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn cancellation_reason(&self) -> Option<&str> {
        self.inner.cancel_reason.get()?.get().map(|reason| &**reason)
    }

    pub(crate) fn set_cancel_reason(&self, reason: &CancelReason) {
        let _ = self.inner.cancel_reason.set(CancelReason::clone(reason));
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

    /// Returns the session for a holder that outlives the request.
    pub(crate) fn shared_session(&self) -> Option<&Arc<Session>> {
        self.inner.client.shared_session()
    }

    pub(crate) fn shows_faults(&self) -> bool {
        self.inner.shows_faults
    }

    /// Returns true if the caller is the process's own client: over stdio, in memory, or the application itself.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_local(&self) -> bool {
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

    /// Returns the session, the stream and the id of the request, if the server can send requests to the client.
    pub(crate) fn asking(&self) -> Option<(&Session, Option<&dyn FrameSender>, &RequestId)> {
        Some((self.session()?, self.inner.sink.as_deref(), self.inner.request_id.as_ref()?))
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
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("version", &self.inner.version)
            .field("request_id", &self.inner.request_id)
            .finish_non_exhaustive()
    }
}
