//! The error of invalid settings.

use std::{borrow::Cow, error::Error, fmt};

/// An invalid setting of a provider. The text contains no secrets.
///
/// ```
/// let error = mcp_auth::Jwt::hs256("https://as.example", b"short").unwrap_err();
/// assert_eq!(error.to_string(), "the secret must have at least 32 bytes");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigError(Cow<'static, str>);

impl ConfigError {
    /// Returns an error with a text. It must not contain secrets.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConfigError").field(&self.0).finish()
    }
}

impl Error for ConfigError {}
