//! What a transport moves: one raw message, where it belongs, and what HTTP mirrors of it.

use std::fmt;

use bytes::Bytes;
use mcp_protocol::{ProtocolVersion, RequestId};

/// A raw JSON-RPC message, where it belongs, and what HTTP mirrors of it.
#[derive(Clone)]
#[non_exhaustive]
pub struct Frame {
    /// The message: UTF-8 JSON when it is ours, whatever the peer sent when it is not.
    pub message: Bytes,
    /// Where the message belongs.
    pub route: Route,
    /// What HTTP mirrors of the message in headers.
    pub hints: Hints,
}

impl Frame {
    /// A message that belongs to the connection as a whole, without hints.
    pub fn new(message: impl Into<Bytes>) -> Self {
        Self { message: message.into(), route: Route::Connection, hints: Hints::default() }
    }

    /// The same message, on this route.
    #[must_use]
    pub fn with_route(mut self, route: Route) -> Self {
        self.route = route;
        self
    }

    /// The same message, with these hints.
    #[must_use]
    pub fn with_hints(mut self, hints: Hints) -> Self {
        self.hints = hints;
        self
    }
}

impl fmt::Debug for Frame {
    /// Shows the length of the message: its content may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("len", &self.message.len())
            .field("route", &self.route)
            .field("hints", &self.hints)
            .finish()
    }
}

/// Where a message belongs. Over HTTP a request has a stream of its own; stdio has one stream for everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a message belongs to a request or to none")]
pub enum Route {
    /// The connection as a whole.
    Connection,
    /// The stream of the request with this id: its response, its progress, and what is asked on its behalf.
    Request(RequestId),
}

/// What HTTP mirrors of a message in headers, so that intermediaries need not read the body (2026-07-28, transports).
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Hints {
    /// The revision that the message speaks.
    pub version: Option<ProtocolVersion>,
    /// The method of the message.
    pub method: Option<Box<str>>,
    /// The name of the tool or prompt, or the URI of the resource, that the message is about.
    pub name: Option<Box<str>>,
    /// Mirrored tool arguments: header names without their prefix, and values.
    pub params: Vec<(Box<str>, Box<str>)>,
}

impl fmt::Debug for Hints {
    /// Leaves out the values of mirrored arguments, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params: Vec<&str> = self.params.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("Hints")
            .field("version", &self.version)
            .field("method", &self.method)
            .field("name", &self.name)
            .field("params", &params)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_neither_messages_nor_argument_values() {
        let hints = Hints { params: vec![("Region".into(), "hunter2".into())], ..Hints::default() };
        let shown = format!("{:?}", Frame::new("hunter2").with_hints(hints).with_route(Route::Request(7.into())));
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("Region") && shown.contains("Request(7)") && shown.contains("len: 7"), "{shown}");
    }
}
