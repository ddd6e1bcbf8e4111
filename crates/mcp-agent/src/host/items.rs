//! The resources and prompts of a host.

use mcp_protocol::{GetPromptResult, JsonObject, ReadResourceResult, ResourceContents};
use serde::Serialize;
use serde_json::Value;

use super::Host;
use crate::{
    CallError,
    policy::PolicyInput,
    registry::Lease,
    routing::{REST_URI_PREFIX, Rests},
};

impl Host {
    /// Reads a resource of a server. The rest of a long result ([`HostResult::rest`](crate::HostResult::rest)) has any server.
    ///
    /// ```
    /// # async fn example(host: mcp_agent::Host) -> Result<(), mcp_agent::CallError> {
    /// let contents = host.read("files", "file:///notes.md").await?;
    /// println!("{} parts", contents.contents.len());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`CallError`] if the host has no such server, a policy refuses the read, the server is not available, or the call fails.
    pub async fn read(&self, server: &str, uri: &str) -> Result<ReadResourceResult, CallError> {
        if uri.starts_with(REST_URI_PREFIX)
            && let Some(contents) = self.rest(uri)
        {
            return Ok(ReadResourceResult::new(vec![contents]));
        }
        self.decide_for_caller(PolicyInput::resource(server, uri)).await?;
        let (_active, client) = self.reach(server).await?;
        client.read_resource(uri).await.map_err(|error| CallError::Client { name: uri.to_owned(), error })
    }

    /// Returns the next part of the rest of a long result; `None` if the host does not have it any more. The text ends with a
    /// note if there is more.
    #[must_use]
    pub fn rest(&self, uri: &str) -> Option<ResourceContents> {
        let rests: &Rests = &self.inner.shared.rests;
        let (mut text, next) = rests.read(uri, self.registry().settings.max_text)?;
        if let Some(next) = next {
            text.push_str(&format!("\n[The text continues in the resource {next}]"));
        }
        Some(ResourceContents::text(uri, text))
    }

    /// Stores the rest of a text that was too long for a message, such as those of
    /// [`mcp_tool_format::Messages`]. [`Host::rest`] then returns it.
    pub fn keep_rest(&self, uri: impl Into<String>, text: impl Into<String>) {
        self.inner.shared.rests.keep(uri.into(), text.into());
    }

    /// Returns a prompt by its display name (`server:prompt`). `arguments` serializes to an object of strings.
    ///
    /// ```
    /// # async fn example(host: mcp_agent::Host) -> Result<(), mcp_agent::CallError> {
    /// let prompt = host.prompt("github:review", serde_json::json!({ "number": "7" })).await?;
    /// println!("{} messages", prompt.messages.len());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`CallError`] if the catalog has no such prompt, a policy refuses the request, the server is not available, or the call
    /// fails.
    pub async fn prompt(&self, name: &str, arguments: impl Serialize) -> Result<GetPromptResult, CallError> {
        let (server, prompt) = {
            let catalog = self.catalog();
            let found = catalog.prompt(name)?;
            (found.server().to_owned(), found.item().name.clone())
        };
        let arguments = serde_json::to_value(arguments)
            .map_err(|error| CallError::NotAnObject { tool: name.to_owned(), reason: error.to_string() })?;
        let mut input = PolicyInput::prompt(&server, &prompt);
        if let Value::Object(members) = &arguments {
            input.arguments = JsonObject::from(members.clone());
        }
        self.decide_for_caller(input).await?;
        let (_active, client) = self.reach(&server).await?;
        let call = client.get_prompt(&prompt, arguments);
        call.await.map_err(|error| CallError::Client { name: name.to_owned(), error })
    }

    /// Returns the client of a server, for requests that the host does not offer. Starts the server if it does not run.
    ///
    /// The client is valid until the host stops the server. Requests of the client do not restart the idle time. No policy of the
    /// host decides them, and they use no pins.
    ///
    /// # Errors
    /// [`CallError`] if the host has no such server, or the server is not available.
    pub async fn client(&self, server: &str) -> Result<mcp_client::Client, CallError> {
        Ok(self.reach(server).await?.1)
    }

    /// Decides a read or a prompt for the caller of this host.
    async fn decide_for_caller(&self, mut input: PolicyInput) -> Result<(), CallError> {
        input.principal = self.caller.principal_name().map(str::to_owned);
        self.decide(&input).await
    }

    /// Returns the client of a server. The server does not become idle until the first value is dropped.
    async fn reach(&self, server: &str) -> Result<(Lease, mcp_client::Client), CallError> {
        let registry = self.registry();
        let slot = registry.slot(server).ok_or_else(|| self.unknown_server(server))?;
        let reached = slot.reach(registry, &self.caller, registry.settings.call_wait).await;
        reached.map_err(|cause| CallError::unavailable(server, cause))
    }
}
