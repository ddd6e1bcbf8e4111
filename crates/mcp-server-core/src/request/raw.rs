//! Raw results, and their responses in the form of the caller's revision.

use std::fmt;

use bytes::Bytes;
use mcp_protocol::{CacheScope, Method as _, ProtocolVersion, RawShape, RequestId, RpcError, method, shape_raw_result};

use super::{
    Reply,
    reply::{Body, ServerIdentity, raw_reply},
};
use crate::{cache_hint::CacheHint, error::Fault};

/// A result as JSON, in the form of a revision.
///
/// The server sends it to a caller of the same revision without a copy. For another revision it adds or removes the members
/// that differ between the revisions. It keeps unknown members.
///
/// ```
/// use mcp_protocol::ProtocolVersion;
/// use mcp_server_core::source::SourceResult;
///
/// let json = r#"{"content":[{"type":"text","text":"It rains."}],"vendor":{"station":7}}"#;
/// let result = SourceResult::new(json, ProtocolVersion::V2025_11_25);
/// assert_eq!((result.json(), result.version()), (json.as_bytes(), ProtocolVersion::V2025_11_25));
/// let failed = SourceResult::new(r#"{"content":[],"isError":true}"#, ProtocolVersion::V2025_11_25).failed();
/// # let _ = failed;
/// ```
#[derive(Clone)]
pub struct SourceResult {
    json: Bytes,
    version: ProtocolVersion,
    is_error: bool,
}

impl SourceResult {
    /// Creates a result from a JSON object. `version` is the revision of its form.
    ///
    /// The server does not parse the JSON for callers of this revision, so the caller of this function ensures that it is
    /// valid. A result of 2026-07-28 includes its `resultType`.
    pub fn new(json: impl Into<Bytes>, version: ProtocolVersion) -> Self {
        Self { json: json.into(), version, is_error: false }
    }

    /// Marks the result of a failed tool, for spans, the access log and layers. It does not change the JSON.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn failed(mut self) -> Self {
        self.is_error = true;
        self
    }

    /// Returns the JSON.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    /// Returns the revision of the form.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }
}

/// Omits the JSON, which may be secret.
impl fmt::Debug for SourceResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceResult")
            .field("bytes", &self.json.len())
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// A raw result with the method that it answers.
#[derive(Debug)]
pub(crate) struct RawOutput {
    pub(crate) method: &'static str,
    pub(crate) result: SourceResult,
    /// The result contains input requests (2026-07-28).
    pub(crate) requires_input: bool,
}

impl RawOutput {
    /// Whether the result is that of a failed tool.
    pub(crate) fn is_error(&self) -> bool {
        self.result.is_error
    }

    /// Returns the JSON in the form of a revision, in up to three pieces, without the members that open each result.
    fn shape(&self, version: ProtocolVersion) -> Result<RawShape, RpcError> {
        let SourceResult { json, version: from, .. } = &self.result;
        shape_raw_result(self.method, json, *from, version).map_err(|error| {
            let text = "the result is not valid";
            RpcError::internal(Fault::report("a source returned an invalid result", text, &error).to_string())
        })
    }

    /// Returns the JSON in the form of a revision, as one piece.
    pub(crate) fn into_json(self, version: ProtocolVersion) -> Result<Bytes, RpcError> {
        Ok(match self.shape(version)? {
            RawShape::Unchanged | RawShape::Unopened { .. } => self.result.json,
            RawShape::Rewritten { json, .. } => json.into(),
        })
    }

    /// Writes the response.
    pub(crate) fn reply(self, identity: &ServerIdentity, id: &RequestId, version: ProtocolVersion) -> Reply {
        let opening = |has_meta: bool| {
            let mut opening = match has_meta {
                true => "\"resultType\":\"complete\",".to_owned(),
                false => String::from(&*identity.opening),
            };
            if self.method == method::ReadResource::NAME {
                opening.push_str(&CacheHint { scope: CacheScope::Private, ..CacheHint::NONE }.members());
                opening.push(',');
            }
            opening
        };
        match self.shape(version) {
            Err(error) => Reply::error(Some(id), &error),
            Ok(RawShape::Unchanged) => Reply::written(id, Body::Bytes(self.result.json)),
            Ok(RawShape::Unopened { has_meta, is_empty }) => {
                let start = self.result.json.iter().position(|byte| *byte == b'{').map_or(0, |brace| brace + 1);
                raw_reply(id, &opening(has_meta), self.result.json.slice(start..), is_empty)
            }
            Ok(RawShape::Rewritten { json, has_meta, is_empty }) if version.has_result_type() => {
                let members = Bytes::from(json).slice(1..);
                raw_reply(id, &opening(has_meta), members, is_empty)
            }
            Ok(RawShape::Rewritten { json, .. }) => Reply::written(id, Body::Bytes(json.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use mcp_protocol::Implementation;

    use super::*;

    #[test]
    fn a_large_result_is_not_copied() {
        let json = Bytes::from(format!(r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#, "a".repeat(1 << 20)));
        let identity = ServerIdentity::new(Implementation::new("s", "1"));
        for (from, to, skipped) in [
            (ProtocolVersion::V2025_11_25, ProtocolVersion::V2025_11_25, 0),
            (ProtocolVersion::LATEST, ProtocolVersion::LATEST, 0),
            // The newest revision opens each result with members of its own.
            (ProtocolVersion::V2025_11_25, ProtocolVersion::LATEST, 1),
            (ProtocolVersion::V2025_11_25, ProtocolVersion::V2024_11_05, 0),
        ] {
            let result = SourceResult::new(json.clone(), from);
            let output = RawOutput { method: method::CallTool::NAME, result, requires_input: false };
            let payload = output.reply(&identity, &RequestId::from(1), to).payload;
            let whole: serde_json::Value = serde_json::from_slice(&payload.clone().into_bytes()).unwrap();
            assert_eq!(whole["result"]["content"][0]["text"].as_str().unwrap().len(), 1 << 20);
            assert_eq!(payload.into_pieces()[1].as_ptr(), json[skipped..].as_ptr(), "{from} {to}");
        }
    }

    #[test]
    fn an_empty_result_has_the_opening_alone() {
        let identity = ServerIdentity::new(Implementation::new("s", "1"));
        let result = SourceResult::new("{}", ProtocolVersion::V2025_11_25);
        let output = RawOutput { method: method::CallTool::NAME, result, requires_input: false };
        let reply = output.reply(&identity, &RequestId::from(1), ProtocolVersion::LATEST);
        let whole: serde_json::Value = serde_json::from_slice(&reply.payload.into_bytes()).unwrap();
        assert_eq!(whole["result"]["resultType"], "complete");
    }
}
