//! Layers around handlers: their order, their changes, and the responses of calls.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_protocol::{CallToolResult, ClientCapabilities, ContentBlock, ProtocolVersion, RootsCapability, RpcError};
use mcp_server_core::{
    Args, Context, HandlerService, Inputs, Invocation, Outcome, RawArgs, Server, TaskSupport, ToolError, prompt,
    resource, template, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::{Layer, ServiceBuilder, ServiceExt, layer::layer_fn, limit::ConcurrencyLimitLayer, timeout::TimeoutLayer};

use crate::{
    common::{Connection, call, cancel, code, hold, legacy, modern, slow, text_of},
    json_client::Client,
};

type Log = Arc<Mutex<Vec<String>>>;

fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().unwrap())
}

/// Records each call and its outcome.
#[derive(Clone)]
struct Watch<S> {
    name: &'static str,
    log: Log,
    inner: S,
}

impl<S> tower::Service<Invocation> for Watch<S>
where
    S: tower::Service<Invocation, Response = Outcome, Future: Send + 'static>,
{
    type Response = Outcome;
    type Error = S::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Outcome, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Invocation) -> Self::Future {
        let (name, log) = (self.name, self.log.clone());
        log.lock().unwrap().push(format!("{name}: {} {}", call.method(), call.name()));
        let answering = self.inner.call(call);
        Box::pin(async move {
            let outcome = answering.await;
            let end = match &outcome {
                Ok(outcome) if outcome.is_input_required() => "asks",
                Ok(outcome) if outcome.is_error() => "error",
                Ok(_) => "done",
                Err(_) => "refused",
            };
            log.lock().unwrap().push(format!("{name}: {end}"));
            outcome
        })
    }
}

fn watch(name: &'static str, log: &Log) -> impl Layer<HandlerService, Service = Watch<HandlerService>> + use<> {
    let log = log.clone();
    layer_fn(move |inner| Watch { name, log: log.clone(), inner })
}

#[derive(Deserialize, JsonSchema)]
struct Number {
    n: u32,
}

#[tokio::test]
async fn runs_the_last_layer_first_and_layers_of_a_tool_after_those_of_the_server() {
    let log = Log::default();
    let server = Server::builder("test", "1")
        .layer(watch("inner", &log))
        .tool(tool("plain", async || "plain"))
        .tool(
            tool("own", async || Err::<(), _>(ToolError::new("no")))
                .layer(watch("late", &log))
                .layer(watch("soon", &log)),
        )
        .layer(watch("outer", &log))
        .resource(resource("test://r", async || "r"))
        .resource_template(template("test://t/{id}", async || "t"))
        .prompt(prompt("p", async || "p"))
        .build();
    let mut connection = Connection::connect(&server);
    connection.open("2025-11-25").await;
    let around = |what: &str, end: &str| {
        vec![format!("outer: {what}"), format!("inner: {what}"), format!("inner: {end}"), format!("outer: {end}")]
    };
    for (method, params, what) in [
        ("tools/call", call("plain"), "tools/call plain"),
        ("resources/read", json!({ "uri": "test://r" }), "resources/read test://r"),
        ("resources/read", json!({ "uri": "test://t/1" }), "resources/read test://t/1"),
        ("prompts/get", json!({ "name": "p" }), "prompts/get p"),
    ] {
        let answer = connection.exchange(legacy(1, method, params)).await;
        assert!(answer.get("result").is_some(), "{answer}");
        assert_eq!(taken(&log), around(what, "done"));
    }
    connection.exchange(legacy(1, "tools/call", call("own"))).await;
    let what = "tools/call own";
    assert_eq!(
        taken(&log),
        [
            format!("outer: {what}"),
            format!("inner: {what}"),
            format!("soon: {what}"),
            format!("late: {what}"),
            "late: error".into(),
            "soon: error".into(),
            "inner: error".into(),
            "outer: error".into(),
        ]
    );
    // A request without a handler runs no layer.
    connection.exchange(legacy(1, "tools/list", json!({}))).await;
    connection.quiet().await;
    assert!(taken(&log).is_empty());
    // Without a transport it is the same.
    server.call_tool("plain", json!({})).await.unwrap();
    assert_eq!(taken(&log), around("tools/call plain", "done"));
}

