//! The names and URIs that the clients of a gateway see.

use std::borrow::Cow;

use mcp_tool_format::qualified_name;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The scheme of the URIs of all resources, except for those of user interfaces.
const SCHEME: &str = "mcp://";
/// The scheme of user interfaces, which clients recognize.
const UI: &str = "ui://";

/// The names of tools and prompts in a gateway, and the form of its URIs.
///
/// ```
/// use mcp_agent::Names;
///
/// assert_eq!("raw".parse(), Ok(Names::Raw));
/// assert_eq!(Names::default(), Names::Provider);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Names {
    /// Names with the name of their server ([`mcp_tool_format::qualified_name`]), and URIs with the name of their server:
    /// `file:///a` of the server `files` is `mcp://files/file:///a`, and `ui://app` is `ui://files/app`. They do not depend
    /// on other servers.
    #[default]
    Provider,
    /// The names and URIs of the servers. If several servers have the same name, the gateway serves the item of the first server.
    Raw,
}

/// A text that names no [`Names`].
///
/// ```
/// use mcp_agent::Names;
///
/// assert!("short".parse::<Names>().unwrap_err().to_string().contains("`provider`"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("the names are `provider` or `raw`")]
pub struct UnknownNames;

impl std::str::FromStr for Names {
    type Err = UnknownNames;

    fn from_str(text: &str) -> Result<Self, UnknownNames> {
        match text {
            "provider" => Ok(Self::Provider),
            "raw" => Ok(Self::Raw),
            _ => Err(UnknownNames),
        }
    }
}

impl Names {
    /// Returns the name of a tool or a prompt for clients.
    pub(super) fn name<'a>(self, server: &str, name: &'a str) -> Cow<'a, str> {
        match self {
            Self::Provider => qualified_name(server, name).into(),
            Self::Raw => name.into(),
        }
    }

    /// Returns the URI of a resource, or of a template, for clients.
    pub(super) fn uri<'a>(self, server: &str, uri: &'a str) -> Cow<'a, str> {
        match (self, uri.strip_prefix(UI)) {
            (Self::Raw, _) => uri.into(),
            (Self::Provider, Some(rest)) => format!("{UI}{}/{rest}", encode(server)).into(),
            (Self::Provider, None) => format!("{SCHEME}{}/{uri}", encode(server)).into(),
        }
    }
}

/// Returns the server and its URI of a URI with the name of a server.
pub(super) fn split_uri(uri: &str) -> Option<(String, Cow<'_, str>)> {
    let (prefix, rest) = match uri.strip_prefix(UI) {
        Some(rest) => (UI, rest),
        None => ("", uri.strip_prefix(SCHEME)?),
    };
    let (server, rest) = rest.split_once('/')?;
    let original = if prefix.is_empty() { rest.into() } else { format!("{prefix}{rest}").into() };
    Some((percent_decode_str(server).decode_utf8().ok()?.into_owned(), original))
}

/// Whether a URI of a server has a scheme (RFC 3986, section 3.1).
pub(super) fn has_scheme(uri: &str) -> bool {
    let Some((scheme, _)) = uri.split_once(':') else { return false };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// Writes the name of a server as the authority of a URI.
fn encode(server: &str) -> Cow<'_, str> {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(server, KEPT).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_name_their_server_and_return_to_their_first_form() {
        for (server, uri, expected) in [
            ("files", "file:///a b?c#d", "mcp://files/file:///a b?c#d"),
            ("files", "ui://app/index.html", "ui://files/app/index.html"),
            ("my files/ä", "x:", "mcp://my%20files%2F%C3%A4/x:"),
            ("a", "{scheme}://{+path}", "mcp://a/{scheme}://{+path}"),
            ("a", "mcp://b/x:y", "mcp://a/mcp://b/x:y"),
            ("a", "ui://", "ui://a/"),
            ("a", "UI://x", "mcp://a/UI://x"),
        ] {
            assert_eq!(Names::Provider.uri(server, uri), expected);
            let (found, original) = split_uri(expected).unwrap();
            assert_eq!((found.as_str(), &*original), (server, uri));
            assert_eq!(Names::Raw.uri(server, uri), uri);
        }
        for (uri, expected) in
            [("res://a", true), ("a+b-1.c:", true), ("/res://a", false), ("res%3A//a", false), ("1:a", false)]
        {
            assert_eq!(has_scheme(uri), expected, "{uri}");
        }
        for invalid in ["file:///a", "mcp://a", "ui:/a/b", "mcp://%C3/x", ""] {
            assert_eq!(split_uri(invalid), None, "{invalid}");
        }
    }
}
