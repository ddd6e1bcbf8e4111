//! Reads JSON from bytes.

use serde::{Deserialize, de::Error as _};

/// Reads a value from JSON text.
///
/// `serde_json` has other machine code for bytes than for texts. The messages of clients are texts, so all JSON is read as text.
pub(crate) fn from_slice<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, serde_json::Error> {
    serde_json::from_str(std::str::from_utf8(json).map_err(serde_json::Error::custom)?)
}
