//! A call of a tool: a builder that is sent when it is awaited.

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

use mcp_client::transport::BoxFuture;
use mcp_protocol::{CallToolResult, ContentBlock, JsonObject};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    CallError, Shared,
    options::{RequestOptions, request_options},
};
use crate::{
    catalog::{CatalogTool, InvalidArguments, UnknownName},
    registry::Caller,
};

/// The number of checks of a call whose tool changes meanwhile.
const CHECKS: usize = 4;

/// A call of a tool ([`Host::call`](crate::Host::call)). It is sent when it is awaited. Dropping its future cancels it.
///
/// ```
/// # async fn example(host: mcp_agent::Host) -> Result<(), mcp_agent::CallError> {
/// use std::time::Duration;
///
/// let generation = host.catalog().generation();
/// // The model chooses a tool of this catalog.
/// let result = host
///     .call("github__get_issue", serde_json::json!({ "number": 7 }))
///     .generation(generation)
///     .timeout(Duration::from_secs(30))
///     .on_progress(|progress| println!("{}", progress.progress))
///     .await?;
/// println!("{} {}", result.tool(), result.text());
/// # Ok(())
/// # }
/// ```
#[must_use = "a call does nothing until it is awaited"]
pub struct HostCall {
    shared: Arc<Shared>,
    name: String,
    arguments: Result<JsonObject, String>,
    generation: Option<u64>,
    options: RequestOptions,
}

/// The result of a call, with the tool that returned it. It derefs to the result of the protocol.
///
/// ```
/// # async fn example(host: mcp_agent::Host) -> Result<(), mcp_agent::CallError> {
/// let result = host.call("files:read", serde_json::json!({ "path": "a.txt" })).await?;
/// println!("{} returned {} blocks", result.tool(), result.content.len());
/// if let Some(uri) = result.rest() {
///     println!("the text continues in {uri}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct HostResult {
    result: CallToolResult,
    tool: Arc<CatalogTool>,
    rest: Option<String>,
}

impl HostCall {
    request_options!();

    pub(crate) fn new(shared: &Arc<Shared>, caller: &Arc<Caller>, name: String, arguments: &impl Serialize) -> Self {
        let arguments = match serde_json::to_value(arguments) {
            Ok(Value::Object(members)) => Ok(members.into()),
            Ok(Value::Null) => Ok(JsonObject::new()),
            Ok(other) => Err(format!("they are {}", kind(&other))),
            Err(error) => Err(error.to_string()),
        };
        Self { shared: Arc::clone(shared), name, arguments, generation: None, options: RequestOptions::new(caller) }
    }

    /// Names the generation of the catalog that the model saw. The call fails if the definition of its tool is newer
    /// ([`CallError::Changed`]).
    ///
    /// See the example of the [type](Self).
    pub fn generation(mut self, generation: u64) -> Self {
        self.generation = Some(generation);
        self
    }

    /// Returns the tool of the current catalog, and the arguments in the form that its schema accepts.
    fn resolve(&self) -> Result<(Arc<CatalogTool>, JsonObject), CallError> {
        let catalog = self.shared.registry.catalog();
        let tool = catalog.tool(&self.name)?;
        if let Some(generation) = self.generation.filter(|generation| tool.since() > *generation) {
            return Err(CallError::Changed { tool: self.name.clone(), generation, since: tool.since() });
        }
        let not_an_object =
            |reason: &String| CallError::NotAnObject { tool: self.name.clone(), reason: reason.clone() };
        let arguments = self.arguments.as_ref().map_err(not_an_object)?;
        // A model knows the name of its call, which can be the provider name.
        let named = |invalid| InvalidArguments { tool: self.name.clone(), ..invalid };
        let arguments = tool.check_arguments(arguments.clone()).map_err(named)?;
        Ok((Arc::clone(tool), arguments))
    }

