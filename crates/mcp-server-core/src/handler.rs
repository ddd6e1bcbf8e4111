//! Handlers: plain async functions whose arguments are extractors. Arguments and output describe themselves at the
//! registration.

mod args;
mod arguments;
mod extract;
mod function;
mod inputs;
mod kind;
mod output;
mod strings;

use std::{future::Future, pin::Pin, sync::Arc};

use serde_json::Value;

use crate::context::Context;
pub(crate) use crate::error::ToolError;

pub(crate) use self::args::schema_of;
pub use self::{
    args::{Args, RawArgs},
    extract::{Extension, FromRef, State},
    inputs::Inputs,
    kind::{CompletionKind, Kind, PromptKind, ResourceKind, ToolKind},
    output::{Audio, Blob, Image, IntoContent, Json, Structured, WithMeta},
};

/// The description of a handler, which its arguments and its output provide at the registration.
#[derive(Debug, Default, Clone)]
#[non_exhaustive]
pub struct Description {
    /// The purpose of the handler, from the doc comment of its arguments.
    pub text: Option<String>,
    /// The JSON Schema of the arguments.
    pub input: Option<Value>,
    /// The JSON Schema of the structured output.
    pub output: Option<Value>,
    /// The kind of value that a tool returns, if it has no schema.
    pub returns: Returns,
    /// The media type of the contents, if the output type determines it: `application/json` for [`Json`].
    pub mime_type: Option<String>,
    /// Whether the handler takes its arguments unparsed. The registration needs a schema then.
    pub takes_raw_arguments: bool,
    /// Whether the handler sends input requests to the client. [`Inputs`](crate::Inputs) sets it. Other handlers cannot send
    /// input requests.
    pub uses_inputs: bool,
    /// Whether the handler takes [`Completing`](crate::Completing), which only handlers of completions have.
    pub takes_completing: bool,
    /// Whether the handler takes [`ResourceUri`](crate::ResourceUri), which only handlers of resources have.
    pub takes_resource_uri: bool,
}

/// The use of the value that a tool returns, if the tool has an output schema.
///
/// ```
/// use mcp_server_core::{Description, Image, IntoOutput, Returns, ToolKind};
///
/// let mut description = Description::default();
/// assert_eq!(description.returns, Returns::Result);
/// <Image as IntoOutput<ToolKind>>::describe(&mut description);
/// assert_eq!((description.returns, description.output), (Returns::Content, None));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Returns {
    /// A complete result, with its own structured content.
    #[default]
    Result,
    /// JSON, which is the structured content.
    Value,
    /// Content for people and models, without structured content.
    Content,
}

/// One call of a handler. Extractors read it.
#[derive(Debug)]
#[non_exhaustive]
pub struct HandlerCall {
    /// The parts that every extractor may read.
    pub parts: CallParts,
    /// The arguments, which the last extractor consumes.
    pub arguments: Arguments,
}

/// The parts of a call that every extractor may read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallParts {
    /// The context of the request.
    pub context: Context,
}

/// The arguments of a call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Arguments {
    /// The arguments of a tool: a JSON object.
    Json(Value),
    /// The arguments of a prompt or the variables of a template: names and texts.
    Strings(Vec<(String, StringArgument)>),
}

/// The value of a prompt argument or a template variable.
///
/// ```
/// use mcp_server_core::StringArgument;
///
/// /// Returns the text of an argument. The items of a list are joined by slashes.
/// fn joined(argument: StringArgument) -> String {
///     match argument {
///         StringArgument::One(text) => text,
///         StringArgument::Many(items) => items.join("/"),
///         _ => String::new(),
///     }
/// }
/// assert_eq!(joined(StringArgument::Many(vec!["a".into(), "b".into()])), "a/b");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StringArgument {
    /// One text.
    One(String),
    /// A list of texts, as `{/path*}` captures it.
    Many(Vec<String>),
}

