//! Transports of the Model Context Protocol: what a transport is, and those that need nothing but bytes.
//!
//! A [`Transport`] moves [`Frame`]s: raw JSON-RPC messages, each with its route and the hints that HTTP mirrors in
//! headers. [`Connect`] opens a fresh transport as often as asked. In this crate: an in-memory pair ([`memory`]),
//! newline-delimited JSON over any reader and writer ([`ndjson`]), the stdio of a server ([`stdio`]), a server as a child
//! process (`child`, behind the feature of that name), the encoder and the decoder of server-sent events ([`sse`]), and
//! the signals that end a process in order ([`signal`]).

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "child")]
pub mod child;
mod error;
mod frame;
pub mod memory;
pub mod ndjson;
mod queue;
pub mod signal;
pub mod sse;
pub mod stdio;
mod transport;

pub use self::{
    error::{TransportError, TrySendError},
    frame::{Frame, Hints, Route},
    queue::{Queue, Queued, TryPushError},
    transport::{BoxFuture, Connect, FrameSender, Transport, recv},
};
