//! The HTTP client transports of the Model Context Protocol: Streamable HTTP of every revision, and HTTP+SSE of
//! 2024-11-05.
//!
//! [`Http`] is a [`Connect`](mcp_transport::Connect): it opens transports to one endpoint. A transport detects with the
//! first `initialize` whether the server speaks Streamable HTTP or HTTP+SSE. It mirrors the hints of a frame in
//! headers.
//!
//! ```
//! use mcp_client_http::Http;
//!
//! let http = Http::new("https://mcp.example.com/mcp")?.bearer("secret")?.header("x-team", "blue")?;
//! assert!(!format!("{http:?}").contains("secret"));
//! # Ok::<_, mcp_client_http::ConfigError>(())
//! ```
//!
//! Each message is a POST of its own. Requests run in parallel over pooled connections. A received frame has the route
//! of the request whose response contained it.
//!
//! The answer to `initialize` opens a session (2025-03-26 to 2025-11-25). The transport opens the stream of the session
//! after the server has accepted `notifications/initialized`, resumes its streams, and ends the session on shutdown.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod authorizer;
mod authorizer_error;
mod client;
mod config;
mod exchange;
mod fault;
mod headers;
mod http;
mod http_request;
mod legacy_sse;
mod listen;
mod post;
mod refusal;
mod request;
mod request_tasks;
mod shared;
mod stream;
mod transport;

/// The guarded requests of an authorizer to its authorization servers ([`Authorizer::attach`]).
pub use mcp_fetch;
/// The HTTP client library, for [`Http::proxy`] and [`Http::dangerous_client`].
pub use reqwest;

pub use self::{
    authorizer::{Authorizer, Operation, Refusal, Target, Verdict},
    authorizer_error::{AuthorizerError, AuthorizerErrorKind},
    config::ConfigError,
    http::Http,
};
