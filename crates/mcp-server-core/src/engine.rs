//! The interface for transports: from a message to its response, in either era.
//!
//! A transport makes two calls: [`Engine::accept`] reads a message and prepares its request, and [`Prepared::run`] runs it. A request of the session era gets its session in between
//! ([`SessionRequest::in_session`]).
//!
//! This module is for the transports of the workspace. A minor version may change it, so its documentation is hidden.

mod accept;
mod access;
mod batch;
mod era;
mod handle;
mod interface;
mod listen;
mod listen_source;
mod methods;
mod mirrored_headers;
mod prepare;
mod run;
mod source_call;
mod source_task;
mod task_call;
mod task_legacy;
mod task_requests;

pub use self::{
    accept::{Accepted, Arrival, Rejected, SessionRequest},
    batch::Batch,
    era::Era,
    interface::Engine,
    mirrored_headers::{MirroredHeaders, SingleHeader},
    prepare::Prepared,
};
pub use crate::error::{Panic, contain_async, flush_faults};
pub use crate::node::{Failing, HandlerGuard, Lease, Node, NodeError};
pub use crate::request::{Denied, Payload, Refusal, Reply, Scope, StatelessCall, Verdict};
pub use crate::server::ServerListener;
pub use crate::session::{ChangeMark, MadeChanges, Peer, Session, SessionChange, SessionState, Storing};
pub use crate::shutdown::{RunningWork, WorkGuard};
pub use crate::store::unavailable as store_unavailable;
pub use crate::trace::access as access_log;
