//! A call: a builder that sends a request when it is awaited.

mod attempts;
mod cache;
mod capabilities;
mod catalog;
mod core;
mod created_task;
mod execute;
mod list;
mod omitted;
mod options;
mod page;
mod raw_inputs;
mod raw_item;
mod raw_result;
mod reply;
mod send_once;
mod task_handle;
mod tasks;
mod tool_result;
mod url_elicitation;

use std::{fmt, sync::Arc, time::Duration};

use mcp_protocol::{LoggingLevel, Meta, Method, ProgressParams, method};
use mcp_transport::BoxFuture;
use serde::de::DeserializeOwned;

pub(crate) use self::{
    attempts::{Answer, send_until_answered},
    cache::ResultCache,
    catalog::ToolCatalog,
    core::{ClientCore, ClientHandle},
    execute::{answer_inputs, execute, execute_or_start_task},
    options::CallOptions,
    reply::Reply,
    send_once::{Clocks, Mark},
    tasks::OwnedTasks,
    tool_result::tool_result,
};
pub use self::{
    created_task::{CreatedTask, TaskProgress},
    list::{Items, List, ListWarning, Listing},
    omitted::OmittedItem,
    page::{ListItem, Page},
    raw_inputs::{InputRequired, RawInputs, Round},
    raw_item::RawItem,
    raw_result::RawResult,
    task_handle::{TaskCall, TaskHandle, TaskOrResult},
    tool_result::ToolResult,
};
use crate::{Error, Handler, connection::Request};

/// A call to a server. It is sent when it is awaited. Dropping its future cancels it on the server.
///
/// # Errors
/// [`Error::is_timeout`] if the server does not answer in time, [`Error::rpc`] if it answers with an error,
/// [`Error::is_closed`] if the connection is lost. See [`Error`] for all.
///
/// # Example
/// ```no_run
/// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
/// use std::time::Duration;
///
/// use mcp_client::protocol::{LoggingLevel, Meta};
///
/// let result = client
///     .call_tool("build", ())
///     .idle_timeout(Duration::from_secs(10))
///     .total_timeout(Duration::from_secs(600))
///     .on_progress(|progress| println!("{}", progress.progress))
///     .meta(Meta::default())
///     .log_level(LoggingLevel::Info)
///     .await?;
/// println!("{}", result.text());
/// let contents = client.read_resource("config://app").fresh().idle_timeout(None).await?;
/// println!("{}", contents.contents.len());
/// let task = client.call_tool("build", ()).as_task().await?;
/// println!("{:?}", task.task().map(|task| task.id()));
/// # Ok(())
/// # }
/// ```
#[must_use = "a call does nothing until it is awaited"]
pub struct Call<T> {
    pub(crate) handle: Arc<ClientHandle>,
    pub(crate) request: Result<Request, Error>,
    pub(crate) options: CallOptions,
    pub(crate) read: fn(&ClientCore, &Reply) -> Result<T, Error>,
}

impl<T: DeserializeOwned> Call<T> {
    pub(crate) fn new(handle: &Arc<ClientHandle>, request: Result<Request, Error>) -> Self {
        Self::with(handle, request, |_, reply| reply.read())
    }
}

impl<T> Call<T> {
    pub(crate) fn with(
        handle: &Arc<ClientHandle>,
        request: Result<Request, Error>,
        read: fn(&ClientCore, &Reply) -> Result<T, Error>,
    ) -> Self {
        let config = &handle.core.config;
        // Progress restarts the idle timeout. Tool calls may take long.
        let wants_progress = request.as_ref().is_ok_and(|request| request.method == method::CallTool::NAME);
        let options = CallOptions {
            idle_timeout: config.idle_timeout,
            total_timeout: config.total_timeout,
            wants_progress,
            ..CallOptions::default()
        };
        Self { handle: Arc::clone(handle), request, options, read }
    }

