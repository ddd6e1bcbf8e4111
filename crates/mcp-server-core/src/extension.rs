//! Extensions of the server: methods, capabilities, registrations and background work that one type brings along.

mod paged_list;
mod registrar;

use std::{fmt, future::Future, pin::Pin};

use mcp_protocol::{ProtocolVersion, ServerCapabilities};

pub(crate) use self::registrar::{RegistrationTarget, SharedValues};
pub use self::{paged_list::PagedList, registrar::Registrar};
use crate::{data::Installed, registry::RegistrationError};
pub use crate::{
    data::WeakServer,
    registry::{MethodCall, MethodRequest, MethodResult, MethodRoute, ResourceUpdate},
};

/// A feature beyond the core of the protocol, added to a server with
/// [`ServerBuilder::extension`](crate::ServerBuilder::extension).
///
/// An extension can bring methods of its own, a capability that declares them, tools, resources and prompts, and work in
/// the background. Every function except [`register`](Self::register) has a default that does nothing.
///
/// ```
/// use mcp_protocol::{JsonObject, ProtocolVersion, RpcError, ServerCapabilities};
/// use mcp_server_core::{
///     RegistrationError, Server,
///     extension::{MethodCall, MethodResult, MethodRoute, Registrar, ServerExtension},
/// };
///
/// /// Serves `com.example/echo`, which returns its text.
/// struct Echo;
///
/// #[derive(serde::Deserialize)]
/// struct EchoParams {
///     text: String,
/// }
///
/// async fn echo(call: MethodCall) -> Result<MethodResult, RpcError> {
///     let EchoParams { text } = call.params()?;
///     MethodResult::json(&serde_json::json!({ "text": text }))
/// }
///
/// impl ServerExtension for Echo {
///     fn register(&mut self, registrar: &mut Registrar<'_>) -> Result<(), RegistrationError> {
///         registrar.method(MethodRoute::new("com.example/echo", echo))
///     }
///
///     fn declare(&self, _version: ProtocolVersion, capabilities: ServerCapabilities) -> ServerCapabilities {
///         capabilities.with_extension("com.example/echo", JsonObject::new())
///     }
/// }
///
/// let server = Server::builder("echo", "1.0.0").extension(Echo).build();
/// # let _: Server = server;
/// ```
pub trait ServerExtension: Send + Sync + 'static {
    /// Registers the methods, tools, resources and prompts of the extension. The builder calls it once.
    ///
    /// # Errors
    /// Returns the reason why the extension cannot be added, for example a name that is already registered.
    fn register(&mut self, registrar: &mut Registrar<'_>) -> Result<(), RegistrationError>;

    /// Adds the capability of the extension to those of the server.
    ///
    /// The server calls it for each client that asks for capabilities, with the revision of the client. If it panics, the
    /// client receives an internal error.
    fn declare(&self, _version: ProtocolVersion, capabilities: ServerCapabilities) -> ServerCapabilities {
        capabilities
    }

    /// Runs once when the builder builds the server, after the registrations of all extensions.
    ///
    /// Use it to prepare data that depends on all registrations. A builder may receive several values of one extension, and
    /// [`register`](Self::register) of the first value runs before the second value exists. [`start`](Self::start) may
    /// run after the first request. For example, the skills of all `Skills` values make one catalog.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    ///
    /// use mcp_server_core::{
    ///     RegistrationError, Server,
    ///     extension::{Registrar, ServerExtension},
    /// };
    ///
    /// type List = Arc<Mutex<Vec<&'static str>>>;
    ///
    /// /// Adds a word to a list that is sorted when the server is built.
    /// struct Word(&'static str, List);
    ///
    /// impl ServerExtension for Word {
    ///     fn register(&mut self, _registrar: &mut Registrar<'_>) -> Result<(), RegistrationError> {
    ///         self.1.lock().unwrap().push(self.0);
    ///         Ok(())
    ///     }
    ///
    ///     fn built(&self) {
    ///         self.1.lock().unwrap().sort_unstable();
    ///     }
    /// }
    ///
    /// let list = List::default();
    /// let (pear, apple) = (Word("pear", list.clone()), Word("apple", list.clone()));
    /// let server = Server::builder("words", "1.0.0").extension(pear).extension(apple).build();
    /// assert_eq!(*list.lock().unwrap(), ["apple", "pear"]);
    /// # let _: Server = server;
    /// ```
    ///
    /// If it panics, the panic is logged. The server then drops the extension: it declares no capability of the extension and
    /// does not start its background work. The registered methods, tools, resources and prompts remain.
    fn built(&self) {}

    /// Starts the background work of the extension, if it has any.
    ///
    /// The server calls it when it is built inside a Tokio runtime, otherwise with the first session or change stream. It
    /// runs the future as a task, and drops the future when the server shuts down or its last clone is dropped. When the
    /// runtime ends before the server, the server calls `start` again in the next runtime. A panic is logged, and the work does
    /// not start again.
    ///
    /// The extension counts the time in which the server runs:
    ///
    /// ```
    /// use std::{
    ///     sync::{
    ///         Arc,
    ///         atomic::{AtomicU64, Ordering},
    ///     },
    ///     time::Duration,
    /// };
    ///
    /// use mcp_server_core::{
    ///     RegistrationError, Server,
    ///     extension::{BackgroundWork, Registrar, ServerExtension, WeakServer},
    /// };
    ///
    /// #[derive(Clone, Default)]
    /// struct Minutes(Arc<AtomicU64>);
    ///
    /// impl ServerExtension for Minutes {
    ///     fn register(&mut self, _registrar: &mut Registrar<'_>) -> Result<(), RegistrationError> {
    ///         Ok(())
    ///     }
    ///
    ///     fn start(&self, _server: WeakServer) -> Option<BackgroundWork> {
    ///         let minutes = self.0.clone();
    ///         Some(BackgroundWork::new(async move {
    ///             loop {
    ///                 tokio::time::sleep(Duration::from_secs(60)).await;
    ///                 minutes.fetch_add(1, Ordering::Relaxed);
    ///             }
    ///         }))
    ///     }
    ///
    ///     fn stop(&self) {
    ///         println!("the server ran for {} minutes", self.0.load(Ordering::Relaxed));
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let minutes = Minutes::default();
    /// let server = Server::builder("clock", "1.0.0").extension(minutes.clone()).build();
    /// tokio::time::sleep(Duration::from_secs(150)).await;
    /// assert_eq!(minutes.0.load(Ordering::Relaxed), 2);
    /// server.shutdown();
    /// # }
    /// ```
    fn start(&self, _server: WeakServer) -> Option<BackgroundWork> {
        None
    }

    /// Runs once when the server shuts down, or when its last clone is dropped. It must not block.
    fn stop(&self) {}
}

