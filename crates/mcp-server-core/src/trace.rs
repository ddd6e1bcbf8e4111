//! The spans of requests, by the OpenTelemetry conventions for MCP, and their links to the traces of clients.
//!
//! A disabled span costs nothing: attributes are computed for enabled spans only.

use std::{
    borrow::Cow,
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use mcp_protocol::{
    ErrorCode, InputRequest, Meta, ProtocolVersion, RequestId, RequestMeta, RpcError, TraceContext, jsonrpc::Request,
    method,
};
use serde_json::Value;
use tracing::{Span, field::Empty};

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

/// Opens the span of a client's request.
pub(crate) fn open(request: &Request<'_>, is_local: bool) -> Span {
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
        network.transport = if is_local { "pipe" } else { "tcp" },
        network.protocol.name = Empty,
        rpc.response.status_code = Empty,
        error.type = Empty,
        traceparent = Empty,
    );
    if !span.is_disabled() {
        span.record("jsonrpc.request.id", &*text_of(&request.id));
        if !is_local {
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
    if let Some(id) = session.and_then(Session::id) {
        span.record("mcp.session.id", &*fingerprint(id));
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
            span.record("mcp.resource.uri", uri);
            span.record("otel.name", method);
        }
        Target::None => {
            span.record("otel.name", method);
        }
    }
}

/// Records that the caller of a request lacks scopes.
pub(crate) fn insufficient_scope(span: &Span, method: &str) {
    name(span, method, Target::None);
    fail(span, "insufficient_scope", None);
}

/// Records an error of a request whose subject is unknown.
pub(crate) fn failed_at(span: &Span, method: &str, error: &RpcError) {
    name(span, method, Target::None);
    failed(span, error);
}

/// The end of a handler, as far as its span records it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending<'a> {
    Done,
    /// A tool result with `isError`.
    ToolError,
    Cancelled,
    Error(&'a RpcError),
}

/// Records the end of a handler.
pub(crate) fn ended(span: &Span, ending: Ending<'_>) {
    match ending {
        Ending::Done => {}
        Ending::ToolError => fail(span, "tool_error", None),
        Ending::Cancelled => fail(span, "cancelled", None),
        Ending::Error(error) => failed(span, error),
    }
}

/// Records an error of a request.
pub(crate) fn failed(span: &Span, error: &RpcError) {
    if span.is_disabled() {
        return;
    }
    fail(span, &error.code.to_string(), Some(error.code));
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
        Some(error) => failed(span, error),
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

/// Returns a hash of a session id. The id itself is a secret of the session.
fn fingerprint(session_id: &str) -> String {
    let mut hasher = DefaultHasher::new();
    session_id.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
