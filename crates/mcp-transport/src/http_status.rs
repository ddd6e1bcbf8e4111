//! The meaning of HTTP statuses that come without a message: the only table of statuses of the client crates.

/// The meaning of an HTTP status for the request that it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpStatus {
    /// The server did not understand the request, and did nothing. A server of another era answers so.
    NotUnderstood,
    /// Nothing is at this address, at least not for this request. The server did nothing.
    NotFound,
    /// The server requires other credentials.
    Unauthorized,
    /// The server requires another permission, such as a further scope.
    Forbidden,
    /// The server rejects requests for now, and the request can succeed later. A proxy can answer so after the server received the
    /// request.
    Busy,
    /// The server did nothing, because its client sends too many requests. The request can succeed later.
    TooMany,
    /// A gateway answered: the server behind it did not.
    Gateway,
    /// The server rejected the request for another reason.
    Rejected,
    /// Any other status.
    Other,
}

impl HttpStatus {
    /// Returns the meaning of a status.
    pub fn of(status: u16) -> Self {
        match status {
            400 | 405 => Self::NotUnderstood,
            404 => Self::NotFound,
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            408 | 425 | 503 => Self::Busy,
            429 => Self::TooMany,
            502 | 504 => Self::Gateway,
            400..=499 => Self::Rejected,
            _ => Self::Other,
        }
    }

    /// Returns true if the same request can succeed later.
    pub fn is_temporary(self) -> bool {
        self.is_busy() || self == Self::Gateway
    }

    /// Returns true if the server itself rejects requests for now.
    pub fn is_busy(self) -> bool {
        matches!(self, Self::Busy | Self::TooMany)
    }

    /// Returns true if the server did nothing because it does not know such requests.
    pub fn is_refusal(self) -> bool {
        matches!(self, Self::NotUnderstood | Self::NotFound)
    }
}
