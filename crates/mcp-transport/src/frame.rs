//! A frame: a raw message with its route and its HTTP header values.

use std::fmt;

use bytes::Bytes;
use mcp_protocol::{ProtocolVersion, RequestId};

/// A raw JSON-RPC message with its route and the values that HTTP mirrors in headers.
///
/// ```
/// use mcp_transport::{Frame, Route};
///
/// let frame = Frame::new(r#"{"secret":1}"#).with_route(Route::Request(7.into()));
/// assert_eq!(frame.message.len(), 12);
/// // The debug text has no content of the message.
/// assert!(!format!("{frame:?}").contains("secret"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Frame {
    /// The message. It is UTF-8 JSON when this process sends it, and unchecked bytes when the peer sent it.
    pub message: Bytes,
    /// The stream that the message belongs to.
    pub route: Route,
    /// The values that HTTP mirrors in headers.
    pub hints: Hints,
}

impl Frame {
    /// Returns a frame for the whole connection, without hints.
    pub fn new(message: impl Into<Bytes>) -> Self {
        Self { message: message.into(), route: Route::Connection, hints: Hints::default() }
    }

    /// Sets the route.
    #[must_use]
    pub fn with_route(mut self, route: Route) -> Self {
        self.route = route;
        self
    }

    /// Sets the hints.
    #[must_use]
    pub fn with_hints(mut self, hints: Hints) -> Self {
        self.hints = hints;
        self
    }
}

impl fmt::Debug for Frame {
    /// Shows the length of the message, because its content may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("len", &self.message.len())
            .field("route", &self.route)
            .field("hints", &self.hints)
            .finish()
    }
}

/// The stream that a message belongs to. Over HTTP each request has its own stream; stdio has one stream for all.
///
/// ```
/// use mcp_transport::{Frame, Route};
///
/// assert_eq!(Frame::new("{}").route, Route::Connection);
/// let progress = Frame::new("{}").with_route(Route::Request("call-1".into()));
/// assert!(matches!(progress.route, Route::Request(id) if id == "call-1".into()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a message belongs to a request or to none")]
pub enum Route {
    /// The connection as a whole.
    Connection,
    /// The stream of the request with this id: its response, its progress, and the server's requests on its behalf.
    Request(RequestId),
}

/// The values that HTTP mirrors in headers, so that proxies can route without reading the body (2026-07-28,
/// transports).
///
/// ```
/// use mcp_protocol::ProtocolVersion;
/// use mcp_transport::{Frame, Hints, Route};
///
/// let hints = Hints::new()
///     .with_version(ProtocolVersion::V2026_07_28)
///     .with_method("tools/call")
///     .with_name("get_weather");
/// let frame = Frame::new("{}").with_route(Route::Request(1.into())).with_hints(hints);
/// assert_eq!(frame.hints.name.as_deref(), Some("get_weather"));
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Hints {
    /// The revision of the message.
    pub version: Option<ProtocolVersion>,
    /// The method of the message.
    pub method: Option<Box<str>>,
    /// The name of the tool or prompt, or the URI of the resource.
    pub name: Option<Box<str>>,
    /// Mirrored tool arguments: header names without the prefix `Mcp-Param-`, and values.
    pub params: Vec<(Box<str>, Box<str>)>,
}

impl Hints {
    /// Returns hints without values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the revision of the message.
    #[must_use]
    pub fn with_version(mut self, version: ProtocolVersion) -> Self {
        self.version = Some(version);
        self
    }

    /// Sets the method of the message.
    #[must_use]
    pub fn with_method(mut self, method: impl Into<Box<str>>) -> Self {
        self.method = Some(method.into());
        self
    }

    /// Sets the name of the tool or prompt, or the URI of the resource.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<Box<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Adds a mirrored tool argument: its header name without the prefix `Mcp-Param-`, and its value.
    ///
    /// ```
    /// let hints = mcp_transport::Hints::new().with_param("Region", "eu").with_param("Limit", "42");
    /// assert_eq!(hints.params.len(), 2);
    /// ```
    #[must_use]
    pub fn with_param(mut self, name: impl Into<Box<str>>, value: impl Into<Box<str>>) -> Self {
        self.params.push((name.into(), value.into()));
        self
    }
}

impl fmt::Debug for Hints {
    /// Omits the values of mirrored arguments, which may be secret.
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
