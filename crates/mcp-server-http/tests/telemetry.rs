//! The spans and the access log of requests over HTTP, also of requests whose client disconnects.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::{Method, StatusCode};
use mcp_auth::ApiKeys;
use mcp_protocol::Principal;
use mcp_server_core::{Server, ToolRoute, resource, tool};
use mcp_server_http::{HttpConfig, HttpServer as _};
use serde_json::json;
use tokio::sync::{
    Notify,
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};
use tracing::{
    Dispatch, Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::{DefaultGuard, NoSubscriber},
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt as _},
    registry::LookupSpan,
};

use crate::common::{
    http2::Http2,
    legacy, legacy_as, notification,
    observed_server::{self, ObservedServer},
    request,
    socket::serve,
    sse::Client,
    stateless, within,
};

#[derive(Default)]
struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl Fields {
    fn text(&self, names: &[&str]) -> String {
        names.iter().filter_map(|name| self.0.get(*name)).cloned().collect::<Vec<_>>().join(" ")
    }
}

/// Sends closed spans and events of the access log to a test.
struct Recorder {
    spans: UnboundedSender<String>,
    events: UnboundedSender<String>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().target() == "mcp_server" {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            context.span(id).unwrap().extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(fields) = context.span(id).unwrap().extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(fields) = context.span(&id).unwrap().extensions_mut().remove::<Fields>() {
            let names = ["otel.name", "otel.status_code", "error.type", "rpc.response.status_code"];
            let _ = self.spans.send(fields.text(&names));
        }
    }

    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        if event.metadata().target() == "mcp_server::access" {
            let mut fields = Fields::default();
            event.record(&mut fields);
            let _ = self.events.send(fields.text(&[
                "http.request.method",
                "mcp.method.name",
                "gen_ai.tool.name",
                "outcome",
                "error.type",
                "enduser.id",
            ]));
        }
    }
}

/// The records of this thread, on which the server of the test runs.
struct Records {
    spans: UnboundedReceiver<String>,
    events: UnboundedReceiver<String>,
    _guard: DefaultGuard,
}

impl Records {
    fn listen() -> Self {
        // A second subscriber, so that `tracing` does not cache the interest of a callsite for all threads.
        static OTHER: OnceLock<Dispatch> = OnceLock::new();
        OTHER.get_or_init(|| Dispatch::new(NoSubscriber::new()));
        let ((span_sender, spans), (event_sender, events)) = (unbounded_channel(), unbounded_channel());
        let recorder = Recorder { spans: span_sender, events: event_sender };
        let dispatch = Dispatch::new(tracing_subscriber::registry().with(recorder));
        Self { spans, events, _guard: tracing::dispatcher::set_default(&dispatch) }
    }

    /// Expects one event and one span, and no other.
    async fn expect(&mut self, event: &str, span: &str) {
        self.expect_event(event).await;
        assert_eq!(within("a closed span", self.spans.recv()).await.unwrap(), span);
        assert!(self.spans.is_empty());
    }

    async fn expect_event(&mut self, event: &str) {
        assert_eq!(within("an event", self.events.recv()).await.unwrap(), event);
        assert!(self.events.is_empty());
    }
}

#[tokio::test]
async fn a_lost_connection_ends_the_span_of_a_stateless_call_as_cancelled() {
    let mut records = Records::listen();
    let mut observed = ObservedServer::new();
    let endpoint = serve(&observed.server, HttpConfig::new()).await;
    for is_streaming in [false, true] {
        let mut connection = endpoint.connect().await;
        let tool = if is_streaming { "hold" } else { "mute" };
        let params = json!({ "name": tool, "_meta": { "progressToken": "t" } });
        connection.send(stateless("tools/call", params, &[])).await;
        observed.expect(observed_server::Event::Started).await;
        if is_streaming {
            assert_eq!(connection.head().await.unwrap().0, StatusCode::OK);
            connection.chunk().await.unwrap();
        }
        assert!(records.events.is_empty() && records.spans.is_empty());
        drop(connection);
        observed.expect(observed_server::Event::Dropped).await;
        let event = format!("tools/call {tool} cancelled cancelled");
        records.expect(&event, &format!("tools/call {tool} ERROR cancelled")).await;
    }
}

