//! The response to a request: its bytes, and the kind of response for the transport.

use std::{ops::Deref, sync::Arc};

use bytes::Bytes;
use mcp_protocol::{
    ErrorCode, Implementation, Meta, ProtocolVersion, RequestId, ResultPayload, ResultType, RpcError, jsonrpc,
};
use mcp_transport::{BoxFuture, Frame, FrameSender, Line, Route, TransportError};
use serde_json::json;

use super::Denied;
use crate::{error::Fault, store::is_unavailable, trace::Ending};

/// The identity of a server, written once for the results of the stateless era.
pub(crate) struct ServerIdentity {
    info: Implementation,
    /// The members that open each complete result: `"resultType":"complete","_meta":{…},`.
    pub(crate) opening: Arc<str>,
}

impl ServerIdentity {
    pub(crate) fn new(info: Implementation) -> Self {
        let meta = json!({ mcp_protocol::meta::keys::SERVER_INFO: info });
        Self { opening: format!("\"resultType\":\"complete\",\"_meta\":{meta},").into(), info }
    }
}

/// The response to one request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Reply {
    /// The response message.
    pub payload: Payload,
    /// The kind of the response.
    pub verdict: Verdict,
    /// The access that the caller lacks, if the verdict is [`Verdict::Denied`].
    pub denied: Option<Box<Denied>>,
}

/// The kind of a response. HTTP maps it to a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// A result.
    Result,
    /// A JSON-RPC error with this code.
    Error(ErrorCode),
    /// The caller lacks access.
    Denied,
    /// A limit is reached, or the shared store is unavailable. The client can try again later.
    Busy,
}

/// The bytes of a message, in up to three pieces, so that a shared page is not copied.
#[derive(Debug, Clone)]
pub struct Payload {
    start: Bytes,
    body: Body,
    end: Bytes,
}

/// A part of a message, which messages can share.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// A part whose line breaks are replaced already, for example a page of a list.
    Line(Line),
    /// A part with unknown line breaks.
    Bytes(Bytes),
}

impl Body {
    fn into_bytes(self) -> Bytes {
        match self {
            Self::Line(line) => line.into_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// Returns the part without line breaks. Only bytes with unknown line breaks are scanned.
    fn into_line(self) -> Line {
        match self {
            Self::Line(line) => line,
            Self::Bytes(bytes) => Line::new(bytes),
        }
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Line(line) => line,
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// Below this length in bytes, a copy is cheaper than two more pieces.
const COPY_BELOW: usize = 16 * 1024;

impl Payload {
    fn whole(bytes: impl Into<Bytes>) -> Self {
        Self { start: bytes.into(), body: Body::Bytes(Bytes::new()), end: Bytes::new() }
    }

    /// Returns a payload that ends with `}` after the body.
    fn around(mut start: Vec<u8>, body: Body) -> Self {
        if body.len() < COPY_BELOW {
            start.extend_from_slice(&body);
            start.push(b'}');
            return Self::whole(start);
        }
        Self { start: start.into(), body, end: Bytes::from_static(b"}") }
    }

    fn is_whole(&self) -> bool {
        self.body.is_empty() && self.end.is_empty()
    }

    /// Returns the length of the message in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.start.len() + self.body.len() + self.end.len()
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the pieces in order. Some may be empty.
    #[must_use]
    pub fn into_pieces(self) -> [Bytes; 3] {
        [self.start, self.body.into_bytes(), self.end]
    }

    /// Returns the message in one piece.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        if self.is_whole() {
            return self.start;
        }
        [&self.start[..], &self.body, &self.end].concat().into()
    }

    /// Queues the message. A sender in pieces does not copy the body.
    pub(crate) fn send_to(self, sender: &dyn FrameSender, route: Route) -> BoxFuture<'_, Result<(), TransportError>> {
        if self.is_whole() {
            return sender.send(Frame::new(self.start).with_route(route));
        }
        sender.send_in_pieces(Frame::new(self.start).with_route(route), self.body.into_line(), self.end)
    }
}

impl Reply {
    /// Returns the end that the span of the request records.
    pub(crate) fn ending(&self) -> Ending {
        match self.verdict {
            Verdict::Result => Ending::Done,
            Verdict::Error(code) => Ending::Error(code),
            Verdict::Denied => Ending::LacksScopes,
            Verdict::Busy => Ending::Busy,
        }
    }

    /// Returns the end of a request that this response rejects before it runs.
    pub(crate) fn refusal(&self) -> Ending {
        match self.ending() {
            Ending::Error(code) => Ending::Refused(code),
            other => other,
        }
    }

    fn new(payload: Payload, verdict: Verdict) -> Self {
        Self { payload, verdict, denied: None }
    }

    /// Creates the response to a request whose caller lacks access.
    pub(crate) fn denied(id: &RequestId, denied: Denied) -> Self {
        let error = Self::error(Some(id), &denied.to_error());
        Self { verdict: Verdict::Denied, denied: Some(Box::new(denied)), ..error }
    }

