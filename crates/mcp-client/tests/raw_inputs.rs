//! Calls whose input requests the caller answers, and the capabilities of single calls.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{sync::Arc, time::Duration};

use mcp_client::{
    Client, Handler, InputContext, Round, ToolResult,
    protocol::{
        ClientCapabilities, ElicitResult, ElicitationCapability, FormElicitParams, JsonObject, ProtocolVersion,
        RootsCapability, RpcError,
    },
    transport::BoxFuture,
};
use mcp_server::prelude::*;
use serde_json::{Value, json};
use tokio::{net::TcpListener, time::timeout};

use crate::common::{builder, connected, connected_as, start, tool_result};

const LEGACY: ProtocolVersion = ProtocolVersion::V2025_11_25;
const MODERN: ProtocolVersion = ProtocolVersion::V2026_07_28;
const SOON: Duration = Duration::from_secs(20);

fn forms() -> ClientCapabilities {
    ClientCapabilities::new().with_elicitation(ElicitationCapability::new())
}

fn declared(request: &Value) -> &Value {
    &request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
}

fn question() -> Value {
    json!({ "method": "elicitation/create", "params": { "message": "Name?", "requestedSchema": { "type": "object" } } })
}

#[tokio::test(start_paused = true)]
async fn a_round_ends_with_the_input_requests_and_the_next_round_sends_the_responses() {
    let (client, mut peer, _peers) = connected(MODERN).await;
    let call = || client.call_tool("t", json!({ "a": 1 })).capabilities(forms()).raw_inputs();
    let first = start(call());
    let request = peer.recv().await;
    assert_eq!(declared(&request), &json!({ "elicitation": {} }), "the caller answers, so all is declared");
    let result = json!({
        "resultType": "input_required", "inputRequests": { "who": question() }, "requestState": "s1", "later": [1]
    });
    peer.answer(request["id"].clone(), result.clone()).await;
    let Round::InputRequired(asked) = first.await.unwrap().unwrap() else { panic!("the server asked") };
    assert_eq!(serde_json::from_slice::<Value>(asked.bytes()).unwrap(), result, "unknown members are kept");
    assert_eq!(asked.result().input_requests.as_ref().unwrap()["who"].method, "elicitation/create");

    let answer = JsonObject::new().with("who", json!({ "action": "decline" }));
    let second = start(call().resume(answer, asked.into_result().request_state));
    let request = peer.recv().await;
    assert_eq!(request["params"]["name"], "t");
    assert_eq!(request["params"]["arguments"], json!({ "a": 1 }));
    assert_eq!(request["params"]["inputResponses"], json!({ "who": { "action": "decline" } }));
    assert_eq!(request["params"]["requestState"], "s1");
    peer.answer(request["id"].clone(), tool_result("done")).await;
    let Round::Complete(result) = second.await.unwrap().unwrap() else { panic!("the call is complete") };
    assert_eq!(result.text(), "done");

    let state_alone = start(call().resume(JsonObject::new(), Some("s2".into())));
    let request = peer.recv().await;
    assert!(request["params"].get("inputResponses").is_none());
    assert_eq!(request["params"]["requestState"], "s2");
    peer.answer(request["id"].clone(), tool_result("again")).await;
    state_alone.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_round_with_an_expired_state_fails_instead_of_starting_anew() {
    let (client, mut peer, _peers) = connected(MODERN).await;
    let call = start(client.call_tool("t", ()).raw_inputs().resume(JsonObject::new(), Some("old".into())));
    let id = peer.expect("tools/call").await;
    let data = json!({ "reason": "request_state_expired", "canRestart": true });
    peer.refuse(id, json!({ "code": -32602, "message": "expired", "data": data })).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.rpc().unwrap().data.as_ref().unwrap()["reason"], "request_state_expired");

    // A round without input requests and without a state cannot continue.
    let call = start(client.call_tool("t", ()).raw_inputs());
    let id = peer.expect("tools/call").await;
    peer.answer(id, json!({ "resultType": "input_required" })).await;
    assert!(call.await.unwrap().unwrap_err().to_string().contains("no input requests"));
}

#[tokio::test(start_paused = true)]
async fn a_round_never_has_a_cached_result() {
    let (client, mut peer, _peers) = connected(MODERN).await;
    let text = |text: &str| json!({ "resultType": "complete", "contents": [{ "uri": "a:b", "text": text }], "ttlMs": 60_000, "cacheScope": "private" });
    let read = start(client.read_resource("a:b"));
    let id = peer.expect("resources/read").await;
    peer.answer(id, text("cached")).await;
    read.await.unwrap().unwrap();
    let round = start(client.read_resource("a:b").raw_inputs().resume(JsonObject::new(), Some("s".into())));
    let id = peer.expect("resources/read").await;
    peer.answer(id, text("of the round")).await;
    let Round::Complete(_) = round.await.unwrap().unwrap() else { panic!("the read is complete") };
    // The result of the round is not cached either.
    let cached = client.read_resource("a:b").await.unwrap();
    assert!(serde_json::to_string(&cached).unwrap().contains("cached"));
}

/// Answers forms.
struct Ada;

