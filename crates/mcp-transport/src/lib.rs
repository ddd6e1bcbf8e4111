//! Transports of the Model Context Protocol: the traits, and the transports that work on plain byte streams.
//!
//! A [`Transport`] moves [`Frame`]s: raw JSON-RPC messages with their routes and the values that HTTP mirrors in
//! headers. [`Connect`] opens transports to one peer, once per connection.
//!
//! - [`memory`]: a connected pair in memory
//! - [`ndjson`]: newline-delimited JSON over any reader and writer
//! - [`stdio`]: the standard input and output of a server process
//! - `child` (feature `child`): a server as a child process
//! - [`sse`]: the encoder and decoder of server-sent events
//! - [`signal`]: orderly shutdown on signals
//!
//! ```
//! use mcp_transport::{Frame, Transport, memory, recv};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), mcp_transport::TransportError> {
//! let (client, mut server) = memory::duplex(16);
//! client.sender().send(Frame::new(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)).await?;
//! let frame = recv(&mut server).await.expect("the client is connected")?;
//! assert!(frame.message.starts_with(b"{"));
//! # Ok(())
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "child")]
pub mod child;
mod error;
mod frame;
#[doc(hidden)]
pub mod http_status;
mod line;
pub mod memory;
pub mod ndjson;
mod pause_clock;
#[doc(hidden)]
pub mod queue;
#[doc(hidden)]
pub mod random;
pub mod signal;
pub mod sse;
pub mod stdio;
mod transport;

pub use self::{
    error::{LONGEST_RETRY_AFTER, TransportError, TrySendError},
    frame::{Frame, Hints, Route},
    line::Line,
    pause_clock::{AuthorizationClocks, PauseClock, PauseGuard},
    transport::{BoxFuture, Connect, Exchange, FrameSender, Transport, recv},
};
