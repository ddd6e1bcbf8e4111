//! HTTP for Model Context Protocol servers: Streamable HTTP of every revision as a tower service and an axum router.
//!
//! [`HttpServer`] gives a [`Server`](mcp_server_core::Server) its ways onto the network. One endpoint serves the stateless
//! revision and the sessions of the older ones; the body of a request decides. The defaults are safe: loopback only, `Host`
//! and `Origin` checked, sizes bounded ([`HttpConfig`]).
//!
//! Its own listener speaks HTTP/1.1 and HTTP/2, and with feature `tls` also over TLS.

mod accept;
mod body;
mod call;
mod config;
mod cors;
mod guard;
mod headers;
mod health;
mod lane;
mod legacy;
mod listen;
mod log;
mod plain;
mod respond;
mod serve;
mod service;
mod sessions;
mod sse;
mod stateless;
mod stream;
mod until;
mod vectored;

pub use self::{
    body::Body,
    config::HttpConfig,
    serve::{HttpError, HttpServer},
    service::{McpService, RequestParts},
};
#[cfg(feature = "tls")]
pub use mcp_http_listener::{TlsConfig, TlsError};
