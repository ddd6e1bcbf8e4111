//! Why a transport could not move a frame.

use std::{error::Error, fmt, io, sync::Arc, time::Duration};

use bytes::Bytes;
use mcp_protocol::RequestId;

use crate::Frame;

/// Why a transport could not move a frame. Opaque: ask the predicates; the text is for people and may change.
///
/// A fault that belongs to one request names it ([`TransportError::request`]): that request has no answer to wait for, and
/// the transport goes on. A fault without a request belongs to the transport as a whole.
#[derive(Clone)]
pub struct TransportError {
    kind: Kind,
    request: Option<RequestId>,
    is_lasting: bool,
}

#[derive(Clone)]
enum Kind {
    Closed,
    Io(Arc<io::Error>),
    TooLarge { limit: usize, start: Bytes },
    Http { status: u16, retry_after: Option<Duration>, detail: Arc<str> },
    SessionLost,
    Missed,
    Unanswered,
    Unreachable(Arc<dyn Error + Send + Sync>),
    Other(Arc<dyn Error + Send + Sync>),
}

/// How much of a message that is lost is kept.
pub(crate) const START: usize = 512;

impl TransportError {
    /// The transport is closed, on this side or by the peer.
    #[must_use]
    pub fn closed() -> Self {
        Kind::Closed.into()
    }

    /// The peer sent a message of more than `limit` bytes; the message is lost, the transport goes on.
    #[must_use]
    pub fn too_large(limit: usize) -> Self {
        Kind::TooLarge { limit, start: Bytes::new() }.into()
    }

    /// The same fault with the first bytes of the message that was lost, out of which its id may be read.
    #[must_use]
    pub(crate) fn with_start(mut self, bytes: &[u8]) -> Self {
        if let Kind::TooLarge { start, .. } = &mut self.kind {
            *start = Bytes::copy_from_slice(&bytes[..bytes.len().min(START)]);
        }
        self
    }

    /// Up to 512 bytes from the start of a message that was lost because it was [too large](Self::is_too_large), where the
    /// transport kept them.
    #[must_use]
    pub fn start(&self) -> &[u8] {
        match &self.kind {
            Kind::TooLarge { start, .. } => start,
            _ => &[],
        }
    }

    /// Any other fault of a transport; the text of `source` is shown as the error's own.
    pub fn other(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Kind::Other(Arc::from(source.into())).into()
    }

    /// The peer answered with an HTTP status that carries no message. `detail` says more for people: what the body said,
    /// shortened, without secrets; it may be empty.
    pub fn http(status: u16, retry_after: Option<Duration>, detail: impl Into<Arc<str>>) -> Self {
        Kind::Http { status, retry_after, detail: detail.into() }.into()
    }

    /// The peer does not know the session any more (a 404 to a request that named one): a fresh transport helps.
    #[must_use]
    pub fn session_lost() -> Self {
        Kind::SessionLost.into()
    }

    /// The stream for what the peer says unasked broke off and could not be gone on with: some of it may be lost. The transport
    /// goes on.
    #[must_use]
    pub fn missed() -> Self {
        Kind::Missed.into()
    }

    /// The stream of a request ended without its answer, and cannot be resumed.
    #[must_use]
    pub fn unanswered() -> Self {
        Kind::Unanswered.into()
    }

    /// No connection to the peer could be made: it has seen nothing. The text of `source` is shown as the error's own.
    pub fn unreachable(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Kind::Unreachable(Arc::from(source.into())).into()
    }

    /// The same fault, of which is known that another attempt would meet it again.
    #[must_use]
    pub fn lasting(mut self) -> Self {
        self.is_lasting = true;
        self
    }

    /// The same fault, of this request alone: the transport goes on.
    #[must_use]
    pub fn of_request(mut self, id: RequestId) -> Self {
        self.request = Some(id);
        self
    }

    /// The request that the fault belongs to; `None` when it belongs to the transport.
    #[must_use]
    pub fn request(&self) -> Option<&RequestId> {
        self.request.as_ref()
    }

