//! Layers around the handlers: tower's middleware, over calls of the protocol instead of HTTP requests.

mod from_fn;
mod rate_limit;

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use mcp_protocol::{CallToolResult, ErrorChain, RpcError};
use parking_lot::Mutex;
use serde_json::Value;
use tower_layer::Layer;
use tower_service::Service;

pub use self::{
    from_fn::{FromFn, FromFnService, Next, from_fn},
    rate_limit::{RateLimit, RateLimited},
};
use crate::{
    context::Context,
    error::{CALL_FAILED, Fault, ToolError, contain_async},
    request::{Output, Performed},
};

/// A call of a handler, as it passes through the layers.
///
/// It is one run of a handler: `tools/call`, `resources/read`, `prompts/get` or `completion/complete`. In the stateless era, a
/// handler that sends input requests runs once for each input round, and each run passes through the layers. Requests without
/// a handler, such as lists, `ping`, requests about tasks and methods of extensions, do not.
///
/// # Example
/// ```
/// use mcp_server_core::{Invocation, Outcome};
/// use tower::ServiceBuilder;
///
/// let audit = ServiceBuilder::new()
///     .map_request(|mut call: Invocation| {
///         let arguments = call.arguments().map(|arguments| arguments["path"].clone());
///         println!("{} {} {arguments:?} {}", call.method(), call.name(), call.context().version());
///         if let Some(arguments) = call.arguments_mut() {
///             arguments["path"] = "/srv".into();
///         }
///         call
///     })
///     .map_response(|mut outcome: Outcome| {
///         println!("{} {}", outcome.is_error(), outcome.is_input_required());
///         if let Some(result) = outcome.tool_result_mut() {
///             result.content.truncate(10);
///         }
///         println!("{:?}", outcome.tool_result());
///         outcome
///     })
///     .into_inner();
/// let builder = mcp_server_core::Server::builder::<()>("audited", "1.0").layer(audit);
/// # let _ = builder;
/// ```
pub struct Invocation {
    pub(crate) method: &'static str,
    pub(crate) name: String,
    /// The arguments of a tool.
    pub(crate) arguments: Option<Value>,
    pub(crate) context: Context,
    /// The layers of the tool itself. They come after the layers of the server.
    pub(crate) tool_layers: Option<HandlerService>,
    /// Runs the handler, with the arguments that the layers passed on.
    pub(crate) run: Box<dyn FnOnce(Option<Value>) -> Running + Send + Sync>,
}

/// One run of a handler, with or without layers.
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<Outcome, RpcError>> + Send>>;

impl Invocation {
    /// Returns the name of the method.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn method(&self) -> &'static str {
        self.method
    }

    /// Returns the name of the tool or the prompt, the URI of the resource, or the argument to complete.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the arguments of a tool as the client sent them. The server checks them behind the layers. The parameters of
    /// a call to a [`Source`](crate::source::Source) are not decoded, so they are not available here.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn arguments(&self) -> Option<&Value> {
        self.arguments.as_ref()
    }

    /// Returns the arguments of a tool, to change them.
    ///
    /// See the [example](Self#example).
    pub fn arguments_mut(&mut self) -> Option<&mut Value> {
        self.arguments.as_mut()
    }

    /// Returns the context of the request: the caller, the revision, the extensions.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }
}

impl fmt::Debug for Invocation {
    /// Omits the arguments, because they may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invocation").field("method", &self.method()).field("name", &self.name()).finish_non_exhaustive()
    }
}

/// The outcome of a call that is not a JSON-RPC error. Layers return it.
///
/// # Example
/// ```
/// use mcp_server_core::{Outcome, Server};
/// use tower::ServiceBuilder;
///
/// let shorten = ServiceBuilder::new()
///     .map_response(|mut outcome: Outcome| {
///         println!("{} {}", outcome.is_error(), outcome.is_input_required());
///         if let Some(result) = outcome.tool_result_mut() {
///             result.content.truncate(10);
///         }
///         println!("{:?}", outcome.tool_result());
///         outcome
///     })
///     .into_inner();
/// let builder = Server::builder::<()>("short", "1.0").layer(shorten);
/// # let _ = builder;
/// ```
#[derive(Debug)]
pub struct Outcome(pub(crate) Performed);

impl Outcome {
    /// Whether the outcome is a failed tool call (`isError`).
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_error(&self) -> bool {
        match &self.0 {
            Performed::Output(Output::Raw(raw)) => raw.is_error(),
            _ => self.tool_result().is_some_and(|result| result.is_error),
        }
    }

    /// Whether the handler sent input requests (2026-07-28). It runs again with the answers.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_input_required(&self) -> bool {
        match &self.0 {
            Performed::InputRequired(_) => true,
            Performed::Output(output) => matches!(output, Output::Raw(raw) if raw.requires_input),
        }
    }

    /// Returns the result of a tool, if the outcome is one. The raw result of a [`Source`](crate::source::Source) is not
    /// decoded, so it is not available here.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn tool_result(&self) -> Option<&CallToolResult> {
        match &self.0 {
            Performed::Output(Output::Tool(result)) => Some(result),
            _ => None,
        }
    }

    /// Returns the result of a tool, to change it. The server has already checked it against the output schema.
    ///
    /// See the [example](Self#example).
    pub fn tool_result_mut(&mut self) -> Option<&mut CallToolResult> {
        match &mut self.0 {
            Performed::Output(Output::Tool(result)) => Some(result),
            _ => None,
        }
    }
}

