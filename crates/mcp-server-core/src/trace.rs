//! The spans of requests, by the OpenTelemetry conventions for MCP, and their links to the traces of clients.
//!
//! A disabled span costs nothing: attributes are computed for enabled spans only.

pub mod access;
mod ending;

use std::{borrow::Cow, fmt, sync::Arc};

use mcp_protocol::{
    ErrorCode, InputRequest, Meta, ProtocolVersion, RequestId, RequestMeta, TraceContext, jsonrpc::Request, method,
};
use serde_json::Value;
use tracing::{Span, field::Empty};

pub(crate) use self::{
    access::{AccessRecord, refused},
    ending::Ending,
};
use crate::{Session, error::InputError};

/// Links the spans of a server to the traces of its clients:
/// [`ServerBuilder::propagate`](crate::ServerBuilder::propagate).
///
/// A span of `tracing` cannot refer to a span of another process. A bridge to a system that can, such as OpenTelemetry,
/// reads and writes the three values of a [`TraceContext`]. Without a bridge, input requests still carry the client's
/// trace context, and [`Context::trace_context`](crate::Context::trace_context) returns it.
///
/// ```
/// use mcp_protocol::TraceContext;
/// use mcp_server_core::{Propagate, Server};
///
/// /// A bridge that logs instead of exporting.
/// struct Bridge;
///
/// impl Propagate for Bridge {
///     fn extract(&self, parent: &TraceContext, span: &tracing::Span) {
///         span.in_scope(|| tracing::debug!(parent = parent.traceparent(), "continues a trace"));
///     }
///
///     fn inject(&self, _span: &tracing::Span) -> Option<TraceContext> {
///         TraceContext::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
///     }
/// }
///
/// let server = Server::builder("traced", "1.0").propagate(Bridge).build();
/// # let _: Server = server;
/// ```
pub trait Propagate: Send + Sync + 'static {
    /// Called when a request of a client begins. The span is not entered yet; `parent` is the client's span.
    fn extract(&self, parent: &TraceContext, span: &Span);

    /// Called when the server sends an input request. Returns the trace context of the server's span. With `None`, the
    /// client's own trace context is used.
    fn inject(&self, span: &Span) -> Option<TraceContext>;
}

/// The bridge of a server.
#[derive(Clone)]
pub(crate) struct Bridge(pub(crate) Arc<dyn Propagate>);

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bridge")
    }
}

/// The target of all request spans.
pub(crate) const TARGET: &str = "mcp_server";
/// The name of all request spans. The attribute `otel.name` has the name of the operation.
pub(crate) const NAME: &str = "mcp.request";
/// The name of the spans of input requests.
const ASK: &str = "mcp.ask";

/// Returns the value of `network.transport`.
pub(crate) fn transport(is_local: bool) -> &'static str {
    if is_local { "pipe" } else { "tcp" }
}

/// Opens the span of a request. A call of the application itself has no transport.
pub(crate) fn open(request: &Request<'_>, transport: Option<&'static str>) -> Span {
    let span = tracing::info_span!(
        target: TARGET,
        NAME,
        otel.kind = "server",
        otel.name = Empty,
        otel.status_code = Empty,
        mcp.method.name = known(&request.method),
        mcp.protocol.version = Empty,
        mcp.session.id = Empty,
        mcp.resource.uri = Empty,
        jsonrpc.request.id = Empty,
        gen_ai.operation.name = Empty,
        gen_ai.tool.name = Empty,
        gen_ai.prompt.name = Empty,
        network.transport = transport,
        network.protocol.name = Empty,
        rpc.response.status_code = Empty,
        error.type = Empty,
        traceparent = Empty,
    );
    if !span.is_disabled() {
        span.record("jsonrpc.request.id", excerpt(&text_of(&request.id)));
        if transport == Some("tcp") {
            span.record("network.protocol.name", "http");
        }
    }
    span
}

/// Records the revision and the session of a request.
pub(crate) fn belongs(span: &Span, version: ProtocolVersion, session: Option<&Session>) {
    if span.is_disabled() {
        return;
    }
    span.record("mcp.protocol.version", version.as_str());
    if let Some(fingerprint) = session.and_then(Session::fingerprint) {
        span.record("mcp.session.id", fingerprint);
    }
}

/// Reads the metadata of a request.
pub(crate) fn meta_of(request: &Request<'_>) -> Option<Meta> {
    RequestMeta::from_params(request.params).ok().flatten().map(|meta| meta.to_meta())
}

/// Records the trace context of the client, and links the span to it.
pub(crate) fn follow(span: &Span, meta: impl FnOnce() -> Option<Meta>, bridge: Option<&Bridge>) {
    if span.is_disabled() {
        return;
    }
    let Some(parent) = meta().and_then(|meta| meta.trace_context()) else { return };
    if let Some(text) = parent.traceparent() {
        span.record("traceparent", text);
    }
    if let Some(Bridge(bridge)) = bridge {
        bridge.extract(&parent, span);
    }
}

