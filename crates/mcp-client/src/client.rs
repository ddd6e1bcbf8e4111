//! The handle: what a program calls.

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
use serde_json::{
    Value, from_value, to_value,
    value::{RawValue, to_raw_value},
};
use tokio::sync::watch;

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

/// A connection to one server, which opens again by itself. Cheap to clone, and usable from any task; the connection is closed
/// when the last clone is dropped.
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
    /// Starts to build a client that calls itself by this name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(Implementation::new(name, version))
    }

    /// Connects to a server, as a client that has no name of its own and can answer nothing.
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

    /// Calls a tool. `arguments` becomes a JSON object: a struct, a map, or [`serde_json::json!`]; `()` for none.
    ///
    /// A tool that failed is no error here: see [`ToolResult::is_error`] and [`ToolResult::ok`].
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

    /// The tools: awaited all, or [page by page](List::page) or [one by one](List::stream).
    pub fn list_tools(&self) -> List<Tool> {
        List::new(&self.handle)
    }

    /// The resources.
    pub fn list_resources(&self) -> List<Resource> {
        List::new(&self.handle)
    }

    /// The families of resources.
    pub fn list_resource_templates(&self) -> List<ResourceTemplate> {
        List::new(&self.handle)
    }

    /// The prompts.
    pub fn list_prompts(&self) -> List<Prompt> {
        List::new(&self.handle)
    }

    /// A task by its id: one that was made here or elsewhere, now or before.
    pub fn task(&self, id: impl Into<String>) -> TaskHandle {
        TaskHandle::new(&self.handle, id.into())
    }

    /// The tasks of this client (2025-11-25; later ones are known by their ids alone).
    pub fn list_tasks(&self) -> List<Task> {
        List::new(&self.handle)
    }

    /// Reads a resource.
    pub fn read_resource(&self, uri: impl AsRef<str>) -> Call<ReadResourceResult> {
        let uri = uri.as_ref();
        let request = Request::of::<method::ReadResource>(&ReadResourceParams::new(uri));
        Call::new(&self.handle, request.map(|request| request.named(uri)))
    }

    /// Fills in a prompt. `arguments` are strings by their names: pairs, a map, a struct, or [`serde_json::json!`]; `()` for none.
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

    /// Completes an argument of a prompt or a variable of a resource template, of which `value` is typed so far.
    pub fn complete(
        &self,
        reference: CompletionReference,
        argument: impl Into<String>,
        value: impl Into<String>,
    ) -> Call<CompleteResult> {
        self.complete_with(&CompleteParams::new(reference, CompletionArgument::new(argument, value)))
    }

    /// Completes an argument, with what is known of the others.
    pub fn complete_with(&self, params: &CompleteParams) -> Call<CompleteResult> {
        Call::new(&self.handle, Request::of::<method::Complete>(params))
    }

    /// Sends any request of the protocol, with its own types.
    pub fn request<M: Method>(&self, params: &M::Params) -> Call<M::Result> {
        Call::new(&self.handle, Request::of::<M>(params).map(Request::find_name))
    }

    /// Sends any request, also one that the protocol does not know. `params` becomes a JSON object; `()` for none.
    pub fn request_raw(&self, method: impl Into<String>, params: impl Serialize) -> Call<Value> {
        Call::new(&self.handle, Request::new(method.into(), &params).map(Request::find_name))
    }

    /// Sends any notification. `params` becomes a JSON object; `()` for none.
    ///
    /// # Errors
    /// When the parameters are no JSON object, or there is no connection within the time of a call.
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

    /// Asks for a sign of life: by `ping`, or by `server/discover` where there is no `ping` (2026-07-28).
    ///
    /// # Errors
    /// As for every [`Call`].
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

    /// Asks for log messages from this level on: of this session and those that are opened after it, or with each call from now on
    /// (2026-07-28). They come as [notifications](Client::notifications).
    ///
    /// # Errors
    /// As for every [`Call`].
    pub async fn set_log_level(&self, level: LoggingLevel) -> Result<(), Error> {
        if self.version().has_session_methods() {
            let _: EmptyResult = self.request::<method::SetLevel>(&SetLevelParams::new(level)).await?;
        }
        self.core().connections.set_log_level(level);
        Ok(())
    }

    /// The notifications that come from now on.
    #[must_use]
    pub fn notifications(&self) -> Notifications {
        self.core().inbound.hub.listen()
    }

    /// Hears of what changes on the server: lists, resources, tasks. The same in every revision; the stream goes on over
    /// reconnections.
    ///
    /// # Errors
    /// When the server does not tell what changes, or cannot be reached.
    pub async fn listen(&self, filter: SubscriptionFilter) -> Result<Subscription, Error> {
        Subscription::open(&self.handle, filter).await
    }

    /// Hears of what changes in resources: [`Client::listen`] for these alone.
    ///
    /// # Errors
    /// As for [`Client::listen`].
    pub async fn subscribe<U: Into<String>>(&self, uris: impl IntoIterator<Item = U>) -> Result<Subscription, Error> {
        self.listen(SubscriptionFilter::new().with_resources(uris)).await
    }

    /// The roots that the client was built with, to change them; `None` when it has none.
    #[must_use]
    pub fn roots(&self) -> Option<Roots> {
        self.core().inbound.handlers.roots.clone()
    }

    /// What was agreed with the server. It can be stored and given to another client ([`ClientBuilder::known`]).
    #[must_use]
    pub fn negotiated(&self) -> Arc<Negotiated> {
        // Whoever has a client has been connected.
        self.core().connections.negotiated().unwrap_or_else(|| Arc::new(Negotiated::new(ProtocolVersion::LATEST)))
    }

    /// The revision that is spoken.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.negotiated().version
    }

    /// Who the server is; without a name when it did not say. Only for showing.
    #[must_use]
    pub fn server_info(&self) -> Implementation {
        self.negotiated().server_info.clone()
    }

    /// How the connection stands.
    #[must_use]
    pub fn state(&self) -> State {
        *self.core().connections.states().borrow()
    }

    /// How the connection stands, to be watched.
    #[must_use]
    pub fn states(&self) -> watch::Receiver<State> {
        self.core().connections.states()
    }

    /// How many requests wait for their answers.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.core().connections.current().map_or(0, |connection| connection.pending.len())
    }

    /// Gives the connection up and opens another one. Calls that run fail as when a connection is lost; new ones wait.
    pub fn reconnect(&self) {
        match self.core().connections.current() {
            Some(connection) => connection.end(None),
            None => self.core().connections.wake.notify_one(),
        }
    }

    /// Closes the connection, for all clones, and waits until it is closed. Calls that run fail with [`Error::is_closed`].
    ///
    /// This takes [`Limits::close`](crate::Limits::close) at most for what the server is told, and as long again for the transport.
    /// A child process has its own time instead where that is longer: it is gone when this returns
    /// ([`ChildProcess::end_within`](crate::ChildProcess::end_within)).
    pub async fn close(&self) {
        let mut states = self.states();
        OwnedTasks::close(self.core()).await;
        self.core().connections.closing.cancel();
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

/// Parameters or arguments as a JSON object; nothing is an empty one, since some servers insist on it.
fn object(value: &impl Serialize) -> Result<Box<RawValue>, Error> {
    let raw = to_raw_value(value).map_err(|error| Error::request(error.to_string()))?;
    match raw.get() {
        "null" => to_raw_value(&EmptyParams::new()).map_err(|error| Error::request(error.to_string())),
        text if text.starts_with('{') => Ok(raw),
        _ => Err(Error::request("arguments are a JSON object")),
    }
}

/// The arguments of a prompt. An absent value leaves its argument out.
fn texts(arguments: &impl Serialize) -> Result<Vec<(String, String)>, Error> {
    let pairs: Vec<(String, Value)> = match to_value(arguments) {
        Ok(Value::Null) => Vec::new(),
        Ok(Value::Object(members)) => members.into_iter().collect(),
        Ok(pairs) => {
            from_value(pairs).map_err(|_| Error::request("the arguments of a prompt are strings by their names"))?
        }
        Err(error) => return Err(Error::request(error.to_string())),
    };
    let text = |(name, value)| match value {
        Value::Null => None,
        Value::String(text) => Some(Ok((name, text))),
        _ => Some(Err(Error::request(format!("the argument {name:?} of a prompt is a string")))),
    };
    pairs.into_iter().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_of_prompts_are_strings_in_whatever_form() {
        let pair = || Some(vec![("a".to_owned(), "1".to_owned())]);
        assert_eq!(texts(&()).ok(), Some(Vec::new()));
        assert_eq!(texts(&[("a", "1")]).ok(), pair());
        assert_eq!(texts(&vec![("a".to_owned(), "1".to_owned())]).ok(), pair());
        assert_eq!(texts(&std::collections::BTreeMap::from([("a", "1")])).ok(), pair());
        assert_eq!(texts(&json!({ "a": "1", "b": null })).ok(), pair());
        for bad in [json!({ "a": 1 }), json!([1]), json!("a"), json!([["a", "1", "b"]])] {
            assert!(texts(&bad).unwrap_err().to_string().contains("string"), "{bad}");
        }
    }
}
