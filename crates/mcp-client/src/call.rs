//! One call before it is made: a builder that is awaited.

mod attempts;
mod cache;
mod catalog;
mod core;
mod execute;
mod list;
mod options;
mod page;
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
use tokio_util::sync::CancellationToken;

pub(crate) use self::{
    attempts::{Answer, send_until_answered},
    cache::ResultCache,
    catalog::ToolCatalog,
    core::{ClientCore, ClientHandle},
    execute::{answer_inputs, execute, execute_or_start_task},
    options::CallOptions,
    reply::Reply,
    send_once::Mark,
    tasks::OwnedTasks,
    tool_result::tool_result,
};
pub use self::{
    list::{Items, List, ListWarning, Listing},
    page::{ListItem, Page},
    task_handle::{TaskCall, TaskHandle, TaskOrResult},
    tool_result::ToolResult,
};
use crate::{Error, connection::Request};

/// A call to a server, which is made when it is awaited.
///
/// Dropping the future before it is done cancels the call on the wire.
///
/// # Errors
/// [`Error::is_timeout`] after its time, [`Error::rpc`] when the server answered with an error, [`Error::is_closed`] when the
/// connection was lost under it; see [`Error`] for all.
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
        // Progress keeps a call alive. A tool is what may take long without being asked for it.
        let wants_progress = request.as_ref().is_ok_and(|request| request.method == method::CallTool::NAME);
        let options = CallOptions {
            idle_timeout: config.idle_timeout,
            total_timeout: config.total_timeout,
            wants_progress,
            ..CallOptions::default()
        };
        Self { handle: Arc::clone(handle), request, options, read }
    }

    /// How long the server may be silent: no answer and no progress. The default is that of the client: 60 seconds.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.options.idle_timeout = Some(limit);
        self
    }

    /// How long the call may take in all, whatever progress is told. Time that this side takes to answer questions of the server
    /// does not count. The default is that of the client: 10 minutes.
    pub fn total_timeout(mut self, limit: Duration) -> Self {
        self.options.total_timeout = Some(limit);
        self
    }

    /// Waits for ever.
    pub fn no_timeout(mut self) -> Self {
        self.options.idle_timeout = None;
        self.options.total_timeout = None;
        self
    }

    /// Hears how the call comes along. Runs where the call is awaited, before it gives its result.
    pub fn on_progress(mut self, heard: impl FnMut(ProgressParams) + Send + 'static) -> Self {
        self.options.wants_progress = true;
        self.options.on_progress = Some(Box::new(heard));
        self
    }

    /// Adds metadata. Keys that the client writes by itself cannot be changed.
    pub fn meta(mut self, meta: Meta) -> Self {
        match &mut self.options.meta {
            Some(given) => given.extend(meta.0),
            none => *none = Some(meta),
        }
        self
    }

    /// Asks for the log messages of this call from this level on (2026-07-28; before, the level is one for the whole
    /// connection: [`Client::set_log_level`]).
    pub fn log_level(mut self, level: LoggingLevel) -> Self {
        self.options.log_level = Some(level);
        self
    }

    /// Asks the server, also when a result is cached that is still fresh.
    pub fn fresh(mut self) -> Self {
        self.options.is_fresh = true;
        self
    }

    /// Cancels the call when the token fires.
    pub fn cancelled_by(mut self, token: CancellationToken) -> Self {
        self.options.cancel = Some(token);
        self
    }
}

impl Call<ToolResult> {
    /// Wants a task instead of a result: something that runs on, also over lost connections, and can be asked for later by its id.
    ///
    /// The server decides: a tool may be none, and a server may know no tasks. Then there is the result after all.
    pub fn as_task(self) -> TaskCall {
        TaskCall::new(self)
    }
}

impl<T: 'static> IntoFuture for Call<T> {
    type Output = Result<T, Error>;
    type IntoFuture = BoxFuture<'static, Result<T, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let reply = execute(&self.handle.core, self.request?, self.options).await?;
            (self.read)(&self.handle.core, &reply)
        })
    }
}

impl<T> fmt::Debug for Call<T> {
    /// Leaves out the parameters, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = self.request.as_ref().map(|request| &request.method);
        f.debug_struct("Call")
            .field("method", &method)
            .field("idle_timeout", &self.options.idle_timeout)
            .field("total_timeout", &self.options.total_timeout)
            .finish_non_exhaustive()
    }
}
