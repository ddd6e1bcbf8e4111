//! Writes the four message forms into bytes that end without a newline.

use serde::Serialize;

use super::RequestId;
use crate::RpcError;

/// A request with the given parameters.
///
/// # Errors
/// When `params` cannot be written as JSON (a map with keys that are not strings, or a failing `Serialize`).
pub fn request(id: &RequestId, method: &str, params: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    struct Envelope<'a, P> {
        jsonrpc: &'static str,
        id: &'a RequestId,
        method: &'a str,
        params: &'a P,
    }
    serde_json::to_vec(&Envelope { jsonrpc: "2.0", id, method, params })
}

/// A notification with the given parameters.
///
/// # Errors
/// See [`request`].
pub fn notification(method: &str, params: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    struct Envelope<'a, P> {
        jsonrpc: &'static str,
        method: &'a str,
        params: &'a P,
    }
    serde_json::to_vec(&Envelope { jsonrpc: "2.0", method, params })
}

/// A response with a result.
///
/// # Errors
/// See [`request`].
pub fn response(id: &RequestId, result: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    struct Envelope<'a, R> {
        jsonrpc: &'static str,
        id: &'a RequestId,
        result: &'a R,
    }
    serde_json::to_vec(&Envelope { jsonrpc: "2.0", id, result })
}

/// A response with an error. `id` is `None` only when the id of the message could not be read; the member is then left
/// out (2025-11-25 schema, `JSONRPCErrorResponse`; the older schemas have no form for this case).
#[must_use]
pub fn error_response(id: Option<&RequestId>, error: &RpcError) -> Vec<u8> {
    #[derive(Serialize)]
    struct Envelope<'a> {
        jsonrpc: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a RequestId>,
        error: &'a RpcError,
    }
    // An `RpcError` holds strings, an integer and a `Value`: writing those into memory has no way to fail.
    serde_json::to_vec(&Envelope { jsonrpc: "2.0", id, error }).unwrap_or_default()
}
