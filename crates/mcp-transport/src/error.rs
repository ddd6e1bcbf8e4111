//! Errors of transports.

use std::{error::Error, fmt, io, sync::Arc, time::Duration};

use bytes::Bytes;
use mcp_protocol::{Challenge, RequestId};

use crate::Frame;

/// An error of a transport. The type is opaque: use the predicates. The text is for people and may change.
///
/// An error that belongs to one request names it in [`TransportError::request`]. That request gets no answer, and the
/// transport continues. An error without a request belongs to the whole transport.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_transport::TransportError;
///
/// let busy = TransportError::http(503, Some(Duration::from_secs(2)), "").of_request(7.into());
/// assert_eq!(busy.http_status(), Some(503));
/// assert_eq!(busy.retry_after(), Some(Duration::from_secs(2)));
/// // The error ends the request 7 only.
/// assert_eq!(busy.request(), Some(&7.into()));
/// assert!(!busy.is_lasting() && busy.lasting().is_lasting());
///
/// let closed = TransportError::closed();
/// assert!(closed.is_closed() && closed.request().is_none());
/// ```
#[derive(Clone)]
pub struct TransportError {
    kind: Kind,
    request: Option<RequestId>,
    is_lasting: bool,
    /// The fault without details, for clients of a relay.
    summary: Option<&'static str>,
}

#[derive(Clone)]
enum Kind {
    Closed,
    Io(Arc<io::Error>),
    TooLarge { limit: usize, start: Bytes },
    Http { status: u16, retry_after: Option<Duration>, detail: Arc<str>, challenges: Option<Arc<[Challenge]>> },
    Unauthorized { source: Arc<dyn Error + Send + Sync>, retry_after: Option<Duration> },
    SessionLost,
    Missed,
    Unanswered,
    Unreachable(Arc<dyn Error + Send + Sync>),
    Other(Arc<dyn Error + Send + Sync>),
}

/// The longest wait before another attempt that a peer can request: one day. Clients treat a longer one as this.
///
/// ```
/// # use std::time::Duration;
/// let requested = Duration::from_millis(u64::MAX);
/// assert_eq!(requested.min(mcp_transport::LONGEST_RETRY_AFTER), Duration::from_secs(86_400));
/// ```
pub const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// The number of bytes that are kept of a lost message.
pub(crate) const START: usize = 512;

impl TransportError {
    /// Returns the error of a transport that this process or the peer has closed.
    ///
    /// ```
    /// let error = mcp_transport::TransportError::closed();
    /// assert!(error.is_closed());
    /// assert_eq!(error.to_string(), "the transport is closed");
    /// ```
    #[must_use]
    pub fn closed() -> Self {
        Kind::Closed.into()
    }

    /// Returns the error for an inbound message of more than `limit` bytes. The message is lost, and the transport
    /// continues.
    ///
    /// ```
    /// let error = mcp_transport::TransportError::too_large(1024);
    /// assert!(error.is_too_large() && error.is_lasting());
    /// // Only a transport sets the start of the lost message.
    /// assert!(error.start().is_empty());
    /// ```
    #[must_use]
    pub fn too_large(limit: usize) -> Self {
        Kind::TooLarge { limit, start: Bytes::new() }.into()
    }

    /// Adds the first bytes of the lost message, which may contain its id.
    #[must_use]
    pub(crate) fn with_start(mut self, bytes: &[u8]) -> Self {
        if let Kind::TooLarge { start, .. } = &mut self.kind {
            *start = Bytes::copy_from_slice(&bytes[..bytes.len().min(START)]);
        }
        self
    }

    /// Returns up to 512 bytes from the start of a message that was [too large](Self::is_too_large), if the transport
    /// kept them.
    #[must_use]
    pub fn start(&self) -> &[u8] {
        match &self.kind {
            Kind::TooLarge { start, .. } => start,
            _ => &[],
        }
    }

    /// Returns an error of another kind. It is displayed with the text of `source`.
    ///
    /// ```
    /// let error = mcp_transport::TransportError::other("the proxy rejected the certificate");
    /// assert_eq!(error.to_string(), "the proxy rejected the certificate");
    /// ```
    pub fn other(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Kind::Other(Arc::from(source.into())).into()
    }

