//! The client: a handle for one server.

mod arguments;
mod builder;

use std::{fmt, sync::Arc};

use mcp_protocol::{
    CompleteParams, CompleteResult, CompletionArgument, CompletionReference, EmptyParams, EmptyResult, GetPromptParams,
    GetPromptResult, Implementation, LoggingLevel, Method, Prompt, ProtocolVersion, ReadResourceParams,
    ReadResourceResult, Resource, ResourceTemplate, SetLevelParams, SubscriptionFilter, Tool, jsonrpc, method,
    tasks::Task,
};
use mcp_transport::Connect;
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use tokio::sync::watch;

use self::arguments::{object, texts};
pub use self::builder::ClientBuilder;
use crate::{
    Call, Error, IntoConnector, List, Negotiated, Notifications, Roots, State, Subscription, TaskHandle, ToolResult,
    call::{ClientCore, ClientHandle, OwnedTasks, tool_result},
    config::Config,
    connection::{Request, Status, supervisor},
    error::Kind,
    inbound::{Callbacks, HandlerSet, send_root_changes},
    subscription::keep_for_callbacks,
};

/// A client of one server, which reopens its connection when that is lost.
///
/// Clones are cheap, share the connection, and can be used from any task. Dropping the last clone closes the
/// connection.
///
/// ```
/// # use mcp_client::{Client, Error};
/// # async fn example(target: impl mcp_client::transport::Connect) -> Result<(), Error> {
/// let client = Client::builder("my-app", "1.0").connect(target).await?;
/// for tool in client.list_tools().await? {
///     println!("{}", tool.display_name());
/// }
/// let sum = client.call_tool("add", serde_json::json!({ "a": 1, "b": 2 })).await?;
/// println!("{}", sum.text());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    handle: Arc<ClientHandle>,
}

