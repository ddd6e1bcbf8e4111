//! One client program against real servers of every revision.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::{Arc, Mutex};

use mcp_client::{
    Client, Error, InputContext, Negotiated,
    protocol::{
        CompletionReference, CreateMessageParams, CreateMessageResult, ElicitResult, FormElicitParams, JsonObject,
        LoggingLevel, ProtocolVersion, Root, RpcError, notification,
    },
};
use mcp_server::{extract::ResourceUri, prelude::*};
use serde_json::{Value, json};

use crate::common::builder;

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, PartialEq)]
struct Sum {
    sum: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

/// Sends every kind of request of a client.
fn server(version: ProtocolVersion) -> Server {
    Server::builder("real", "1")
        .instructions("ask nicely")
        .versions([version])
        .page_size(2)
        .tool(tool("add", async |Args(Add { a, b }): Args<Add>| Json(Sum { sum: a + b })).read_only())
        .tool(tool("fail", async || Err::<String, _>(ToolError::new("no luck"))))
        .tool(tool("count", async |progress: Progress| {
            for n in 1..=3 {
                progress.report(n, 3, "counting").await;
            }
            "counted"
        }))
        .tool(tool("greet", async |inputs: Inputs| {
            let name: Name = inputs.elicit("name", "Who are you?").await?;
            Ok::<_, ToolError>(format!("Hello, {}!", name.name))
        }))
        .tool(tool("think", async |inputs: Inputs| {
            let answer = inputs.sample("thought", CreateMessageParams::new(vec![], 10)).await?;
            let roots = inputs.roots("roots").await?;
            Ok::<_, ToolError>(format!("{} in {}", answer.content.text(), roots[0].uri))
        }))
        .tool(tool("talk", async |context: Context| {
            context.log(LoggingLevel::Warning, "mind the gap").await;
            "talked"
        }))
        .resource(resource("config://app", async || "dark = true"))
        .resource_template(
            template("note://{id}", async |uri: ResourceUri| format!("note {}", uri.0))
                .complete_from("id", ["one", "two"]),
        )
        .prompt(prompt("review", async |Args(Name { name }): Args<Name>| format!("Review {name}.")))
        .build()
}

async fn ask_user(input: InputContext<FormElicitParams>) -> Result<ElicitResult, RpcError> {
    assert_eq!(input.server().name, "real");
    assert_eq!(input.form().unwrap().fields().len(), 1);
    Ok(ElicitResult::accept(JsonObject::new().with("name", "Ada")))
}

async fn ask_model(input: InputContext<CreateMessageParams>) -> Result<CreateMessageResult, RpcError> {
    assert_eq!(input.max_tokens, 10);
    Ok(CreateMessageResult::new("model", "42"))
}

/// How the client reaches the server.
#[derive(Debug, Clone, Copy)]
enum TransportKind {
    Memory,
    Http,
}

fn everywhere() -> impl Iterator<Item = (ProtocolVersion, TransportKind)> {
    ProtocolVersion::ALL
        .iter()
        .copied()
        .flat_map(|version| [(version, TransportKind::Memory), (version, TransportKind::Http)])
}

async fn connect(version: ProtocolVersion) -> Client {
    connect_over(version, TransportKind::Memory).await
}

async fn connect_over(version: ProtocolVersion, over: TransportKind) -> Client {
    let builder = builder()
        .on_elicit(ask_user)
        .on_sample(ask_model)
        .roots([Root::new("file:///work")])
        .log_level(LoggingLevel::Info);
    let server = server(version);
    let client = match over {
        TransportKind::Memory => builder.connect(&server).await,
        TransportKind::Http => {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/mcp", listener.local_addr().unwrap());
            // It ends with the runtime of the test.
            tokio::spawn(async move { server.serve_http_on(listener, HttpConfig::new()).await });
            builder.connect(url).await
        }
    };
    let client = client.unwrap();
    assert_eq!(client.version(), version, "{over:?}");
    client
}

#[tokio::test]
async fn every_feature_works_in_every_revision() {
    for (version, over) in everywhere() {
        let client = connect_over(version, over).await;
        let known = client.negotiated();
        assert_eq!(
            (&*known.server_info.name, known.instructions.as_deref()),
            ("real", Some("ask nicely")),
            "{version}"
        );

        let names: Vec<String> = client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["add", "fail", "count", "greet", "think", "talk"], "{version}");
        let page = client.list_tools().page().await.unwrap();
        assert_eq!(page.items.len(), 2);
        let next = client.list_tools().cursor(page.next_cursor.unwrap()).page().await.unwrap();
        assert_eq!(next.items[0].name, "count");
        assert_eq!(client.list_resources().await.unwrap()[0].uri, "config://app");
        assert_eq!(client.list_resource_templates().await.unwrap()[0].uri_template, "note://{id}");
        assert_eq!(client.list_prompts().await.unwrap()[0].name, "review");

        let sum = client.call_tool("add", json!({ "a": 1, "b": 2 })).await.unwrap();
        assert_eq!(sum.structured::<Sum>().unwrap(), Sum { sum: 3 }, "{version}");
        let failed = client.call_tool("fail", ()).await.unwrap();
        assert!(failed.is_error() && failed.text() == "no luck", "{version}");
        assert!(failed.ok().unwrap_err().is_tool_error());

        let read = client.read_resource("config://app").await.unwrap();
        assert_eq!(read.contents[0].as_text(), Some("dark = true"));
        let filled = client.get_prompt("review", [("name", "main.rs")]).await.unwrap();
        assert_eq!(filled.messages[0].content.as_text(), Some("Review main.rs."));
        let reference = CompletionReference::resource_template("note://{id}");
        let completed = client.complete(reference, "id", "t").await.unwrap();
        assert_eq!(completed.completion.values, ["two"], "{version}");
        client.ping().await.unwrap();
        client.close().await;
        assert!(client.ping().await.unwrap_err().is_closed());
    }
}

