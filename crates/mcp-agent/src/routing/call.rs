//! A call of a tool: a builder that is sent when it is awaited.

use std::{fmt, ops::Deref, pin::Pin, sync::Arc, time::Duration};

use mcp_client::{Handler, transport::BoxFuture};
use mcp_protocol::{CallToolResult, ContentBlock, JsonObject, Meta, ProgressParams};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use super::{CallError, Shared};
use crate::{
    catalog::{CatalogTool, UnknownName},
    registry::Caller,
};

/// The number of checks of a call whose tool changes meanwhile.
const CHECKS: usize = 4;

type OnProgress = Box<dyn FnMut(ProgressParams) + Send>;
type Signal = Pin<Box<dyn Future<Output = ()> + Send>>;

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
    caller: Arc<Caller>,
    name: String,
    arguments: Result<JsonObject, String>,
    generation: Option<u64>,
    answers: Option<Arc<dyn Handler>>,
    on_progress: Option<OnProgress>,
    timeout: Option<Duration>,
    cancel: Option<Signal>,
    meta: Option<Meta>,
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
    pub(crate) fn new(shared: &Arc<Shared>, caller: &Arc<Caller>, name: String, arguments: &impl Serialize) -> Self {
        let arguments = match serde_json::to_value(arguments) {
            Ok(Value::Object(members)) => Ok(members.into()),
            Ok(Value::Null) => Ok(JsonObject::new()),
            Ok(other) => Err(format!("they are {}", kind(&other))),
            Err(error) => Err(error.to_string()),
        };
        Self {
            shared: Arc::clone(shared),
            caller: Arc::clone(caller),
            name,
            arguments,
            generation: None,
            answers: caller.handler.clone(),
            on_progress: None,
            timeout: None,
            cancel: None,
            meta: None,
        }
    }

    /// Names the generation of the catalog that the model saw. The call fails if the definition of its tool is newer
    /// ([`CallError::Changed`]).
    ///
    /// See the example of the [type](Self).
    pub fn generation(mut self, generation: u64) -> Self {
        self.generation = Some(generation);
        self
    }

    /// Answers the input requests of this call: elicitation, sampling and roots. See [`mcp_client::Call::answers`].
    pub fn answers(mut self, handler: Arc<dyn Handler>) -> Self {
        self.answers = Some(handler);
        self
    }

    /// Calls `callback` with each progress notification of this call.
    ///
    /// See the example of the [type](Self).
    pub fn on_progress(mut self, callback: impl FnMut(ProgressParams) + Send + 'static) -> Self {
        self.on_progress = Some(Box::new(callback));
        self
    }

    /// Sets the time limit of the call, instead of the limits of its tool, its server and the host. The time in which handlers
    /// answer the server does not count.
    ///
    /// See the example of the [type](Self).
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Cancels the call when a future completes, for example the cancellation of a token.
    pub fn cancelled_by(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.cancel = Some(Box::pin(signal));
        self
    }

    /// Sets the caller, instead of the caller of the host ([`Host::for_caller`](crate::Host::for_caller)).
    pub fn caller(mut self, caller: Caller) -> Self {
        if let Some(handler) = &caller.handler {
            self.answers.get_or_insert_with(|| Arc::clone(handler));
        }
        self.caller = Arc::new(caller);
        self
    }

    /// Adds metadata of the request.
    pub fn meta(mut self, meta: Meta) -> Self {
        self.meta = Some(meta);
        self
    }

    /// Sets the identity of the caller: for its connections, and for the rules of policies with `principal`.
    ///
    /// ```
    /// # async fn example(host: mcp_agent::Host) -> Result<(), mcp_agent::CallError> {
    /// host.call("files:write", serde_json::json!({ "path": "a.txt" })).principal("guest-7").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn principal(mut self, identity: impl Into<Arc<str>>) -> Self {
        let caller = Caller::clone(&self.caller).principal(identity);
        self.caller = Arc::new(caller);
        self
    }

    /// Returns the tool of the current catalog, and the arguments in the form that its schema accepts.
    fn resolve(&self) -> Result<(Arc<CatalogTool>, JsonObject), CallError> {
        let catalog = self.shared.registry.catalog();
        let tool = catalog.tool(&self.name)?;
        if let Some(generation) = self.generation.filter(|generation| tool.since() > *generation) {
            let tool_name = tool.display_name().to_owned();
            return Err(CallError::Changed { tool: tool_name, generation, since: tool.since() });
        }
        let not_an_object =
            |reason: &String| CallError::NotAnObject { tool: self.name.clone(), reason: reason.clone() };
        let arguments = self.arguments.as_ref().map_err(not_an_object)?;
        let arguments = tool.check_arguments(arguments.clone())?;
        Ok((Arc::clone(tool), arguments))
    }

    async fn run(mut self) -> Result<HostResult, CallError> {
        let (mut tool, mut arguments) = match self.resolve() {
            Err(CallError::Unknown(unknown)) => self.resolve_unlisted(unknown).await?,
            resolved => resolved?,
        };
        let shared = Arc::clone(&self.shared);
        let registry = &shared.registry;
        let mut checks = 0;
        let ((_lease, client), arguments, limit, began) = loop {
            let Some(slot) = registry.slot(tool.server()) else { return Err(self.resolve_again()) };
            // The wait for an approval has a limit of its own.
            let permit = shared.permit(&slot, &tool, self.caller.principal_name(), arguments);
            let permitted = until_cancelled(&mut self.cancel, &self.name, permit).await??;
            if registry.slot(tool.server()).is_some_and(|now| Arc::ptr_eq(&now, &slot)) {
                let limit =
                    self.timeout.or_else(|| slot.call_timeout(tool.original_name())).or(registry.settings.call_timeout);
                let wait = limit.map_or(registry.settings.call_wait, |limit| limit.min(registry.settings.call_wait));
                let began = Instant::now();
                let reached =
                    until_cancelled(&mut self.cancel, &self.name, slot.reach(registry, &self.caller, wait)).await?;
                let reached = reached.map_err(|cause| CallError::unavailable(&slot.name, cause))?;
                if self.is_current(&tool) {
                    break (reached, permitted, limit, began);
                }
            }
            // The wait for a person, and the start of a server, can change its tools. The policies decide again.
            (tool, arguments) = self.resolve()?;
            checks += 1;
            if checks == CHECKS {
                let (tool_name, since) = (tool.display_name().to_owned(), tool.since());
                let generation = self.generation.unwrap_or(since.saturating_sub(1));
                return Err(CallError::Changed { tool: tool_name, generation, since });
            }
        };
        let mut call = client.call_tool(tool.original_name(), Value::from(arguments));
        if let Some(limit) = limit {
            // The limit includes the start of the server.
            let limit = limit.saturating_sub(began.elapsed()).max(Duration::from_millis(1));
            call = call.total_timeout(limit).idle_timeout(limit);
        }
        if let Some(handler) = self.answers {
            call = call.answers(handler);
        }
        if let Some(callback) = self.on_progress {
            call = call.on_progress(callback);
        }
        if let Some(signal) = self.cancel {
            call = call.cancelled_by(signal);
        }
        if let Some(meta) = self.meta {
            call = call.meta(meta);
        }
        let failed = |error| CallError::Client { name: tool.display_name().to_owned(), error };
        let mut result = call.await.map_err(failed)?.into_inner();
        let rest = self.shared.rests.cut(&mut result, registry.settings.max_text);
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
        let wait = self.timeout.map_or(registry.settings.call_wait, |limit| limit.min(registry.settings.call_wait));
        let listed = until_cancelled(&mut self.cancel, &self.name, slot.listed_within(wait)).await?;
        listed.map_err(|cause| CallError::unavailable(&slot.name, cause))?;
        self.resolve()
    }

    /// Returns the error of a call whose server was removed meanwhile.
    fn resolve_again(&self) -> CallError {
        let server = self.name.split_once(':').map_or(&*self.name, |(server, _)| server).to_owned();
        match self.resolve() {
            Err(error) => error,
            Ok(_) => {
                CallError::Unavailable { server, state: crate::ServerState::Stopped, reason: None, retry_in: None }
            }
        }
    }
}

/// Runs a step of a call until the application cancels the call.
async fn until_cancelled<T>(
    cancel: &mut Option<Signal>,
    name: &str,
    step: impl Future<Output = T>,
) -> Result<T, CallError> {
    let cancelled = async {
        match cancel {
            Some(cancel) => cancel.await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = cancelled => Err(CallError::Cancelled { tool: name.to_owned() }),
        done = step => Ok(done),
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
