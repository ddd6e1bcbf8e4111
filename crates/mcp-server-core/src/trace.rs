//! The spans of requests, by the OpenTelemetry conventions for MCP, and the way between them and the traces of others.
//!
//! A span costs nothing where no subscriber wants it: what it is filled with is put together for those who listen only.

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

/// Ties the spans of a server to the traces of its clients: [`ServerBuilder::propagate`](crate::ServerBuilder::propagate).
///
/// `tracing` has no word for a span of another process. A bridge to a system that has, such as OpenTelemetry, reads and
/// writes the three texts of a [`TraceContext`]. Without a bridge nothing is lost: the context of a call goes on with the
/// questions that its handler asks, and [`Context::trace_context`](crate::Context::trace_context) has it for everything else.
///
/// ```
/// use mcp_protocol::TraceContext;
/// use mcp_server_core::{Propagate, Server};
///
/// /// Stands for a bridge, which would look into the span.
/// struct Bridge;
///
/// impl Propagate for Bridge {
///     fn extract(&self, parent: &TraceContext, span: &tracing::Span) {
///         span.in_scope(|| tracing::debug!(parent = parent.traceparent(), "goes on"));
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
    /// A request of a client begins, in a span that nobody has entered yet; `parent` is where the client stands.
    fn extract(&self, parent: &TraceContext, span: &Span);

    /// The server asks the client something: where it stands. `None` hands on what the client sent.
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

/// What all spans of requests have as their target.
pub(crate) const TARGET: &str = "mcp_server";
/// What all spans of requests are called; by what they are about they are called in `otel.name`.
pub(crate) const NAME: &str = "mcp.request";
/// What all spans of the server's own requests are called.
const ASK: &str = "mcp.ask";

/// The span of a request from a client.
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

/// Says what the request belongs to.
pub(crate) fn belongs(span: &Span, version: ProtocolVersion, session: Option<&Session>) {
    if span.is_disabled() {
        return;
    }
    span.record("mcp.protocol.version", version.as_str());
    if let Some(id) = session.and_then(Session::id) {
        span.record("mcp.session.id", &*fingerprint(id));
    }
}

/// The metadata of a request that nobody has read.
pub(crate) fn meta_of(request: &Request<'_>) -> Option<Meta> {
    RequestMeta::from_params(request.params).ok().flatten().map(|meta| meta.to_meta())
}

/// Says where the client stands, and ties the span to it.
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

/// What a request is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'a> {
    Tool(&'a str),
    Prompt(&'a str),
    Resource(&'a str),
    /// Nothing that has a name.
    None,
}

/// Names the span after what it is about, now that this is known to exist.
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

/// Says that a request ended in an error before it was known what it is about.
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

/// Says that a request ended in an error.
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

/// The span of a request of the server's own, inside of the call that it is about.
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

/// Says how a request of the server's own ended.
pub(crate) fn answered<T>(span: &Span, outcome: &Result<T, InputError>) {
    let Err(error) = outcome else { return };
    match error.rpc() {
        Some(error) => failed(span, error),
        None if error.is_timeout() => fail(span, "timeout", None),
        // That the user said no is an answer.
        None if error.is_declined() || error.is_cancelled() => {}
        None => fail(span, "_OTHER", None),
    }
}

/// The same request, which says where the server stands.
pub(crate) fn traced(mut request: InputRequest, context: &TraceContext) -> InputRequest {
    let params = request.params.get_or_insert_with(|| Value::Object(serde_json::Map::new()));
    let mut meta: Meta =
        params.get("_meta").and_then(|meta| serde_json::from_value(meta.clone()).ok()).unwrap_or_default();
    context.write_to(&mut meta);
    params["_meta"] = meta.into();
    request
}

/// A name that clients cannot make up: they would fill whatever counts by it.
fn known(method: &str) -> &str {
    if method::is_known(method) { method } else { "_OTHER" }
}

fn text_of(id: &RequestId) -> Cow<'_, str> {
    match id {
        RequestId::String(text) => Cow::Borrowed(text),
        RequestId::Integer(number) => Cow::Owned(number.to_string()),
    }
}

/// Tells sessions apart and does not tell the id, which lets its holder speak for the session.
fn fingerprint(session_id: &str) -> String {
    let mut hasher = DefaultHasher::new();
    session_id.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
