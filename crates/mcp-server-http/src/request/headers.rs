//! The names of the headers that the endpoint reads, and access to their values.

use http::{HeaderMap, HeaderName, header::AsHeaderName};
use mcp_protocol::{ProtocolVersion, RpcError, mirror};
use mcp_server_core::engine::SingleHeader;

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
    find(headers, name).text(|| mirror::display_name(name.as_str()))
}

/// Finds a header that may occur once.
pub(crate) fn find(headers: &HeaderMap, name: impl AsHeaderName) -> SingleHeader<'_> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return SingleHeader::Missing };
    if values.next().is_some() {
        return SingleHeader::Repeated;
    }
    value.to_str().map_or(SingleHeader::Unreadable, |text| SingleHeader::Text(text.trim_matches([' ', '\t'])))
}

/// The header with the revision of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionHeader {
    Missing,
    /// The header names a known revision.
    Known(ProtocolVersion),
    /// The header is repeated or unreadable, or its revision is unknown.
    Invalid,
}

impl VersionHeader {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        match find(headers, PROTOCOL_VERSION) {
            SingleHeader::Missing => Self::Missing,
            SingleHeader::Text(text) => ProtocolVersion::parse(text).map_or(Self::Invalid, Self::Known),
            SingleHeader::Repeated | SingleHeader::Unreadable => Self::Invalid,
        }
    }

    /// Returns the known revision.
    pub(crate) fn known(self) -> Option<ProtocolVersion> {
        match self {
            Self::Known(version) => Some(version),
            Self::Missing | Self::Invalid => None,
        }
    }

    /// Whether the header names a revision of the stateless era.
    pub(crate) fn is_stateless(self) -> bool {
        self.known().is_some_and(ProtocolVersion::is_stateless)
    }
}
