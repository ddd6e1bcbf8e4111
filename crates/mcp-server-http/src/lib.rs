//! HTTP for Model Context Protocol servers: Streamable HTTP of every revision, as a listener, an axum router or a tower
//! service.
//!
//! [`serve`] serves a [`Server`](mcp_server_core::Server) on a listener. [`HttpServer`] adds short forms to `Server`, and
//! the router and the service for other HTTP servers. One endpoint serves the stateless era and the sessions of the session
//! era: the body of a request decides. The defaults are safe: loopback addresses only, `Host` and `Origin` checked, sizes
//! and times bounded ([`HttpConfig`]).
//!
//! The listener serves HTTP/1.1 and HTTP/2, and with the feature `tls` also HTTPS. It is a crate of its own and serves any
//! tower service ([`listener`]).

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
    serve::{HttpError, HttpServer, Serve, Serving, serve},
    service::McpService,
};
#[doc(inline)]
pub use mcp_auth::ConfigError;
#[doc(inline)]
pub use mcp_http_listener as listener;
#[cfg(feature = "tls")]
pub use mcp_http_listener::{TlsConfig, TlsError};
