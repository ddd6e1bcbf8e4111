//! Headers that mirror the body of a stateless request, so that proxies can route by them (2026-07-28, streamable-http).
//!
//! The server reads them strictly. If the server and a proxy read a header differently, a request could bypass the rules of
//! the proxy.

use http::{HeaderMap, HeaderName, HeaderValue};
use mcp_protocol::{Excerpt, RequestMeta, RpcError, method, mirror};
use mcp_schema::header::HeaderParam;
use serde_json::Value;

pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static(mirror::PROTOCOL_VERSION);
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static(mirror::SESSION_ID);
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static(mirror::LAST_EVENT_ID);
pub(crate) const METHOD: HeaderName = HeaderName::from_static(mirror::METHOD);
pub(crate) const NAME: HeaderName = HeaderName::from_static(mirror::NAME);
/// Prevents reverse proxies from buffering a stream.
pub(crate) const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Returns the value of a header that may occur once.
///
/// # Errors
/// If the header occurs twice or is not visible ASCII.
pub(crate) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, RpcError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(RpcError::header_mismatch(format!(
            "the header {} is given twice",
            mirror::display_name(name.as_str())
        )));
    }
    let invalid = || {
        RpcError::header_mismatch(format!("the header {} is not visible ASCII", mirror::display_name(name.as_str())))
    };
    text(value).map(Some).ok_or_else(invalid)
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok().map(|text| text.trim_matches([' ', '\t']))
}

/// Compares the headers of a stateless request with its body.
///
/// # Errors
/// The error `-32020` with the name of the header.
pub(crate) fn check_mirrored(
    headers: &HeaderMap,
    method: &str,
    meta: &RequestMeta<'_>,
    version: &str,
) -> Result<(), RpcError> {
    expect(headers, &PROTOCOL_VERSION, version, false)?;
    expect(headers, &METHOD, method, false)?;
    let Some(member) = method::mirrored_name_param(method) else { return Ok(()) };
    // If the member is missing, the check of the parameters reports it later with a better text.
    match meta.mirrored(member) {
        Some(name) => expect(headers, &NAME, &name, true),
        None => Ok(()),
    }
}

fn expect(headers: &HeaderMap, name: &HeaderName, body: &str, encoded: bool) -> Result<(), RpcError> {
    let Some(header) = single(headers, name)? else {
        return Err(RpcError::header_mismatch(format!(
            "the header {} is missing",
            mirror::display_name(name.as_str())
        )));
    };
    let header = if encoded {
        mirror::decode(header).ok_or_else(|| undecodable(&mirror::display_name(name.as_str())))?
    } else {
        header.into()
    };
    // Whitespace around a header value is not a part of it. A client has to encode a value with such whitespace.
    if header == body {
        return Ok(());
    }
    let (name, header, body) = (mirror::display_name(name.as_str()), excerpt(&header), excerpt(body));
    Err(RpcError::header_mismatch(format!("the header {name} differs from the body: {header:?} and {body:?}")))
}

/// The most characters of a value in an error text.
const EXCERPT: usize = 64;

fn excerpt(value: &str) -> Excerpt<'_> {
    Excerpt::new(value).with_limit(EXCERPT)
}

/// Compares the `Mcp-Param-*` headers of a tool call with its arguments.
///
/// # Errors
/// The error `-32020` with the name of the header.
pub(crate) fn check_params(headers: &HeaderMap, params: &[HeaderParam], arguments: &Value) -> Result<(), RpcError> {
    for param in params {
        let name = param.header_name();
        let Ok(header_name) = HeaderName::try_from(&name) else { continue };
        let (argument, header) = match (param.argument(arguments), single(headers, &header_name)?) {
            (Some(argument), Some(header)) => (argument, header),
            (None, None) => continue,
            (Some(_), None) => return Err(RpcError::header_mismatch(format!("the header {name} is missing"))),
            // A proxy may have routed by an argument that does not exist.
            (None, Some(_)) => {
                return Err(RpcError::header_mismatch(format!("the header {name} mirrors no argument")));
            }
        };
        let header = mirror::decode(header).ok_or_else(|| undecodable(&name))?;
        if !param.matches(argument, &header) {
            let argument = argument.as_str().map_or_else(|| argument.to_string(), str::to_owned);
            let (header, argument) = (excerpt(&header), excerpt(&argument));
            let text = format!("the header {name} differs from the arguments: {header:?} and {argument:?}");
            return Err(RpcError::header_mismatch(text));
        }
    }
    Ok(())
}

fn undecodable(name: &str) -> RpcError {
    RpcError::header_mismatch(format!("the header {name} is not valid base64"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_both_values() {
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
    }
}
