//! The public methods of a server: configuration, lists, local calls, and shutdown.

mod connection;
mod lifecycle;
mod listener;
mod lists;
mod local;
mod memory;
#[cfg(test)]
mod no_random_numbers;
mod notify;
mod tasks;

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use mcp_protocol::{CallToolResult, GetPromptResult, Implementation, ProtocolVersion, ReadResourceResult, RpcError};
use serde_json::Value;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

pub use self::{
    connection::ServeError,
    listener::ServerListener,
    lists::{Prompts, ResourceTemplates, Resources, Tools},
    notify::Notices,
    tasks::{NewTask, StandaloneTask, Tasks},
};
use crate::{Server, builder::ServerBuilder, limits::Limits, shutdown::Cause};

impl Server {
    /// Starts to build a server with a name and a version.
    ///
    /// See the [example](Self#example).
    ///
    /// # Panics
    /// Panics when the name is empty.
    #[track_caller]
    pub fn builder<S: Clone + Send + Sync + 'static>(
        name: impl Into<String>,
        version: impl Into<String>,
    ) -> ServerBuilder<S> {
        let name = name.into();
        assert!(!name.trim().is_empty(), "a server has a name, which is not empty");
        ServerBuilder::new(name, version.into())
    }

    /// Returns the name, version and description of the server.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn info(&self) -> &Implementation {
        &self.data.config.info
    }

    /// Returns the supported revisions, newest first.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn versions(&self) -> &[ProtocolVersion] {
        &self.data.config.versions
    }

    /// Returns the limits of the server.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.data.config.limits
    }

    /// Returns the scopes that every network caller needs.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn required_scopes(&self) -> &[String] {
        &self.data.config.access.scopes
    }

    /// Returns the list of tools, which can change while the server runs.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn tools(&self) -> Tools<'_> {
        Tools { server: self }
    }

    /// Returns the list of resources, which can change while the server runs.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn resources(&self) -> Resources<'_> {
        Resources { server: self }
    }

    /// Returns the list of resource templates, which can change while the server runs.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn resource_templates(&self) -> ResourceTemplates<'_> {
        ResourceTemplates { server: self }
    }

    /// Returns the list of prompts, which can change while the server runs.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn prompts(&self) -> Prompts<'_> {
        Prompts { server: self }
    }

    /// Returns the tasks, to create some for work outside of a call.
    #[must_use]
    pub fn tasks(&self) -> Tasks<'_> {
        Tasks { server: self }
    }

    /// Shuts the server down: running calls and tasks may finish within the grace period. This does not wait, and
    /// [`Server::ended`] does.
    ///
    /// See the [example](Self#example).
    pub fn shutdown(&self) {
        self.data.shutdown.begin(Cause::ServerShutdown);
        self.data.extensions.stop();
    }

    /// Returns a future that completes when [`Server::shutdown`] is called. Transports and background work of the
    /// application can wait for it.
    ///
    /// See the [example](Self#example).
    pub fn shutting_down(&self) -> ShuttingDown {
        ShuttingDown { shutdown: Box::pin(self.shutdown_token().cancelled_owned()) }
    }

    /// Whether [`Server::shutdown`] was called.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.data.shutdown.has_begun()
    }

    pub(crate) fn shutdown_token(&self) -> CancellationToken {
        self.data.shutdown.token().clone()
    }

    /// Calls a tool without a transport, in the newest revision. Arguments are validated, and limits apply.
    ///
    /// ```
    /// use mcp_server_core::{Server, tool};
    /// use serde_json::json;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let server = Server::builder("hello", "1.0").tool(tool("greet", async || "Hello!")).build();
    /// let result = server.call_tool("greet", json!({})).await?;
    /// assert_eq!(result.content[0].as_text(), Some("Hello!"));
    /// # Ok::<_, mcp_protocol::RpcError>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// The [`RpcError`] that a client would receive. A failure of the tool itself is a result with `is_error`.
    pub async fn call_tool(&self, name: &str, arguments: impl Into<Value>) -> Result<CallToolResult, RpcError> {
        local::call_tool(self, name, arguments.into()).await
    }

    /// Reads a resource without a transport.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// The [`RpcError`] that a client would receive.
    pub async fn read_resource(&self, uri: &str) -> Result<ReadResourceResult, RpcError> {
        local::read_resource(self, uri).await
    }

    /// Gets a prompt without a transport.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// The [`RpcError`] that a client would receive.
    pub async fn get_prompt<K: Into<String>, V: Into<String>>(
        &self,
        name: &str,
        arguments: impl IntoIterator<Item = (K, V)>,
    ) -> Result<GetPromptResult, RpcError> {
        let arguments = arguments.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        local::get_prompt(self, name, arguments).await
    }
}

/// The future of [`Server::shutting_down`].
///
/// ```
/// use mcp_server_core::{Server, ShuttingDown};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let server = Server::builder("app", "1.0.0").build();
/// let shutting_down: ShuttingDown = server.shutting_down();
/// server.shutdown();
/// shutting_down.await;
/// # }
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct ShuttingDown {
    shutdown: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Future for ShuttingDown {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.shutdown.as_mut().poll(cx)
    }
}

impl std::fmt::Debug for ShuttingDown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShuttingDown").finish_non_exhaustive()
    }
}