/// Converts the result of a layer that answers instead of the tool.
impl From<CallToolResult> for Outcome {
    fn from(result: CallToolResult) -> Self {
        Self(Performed::Output(Output::Tool(result)))
    }
}

/// Converts a failure: a failed tool result, or the JSON-RPC error that the failure carries.
impl TryFrom<ToolError> for Outcome {
    type Error = RpcError;

    fn try_from(error: ToolError) -> Result<Self, RpcError> {
        error.into_tool_result(false).map(Self::from)
    }
}

/// The tower service behind the layers: it runs the handlers. A [`Layer`] receives it as its inner service. It is cheap to
/// clone.
///
/// ```
/// use mcp_server_core::{HandlerService, Invocation, Server, tool};
/// use tower::ServiceExt as _;
/// use tower_layer::layer_fn;
///
/// let log = layer_fn(|inner: HandlerService| {
///     inner.map_request(|call: Invocation| {
///         println!("{} {}", call.method(), call.name());
///         call
///     })
/// });
/// let server = Server::builder("logged", "1.0.0").tool(tool("hello", async || "hi")).layer(log).build();
/// # let _: Server = server;
/// ```
#[derive(Clone)]
pub struct HandlerService(Chain);

#[derive(Clone)]
enum Chain {
    /// The handlers of a server, each with its own layers.
    Server,
    /// The handler of a tool.
    Tool,
    Layered(Arc<dyn Layered>),
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl HandlerService {
    pub(crate) fn of_server() -> Self {
        Self(Chain::Server)
    }

    pub(crate) fn of_tool() -> Self {
        Self(Chain::Tool)
    }

    /// Adds a layer.
    pub(crate) fn behind<L>(self, layer: &L) -> Self
    where
        L: Layer<Self>,
        L::Service: Service<Invocation, Response = Outcome> + Clone + Send + 'static,
        <L::Service as Service<Invocation>>::Error: Into<BoxError>,
        <L::Service as Service<Invocation>>::Future: Send + 'static,
    {
        Self(Chain::Layered(Arc::new(Mutex::new(layer.layer(self)))))
    }
}

impl Service<Invocation> for HandlerService {
    type Response = Outcome;
    type Error = RpcError;
    type Future = Running;

    fn poll_ready(&mut self, _cx: &mut TaskContext<'_>) -> Poll<Result<(), RpcError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, invocation: Invocation) -> Running {
        let layered = match (&self.0, &invocation.tool_layers) {
            (Chain::Layered(layered), _) | (Chain::Server, Some(Self(Chain::Layered(layered)))) => {
                Some(layered.clone())
            }
            _ => None,
        };
        match layered {
            Some(layered) => layered.call(invocation),
            None => (invocation.run)(invocation.arguments),
        }
    }
}

impl fmt::Debug for HandlerService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HandlerService")
    }
}

/// A service of any type.
trait Layered: Send + Sync {
    fn call(&self, invocation: Invocation) -> Running;
}

impl<S> Layered for Mutex<S>
where
    S: Service<Invocation, Response = Outcome> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    fn call(&self, invocation: Invocation) -> Running {
        let shows_faults = invocation.context.shows_faults();
        let failed = move |error: S::Error| rpc_error(error.into(), shows_faults);
        // Each call has its own clone, so that no call waits for the readiness of another.
        let mut service = self.lock().clone();
        Box::pin(async move {
            poll_fn(|cx| service.poll_ready(cx)).await.map_err(failed)?;
            service.call(invocation).await.map_err(failed)
        })
    }
}

/// Converts the error of a layer. The client receives an [`RpcError`] as it is, and of other errors a reference number.
fn rpc_error(error: BoxError, shows_faults: bool) -> RpcError {
    match error.downcast::<RpcError>() {
        Ok(error) => *error,
        Err(error) => RpcError::internal(
            Fault::report("a layer failed", CALL_FAILED, &ErrorChain::new(&*error)).text(shows_faults),
        ),
    }
}

/// Runs a handler behind its layers.
pub(crate) async fn run(layers: &HandlerService, invocation: Invocation, is_tool: bool) -> Result<Performed, RpcError> {
    let (version, shows_faults) = (invocation.context.version(), invocation.context.shows_faults());
    let mut layers = layers.clone();
    let outcome = contain_async(|| layers.call(invocation)).await.map_err(|panic| {
        RpcError::internal(Fault::report("a layer panicked", CALL_FAILED, &panic).text(shows_faults))
    })??;
    match outcome.0 {
        Performed::Output(Output::Tool(_)) if !is_tool => {
            let (event, text) = ("a layer returned a tool result to another request", "the server has no answer");
            let fault = Fault::report(event, text, &"only a tool call can have the result of a tool");
            Err(RpcError::internal(fault.text(shows_faults)))
        }
        Performed::Output(Output::Tool(mut result)) => {
            // A layer may have put more into it than the revision has.
            mcp_protocol::Shape::shape(&mut result, version);
            Ok(Performed::Output(Output::Tool(result)))
        }
        performed => Ok(performed),
    }
}
