//! Input requests of one handler in every revision: as requests of the server in a session, and as input rounds in
//! the stateless era.
//!
//! The same tests run over every transport. The parent module defines `ClientTransport`.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_protocol::{CreateMessageParams, SamplingBlock, SamplingMessage};
use mcp_server_core::{
    CallParts, Context, Description, FromCallParts, Inputs, Server, StateKeys, ToolError, prompt, resource, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ClientTransport;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Name {
    pub(crate) name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Age {
    #[schemars(range(min = 0))]
    age: u8,
}

/// Counts the runs of the handler and of its once block.
#[derive(Clone, Default)]
struct Counts {
    runs: Arc<AtomicUsize>,
    effects: Arc<AtomicUsize>,
}

fn server(counts: &Counts) -> Server {
    let (counting, effects) = (counts.clone(), counts.clone());
    Server::builder("asks", "1")
        .tool(tool("greet", async |inputs: Inputs| -> Result<String, ToolError> {
            let Name { name } = inputs.elicit("name", "What is your name?").await?;
            Ok(format!("Hello, {name}!"))
        }))
        .tool(tool("two", async |inputs: Inputs| -> Result<String, ToolError> {
            let (name, age) = tokio::join!(inputs.elicit::<Name>("name", "Name?"), inputs.elicit::<Age>("age", "Age?"));
            Ok(format!("{} is {}", name?.name, age?.age))
        }))
        .tool(tool("steps", move |inputs: Inputs| {
            let counts = counting.clone();
            async move {
                counts.runs.fetch_add(1, Ordering::SeqCst);
                let first: Name = inputs.elicit("first", "First?").await?;
                let choice: usize = inputs.remember("choice", || counts.runs.load(Ordering::SeqCst))?;
                let second: Name = inputs.elicit("second", "Second?").await?;
                Ok::<_, ToolError>(format!("{} {} {choice}", first.name, second.name))
            }
        }))
        .tool(tool("buy", move |inputs: Inputs| {
            let counts = effects.clone();
            async move {
                let Name { name } = inputs.elicit("name", "For whom?").await?;
                let ticket: usize = inputs
                    .once("buy", async || {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        Ok::<_, ToolError>(counts.effects.fetch_add(1, Ordering::SeqCst) + 1)
                    })
                    .await?;
                Ok::<_, ToolError>(format!("ticket {ticket} for {name}"))
            }
        }))
        .tool(tool("think", async |inputs: Inputs| -> Result<String, ToolError> {
            let params = CreateMessageParams::new(vec![SamplingMessage::user(SamplingBlock::text("2+2?"))], 10);
            Ok(inputs.sample("sum", params).await?.content.text())
        }))
        .tool(tool("reason", async |inputs: Inputs| -> Result<String, ToolError> {
            let mut params = CreateMessageParams::new(vec![SamplingMessage::user(SamplingBlock::text("?"))], 10);
            params.tools = Some(vec![mcp_protocol::Tool::new("t", serde_json::Map::new())]);
            Ok(inputs.sample("sum", params).await?.content.text())
        }))
        .tool(tool("where", async |inputs: Inputs| -> Result<String, ToolError> {
            let roots = inputs.roots("roots").await?;
            Ok(roots.iter().map(|root| root.uri.as_str()).collect::<Vec<_>>().join(" "))
        }))
        .prompt(prompt("intro", async |inputs: Inputs| -> Result<String, ToolError> {
            let Name { name } = inputs.elicit("name", "Who?").await?;
            Ok(format!("Introduce {name}"))
        }))
        .resource(resource("test://secret", async |inputs: Inputs, _context: Context| -> Result<String, ToolError> {
            let Name { name } = inputs.elicit("name", "Who asks?").await?;
            Ok(format!("for {name}"))
        }))
        .build()
}

/// The answers of the client to the input requests: method, then result or error.
pub(crate) type Answers = Vec<(&'static str, Value)>;

pub(crate) struct Client {
    transport: ClientTransport,
    version: &'static str,
    capabilities: Value,
    next: i64,
    /// The received input requests, in order.
    pub(crate) input_requests: Vec<Value>,
}

pub(crate) const ALL: [&str; 3] = ["2025-06-18", "2025-11-25", "2026-07-28"];

impl Client {
    pub(crate) async fn connect(server: &Server, version: &'static str, capabilities: Value) -> Self {
        let transport = ClientTransport::connect(server);
        let mut client = Self { transport, version, capabilities, next: 0, input_requests: Vec::new() };
        if client.is_legacy() {
            let params = json!({
                "protocolVersion": version, "capabilities": client.capabilities,
                "clientInfo": { "name": "t", "version": "1" }
            });
            client.send("initialize", params).await;
            client.receive().await;
            client.write(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        }
        client
    }

    pub(crate) fn is_legacy(&self) -> bool {
        self.version != "2026-07-28"
    }

    pub(crate) async fn write(&mut self, message: Value) {
        self.transport.send(message.to_string()).await;
    }

    pub(crate) async fn send(&mut self, method: &str, mut params: Value) -> i64 {
        self.next += 1;
        if !self.is_legacy() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.version,
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            });
        }
        self.write(json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params })).await;
        self.next
    }

    pub(crate) async fn receive(&mut self) -> Value {
        let message = tokio::time::timeout(Duration::from_secs(3600), self.transport.receive()).await;
        serde_json::from_slice(&message.unwrap()).unwrap()
    }

    /// Makes a call, answers its input requests, and returns the response.
    async fn call(&mut self, method: &str, params: Value, answers: Answers) -> Value {
        let mut answers: VecDeque<_> = answers.into();
        let mut answer = |request: &mut Vec<Value>, input_request: &Value| {
            request.push(input_request.clone());
            let (method, value) = answers.pop_front().expect("an unexpected input request");
            assert_eq!(input_request["method"], method);
            value
        };
        self.send(method, params.clone()).await;
        loop {
            let message = self.receive().await;
            if let Some(id) = message.get("id").filter(|_| message.get("method").is_some()) {
                assert!(self.is_legacy(), "a server of this revision sends no requests: {message}");
                let value = answer(&mut self.input_requests, &message);
                let outcome = if value.get("code").is_some() { "error" } else { "result" };
                self.write(json!({ "jsonrpc": "2.0", "id": id, outcome: value })).await;
            } else if message["result"]["resultType"] == "input_required" {
                let requests = message["result"]["inputRequests"].as_object().unwrap().clone();
                let mut again = params.clone();
                again["requestState"] = message["result"]["requestState"].clone();
                for (key, input_request) in &requests {
                    again["inputResponses"][key] = answer(&mut self.input_requests, input_request);
                }
                self.send(method, again).await;
            } else {
                return message;
            }
        }
    }

    pub(crate) async fn tool(&mut self, name: &str, answers: Answers) -> Value {
        self.call("tools/call", json!({ "name": name, "arguments": {} }), answers).await
    }
}

