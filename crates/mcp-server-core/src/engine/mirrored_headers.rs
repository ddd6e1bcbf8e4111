//! Headers that mirror the body of a stateless request, so that proxies can route by them (2026-07-28, streamable-http).
//!
//! The server reads them strictly. If the server and a proxy read a header differently, a request could bypass the rules of
//! the proxy.

use std::fmt;

use mcp_protocol::{Excerpt, ProtocolVersion, RequestMeta, RpcError, mirror};
use mcp_schema::header::HeaderParam;
use serde_json::Value;

use super::methods;

/// The most characters of a value in an error text.
const EXCERPT: usize = 64;

/// The value of a header that may occur once.
#[derive(Clone, Copy)]
#[expect(clippy::exhaustive_enums, reason = "a header has no other forms")]
pub enum SingleHeader<'a> {
    /// The request does not have the header.
    Missing,
    /// The value, without the whitespace around it.
    Text(&'a str),
    /// The request has the header more than once.
    Repeated,
    /// The value is not visible ASCII.
    Unreadable,
}

impl<'a> SingleHeader<'a> {
    /// Returns the value. `shown` returns the name of the header for the error.
    ///
    /// # Errors
    /// `-32020` if the header is repeated or unreadable.
    pub fn text(self, shown: impl FnOnce() -> String) -> Result<Option<&'a str>, RpcError> {
        let problem = match self {
            Self::Missing => return Ok(None),
            Self::Text(text) => return Ok(Some(text)),
            Self::Repeated => "is given twice",
            Self::Unreadable => "is not visible ASCII",
        };
        Err(RpcError::header_mismatch(format!("the header {} {problem}", shown())))
    }
}

/// Shows the form only: a value may be a session id or an argument.
impl fmt::Debug for SingleHeader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "Missing",
            Self::Text(_) => "Text(..)",
            Self::Repeated => "Repeated",
            Self::Unreadable => "Unreadable",
        })
    }
}

/// The headers of a request by their lower-case names.
#[derive(Clone, Copy)]
pub struct MirroredHeaders<'a> {
    version: Option<ProtocolVersion>,
    find: &'a (dyn Fn(&str) -> SingleHeader<'a> + Sync),
}

impl fmt::Debug for MirroredHeaders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MirroredHeaders").field("version", &self.version).finish_non_exhaustive()
    }
}

impl<'a> MirroredHeaders<'a> {
    /// Reads headers by a function. `version` is the known revision that the headers name.
    pub fn new(version: Option<ProtocolVersion>, find: &'a (dyn Fn(&str) -> SingleHeader<'a> + Sync)) -> Self {
        Self { version, find }
    }

    /// Returns the known revision that the headers name.
    pub(super) fn version(&self) -> Option<ProtocolVersion> {
        self.version
    }

    /// Returns the error for a request whose revision header is missing. The error suggests a revision that the server
    /// supports: the requested revision, or else the newest revision without sessions.
    pub(super) fn version_missing(supported: &[ProtocolVersion], requested: Option<&str>) -> RpcError {
        let stateless = || supported.iter().copied().filter(|version| version.is_stateless());
        let requested = requested.and_then(ProtocolVersion::parse);
        let suggested = stateless().find(|version| Some(*version) == requested).or_else(|| stateless().max());
        let header = mirror::display_name(mirror::PROTOCOL_VERSION);
        let mut text = format!("the header {header} is missing");
        if let Some(version) = suggested {
            text.push_str(&format!(
                ": without a session, send `{header}: {version}`, and the same revision in `_meta`"
            ));
        }
        RpcError::header_mismatch(text)
    }

    /// Compares the headers with the method, the revision and the name in the body.
    ///
    /// # Errors
    /// `-32020` with the name of the header.
    pub(super) fn check_request(
        &self,
        method: &str,
        meta: &RequestMeta<'_>,
        version: &str,
        supported: &[ProtocolVersion],
    ) -> Result<(), RpcError> {
        if matches!((self.find)(mirror::PROTOCOL_VERSION), SingleHeader::Missing) {
            return Err(Self::version_missing(supported, Some(version)));
        }
        self.expect(mirror::PROTOCOL_VERSION, version, false)?;
        self.expect(mirror::METHOD, method, false)?;
        let Some(member) = methods::mirrored_param(method) else { return Ok(()) };
        // If the member is missing, the check of the parameters reports it later with a better text.
        match meta.mirrored(member) {
            Some(name) => self.expect(mirror::NAME, &name, true),
            None => Ok(()),
        }
    }

    /// Compares the `Mcp-Param-*` headers with the arguments of a tool call.
    ///
    /// # Errors
    /// `-32020` with the name of the header.
    pub(super) fn check_arguments(&self, params: &[HeaderParam], arguments: &Value) -> Result<(), RpcError> {
        for param in params {
            let name = param.header_name();
            let header = (self.find)(&name.to_ascii_lowercase()).text(|| name.clone())?;
            let (argument, header) = match (param.argument(arguments), header) {
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

    fn expect(&self, name: &str, body: &str, encoded: bool) -> Result<(), RpcError> {
        let shown = || mirror::display_name(name);
        let Some(header) = (self.find)(name).text(shown)? else {
            return Err(RpcError::header_mismatch(format!("the header {} is missing", shown())));
        };
        let header = if encoded { mirror::decode(header).ok_or_else(|| undecodable(&shown()))? } else { header.into() };
        // Whitespace around a header value is not a part of it. A client has to encode a value with such whitespace.
        if header == body {
            return Ok(());
        }
        let (header, body) = (excerpt(&header), excerpt(body));
        let shown = shown();
        Err(RpcError::header_mismatch(format!("the header {shown} differs from the body: {header:?} and {body:?}")))
    }
}

fn excerpt(value: &str) -> Excerpt<'_> {
    Excerpt::new(value).with_limit(EXCERPT)
}

fn undecodable(name: &str) -> RpcError {
    RpcError::header_mismatch(format!("the header {name} is not valid base64"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_revision_header_suggests_supported_revisions_only() {
        let (newest, legacy) = (ProtocolVersion::LATEST, ProtocolVersion::LATEST_LEGACY);
        let hint = format!(
            "the header MCP-Protocol-Version is missing: without a session, send `MCP-Protocol-Version: {newest}`, and the \
             same revision in `_meta`"
        );
        let no_hint = "the header MCP-Protocol-Version is missing";
        for (supported, requested, expected) in [
            (&[newest, legacy][..], Some(newest.as_str()), &*hint),
            (&[newest], None, &hint),
            (&[newest], Some("1999-01-01"), &hint),
            (&[newest, legacy], Some(legacy.as_str()), &hint),
            (&[legacy], Some(newest.as_str()), no_hint),
            (&[legacy], Some("send `X-Other: 1`"), no_hint),
        ] {
            let error = MirroredHeaders::version_missing(supported, requested);
            assert_eq!(
                (error.code, &*error.message),
                (mcp_protocol::ErrorCode::HEADER_MISMATCH, expected),
                "{requested:?}"
            );
        }
    }

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
            let find = |_: &str| SingleHeader::Text(header);
            let headers = MirroredHeaders::new(None, &find);
            assert_eq!(headers.expect(name, body, false).unwrap_err().message, expected);
        }
    }
}
