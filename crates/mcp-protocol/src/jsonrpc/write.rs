//! Writes the four message forms into bytes that end without a newline.

use serde::Serialize;

use super::RequestId;
use crate::RpcError;

/// Returns a request with the given parameters.
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

/// Returns a notification with the given parameters.
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

/// Returns a response with a result.
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

/// Writes a response with an error. `id` is `None` only if the id of the message was unreadable.
///
/// The member is then omitted (2025-11-25 schema, `JSONRPCErrorResponse`). The older schemas do not define this case.
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
