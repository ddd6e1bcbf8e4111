//! The record of a session in the shared store, and the messages between the nodes that serve it.

use mcp_protocol::{RequestId, RpcError, jsonrpc};
use mcp_server_core::engine::{SessionChange, SessionState};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::legacy::owner::Owner;

/// The record of a session.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) owner: Option<Owner>,
    pub(super) state: SessionState,
    /// The number of the writes that changed the state.
    #[serde(default)]
    pub(super) writes: u64,
}

impl Record {
    /// Reads a record. `None` if a newer version of the library wrote it.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    pub(super) fn write(&self) -> Vec<u8> {
        // Strings, flags and JSON values always serialize.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// A message to all nodes about one session.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Message {
    /// The name of the node that sent it.
    pub(super) sender: String,
    /// The digest of the session id.
    pub(super) session: String,
    pub(super) event: Event,
}

/// The event of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Event {
    Changed {
        /// The number of the write, as in the record.
        write: u64,
        changes: Vec<SessionChange>,
    },
    /// The anonymous session has an owner.
    Owned(Owner),
    /// The record has changed. The changes do not fit into a message.
    Reload,
    Ended,
    /// The client reads a stream at the node that sent the message. Readers with a lower order end.
    Reads {
        stream: u64,
        order: u64,
    },
}

/// The answer of a client to a question of another node, as that node reads it again.
#[derive(Serialize)]
struct WireResponse<'a> {
    jsonrpc: &'a str,
    id: &'a RequestId,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RpcError>,
}

/// Returns the bytes that pass an answer: the digest of the session id, and the response.
pub(super) fn passed_answer(session: &str, response: &jsonrpc::Response<'_>) -> Option<Vec<u8>> {
    let (result, error) = match &response.outcome {
        Ok(result) => (Some(*result), None),
        Err(error) => (None, Some(error)),
    };
    let mut bytes = session.as_bytes().to_vec();
    bytes.push(b'\n');
    let response = WireResponse { jsonrpc: "2.0", id: response.id.as_ref()?, result, error };
    serde_json::to_writer(&mut bytes, &response).ok()?;
    Some(bytes)
}

/// Returns the digest of the session id, and the message that another node passed.
pub(super) fn read_passed(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

/// Returns the SHA-256 of a session id. The id is a secret, so names in the store have its digest.
pub(super) fn digest(id: &str) -> Box<str> {
    Sha256::digest(id).iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}
