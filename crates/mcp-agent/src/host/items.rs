//! The resources and prompts of a host.

use mcp_client::Client;
use mcp_protocol::{
    CompleteParams, CompleteResult, CompletionReference, GetPromptResult, JsonObject, ReadResourceResult,
    ResourceContents,
};
use serde::Serialize;
use serde_json::Value;

use super::Host;
use crate::{
    CallError, Caller, HostRequest,
    policy::PolicyInput,
    registry::Lease,
    routing::{REST_URI_PREFIX, ServerTarget, Shared, Target},
};

impl Host {
    /// Reads a resource of a server. The texts have at most 100,000 bytes in all ([`HostBuilder::max_text`](crate::HostBuilder::max_text)). If there is more, the
    /// last text ends with a note that has the URI of the rest, and `read` returns the rest by this URI with any server.
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
    pub fn read(&self, server: &str, uri: &str) -> HostRequest<ReadResourceResult> {
        let (server, uri) = (server.to_owned(), uri.to_owned());
        self.request(uri.clone(), move |shared, caller| {
            if uri.starts_with(REST_URI_PREFIX)
                && let Some(contents) = shared.rest(&uri, caller.principal_name())
            {
                return Ok(Target::Ready(ReadResourceResult::new(vec![contents])));
            }
            let (input, uri) = (PolicyInput::resource(&server, &uri), uri.clone());
            let build = Box::new(move |client: &Client| client.read_resource(&uri));
            let bound = |shared: &Shared, caller: &Caller, result: &mut ReadResourceResult| {
                shared.rests.cut_read(result, shared.registry.settings.max_text, caller.principal_name());
            };
            let target = ServerTarget { server: server.clone(), input, build, bound: Some(bound) };
            Ok(Target::Server(Box::new(target)))
        })
    }

    /// Returns the next part of the rest of a long result; `None` if the host does not have it any more. The text ends with a
    /// note if there is more.
    ///
    /// Only the principal of the call can read the rest: use the host of the same caller ([`Host::for_caller`]).
    #[must_use]
    pub fn rest(&self, uri: &str) -> Option<ResourceContents> {
        self.inner.shared.rest(uri, self.caller.principal_name())
    }

    /// Stores the rest of a text that was too long for a message, such as those of
    /// [`mcp_tool_format::Messages`]. [`Host::rest`] then returns it to the same caller.
    pub fn keep_rest(&self, uri: impl Into<String>, text: impl Into<String>) {
        self.inner.shared.rests.keep(uri.into(), text.into(), self.caller.principal_name());
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
    pub fn prompt(&self, name: &str, arguments: impl Serialize) -> HostRequest<GetPromptResult> {
        let arguments = serde_json::to_value(arguments).map_err(|error| error.to_string());
        let name = name.to_owned();
        self.request(name.clone(), move |shared, _| {
            let catalog = shared.registry.catalog();
            let found = catalog.prompt(&name)?;
            let (server, prompt) = (found.server().to_owned(), found.item().name.clone());
            let invalid = |reason: &String| CallError::NotAnObject { tool: name.clone(), reason: reason.clone() };
            let arguments = arguments.as_ref().map_err(invalid)?.clone();
            let mut input = PolicyInput::prompt(&server, &prompt);
            if let Value::Object(members) = &arguments {
                input.arguments = JsonObject::from(members.clone());
            }
            let build = Box::new(move |client: &Client| client.get_prompt(&prompt, arguments));
            Ok(Target::Server(Box::new(ServerTarget { server, input, build, bound: None })))
        })
    }

    /// Returns the values that complete an argument of a prompt or a resource template of a server. The policies decide it like
    /// the prompt or the template itself.
    ///
    /// ```
    /// # async fn example(host: mcp_agent::Host) -> Result<(), mcp_agent::CallError> {
    /// use mcp_client::protocol::{CompleteParams, CompletionArgument, CompletionReference};
    ///
    /// let argument = CompletionArgument::new("language", "ru");
    /// let params = CompleteParams::new(CompletionReference::prompt("review"), argument);
    /// let found = host.complete("github", params).await?;
    /// println!("{:?}", found.completion.values);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`CallError`] if the host has no such server, a policy refuses the request, the server is not available, or the call
    /// fails.
    pub fn complete(&self, server: &str, params: CompleteParams) -> HostRequest<CompleteResult> {
        let server = server.to_owned();
        self.request(server.clone(), move |_, _| {
            let input = match &params.reference {
                CompletionReference::Prompt { name, .. } => PolicyInput::prompt(&server, name),
                CompletionReference::ResourceTemplate { uri } => PolicyInput::resource(&server, uri),
                // The policies decide a reference of a later revision like a resource without a URI.
                _ => PolicyInput::resource(&server, ""),
            };
            let input = input.completion();
            let params = params.clone();
            let build = Box::new(move |client: &Client| client.complete_with(&params));
            Ok(Target::Server(Box::new(ServerTarget { server: server.clone(), input, build, bound: None })))
        })
    }

    fn request<T>(
        &self,
        name: String,
        find: impl Fn(&Shared, &Caller) -> Result<Target<T>, CallError> + Send + Sync + 'static,
    ) -> HostRequest<T> {
        HostRequest::new(&self.inner.shared, &self.caller, name, find)
    }

    /// Returns the client of a server, for requests that the host does not offer. Starts the server if it does not run.
    ///
    /// The client is valid until the host stops the server. Requests of the client do not restart the idle time. No policy of the
    /// host decides them, and they use no pins.
    ///
    /// # Errors
    /// [`CallError`] if the host has no such server, or the server is not available.
    pub async fn client(&self, server: &str) -> Result<Client, CallError> {
        Ok(self.reach(server).await?.1)
    }

    /// Returns the client of a server. The server does not become idle until the first value is dropped.
    async fn reach(&self, server: &str) -> Result<(Lease, Client), CallError> {
        let registry = self.registry();
        let slot = registry.slot(server).ok_or_else(|| self.inner.shared.unknown_server(server))?;
        let reached = slot.reach(registry, &self.caller, registry.settings.call_wait).await;
        reached.map_err(|cause| CallError::unavailable(server, cause))
    }
}
