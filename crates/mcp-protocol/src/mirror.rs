//! HTTP headers that mirror members of a message: their names, and the encoding of their values (2025-06-18 and
//! 2026-07-28, streamable HTTP).
//!
//! ```
//! use mcp_protocol::mirror;
//!
//! assert_eq!(mirror::encode("get_weather"), "get_weather");
//! assert_eq!(mirror::encode("Zürich"), "=?base64?WsO8cmljaA==?=");
//! assert_eq!(mirror::decode("=?base64?WsO8cmljaA==?=").as_deref(), Some("Zürich"));
//! assert_eq!(mirror::decode("=?base64?!?="), None);
//! ```

use std::borrow::Cow;

use base64::prelude::{BASE64_STANDARD, Engine as _};

/// The header with the revision of the message.
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// The header with the id of the session that a message belongs to.
pub const SESSION_ID: &str = "mcp-session-id";
/// The header with the id of the last event that a client received on a stream.
pub const LAST_EVENT_ID: &str = "last-event-id";
/// The header with the method of a request.
pub const METHOD: &str = "mcp-method";
/// The header with the name of the tool or prompt, or the URI of the resource, that a request is about.
pub const NAME: &str = "mcp-name";
/// The prefix of a header with an argument of a tool call; the `x-mcp-header` annotation of the argument follows.
pub const PARAM_PREFIX: &str = "mcp-param-";

const ENCODED_START: &str = "=?base64?";
const ENCODED_END: &str = "?=";

/// Returns the header value for a text.
///
/// The value is the text itself when that consists of printable ASCII characters and has no spaces at its ends.
/// Otherwise, and when the text has the form of an encoded value, it is `=?base64?…?=` with the Base64 of the text.
#[must_use]
pub fn encode(text: &str) -> Cow<'_, str> {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && text.trim_matches(' ') == text;
    let looks_encoded = text.starts_with(ENCODED_START) && text.ends_with(ENCODED_END);
    if is_plain && !looks_encoded {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{ENCODED_START}{}{ENCODED_END}", BASE64_STANDARD.encode(text)))
}

/// Returns the text of a header value; `None` when the value is encoded and the Base64 or its UTF-8 is invalid.
///
/// A value without the exact marker `=?base64?…?=` is the text itself (SEP-2243).
#[must_use]
pub fn decode(value: &str) -> Option<Cow<'_, str>> {
    let Some(inner) = value.strip_prefix(ENCODED_START).and_then(|rest| rest.strip_suffix(ENCODED_END)) else {
        return Some(Cow::Borrowed(value));
    };
    let bytes = BASE64_STANDARD.decode(inner).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// Returns a header name as the specification writes it: `Mcp-Method`, `MCP-Protocol-Version`.
///
/// ```
/// use mcp_protocol::mirror;
///
/// assert_eq!(mirror::display_name(mirror::NAME), "Mcp-Name");
/// assert_eq!(mirror::display_name("mcp-param-region"), "Mcp-Param-Region");
/// ```
#[must_use]
pub fn display_name(name: &str) -> String {
    if name.eq_ignore_ascii_case(PROTOCOL_VERSION) {
        return "MCP-Protocol-Version".into();
    }
    let mut starts_word = true;
    name.chars()
        .map(|c| {
            let c = if starts_word { c.to_ascii_uppercase() } else { c };
            starts_word = c == '-';
            c
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_outside_of_plain_ascii_are_encoded() {
        for (value, expected) in [
            ("", ""),
            ("a b", "a b"),
            ("file:///a?b=c", "file:///a?b=c"),
            ("ü", "=?base64?w7w=?="),
            (" a", "=?base64?IGE=?="),
            ("a ", "=?base64?YSA=?="),
            ("a\tb", "=?base64?YQli?="),
            ("a\r\nx: y", "=?base64?YQ0KeDogeQ==?="),
            ("=?base64?w7w=?=", "=?base64?PT9iYXNlNjQ/dzd3PT89?="),
            ("=?BASE64?w7w=?=", "=?BASE64?w7w=?="),
            ("=?base64?w7w=", "=?base64?w7w="),
        ] {
            assert_eq!(encode(value), expected, "{value:?}");
            assert_eq!(decode(expected).as_deref(), Some(value), "{value:?}");
        }
    }

    #[test]
    fn only_values_with_the_exact_marker_are_decoded() {
        for (value, expected) in [
            ("plain", Some("plain")),
            ("", Some("")),
            ("=?base64?SGVsbG8=?=", Some("Hello")),
            ("=?base64?w7w=?=", Some("ü")),
            ("=?base64??=", Some("")),
            ("=?BASE64?SGVsbG8=?=", Some("=?BASE64?SGVsbG8=?=")),
            ("=?base64?SGVsbG8=", Some("=?base64?SGVsbG8=")),
            ("SGVsbG8=?=", Some("SGVsbG8=?=")),
            ("=?base64?SGVsbG8?=", None),
            ("=?base64?SGV%?=", None),
            ("=?base64?/w==?=", None),
        ] {
            assert_eq!(decode(value).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn header_names_have_the_spelling_of_the_specification() {
        for (name, expected) in [
            (PROTOCOL_VERSION, "MCP-Protocol-Version"),
            (SESSION_ID, "Mcp-Session-Id"),
            (METHOD, "Mcp-Method"),
            ("mcp-param-é", "Mcp-Param-é"),
            ("", ""),
        ] {
            assert_eq!(display_name(name), expected);
        }
    }
}
