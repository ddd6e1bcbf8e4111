//! The names of the headers that the endpoint reads, and access to their values.

use http::{HeaderMap, HeaderName, HeaderValue};
use mcp_protocol::{RpcError, mirror};
use mcp_server_core::engine::MirroredHeaders;

pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static(mirror::PROTOCOL_VERSION);
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static(mirror::SESSION_ID);
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static(mirror::LAST_EVENT_ID);
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

/// Returns the headers that mirror the body of a request.
pub(crate) fn mirrored(headers: &HeaderMap) -> MirroredHeaders<'_> {
    MirroredHeaders::new(headers.iter().map(|(name, value)| (name.as_str(), || value.to_str().ok())))
}