/// An extractor that may be any argument of a handler.
///
/// An extractor that uses others calls their `describe`. It is required for [`Inputs`](crate::Inputs): a handler can send
/// input requests only if its description says so, and extracting `Inputs` fails otherwise.
///
/// ```
/// use mcp_server_core::{CallParts, Description, FromCallParts, Inputs, Progress, ToolError};
///
/// /// The common arguments of all tools of this program.
/// struct Client { inputs: Inputs, progress: Progress }
///
/// impl<S: Send + Sync> FromCallParts<S> for Client {
///     fn describe(description: &mut Description) {
///         <Inputs as FromCallParts<S>>::describe(description);
///         <Progress as FromCallParts<S>>::describe(description);
///     }
///
///     async fn from_call_parts(parts: &mut CallParts, state: &S) -> Result<Self, ToolError> {
///         let inputs = Inputs::from_call_parts(parts, state).await?;
///         let progress = Progress::from_call_parts(parts, state).await?;
///         Ok(Self { inputs, progress })
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a handler in this place",
    label = "`{Self}` is not an extractor for this place",
    note = "`State<_>`, `Context`, `Progress` and the other extractors may be any argument; `Args<_>` and `RawArgs` must be the last argument",
    note = "plain values are fields of a struct: `Args(MyArgs {{ name, count }}): Args<MyArgs>`",
    note = "the rules of handlers: `docs/handlers.md` of the library, and the documentation of `mcp_server::check`"
)]
pub trait FromCallParts<S>: Sized {
    /// Adds its part to the description of the handler.
    fn describe(_description: &mut Description) {}

    /// Extracts the value from a call.
    fn from_call_parts(parts: &mut CallParts, state: &S) -> impl Future<Output = Result<Self, ToolError>> + Send;
}

mod via {
    /// Marks an extractor that reads the parts.
    #[derive(Debug)]
    #[expect(unnameable_types, reason = "code never has to name the marker")]
    pub enum Parts {}
    /// Marks an extractor that consumes the call.
    #[derive(Debug)]
    #[expect(unnameable_types, reason = "code never has to name the marker")]
    pub enum Whole {}
}

/// An extractor that may be the last argument of a handler. It consumes the call.
///
/// `M` keeps two kinds of implementations apart. Code never has to name it.
///
/// ```
/// use mcp_server_core::{Arguments, HandlerCall, FromCall, ToolError, ToolRoute, tool};
/// use serde_json::json;
///
/// /// The number of arguments.
/// struct Count(usize);
///
/// impl<S: Send + Sync> FromCall<S> for Count {
///     async fn from_call(call: HandlerCall, _state: &S) -> Result<Self, ToolError> {
///         Ok(Self(match call.arguments {
///             Arguments::Json(value) => value.as_object().map_or(0, |object| object.len()),
///             Arguments::Strings(values) => values.len(),
///             _ => 0,
///         }))
///     }
/// }
///
/// let route: ToolRoute =
///     tool("count", async |Count(count): Count| count.to_string()).input_schema(json!({ "type": "object" }));
/// # let _ = route;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the last argument of a handler",
    label = "`{Self}` is not an extractor",
    note = "the last argument is `Args<T>`, `RawArgs` or any other extractor",
    note = "plain values are fields of a struct: `Args(MyArgs {{ name, count }}): Args<MyArgs>`",
    note = "the rules of handlers: `docs/handlers.md` of the library, and the documentation of `mcp_server::check`"
)]
pub trait FromCall<S, M = via::Whole>: Sized {
    /// Adds its part to the description of the handler.
    fn describe(_description: &mut Description) {}

    /// Extracts the value from a call.
    fn from_call(call: HandlerCall, state: &S) -> impl Future<Output = Result<Self, ToolError>> + Send;
}

impl<S: Send + Sync, T: FromCallParts<S>> FromCall<S, via::Parts> for T {
    fn describe(description: &mut Description) {
        <T as FromCallParts<S>>::describe(description);
    }

    async fn from_call(mut call: HandlerCall, state: &S) -> Result<Self, ToolError> {
        T::from_call_parts(&mut call.parts, state).await
    }
}