#[tokio::test]
async fn errors_of_the_server_fail_the_call() {
    for (version, over) in everywhere() {
        let client = connect_over(version, over).await;
        let unknown = client.call_tool("nothing", ()).await.unwrap_err();
        assert_eq!(unknown.rpc().unwrap().code.0, -32602, "{version}: {unknown}");
        let missing = client.read_resource("config://nothing").await.unwrap_err();
        assert!(missing.is_resource_not_found() && !unknown.is_resource_not_found(), "{version}: {missing}");
        let unknown = client.request_raw("x/y", ()).await.unwrap_err();
        assert!(unknown.is_unsupported(), "{version}: {unknown}");
        assert!(client.call_tool("add", json!([1])).await.unwrap_err().to_string().contains("object"));
        let wrong = client.call_tool("add", json!({ "a": "one" })).await.unwrap();
        assert!(wrong.is_error(), "{version}");
    }
}

#[tokio::test]
async fn receives_progress_in_order_before_the_result() {
    for (version, over) in everywhere() {
        let client = connect_over(version, over).await;
        let reports = Arc::new(Mutex::new(Vec::new()));
        let sink = reports.clone();
        let call = client.call_tool("count", ()).on_progress(move |notice| sink.lock().unwrap().push(notice.progress));
        assert_eq!(call.await.unwrap().text(), "counted");
        assert_eq!(*reports.lock().unwrap(), [1.0, 2.0, 3.0], "{version}");
    }
}

#[tokio::test]
async fn answers_input_requests_in_every_revision() {
    for (version, over) in everywhere() {
        let client = connect_over(version, over).await;
        if version.has_elicitation() {
            let greeted = client.call_tool("greet", ()).await.unwrap();
            assert_eq!(greeted.text(), "Hello, Ada!", "{version}");
        }
        let thought = client.call_tool("think", ()).await.unwrap();
        assert_eq!(thought.text(), "42 in file:///work", "{version}");
    }
}