    /// Returns the error for an HTTP status without a message. `detail` is a short text of the response body without
    /// secrets, or empty.
    ///
    /// ```
    /// let error = mcp_transport::TransportError::http(429, None, "too many requests");
    /// assert_eq!((error.http_status(), error.retry_after()), (Some(429), None));
    /// ```
    pub fn http(status: u16, retry_after: Option<Duration>, detail: impl Into<Arc<str>>) -> Self {
        Kind::Http { status, retry_after, detail: detail.into(), challenges: None }.into()
    }

    /// Returns the error of a request that the client could not authorize, so the client did not send it. `source` is the
    /// reason.
    ///
    /// ```
    /// use std::error::Error;
    ///
    /// use mcp_transport::TransportError;
    ///
    /// let error = TransportError::unauthorized("the user closed the window").lasting();
    /// assert!(error.is_unauthorized() && error.is_lasting());
    /// assert_eq!(error.to_string(), "the request cannot be authorized");
    /// assert_eq!(error.source().unwrap().to_string(), "the user closed the window");
    /// ```
    pub fn unauthorized(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Kind::Unauthorized { source: Arc::from(source.into()), retry_after: None }.into()
    }

    /// Sets the time after which another attempt can succeed. Has no effect on errors other than
    /// [`TransportError::http`] and [`TransportError::unauthorized`].
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use mcp_transport::TransportError;
    ///
    /// let error = TransportError::unauthorized("the authorization server is away");
    /// let wait = Some(Duration::from_secs(2));
    /// assert_eq!(error.with_retry_after(wait).retry_after(), wait);
    /// ```
    #[must_use]
    pub fn with_retry_after(mut self, wait: Option<Duration>) -> Self {
        if let Kind::Http { retry_after, .. } | Kind::Unauthorized { retry_after, .. } = &mut self.kind {
            *retry_after = wait;
        }
        self
    }

    /// Adds the challenges of a response (`WWW-Authenticate`). Has no effect on errors other than
    /// [`TransportError::http`].
    ///
    /// ```
    /// use mcp_protocol::Challenge;
    /// use mcp_transport::TransportError;
    ///
    /// let challenge = Challenge::insufficient_scope(["files:write"]);
    /// let error = TransportError::http(403, None, "").with_challenges([challenge.clone()]);
    /// assert_eq!(error.challenges(), [challenge]);
    /// ```
    #[must_use]
    pub fn with_challenges(mut self, list: impl IntoIterator<Item = Challenge>) -> Self {
        if let Kind::Http { challenges, .. } = &mut self.kind {
            let list: Arc<[Challenge]> = list.into_iter().collect();
            *challenges = Some(list).filter(|list| !list.is_empty());
        }
        self
    }

    /// Returns the error of a session that the peer does not know (a 404 to a request that named it). A new transport
    /// helps.
    ///
    /// ```
    /// assert!(mcp_transport::TransportError::session_lost().is_session_lost());
    /// ```
    #[must_use]
    pub fn session_lost() -> Self {
        Kind::SessionLost.into()
    }

    /// Returns the error of a lost stream of server messages that could not be resumed. Some of these messages may be
    /// lost. The transport continues.
    ///
    /// ```
    /// assert!(mcp_transport::TransportError::missed().is_missed());
    /// ```
    #[must_use]
    pub fn missed() -> Self {
        Kind::Missed.into()
    }

    /// Returns the error of a request whose stream ended without a response and cannot be resumed.
    ///
    /// ```
    /// let error = mcp_transport::TransportError::unanswered().of_request(7.into());
    /// assert!(error.is_unanswered());
    /// ```
    #[must_use]
    pub fn unanswered() -> Self {
        Kind::Unanswered.into()
    }

    /// Returns the error of a connection that could not be opened. The peer has received nothing. It is displayed
    /// with the text of `source`.
    ///
    /// ```
    /// let error = mcp_transport::TransportError::unreachable("connection refused");
    /// assert!(error.is_unreachable());
    /// assert_eq!(error.to_string(), "connection refused");
    /// ```
    pub fn unreachable(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Kind::Unreachable(Arc::from(source.into())).into()
    }