pub(crate) fn accept(content: Value) -> (&'static str, Value) {
    ("elicitation/create", json!({ "action": "accept", "content": content }))
}

pub(crate) fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}"))
}

pub(crate) fn everything() -> Value {
    json!({ "elicitation": {}, "sampling": {}, "roots": {} })
}

#[tokio::test]
async fn an_invalid_answer_repeats_the_input_request_with_the_reason() {
    for version in ALL {
        let mut client = Client::connect(&server(&Counts::default()), version, everything()).await;
        let response = client.tool("greet", vec![accept(json!({ "name": "Ada" }))]).await;
        assert_eq!(text(&response), "Hello, Ada!", "{version}");
        let schema = &client.input_requests[0]["params"]["requestedSchema"];
        assert_eq!(schema["properties"]["name"]["type"], "string");
        assert_eq!(schema["required"], json!(["name"]));

        // Twice wrong, then right.
        let answers = vec![accept(json!({ "name": 7 })), accept(json!({})), accept(json!({ "name": "Bo" }))];
        assert_eq!(text(&client.tool("greet", answers).await), "Hello, Bo!", "{version}");

        let wrong = || accept(json!({ "name": 7 }));
        // The repeated input request contains the reason.
        let messages: Vec<_> = client.input_requests[1..]
            .iter()
            .map(|request| request["params"]["message"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(messages[0], "What is your name?", "{version}");
        for (message, problem) in [(&messages[1], "expected a string"), (&messages[2], "required")] {
            let reason = message.strip_prefix("What is your name?\n\nThe last answer did not fit: ");
            assert!(
                reason.is_some_and(|reason| reason.contains("name") && reason.contains(problem)),
                "{version}: {message}"
            );
        }

        let response = client.tool("greet", vec![wrong(), wrong(), wrong()]).await;
        assert_eq!(response["result"]["isError"], true, "{version}: {response}");
        assert!(text(&response).contains("did not fit"), "{version}: {response}");
    }
}

#[tokio::test]
async fn rejected_input_requests_fail_alike_in_every_revision() {
    for version in ALL {
        let mut client = Client::connect(&server(&Counts::default()), version, everything()).await;
        for (action, expected) in [("decline", "the user declined"), ("cancel", "the user cancelled")] {
            let response = client.tool("greet", vec![("elicitation/create", json!({ "action": action }))]).await;
            assert_eq!(response["result"]["isError"], true);
            assert_eq!(text(&response), expected, "{version}");
        }
        let mut client = Client::connect(&server(&Counts::default()), version, json!({})).await;
        for (tool, missing) in [("greet", "elicitation"), ("think", "sampling"), ("where", "roots")] {
            let response = client.tool(tool, vec![]).await;
            assert_eq!(response["error"]["code"], -32021, "{version}: {response}");
            assert!(response["error"]["data"]["requiredCapabilities"][missing].is_object(), "{response}");
        }
    }
}

#[tokio::test]
async fn each_elicitation_mode_requires_its_capability() {
    let server = Server::builder("asks", "1")
        .tool(tool("form", async |inputs: Inputs| -> Result<String, ToolError> {
            Ok(inputs.elicit::<Name>("name", "Name?").await?.name)
        }))
        .tool(tool("visit", async |inputs: Inputs| -> Result<String, ToolError> {
            inputs.elicit_url("pay", "Pay here.", "https://example.com/pay").await?;
            Ok("agreed".to_owned())
        }))
        .build();
    for version in ["2025-11-25", "2026-07-28"] {
        for (modes, tool, lacks) in [
            (json!({}), "form", None),
            (json!({ "form": {} }), "visit", Some("url")),
            (json!({}), "visit", Some("url")),
            (json!({ "url": {} }), "form", Some("form")),
            (json!({ "url": {} }), "visit", None),
        ] {
            let mut client = Client::connect(&server, version, json!({ "elicitation": modes })).await;
            let answers = if lacks.is_some() { vec![] } else { vec![accept(json!({ "name": "Ada" }))] };
            let response = client.tool(tool, answers).await;
            if let Some(mode) = lacks {
                let required = &response["error"]["data"]["requiredCapabilities"]["elicitation"];
                assert!(response["error"]["code"] == -32021 && required[mode].is_object(), "{version}: {response}");
            } else if tool == "visit" {
                assert_eq!(text(&response), "agreed", "{version}");
                let params = &client.input_requests[0]["params"];
                assert_eq!((&params["mode"], &params["url"]), (&json!("url"), &json!("https://example.com/pay")));
            } else {
                assert_eq!(text(&response), "Ada", "{version}");
            }
        }
    }
}

#[tokio::test]
async fn concurrent_input_requests_share_one_round() {
    for version in ALL {
        let mut client = Client::connect(&server(&Counts::default()), version, everything()).await;
        let mut answers = vec![accept(json!({ "age": 36 })), accept(json!({ "name": "Ada" }))];
        if client.is_legacy() {
            // Requests are in the order of the calls, rounds in the order of their keys.
            answers.reverse();
        }
        assert_eq!(text(&client.tool("two", answers.clone()).await), "Ada is 36", "{version}");
        assert_eq!(client.input_requests.len(), 2);
        if client.is_legacy() {
            // No question has the id of another one, in a later call either.
            client.tool("two", answers).await;
            let ids: std::collections::HashSet<_> =
                client.input_requests.iter().map(|request| request["id"].to_string()).collect();
            assert_eq!(ids.len(), 4, "{version}: {ids:?}");
        }
    }
}

#[tokio::test]
async fn a_list_of_input_requests_returns_the_answers_in_order() {
    let server = Server::builder("asks", "1")
        .tool(tool("all", async |inputs: Inputs| -> Result<String, ToolError> {
            let keys = ["a", "b", "c"];
            let ages: Vec<Age> = inputs.all(keys.map(|key| inputs.elicit(key, format!("Age of {key}?")))).await?;
            Ok(ages.iter().map(|age| age.age.to_string()).collect::<Vec<_>>().join(" "))
        }))
        .build();
    for version in ALL {
        let mut client = Client::connect(&server, version, everything()).await;
        let answers = (1..=3).map(|age| accept(json!({ "age": age }))).collect();
        assert_eq!(text(&client.tool("all", answers).await), "1 2 3", "{version}");
    }
}

/// Wraps `Inputs`. `DESCRIBES` is whether the extractor calls `Inputs::describe`.
struct Wrapper<const DESCRIBES: bool>(Inputs);

impl<S: Send + Sync, const DESCRIBES: bool> FromCallParts<S> for Wrapper<DESCRIBES> {
    fn describe(description: &mut Description) {
        if DESCRIBES {
            <Inputs as FromCallParts<S>>::describe(description);
        }
    }

    async fn from_call_parts(parts: &mut CallParts, state: &S) -> Result<Self, ToolError> {
        Inputs::from_call_parts(parts, state).await.map(Self)
    }
}

#[tokio::test]
async fn an_extractor_that_wraps_inputs_must_describe_them() {
    async fn greet<const DESCRIBES: bool>(Wrapper(inputs): Wrapper<DESCRIBES>) -> Result<String, ToolError> {
        Ok(inputs.elicit::<Name>("name", "Name?").await?.name)
    }
    let server =
        Server::builder("asks", "1").tool(tool("tells", greet::<true>)).tool(tool("hides", greet::<false>)).build();
    for version in ALL {
        let mut client = Client::connect(&server, version, everything()).await;
        let ada = accept(json!({ "name": "Ada" }));
        assert_eq!(text(&client.tool("tells", vec![ada]).await), "Ada", "{version}");
        let response = client.tool("hides", vec![]).await;
        assert_eq!(response["error"]["code"], -32603, "{version}: {response}");
    }
}

#[tokio::test]
async fn input_rounds_repeat_the_handler_with_the_remembered_values() {
    for version in ALL {
        let counts = Counts::default();
        let mut client = Client::connect(&server(&counts), version, everything()).await;
        let answers = vec![accept(json!({ "name": "a" })), accept(json!({ "name": "b" }))];
        let response = client.tool("steps", answers).await;
        // The choice is remembered from the run with the first answer.
        let (runs, choice) = if client.is_legacy() { (1, 1) } else { (3, 2) };
        assert_eq!(text(&response), format!("a b {choice}"), "{version}");
        assert_eq!(counts.runs.load(Ordering::SeqCst), runs, "{version}");
    }
}

#[tokio::test]
async fn sends_sampling_and_roots_requests() {
    for version in ALL {
        let mut client = Client::connect(&server(&Counts::default()), version, everything()).await;
        let four = json!({ "role": "assistant", "content": { "type": "text", "text": "4" }, "model": "m" });
        assert_eq!(text(&client.tool("think", vec![("sampling/createMessage", four)]).await), "4", "{version}");
        let roots = json!({ "roots": [{ "uri": "file:///a" }, { "uri": "file:///b", "name": "b" }] });
        assert_eq!(text(&client.tool("where", vec![("roots/list", roots)]).await), "file:///a file:///b", "{version}");
    }
}

#[tokio::test]
async fn prompts_and_resources_send_input_requests() {
    for version in ALL {
        let mut client = Client::connect(&server(&Counts::default()), version, everything()).await;
        let ada = || vec![accept(json!({ "name": "Ada" }))];
        let response = client.call("prompts/get", json!({ "name": "intro" }), ada()).await;
        assert_eq!(response["result"]["messages"][0]["content"]["text"], "Introduce Ada", "{version}: {response}");
        let response = client.call("resources/read", json!({ "uri": "test://secret" }), ada()).await;
        assert_eq!(response["result"]["contents"][0]["text"], "for Ada", "{version}: {response}");
    }
}

#[tokio::test]
async fn an_error_of_the_client_reaches_the_handler() {
    let refusal = json!({ "code": -1, "message": "User rejected sampling request" });
    for version in ["2025-06-18", "2025-11-25"] {
        let mut client = Client::connect(&server(&Counts::default()), version, everything()).await;
        let response = client.tool("think", vec![("sampling/createMessage", refusal.clone())]).await;
        assert_eq!(response["result"]["isError"], true);
        assert!(text(&response).contains("User rejected"), "{response}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_input_request_times_out_and_is_cancelled() {
    let mut client = Client::connect(&server(&Counts::default()), "2025-11-25", everything()).await;
    client.send("tools/call", json!({ "name": "where", "arguments": {} })).await;
    let input_request = client.receive().await;
    let taken_back = client.receive().await;
    assert_eq!(taken_back["method"], "notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], input_request["id"]);
    assert_eq!(text(&client.receive().await), "the client did not answer in time");
    // A late answer has no effect.
    client.write(json!({ "jsonrpc": "2.0", "id": input_request["id"], "result": { "roots": [] } })).await;
    client.send("ping", json!({})).await;
    assert_eq!(client.receive().await["result"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_an_answer_does_not_count_towards_the_timeout() {
    let mut client = Client::connect(&server(&Counts::default()), "2025-11-25", everything()).await;
    client.send("tools/call", json!({ "name": "greet", "arguments": {} })).await;
    let input_request = client.receive().await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    client.write(json!({ "jsonrpc": "2.0", "id": input_request["id"], "result": answer })).await;
    assert_eq!(text(&client.receive().await), "Hello, Ada!");
}

/// The first round of `buy`, and the second round ready to be sent.
async fn second_round(client: &mut Client) -> Value {
    let params = json!({ "name": "buy", "arguments": {} });
    client.send("tools/call", params.clone()).await;
    let first = client.receive().await;
    let mut again = params;
    again["requestState"] = first["result"]["requestState"].clone();
    again["inputResponses"] = json!({ "name": { "action": "accept", "content": { "name": "Ada" } } });
    again
}

#[tokio::test]
async fn concurrent_equal_rounds_run_one_once_block() {
    let counts = Counts::default();
    let mut client = Client::connect(&server(&counts), "2026-07-28", everything()).await;
    let again = second_round(&mut client).await;
    client.send("tools/call", again.clone()).await;
    client.send("tools/call", again.clone()).await;
    let (one, two) = (client.receive().await, client.receive().await);
    assert_eq!(text(&one), "ticket 1 for Ada");
    assert_eq!(text(&two), "ticket 1 for Ada");
    client.send("tools/call", again).await;
    assert_eq!(text(&client.receive().await), "ticket 1 for Ada");
    assert_eq!(counts.effects.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn rejects_the_request_state_of_another_request() {
    let counts = Counts::default();
    let mut client = Client::connect(&server(&counts), "2026-07-28", everything()).await;
    let good = second_round(&mut client).await;
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut params = good.clone();
        change(&mut params);
        params
    };
    let state = good["requestState"].as_str().unwrap().to_owned();
    for (what, params) in [
        ("tampered", changed(&|p| p["requestState"] = json!(format!("{state}-TAMPERED")))),
        ("another tool", changed(&|p| p["name"] = json!("greet"))),
        ("other arguments", changed(&|p| p["arguments"] = json!({ "x": 1 }))),
        ("not a string", changed(&|p| p["requestState"] = json!(7))),
        ("answers that are no object", changed(&|p| p["inputResponses"] = json!([1]))),
    ] {
        client.send("tools/call", params).await;
        let response = client.receive().await;
        assert_eq!(response["error"]["code"], -32602, "{what}: {response}");
    }
    // The server cannot bind the request state to parameters that are not valid JSON values.
    for junk in ["1e400", r#""\ud800""#] {
        let text = changed(&|p| p["junk"] = json!("JUNK")).to_string().replace(r#""JUNK""#, junk);
        let body = text.strip_suffix('}').unwrap();
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}"#;
        let message = format!(r#"{{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{body},{meta}}}"#);
        client.transport.send(message).await;
        let response = client.receive().await;
        assert!(response["error"]["code"].is_i64(), "{junk}: {response}");
    }
    // Another server has other keys.
    let mut other_server = Client::connect(&server(&counts), "2026-07-28", everything()).await;
    other_server.send("tools/call", good.clone()).await;
    assert_eq!(other_server.receive().await["error"]["code"], -32602);
    assert_eq!(counts.effects.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn missing_and_unknown_answers_repeat_the_input_request() {
    let mut client = Client::connect(&server(&Counts::default()), "2026-07-28", everything()).await;
    for responses in [json!({ "wrong": { "action": "accept" } }), Value::Null, json!({})] {
        let params = json!({ "name": "greet", "arguments": {}, "inputResponses": responses });
        client.send("tools/call", params).await;
        let response = client.receive().await;
        assert_eq!(response["result"]["resultType"], "input_required", "{response}");
        assert!(response["result"]["inputRequests"]["name"].is_object());
    }
}

#[tokio::test]
async fn an_answer_without_a_proof_of_its_question_repeats_the_question() {
    let counts = Counts::default();
    let ada = || json!({ "name": { "action": "accept", "content": { "name": "Ada" } }, "extra": 1 });
    let buy = |answers: Value| json!({ "name": "buy", "arguments": {}, "inputResponses": answers });
    let mut client = Client::connect(&server(&counts), "2026-07-28", everything()).await;
    // The request has no state.
    client.send("tools/call", buy(ada())).await;
    let asked = client.receive().await;
    assert!(asked["result"]["inputRequests"]["name"].is_object(), "{asked}");
    assert_eq!(counts.effects.load(Ordering::SeqCst), 0);
    // The state proves the question.
    let mut again = buy(ada());
    again["requestState"] = asked["result"]["requestState"].clone();
    client.send("tools/call", again).await;
    assert_eq!(text(&client.receive().await), "ticket 1 for Ada");

    // The state proves the first question and not the second one.
    let steps = |answers: Value| json!({ "name": "steps", "arguments": {}, "inputResponses": answers });
    client.send("tools/call", steps(json!({}))).await;
    let first = client.receive().await;
    let answer = || json!({ "action": "accept", "content": { "name": "a" } });
    let mut both = steps(json!({ "first": answer(), "second": answer() }));
    both["requestState"] = first["result"]["requestState"].clone();
    client.send("tools/call", both).await;
    let second = client.receive().await;
    assert!(second["result"]["inputRequests"]["second"].is_object(), "{second}");
    let mut last = steps(json!({ "second": answer() }));
    last["requestState"] = second["result"]["requestState"].clone();
    client.send("tools/call", last).await;
    assert!(text(&client.receive().await).starts_with("a a "));
}

#[tokio::test]
async fn a_server_can_accept_unasked_answers() {
    let greet = async |inputs: Inputs| -> Result<String, ToolError> {
        Ok(format!("Hello, {}!", inputs.elicit::<Name>("name", "Name?").await?.name))
    };
    let server = Server::builder("asks", "1").accepts_unasked_answers(true).tool(tool("greet", greet)).build();
    let mut client = Client::connect(&server, "2026-07-28", everything()).await;
    let responses = json!({ "name": { "action": "accept", "content": { "name": "Ada" } }, "extra": 1 });
    client.send("tools/call", json!({ "name": "greet", "arguments": {}, "inputResponses": responses })).await;
    assert_eq!(text(&client.receive().await), "Hello, Ada!");
}

#[tokio::test]
async fn the_error_of_a_lost_state_declares_whether_the_call_can_restart() {
    async fn effect_first(inputs: Inputs) -> Result<String, ToolError> {
        let ticket: u8 = inputs.once("buy", async || Ok::<_, ToolError>(1)).await?;
        inputs.confirm("sure", "Sure?").await?;
        Ok(format!("ticket {ticket}"))
    }
    async fn failed_effect_first(inputs: Inputs) -> Result<String, ToolError> {
        let failed = inputs.once("buy", async || Err::<u8, _>(ToolError::new("no"))).await;
        inputs.confirm("sure", "Sure?").await?;
        Ok(failed.map_or_else(|_| "failed".to_owned(), |ticket| ticket.to_string()))
    }
    async fn question_first(inputs: Inputs) -> Result<String, ToolError> {
        inputs.confirm("sure", "Sure?").await?;
        Ok("sure".to_owned())
    }
    let start = |state_bytes: usize, key: u8| {
        Server::builder("asks", "1")
            .limits(|limits| limits.inputs.state_bytes = state_bytes)
            .state_keys(StateKeys::new([[key; 32]]))
            .tool(tool("effect", effect_first))
            .tool(tool("failure", failed_effect_first))
            .tool(tool("question", question_first))
            .build()
    };
    // The second server has another key, or the same key and a store without the state.
    for (state_bytes, key) in [(64 << 10, 2), (0, 1)] {
        for (tool, can_restart) in [("effect", false), ("failure", false), ("question", true)] {
            let mut client = Client::connect(&start(state_bytes, 1), "2026-07-28", everything()).await;
            client.send("tools/call", json!({ "name": tool, "arguments": {} })).await;
            let state = client.receive().await["result"]["requestState"].clone();
            let again = |state: &Value| json!({ "name": tool, "arguments": {}, "requestState": state });
            let mut client = Client::connect(&start(state_bytes, key), "2026-07-28", everything()).await;
            client.send("tools/call", again(&state)).await;
            let response = client.receive().await;
            let data = json!({ "reason": "request_state_expired", "canRestart": can_restart });
            assert_eq!((&response["error"]["code"], &response["error"]["data"]), (&json!(-32602), &data), "{tool}");
            // A text that no server has sealed proves nothing.
            client.send("tools/call", again(&json!("unknown"))).await;
            assert_eq!(client.receive().await["error"]["data"]["canRestart"], false);
        }
    }
}

#[tokio::test]
async fn keeps_a_large_request_state_in_the_store() {
    let server = Server::builder("big", "1")
        .limits(|limits| limits.inputs.state_bytes = 1000)
        .tool(tool("big", async |inputs: Inputs| -> Result<String, ToolError> {
            let kept: String = inputs.remember("kept", || "x".repeat(100_000))?;
            let Name { name } = inputs.elicit("name", "Name?").await?;
            Ok(format!("{name} {}", kept.len()))
        }))
        .build();
    let mut client = Client::connect(&server, "2026-07-28", everything()).await;
    let params = json!({ "name": "big", "arguments": {} });
    client.send("tools/call", params.clone()).await;
    let first = client.receive().await;
    assert!(first["result"]["requestState"].as_str().unwrap().len() < 1000);
    let response = client.tool("big", vec![accept(json!({ "name": "Ada" }))]).await;
    assert_eq!(text(&response), "Ada 100000");
}

#[tokio::test]
async fn sampling_with_tools_requires_the_capability() {
    let four = json!({ "role": "assistant", "content": { "type": "text", "text": "4" }, "model": "m" });
    for version in ["2025-11-25", "2026-07-28"] {
        let mut client = Client::connect(&server(&Counts::default()), version, everything()).await;
        let response = client.tool("reason", vec![]).await;
        assert_eq!(response["error"]["data"]["requiredCapabilities"]["sampling"]["tools"], json!({}), "{response}");
        let able = json!({ "sampling": { "tools": {} } });
        let mut client = Client::connect(&server(&Counts::default()), version, able).await;
        let response = client.tool("reason", vec![("sampling/createMessage", four.clone())]).await;
        assert_eq!(text(&response), "4", "{version}");
        assert_eq!(client.input_requests[0]["params"]["tools"][0]["name"], "t");
    }
}

#[tokio::test]
async fn rejects_a_repeated_key_and_an_input_request_within_a_once_block() {
    let server = Server::builder("misuse", "1")
        .tool(tool("twice", async |inputs: Inputs| -> Result<String, ToolError> {
            let (one, two) = tokio::join!(inputs.elicit::<Name>("k", "One?"), inputs.elicit::<Name>("k", "Two?"));
            Ok(format!("{} {}", one?.name, two?.name))
        }))
        .tool(tool("nested", async |inputs: Inputs| -> Result<String, ToolError> {
            inputs.once("effect", async || inputs.elicit::<Name>("k", "Name?").await.map(|name| name.name)).await
        }))
        .build();
    for version in ALL {
        let mut client = Client::connect(&server, version, everything()).await;
        let response = client.tool("nested", vec![]).await;
        assert_eq!(response["result"]["isError"], true, "{version}: {response}");
        let ada = || accept(json!({ "name": "Ada" }));
        let response = client.tool("twice", vec![ada()]).await;
        assert_eq!(response["result"]["isError"], true, "{version}: {response}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_once_block_fails_the_next_attempt() {
    let started = Arc::new(tokio::sync::Notify::new());
    let starts = started.clone();
    let server = Server::builder("breaks", "1")
        .tool(tool("breaks", move |inputs: Inputs| {
            let starts = starts.clone();
            async move {
                let Name { name } = inputs.elicit("name", "Name?").await?;
                let effect = async || {
                    starts.notify_one();
                    std::future::pending::<Result<String, ToolError>>().await
                };
                inputs.once("effect", effect).await.map(|effect| format!("{name} {effect}"))
            }
        }))
        .build();
    let mut client = Client::connect(&server, "2026-07-28", everything()).await;
    let params = json!({ "name": "breaks", "arguments": {} });
    client.send("tools/call", params.clone()).await;
    let first = client.receive().await;
    let mut again = params;
    again["requestState"] = first["result"]["requestState"].clone();
    again["inputResponses"] = json!({ "name": { "action": "accept", "content": { "name": "Ada" } } });
    let id = client.send("tools/call", again.clone()).await;
    started.notified().await;
    client.transport.cancel(id).await;
    client.send("tools/call", again).await;
    let response = client.receive().await;
    assert!(text(&response).contains("an earlier attempt"), "{response}");
}

#[tokio::test]
async fn a_confirmation_is_true_only_if_the_user_accepts() {
    let delete = async |inputs: Inputs| -> Result<String, ToolError> {
        let first = inputs.confirm("first", "Delete?").await?;
        // The answer of the first question is the same in the next round.
        let second = inputs.confirm("second", "Really?").await?;
        Ok(format!("{first} {second}"))
    };
    let server = Server::builder("t", "1").tool(tool("delete", delete)).build();
    let answer = |action: &str| ("elicitation/create", json!({ "action": action }));
    for version in ALL {
        for (first, second, expected) in [
            (answer("accept"), answer("accept"), "true true"),
            (accept(json!({})), answer("decline"), "true false"),
            (answer("decline"), answer("accept"), "false true"),
            (answer("cancel"), answer("cancel"), "false false"),
        ] {
            let mut client = Client::connect(&server, version, everything()).await;
            let response = client.tool("delete", vec![first, second]).await;
            assert_eq!(text(&response), expected, "{version}");
            let form = client.input_requests[0]["params"]["requestedSchema"].clone();
            assert_eq!(form, json!({ "type": "object", "properties": {} }), "{version}");
        }
        let mut client = Client::connect(&server, version, json!({})).await;
        let response = client.tool("delete", vec![]).await;
        assert_eq!(response["error"]["code"], -32021, "{version}: {response}");
    }
}
