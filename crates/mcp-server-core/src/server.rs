//! The public face of a server: what it serves over, what an application does with it while it runs.

mod connection;
mod lifecycle;
mod lists;
mod local;
mod memory;
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
    lists::{Prompts, ResourceTemplates, Resources, Tools},
    notify::Notices,
    tasks::{NewTask, TaskHandle, Tasks},
};
use crate::{Server, builder::ServerBuilder, limits::Limits};

impl Server {
    /// Starts to build a server with the given name and version.
    ///
    /// # Panics
    /// When the name is empty.
    #[track_caller]
    pub fn builder<S: Clone + Send + Sync + 'static>(
        name: impl Into<String>,
        version: impl Into<String>,
    ) -> ServerBuilder<S> {
        let name = name.into();
        assert!(!name.trim().is_empty(), "a server has a name, which is not empty");
        ServerBuilder::new(name, version.into())
    }

    /// What the server is called.
    #[must_use]
    pub fn info(&self) -> &Implementation {
        &self.data.config.info
    }

    /// The revisions that are spoken, newest first.
    #[must_use]
    pub fn versions(&self) -> &[ProtocolVersion] {
        &self.data.config.versions
    }

    /// The bounds that hold.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.data.config.limits
    }

    /// The scopes that every caller over a network must have been granted.
    #[must_use]
    pub fn required_scopes(&self) -> &[String] {
        &self.data.config.required_scopes
    }

    /// The tools, to add and remove while the server runs.
    #[must_use]
    pub fn tools(&self) -> Tools<'_> {
        Tools { server: self }
    }

    /// The resources, to add and remove while the server runs.
    #[must_use]
    pub fn resources(&self) -> Resources<'_> {
        Resources { server: self }
    }

    /// The resource templates, to add and remove while the server runs.
    #[must_use]
    pub fn resource_templates(&self) -> ResourceTemplates<'_> {
        ResourceTemplates { server: self }
    }

    /// The prompts, to add and remove while the server runs.
    #[must_use]
    pub fn prompts(&self) -> Prompts<'_> {
        Prompts { server: self }
    }

    /// The tasks, to make some for work that lives outside of a call.
    #[must_use]
    pub fn tasks(&self) -> Tasks<'_> {
        Tasks { server: self }
    }

    /// Asks everything that serves this server to end: what runs may finish within the drain limit. Returns at once.
    pub fn shutdown(&self) {
        self.data.shutdown.cancel();
        self.data.extensions.stop();
    }

    /// Resolves once [`Server::shutdown`] was called, at once if it was already. For transports, and for work of the
    /// application's own that is to end with the server.
    pub fn shutting_down(&self) -> ShuttingDown {
        ShuttingDown { shutdown: Box::pin(self.data.shutdown.clone().cancelled_owned()) }
    }

    /// Whether [`Server::shutdown`] was called.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.data.shutdown.is_cancelled()
    }

    pub(crate) fn shutdown_token(&self) -> CancellationToken {
        self.data.shutdown.clone()
    }

    /// Calls a tool without a transport, as the newest revision does it: arguments are checked, limits hold.
    ///
    /// # Errors
    /// The [`RpcError`] that a client would get. A failure of the tool itself is a result with `is_error`.
    pub async fn call_tool(&self, name: &str, arguments: impl Into<Value>) -> Result<CallToolResult, RpcError> {
        local::call_tool(self, name, arguments.into()).await
    }

    /// Reads a resource without a transport.
    ///
    /// # Errors
    /// The [`RpcError`] that a client would get.
    pub async fn read_resource(&self, uri: &str) -> Result<ReadResourceResult, RpcError> {
        local::read_resource(self, uri).await
    }

    /// Gets a prompt without a transport.
    ///
    /// # Errors
    /// The [`RpcError`] that a client would get.
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