/// A value that a handler of kind `K` may return.
///
/// ```
/// use mcp_server_core::{IntoOutput, ToolError, ToolKind, tool};
/// use mcp_protocol::CallToolResult;
///
/// struct Celsius(f64);
///
/// impl IntoOutput<ToolKind> for Celsius {
///     fn into_output(self) -> Result<CallToolResult, ToolError> {
///         IntoOutput::<ToolKind>::into_output(format!("{} °C", self.0))
///     }
/// }
///
/// let route: mcp_server_core::ToolRoute = tool("temperature", async || Celsius(21.5));
/// # let _ = route;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the output of a handler of the kind `{K}`",
    label = "the handler returns `{Self}`",
    note = "a tool returns text, `Json<T>`, `Structured<T>`, `Image`, `Audio`, content blocks, a list of those, or `CallToolResult`",
    note = "a resource returns text, `Json<T>`, `Blob`, `ResourceContents` or a list of them; a prompt returns text, `PromptMessage` or a list of them; a completion returns a list of texts",
    note = "a handler that can fail returns a `Result` of one of these types",
    note = "the rules of handlers: `docs/handlers.md` of the library, and the documentation of `mcp_server::check`"
)]
pub trait IntoOutput<K: Kind> {
    /// Adds its part to the description of the handler.
    fn describe(_description: &mut Description) {}

    /// Converts the value into the output of a handler.
    ///
    /// # Errors
    /// Returns the [`ToolError`] of the handler, or the reason why the value cannot be sent.
    fn into_output(self) -> Result<K::Output, ToolError>;
}

mod error {
    use super::ToolError;

    /// An error that converts into [`ToolError`]. The trait is separate from `Into` for the text of its error.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be the error of a handler: it does not convert into `ToolError`",
        label = "the handler fails with `{Self}`",
        note = "return `Result<_, ToolError>`; `ToolError::new(\"…\")` has a text for the model, and `.visible()?` converts any error that implements `Display`",
        note = "each type that implements `std::error::Error + Send + Sync + 'static` converts; `String`, `&str`, `anyhow::Error` and `Box<dyn Error>` do not implement it",
        note = "the rules of handlers: `docs/handlers.md` of the library, and the documentation of `mcp_server::check`"
    )]
    #[expect(unnameable_types, reason = "code never has to name the trait")]
    pub trait HandlerError {
        fn into_tool_error(self) -> ToolError;
    }

    #[diagnostic::do_not_recommend]
    impl<E: Into<ToolError>> HandlerError for E {
        fn into_tool_error(self) -> ToolError {
            self.into()
        }
    }
}

impl<K: Kind, T: IntoOutput<K>, E: error::HandlerError> IntoOutput<K> for Result<T, E> {
    fn describe(description: &mut Description) {
        T::describe(description);
    }

    fn into_output(self) -> Result<K::Output, ToolError> {
        self.map_err(error::HandlerError::into_tool_error)?.into_output()
    }
}

/// An async function that serves a tool, a resource, a prompt or a completion.
///
/// The trait is implemented for functions of at most 8 arguments that are extractors. The functions of [`check`](crate::check)
/// check one handler or one part of it.
///
/// ```
/// use mcp_server_core::{Handler, ToolKind, ToolRoute, tool};
///
/// /// Registers a handler under a prefix.
/// fn prefixed<M, H: Handler<M, (), ToolKind>>(name: &str, handler: H) -> ToolRoute {
///     tool(format!("acme.{name}"), handler)
/// }
///
/// let route = prefixed("greet", async || "Hello!");
/// # let _ = route;
/// ```
///
/// # Type parameters
/// `M` is the list of argument types. It keeps the implementations for different numbers of arguments apart, and code never
/// has to name it. `S` is the state of the server, and `K` is the kind of the handler.
#[diagnostic::on_unimplemented(
    message = "a handler is an async function of at most 8 arguments, but this is `{Self}`",
    label = "not an async function of at most 8 arguments",
    note = "a handler is an `async fn` or an async closure; `Args<T>` holds any number of arguments of a call",
    note = "the rules of handlers: `docs/handlers.md` of the library, and the documentation of `mcp_server::check`"
)]
pub trait Handler<M, S, K: Kind>: Clone + Send + Sync + 'static {
    /// Collects the descriptions of the arguments and the output.
    fn describe(description: &mut Description);

    /// Runs the handler.
    fn call(self, call: HandlerCall, state: S) -> Pin<Box<dyn Future<Output = Result<K::Output, ToolError>> + Send>>;
}

