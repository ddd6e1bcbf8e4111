//! How a conversation opens: `initialize` (up to 2025-11-25) and `server/discover` (2026-07-28).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    CacheScope, ClientCapabilities, Implementation, Meta, RpcError, ServerCapabilities, json, jsonrpc::decode_params,
};

/// Parameters of `initialize`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeParams {
    /// The revision that the client offers. It can be unknown to this library.
    pub protocol_version: String,
    /// The capabilities of the client.
    pub capabilities: ClientCapabilities,
    /// The identity of the client.
    pub client_info: Implementation,
    /// Metadata of the request.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl InitializeParams {
    /// Offers a revision.
    pub fn new(
        protocol_version: impl Into<String>,
        capabilities: ClientCapabilities,
        client_info: Implementation,
    ) -> Self {
        Self { protocol_version: protocol_version.into(), capabilities, client_info, meta: None }
    }

    /// Reads the parameters of a request, like [`decode_params`](crate::jsonrpc::decode_params).
    ///
    /// ```
    /// use mcp_protocol::InitializeParams;
    ///
    /// let error = InitializeParams::decode("initialize", None).unwrap_err();
    /// assert_eq!(error.message, "initialize: missing field `protocolVersion`");
    /// ```
    ///
    /// # Errors
    /// An `invalid params` [`RpcError`] that names the method and the invalid member.
    pub fn decode(method: &str, params: Option<&RawValue>) -> Result<Self, RpcError> {
        // The other crates then have no copy of the machine code of the decoder.
        decode_params(method, params)
    }
}

setters! {
    InitializeParams {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The result of `initialize`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeResult {
    /// The revision that the server chose.
    pub protocol_version: String,
    /// The capabilities of the server. Some servers omit an empty set.
    #[serde(default, deserialize_with = "json::null_default")]
    pub capabilities: ServerCapabilities,
    /// The identity of the server. Some servers omit it.
    #[serde(default, deserialize_with = "json::null_default")]
    pub server_info: Implementation,
    /// How to use the server, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Metadata of the result.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl InitializeResult {
    /// Chooses a revision.
    pub fn new(
        protocol_version: impl Into<String>,
        capabilities: ServerCapabilities,
        server_info: Implementation,
    ) -> Self {
        Self { protocol_version: protocol_version.into(), capabilities, server_info, instructions: None, meta: None }
    }
}

setters! {
    InitializeResult {
        /// Sets instructions for the model on how to use the server.
        with_instructions = text instructions;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The result of `server/discover` (2026-07-28). Its `_meta` contains the identity of the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DiscoverResult {
    /// The revisions that the server supports, including those of the session era.
    pub supported_versions: Vec<String>,
    /// The capabilities of the server.
    #[serde(default, deserialize_with = "json::null_default")]
    pub capabilities: ServerCapabilities,
    /// How to use the server, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// For how long the result is fresh, in milliseconds.
    #[serde(default, deserialize_with = "json::millis", skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// The callers that may share the cached result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_scope: Option<CacheScope>,
    /// Metadata of the result.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl DiscoverResult {
    /// Shows revisions and capabilities.
    #[must_use]
    pub fn new(supported_versions: Vec<String>, capabilities: ServerCapabilities) -> Self {
        Self { supported_versions, capabilities, ..Self::default() }
    }
}

setters! {
    DiscoverResult {
        /// Sets instructions for the model on how to use the server.
        with_instructions = text instructions;
        /// Sets the time for which a client may cache the result, in milliseconds (2026-07-28).
        with_ttl_ms = some ttl_ms: u64;
        /// Sets the callers that may share the cached result (2026-07-28).
        with_cache_scope = some cache_scope: CacheScope;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// Parameters of a request or notification without members except `_meta`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EmptyParams {
    /// Metadata of the message.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl EmptyParams {
    /// No parameters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters! {
    EmptyParams {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// A result without members except `_meta`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EmptyResult {
    /// Metadata of the result.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl EmptyResult {
    /// Returns an empty result.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters! {
    EmptyResult {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}
