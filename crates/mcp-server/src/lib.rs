//! Write Model Context Protocol servers: typed handlers once, every revision, stdio and HTTP.
//!
//! Authors of servers depend on this crate alone. Its root has the server, its builder and the routes. [`prelude`] has the
//! names that most servers use. The modules hold the rest, by subject:
//!
//! - [`extract`]: the parameter types of handlers.
//! - [`output`]: the return types of handlers.
//! - [`handler`]: the traits and markers behind handlers.
//! - [`layer`]: tower middleware around handler calls.
//! - [`inputs`], [`tasks`]: input requests to the client, and calls that outlive their request.
//! - [`live`]: the lists of a running server.
//! - [`extension`]: methods, capabilities and background work of your own.
//! - `http` (feature `http`, on by default): Streamable HTTP. Feature `tls` adds HTTPS.
//! - `auth` (feature `auth`): authentication of HTTP callers by signed tokens, API keys, passwords and own schemes. Feature
//!   `oauth` adds the tokens of authorization servers.
//! - `content` (features `fs` and `skills`): files as resources, directories as servers, skills.
//! - [`check`]: checks of handlers at compile time, with the rules of handlers.
//! - `macros` (feature `macros`): `#[tool]`, `#[prompt]` and `#[resource]` on plain functions, and `#[debug_handler]`.
//! - [`telemetry`]: trace propagation. Feature `log-layer` adds a layer that sends log records to clients.
//! - [`protocol`], [`schema`], [`store`], [`transport`]: the wire types, JSON Schema, the shared store of a fleet, and
//!   transports.
//!
//! ```
//! use mcp_server::prelude::*;
//!
//! /// Add two numbers.
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     a: f64,
//!     b: f64,
//! }
//!
//! async fn add(Args(Add { a, b }): Args<Add>) -> String {
//!     (a + b).to_string()
//! }
//!
//! let server = Server::builder("calculator", "1.0.0").tool(tool("add", add).read_only()).build();
//! // server.serve_stdio().await or server.serve_http("127.0.0.1:8080").await
//! # let _: Server = server;
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "auth")]
pub use mcp_auth as auth;
pub use mcp_protocol as protocol;
pub use mcp_schema as schema;
#[cfg(any(feature = "fs", feature = "skills"))]
pub use mcp_server_content as content;
pub use mcp_server_core::{
    CacheHint, Caller, ClientNotification, Context, Limits, MessageTemplate, NodeLimits, Parameter, ParameterType,
    PromptRoute, RegistrationError, ResourceRoute, ServeError, Server, ServerBuilder, TemplateRoute, ToolError,
    ToolRoute, Visible, check, extension, prompt, prompt_template, resource, source, template, tool,
};
#[cfg(feature = "http")]
pub use mcp_server_http as http;
pub use mcp_store as store;
pub use mcp_transport as transport;
pub use schemars;

/// The names that most servers use: `use mcp_server::prelude::*;`.
///
/// The other names are in the modules by subject, for example [`extract::Extension`] and [`output::Structured`].
///
/// axum has a `State` and a `Json`, too. An explicit import hides a name of the prelude. A file that imports
/// `axum::extract::State` or `axum::Json` therefore names the extractor and the output of this crate by their paths:
///
/// ```
/// use axum::extract::State;
/// use mcp_server::{extract, output, prelude::*};
///
/// #[derive(Serialize, JsonSchema)]
/// struct Size { width: u32 }
///
/// async fn size(extract::State(width): extract::State<u32>) -> output::Json<Size> {
///     output::Json(Size { width })
/// }
///
/// async fn page(State(width): State<u32>) -> String {
///     width.to_string()
/// }
///
/// let server = Server::builder("sizes", "1.0.0").tool(tool("size", size)).with_state(640).build();
/// let app = axum::Router::<u32>::new().route("/size", axum::routing::get(page));
/// # let _: (Server, axum::Router<u32>) = (server, app);
/// ```
pub mod prelude {
    #[cfg(feature = "macros")]
    pub use mcp_macros::{debug_handler, prompt, resource, tool};
    pub use mcp_protocol::{CallToolResult, ContentBlock, LoggingLevel, Meta, Principal, PromptMessage, RpcError};
    pub use mcp_server_core::{
        Args, Cancelled, Completing, Context, Image, Inputs, Json, Progress, RawArgs, Server, State, ToolError,
        ToolRoute, Visible, prompt, resource, template, tool,
    };
    #[cfg(feature = "tls")]
    pub use mcp_server_http::TlsConfig;
    #[cfg(feature = "http")]
    pub use mcp_server_http::{HttpConfig, HttpServer};
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
}

/// The parameter types of handlers, and the traits to write more of them.
pub mod extract {
    pub use mcp_server_core::{
        Args, Arguments, CallParts, Cancelled, Completing, Context, Extension, Extensions, FromCall, FromCallParts,
        FromRef, HandlerCall, Inputs, Progress, ProgressNumber, RawArgs, ResourceUri, State, StringArgument,
    };
}

/// The return types of handlers, and the traits to write more of them.
pub mod output {
    pub use mcp_server_core::{Audio, Blob, Image, IntoContent, IntoOutput, Json, Structured, WithMeta};
}

/// The trait that makes an async function a handler, and the markers for the kinds of handlers.
pub mod handler {
    pub use mcp_server_core::{
        CompletionKind, Description, Handler, Kind, PromptKind, ResourceKind, Returns, ToolKind,
    };
}

/// Tower middleware around handler calls: [`ServerBuilder::layer`], [`ToolRoute::layer`].
pub mod layer {
    pub use mcp_server_core::{
        FromFn, FromFnService, HandlerService, Invocation, Next, Outcome, RateLimit, RateLimited, from_fn,
    };
}

/// Input requests of a handler to the client: elicitation, sampling, roots.
pub mod inputs {
    pub use mcp_server_core::{InputError, InputLimits, InputRound, Inputs, StateBinding, StateKeys};
}

/// Calls that outlive their request, and tasks for other work.
pub mod tasks {
    pub use mcp_server_core::{NewTask, StandaloneTask, TaskLimits, TaskPolicy, TaskSupport, Tasks};
}

/// The lists and notifications of a running server: [`Server::tools`], [`Server::notify`] and the like.
pub mod live {
    pub use mcp_server_core::{Notices, Prompts, ResourceTemplates, Resources, ShuttingDown, Tools};
}

/// Attribute macros that write the argument struct and the route of a function.
///
/// The names [`tool`](macros::tool), [`prompt`](macros::prompt) and [`resource`](macros::resource) are macros here and
/// functions in the root of the crate. `use` imports both: they do not conflict.
#[cfg(feature = "macros")]
pub mod macros {
    pub use mcp_macros::{debug_handler, prompt, resource, tool};
}

/// The paths that the macros use.
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod __private {
    pub use mcp_server_core::check::plain_argument as check_plain_argument;
    pub use serde;
}

/// Trace propagation, and log records for clients.
pub mod telemetry {
    #[cfg(feature = "log-layer")]
    pub use mcp_server_core::LogRecords;
    pub use mcp_server_core::Propagate;
}