/// The single implementation: each bound of it is one rule, and the compiler reports the rule that a function breaks.
impl<F, A, V, S, K> Handler<(A, V), S, K> for F
where
    F: function::Function<A> + Clone + Send + Sync + 'static,
    A: arguments::FromCallAll<S, V>,
    F::Returned: function::Asynchronous + Send,
    <F::Returned as function::Asynchronous>::Output: IntoOutput<K>,
    S: Send + Sync + 'static,
    K: Kind,
{
    fn describe(description: &mut Description) {
        A::describe(description);
        <<F::Returned as function::Asynchronous>::Output as IntoOutput<K>>::describe(description);
    }

    fn call(self, call: HandlerCall, state: S) -> HandlerFuture<K> {
        Box::pin(async move {
            let arguments = A::from_call(call, &state).await?;
            function::Asynchronous::run(self.apply(arguments)).await.into_output()
        })
    }
}

pub(crate) type HandlerFuture<K> = Pin<Box<dyn Future<Output = Result<<K as Kind>::Output, ToolError>> + Send>>;

/// The extractors of a handler that its registration has to know.
#[derive(Clone, Copy, Default)]
struct Uses {
    inputs: bool,
    completing: bool,
    resource_uri: bool,
}

/// A handler of any type that still needs its state `S`.
pub(crate) struct Erased<S, K: Kind> {
    call: Arc<dyn Fn(HandlerCall, S) -> HandlerFuture<K> + Send + Sync>,
    uses: Uses,
}

impl<S, K: Kind> Clone for Erased<S, K> {
    fn clone(&self) -> Self {
        Self { call: self.call.clone(), uses: self.uses }
    }
}

/// A handler of any type that has its state.
pub(crate) struct Ready<K: Kind> {
    call: Arc<dyn Fn(HandlerCall) -> HandlerFuture<K> + Send + Sync>,
    uses: Uses,
}

impl<K: Kind> Clone for Ready<K> {
    fn clone(&self) -> Self {
        Self { call: self.call.clone(), uses: self.uses }
    }
}

impl<K: Kind> Ready<K> {
    /// Creates a handler of the library itself. It sends no input requests.
    pub(crate) fn new(call: impl Fn(HandlerCall) -> HandlerFuture<K> + Send + Sync + 'static) -> Self {
        Self { call: Arc::new(call), uses: Uses::default() }
    }

    pub(crate) fn call(&self, call: HandlerCall) -> HandlerFuture<K> {
        (self.call)(call)
    }

    /// Whether the handler takes `Inputs`.
    pub(crate) fn uses_inputs(&self) -> bool {
        self.uses.inputs
    }
}

impl<S, K: Kind> Erased<S, K> {
    /// Checks that calls of this kind have the values that the handler extracts.
    ///
    /// # Errors
    /// Returns the reason for an extractor of another kind of handler.
    pub(crate) fn check_extractors(&self) -> Result<(), String> {
        let (extractor, kind) = match self.uses {
            Uses { completing: true, .. } if !K::COMPLETES => ("Completing", "completions"),
            Uses { resource_uri: true, .. } if !K::READS => ("ResourceUri", "resources"),
            _ => return Ok(()),
        };
        Err(format!("the handler takes `{extractor}`, which only handlers of {kind} have: remove this argument"))
    }

    /// Whether the handler takes `Inputs`.
    pub(crate) fn uses_inputs(&self) -> bool {
        self.uses.inputs
    }
}

impl<S: Clone + Send + Sync + 'static, K: Kind> Erased<S, K> {
    pub(crate) fn new<M, H: Handler<M, S, K>>(handler: H) -> Self {
        let mut description = Description::default();
        H::describe(&mut description);
        let call = Arc::new(move |call, state| handler.clone().call(call, state));
        let uses = Uses {
            inputs: description.uses_inputs,
            completing: description.takes_completing,
            resource_uri: description.takes_resource_uri,
        };
        Self { call, uses }
    }

    /// Converts a handler that needs no state any more.
    pub(crate) fn ready(ready: Ready<K>) -> Self {
        Self { uses: ready.uses, call: Arc::new(move |call, _state| ready.call(call)) }
    }

    pub(crate) fn with_state(self, state: S) -> Ready<K> {
        Ready { uses: self.uses, call: Arc::new(move |call| (self.call)(call, state.clone())) }
    }
}
