//! HTTP for clients of the Model Context Protocol: Streamable HTTP of every revision, and HTTP+SSE of the first.
//!
//! [`Http`] is a [`Connect`](mcp_transport::Connect): it opens transports to one endpoint. A transport finds out by itself
//! whether the server speaks Streamable HTTP or HTTP+SSE, once the first `initialize` shows it; what it is told in the
//! hints of a frame it mirrors in headers.
//!
//! ```
//! use mcp_client_http::Http;
//!
//! let http = Http::new("https://mcp.example.com/mcp")?.bearer("secret")?.header("x-team", "blue")?;
//! assert!(!format!("{http:?}").contains("secret"));
//! # Ok::<_, mcp_client_http::ConfigError>(())
//! ```
//!
//! Every message is a POST of its own; requests run in parallel over connections that are kept. What comes back is given
//! on with the route that it came on. A session (2025-03-26 to 2025-11-25) is opened by the answer to `initialize`,
//! listened to after `notifications/initialized` was accepted, and ended by `shutdown`; its streams are resumed.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod authorizer;
mod client;
mod config;
mod exchange;
mod fault;
mod headers;
mod http;
mod link;
mod listen;
mod old;
mod post;
mod refusal;
mod request;
mod stream;
mod tasks;
mod transport;

/// The client of HTTP below, for [`Http::proxy`] and [`Http::dangerous_client`].
pub use reqwest;

pub use self::{
    authorizer::{Authorizer, AuthorizerError, Refusal, Target, Verdict},
    config::ConfigError,
    http::Http,
};