impl Client {
    /// Returns a builder for a client with this name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(Implementation::new(name, version))
    }

    /// Connects with the default settings: no handlers, and the name of this library.
    ///
    /// # Errors
    /// As for [`ClientBuilder::connect`].
    pub async fn connect<M>(target: impl IntoConnector<M>) -> Result<Self, Error> {
        Self::builder(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).connect(target).await
    }

    async fn open(
        config: Config,
        handlers: HandlerSet,
        callbacks: Callbacks,
        known: Option<Negotiated>,
        connector: Arc<dyn Connect>,
    ) -> Result<Self, Error> {
        let core = ClientCore::new(config, handlers, connector);
        let client = Self { handle: ClientHandle::new(&core) };
        let manager = &core.connections;
        // A server may send notifications as soon as the connection is open, so the callbacks start first.
        let filter = callbacks.filter.clone();
        callbacks.listen(&core.inbound.hub, manager.closing.clone());
        if let Some(roots) = core.inbound.handlers.roots.clone() {
            send_root_changes(manager, roots);
        }
        let connection = supervisor::open(manager, known.as_ref(), true).await?;
        manager.set_status(Status::Ready(Arc::clone(&connection)));
        if !filter.is_empty() {
            tokio::spawn(keep_for_callbacks(Arc::clone(&core), filter));
        }
        tokio::spawn(supervisor::supervise(Arc::clone(manager), connection));
        Ok(client)
    }

    #[cfg(feature = "skills")]
    pub(crate) fn handle(&self) -> &Arc<ClientHandle> {
        &self.handle
    }

    fn core(&self) -> &Arc<ClientCore> {
        &self.handle.core
    }

    /// Calls a tool. `arguments` serializes to a JSON object: a struct, a map, or [`serde_json::json!`]. `()` means no
    /// arguments.
    ///
    /// The result of a failed tool is not an error of the call: see [`ToolResult::is_error`] and [`ToolResult::ok`].
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let sum = client.call_tool("add", serde_json::json!({ "a": 1, "b": 2 })).await?;
    /// println!("{}", sum.text());
    /// # Ok(())
    /// # }
    /// ```
    pub fn call_tool(&self, name: impl AsRef<str>, arguments: impl Serialize) -> Call<ToolResult> {
        #[derive(Serialize)]
        struct Params<'a> {
            name: &'a str,
            arguments: &'a RawValue,
        }
        let name = name.as_ref();
        let request = object(&arguments).and_then(|arguments| {
            let params = Params { name, arguments: &arguments };
            Ok(Request::new(method::CallTool::NAME, &params)?.named(name))
        });
        Call::with(&self.handle, request, tool_result)
    }

    /// Lists the tools: all pages, [one page](List::page), or [a stream](List::stream).
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// for tool in client.list_tools().await? {
    ///     println!("{}", tool.name);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_tools(&self) -> List<Tool> {
        List::new(&self.handle)
    }

    /// Lists the resources.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let resources = client.list_resources().await?;
    /// println!("{} resources", resources.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_resources(&self) -> List<Resource> {
        List::new(&self.handle)
    }

    /// Lists the resource templates.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let templates = client.list_resource_templates().await?;
    /// println!("{} templates", templates.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_resource_templates(&self) -> List<ResourceTemplate> {
        List::new(&self.handle)
    }

    /// Lists the prompts.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let prompts = client.list_prompts().await?;
    /// println!("{} prompts", prompts.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_prompts(&self) -> List<Prompt> {
        List::new(&self.handle)
    }

    /// Returns a handle for a task with a known id, which can be from another connection or program.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let task = client.task("786512e2-9e0d-44bd-8f29-789f320fe840");
    /// println!("{:?}", task.status().await?.status);
    /// # Ok(())
    /// # }
    /// ```
    pub fn task(&self, id: impl Into<String>) -> TaskHandle {
        TaskHandle::new(&self.handle, id.into())
    }

    /// Lists the tasks of this client (2025-11-25). Later revisions have no such list.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// for task in client.list_tasks().await? {
    ///     println!("{}: {:?}", task.task_id, task.status);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_tasks(&self) -> List<Task> {
        List::new(&self.handle)
    }

    /// Reads a resource.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let read = client.read_resource("config://app").await?;
    /// println!("{} parts", read.contents.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_resource(&self, uri: impl AsRef<str>) -> Call<ReadResourceResult> {
        let uri = uri.as_ref();
        let request = Request::of::<method::ReadResource>(&ReadResourceParams::new(uri));
        Call::new(&self.handle, request.map(|request| request.named(uri)))
    }

    /// Gets a prompt with arguments. `arguments` serializes to strings with names: pairs, a map, a struct, or
    /// [`serde_json::json!`]. `()` means no arguments.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let prompt = client.get_prompt("review", [("language", "Rust")]).await?;
    /// println!("{} messages", prompt.messages.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_prompt(&self, name: impl AsRef<str>, arguments: impl Serialize) -> Call<GetPromptResult> {
        let name = name.as_ref();
        let request = texts(&arguments).and_then(|arguments| {
            let params = arguments
                .into_iter()
                .fold(GetPromptParams::new(name), |params, (argument, value)| params.with_argument(argument, value));
            Ok(Request::of::<method::GetPrompt>(&params)?.named(name))
        });
        Call::new(&self.handle, request)
    }

    /// Requests completions for an argument of a prompt, or for a variable of a resource template. `value` is the text
    /// so far.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// use mcp_client::protocol::CompletionReference;
    ///
    /// let found = client.complete(CompletionReference::prompt("review"), "language", "R").await?;
    /// println!("{:?}", found.completion.values);
    /// # Ok(())
    /// # }
    /// ```
    pub fn complete(
        &self,
        reference: CompletionReference,
        argument: impl Into<String>,
        value: impl Into<String>,
    ) -> Call<CompleteResult> {
        self.complete_with(&CompleteParams::new(reference, CompletionArgument::new(argument, value)))
    }

    /// Requests completions with the values of other arguments.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// use mcp_client::protocol::{CompleteParams, CompletionArgument, CompletionReference};
    ///
    /// let argument = CompletionArgument::new("language", "R");
    /// let params = CompleteParams::new(CompletionReference::prompt("review"), argument);
    /// println!("{:?}", client.complete_with(&params).await?.completion.values);
    /// # Ok(())
    /// # }
    /// ```
    pub fn complete_with(&self, params: &CompleteParams) -> Call<CompleteResult> {
        Call::new(&self.handle, Request::of::<method::Complete>(params))
    }

    /// Sends a request of the protocol with typed parameters and a typed result.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// use mcp_client::protocol::{PaginatedParams, method::ListTools};
    ///
    /// let page = client.request::<ListTools>(&PaginatedParams::new()).await?;
    /// println!("{} tools", page.tools.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn request<M: Method>(&self, params: &M::Params) -> Call<M::Result> {
        Call::new(&self.handle, Request::of::<M>(params).map(|request| request.named_by(M::MIRRORED_PARAM)))
    }

    /// Sends a request with any method. `params` serializes to a JSON object; `()` means no parameters.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let answer = client.request_raw("vendor/search", serde_json::json!({ "text": "x" })).await?;
    /// println!("{answer}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn request_raw(&self, method: impl Into<String>, params: impl Serialize) -> Call<Value> {
        Call::new(&self.handle, Request::new(method.into(), &params).map(Request::find_name))
    }

    /// Sends a notification with any method. `params` serializes to a JSON object; `()` means no parameters.
    ///
    /// # Errors
    /// [`Error::is_invalid_request`] if the parameters are not a JSON object. Else as for every [`Call`].
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// client.notify("vendor/saved", serde_json::json!({ "file": "a.txt" })).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn notify(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        let params = object(&params)?;
        let message = jsonrpc::notification(method, &params).map_err(|error| Error::request(error.to_string()))?;
        let limit = self.core().config.idle_timeout;
        let connection = match limit {
            Some(limit) => self.core().connections.connection_within(limit).await?,
            None => self.core().connections.connection().await?,
        };
        let sending = async {
            let sent = connection.sender.send(connection.notice(method, message)).await;
            sent.map_err(|fault| match fault.is_lasting() {
                true => Kind::Unsendable(fault).into(),
                false => Kind::Transport(fault).into(),
            })
        };
        match limit {
            Some(limit) => {
                let sent = tokio::time::timeout(limit, sending).await;
                sent.unwrap_or_else(|_| Err(Error::timeout(method, limit)))
            }
            None => sending.await,
        }
    }

    /// Sends `ping`, or `server/discover` in 2026-07-28, and waits for the answer.
    ///
    /// # Errors
    /// As for every [`Call`].
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// client.ping().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ping(&self) -> Result<(), Error> {
        let has_ping = self.version().has_session_methods();
        let limit = self.core().config.ping_timeout;
        if has_ping {
            self.request::<method::Ping>(&EmptyParams::new()).idle_timeout(limit).await?;
        } else {
            self.request::<method::Discover>(&EmptyParams::new()).idle_timeout(limit).fresh().await?;
        }
        Ok(())
    }

    /// Requests log messages from this level on. They are delivered as [notifications](Client::notifications).
    ///
    /// The level holds for this session and later ones. In 2026-07-28 the client sends it with each later call.
    ///
    /// # Errors
    /// As for every [`Call`].
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// use mcp_client::protocol::LoggingLevel;
    ///
    /// client.set_log_level(LoggingLevel::Warning).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_log_level(&self, level: LoggingLevel) -> Result<(), Error> {
        if self.version().has_session_methods() {
            let _: EmptyResult = self.request::<method::SetLevel>(&SetLevelParams::new(level)).await?;
        }
        self.core().connections.set_log_level(level);
        Ok(())
    }

    /// Returns the notifications that the server sends from now on.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let mut notifications = client.notifications();
    /// while let Some(notification) = notifications.next().await {
    ///     println!("{}", notification.method());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn notifications(&self) -> Notifications {
        self.core().inbound.hub.listen()
    }

    /// Subscribes to changes of lists, resources and tasks. The subscription continues after a reconnection, in every
    /// revision.
    ///
    /// # Errors
    /// If the server rejects the subscription or cannot be reached.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// use mcp_client::protocol::SubscriptionFilter;
    ///
    /// let mut changes = client.listen(SubscriptionFilter::lists()).await?;
    /// while let Some(change) = changes.next().await {
    ///     println!("{:?}", change?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn listen(&self, filter: SubscriptionFilter) -> Result<Subscription, Error> {
        Subscription::open(&self.handle, filter).await
    }

    /// Subscribes to changes of these resources alone. See [`Client::listen`].
    ///
    /// # Errors
    /// As for [`Client::listen`].
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let mut changes = client.subscribe(["config://app"]).await?;
    /// println!("{:?}", changes.next().await);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn subscribe<U: Into<String>>(&self, uris: impl IntoIterator<Item = U>) -> Result<Subscription, Error> {
        self.listen(SubscriptionFilter::new().with_resources(uris)).await
    }

    /// Returns the roots of the client, which can be changed; `None` if [`ClientBuilder::roots`] was not called.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// use mcp_client::protocol::Root;
    ///
    /// if let Some(roots) = client.roots() {
    ///     roots.add(Root::new("file:///home/ada/project"))?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn roots(&self) -> Option<Roots> {
        self.core().inbound.handlers.roots.clone()
    }

    /// Returns the result of the negotiation. It can be stored and given to another client ([`ClientBuilder::known`]).
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let stored = serde_json::to_string(&*client.negotiated()).unwrap();
    /// println!("{stored}");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn negotiated(&self) -> Arc<Negotiated> {
        // A program has a client only after the first negotiation.
        self.core().connections.negotiated().unwrap_or_else(|| Arc::new(Negotiated::new(ProtocolVersion::LATEST)))
    }

    /// Returns the negotiated revision.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// println!("{}", client.version());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.negotiated().version
    }

    /// Returns the name and version of the server, for display only; empty if the server did not send them.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// println!("{}", client.server_info().name);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn server_info(&self) -> Implementation {
        self.negotiated().server_info.clone()
    }

    /// Returns the state of the connection.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// println!("{:?}", client.state());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn state(&self) -> State {
        *self.core().connections.states().borrow()
    }

    /// Returns a receiver of the state of the connection.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let mut states = client.states();
    /// while states.changed().await.is_ok() {
    ///     println!("{:?}", *states.borrow());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn states(&self) -> watch::Receiver<State> {
        self.core().connections.states()
    }

    /// Returns the number of requests that wait for an answer.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// println!("{} requests", client.pending());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn pending(&self) -> usize {
        self.core().connections.current().map_or(0, |connection| connection.pending.len())
    }

    /// Closes the connection and opens another one. Running calls fail as if the connection was lost, later ones wait.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// client.reconnect();
    /// client.ping().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn reconnect(&self) {
        match self.core().connections.current() {
            Some(connection) => connection.end(None),
            None => self.core().connections.wake.notify_one(),
        }
    }

    /// Closes the connection for all clones, and waits until it is closed. Running calls fail with
    /// [`Error::is_closed`].
    ///
    /// The client first cancels the tasks that its calls wait for, and then the calls. Each of the two steps, and
    /// closing the transport, takes at most [`Limits::close`](crate::Limits::close). A child process has its own time
    /// if that is longer ([`ChildProcess::end_within`](crate::ChildProcess::end_within)). It has ended when this method
    /// returns.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// client.close().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(&self) {
        let mut states = self.states();
        OwnedTasks::close(self.core()).await;
        // The supervisor and the reading task bound these waits.
        let _ = states.wait_for(|state| *state == State::Closed).await;
        self.core().connections.connections.closed().await;
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("peer", &self.core().connections.connector.describe())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
