//! The file of spans of `mcp gateway`: the spans of the client, of two gateways and of their requests are one trace.

use std::{fs, path::Path};

use mcp_client::{Client, protocol::Meta};
use serde_json::{Value, json};

use super::{
    configuration::Project,
    fixture,
    gateway::gateway,
    process::{TIMEOUT, ready},
    serve::Serving,
};

/// Returns the span of a kind and a name in a file, when it has ended.
fn span(file: &Path, kind: u8, name: &str) -> Value {
    let find = || {
        let text = fs::read_to_string(file).ok()?;
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let mut spans = lines.map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let service = &line["resourceSpans"][0]["resource"]["attributes"][0]["value"]["stringValue"];
            assert_eq!(service, "mcp-gateway");
            line["resourceSpans"][0]["scopeSpans"][0]["spans"][0].clone()
        });
        spans.find(|span| span["kind"] == kind && span["name"] == name)
    };
    ready(name, find)
}

/// Calls a tool in a trace, or outside of one.
fn call(url: &str, tool: &str, parent: Option<&str>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let called = async {
        let client = Client::builder("client", "1").connect(url).await.unwrap();
        let call = client.call_tool(tool, json!({ "a": 1, "b": 2 }));
        let meta = parent.map(|parent| Meta::new().with("traceparent", parent)).unwrap_or_default();
        assert_eq!(call.meta(meta).await.unwrap().text(), "{\"sum\":3}");
    };
    runtime.block_on(async { tokio::time::timeout(TIMEOUT, called).await }).unwrap();
}

#[test]
fn the_spans_of_two_gateways_belong_to_the_trace_of_the_client() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    let project = Project::new("gateway-spans");
    let files = ["inner", "outer"].map(|name| project.root.join(name));
    let start = |servers: Value, file: &Path| {
        let file = file.display().to_string();
        Serving::start(gateway(&project, &servers, &["--port", "0", "--names", "raw", "--spans", &file]))
    };
    let inner = start(json!({ "one": { "command": fixture() } }), &files[0]);
    let outer = start(json!({ "two": { "url": inner.url } }), &files[1]);
    // A client that does not record its trace.
    call(&outer.url, "add", Some(&format!("00-{TRACE}-00f067aa0ba902b7-00")));
    call(&outer.url, "add", Some(&format!("00-{TRACE}-b7ad6b7169203331-01")));
    let mut parent = json!("b7ad6b7169203331");
    for (file, server) in files.iter().zip(["one", "two"]).rev() {
        for kind in [2, 3] {
            let span = span(file, kind, "tools/call add");
            assert_eq!((&span["traceId"], &span["parentSpanId"]), (&json!(TRACE), &parent), "{span}");
            let method = json!({ "key": "mcp.method.name", "value": { "stringValue": "tools/call" } });
            let peer = json!({ "key": "peer.service", "value": { "stringValue": server } });
            let attributes = span["attributes"].as_array().unwrap();
            assert!(attributes.contains(&method) && attributes.contains(&peer) == (kind == 3), "{span}");
            let [began, ended] = ["startTimeUnixNano", "endTimeUnixNano"]
                .map(|name| span[name].as_str().unwrap().parse::<u128>().unwrap());
            assert!(0 < began && began <= ended, "{span}");
            parent = span["spanId"].clone();
        }
    }
    // Another trace has an id of its own, and no parent.
    call(&outer.url, "add", None);
    let is_first = || {
        let text = fs::read_to_string(&files[1]).unwrap();
        let server = "\"name\":\"tools/call add\"";
        let mut lines = text.lines().filter(|line| line.contains(server) && !line.contains(TRACE));
        lines.find(|line| line.contains("\"kind\":2")).map(ToOwned::to_owned)
    };
    let line = ready("another trace", is_first);
    assert!(!line.contains("parentSpanId"), "{line}");
    assert!(
        !fs::read_to_string(&files[1]).unwrap().contains("00f067aa0ba902b7"),
        "no span of a trace without a record"
    );
}
