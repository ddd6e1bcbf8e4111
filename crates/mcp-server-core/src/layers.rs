//! Layers around the handlers: tower's middleware, over calls of the protocol instead of HTTP requests.

use std::{
    fmt,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use mcp_protocol::{CallToolResult, RpcError};
use parking_lot::Mutex;
use serde_json::Value;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    context::Context,
    error::{ToolError, next_reference},
    request::{Output, Performed},
};

/// A call of a handler on its way through the layers: what they take.
///
/// It is one run of the handler: `tools/call`, `resources/read`, `prompts/get` or `completion/complete`. A stateless call
/// whose handler asks something (`Inputs`) runs once a round, and each round comes by. What runs no handler, such as lists,
/// `ping` and questions about tasks, does not.
pub struct Invocation {
    pub(crate) method: &'static str,
    pub(crate) name: String,
    /// The arguments of a tool.
    pub(crate) arguments: Option<Value>,
    pub(crate) context: Context,
    /// The layers of the tool itself, which come after those of the server.
    pub(crate) tool_layers: Option<Handlers>,
    /// Runs the handler with the arguments that the layers left.
    pub(crate) run: Box<dyn FnOnce(Option<Value>) -> Running + Send + Sync>,
}

/// One run of a handler.
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<Performed, RpcError>> + Send>>;

impl Invocation {
    /// The method.
    #[must_use]
    pub fn method(&self) -> &'static str {
        self.method
    }

    /// What is called: the name of the tool or the prompt, the URI that is read, the argument that is completed.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The arguments of a tool, as the client sent them: they are checked behind the layers.
    #[must_use]
    pub fn arguments(&self) -> Option<&Value> {
        self.arguments.as_ref()
    }

    /// The arguments of a tool, to be changed.
    pub fn arguments_mut(&mut self) -> Option<&mut Value> {
        self.arguments.as_mut()
    }

    /// The request behind the call: who asks, in which revision, with which extensions.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }
}

impl fmt::Debug for Invocation {
    /// Leaves out the arguments, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invocation").field("method", &self.method()).field("name", &self.name()).finish_non_exhaustive()
    }
}

/// What came of a call that is no JSON-RPC error: what layers give back.
#[derive(Debug)]
pub struct Outcome(pub(crate) Performed);

impl Outcome {
    /// Whether it is the failure of a tool (`isError`).
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.tool_result().is_some_and(|result| result.is_error)
    }

    /// Whether the handler asks something first (2026-07-28), and will run again with the answers.
    #[must_use]
    pub fn is_input_required(&self) -> bool {
        matches!(self.0, Performed::Asked(_))
    }

    /// The result of a tool, if it is one.
    #[must_use]
    pub fn tool_result(&self) -> Option<&CallToolResult> {
        match &self.0 {
            Performed::Output(Output::Tool(result)) => Some(result),
            _ => None,
        }
    }

    /// The result of a tool, to be changed. It was checked against the output schema already.
    pub fn tool_result_mut(&mut self) -> Option<&mut CallToolResult> {
        match &mut self.0 {
            Performed::Output(Output::Tool(result)) => Some(result),
            _ => None,
        }
    }
}

/// For a layer that answers in the place of a tool.
impl From<CallToolResult> for Outcome {
    fn from(result: CallToolResult) -> Self {
        Self(Performed::Output(Output::Tool(result)))
    }
}

/// A failure in the words of a tool: what a model reads, or the error of the protocol that it stands for.
impl TryFrom<ToolError> for Outcome {
    type Error = RpcError;

    fn try_from(error: ToolError) -> Result<Self, RpcError> {
        error.into_tool_result().map(Self::from)
    }
}

/// The handlers behind the layers: the service that a [`Layer`] is given. Cheap to clone.
#[derive(Clone)]
pub struct Handlers(Chain);

#[derive(Clone)]
enum Chain {
    /// The handlers of a server, each with its own layers.
    Server,
    /// The handler of a tool.
    Tool,
    Layered(Arc<dyn Layered>),
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Answering<E> = Pin<Box<dyn Future<Output = Result<Outcome, E>> + Send>>;

impl Handlers {
    pub(crate) fn of_server() -> Self {
        Self(Chain::Server)
    }

    pub(crate) fn of_tool() -> Self {
        Self(Chain::Tool)
    }

    /// The same behind one more layer.
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

impl Service<Invocation> for Handlers {
    type Response = Outcome;
    type Error = RpcError;
    type Future = Answering<RpcError>;

    fn poll_ready(&mut self, _cx: &mut TaskContext<'_>) -> Poll<Result<(), RpcError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, invocation: Invocation) -> Answering<RpcError> {
        let layered = match (&self.0, &invocation.tool_layers) {
            (Chain::Layered(layered), _) | (Chain::Server, Some(Self(Chain::Layered(layered)))) => {
                Some(layered.clone())
            }
            _ => None,
        };
        match layered {
            Some(layered) => {
                let answering = layered.call(invocation);
                Box::pin(async move { answering.await.map_err(rpc_error) })
            }
            None => Box::pin(async move {
                let Invocation { arguments, run, .. } = invocation;
                run(arguments).await.map(Outcome)
            }),
        }
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handlers")
    }
}

/// A service whose type is forgotten.
trait Layered: Send + Sync {
    fn call(&self, invocation: Invocation) -> Answering<BoxError>;
}

impl<S> Layered for Mutex<S>
where
    S: Service<Invocation, Response = Outcome> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    fn call(&self, invocation: Invocation) -> Answering<BoxError> {
        // Each call has a service of its own, so that none waits for the readiness of another.
        let mut service = self.lock().clone();
        Box::pin(async move {
            poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
            service.call(invocation).await.map_err(Into::into)
        })
    }
}

/// What a layer fails with reaches the client only when it is meant for it.
fn rpc_error(error: BoxError) -> RpcError {
    match error.downcast::<RpcError>() {
        Ok(error) => *error,
        Err(error) => {
            let reference = next_reference();
            tracing::error!(reference, %error, "a layer failed");
            RpcError::internal(format!("the call failed on the server (reference {reference})"))
        }
    }
}

/// Runs a handler behind its layers.
pub(crate) async fn run(layers: &Handlers, invocation: Invocation, is_tool: bool) -> Result<Performed, RpcError> {
    let version = invocation.context.version();
    let panicked = |payload: Box<dyn std::any::Any + Send>| {
        ToolError::panic(&*payload).into_rpc_error(|| RpcError::internal("not found"))
    };
    let mut layers = layers.clone();
    let mut answering = catch_unwind(AssertUnwindSafe(|| layers.call(invocation))).map_err(panicked)?;
    let outcome = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| answering.as_mut().poll(cx))) {
        Ok(poll) => poll,
        Err(payload) => Poll::Ready(Err(panicked(payload))),
    })
    .await?;
    match outcome.0 {
        Performed::Output(Output::Tool(_)) if !is_tool => {
            tracing::error!("a layer answered with the result of a tool where none was called");
            Err(RpcError::internal("the server has no answer"))
        }
        Performed::Output(Output::Tool(mut result)) => {
            // A layer may have put more into it than the revision has.
            mcp_protocol::Shape::shape(&mut result, version);
            Ok(Performed::Output(Output::Tool(result)))
        }
        performed => Ok(performed),
    }
}