    /// Creates an error response. `id` is `None` when the id of the message could not be read.
    #[must_use]
    pub fn error(id: Option<&RequestId>, error: &RpcError) -> Self {
        let verdict = if is_unavailable(error) { Verdict::Busy } else { Verdict::Error(error.code) };
        Self::new(Payload::whole(jsonrpc::error_response(id, error)), verdict)
    }

    pub(crate) fn busy(id: &RequestId) -> Self {
        Self { verdict: Verdict::Busy, ..Self::error(Some(id), &busy()) }
    }

    pub(crate) fn too_many_streams(id: &RequestId) -> Self {
        let error = busy_error("too many subscriptions are open, try again later", None);
        Self { verdict: Verdict::Busy, ..Self::error(Some(id), &error) }
    }

    /// Creates the response for a result that is serialized already.
    pub(crate) fn written(id: &RequestId, result: Body) -> Self {
        let start = opening(id, result.len().min(COPY_BELOW) + 8);
        Self::new(Payload::around(start, result), Verdict::Result)
    }

    /// Creates the response for a result, in the form of a revision.
    pub(crate) fn result<R: ResultPayload>(
        identity: &ServerIdentity,
        id: &RequestId,
        version: ProtocolVersion,
        result: R,
        size_hint: usize,
    ) -> Self {
        let mut out = opening(id, size_hint + 128);
        match write_result(identity, version, result, &mut out) {
            Ok(None) => {
                out.push(b'}');
                Self::new(Payload::whole(out), Verdict::Result)
            }
            Ok(Some((at, text))) => {
                let mut tail = out.split_off(at);
                tail.push(b'}');
                let body = Body::Bytes(text.into());
                Self::new(Payload { start: out.into(), body, end: tail.into() }, Verdict::Result)
            }
            Err(error) => {
                let text = "the result cannot be written as JSON";
                let fault = Fault::report("a result cannot be written as JSON", text, &error);
                Self::error(Some(id), &RpcError::internal(fault.to_string()))
            }
        }
    }
}

/// Creates the response for a raw result: the members that open it, and the rest of its JSON after the opening brace.
pub(super) fn raw_reply(id: &RequestId, members: &str, rest: Bytes, is_empty: bool) -> Reply {
    let mut head = opening(id, members.len() + rest.len().min(COPY_BELOW) + 8);
    head.push(b'{');
    head.extend_from_slice(if is_empty { members.trim_end_matches(',') } else { members }.as_bytes());
    Reply::new(Payload::around(head, Body::Bytes(rest)), Verdict::Result)
}

pub(crate) fn busy() -> RpcError {
    busy_error("too many calls run already, try again later", None)
}

/// Returns an error with data by which a client recognizes that the same request can succeed later. `retry_after` is the
/// number of milliseconds until then.
pub(crate) fn busy_error(problem: &str, retry_after: Option<u64>) -> RpcError {
    let mut data = json!({ "reason": "busy" });
    if let Some(millis) = retry_after {
        data["retryAfterMs"] = millis.into();
    }
    RpcError::internal(format!("busy: {problem}")).with_data(data)
}

/// Starts a response: `{"jsonrpc":"2.0","id":…,"result":`.
fn opening(id: &RequestId, capacity: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(capacity + 64);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    // Integers and strings always serialize.
    let _ = serde_json::to_writer(&mut out, id);
    out.extend_from_slice(b",\"result\":");
    out
}

/// Writes a result object.
///
/// The stateless era needs `resultType` and the identity of the server in it. Both are copied from bytes that were
/// written once, unless the result has its own `_meta`. A large text is returned with its position instead of being
/// copied.
pub(crate) fn write_result<R: ResultPayload>(
    identity: &ServerIdentity,
    version: ProtocolVersion,
    mut result: R,
    out: &mut Vec<u8>,
) -> Result<Option<(usize, String)>, serde_json::Error> {
    if !version.has_result_type() {
        return result.write_json_apart(out);
    }
    out.push(b'{');
    if result.meta_mut().is_none() && result.result_type() == ResultType::Complete {
        out.extend_from_slice(identity.opening.as_bytes());
    } else {
        identify(identity, result.meta_mut().get_or_insert_default());
        out.extend_from_slice(format!("\"resultType\":\"{}\",", result.result_type().as_str()).as_bytes());
    }
    splice(result, out)
}

fn identify(identity: &ServerIdentity, meta: &mut Meta) {
    if !meta.contains_key(mcp_protocol::meta::keys::SERVER_INFO) {
        let info = serde_json::to_value(&identity.info).unwrap_or_default();
        meta.insert(mcp_protocol::meta::keys::SERVER_INFO.to_owned(), info);
    }
}

/// Appends the members of an object and its closing brace to an open object that ends with a comma.
fn splice(object: impl ResultPayload, out: &mut Vec<u8>) -> Result<Option<(usize, String)>, serde_json::Error> {
    // The comma overwrites the opening brace of the object, so that no bytes have to move.
    out.pop();
    let brace = out.len();
    let apart = object.write_json_apart(out)?;
    if out.len() == brace + 2 {
        out.remove(brace);
    } else {
        out[brace] = b',';
    }
    Ok(apart)
}
