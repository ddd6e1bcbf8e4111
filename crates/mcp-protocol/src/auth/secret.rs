//! A text that is never printed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A token, a password or a key. `Debug` shows no part of it, and there is no `Display`.
///
/// ```
/// use mcp_protocol::auth::Secret;
///
/// let secret = Secret::new("hunter2");
/// assert_eq!(secret.expose(), "hunter2");
/// assert_eq!(format!("{secret:?}"), "Secret(…)");
/// ```
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text. The caller must not log it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Secret {
    /// Compares all bytes, so that the time of the comparison does not depend on the first difference.
    fn eq(&self, other: &Self) -> bool {
        let difference = self.0.bytes().zip(other.0.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
        self.0.len() == other.0.len() && std::hint::black_box(difference) == 0
    }
}

impl Eq for Secret {}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The names of an object's members, for `Debug` of a document whose unknown members may be secret.
pub(super) struct Names<'a>(pub(super) &'a crate::JsonObject);

impl fmt::Debug for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_compare_by_content() {
        for (one, other, expected) in [("a", "a", true), ("a", "b", false), ("a", "aa", false), ("", "", true)] {
            assert_eq!(Secret::new(one) == Secret::new(other), expected, "{one} {other}");
        }
    }
}
