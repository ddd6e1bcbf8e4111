//! The error of all stores: opaque, with predicates.

use std::{borrow::Cow, error::Error, fmt};

/// An error of a store.
///
/// The text is for logs and may change, so programs use the predicates. The text never contains a stored value.
///
/// ```
/// use mcp_store::StoreError;
///
/// let closed = std::io::Error::other("the connection is closed");
/// let error = StoreError::unavailable("the store did not respond").with_source(closed);
/// assert!(error.is_unavailable() && error.is_retryable());
/// assert_eq!(error.to_string(), "the store did not respond");
///
/// let error = StoreError::full("the store holds 1,000 keys");
/// assert!(error.is_full() && !error.is_retryable());
/// ```
pub struct StoreError {
    kind: Kind,
    message: Cow<'static, str>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unavailable,
    Conflict,
    Full,
    Invalid,
}

impl StoreError {
    /// Returns the error of a store that is unreachable or did not respond in time. The operation may have taken
    /// effect.
    ///
    /// ```
    /// let error = mcp_store::StoreError::unavailable("no response after 5 s");
    /// assert!(error.is_unavailable() && error.is_retryable());
    /// ```
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Unavailable, message)
    }

    /// Returns the error of a store that stopped retrying because other writers kept changing the same record. A lost
    /// [compare-and-swap](crate::KeyValue::compare_and_swap) is not this error, but a [`Swap`](crate::Swap).
    ///
    /// ```
    /// let error = mcp_store::StoreError::conflict("the log changed during 8 attempts");
    /// assert!(error.is_conflict() && error.is_retryable());
    /// ```
    pub fn conflict(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Conflict, message)
    }

    /// Returns the error of a store that rejected a write because a bound is reached.
    ///
    /// ```
    /// let error = mcp_store::StoreError::full("the store is full");
    /// assert!(error.is_full() && !error.is_retryable());
    /// ```
    pub fn full(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Full, message)
    }

    /// Returns the error of a caller that broke a rule of [`limits`](crate::limits).
    ///
    /// ```
    /// let error = mcp_store::StoreError::invalid("a key must not be empty");
    /// assert!(error.is_invalid() && !error.is_retryable());
    /// ```
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    /// Adds the cause.
    ///
    /// ```
    /// use std::error::Error;
    ///
    /// use mcp_store::StoreError;
    ///
    /// let error = StoreError::unavailable("no response").with_source("connection reset");
    /// assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("connection reset"));
    /// ```
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Whether the store was unreachable or did not respond in time.
    pub fn is_unavailable(&self) -> bool {
        self.kind == Kind::Unavailable
    }

    /// Whether the store stopped retrying because other writers kept changing the record.
    pub fn is_conflict(&self) -> bool {
        self.kind == Kind::Conflict
    }

    /// Whether a bound of the store is reached.
    pub fn is_full(&self) -> bool {
        self.kind == Kind::Full
    }

    /// Whether the caller broke a rule of [`limits`](crate::limits).
    pub fn is_invalid(&self) -> bool {
        self.kind == Kind::Invalid
    }

    /// Whether the same call may succeed later without changes by the caller.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, Kind::Unavailable | Kind::Conflict)
    }

    fn new(kind: Kind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), source: None }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreError")
            .field("kind", &self.kind)
            .field("message", &self.message)
            .field("source", &self.source)
            .finish()
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
