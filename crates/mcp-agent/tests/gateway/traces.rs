//! Traces through a gateway: the spans of the client, the gateway and the server are one trace, over HTTP and over a pipe.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, OnceLock},
};

use mcp_agent::{Gateway, Host};
use mcp_client::transport::Connect;
use mcp_protocol::{ElicitResult, JsonObject, Meta, ProtocolVersion, TraceContext};
use mcp_server::{ServerBuilder, prelude::*, telemetry};
use tokio::time::timeout;
use tracing::{
    Dispatch, Span, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::{DefaultGuard, NoSubscriber},
};
use tracing_subscriber::{
    Layer,
    layer::{Context as LayerContext, SubscriberExt as _},
    registry::LookupSpan,
};

use crate::common::{Pipe, SOON, cells, client, over_http};

/// A span as a telemetry system stores it.
#[derive(Debug, Clone, Default)]
struct Stored {
    kind: String,
    name: String,
    trace: u128,
    id: u64,
    parent: Option<u64>,
}

impl Visit for Stored {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "otel.kind" => self.kind = format!("{value:?}"),
            "otel.name" => self.name = format!("{value:?}"),
            _ => {}
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

/// A telemetry system: it stores the spans of the process, and connects them with those of other processes.
#[derive(Clone, Default)]
struct Telemetry(Arc<Mutex<Spans>>);

#[derive(Default)]
struct Spans {
    stored: Vec<Stored>,
    /// The stored span of an id of `tracing`.
    of: HashMap<u64, usize>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Telemetry {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: LayerContext<'_, S>) {
        if !attributes.metadata().target().starts_with("mcp_") {
            return;
        }
        let mut spans = self.0.lock().unwrap();
        let parent = context.span(id).unwrap().parent().map(|parent| spans.of[&parent.id().into_u64()]);
        let number = u64::try_from(spans.stored.len()).unwrap() + 1;
        let mut stored = Stored { id: number, trace: u128::from(number), ..Stored::default() };
        if let Some(parent) = parent {
            (stored.trace, stored.parent) = (spans.stored[parent].trace, Some(spans.stored[parent].id));
        }
        attributes.record(&mut stored);
        let at = spans.stored.len();
        spans.stored.push(stored);
        spans.of.insert(id.into_u64(), at);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: LayerContext<'_, S>) {
        let mut spans = self.0.lock().unwrap();
        if let Some(at) = spans.of.get(&id.into_u64()).copied() {
            values.record(&mut spans.stored[at]);
        }
    }
}

impl Telemetry {
    fn inject(&self, span: &Span) -> Option<TraceContext> {
        let spans = self.0.lock().unwrap();
        let Stored { trace, id, .. } = spans.stored[*spans.of.get(&span.id()?.into_u64())?];
        TraceContext::new(&format!("00-{trace:032x}-{id:016x}-01"))
    }

    /// Returns the kinds and names of a span and its parents.
    fn line(&self, span: &Stored) -> Vec<String> {
        let spans = self.0.lock().unwrap();
        let mut line = vec![format!("{} {}", span.kind, span.name)];
        let mut next = span.parent;
        while let Some(id) = next {
            let parent = spans.stored.iter().find(|stored| stored.id == id).unwrap();
            assert_eq!(parent.trace, span.trace, "{parent:?} {span:?}");
            line.push(format!("{} {}", parent.kind, parent.name));
            next = parent.parent;
        }
        line
    }
}

impl telemetry::Propagate for Telemetry {
    fn extract(&self, parent: &TraceContext, span: &Span) {
        let mut spans = self.0.lock().unwrap();
        let at = spans.of[&span.id().unwrap().into_u64()];
        spans.stored[at].trace = u128::from_str_radix(parent.trace_id().unwrap(), 16).unwrap();
        spans.stored[at].parent = Some(u64::from_str_radix(parent.parent_id().unwrap(), 16).unwrap());
    }