/// The subject of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'a> {
    Tool(&'a str),
    Prompt(&'a str),
    Resource(&'a str),
    /// The request has no named subject.
    None,
}

/// Names the span after its subject. The subject is known to exist.
pub(crate) fn name(span: &Span, method: &str, target: Target<'_>) {
    if span.is_disabled() {
        return;
    }
    let method = known(method);
    match target {
        Target::Tool(name) => {
            span.record("gen_ai.operation.name", "execute_tool");
            span.record("gen_ai.tool.name", name);
            span.record("otel.name", &*format!("{method} {name}"));
        }
        Target::Prompt(name) => {
            span.record("gen_ai.prompt.name", name);
            span.record("otel.name", &*format!("{method} {name}"));
        }
        Target::Resource(uri) => {
            span.record("mcp.resource.uri", &*public_uri(uri));
            span.record("otel.name", method);
        }
        Target::None => {
            span.record("otel.name", method);
        }
    }
}

/// Records the end of a request.
pub(crate) fn ended(span: &Span, ending: Ending) {
    if span.is_disabled() {
        return;
    }
    if let Some(kind) = ending.error_type() {
        fail(span, &kind, ending.code());
    }
}

fn fail(span: &Span, kind: &str, code: Option<ErrorCode>) {
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
    if let Some(code) = code {
        span.record("rpc.response.status_code", &*code.to_string());
    }
}

/// Opens the span of an input request, as a child of the call.
pub(crate) fn ask(method: &str, call: &Span) -> Span {
    let span = if Span::current().is_disabled() { call.clone() } else { Span::current() };
    tracing::info_span!(
        target: TARGET,
        parent: &span,
        ASK,
        otel.kind = "client",
        otel.name = method,
        otel.status_code = Empty,
        mcp.method.name = method,
        rpc.response.status_code = Empty,
        error.type = Empty,
    )
}

/// Records the end of an input request.
pub(crate) fn answered<T>(span: &Span, outcome: &Result<T, InputError>) {
    let Err(error) = outcome else { return };
    match error.rpc() {
        Some(error) => ended(span, Ending::Error(error.code)),
        None if error.is_timeout() => fail(span, "timeout", None),
        // A user who declines has answered.
        None if error.is_declined() || error.is_cancelled() => {}
        None => fail(span, "_OTHER", None),
    }
}

/// Returns the same input request with the trace context of the server.
pub(crate) fn traced(mut request: InputRequest, context: &TraceContext) -> InputRequest {
    let params = request.params.get_or_insert_with(|| Value::Object(serde_json::Map::new()));
    let mut meta: Meta =
        params.get("_meta").and_then(|meta| serde_json::from_value(meta.clone()).ok()).unwrap_or_default();
    context.write_to(&mut meta);
    params["_meta"] = meta.into();
    request
}

/// Returns a known method name. Unknown names would create unbounded metric labels.
fn known(method: &str) -> &str {
    if method::is_known(method) { method } else { "_OTHER" }
}

fn text_of(id: &RequestId) -> Cow<'_, str> {
    match id {
        RequestId::String(text) => Cow::Borrowed(text),
        RequestId::Integer(number) => Cow::Owned(number.to_string()),
    }
}

/// The most characters of a text of a peer in a span or an event.
const SHOWN: usize = 256;

/// Returns the start of a text of a peer.
fn excerpt(text: &str) -> &str {
    text.char_indices().nth(SHOWN).map_or(text, |(end, _)| &text[..end])
}

/// Returns a URI without the parts that may contain secrets: its user information, its query and its fragment.
fn public_uri(uri: &str) -> Cow<'_, str> {
    let uri = uri.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = uri.split_once("://") else { return excerpt(uri).into() };
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.rfind('@') {
        Some(at) => excerpt(&format!("{scheme}://{}", &rest[at + 1..])).to_owned().into(),
        None => excerpt(uri).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_uri_has_no_user_information_no_query_and_a_bounded_length() {
        for (uri, expected) in [
            ("x:a", "x:a"),
            ("x:a?token=secret", "x:a"),
            ("file:///home/me@here/a#secret", "file:///home/me@here/a"),
            ("db://user:secret@host/table?key=secret", "db://host/table"),
            ("db://user:secret", "db://user:secret"),
            ("", ""),
        ] {
            assert_eq!(public_uri(uri), expected, "{uri}");
        }
        let long = format!("x://u@{}", "é".repeat(2 * SHOWN));
        assert_eq!(public_uri(&long).chars().count(), SHOWN);
        assert_eq!(public_uri(&long[4..]).chars().count(), SHOWN);
    }
}
