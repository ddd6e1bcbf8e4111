//! A text that is never printed.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::{ZeroizeOnDrop, Zeroizing};

/// A token, a password or a key. `Debug` shows no part of it, and there is no `Display`. The memory is overwritten when the
/// value is dropped.
///
/// ```
/// use mcp_protocol::auth::Secret;
///
/// let secret = Secret::new("hunter2");
/// assert_eq!(secret.expose(), "hunter2");
/// assert_eq!(format!("{secret:?}"), "Secret(…)");
/// ```
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<String>);

impl ZeroizeOnDrop for Secret {}

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
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
        Self::new(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
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

    #[test]
    fn texts_become_secrets() {
        for secret in [Secret::new("hunter2"), "hunter2".into(), "hunter2".to_owned().into()] {
            assert_eq!(secret.expose(), "hunter2");
        }
    }

    #[test]
    fn secrets_are_overwritten_when_they_are_dropped() {
        fn is_overwritten<T: ZeroizeOnDrop>(_: &T) {}
        let secret = Secret::new("a");
        is_overwritten(&secret);
        is_overwritten(&secret.0);
    }

    #[test]
    fn secrets_are_texts_in_json() {
        let secret: Secret = serde_json::from_str(r#""hunter2""#).unwrap();
        assert_eq!(secret.expose(), "hunter2");
        assert_eq!(serde_json::to_string(&secret).unwrap(), r#""hunter2""#);
        assert!(serde_json::from_str::<Secret>("1").is_err());
    }
}
