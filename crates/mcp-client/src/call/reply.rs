//! A result as the server sent it, with the facts that are needed to read it.

use bytes::Bytes;
use mcp_protocol::{ProtocolVersion, tasks};
use serde::de::DeserializeOwned;

use crate::{
    Error,
    connection::{Agreement, Connection, Request},
};

/// A result as it came.
#[derive(Clone)]
pub(crate) struct Reply {
    pub(crate) bytes: Bytes,
    pub(crate) method: Box<str>,
    /// What the request was about.
    pub(crate) name: Option<Box<str>>,
    pub(crate) version: ProtocolVersion,
    /// Whether the transport mirrors arguments in headers.
    pub(crate) is_mirrored: bool,
    /// What the request became instead of having a result.
    pub(crate) task: Option<tasks::Task>,
}

impl Reply {
    pub(crate) fn new(bytes: Bytes, request: &Request, connection: &Connection, agreed: &Agreement) -> Self {
        let version = agreed.negotiated.version;
        Self {
            bytes,
            method: (*request.method).into(),
            name: request.name.clone(),
            version,
            is_mirrored: version.has_mirrored_headers() && connection.sender.has_request_streams(),
            task: None,
        }
    }

    /// The result of the method.
    pub(crate) fn read<R: DeserializeOwned>(&self) -> Result<R, Error> {
        // A derived reader would take an array for the members in their order.
        if !self.bytes.starts_with(b"{") {
            return Err(Error::invalid(format!("the result of {} is not an object", self.method)));
        }
        serde_json::from_slice(&self.bytes)
            .map_err(|error| Error::invalid(format!("the result of {}: {error}", self.method)))
    }
}
