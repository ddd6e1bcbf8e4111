//! A result as the server sent it, with the facts that are needed to read it.

use bytes::Bytes;
use mcp_protocol::{ProtocolVersion, tasks};
use serde::de::DeserializeOwned;

use crate::{
    Error,
    connection::{Agreement, Connection, Request},
};

/// A result as the server sent it.
#[derive(Clone)]
pub(crate) struct Reply {
    pub(crate) bytes: Bytes,
    pub(crate) method: Box<str>,
    /// The name or URI in the request.
    pub(crate) name: Option<Box<str>>,
    pub(crate) version: ProtocolVersion,
    /// The number of the connection.
    pub(crate) connection: u64,
    /// The transport mirrors arguments in headers.
    pub(crate) is_mirrored: bool,
    /// The task that the request became.
    pub(crate) task: Option<tasks::Task>,
    /// The result contains input requests that the caller answers.
    pub(crate) requires_input: bool,
}

impl Reply {
    pub(crate) fn new(bytes: Bytes, request: &Request, connection: &Connection, agreed: &Agreement) -> Self {
        let version = agreed.negotiated.version;
        Self {
            bytes,
            method: (*request.method).into(),
            name: request.name.clone(),
            version,
            connection: connection.number,
            is_mirrored: version.has_mirrored_headers() && connection.sender.has_request_streams(),
            task: None,
            requires_input: false,
        }
    }

    /// Checks that the result is an object.
    pub(crate) fn check_object(&self) -> Result<(), Error> {
        match self.bytes.starts_with(b"{") {
            true => Ok(()),
            false => Err(Error::invalid(format!("the result of {} is not an object", self.method))),
        }
    }

    /// Decodes the result of the method.
    pub(crate) fn read<R: DeserializeOwned>(&self) -> Result<R, Error> {
        // A derived deserializer would accept an array of the members.
        self.check_object()?;
        serde_json::from_slice(&self.bytes)
            .map_err(|error| Error::invalid(format!("the result of {}: {error}", self.method)))
    }
}
