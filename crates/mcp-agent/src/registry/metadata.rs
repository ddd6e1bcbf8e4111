//! The metadata of requests and notifications that a gateway forwards.

use mcp_protocol::{Meta, meta::keys};

/// Whether a gateway forwards a key of metadata: all keys but those of the protocol, and the trace context.
pub(crate) fn is_forwarded(key: &str) -> bool {
    matches!(key, keys::TRACEPARENT | keys::TRACESTATE | keys::BAGGAGE) || !keys::is_reserved_key(key)
}

/// Returns the metadata of a notification for the client, without the keys of the protocol.
pub(crate) fn forward_meta(meta: &Meta) -> Option<Meta> {
    let mut forwarded = meta.clone();
    forwarded.retain(|key, _| is_forwarded(key));
    (!forwarded.is_empty()).then_some(forwarded)
}