impl Handler for Ada {
    fn capabilities(&self) -> ClientCapabilities {
        forms()
    }

    fn elicit(&self, _form: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        Box::pin(async { Ok(ElicitResult::accept(JsonObject::new().with("name", "Ada"))) })
    }
}

#[tokio::test(start_paused = true)]
async fn older_revisions_send_input_requests_to_the_handler_of_the_call() {
    let (client, mut peer, _peers) = connected(LEGACY).await;
    let call = start(client.call_tool("t", ()).answers(Arc::new(Ada)).capabilities(forms()).raw_inputs());
    let request = peer.recv().await;
    assert!(declared(&request).is_null(), "a session declares its capabilities once");
    let params = json!({ "message": "Name?", "requestedSchema": { "type": "object", "properties": { "name": { "type": "string" } } } });
    let asked = peer.exchange(json!("q"), "elicitation/create", params).await;
    assert_eq!(asked["result"]["content"], json!({ "name": "Ada" }));
    peer.answer(request["id"].clone(), tool_result("done")).await;
    assert!(matches!(call.await.unwrap().unwrap(), Round::Complete(result) if result.text() == "done"));

    let resumed = client.call_tool("t", ()).raw_inputs().resume(JsonObject::new(), Some("s".into())).await;
    assert!(resumed.unwrap_err().is_unsupported(), "the client does not start the call anew");
}

#[tokio::test(start_paused = true)]
async fn a_call_declares_at_most_the_capabilities_of_its_handlers() {
    let (client, mut peer, _peers) = connected_as(builder().roots([]), MODERN).await;
    let roots = || ClientCapabilities::new().with_roots(RootsCapability::new());
    let both = || forms().with_roots(RootsCapability::new());
    for (call, expected) in [
        (client.call_tool("t", ()), json!({ "roots": {} })),
        (client.call_tool("t", ()).capabilities(ClientCapabilities::new()), json!({})),
        (client.call_tool("t", ()).capabilities(both()), json!({ "roots": {} })),
        (client.call_tool("t", ()).capabilities(roots()).answers(Arc::new(Ada)), json!({ "roots": {} })),
        (
            client.call_tool("t", ()).capabilities(both()).answers(Arc::new(Ada)),
            json!({ "roots": {}, "elicitation": {} }),
        ),
    ] {
        let call = start(call);
        let request = peer.recv().await;
        assert_eq!(declared(&request), &expected);
        peer.answer(request["id"].clone(), tool_result("done")).await;
        call.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_raw_result_has_the_bytes_of_the_server() {
    for version in [LEGACY, MODERN] {
        let (client, mut peer, _peers) = connected(version).await;
        let call = start(client.call_tool("t", ()).raw_result());
        let id = peer.expect("tools/call").await;
        let result = r#"{ "later" :[1e400, 1.0],"resultType":"complete","content":[{"type":"hologram"}]}"#;
        peer.raw(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)).await;
        let raw = call.await.unwrap().unwrap();
        assert_eq!((raw.bytes().as_ref(), raw.version()), (result.as_bytes(), version));

        let call = start(client.call_tool("t", ()).raw_result());
        let id = peer.expect("tools/call").await;
        peer.answer(id, json!([])).await;
        assert!(call.await.unwrap().is_err(), "a result is an object");
    }
}

#[derive(Deserialize, JsonSchema)]
struct Answer {
    name: String,
}

/// A tool that asks for a name, for the servers of these tests.
pub(crate) async fn ask(inputs: Inputs) -> Result<String, ToolError> {
    let Answer { name } = inputs.elicit("name", "Your name?").await?;
    Ok(name)
}

async fn over_http() -> Client {
    let server = Server::builder("asks", "1").versions([MODERN]).tool(tool("ask", ask)).build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { server.serve_http_on(listener, HttpConfig::new()).await });
    builder().connect(format!("http://{address}/mcp")).await.unwrap()
}

/// Runs a call in two rounds, and the second round over another client.
async fn check(client: Client, other: Client) {
    let call = |client: &Client| client.call_tool("ask", ()).capabilities(forms()).raw_inputs();
    let Round::InputRequired(asked) = timeout(SOON, call(&client).into_future()).await.unwrap().unwrap() else {
        panic!("the tool asks")
    };
    let (key, _) = asked.result().input_requests.as_ref().unwrap().iter().next().unwrap();
    let answers = JsonObject::new().with(key, json!({ "action": "accept", "content": { "name": "Ada" } }));
    let next = call(&other).resume(answers, asked.result().request_state.clone());
    let Round::<ToolResult>::Complete(result) = timeout(SOON, next.into_future()).await.unwrap().unwrap() else {
        panic!("the tool has its answer")
    };
    assert_eq!(result.text(), "Ada");
}

#[tokio::test]
async fn the_rounds_of_a_call_work_over_http() {
    let client = over_http().await;
    check(client.clone(), client).await;
}

#[cfg(unix)]
#[tokio::test]
async fn the_rounds_of_a_call_work_over_stdio() {
    let client = crate::process_faults::connect_to_child(MODERN).await;
    check(client.clone(), client).await;
}
