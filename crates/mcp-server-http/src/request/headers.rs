//! Headers that mirror the body of a stateless request, so that what stands between can route by them (2026-07-28,
//! streamable-http): they are read strictly, because two readers that disagree are a hole.

use std::borrow::Cow;

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue};
use mcp_protocol::{RequestMeta, RpcError, method};
use mcp_schema::header::HeaderParam;
use serde_json::Value;

pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(crate) const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// Keeps reverse proxies from collecting a stream before they pass it on.
pub(crate) const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// A header that may stand once at most.
///
/// # Errors
/// When it is given twice or is not visible ASCII.
pub(crate) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, RpcError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(RpcError::header_mismatch(format!("the header {} is given twice", spelled(name))));
    }
    let misfit = || RpcError::header_mismatch(format!("the header {} is not visible ASCII", spelled(name)));
    text(value).map(Some).ok_or_else(misfit)
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok().map(|text| text.trim_matches([' ', '\t']))
}

/// Checks the headers that every stateless request carries against its body.
///
/// # Errors
/// `-32020` that names the header.
pub(crate) fn check_mirrored(
    headers: &HeaderMap,
    method: &str,
    meta: &RequestMeta<'_>,
    version: &str,
) -> Result<(), RpcError> {
    expect(headers, &PROTOCOL_VERSION, version, false)?;
    expect(headers, &METHOD, method, false)?;
    let Some(member) = method::mirrored_name_param(method) else { return Ok(()) };
    // Without the member the parameters do not fit, which is said later and better.
    match meta.mirrored(member) {
        Some(name) => expect(headers, &NAME, &name, true),
        None => Ok(()),
    }
}

fn expect(headers: &HeaderMap, name: &HeaderName, body: &str, encoded: bool) -> Result<(), RpcError> {
    let Some(header) = single(headers, name)? else {
        return Err(RpcError::header_mismatch(format!("the header {} is missing", spelled(name))));
    };
    let header = if encoded { decode(header).ok_or_else(|| undecodable(&spelled(name)))? } else { header.into() };
    // Whitespace around a header value is not part of it, so a body value with some can only be sent encoded.
    if header == body {
        return Ok(());
    }
    let (name, header, body) = (spelled(name), shown(&header), shown(body));
    Err(RpcError::header_mismatch(format!("the header {name} differs from the body: {header} and {body}")))
}

/// A name as the specification writes it.
fn spelled(name: &HeaderName) -> String {
    if *name == PROTOCOL_VERSION {
        return "MCP-Protocol-Version".into();
    }
    let words = name.as_str().split('-').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    });
    words.collect::<Vec<_>>().join("-")
}

/// A value of the client's, at no length, and nothing in it that cannot be printed.
fn shown(value: &str) -> String {
    let start: String = value.chars().take(SHOWN).collect();
    let more = if start.len() < value.len() { "…" } else { "" };
    format!("{start:?}{more}")
}

/// So many characters of a value are told.
const SHOWN: usize = 64;

/// Checks the `Mcp-Param-*` headers of a tool call against its arguments.
///
/// # Errors
/// `-32020` that names the header.
pub(crate) fn check_params(headers: &HeaderMap, params: &[HeaderParam], arguments: &Value) -> Result<(), RpcError> {
    for param in params {
        let name = param.header_name();
        let Ok(header_name) = HeaderName::try_from(&name) else { continue };
        let (argument, header) = match (param.argument(arguments), single(headers, &header_name)?) {
            (Some(argument), Some(header)) => (argument, header),
            (None, None) => continue,
            (Some(_), None) => return Err(RpcError::header_mismatch(format!("the header {name} is missing"))),
            // Whatever routed by it acted on an argument that is not there.
            (None, Some(_)) => {
                return Err(RpcError::header_mismatch(format!("the header {name} mirrors no argument")));
            }
        };
        let header = decode(header).ok_or_else(|| undecodable(&name))?;
        if !param.matches(argument, &header) {
            let (header, argument) = (shown(&header), shown(argument.as_str().unwrap_or(&argument.to_string())));
            let text = format!("the header {name} differs from the arguments: {header} and {argument}");
            return Err(RpcError::header_mismatch(text));
        }
    }
    Ok(())
}

fn undecodable(name: &str) -> RpcError {
    RpcError::header_mismatch(format!("the header {name} is not valid base64"))
}

/// The value behind `=?base64?…?=`, or the value itself. `None` when the base64 is not valid; anything that is not the
/// exact marker is a value (SEP-2243).
fn decode(value: &str) -> Option<Cow<'_, str>> {
    let Some(inner) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Some(Cow::Borrowed(value));
    };
    let bytes = BASE64_STANDARD.decode(inner).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_shown() {
        for (name, header, body, expected) in [
            ("mcp-name", "a", "b", "the header Mcp-Name differs from the body: \"a\" and \"b\""),
            (
                "mcp-protocol-version",
                "1",
                "\n",
                "the header MCP-Protocol-Version differs from the body: \"1\" and \"\\n\"",
            ),
        ] {
            let name = HeaderName::from_static(name);
            let headers = HeaderMap::from_iter([(name.clone(), HeaderValue::from_static(header))]);
            assert_eq!(expect(&headers, &name, body, false).unwrap_err().message, expected);
        }
        assert_eq!(shown(&"x".repeat(65)), format!("\"{}\"…", "x".repeat(64)));
    }

    #[test]
    fn decodes_exact_markers_only() {
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
}
