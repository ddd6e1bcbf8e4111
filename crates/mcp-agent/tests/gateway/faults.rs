//! Faulty servers behind a gateway: errors within bounds, and no effect on the other servers.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::time::Duration;

use mcp_agent::{Gateway, Host};
use mcp_client::{Client, Reconnect};
use mcp_protocol::{LoggingLevel, ProtocolVersion, RpcError};
use mcp_server::prelude::*;
use mcp_test::peer::{Reply, ScriptedServer};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    time::{sleep, timeout},
};

use crate::common::{Pipe, REVISIONS, SOON, beside_healthy, cells, client, connect, gateway, raw, scripted};

fn text(text: &str) -> Reply {
    Reply::result(json!({ "content": [{ "type": "text", "text": text }] }))
}

async fn call(client: &Client, name: &str) -> Result<String, RpcError> {
    let called = timeout(SOON, client.call_tool(name, ()).into_future()).await.unwrap();
    called.map(|result| result.text()).map_err(|error| error.rpc().unwrap().clone())
}

/// The number of questions in one call.
const QUESTIONS: usize = 500;

/// Waits until a server has received this number of responses to its questions. Returns their ids in order.
async fn rejected(server: &ScriptedServer, count: usize) -> Vec<Value> {
    let responses = || {
        let is_response = |message: &Value| message.get("method").is_none();
        server.seen().into_iter().filter(is_response).collect::<Vec<_>>()
    };
    let waited = timeout(SOON, async {
        while responses().len() < count {
            sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(waited.await.is_ok(), "{} of {count} responses", responses().len());
    let mut ids = responses();
    for response in &mut ids {
        // Many questions at the same time make the client of the gateway busy.
        let codes: &[i64] = if count == 1 { &[-32601] } else { &[-32601, -32603] };
        assert!(codes.iter().any(|code| response["error"]["code"] == *code), "{response}");
        *response = response["id"].take();
    }
    ids.sort_by_key(Value::as_u64);
    ids
}

// The clock is paused. It advances only while each task waits for a time.
#[tokio::test(start_paused = true)]
async fn faulty_servers_cause_errors_within_bounds_and_leave_the_others() {
    let mut flood = text("end");
    for n in 0..500 {
        let log = json!({ "level": "info", "data": "x".repeat(100) });
        flood = flood.notify("notifications/message", log);
        flood = flood.notify("notifications/progress", json!({ "progressToken": 1, "progress": n }));
    }
    let question = json!({ "message": "?", "requestedSchema": { "type": "object", "properties": {} } });
    let (mut changes, mut questions) = (text("end"), text("end"));
    for n in 0..QUESTIONS {
        changes = changes.notify("notifications/tools/list_changed", json!({}));
        questions = questions.request(json!(n), "elicitation/create", question.clone());
    }
    let asks = text("asked").request(json!("q"), "elicitation/create", question);
    for version in REVISIONS {
        let changing = scripted("t").on("tools/call", changes.clone());
        let asking = |asks: Reply| scripted("t").on("tools/call", asks);
        let (one, many) = (asking(asks.clone()), asking(questions.clone()));
        let healthy = Server::builder("healthy", "1").tool(tool("t", async || "t")).build();
        let host = Host::builder("gateway", "1")
            .reconnect(Reconnect::default().attempts(2).first(Duration::from_millis(10)))
            .call_timeout(Duration::from_secs(2))
            .server("killed", scripted("t").on("tools/call", Reply::close()))
            .server("silent", scripted("t").on("tools/call", Reply::silence()))
            .server("slow", scripted("t").on("tools/call", text("late").after(Duration::from_millis(400))))
            .server("floods", scripted("t").on("tools/call", flood.clone()))
            .server("changes", changing.clone())
            .server("questions", many.clone())
            .server("garbage", scripted("t").on("tools/call", Reply::result(json!([1]))))
            .server("asks", one.clone())
            .server("healthy", &healthy)
            .start()
            .await
            .unwrap();
        let server = Gateway::builder(host).build().unwrap().versions([version]).build();
        let client = client().connect(&server).await.unwrap();
        for (name, expected) in [
            ("killed__t", Err("the connection to the server failed")),
            ("silent__t", Err("the server did not answer in time")),
            ("slow__t", Ok("late")),
            ("floods__t", Ok("end")),
            ("changes__t", Ok("end")),
            ("questions__t", Ok("end")),
            ("garbage__t", Err("the answer of the server is not valid")),
            ("asks__t", Ok("asked")),
        ] {
            let (called, healthy) = beside_healthy(&client, "healthy__t", call(&client, name)).await;
            match expected {
                Ok(text) => assert_eq!(called.unwrap(), text, "{version} {name}"),
                Err(text) => {
                    let error = called.unwrap_err();
                    assert_eq!((error.code.0, &*error.message), (-32603, text), "{version} {name}");
                    let server = name.strip_suffix("__t").unwrap();
                    assert_eq!(error.data.unwrap()["server"], server, "{version} {name}");
                }
            }
            assert!(healthy > 20 || name != "silent__t", "{healthy} calls while the server was silent");
        }
        // The client answers no questions, so the gateway rejects each of them.
        assert_eq!(rejected(&one, 1).await, [json!("q")], "{version}");
        assert_eq!(rejected(&many, QUESTIONS).await, (0..QUESTIONS).map(Value::from).collect::<Vec<_>>(), "{version}");
        // The changes of one call are read together.
        let read = changing.seen_of("tools/list").len();
        assert!((1..20).contains(&read), "{version}: the list was read {read} times");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_server_can_have_received_is_retryable_only_with_the_hints_of_its_tool() {
    let tool =
        |name: &str, hints: Value| json!({ "name": name, "inputSchema": { "type": "object" }, "annotations": hints });
    let tools = json!({ "tools": [
        tool("pay", json!({})),
        tool("pay_again", json!({ "readOnlyHint": false, "idempotentHint": false })),
        tool("read", json!({ "readOnlyHint": true })),
        tool("put", json!({ "idempotentHint": true })),
    ] });
    for (version, (name, calls, is_retryable)) in REVISIONS.into_iter().flat_map(|version| {
        [("pay", 1, false), ("pay_again", 1, false), ("read", 3, true), ("put", 3, true)].map(|case| (version, case))
    }) {
        // After a lost connection, the gateway knows the hints again when it has read the list. Each tool has a gateway of its own.
        let closing = ScriptedServer::for_revision(ProtocolVersion::V2025_11_25)
            .on("notifications/initialized", Reply::silence())
            .on("tools/list", Reply::result(tools.clone()))
            .on("tools/call", Reply::close());
        let reconnect = Reconnect::default().first(Duration::from_millis(10));
        let host =
            Host::builder("gateway", "1").reconnect(reconnect).server("s", closing.clone()).start().await.unwrap();
        let client = connect(Gateway::builder(host), version).await;
        let error = call(&client, &format!("s__{name}")).await.unwrap_err();
        let data = json!({ "server": "s", "retryable": is_retryable });
        assert_eq!(error.data, Some(data), "{version} {name}: {error}");
        assert_eq!(closing.seen_of("tools/call").len(), calls, "{version} {name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_for_a_task_that_the_server_can_have_received_is_not_retryable() {
    let up = ProtocolVersion::V2025_11_25;
    let opened = json!({
        "protocolVersion": up.as_str(), "serverInfo": { "name": "s", "version": "1" },
        "capabilities": { "tools": {}, "tasks": { "requests": { "tools": { "call": {} } } } },
    });
    let execution = json!({ "taskSupport": "optional" });
    let tools = json!({ "tools": [{ "name": "t", "inputSchema": { "type": "object" }, "execution": execution }] });
    let closing = ScriptedServer::silent()
        .on("server/discover", Reply::error(-32601, "method not found"))
        .on("initialize", Reply::result(opened))
        .on("tools/list", Reply::result(tools))
        .on("tools/call", Reply::close());
    let host = Host::builder("gateway", "1").server("s", closing.clone()).start().await.unwrap();
    let client = connect(Gateway::builder(host), REVISIONS[0]).await;
    let error = raw(&client, "tools/call", json!({ "name": "s__t", "task": {} })).await.unwrap_err();
    assert_eq!(error.data, Some(json!({ "server": "s", "retryable": false })), "{error}");
    assert_eq!(closing.seen_of("tools/call")[0]["params"]["task"], json!({}));
}

#[tokio::test]
async fn a_too_large_answer_has_the_limit_in_its_error() {
    let large = Server::builder("s", "1").tool(tool("t", async || "x".repeat(17 << 20))).build();
    let host = Host::builder("gateway", "1").server("s", Pipe::new(large)).start().await.unwrap();
    let client = connect(Gateway::builder(host), REVISIONS[1]).await;
    let error = call(&client, "s__t").await.unwrap_err();
    assert_eq!(
        error.message,
        "the answer of the server is too large: a message is longer than the limit of 16777216 bytes"
    );
    assert_eq!(error.data, Some(json!({ "server": "s", "retryable": false })));
}

#[tokio::test]
async fn an_expired_session_of_a_server_is_opened_again() {
    for version in REVISIONS {
        let scripted = scripted("t").on("tools/call", text("one")).on("tools/call", text("two"));
        let peer = scripted.listen().await.unwrap();
        let host = Host::builder("gateway", "1").server("s", peer.url()).start().await.unwrap();
        let server = Gateway::builder(host).build().unwrap().versions([version]).build();
        let client = client().connect(&server).await.unwrap();
        assert_eq!(call(&client, "s__t").await.unwrap(), "one");
        let sessions = scripted.seen_of("initialize").len();
        peer.forget_sessions();
        assert_eq!(call(&client, "s__t").await.unwrap(), "two", "{version}");
        assert!(scripted.seen_of("initialize").len() > sessions);
    }
}

#[tokio::test]
async fn a_gateway_that_reaches_itself_does_not_serve_itself() {
    for version in REVISIONS {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let local = Server::builder("local", "1").tool(tool("t", async || "t")).build();
        let host = Host::builder("gateway", "1")
            .start_limit(Duration::from_millis(100))
            .server("local", &local)
            .server("itself", url)
            .start()
            .await
            .unwrap();
        let builder = Gateway::builder(host.clone());
        let observed = builder.gateway();
        let server = builder.build().unwrap().versions([version]).build();
        let served = server.clone();
        tokio::spawn(async move { served.serve_http_on(listener, HttpConfig::new()).await });
        host.restart("itself");
        let mut changes = host.catalog_changes();
        let reached = changes.wait_for(|catalog| catalog.tools().iter().any(|tool| tool.server() == "itself"));
        timeout(SOON, reached).await.unwrap().unwrap();
        assert_eq!(observed.circular_servers().iter().map(|name| &**name).collect::<Vec<_>>(), ["itself"]);
        let client = client().connect(&server).await.unwrap();
        let tools = client.list_tools().await.unwrap();
        assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["local__t"], "{version}");
        let unknown = RpcError::invalid_params("Unknown tool: itself__local__t");
        assert_eq!(call(&client, "itself__local__t").await.unwrap_err(), unknown, "{version}");
    }
}

#[tokio::test]
async fn log_records_of_a_call_reach_its_client() {
    for (down, up) in cells() {
        let server = Server::builder("s", "1")
            .versions([up])
            .tool(tool("log", async |context: Context| {
                context.log(LoggingLevel::Debug, "details").await;
                context.log_as(LoggingLevel::Warning, Some("disk"), json!({ "free": 7 })).await;
                "done"
            }))
            .build();
        let client = connect(gateway(&[("s", &server)]).await, down).await;
        let mut notifications = client.notifications();
        let logged = client.call_tool("s__log", ()).log_level(LoggingLevel::Info);
        assert_eq!(timeout(SOON, logged.into_future()).await.unwrap().unwrap().text(), "done");
        let record = timeout(SOON, notifications.next()).await.unwrap().unwrap();
        assert_eq!(record.method(), "notifications/message", "{down} {up}");
        let params: Value = record.decode().unwrap();
        assert_eq!(
            (&params["level"], &params["logger"], &params["data"]),
            (&json!("warning"), &json!("disk"), &json!({ "free": 7 })),
            "{down} {up}"
        );
    }
}
