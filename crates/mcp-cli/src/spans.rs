//! The file of spans: one line of OTLP JSON for each span of a gateway, as the OpenTelemetry Collector reads it.

use std::{
    fmt,
    hash::{BuildHasher as _, RandomState},
    io,
    path::Path,
    sync::OnceLock,
    time::{SystemTime, UNIX_EPOCH},
};

use mcp_protocol::TraceContext;
use mcp_server::telemetry;
use serde_json::{Map, Value, json};
use tracing::{
    Span, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer, Registry,
    filter::{LevelFilter, filter_fn},
    layer::Context,
    registry::LookupSpan,
};

use crate::line_file::LineFile;

/// The file. Without a file, no span is recorded.
static FILE: OnceLock<LineFile> = OnceLock::new();

/// Opens the file of spans. It must be open before the first span.
///
/// # Errors
/// If the file cannot be opened. The error has the name of the file.
pub(crate) async fn open(path: &Path) -> io::Result<()> {
    let file = LineFile::open(path, "a span").await?;
    let _ = FILE.set(file);
    Ok(())
}

/// Waits until the spans are written, within a time limit.
pub(crate) async fn finish() {
    if let Some(file) = FILE.get() {
        file.finish().await;
    }
}

/// Returns the layer that records the spans.
pub(crate) fn layer<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    let is_enabled = |metadata: &tracing::Metadata<'_>| {
        metadata.is_span() && metadata.target().starts_with("mcp_") && FILE.get().is_some()
    };
    Recorder.with_filter(filter_fn(is_enabled).with_max_level_hint(LevelFilter::INFO))
}

/// Connects the recorded spans with the traces of clients and servers.
#[derive(Clone, Copy)]
pub(crate) struct Bridge;

/// A span that has not ended.
struct Open {
    trace: String,
    id: String,
    parent: Option<String>,
    is_sampled: bool,
    state: Option<String>,
    baggage: Option<String>,
    began: SystemTime,
    name: String,
    kind: u8,
    is_error: bool,
    attributes: Map<String, Value>,
}

impl Visit for Open {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.attributes.insert(field.name().to_owned(), json!({ "intValue": value.to_string() }));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "otel.name" => value.clone_into(&mut self.name),
            "otel.kind" => {
                self.kind = match value {
                    "server" => 2,
                    "client" => 3,
                    _ => 1,
                }
            }
            "otel.status_code" => self.is_error = value == "ERROR",
            "traceparent" => {}
            name => drop(self.attributes.insert(name.to_owned(), json!({ "stringValue": value }))),
        }
    }
}

/// Returns a random number that is not zero.
fn random() -> u64 {
    RandomState::new().hash_one(0_u8).max(1)
}

/// Returns the nanoseconds since 1970, as OTLP writes them.
fn nanoseconds(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

impl Open {
    fn line(self) -> String {
        let attributes: Vec<Value> =
            self.attributes.into_iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
        let mut span = json!({
            "traceId": self.trace, "spanId": self.id, "name": self.name, "kind": self.kind,
            "startTimeUnixNano": nanoseconds(self.began), "endTimeUnixNano": nanoseconds(SystemTime::now()),
            "attributes": attributes, "status": if self.is_error { json!({ "code": 2 }) } else { json!({}) },
        });
        if let Some(parent) = self.parent {
            span["parentSpanId"] = parent.into();
        }
        if let Some(state) = self.state {
            span["traceState"] = state.into();
        }
        let service = json!({ "key": "service.name", "value": { "stringValue": "mcp-gateway" } });
        let scope = json!({ "scope": { "name": "mcp", "version": env!("CARGO_PKG_VERSION") }, "spans": [span] });
        let resource = json!({ "resource": { "attributes": [service] }, "scopeSpans": [scope] });
        format!("{}\n", json!({ "resourceSpans": [resource] }))
    }
}

struct Recorder;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut open = Open {
            trace: format!("{:016x}{:016x}", random(), random()),
            id: format!("{:016x}", random()),
            parent: None,
            is_sampled: true,
            state: None,
            baggage: None,
            began: SystemTime::now(),
            name: attributes.metadata().name().to_owned(),
            kind: 1,
            is_error: false,
            attributes: Map::new(),
        };
        if let Some(parent) = span.parent()
            && let Some(parent) = parent.extensions().get::<Open>()
        {
            (open.trace, open.parent) = (parent.trace.clone(), Some(parent.id.clone()));
            (open.is_sampled, open.state) = (parent.is_sampled, parent.state.clone());
            open.baggage.clone_from(&parent.baggage);
        }
        attributes.record(&mut open);
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(open) = span.extensions_mut().get_mut::<Open>()
        {
            values.record(open);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let open = context.span(&id).and_then(|span| span.extensions_mut().remove::<Open>());
        if let (Some(open), Some(file)) = (open.filter(|open| open.is_sampled), FILE.get()) {
            file.append(open.line());
        }
    }
}

/// Runs a function with the record of a span.
fn with<T>(span: &Span, run: impl FnOnce(&mut Open) -> T) -> Option<T> {
    span.with_subscriber(|(id, dispatch)| {
        let span = dispatch.downcast_ref::<Registry>()?.span(id)?;
        let mut extensions = span.extensions_mut();
        extensions.get_mut::<Open>().map(run)
    })?
}

impl Bridge {
    fn inject(span: &Span) -> Option<TraceContext> {
        with(span, |open| {
            let flags = u8::from(open.is_sampled);
            let context = TraceContext::new(&format!("00-{}-{}-{flags:02x}", open.trace, open.id))?;
            let context = match &open.state {
                Some(state) => context.with_tracestate(state),
                None => context,
            };
            Some(match &open.baggage {
                Some(baggage) => context.with_baggage(baggage),
                None => context,
            })
        })?
    }
}

impl telemetry::Propagate for Bridge {
    fn extract(&self, parent: &TraceContext, span: &Span) {
        with(span, |open| {
            open.baggage = parent.baggage().map(ToOwned::to_owned);
            let (Some(trace), Some(id)) = (parent.trace_id(), parent.parent_id()) else { return };
            (open.trace, open.parent) = (trace.to_owned(), Some(id.to_owned()));
            (open.is_sampled, open.state) = (parent.is_sampled(), parent.tracestate().map(ToOwned::to_owned));
        });
    }

    fn inject(&self, span: &Span) -> Option<TraceContext> {
        Self::inject(span)
    }
}

impl mcp_client::Propagate for Bridge {
    fn inject(&self, span: &Span) -> Option<TraceContext> {
        Self::inject(span)
    }
}

#[cfg(test)]
mod tests {
    use telemetry::Propagate as _;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn a_request_at_a_server_has_the_trace_state_and_the_baggage_of_the_client() {
        const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let with_parent = TraceContext::new(PARENT).unwrap().with_tracestate("a=1").with_baggage("b=2");
        let alone = TraceContext::from_meta(&mcp_protocol::Meta::new().with("baggage", "b=2")).unwrap();
        tracing::subscriber::with_default(Registry::default().with(Recorder), || {
            for (context, state) in [(with_parent, Some("a=1")), (alone, None)] {
                let server = tracing::info_span!("server");
                Bridge.extract(&context, &server);
                let request = server.in_scope(|| tracing::info_span!("request"));
                let sent = mcp_client::Propagate::inject(&Bridge, &request).unwrap();
                assert_eq!((sent.tracestate(), sent.baggage()), (state, Some("b=2")));
                let trace = with(&server, |open| open.trace.clone());
                assert_eq!(sent.trace_id(), trace.as_deref());
            }
        });
    }
}