    /// Marks the error as lasting: another attempt would fail in the same way.
    #[must_use]
    pub fn lasting(mut self) -> Self {
        self.is_lasting = true;
        self
    }

    /// Limits the error to one request. The transport continues.
    #[must_use]
    pub fn of_request(mut self, id: RequestId) -> Self {
        self.request = Some(id);
        self
    }

    /// Sets a text that names the fault without details.
    #[doc(hidden)]
    #[must_use]
    pub fn with_summary(mut self, summary: &'static str) -> Self {
        self.summary = Some(summary);
        self
    }

    /// Returns a text that names the fault without details, if the transport has one.
    #[doc(hidden)]
    #[must_use]
    pub fn summary(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Unanswered => Some("the server ended its response without an answer to the request"),
            _ => self.summary,
        }
    }

    /// Returns the request that the error belongs to; `None` when it belongs to the whole transport.
    #[must_use]
    pub fn request(&self) -> Option<&RequestId> {
        self.request.as_ref()
    }

    /// Returns the status of an HTTP response without a message.
    #[must_use]
    pub fn http_status(&self) -> Option<u16> {
        match self.kind {
            Kind::Http { status, .. } => Some(status),
            _ => None,
        }
    }

    /// Returns the time that the peer or the authorization server asked to wait before the next attempt (`Retry-After`).
    /// The time has no upper limit.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.kind {
            Kind::Http { retry_after, .. } | Kind::Unauthorized { retry_after, .. } => retry_after,
            _ => None,
        }
    }

    /// Returns the challenges of a response, usually with the status 401 or 403; empty for other errors.
    #[must_use]
    pub fn challenges(&self) -> &[Challenge] {
        match &self.kind {
            Kind::Http { challenges: Some(challenges), .. } => challenges,
            _ => &[],
        }
    }

    /// Whether the client could not authorize the request. The peer has received nothing. A status 401 of the peer is a
    /// different error.
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        matches!(self.kind, Kind::Unauthorized { .. })
    }

    /// Whether the peer does not know the session. It has not processed the request.
    #[must_use]
    pub fn is_session_lost(&self) -> bool {
        matches!(self.kind, Kind::SessionLost)
    }

    /// Whether server messages outside of responses may be lost. The transport continues.
    #[must_use]
    pub fn is_missed(&self) -> bool {
        matches!(self.kind, Kind::Missed)
    }

    /// Whether the stream of the request ended without a response. The peer may have processed the request.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        matches!(self.kind, Kind::Unanswered)
    }

    /// Whether the connection could not be opened. The peer has received nothing.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self.kind, Kind::Unreachable(_))
    }

    /// Whether another attempt would fail in the same way. Examples: the message is too large or cannot be sent on
    /// this transport, the certificate of the peer is invalid, the peer redirects to another origin.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        self.is_lasting || matches!(self.kind, Kind::TooLarge { .. })
    }

    /// Whether the transport is closed, without a more specific error.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.kind, Kind::Closed)
    }

    /// Whether the operating system reported the error. [`Error::source`] is the [`io::Error`]. The transport does
    /// not continue.
    ///
    /// ```
    /// use std::{error::Error, io};
    ///
    /// use mcp_transport::TransportError;
    ///
    /// let error = TransportError::from(io::Error::from(io::ErrorKind::BrokenPipe));
    /// assert!(error.is_io());
    /// let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    /// assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::BrokenPipe));
    /// ```
    #[must_use]
    pub fn is_io(&self) -> bool {
        matches!(self.kind, Kind::Io(_))
    }

    /// Whether the peer sent a message over the limit. The transport has skipped it and continues.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        matches!(self.kind, Kind::TooLarge { .. })
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Closed => f.write_str("the transport is closed"),
            Kind::Io(_) => f.write_str("reading from or writing to the peer failed"),
            Kind::TooLarge { limit, .. } => write!(f, "a message is longer than the limit of {limit} bytes"),
            Kind::Http { status, detail, .. } if detail.is_empty() => {
                write!(f, "the peer answered with HTTP status {status}")
            }
            Kind::Http { status, detail, .. } => write!(f, "the peer answered with HTTP status {status}: {detail}"),
            Kind::Unauthorized { .. } => f.write_str("the request cannot be authorized"),
            Kind::SessionLost => f.write_str("the peer no longer knows the session"),
            Kind::Missed => f.write_str("messages of the peer may be lost"),
            Kind::Unanswered => f.write_str("the stream of the request ended without a response"),
            Kind::Unreachable(source) | Kind::Other(source) => source.fmt(f),
        }
    }
}