#[tokio::test]
async fn a_cancellation_ends_the_span_of_a_call_in_a_session_as_cancelled() {
    let mut records = Records::listen();
    let mut observed = ObservedServer::new();
    let endpoint = serve(&observed.server, HttpConfig::new()).await;
    let session = endpoint.open().await;
    records.expect("initialize ok", "initialize").await;
    endpoint.exchange(notification(&session, "notifications/initialized", json!({}))).await;
    let mut connection = endpoint.connect().await;
    connection.send(legacy_as(7, Some(&session), "tools/call", json!({ "name": "mute" }))).await;
    observed.expect(observed_server::Event::Started).await;
    endpoint.exchange(notification(&session, "notifications/cancelled", json!({ "requestId": 7 }))).await;
    records.expect("tools/call mute cancelled cancelled", "tools/call mute ERROR cancelled").await;
}

#[tokio::test]
async fn a_closed_subscription_ends_its_span_as_cancelled() {
    let mut records = Records::listen();
    let endpoint = serve(&crate::common::server(), HttpConfig::new()).await;
    let mut connection = endpoint.connect().await;
    let params = json!({ "notifications": { "toolsListChanged": true } });
    connection.send(stateless("subscriptions/listen", params, &[])).await;
    assert_eq!(connection.head().await.unwrap().0, StatusCode::OK);
    connection.chunk().await.unwrap();
    assert!(records.events.is_empty() && records.spans.is_empty());
    drop(connection);
    let [event, span] = ["cancelled cancelled", "ERROR cancelled"].map(|end| format!("subscriptions/listen {end}"));
    records.expect(&event, &span).await;
}

#[tokio::test]
async fn a_time_limit_ends_the_span_of_a_call_as_timeout_in_both_eras() {
    let mut records = Records::listen();
    let pending = || std::future::pending::<&'static str>();
    let limit = Duration::from_millis(20);
    let server = Server::builder("test", "1")
        .tool(tool("slow", pending).timeout(limit))
        .resource(resource("x:slow", pending))
        .limits(|limits| limits.read_timeout = limit)
        .build();
    let endpoint = serve(&server, HttpConfig::new()).await;
    let sessionless = serve(&server, HttpConfig::new().sessionless()).await;
    let session = endpoint.open().await;
    records.expect("initialize ok", "initialize").await;
    let (call, read) = (json!({ "name": "slow" }), json!({ "uri": "x:slow" }));
    for (endpoint, call, read) in [
        (&endpoint, stateless("tools/call", call.clone(), &[]), stateless("resources/read", read.clone(), &[])),
        (
            &endpoint,
            legacy(Some(&session), "tools/call", call.clone()),
            legacy(Some(&session), "resources/read", read.clone()),
        ),
        (&sessionless, legacy(None, "tools/call", call.clone()), legacy(None, "resources/read", read.clone())),
    ] {
        endpoint.exchange(call).await;
        records.expect("tools/call slow timeout timeout", "tools/call slow ERROR timeout").await;
        endpoint.exchange(read).await;
        records.expect("resources/read timeout timeout", "resources/read ERROR timeout -32603").await;
    }
}