#[tokio::test]
async fn a_layer_can_change_arguments_and_results_and_answer_itself() {
    let double = tower::util::MapRequestLayer::new(|mut call: Invocation| {
        if let Some(n) = call.arguments_mut().and_then(|arguments| arguments.get_mut("n")) {
            *n = json!(n.as_u64().unwrap_or_default() * 2);
        }
        call
    });
    let sign = tower::util::MapResponseLayer::new(|mut outcome: Outcome| {
        if let Some(result) = outcome.tool_result_mut() {
            result.content.push(ContentBlock::text("signed"));
        }
        outcome
    });
    let instead = layer_fn(|_: HandlerService| {
        tower::service_fn(async |call: Invocation| {
            if call.name() == "odd" {
                return Err(RpcError::invalid_params("odd"));
            }
            Ok(Outcome::from(CallToolResult::new(vec![ContentBlock::text("instead")])))
        })
    });
    let number = async |Args(Number { n }): Args<Number>| n.to_string();
    let server = Server::builder("test", "1")
        .tool(tool("number", number).layer(double).layer(sign))
        .tool(tool("never", async || "never").layer(instead))
        .tool(tool("odd", async || "never").layer(instead))
        .prompt(prompt("p", async || "p"))
        .build();
    let call_server = async |name: &str, arguments: Value| server.call_tool(name, arguments).await;
    let texts = |result: CallToolResult| -> Vec<String> {
        result.content.iter().filter_map(ContentBlock::as_text).map(str::to_owned).collect()
    };
    assert_eq!(texts(call_server("number", json!({ "n": 21 })).await.unwrap()), ["42", "signed"]);
    // The server validates the arguments inside of the layers.
    assert!(call_server("number", json!({})).await.unwrap().is_error);
    assert_eq!(texts(call_server("never", json!({})).await.unwrap()), ["instead"]);
    assert_eq!(call_server("odd", json!({})).await.unwrap_err().message, "odd");

    let server = Server::builder("test", "1").prompt(prompt("p", async || "p")).layer(instead).build();
    let error = server.get_prompt("p", std::collections::BTreeMap::<String, String>::new()).await.unwrap_err();
    assert!(error.message.starts_with("the server has no answer (reference "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn tower_layers_apply_and_disclose_nothing() {
    let kind = ServiceBuilder::new()
        .map_err(|_: tower::BoxError| RpcError::internal("that took too long"))
        .layer(TimeoutLayer::new(Duration::from_secs(3)));
    let server = Server::builder("test", "1")
        .tool(slow().layer(TimeoutLayer::new(Duration::from_secs(2))))
        .tool(tool("kind", async || std::future::pending::<String>().await).layer(kind))
        .tool(tool("quick", async || "quick"))
        .tool(tool("panics", async || "never").layer(layer_fn(|inner: HandlerService| {
            tower::util::MapRequest::new(inner, |call: Invocation| -> Invocation {
                assert!(call.name().is_empty(), "a layer panics");
                call
            })
        })))
        .build();
    let start = Instant::now();
    let error = server.call_tool("slow", json!({})).await.unwrap_err();
    assert_eq!(start.elapsed().as_secs(), 2);
    assert!(error.message.starts_with("the call failed on the server (reference "), "{}", error.message);
    assert_eq!(server.call_tool("kind", json!({})).await.unwrap_err().message, "that took too long");
    let error = server.call_tool("panics", json!({})).await.unwrap_err();
    assert!(error.message.starts_with("the call failed on the server (reference "), "{}", error.message);
    server.call_tool("quick", json!({})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn concurrency_and_rate_limits_delay_calls() {
    let one = ConcurrencyLimitLayer::new(1);
    let rate = ServiceBuilder::new().buffer(16).rate_limit(2, Duration::from_secs(60));
    let server = Server::builder("test", "1")
        .tool(slow().layer(one))
        .tool(tool("rated", async || "rated").layer(rate.into_inner()))
        .build();
    let start = Instant::now();
    let (a, b, c) = tokio::join!(
        server.call_tool("slow", json!({})),
        server.call_tool("slow", json!({})),
        server.call_tool("slow", json!({})),
    );
    assert!([a, b, c].iter().all(|result| !result.as_ref().unwrap().is_error));
    assert_eq!(start.elapsed().as_secs(), 30);
    let start = Instant::now();
    for _ in 0..3 {
        server.call_tool("rated", json!({})).await.unwrap();
    }
    assert_eq!(start.elapsed().as_secs(), 60);
}

#[tokio::test]
async fn a_cancellation_passes_through_the_layers() {
    let (hold, mut seen) = hold();
    let log = Log::default();
    let server = Server::builder("test", "1").tool(hold.layer(watch("own", &log))).layer(watch("all", &log)).build();
    let mut connection = Connection::connect(&server);
    connection.open("2025-11-25").await;
    connection.send(legacy(7, "tools/call", call("hold"))).await;
    assert_eq!(seen.recv().await, Some("entered"));
    connection.send(cancel(7)).await;
    assert_eq!(seen.recv().await, Some("dropped"));
    connection.quiet().await;
    assert_eq!(taken(&log), ["all: tools/call hold", "own: tools/call hold"]);
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

#[tokio::test]
async fn each_input_round_of_a_stateless_call_passes_through_the_layers() {
    let log = Log::default();
    let greet = async |inputs: Inputs| -> Result<String, ToolError> {
        let Name { name } = inputs.elicit("name", "Who?").await?;
        Ok(format!("Hello, {name}!"))
    };
    let server = Server::builder("test", "1").tool(tool("greet", greet)).layer(watch("all", &log)).build();
    let mut connection = Connection::connect(&server);
    let meta = json!({ "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } } });
    let first_round = connection.exchange(modern(1, "tools/call", json!({ "name": "greet", "_meta": meta }))).await;
    assert_eq!(first_round["result"]["resultType"], "input_required", "{first_round}");
    let answers = json!({ "name": { "action": "accept", "content": { "name": "Ada" } } });
    let state = &first_round["result"]["requestState"];
    let again = json!({ "name": "greet", "_meta": meta, "inputResponses": answers, "requestState": state });
    assert_eq!(text_of(&connection.exchange(modern(2, "tools/call", again)).await), "Hello, Ada!");
    assert_eq!(taken(&log), ["all: tools/call greet", "all: asks", "all: tools/call greet", "all: done"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_runs_within_its_layers() {
    let log = Log::default();
    let job = tool("job", async |context: Context| {
        tokio::time::sleep(Duration::from_secs(5)).await;
        context.task_id().is_some().to_string()
    });
    let server = Server::builder("test", "1").tool(job.task(TaskSupport::Required)).layer(watch("all", &log)).build();
    let mut client = Client::connect(&server, ProtocolVersion::V2025_11_25).await;
    let made = client.result("tools/call", json!({ "name": "job", "task": {} })).await;
    assert_eq!(taken(&log), ["all: tools/call job"]);
    let result = client.result("tasks/result", json!({ "taskId": made["task"]["taskId"] })).await;
    assert_eq!(result["content"][0]["text"], "true");
    assert_eq!(taken(&log), ["all: done"]);
}

#[tokio::test]
async fn tools_added_later_keep_their_layers_and_those_of_the_server() {
    let log = Log::default();
    let server = Server::builder("test", "1").tool(tool("a", async || "a")).layer(watch("all", &log)).build();
    let raw = tool("b", async |RawArgs(arguments): RawArgs| Value::from(arguments).to_string());
    server.tools().add(raw.input_schema(json!({ "type": "object" })).layer(watch("own", &log))).unwrap();
    let mut connection = Connection::connect(&server);
    let answer = connection.exchange(modern(1, "tools/call", json!({ "name": "b", "arguments": { "x": 1 } }))).await;
    assert_eq!((text_of(&answer), code(&answer)), (r#"{"x":1}"#, None));
    assert_eq!(taken(&log), ["all: tools/call b", "own: tools/call b", "own: done", "all: done"]);
}

/// The server checks scopes and required client capabilities before the layers, and arguments after them.
#[tokio::test]
async fn checks_of_the_caller_run_before_layers_and_checks_of_arguments_after_them() {
    let log = Log::default();
    let mut needed = ClientCapabilities::new();
    needed.roots = Some(RootsCapability::default());
    let server = Server::builder("test", "1")
        .layer(watch("server", &log))
        .tool(tool("needs", async || "needs").requires_client(needed).layer(watch("tool", &log)))
        .tool(tool("echo", async |Args(Number { n }): Args<Number>| n.to_string()).layer(watch("tool", &log)))
        .build();
    let mut lacking = Client::connect_with(&server, ProtocolVersion::LATEST, json!({})).await;
    let error = lacking.error("tools/call", call("needs")).await;
    assert_eq!(error["code"], -32021, "{error}");
    assert_eq!(taken(&log), [""; 0]);
    let mut able = Client::connect_with(&server, ProtocolVersion::LATEST, json!({ "roots": {} })).await;
    able.result("tools/call", call("needs")).await;
    assert_eq!(taken(&log).len(), 4);
    let refused = able.result("tools/call", json!({ "name": "echo", "arguments": { "n": "seven" } })).await;
    assert_eq!(refused["isError"], true, "{refused}");
    assert_eq!(taken(&log).len(), 4);
}

#[tokio::test]
async fn debug_output_contains_no_arguments() {
    let server = Server::builder("test", "1")
        .tool(tool("number", async |Args(Number { n }): Args<Number>| n.to_string()))
        .layer(layer_fn(|inner: HandlerService| {
            inner.map_request(|call: Invocation| {
                let shown = format!("{call:?}");
                assert!(shown.contains("number") && !shown.contains("4711"), "{shown}");
                call
            })
        }))
        .build();
    server.call_tool("number", json!({ "n": 4711 })).await.unwrap();
}
