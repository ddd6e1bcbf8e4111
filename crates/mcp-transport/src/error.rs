//! Why a transport could not move a frame.

use std::{error::Error, fmt, io, sync::Arc};

use crate::Frame;

/// Why a transport could not move a frame. Opaque: ask the predicates; the text is for people and may change.
#[derive(Clone)]
pub struct TransportError(Kind);

#[derive(Clone)]
enum Kind {
    Closed,
    Io(Arc<io::Error>),
    TooLarge { limit: usize },
    LineBreak,
    Other(Arc<dyn Error + Send + Sync>),
}

impl TransportError {
    /// The transport is closed, on this side or by the peer.
    #[must_use]
    pub fn closed() -> Self {
        Self(Kind::Closed)
    }

    /// The peer sent a message of more than `limit` bytes; the message is lost, the transport goes on.
    #[must_use]
    pub fn too_large(limit: usize) -> Self {
        Self(Kind::TooLarge { limit })
    }

    /// Any other fault of a transport; the text of `source` is shown as the error's own.
    pub fn other(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Kind::Other(Arc::from(source.into())))
    }

    /// The frame cannot travel on a line of its own.
    pub(crate) fn line_break() -> Self {
        Self(Kind::LineBreak)
    }

    /// Whether the transport is closed, without a fault that is known here.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.0, Kind::Closed)
    }

    /// Whether the system reported the fault; [`Error::source`] is the [`io::Error`]. The transport does not go on.
    #[must_use]
    pub fn is_io(&self) -> bool {
        matches!(self.0, Kind::Io(_))
    }

    /// Whether the peer sent a message over the limit. The transport has skipped it and goes on.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        matches!(self.0, Kind::TooLarge { .. })
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Closed => f.write_str("the transport is closed"),
            Kind::Io(_) => f.write_str("reading from or writing to the peer failed"),
            Kind::TooLarge { limit } => write!(f, "a message is longer than the limit of {limit} bytes"),
            Kind::LineBreak => f.write_str("the message holds a line break and cannot travel on one line"),
            Kind::Other(source) => source.fmt(f),
        }
    }
}

impl fmt::Debug for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Io(source) => f.debug_tuple("TransportError").field(source).finish(),
            Kind::Other(source) => f.debug_tuple("TransportError").field(source).finish(),
            Kind::Closed | Kind::TooLarge { .. } | Kind::LineBreak => write!(f, "TransportError({self})"),
        }
    }
}

impl Error for TransportError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0 {
            Kind::Io(source) => Some(source.as_ref()),
            Kind::Other(source) => source.source(),
            Kind::Closed | Kind::TooLarge { .. } | Kind::LineBreak => None,
        }
    }
}

impl From<io::Error> for TransportError {
    fn from(error: io::Error) -> Self {
        Self(Kind::Io(Arc::new(error)))
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
    }
}