    fn inject(&self, span: &Span) -> Option<TraceContext> {
        Self::inject(self, span)
    }
}

impl mcp_client::Propagate for Telemetry {
    fn inject(&self, span: &Span) -> Option<TraceContext> {
        Self::inject(self, span)
    }
}

/// Installs a subscriber on this thread. Another subscriber exists, so that the threads of other tests do not disable the spans.
fn subscribe(telemetry: &Telemetry) -> DefaultGuard {
    static OTHER: OnceLock<Dispatch> = OnceLock::new();
    OTHER.get_or_init(|| Dispatch::new(NoSubscriber::new()));
    tracing::dispatcher::set_default(&Dispatch::new(tracing_subscriber::registry().with(telemetry.clone())))
}

#[derive(Deserialize, JsonSchema)]
struct Answer {
    name: String,
}

fn server(version: ProtocolVersion) -> ServerBuilder<()> {
    Server::builder("s", "1")
        .versions([version])
        .tool(tool("where", async |context: Context| {
            let meta = context.meta();
            [meta.traceparent(), meta.tracestate(), meta.baggage()].map(|text| text.unwrap_or("none")).join(" ")
        }))
        .tool(tool("ask", async |inputs: Inputs| {
            let Answer { name } = inputs.elicit("name", "Your name?").await?;
            Ok::<_, ToolError>(name)
        }))
        .resource(resource("x:a", async || "a"))
        .prompt(prompt("intro", async || "hello"))
}

async fn connector(server: Server, is_http: bool) -> Arc<dyn Connect> {
    match is_http {
        true => Arc::new(mcp_client::http::Http::new(over_http(server).await).unwrap()),
        false => Arc::new(Pipe::new(server)),
    }
}

#[tokio::test]
async fn the_spans_of_client_gateway_and_server_are_one_trace() {
    for (down, up) in cells() {
        for is_http in [true, false] {
            let telemetry = Telemetry::default();
            let _guard = subscribe(&telemetry);
            let upstream = server(up).propagate(telemetry.clone()).build();
            let upstream = connector(upstream, is_http).await;
            let host = Host::builder("gateway", "1").propagate(telemetry.clone()).server("s", upstream);
            let gateway = Gateway::builder(host.start().await.unwrap()).build().unwrap();
            let gateway = gateway.versions([down]).propagate(telemetry.clone()).build();
            let builder = client()
                .propagate(telemetry.clone())
                .on_elicit(async |_| Ok(ElicitResult::accept(JsonObject::new().with("name", "ada"))));
            let user = builder.connect(connector(gateway, is_http).await).await.unwrap();
            let called = async {
                user.call_tool("s__where", ()).await.unwrap();
                assert_eq!(user.call_tool("s__ask", ()).await.unwrap().text(), "ada");
                user.get_prompt("s__intro", ()).await.unwrap();
                user.read_resource("mcp://s/x:a").await.unwrap();
            };
            timeout(SOON, called).await.unwrap();
            let spans = telemetry.0.lock().unwrap().stored.clone();
            for (at_gateway, at_server) in [
                ("tools/call s__where", "tools/call where"),
                ("tools/call s__ask", "tools/call ask"),
                ("prompts/get s__intro", "prompts/get intro"),
            ] {
                let of_server = spans.iter().filter(|span| span.kind == "server" && span.name == at_server);
                let lines: Vec<_> = of_server.map(|span| telemetry.line(span)).collect();
                // A server of the stateless revision receives the answer in a second request.
                let rounds = if at_server.ends_with("ask") && up.is_stateless() { 2 } else { 1 };
                assert_eq!(lines.len(), rounds, "{down} {up} {is_http} {at_server} {spans:?}");
                for line in lines {
                    let expected = ["server", "client"].map(|kind| format!("{kind} {at_server}"));
                    let expected =
                        expected.into_iter().chain(["server", "client"].map(|kind| format!("{kind} {at_gateway}")));
                    assert_eq!(line, expected.collect::<Vec<_>>(), "{down} {up} {is_http}");
                }
            }
            let reads = spans.iter().filter(|span| span.kind == "server" && span.name == "resources/read");
            let longest = reads.map(|span| telemetry.line(span)).max_by_key(Vec::len).unwrap();
            let expected = ["server", "client", "server", "client"].map(|kind| format!("{kind} resources/read"));
            assert_eq!(longest, expected, "{down} {up} {is_http}");
        }
    }
}

#[tokio::test]
async fn without_a_bridge_a_server_receives_the_trace_context_of_the_client() {
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (down, up) in cells() {
        for is_http in [true, false] {
            let upstream = connector(server(up).build(), is_http).await;
            let host = Host::builder("gateway", "1").server("s", upstream).start().await.unwrap();
            let gateway = Gateway::builder(host).build().unwrap().versions([down]).build();
            let user = client().connect(connector(gateway, is_http).await).await.unwrap();
            let meta = Meta::new().with("traceparent", PARENT).with("tracestate", "a=1").with("baggage", "b=2");
            let call = user.call_tool("s__where", ()).meta(meta);
            let received = timeout(SOON, call.into_future()).await.unwrap().unwrap().text();
            assert_eq!(received, format!("{PARENT} a=1 b=2"), "{down} {up} {is_http}");
        }
    }
}