    /// Sets how long the server may send neither an answer nor progress. `None`: no limit. The default is that of the
    /// client: 60 seconds.
    ///
    /// See the [example](Self#example).
    pub fn idle_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.options.idle_timeout = limit.into();
        self
    }

    /// Sets how long the call may take in total. The time in which handlers answer the server does not count. `None`: no
    /// limit. The default is that of the client: 10 minutes.
    ///
    /// See the [example](Self#example).
    pub fn total_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.options.total_timeout = limit.into();
        self
    }

    /// Calls `callback` with each progress notification. The future of the call runs it, always before it returns the
    /// result.
    ///
    /// See the [example](Self#example).
    pub fn on_progress(mut self, callback: impl FnMut(ProgressParams) + Send + 'static) -> Self {
        self.options.wants_progress = true;
        self.options.on_progress = Some(Box::new(callback));
        self
    }

    /// Adds metadata. The client overwrites the keys that the protocol reserves.
    ///
    /// See the [example](Self#example).
    pub fn meta(mut self, meta: Meta) -> Self {
        match &mut self.options.meta {
            Some(given) => given.extend(meta.0),
            none => *none = Some(meta),
        }
        self
    }

    /// Requests the log messages of this call from this level on (2026-07-28). In older revisions the level belongs to
    /// the session: see [`Client::set_log_level`](crate::Client::set_log_level).
    ///
    /// See the [example](Self#example).
    pub fn log_level(mut self, level: LoggingLevel) -> Self {
        self.options.log_level = Some(level);
        self
    }

    /// Sends the request also if a cached result is still fresh.
    ///
    /// See the [example](Self#example).
    pub fn fresh(mut self) -> Self {
        self.options.is_fresh = true;
        self
    }

    /// Answers the input requests of this call by its own handler: elicitation, sampling and roots. Requests that the handler
    /// does not declare ([`Handler::capabilities`]) reach the handlers of the client.
    ///
    /// In 2026-07-28, an input request names its call. Over Streamable HTTP, it arrives on the stream of its call. A request on
    /// the stream of the session belongs to no call, and reaches the handlers of the client.
    ///
    /// On other connections of a session, an input request names no call. The client relates it to the only running call. It
    /// rejects the request while several calls with different handlers are running. A cancelled call counts as running until
    /// the server answers it, for at most 30 seconds.
    ///
    /// In a session, servers learn the capabilities of the client only: declare there all
    /// that the handlers of calls support. See also [`Call::capabilities`].
    ///
    /// ```
    /// # use mcp_server::{Server, prelude::*};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_client::Error> {
    /// use std::sync::Arc;
    ///
    /// use mcp_client::{
    ///     Client, Handler,
    ///     protocol::{ClientCapabilities, Root, RootsCapability, RpcError},
    ///     transport::BoxFuture,
    /// };
    ///
    /// struct Project(&'static str);
    ///
    /// impl Handler for Project {
    ///     fn capabilities(&self) -> ClientCapabilities {
    ///         ClientCapabilities::new().with_roots(RootsCapability::new())
    ///     }
    ///
    ///     fn list_roots(&self) -> BoxFuture<'_, Result<Vec<Root>, RpcError>> {
    ///         Box::pin(async { Ok(vec![Root::new(self.0)]) })
    ///     }
    /// }
    ///
    /// # let server = Server::builder("s", "1").tool(tool("build", async || "done")).build();
    /// let client = Client::connect(&server).await?;
    /// let result = client.call_tool("build", ()).answers(Arc::new(Project("file:///home/ada"))).await?;
    /// # assert_eq!(result.text(), "done");
    /// # Ok(())
    /// # }
    /// ```
    pub fn answers(mut self, handler: Arc<dyn Handler>) -> Self {
        self.options.answers = Some(handler);
        self
    }

    /// Sends the call on the connection with this number alone ([`Client::connection_number`](crate::Client::connection_number)).
    /// After its end, the call fails as if the connection was lost.
    #[doc(hidden)]
    pub fn on_connection(mut self, number: u64) -> Self {
        self.options.connection = Some(number);
        self
    }

    /// Cancels the call when a future completes, for example the cancellation of a token.
    ///
    /// ```
    /// # use mcp_server::{Server, tool};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_client::Error> {
    /// use mcp_client::{CancellationToken, Client};
    ///
    /// # let server = Server::builder("s", "1").tool(tool("build", async || std::future::pending::<String>().await)).build();
    /// let client = Client::connect(&server).await?;
    /// let token = CancellationToken::new();
    /// let call = client.call_tool("build", ()).cancelled_by(token.clone().cancelled_owned());
    /// token.cancel();
    /// assert!(call.await.unwrap_err().is_cancelled());
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancelled_by(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.options.cancel = Some(Box::pin(signal));
        self
    }
}

impl Call<ToolResult> {
    /// Requests a task instead of a result. A task continues after its connection is lost, and can be found by its id
    /// later.
    ///
    /// The server decides: some tools and some servers do not support tasks. Then the call returns the result.
    ///
    /// See the [example](Self#example).
    pub fn as_task(self) -> TaskCall {
        TaskCall::new(self)
    }
}

impl<T: 'static> IntoFuture for Call<T> {
    type Output = Result<T, Error>;
    type IntoFuture = BoxFuture<'static, Result<T, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { handle, mut request, mut options, read } = self;
        Box::pin(async move {
            let request = request.as_mut().map_err(|error| error.clone())?;
            let reply = execute(&handle.core, request, &mut options).await?;
            read(&handle.core, &reply)
        })
    }
}

impl<T> fmt::Debug for Call<T> {
    /// Omits the parameters, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = self.request.as_ref().map(|request| &request.method);
        f.debug_struct("Call")
            .field("method", &method)
            .field("idle_timeout", &self.options.idle_timeout)
            .field("total_timeout", &self.options.total_timeout)
            .finish_non_exhaustive()
    }
}
