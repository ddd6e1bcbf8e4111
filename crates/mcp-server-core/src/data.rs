//! The data of a server: registries, configuration, limits and shared state. The handle [`Server`] is one pointer to it.

mod installed;

use std::sync::{Arc, atomic::AtomicUsize};

use mcp_protocol::{Implementation, ProtocolVersion};
use mcp_store::Store;

pub use self::installed::WeakServer;
pub(crate) use self::installed::{Background, Installed, InstalledExtensions};
use crate::{
    access::Access,
    cache_hint::CacheHint,
    context::Context,
    error::ToolError,
    handler::{CallParts, FromCallParts},
    inputs::{InputServices, StateKeys},
    layers::HandlerService,
    limits::Limits,
    node::Node,
    publisher::Publisher,
    registry::{ListStyle, PromptEntry, Registry, ResourceEntry, TemplateEntry, ToolEntry},
    request::ServerIdentity,
    session::{ClientIdentities, Gate, NotificationHook},
    shutdown::{RunningWork, Shutdown},
    source::InstalledSource,
    tasks::{Driver, TaskPolicy, TaskTable},
    trace::Bridge,
};

/// An MCP server that is ready to serve over any transport. Clones are cheap and share one server.
///
/// | transport | how to serve |
/// |---|---|
/// | stdio | [`Server::serve_stdio`] |
/// | a reader and a writer | [`Server::serve_io`] |
/// | any other [`Transport`](mcp_transport::Transport) | [`Server::serve`] |
/// | HTTP and HTTPS | `mcp_server::http::serve(listener, server)`, or `server.serve_http(address)` of the trait `mcp_server::http::HttpServer` |
/// | an axum application, a tower stack | `server.into_router(config)` and `server.into_service(config)` of the same trait |
///
/// # Example
/// ```
/// use mcp_server_core::{Server, prompt, resource, tool};
/// use serde_json::json;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let server = Server::builder("greeter", "1.0.0")
///     .tool(tool("hello", async || "Hello!"))
///     .resource(resource("greetings://all", async || "hello, hi"))
///     .prompt(prompt("politely", async || "Greet me politely."))
///     .build();
/// // server.serve_stdio().await
///
/// // Without a transport:
/// assert_eq!(server.info().name, "greeter");
/// assert_eq!(server.call_tool("hello", json!({})).await?.content[0].as_text(), Some("Hello!"));
/// assert_eq!(server.read_resource("greetings://all").await?.contents.len(), 1);
/// assert_eq!(server.get_prompt("politely", [("", ""); 0]).await?.messages.len(), 1);
/// assert_eq!(server.tools().names(), ["hello"]);
/// assert_eq!(server.resources().names(), ["greetings://all"]);
/// assert!(server.resource_templates().names().is_empty());
/// assert_eq!(server.prompts().names(), ["politely"]);
/// println!("{:?} {:?} {:?}", server.versions(), server.limits(), server.required_scopes());
///
/// server.shutdown();
/// server.shutting_down().await;
/// assert!(server.is_shutting_down());
/// # Ok::<_, mcp_protocol::RpcError>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Server {
    pub(crate) data: Arc<ServerData>,
}

/// Everything that the clones of a [`Server`] share.
pub(crate) struct ServerData {
    pub(crate) config: Config,
    pub(crate) tools: Registry<ToolEntry>,
    pub(crate) resources: Registry<ResourceEntry>,
    pub(crate) templates: Registry<TemplateEntry>,
    pub(crate) prompts: Registry<PromptEntry>,
    pub(crate) list_style: ListStyle,
    pub(crate) gate: Arc<Gate>,
    pub(crate) publisher: Publisher,
    pub(crate) clients: ClientIdentities,
    pub(crate) shutdown: Shutdown,
    pub(crate) inputs: Arc<InputServices>,
    pub(crate) identity: ServerIdentity,
    pub(crate) tasks: Arc<TaskTable>,
    /// The work that a listener waits for.
    pub(crate) work: RunningWork,
    /// The number of the listeners that have not stopped.
    pub(crate) listeners: AtomicUsize,
    /// This node, if the server shares its store with other nodes.
    pub(crate) node: Option<Arc<Node>>,
    pub(crate) extensions: InstalledExtensions,
}

/// The configuration of a server, without its registrations.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) info: Implementation,
    pub(crate) instructions: Option<String>,
    pub(crate) versions: Vec<ProtocolVersion>,
    pub(crate) limits: Limits,
    pub(crate) list_cache: CacheHint,
    pub(crate) read_cache: CacheHint,
    pub(crate) discover_cache: CacheHint,
    pub(crate) access: Access,
    pub(crate) state_keys: Option<StateKeys>,
    /// Whether lists contain the tools whose scopes the caller lacks.
    pub(crate) lists_forbidden_entries: bool,
    /// Whether answers of stateless clients count without a proof that the question was asked.
    pub(crate) accepts_unsolicited_answers: bool,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) on_notification: Option<NotificationHook>,
    pub(crate) task_policy: TaskPolicy,
    /// Whether the application creates tasks outside of calls.
    pub(crate) standalone_tasks: bool,
    /// The layers around all handlers.
    pub(crate) layers: Option<HandlerService>,
    pub(crate) bridge: Option<Bridge>,
    /// Whether clients receive the details of faults.
    pub(crate) shows_faults: bool,
    /// Lists that are declared before they have entries.
    pub(crate) dynamic_tools: bool,
    pub(crate) dynamic_resources: bool,
    pub(crate) dynamic_prompts: bool,
    /// The source of the lists and results, instead of registered handlers.
    pub(crate) source: Option<InstalledSource>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("info", &self.data.config.info).finish_non_exhaustive()
    }
}

impl ServerData {
    /// Returns the parts of the server that a task needs until its end.
    pub(crate) fn task_driver(&self) -> Driver {
        Driver { table: self.tasks.clone(), shutdown: self.shutdown.clone(), work: self.work.clone() }
    }
}

impl Context {
    /// Returns the server of the handler, for example to add a tool.
    ///
    /// ```
    /// use mcp_server_core::{Context, Server, tool};
    ///
    /// async fn install(context: Context) -> String {
    ///     match context.server().tools().add(tool("greet", async || "Hello!")) {
    ///         Ok(()) => "installed".to_owned(),
    ///         Err(error) => error.to_string(),
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = Server::builder("plugins", "1.0.0").tool(tool("install", install)).build();
    /// server.call_tool("install", serde_json::json!({})).await?;
    /// assert_eq!(server.tools().names(), ["install", "greet"]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn server(&self) -> &Server {
        match self.any_server().downcast_ref() {
            Some(server) => server,
            None => unreachable!("every context is made by the engine, with its server"),
        }
    }
}

/// The server that the handler belongs to.
impl<S: Send + Sync> FromCallParts<S> for Server {
    async fn from_call_parts(parts: &mut CallParts, _state: &S) -> Result<Self, ToolError> {
        Ok(parts.context.server().clone())
    }
}
