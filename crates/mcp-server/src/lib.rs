//! Write Model Context Protocol servers: typed handlers once, every revision, stdio and HTTP.
//!
//! This crate is what a server author depends on. It re-exports the server itself ([`Server`], [`tool`], [`resource`],
//! [`template`], [`prompt`] and the extractors), the wire types ([`protocol`]), what the nodes of a fleet share
//! ([`store`], for [`ServerBuilder::store`]), and with feature `http` (on by default) the HTTP server; feature `tls` adds HTTPS, feature `log-layer` a layer of `tracing` that sends records to clients.
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

pub use mcp_protocol as protocol;
pub use mcp_schema as schema;
#[cfg(any(feature = "fs", feature = "skills"))]
pub use mcp_server_content as content;
pub use mcp_server_core::*;
#[cfg(feature = "http")]
pub use mcp_server_http as http;
pub use mcp_store as store;
pub use mcp_transport as transport;
pub use schemars;

/// What nearly every server needs: `use mcp_server::prelude::*;`.
pub mod prelude {
    pub use mcp_protocol::{
        CallToolResult, ContentBlock, GetPromptResult, LoggingLevel, Meta, Principal, PromptArgument, PromptMessage,
        ReadResourceResult, Resource, ResourceContents, Role, RpcError,
    };
    #[cfg(feature = "fs")]
    pub use mcp_server_content::{ContentDir, ResourceDir};
    #[cfg(feature = "skills")]
    pub use mcp_server_content::{Skill, Skills};
    pub use mcp_server_core::{
        Args, Audio, Blob, Cancelled, Completing, Context, Extension, FromRef, Image, Inputs, Json, MessageTemplate,
        Parameter, ParameterType, Progress, PromptRoute, RawArgs, ResourceRoute, ResourceUri, Server, ServerBuilder,
        State, Structured, TaskPolicy, TaskSupport, TemplateRoute, ToolError, ToolRoute, Visible, WithMeta, prompt,
        prompt_template, resource, template, tool,
    };
    #[cfg(feature = "tls")]
    pub use mcp_server_http::TlsConfig;
    #[cfg(feature = "http")]
    pub use mcp_server_http::{HttpConfig, HttpServer};
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
}

/// Compiles the examples of the guides.
#[cfg(doctest)]
mod guides {
    #[cfg(feature = "fs")]
    #[doc = include_str!("../../../docs/content.md")]
    mod content {}
    #[cfg(feature = "http")]
    #[doc = include_str!("../../../docs/layers.md")]
    mod layers {}
    #[doc = include_str!("../../../docs/long-work.md")]
    mod long_work {}
    #[doc = include_str!("../../../docs/questions.md")]
    mod questions {}
    #[cfg(feature = "log-layer")]
    #[doc = include_str!("../../../docs/telemetry.md")]
    mod telemetry {}
}
