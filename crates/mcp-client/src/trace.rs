//! The spans of requests, by the OpenTelemetry conventions for MCP, and the trace contexts that servers receive.

use std::{fmt, sync::Arc};

use mcp_protocol::{CallToolResult, Excerpt, Meta, Method as _, ProtocolVersion, TraceContext, method};
use tracing::{Span, field::Empty};

use crate::Error;

/// Writes the spans of a client into its requests, so that servers continue the trace:
/// [`ClientBuilder::propagate`](crate::ClientBuilder::propagate).
///
/// A span of `tracing` has no id that another process can refer to. A bridge to a system with such ids, such as OpenTelemetry,
/// returns the trace context of a span. Without a bridge, a request has the trace context of its metadata
/// ([`Call::meta`](crate::Call::meta)).
///
/// ```
/// use mcp_client::{Client, ClientBuilder, Propagate, protocol::TraceContext};
///
/// /// A bridge with one span.
/// struct Bridge;
///
/// impl Propagate for Bridge {
///     fn inject(&self, _span: &tracing::Span) -> Option<TraceContext> {
///         TraceContext::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
///     }
/// }
///
/// let builder = Client::builder("my-app", "1.0").propagate(Bridge);
/// # let _: ClientBuilder = builder;
/// ```
pub trait Propagate: Send + Sync + 'static {
    /// Returns the trace context of the span of a request. The server receives it in place of the trace context of the metadata.
    ///
    /// If the subscriber does not record the span of the request, `span` is the span around the call.
    fn inject(&self, span: &Span) -> Option<TraceContext>;
}

impl<P: Propagate + ?Sized> Propagate for Arc<P> {
    fn inject(&self, span: &Span) -> Option<TraceContext> {
        (**self).inject(span)
    }
}

/// The bridge of a client.
#[derive(Clone)]
pub(crate) struct Bridge(pub(crate) Arc<dyn Propagate>);

impl Bridge {
    /// Returns the metadata of a request with the trace context of the current span. `None` if the span has no trace context.
    pub(crate) fn meta(&self, given: Option<&Meta>) -> Option<Meta> {
        let context = self.0.inject(&Span::current())?;
        let mut meta = given.cloned().unwrap_or_default();
        context.write_to(&mut meta);
        Some(meta)
    }
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bridge")
    }
}

/// The most characters of a name in a span.
const SHOWN: usize = 256;

/// The span of a request. A request without an end before the drop of this value is cancelled.
pub(crate) struct RequestSpan {
    span: Span,
    has_ended: bool,
}

impl RequestSpan {
    /// Opens the span of a request, as a child of the current span. `name` is that of the tool or the prompt, and `peer` that of the
    /// server.
    pub(crate) fn open(method: &str, name: Option<&str>, peer: Option<&str>) -> Self {
        // Unknown names of methods would create unbounded metric labels.
        let known = if method::is_known(method) { method } else { "_OTHER" };
        let span = tracing::info_span!(
            target: "mcp_client",
            "mcp.request",
            otel.kind = "client",
            otel.name = Empty,
            otel.status_code = Empty,
            mcp.method.name = known,
            mcp.protocol.version = Empty,
            gen_ai.operation.name = Empty,
            gen_ai.tool.name = Empty,
            gen_ai.prompt.name = Empty,
            peer.service = peer,
            rpc.response.status_code = Empty,
            error.type = Empty,
        );
        if !span.is_disabled() {
            let name = name.map(|name| Excerpt::new(name).with_limit(SHOWN).as_str());
            match (method, name) {
                (method::CallTool::NAME, Some(name)) => {
                    span.record("gen_ai.operation.name", "execute_tool");
                    span.record("gen_ai.tool.name", name);
                    span.record("otel.name", &*format!("{known} {name}"));
                }
                (method::GetPrompt::NAME, Some(name)) => {
                    span.record("gen_ai.prompt.name", name);
                    span.record("otel.name", &*format!("{known} {name}"));
                }
                // A URI can contain secrets.
                _ => {
                    span.record("otel.name", known);
                }
            }
        }
        Self { span, has_ended: false }
    }

    /// Returns the span, for the work of the request.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Records the end of the request: the bytes of the result and their revision, or the error.
    pub(crate) fn end(mut self, outcome: Result<(&[u8], ProtocolVersion), &Error>) {
        self.has_ended = true;
        if self.span.is_disabled() {
            return;
        }
        match outcome {
            Ok((result, version)) => {
                self.span.record("mcp.protocol.version", version.as_str());
                if CallToolResult::is_failed(result) {
                    self.fail("tool_error");
                }
            }
            Err(error) => match error.rpc() {
                Some(error) => {
                    let code = error.code.to_string();
                    self.span.record("rpc.response.status_code", &*code);
                    self.fail(&code);
                }
                None if error.is_timeout() => self.fail("timeout"),
                None if error.is_cancelled() => self.fail("cancelled"),
                None => match error.http_status() {
                    Some(status) => self.fail(&status.to_string()),
                    None => self.fail("_OTHER"),
                },
            },
        }
    }

    fn fail(&self, kind: &str) {
        self.span.record("error.type", kind);
        self.span.record("otel.status_code", "ERROR");
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        if !self.has_ended && !self.span.is_disabled() {
            self.fail("cancelled");
        }
    }
}
