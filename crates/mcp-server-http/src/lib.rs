//! HTTP for Model Context Protocol servers: Streamable HTTP of every revision as a tower service and an axum router.
//!
//! [`HttpServer`] gives a [`Server`](mcp_server_core::Server) its ways onto the network. One endpoint serves the stateless
//! revision and the sessions of the older ones; the body of a request decides. The defaults are safe: loopback only, `Host`
//! and `Origin` checked, sizes bounded ([`HttpConfig`]).
//!
//! Its own listener speaks HTTP/1.1 and HTTP/2, and with feature `tls` also over TLS.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
mod config;
mod endpoint;
mod legacy;
mod request;
mod serve;
mod service;
mod stateless;

pub use self::{
    answer::body::Body,
    config::HttpConfig,
    endpoint::RequestParts,
    serve::{HttpError, HttpServer},
    service::McpService,
};
#[cfg(feature = "tls")]
pub use mcp_http_listener::{TlsConfig, TlsError};