impl fmt::Debug for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Io(source) => f.debug_tuple("TransportError").field(source).finish(),
            Kind::Unreachable(source) | Kind::Other(source) | Kind::Unauthorized { source, .. } => {
                f.debug_tuple("TransportError").field(source).finish()
            }
            _ => write!(f, "TransportError({self})"),
        }
    }
}

impl Error for TransportError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            Kind::Io(source) => Some(source.as_ref()),
            Kind::Unauthorized { source, .. } => Some(source.as_ref()),
            Kind::Unreachable(source) | Kind::Other(source) => source.source(),
            _ => None,
        }
    }
}

impl From<io::Error> for TransportError {
    fn from(error: io::Error) -> Self {
        Kind::Io(Arc::new(error)).into()
    }
}

impl From<Kind> for TransportError {
    fn from(kind: Kind) -> Self {
        Self { kind, request: None, is_lasting: false, summary: None }
    }
}

/// The reason why [`FrameSender::try_send`](crate::FrameSender::try_send) did not queue a frame. It gives the frame
/// back.
///
/// ```
/// use mcp_transport::{Frame, Transport, TrySendError, memory};
///
/// let (client, server) = memory::duplex(1);
/// drop(server);
/// let error = client.sender().try_send(Frame::new("{}")).unwrap_err();
/// assert!(matches!(error, TrySendError::Closed(_)));
/// assert_eq!(error.into_frame().message, "{}");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum TrySendError {
    /// The queue is full.
    Full(Frame),
    /// The transport is closed.
    Closed(Frame),
    /// The frame cannot be sent on this transport, now or later.
    Refused(Frame),
}

impl TrySendError {
    /// Returns the frame that was not queued.
    #[must_use]
    pub fn into_frame(self) -> Frame {
        match self {
            Self::Full(frame) | Self::Closed(frame) | Self::Refused(frame) => frame,
        }
    }
}

impl fmt::Display for TrySendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "the queue of the transport is full",
            Self::Closed(_) => "the transport is closed",
            Self::Refused(_) => "the message cannot be sent on this transport",
        })
    }
}

impl Error for TrySendError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_one_level_and_the_source_is_the_next() {
        let error = TransportError::from(io::Error::other("no such pipe"));
        assert!(error.is_io() && !error.is_closed() && !error.is_too_large());
        assert!(!error.to_string().contains("no such pipe"));
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("no such pipe"));
        let error = TransportError::too_large(16);
        assert!(error.is_too_large() && error.to_string().contains("16 bytes"));
        assert_eq!(TransportError::other("connection refused").to_string(), "connection refused");
        assert_eq!(TransportError::http(502, None, "").to_string(), "the peer answered with HTTP status 502");
    }

    #[test]
    fn an_error_about_a_request_contains_its_id() {
        let error = TransportError::http(503, Some(Duration::from_secs(3)), "busy").of_request(7.into());
        assert_eq!(error.request(), Some(&7.into()));
        assert_eq!((error.http_status(), error.retry_after()), (Some(503), Some(Duration::from_secs(3))));
        assert!(error.to_string().ends_with("503: busy") && !error.is_unanswered());
        assert!(TransportError::unanswered().request().is_none());
        assert!(TransportError::session_lost().is_session_lost());
    }

    #[test]
    fn lasting_errors_are_recognized() {
        let unreachable = TransportError::unreachable("connection refused");
        assert!(
            unreachable.is_unreachable() && !unreachable.is_lasting() && unreachable.to_string().contains("refused")
        );
        let lasting = TransportError::other("a redirect").lasting().of_request(1.into());
        assert!(lasting.is_lasting() && !lasting.is_unreachable());
        assert!(TransportError::too_large(1).is_lasting() && !TransportError::closed().is_lasting());
    }
}