    async fn run(mut self) -> Result<HostResult, CallError> {
        // The limit includes the wait for the lists, and not that for an approval.
        let mut waited = Duration::ZERO;
        let (mut tool, mut arguments) = match self.resolve() {
            Err(CallError::Unknown(unknown)) => {
                let started = Instant::now();
                let resolved = self.resolve_unlisted(unknown).await?;
                waited = started.elapsed();
                resolved
            }
            resolved => resolved?,
        };
        let shared = Arc::clone(&self.shared);
        let registry = &shared.registry;
        let caller = Arc::clone(&self.options.caller);
        let mut checks = 0;
        let ((lease, client), arguments, limit, began) = loop {
            let Some(slot) = registry.slot(tool.server()) else { return Err(self.resolve_again(tool.server())) };
            // The wait for an approval has a limit of its own.
            let permit = shared.permit(&slot, &tool, caller.principal_name(), arguments);
            let permitted = self.options.until_cancelled(&self.name, permit).await??.arguments;
            if registry.slot(tool.server()).is_some_and(|now| Arc::ptr_eq(&now, &slot)) {
                let limit = self
                    .options
                    .timeout
                    .or_else(|| slot.call_timeout(tool.original_name()))
                    .or(registry.settings.call_timeout)
                    .map(|limit| limit.saturating_sub(waited));
                let wait = limit.map_or(registry.settings.call_wait, |limit| limit.min(registry.settings.call_wait));
                let began = Instant::now();
                let reached = self.options.until_cancelled(&self.name, slot.reach(registry, &caller, wait)).await?;
                let reached = reached.map_err(|cause| CallError::unavailable(&slot.name, cause))?;
                if self.is_current(&tool) {
                    break (reached, permitted, limit, began);
                }
            }
            // The wait for a person, and the start of a server, can change its tools. The policies decide again.
            (tool, arguments) = self.resolve()?;
            checks += 1;
            if checks == CHECKS {
                let since = tool.since();
                let generation = self.generation.unwrap_or(since.saturating_sub(1));
                return Err(CallError::Changed { tool: self.name, generation, since });
            }
        };
        let call = client.call_tool(tool.original_name(), Value::from(arguments));
        // The limit includes the start of the server.
        let call = self.options.apply(call, limit.map(|limit| limit.saturating_sub(began.elapsed())));
        let failed = |error| CallError::of_request(&lease, tool.server(), self.name, error);
        let mut result = call.await.map_err(failed)?.into_inner();
        let rest = self.shared.rests.cut(&mut result, registry.settings.max_text, caller.principal_name());
        Ok(HostResult { result, tool, rest })
    }

    /// Whether the catalog still has the definition of the tool.
    fn is_current(&self, tool: &CatalogTool) -> bool {
        self.shared.registry.catalog().tool(&self.name).is_ok_and(|now| now.has_definition_of(tool))
    }

    /// Starts the server of an unknown tool if the server has not listed its tools yet, and then looks for the tool again.
    async fn resolve_unlisted(&mut self, unknown: UnknownName) -> Result<(Arc<CatalogTool>, JsonObject), CallError> {
        let registry = Arc::clone(&self.shared.registry);
        let Some(slot) = registry.unlisted(&self.name) else { return Err(unknown.into()) };
        let wait =
            self.options.timeout.map_or(registry.settings.call_wait, |limit| limit.min(registry.settings.call_wait));
        let listed = self.options.until_cancelled(&self.name, slot.listed_within(wait)).await?;
        listed.map_err(|cause| CallError::unavailable(&slot.name, cause))?;
        self.resolve()
    }

    /// Returns the error of a call whose server was removed meanwhile.
    fn resolve_again(&self, server: &str) -> CallError {
        let stopped = || CallError::Unavailable {
            server: server.to_owned(),
            state: crate::ServerState::Stopped,
            reason: None,
            retry_in: None,
        };
        self.resolve().err().unwrap_or_else(stopped)
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

impl IntoFuture for HostCall {
    type Output = Result<HostResult, CallError>;
    type IntoFuture = BoxFuture<'static, Result<HostResult, CallError>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl HostResult {
    /// Returns the display name of the tool.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn tool(&self) -> &str {
        self.tool.display_name()
    }

    /// Returns the URI of the rest of the text, if the text was longer than the limit of the host
    /// ([`Host::read`](crate::Host::read)).
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn rest(&self) -> Option<&str> {
        self.rest.as_deref()
    }

    /// Returns the text blocks of the content, separated by blank lines.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.result.content.iter().filter_map(ContentBlock::as_text).collect();
        texts.join("\n\n")
    }

    /// Returns the result of the protocol.
    #[must_use]
    pub fn into_inner(self) -> CallToolResult {
        self.result
    }
}

impl Deref for HostResult {
    type Target = CallToolResult;

    fn deref(&self) -> &CallToolResult {
        &self.result
    }
}

impl fmt::Debug for HostCall {
    /// Omits the arguments, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostCall")
            .field("name", &self.name)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}