#[tokio::test]
async fn an_http_request_that_is_rejected_without_a_json_rpc_request_has_one_access_event() {
    let mut records = Records::listen();
    let server = crate::common::server();
    let endpoint = serve(&server, HttpConfig::new()).await;
    let session = endpoint.open().await;
    records.expect_event("initialize ok").await;
    let post = |headers: &[(&str, &str)], body: &'static str| {
        let mut all: Vec<_> = crate::common::BASE.to_vec();
        all.retain(|(name, _)| headers.iter().all(|(other, _)| other != name));
        all.extend_from_slice(headers);
        request(Method::POST, &all, body)
    };
    let unknown = [("mcp-session-id", "unknown"), ("accept", "text/event-stream")];
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for (request, status, expected) in [
        (post(&[("host", "evil.example")], ping), 403, "POST refused 403"),
        (post(&[("origin", "http://evil.example")], ping), 403, "POST refused 403"),
        (post(&[("content-type", "text/plain")], ping), 415, "POST refused 415"),
        (post(&[("accept", "text/html")], ping), 406, "POST refused 406"),
        (post(&[("x-long", &"x".repeat(9 << 10))], ping), 431, "POST refused 431"),
        (request(Method::PUT, &[], ""), 405, "PUT refused 405"),
        (request(Method::GET, &unknown, ""), 404, "GET refused 404"),
        (request(Method::DELETE, &unknown, ""), 404, "DELETE refused 404"),
        (post(&unknown[..1], notice), 404, "POST refused 404"),
        (
            post(&[("mcp-session-id", &session), ("mcp-protocol-version", "1999-01-01")], notice),
            400,
            "POST refused 400",
        ),
        (post(&[], batch), 400, "POST refused 400"),
        (post(&[], "[]"), 400, "POST refused 400"),
        (post(&[("mcp-session-id", &session)], batch), 400, "POST refused 400"),
        // The core logs a message that is not JSON-RPC.
        (post(&[], "{"), 400, "_OTHER refused -32700"),
        (post(&[], r#"{"id":1}"#), 400, "_OTHER refused -32600"),
    ] {
        assert_eq!(endpoint.exchange(request).await.status.as_u16(), status, "{expected}");
        records.expect_event(expected).await;
    }
    let mut elsewhere = request(Method::GET, &[], "");
    *elsewhere.uri_mut() = "/elsewhere".parse().unwrap();
    assert_eq!(endpoint.exchange(elsewhere).await.status, StatusCode::NOT_FOUND);
    records.expect_event("GET refused 404").await;
    // An accepted notification has no event.
    endpoint.exchange(notification(&session, "notifications/initialized", json!({}))).await;
    endpoint.exchange(legacy(Some(&session), "ping", json!({}))).await;
    records.expect_event("ping ok").await;
}

#[tokio::test]
async fn the_event_of_a_rejected_http_request_names_its_caller() {
    let mut records = Records::listen();
    let service = |config: HttpConfig| crate::common::server().into_service(config.body_limit(64));
    let keys = ApiKeys::new().key("k", Principal::new("ada"));
    let endpoint = HttpConfig::new().public_url("https://mcp.example.com/mcp").authenticate(keys);
    let large = || request(Method::POST, &crate::common::BASE, "x".repeat(65));
    let mut by_endpoint = large();
    by_endpoint.headers_mut().insert("x-api-key", "k".parse().unwrap());
    let mut by_layer = large();
    by_layer.extensions_mut().insert(Principal::new("bob"));
    let (checked, unchecked) = (service(endpoint), service(HttpConfig::new()));
    for (service, request, status, expected) in [
        (&checked, by_endpoint, 413, "POST refused 413 ada"),
        (&checked, large(), 401, "POST refused 401"),
        (&unchecked, by_layer, 413, "POST refused 413 bob"),
        (&unchecked, large(), 413, "POST refused 413"),
    ] {
        assert_eq!(crate::common::send(service, request).await.status.as_u16(), status, "{expected}");
        records.expect_event(expected).await;
    }
}

#[tokio::test]
async fn a_request_that_the_transport_rejects_has_one_access_event() {
    let mut records = Records::listen();
    let mut observed = ObservedServer::new();
    let endpoint = serve(&observed.server, HttpConfig::new()).await;
    let session = endpoint.open().await;
    records.expect_event("initialize ok").await;
    let answer = endpoint.exchange(legacy(Some("unknown"), "tools/list", json!({}))).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    records.expect_event("tools/list refused -32600").await;
    let init =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let answer = endpoint.exchange(legacy(Some(&session), "initialize", init)).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    records.expect_event("initialize refused -32600").await;
    endpoint.exchange(legacy(Some(&session), "ping", json!({}))).await;
    records.expect_event("ping ok").await;
    // The end of the session cancels its calls.
    let mut connection = endpoint.connect().await;
    connection.send(legacy_as(7, Some(&session), "tools/call", json!({ "name": "mute" }))).await;
    observed.expect(observed_server::Event::Started).await;
    endpoint.exchange(request(Method::DELETE, &[("mcp-session-id", &session)], "")).await;
    records.expect_event("tools/call mute cancelled cancelled").await;
    let answer = endpoint.exchange(stateless("tools/list", json!({}), &[("mcp-method", "tools/call")])).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    records.expect_event("tools/list refused -32020").await;
    // The sessionless mode.
    let endpoint = serve(&observed.server, HttpConfig::new().sessionless()).await;
    endpoint.exchange(crate::common::initialize()).await;
    records.expect_event("initialize ok").await;
    let mut unsupported = legacy(None, "tools/list", json!({}));
    unsupported.headers_mut().insert("mcp-protocol-version", "1999-01-01".parse().unwrap());
    assert_eq!(endpoint.exchange(unsupported).await.status, StatusCode::BAD_REQUEST);
    records.expect_event("tools/list refused -32600").await;
}

#[tokio::test]
async fn a_denied_message_has_one_access_event() {
    let mut records = Records::listen();
    let server = Server::builder("test", "1").tool(tool("ok", async || "ok")).requires_scopes(["admin"]).build();
    let service = server.into_service(HttpConfig::new().max_sessions(1));
    let (admin, other) = (Principal::new("ada").with_scopes(["admin"]), Principal::new("ada"));
    let send = async |caller: &Principal, mut request: http::Request<_>| {
        request.extensions_mut().insert(caller.clone());
        crate::common::send(&service, request).await
    };
    let client = json!({ "name": "t", "version": "1" });
    let params = json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": client });
    let initialize = |session: Option<&str>| legacy(session, "initialize", params.clone());
    let opened = send(&admin, initialize(None)).await;
    let session = opened.header("mcp-session-id").unwrap();
    records.expect_event("initialize ok ada").await;
    let notice = json!({ "jsonrpc": "2.0", "method": "notifications/custom" });
    let unknown = json!({ "jsonrpc": "2.0", "id": 1, "method": "x" });
    let response = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    for batch in [json!([notice, notice]), json!([notice, unknown]), json!([response])] {
        let headers = [&crate::common::BASE[..], &[("mcp-session-id", session)]].concat();
        let refused = send(&other, request(Method::POST, &headers, batch.to_string())).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{batch}");
        records.expect_event("_OTHER refused insufficient_scope ada").await;
    }
    // The table of sessions is full, which a caller without access does not learn.
    for session in [None, Some(session), Some("unknown")] {
        assert_eq!(send(&other, initialize(session)).await.status, StatusCode::FORBIDDEN, "{session:?}");
        records.expect_event("initialize refused insufficient_scope ada").await;
    }
}

#[tokio::test]
async fn an_initialize_above_a_limit_of_sessions_is_refused() {
    let mut records = Records::listen();
    let server = crate::common::server();
    for config in [HttpConfig::new().max_sessions(1), HttpConfig::new().max_sessions_per_principal(1)] {
        let service = server.clone().into_service(config);
        for (status, expected) in
            [(StatusCode::OK, "initialize ok ada"), (StatusCode::SERVICE_UNAVAILABLE, "initialize refused -32603 ada")]
        {
            let mut initialize = crate::common::initialize();
            initialize.extensions_mut().insert(Principal::new("ada"));
            assert_eq!(crate::common::send(&service, initialize).await.status, status);
            records.expect_event(expected).await;
        }
    }
}

/// The tool `hold`, which never returns, and a notification for each start.
fn hold() -> (ToolRoute, Arc<Notify>) {
    let started = Arc::new(Notify::new());
    let notified = started.clone();
    let route = tool("hold", move || {
        notified.notify_one();
        std::future::pending::<&'static str>()
    });
    (route, started)
}

#[tokio::test]
async fn a_call_above_a_limit_is_busy_and_a_call_without_scopes_is_refused() {
    let mut records = Records::listen();
    let (hold, started) = hold();
    let server = Server::builder("test", "1")
        .tool(tool("scoped", async || "scoped").requires_scopes(["admin"]))
        .tool(hold)
        .limits(|limits| (limits.handlers, limits.handlers_per_session, limits.listen_streams) = (2, 1, 1))
        .build();
    let endpoint = serve(&server, HttpConfig::new()).await;
    let session = endpoint.open().await;
    records.expect("initialize ok", "initialize").await;
    let call = |name: &str| stateless("tools/call", json!({ "name": name }), &[]);
    assert_eq!(endpoint.exchange(call("scoped")).await.status, StatusCode::FORBIDDEN);
    let span = "tools/call ERROR insufficient_scope";
    records.expect("tools/call scoped refused insufficient_scope", span).await;
    // The limit of the session.
    let mut in_session = endpoint.connect().await;
    in_session.send(legacy_as(7, Some(&session), "tools/call", json!({ "name": "hold" }))).await;
    within("the call", started.notified()).await;
    // The list needs no permit.
    endpoint.exchange(legacy(Some(&session), "tools/list", json!({}))).await;
    records.expect("tools/list ok", "tools/list").await;
    let (event, span) = ("tools/call hold busy busy", "tools/call hold ERROR busy -32603");
    endpoint.exchange(legacy_as(8, Some(&session), "tools/call", json!({ "name": "hold" }))).await;
    records.expect(event, span).await;
    // The limit of the server.
    let mut connection = endpoint.connect().await;
    connection.send(call("hold")).await;
    within("the call", started.notified()).await;
    endpoint.exchange(stateless("tools/list", json!({}), &[])).await;
    records.expect("tools/list ok", "tools/list").await;
    assert_eq!(endpoint.exchange(call("hold")).await.status, StatusCode::SERVICE_UNAVAILABLE);
    records.expect(event, span).await;
    // The limit of subscriptions.
    let listen = || stateless("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }), &[]);
    let mut subscribed = endpoint.connect().await;
    subscribed.send(listen()).await;
    subscribed.head().await.unwrap();
    subscribed.chunk().await.unwrap();
    assert_eq!(endpoint.exchange(listen()).await.status, StatusCode::SERVICE_UNAVAILABLE);
    records.expect("subscriptions/listen busy busy", "subscriptions/listen ERROR busy -32603").await;
}

#[tokio::test]
async fn a_reset_http2_stream_ends_the_span_of_a_stateless_call_as_cancelled() {
    let mut records = Records::listen();
    let mut observed = ObservedServer::new();
    let endpoint = serve(&observed.server, HttpConfig::new()).await;
    let mut client = Http2::connect(endpoint.stream().await).await;
    let call = client.open(stateless("tools/call", json!({ "name": "mute" }), &[]));
    tokio::select! {
        biased;
        _ = call => panic!("the call ended"),
        () = observed.expect(observed_server::Event::Started) => {}
    }
    records.expect("tools/call mute cancelled cancelled", "tools/call mute ERROR cancelled").await;
    // The connection is open.
    client.exchange(stateless("tools/list", json!({}), &[])).await;
    records.expect("tools/list ok", "tools/list").await;
}

#[tokio::test]
async fn calls_over_http_sse_record_their_ends() {
    let mut records = Records::listen();
    let (hold, started) = hold();
    let server = Server::builder("test", "1")
        .tool(tool("slow", std::future::pending::<&'static str>).timeout(Duration::from_millis(20)))
        .tool(hold)
        .limits(|limits| limits.handlers_per_session = 1)
        .build();
    let endpoint = serve(&server, HttpConfig::new().sse("/sse", "/messages")).await;
    let mut client = Client::open(&endpoint).await;
    client.initialize("2024-11-05", json!({})).await;
    records.expect("initialize ok", "initialize").await;
    client.exchange(1, "tools/call", json!({ "name": "slow" })).await;
    records.expect("tools/call slow timeout timeout", "tools/call slow ERROR timeout").await;
    let call = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "hold" } });
    client.send(call(2)).await;
    within("the call", started.notified()).await;
    client.exchange(3, "tools/call", json!({ "name": "slow" })).await;
    records.expect("tools/call slow busy busy", "tools/call slow ERROR busy -32603").await;
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 } })).await;
    let (event, span) = ("tools/call hold cancelled cancelled", "tools/call hold ERROR cancelled");
    records.expect(event, span).await;
    client.send(call(4)).await;
    within("the call", started.notified()).await;
    assert!(records.events.is_empty() && records.spans.is_empty());
    drop(client);
    records.expect(event, span).await;
}
