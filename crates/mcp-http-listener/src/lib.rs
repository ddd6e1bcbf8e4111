//! A hardened HTTP/1.1 and HTTP/2 listener that serves any tower service, such as an `axum::Router`.
//!
//! [`serve`] accepts connections and bounds every wait on a client:
//!
//! - The number of open connections is limited ([`Serve::max_connections`]).
//! - A client has 30 seconds to send the head of a request. An idle connection closes after the same time.
//! - A client that stops reading an answer loses the connection, or over HTTP/2 the stream ([`Serve::write_timeout`]).
//! - A client that receives an answer before it has sent its whole request can still read that answer. The listener
//!   discards the rest of the request for a bounded time before it closes the connection.
//! - A graceful shutdown rejects partial requests at once and waits a bounded time for open requests
//!   ([`Serve::shutdown_deadline`]).
//! - With the feature `tls`, [`Serve::tls`] serves HTTPS and reloads certificates that change on disk.
//!
//! HTTP/1.1 and HTTP/2 share one port. The first bytes of a connection, or ALPN over TLS, decide.
//!
//! # Example
//!
//! ```
//! use axum::{Router, routing::get};
//! use tokio::net::TcpListener;
//!
//! # async fn example() -> std::io::Result<()> {
//! let app = Router::new().route("/hello", get(async || "Hello!"));
//! let listener = TcpListener::bind("127.0.0.1:8080").await?;
//! let stop = async {
//!     let _ = tokio::signal::ctrl_c().await;
//! };
//! mcp_http_listener::serve(listener, app).with_graceful_shutdown(stop).await;
//! # Ok(())
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "tls")]
mod client_certificate;
mod connection;
mod peer;
mod security;
mod serve;
mod tcp;
#[cfg(feature = "tls")]
mod tls;
mod write_timeout;

#[cfg(feature = "tls")]
pub use self::{
    client_certificate::{ClientCertificate, ClientCertificates},
    tls::{TlsConfig, TlsError},
};
pub use self::{
    connection::{RequestBody, RequestBodyError},
    peer::PeerAddr,
    serve::{Serve, Serving, serve},
};
