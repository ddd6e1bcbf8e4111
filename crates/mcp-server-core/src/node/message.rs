//! The messages between nodes: a JSON header, a line feed, and the bytes of the body.

use std::{sync::Arc, time::Duration};

use mcp_store::limits::MAX_MESSAGE_BYTES;
use serde::{Deserialize, Serialize};

use super::{NodeError, topic};
use crate::{json, random, store::ServerStore};

/// The most bytes of a body.
const BODY_BYTES: usize = 64 << 20;
/// A longer body is a record in the store, which the message names.
const INLINE_BYTES: usize = MAX_MESSAGE_BYTES - (4 << 10);
/// The lifetime of such a record. The receiver deletes it earlier.
const RECORD_TTL: Duration = Duration::from_secs(60);

/// The head of a message.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Head {
    /// The id of the sender.
    pub(super) from: String,
    /// The number of the request, unique for its sender.
    pub(super) number: u64,
    pub(super) part: Part,
    /// The key of the record with the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    record: Option<String>,
}

/// The kind of a message.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Part {
    /// A request of a kind.
    Request(String),
    /// The sender of the request no longer waits.
    Cancel,
    /// The request arrived, and its handler runs.
    Acknowledged,
    /// The handler replied.
    Reply,
    /// The request is rejected.
    Rejected(Rejection),
}

/// The reason for which a node rejects a request.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Rejection {
    Unsupported,
    Busy,
    #[serde(other)]
    Failed,
}

impl From<Rejection> for NodeError {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Unsupported => Self::unsupported(),
            Rejection::Busy => Self::busy(),
            Rejection::Failed => Self::failed(),
        }
    }
}

impl Head {
    /// Whether the message contains its body.
    pub(super) fn is_inline(&self) -> bool {
        self.record.is_none()
    }
}

/// Sends a message to a node.
///
/// # Errors
/// [`NodeError::is_unavailable`] if no message was sent, and [`NodeError::is_interrupted`] if the message may have been sent.
pub(super) async fn send(
    store: &ServerStore,
    to: &str,
    from: &str,
    number: u64,
    part: Part,
    body: Vec<u8>,
) -> Result<(), NodeError> {
    if body.len() > BODY_BYTES {
        return Err(NodeError::too_large());
    }
    let unavailable = |error: &dyn std::fmt::Display| {
        tracing::warn!(%error, "a message to another node cannot be sent");
        NodeError::unavailable()
    };
    let mut head = Head { from: from.to_owned(), number, part, record: None };
    let mut body = body;
    if body.len() > INLINE_BYTES {
        let key = format!("message/{}", random::id().map_err(|error| unavailable(&error))?);
        let record = std::mem::take(&mut body).into();
        store.put(&key, record, Some(RECORD_TTL)).await.map_err(|error| unavailable(&error))?;
        head.record = Some(key);
    }
    let mut message = serde_json::to_vec(&head).map_err(|error| unavailable(&error))?;
    message.push(b'\n');
    message.extend_from_slice(&body);
    store.publish(&topic(to), message.into()).await.map_err(|error| {
        tracing::warn!(%error, "a message to another node may be lost");
        NodeError::interrupted()
    })
}

/// Splits a message into its head and its inline body.
pub(super) fn parse(message: &Arc<[u8]>) -> Option<(Head, Vec<u8>)> {
    let end = message.iter().position(|byte| *byte == b'\n')?;
    let head = json::from_slice(&message[..end]).ok()?;
    Some((head, message[end + 1..].to_vec()))
}

/// Returns the body of a message, from the store if it is a record.
pub(super) async fn body(store: &ServerStore, head: &Head, inline: Vec<u8>) -> Option<Vec<u8>> {
    let Some(key) = &head.record else { return Some(inline) };
    let record = store.get(key).await.inspect_err(|error| tracing::warn!(%error, "a message cannot be read")).ok()?;
    // The record expires if this fails.
    let _ = store.delete(key).await;
    record.map(|record| record.to_vec())
}
