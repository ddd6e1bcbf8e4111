//! The extensions of a server: their methods, their capabilities and their background work.

use std::{
    collections::HashMap,
    fmt,
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use mcp_protocol::{ProtocolVersion, RpcError, ServerCapabilities};
use mcp_transport::BoxFuture;
use parking_lot::Mutex;
use tokio::{runtime::Handle, task::AbortHandle};

use super::{Server, ServerData};
use crate::{
    error::{Fault, contain, contain_async, report_background},
    registry::MethodRoute,
};

/// A [`Server`] that does not keep it alive: for background work of an extension.
///
/// ```
/// use mcp_server_core::{Server, extension::WeakServer};
///
/// let server = Server::builder("clock", "1.0.0").build();
/// let weak = WeakServer::from(&server);
/// assert!(weak.upgrade().is_some());
/// drop(server);
/// assert!(weak.upgrade().is_none());
/// ```
#[derive(Debug, Clone)]
pub struct WeakServer {
    data: Weak<ServerData>,
}

impl WeakServer {
    /// Returns the server while at least one clone of it exists.
    ///
    /// Background work must not keep the result: the server lives as long as it.
    #[must_use]
    pub fn upgrade(&self) -> Option<Server> {
        Some(Server { data: self.data.upgrade()? })
    }
}

impl From<&Server> for WeakServer {
    fn from(server: &Server) -> Self {
        Self { data: Arc::downgrade(&server.data) }
    }
}

/// The background work of an extension. The server aborts it by dropping it.
pub(crate) type Background = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The part of an extension that the running server calls.
pub(crate) trait Installed: Send + Sync {
    fn declare(&self, version: ProtocolVersion, capabilities: ServerCapabilities) -> ServerCapabilities;
    fn built(&self);
    fn start(&self, server: WeakServer) -> Option<Background>;
    fn stop(&self);
}

/// All extensions of a server.
#[derive(Default)]
pub(crate) struct InstalledExtensions {
    extensions: Vec<Box<dyn Installed>>,
    methods: HashMap<Box<str>, Arc<MethodRoute>>,
    /// The background work of each extension, in the order of `extensions`.
    works: Mutex<Vec<Work>>,
    is_stopped: AtomicBool,
}

/// The state of an extension's background work.
enum Work {
    NotStarted,
    /// The extension has no work, or another thread starts it.
    Idle,
    Running {
        task: AbortHandle,
        has_ended: Arc<AtomicBool>,
    },
}

impl Work {
    /// Whether the work waits for a start: it never started, or its runtime ended before it did.
    fn needs_start(&self) -> bool {
        match self {
            Self::NotStarted => true,
            Self::Idle => false,
            Self::Running { task, has_ended } => task.is_finished() && !has_ended.load(Ordering::Acquire),
        }
    }
}

impl InstalledExtensions {
    /// Calls the hooks of a built server. An extension whose hook panics has no capability and no background work.
    pub(crate) fn new(mut extensions: Vec<Box<dyn Installed>>, methods: Vec<MethodRoute>) -> Self {
        let methods = methods.into_iter().map(|route| (route.name.as_str().into(), Arc::new(route))).collect();
        extensions.retain(|extension| run_hook("an extension panicked in `built`", || extension.built()).is_some());
        let works = extensions.iter().map(|_| Work::NotStarted).collect();
        Self { extensions, methods, works: Mutex::new(works), is_stopped: AtomicBool::new(false) }
    }

    pub(crate) fn method(&self, name: &str) -> Option<&Arc<MethodRoute>> {
        self.methods.get(name)
    }

    /// Adds the capabilities of all extensions.
    ///
    /// # Errors
    /// `-32603` when an extension panics.
    pub(crate) fn declare(
        &self,
        version: ProtocolVersion,
        capabilities: ServerCapabilities,
        shows_faults: bool,
    ) -> Result<ServerCapabilities, RpcError> {
        self.extensions.iter().try_fold(capabilities, |declared, extension| {
            contain(|| extension.declare(version, declared)).map_err(|panic| {
                let text = "the capabilities cannot be computed";
                let fault = Fault::report("an extension panicked in `declare`", text, &panic);
                RpcError::internal(fault.text(shows_faults))
            })
        })
    }

    /// Starts the background work that does not run yet. Without a runtime a later call starts it. Work that panicked is
    /// not started again.
    pub(crate) fn start(&self, server: &Server) {
        if self.extensions.is_empty() || server.data.shutdown.has_begun() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        for (at, extension) in self.extensions.iter().enumerate() {
            {
                let mut works = self.works.lock();
                if !works[at].needs_start() {
                    continue;
                }
                works[at] = Work::Idle;
            }
            // The lock is free meanwhile: an extension may call the server.
            let start = || extension.start(WeakServer::from(server));
            let Some(work) = run_hook("an extension panicked in `start`", start).flatten() else { continue };
            let shutdown = server.data.shutdown.token().clone();
            let has_ended = Arc::new(AtomicBool::new(false));
            let ended = has_ended.clone();
            let running: BoxFuture<'static, ()> = Box::pin(async move {
                shutdown.run_until_cancelled_owned(contained(work)).await;
                ended.store(true, Ordering::Release);
            });
            let task = runtime.spawn(running);
            self.works.lock()[at] = Work::Running { task: task.abort_handle(), has_ended };
        }
    }

    /// Calls the stop hooks, once. The shutdown token ends the background work.
    pub(crate) fn stop(&self) {
        if !self.is_stopped.swap(true, Ordering::AcqRel) {
            for extension in &self.extensions {
                run_hook("an extension panicked in `stop`", || extension.stop());
            }
        }
    }
}

/// Runs a hook of an extension. Reports its panic as this event, and returns `None` then.
fn run_hook<T>(event: &str, hook: impl FnOnce() -> T) -> Option<T> {
    contain(hook).inspect_err(|panic| report_background(event, panic)).ok()
}

/// Runs background work, and reports a panic as its end.
async fn contained(work: Background) {
    if let Err(panic) = contain_async(|| work).await {
        report_background("the background work of an extension panicked", &panic);
    }
}

impl Drop for InstalledExtensions {
    fn drop(&mut self) {
        for work in self.works.get_mut() {
            if let Work::Running { task, .. } = work {
                task.abort();
            }
        }
        self.stop();
    }
}

impl fmt::Debug for InstalledExtensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstalledExtensions")
            .field("extensions", &self.extensions.len())
            .field("methods", &self.methods.keys())
            .finish_non_exhaustive()
    }
}