#[tokio::test]
async fn reports_unanswered_input_requests_to_the_server() {
    for &version in ProtocolVersion::ALL {
        let client = Client::connect(server(version)).await.unwrap();
        let error = client.call_tool("think", ()).await.unwrap_err();
        assert_eq!(error.rpc().unwrap().code.0, -32021, "{version}: {error}");
    }
}

#[tokio::test]
async fn requests_the_log_level_once_and_receives_messages_in_every_revision() {
    for &version in ProtocolVersion::ALL {
        let (sender, mut logged) = tokio::sync::mpsc::unbounded_channel();
        let client = builder()
            .on::<notification::LoggingMessage>(move |message| drop(sender.send(message.data)))
            .connect(server(version))
            .await
            .unwrap();
        let mut stream = client.notifications();
        client.set_log_level(LoggingLevel::Info).await.unwrap();
        client.call_tool("talk", ()).await.unwrap();
        assert_eq!(logged.recv().await.unwrap(), json!("mind the gap"), "{version}");
        assert_eq!(stream.next().await.unwrap().method(), "notifications/message");
        client.close().await;
        assert!(stream.next().await.is_none());
    }
}

#[tokio::test]
async fn a_client_with_fewer_revisions_selects_the_common_one() {
    let server = Server::builder("real", "1").tool(tool("quick", async || "quick")).build();
    for &version in ProtocolVersion::ALL {
        let client = builder().versions([version]).connect(&server).await.unwrap();
        assert_eq!(client.version(), version);
        assert_eq!(client.call_tool("quick", ()).await.unwrap().text(), "quick");
        // The negotiation can be stored and reused.
        let kept = serde_json::to_string(&*client.negotiated()).unwrap();
        let known: Negotiated = serde_json::from_str(&kept).unwrap();
        let again = builder().known(known).connect(&server).await.unwrap();
        assert_eq!(again.version(), version);
        assert_eq!(again.negotiated(), client.negotiated());
        assert_eq!(again.call_tool("quick", ()).await.unwrap().text(), "quick");
        let preferring = builder().prefer(version).connect(&server).await.unwrap();
        assert_eq!(preferring.version(), version);
    }
}

#[tokio::test]
async fn fails_unsupported_methods_without_sending_them() {
    let server = Server::builder("real", "1").tool(tool("quick", async || "quick")).build();
    for &version in ProtocolVersion::ALL {
        let client = builder().versions([version]).connect(&server).await.unwrap();
        let errors: [Error; 3] = [
            client.list_prompts().await.unwrap_err(),
            client.read_resource("a:b").await.unwrap_err(),
            client
                .request::<mcp_client::protocol::method::Subscribe>(&mcp_client::protocol::SubscribeParams::new("a:b"))
                .await
                .unwrap_err(),
        ];
        for error in errors {
            assert!(error.is_unsupported() && error.rpc().is_none(), "{version}: {error}");
        }
        let trusting = builder().versions([version]).ignore_capabilities().connect(&server).await.unwrap();
        let error = trusting.read_resource("a:b").await.unwrap_err();
        assert!(error.rpc().is_some(), "{version}: {error}");
    }
}

#[tokio::test]
async fn returns_raw_results() {
    let client = connect(ProtocolVersion::LATEST).await;
    let raw: Value =
        client.request_raw("tools/call", json!({ "name": "add", "arguments": { "a": 1, "b": 2 } })).await.unwrap();
    assert_eq!(raw["structuredContent"]["sum"], 3);
}

#[tokio::test]
async fn validates_arguments_before_sending_on_demand() {
    for &version in ProtocolVersion::ALL {
        let client = builder().check_arguments().connect(server(version)).await.unwrap();
        client.list_tools().await.unwrap();
        let error = client.call_tool("add", json!({ "a": "one", "b": 2 })).await.unwrap_err();
        assert!(error.is_invalid_arguments(), "{version}: {error}");
        assert_eq!(
            client.call_tool("add", json!({ "a": 1, "b": 2 })).await.unwrap().structured::<Sum>().unwrap().sum,
            3
        );
    }
}