    /// The status of an HTTP answer that carried no message.
    #[must_use]
    pub fn http_status(&self) -> Option<u16> {
        match self.kind {
            Kind::Http { status, .. } => Some(status),
            _ => None,
        }
    }

    /// How long the peer asked to wait before the next attempt (`Retry-After`).
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.kind {
            Kind::Http { retry_after, .. } => retry_after,
            _ => None,
        }
    }

    /// Whether the peer forgot the session. Nothing was done with the request.
    #[must_use]
    pub fn is_session_lost(&self) -> bool {
        matches!(self.kind, Kind::SessionLost)
    }

    /// Whether something that the peer said unasked may be lost. Nothing else is, and the transport goes on.
    #[must_use]
    pub fn is_missed(&self) -> bool {
        matches!(self.kind, Kind::Missed)
    }

    /// Whether the stream of the request ended without an answer: the peer may or may not have done what was asked.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        matches!(self.kind, Kind::Unanswered)
    }

    /// Whether no connection to the peer could be made: it has seen nothing.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self.kind, Kind::Unreachable(_))
    }

    /// Whether another attempt would meet the same fault, as far as is known: the message is too large or cannot travel on
    /// this transport, the peer cannot prove who it is, it sends to somewhere else.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        self.is_lasting || matches!(self.kind, Kind::TooLarge { .. })
    }

    /// Whether the transport is closed, without a fault that is known here.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.kind, Kind::Closed)
    }

    /// Whether the system reported the fault; [`Error::source`] is the [`io::Error`]. The transport does not go on.
    #[must_use]
    pub fn is_io(&self) -> bool {
        matches!(self.kind, Kind::Io(_))
    }

    /// Whether the peer sent a message over the limit. The transport has skipped it and goes on.
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
            Kind::SessionLost => f.write_str("the peer does not know the session any more"),
            Kind::Missed => f.write_str("what the peer said unasked may be lost"),
            Kind::Unanswered => f.write_str("the stream of the request ended without an answer"),
            Kind::Unreachable(source) | Kind::Other(source) => source.fmt(f),
        }
    }
}

impl fmt::Debug for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Io(source) => f.debug_tuple("TransportError").field(source).finish(),
            Kind::Unreachable(source) | Kind::Other(source) => f.debug_tuple("TransportError").field(source).finish(),
            _ => write!(f, "TransportError({self})"),
        }
    }
}

impl Error for TransportError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            Kind::Io(source) => Some(source.as_ref()),
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
        Self { kind, request: None, is_lasting: false }
    }
}

/// Why [`FrameSender::try_send`](crate::FrameSender::try_send) did not queue a frame; it gives the frame back.
#[derive(Debug)]
#[non_exhaustive]
pub enum TrySendError {
    /// There is no room now.
    Full(Frame),
    /// The transport is closed.
    Closed(Frame),
    /// The frame cannot travel on this transport: waiting does not help.
    Refused(Frame),
}

impl TrySendError {
    /// The frame that was not queued.
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
            Self::Refused(_) => "the message cannot travel on this transport",
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
    fn a_fault_of_one_request_names_it() {
        let error = TransportError::http(503, Some(Duration::from_secs(3)), "busy").of_request(7.into());
        assert_eq!(error.request(), Some(&7.into()));
        assert_eq!((error.http_status(), error.retry_after()), (Some(503), Some(Duration::from_secs(3))));
        assert!(error.to_string().ends_with("503: busy") && !error.is_unanswered());
        assert!(TransportError::unanswered().request().is_none());
        assert!(TransportError::session_lost().is_session_lost());
    }

    #[test]
    fn some_faults_last() {
        let unreachable = TransportError::unreachable("connection refused");
        assert!(
            unreachable.is_unreachable() && !unreachable.is_lasting() && unreachable.to_string().contains("refused")
        );
        let lasting = TransportError::other("a redirect").lasting().of_request(1.into());
        assert!(lasting.is_lasting() && !lasting.is_unreachable());
        assert!(TransportError::too_large(1).is_lasting() && !TransportError::closed().is_lasting());
    }
}
