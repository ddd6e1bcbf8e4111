//! Wire types of every revision of the Model Context Protocol: no I/O, no runtime.
//!
//! One superset of types serves all five revisions (2024-11-05 … 2026-07-28); [`ProtocolVersion`] names what differs.

mod error;
pub mod jsonrpc;
mod version;

pub use self::{
    error::{ErrorCode, RpcError},
    jsonrpc::{Message, RequestId},
    version::{ProtocolVersion, UnknownVersion},
};

/// Placeholder until the capability types land.
#[derive(Debug, Clone, Default, serde::Serialize)]
#[non_exhaustive]
pub struct ClientCapabilities {}
