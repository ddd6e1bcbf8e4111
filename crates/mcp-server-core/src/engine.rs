//! What transports call: from a raw request to the answer, era by era.
//!
//! A transport that is not in this workspace is built on this module: parse a message with
//! [`mcp_protocol::Message`], find its [`Era`], make a [`Scope`], [`Server::prepare`](crate::Server::prepare) the request
//! and run it.

mod accept;
mod batch;
mod era;
mod listen;
mod methods;
mod mirrored_headers;
mod prepare;
mod run;
mod task_call;
mod task_legacy;
mod task_requests;

pub use self::{
    accept::{Accepted, Arrival, Rejected, SessionRequest},
    batch::Batch,
    era::Era,
    mirrored_headers::MirroredHeaders,
    prepare::Prepared,
};
pub use crate::request::{Payload, Refusal, Reply, Scope, StatelessCall, Verdict};