/// The work that an extension does in the background while the server runs.
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// use mcp_server_core::extension::{BackgroundWork, WeakServer};
///
/// fn announce_prompts(server: WeakServer) -> BackgroundWork {
///     BackgroundWork::new(async move {
///         loop {
///             tokio::time::sleep(Duration::from_secs(60)).await;
///             let Some(server) = server.upgrade() else { return };
///             server.notify().prompts_changed();
///         }
///     })
/// }
/// ```
#[must_use = "the work does nothing until the server runs it"]
pub struct BackgroundWork(Pin<Box<dyn Future<Output = ()> + Send>>);

impl BackgroundWork {
    /// Wraps a future.
    ///
    /// See the [example](Self#example).
    pub fn new(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Box::pin(work))
    }
}

impl fmt::Debug for BackgroundWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BackgroundWork")
    }
}

/// An extension in the form that the data of the server holds.
pub(crate) struct Installation<E>(pub(crate) E);

impl<E: ServerExtension> Installed for Installation<E> {
    fn declare(&self, version: ProtocolVersion, capabilities: ServerCapabilities) -> ServerCapabilities {
        self.0.declare(version, capabilities)
    }

    fn built(&self) {
        self.0.built();
    }

    fn start(&self, server: WeakServer) -> Option<crate::data::Background> {
        self.0.start(server).map(|work| work.0)
    }

    fn stop(&self) {
        self.0.stop();
    }
}
