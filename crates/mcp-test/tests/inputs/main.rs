//! Input requests of one handler in every revision and over every transport: as requests of the server in a session, and
//! as input rounds in the stateless era.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_protocol::{CreateMessageParams, SamplingBlock, SamplingMessage};
use mcp_server_core::{
    CallParts, Context, Description, FromCallParts, Inputs, Server, ToolError, prompt, resource, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use self::client::{ALL, Client, accept, everything, setups, text};

mod client;
mod http;
mod request_state;

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
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

#[tokio::test]
async fn an_invalid_answer_repeats_the_input_request_with_the_reason() {
    for setup in setups(&ALL) {
        let mut client = Client::connect(&server(&Counts::default()), setup, everything()).await;
        let response = client.tool("greet", vec![accept(json!({ "name": "Ada" }))]).await;
        assert_eq!(text(&response), "Hello, Ada!", "{setup}");
        let schema = &client.input_requests[0]["params"]["requestedSchema"];
        assert_eq!(schema["properties"]["name"]["type"], "string");
        assert_eq!(schema["required"], json!(["name"]));

        // Twice wrong, then right.
        let answers = vec![accept(json!({ "name": 7 })), accept(json!({})), accept(json!({ "name": "Bo" }))];
        assert_eq!(text(&client.tool("greet", answers).await), "Hello, Bo!", "{setup}");

        let wrong = || accept(json!({ "name": 7 }));
        // The repeated input request contains the reason.
        let messages: Vec<_> = client.input_requests[1..]
            .iter()
            .map(|request| request["params"]["message"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(messages[0], "What is your name?", "{setup}");
        for (message, problem) in [(&messages[1], "expected a string"), (&messages[2], "required")] {
            let reason = message.strip_prefix("What is your name?\n\nThe last answer did not fit: ");
            assert!(
                reason.is_some_and(|reason| reason.contains("name") && reason.contains(problem)),
                "{setup}: {message}"
            );
        }

        let response = client.tool("greet", vec![wrong(), wrong(), wrong()]).await;
        assert_eq!(response["result"]["isError"], true, "{setup}: {response}");
        assert!(text(&response).contains("did not fit"), "{setup}: {response}");
    }
}

#[tokio::test]
async fn rejected_input_requests_fail_alike_in_every_revision() {
    for setup in setups(&ALL) {
        let mut client = Client::connect(&server(&Counts::default()), setup, everything()).await;
        for (action, expected) in [("decline", "the user declined"), ("cancel", "the user cancelled")] {
            let response = client.tool("greet", vec![("elicitation/create", json!({ "action": action }))]).await;
            assert_eq!(response["result"]["isError"], true);
            assert_eq!(text(&response), expected, "{setup}");
        }
        let mut client = Client::connect(&server(&Counts::default()), setup, json!({})).await;
        for (tool, missing) in [("greet", "elicitation"), ("think", "sampling"), ("where", "roots")] {
            let response = client.tool(tool, vec![]).await;
            assert_eq!(response["error"]["code"], -32021, "{setup}: {response}");
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
    for setup in setups(&["2025-11-25", "2026-07-28"]) {
        for (modes, tool, lacks) in [
            (json!({}), "form", None),
            (json!({ "form": {} }), "visit", Some("url")),
            (json!({}), "visit", Some("url")),
            (json!({ "url": {} }), "form", Some("form")),
            (json!({ "url": {} }), "visit", None),
        ] {
            let mut client = Client::connect(&server, setup, json!({ "elicitation": modes })).await;
            let answers = if lacks.is_some() { vec![] } else { vec![accept(json!({ "name": "Ada" }))] };
            let response = client.tool(tool, answers).await;
            if let Some(mode) = lacks {
                let required = &response["error"]["data"]["requiredCapabilities"]["elicitation"];
                assert!(response["error"]["code"] == -32021 && required[mode].is_object(), "{setup}: {response}");
            } else if tool == "visit" {
                assert_eq!(text(&response), "agreed", "{setup}");
                let params = &client.input_requests[0]["params"];
                assert_eq!((&params["mode"], &params["url"]), (&json!("url"), &json!("https://example.com/pay")));
            } else {
                assert_eq!(text(&response), "Ada", "{setup}");
            }
        }
    }
}

#[tokio::test]
async fn concurrent_input_requests_share_one_round() {
    for setup in setups(&ALL) {
        let mut client = Client::connect(&server(&Counts::default()), setup, everything()).await;
        let mut answers = vec![accept(json!({ "age": 36 })), accept(json!({ "name": "Ada" }))];
        if client.is_legacy() {
            // Requests are in the order of the calls, rounds in the order of their keys.
            answers.reverse();
        }
        assert_eq!(text(&client.tool("two", answers.clone()).await), "Ada is 36", "{setup}");
        assert_eq!(client.input_requests.len(), 2);
        if client.is_legacy() {
            // No question has the id of another one, in a later call either.
            client.tool("two", answers).await;
            let ids: std::collections::HashSet<_> =
                client.input_requests.iter().map(|request| request["id"].to_string()).collect();
            assert_eq!(ids.len(), 4, "{setup}: {ids:?}");
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
    for setup in setups(&ALL) {
        let mut client = Client::connect(&server, setup, everything()).await;
        let answers = (1..=3).map(|age| accept(json!({ "age": age }))).collect();
        assert_eq!(text(&client.tool("all", answers).await), "1 2 3", "{setup}");
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
    for setup in setups(&ALL) {
        let mut client = Client::connect(&server, setup, everything()).await;
        let ada = accept(json!({ "name": "Ada" }));
        assert_eq!(text(&client.tool("tells", vec![ada]).await), "Ada", "{setup}");
        let response = client.tool("hides", vec![]).await;
        assert_eq!(response["error"]["code"], -32603, "{setup}: {response}");
    }
}

#[tokio::test]
async fn input_rounds_repeat_the_handler_with_the_remembered_values() {
    for setup in setups(&ALL) {
        let counts = Counts::default();
        let mut client = Client::connect(&server(&counts), setup, everything()).await;
        let answers = vec![accept(json!({ "name": "a" })), accept(json!({ "name": "b" }))];
        let response = client.tool("steps", answers).await;
        // The choice is remembered from the run with the first answer.
        let (runs, choice) = if client.is_legacy() { (1, 1) } else { (3, 2) };
        assert_eq!(text(&response), format!("a b {choice}"), "{setup}");
        assert_eq!(counts.runs.load(Ordering::SeqCst), runs, "{setup}");
    }
}

#[tokio::test]
async fn sends_sampling_and_roots_requests() {
    for setup in setups(&ALL) {
        let mut client = Client::connect(&server(&Counts::default()), setup, everything()).await;
        let four = json!({ "role": "assistant", "content": { "type": "text", "text": "4" }, "model": "m" });
        assert_eq!(text(&client.tool("think", vec![("sampling/createMessage", four)]).await), "4", "{setup}");
        let roots = json!({ "roots": [{ "uri": "file:///a" }, { "uri": "file:///b", "name": "b" }] });
        assert_eq!(text(&client.tool("where", vec![("roots/list", roots)]).await), "file:///a file:///b", "{setup}");
    }
}

#[tokio::test]
async fn prompts_and_resources_send_input_requests() {
    for setup in setups(&ALL) {
        let mut client = Client::connect(&server(&Counts::default()), setup, everything()).await;
        let ada = || vec![accept(json!({ "name": "Ada" }))];
        let response = client.call("prompts/get", json!({ "name": "intro" }), ada()).await;
        assert_eq!(response["result"]["messages"][0]["content"]["text"], "Introduce Ada", "{setup}: {response}");
        let response = client.call("resources/read", json!({ "uri": "test://secret" }), ada()).await;
        assert_eq!(response["result"]["contents"][0]["text"], "for Ada", "{setup}: {response}");
    }
}

#[tokio::test]
async fn an_error_of_the_client_reaches_the_handler() {
    let refusal = json!({ "code": -1, "message": "User rejected sampling request" });
    for setup in setups(&["2025-06-18", "2025-11-25"]) {
        let mut client = Client::connect(&server(&Counts::default()), setup, everything()).await;
        let response = client.tool("think", vec![("sampling/createMessage", refusal.clone())]).await;
        assert_eq!(response["result"]["isError"], true);
        assert!(text(&response).contains("User rejected"), "{response}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_input_request_times_out_and_is_cancelled() {
    for setup in setups(&["2025-11-25"]) {
        let mut client = Client::connect(&server(&Counts::default()), setup, everything()).await;
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
}

#[tokio::test(start_paused = true)]
async fn waiting_for_an_answer_does_not_count_towards_the_timeout() {
    for setup in setups(&["2025-11-25"]) {
        let mut client = Client::connect(&server(&Counts::default()), setup, everything()).await;
        client.send("tools/call", json!({ "name": "greet", "arguments": {} })).await;
        let input_request = client.receive().await;
        tokio::time::sleep(Duration::from_secs(300)).await;
        let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
        client.write(json!({ "jsonrpc": "2.0", "id": input_request["id"], "result": answer })).await;
        assert_eq!(text(&client.receive().await), "Hello, Ada!");
    }
}

#[tokio::test]
async fn sampling_with_tools_requires_the_capability() {
    let four = json!({ "role": "assistant", "content": { "type": "text", "text": "4" }, "model": "m" });
    for setup in setups(&["2025-11-25", "2026-07-28"]) {
        let mut client = Client::connect(&server(&Counts::default()), setup, everything()).await;
        let response = client.tool("reason", vec![]).await;
        assert_eq!(response["error"]["data"]["requiredCapabilities"]["sampling"]["tools"], json!({}), "{response}");
        let able = json!({ "sampling": { "tools": {} } });
        let mut client = Client::connect(&server(&Counts::default()), setup, able).await;
        let response = client.tool("reason", vec![("sampling/createMessage", four.clone())]).await;
        assert_eq!(text(&response), "4", "{setup}");
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
    for setup in setups(&ALL) {
        let mut client = Client::connect(&server, setup, everything()).await;
        let response = client.tool("nested", vec![]).await;
        assert_eq!(response["result"]["isError"], true, "{setup}: {response}");
        let ada = || accept(json!({ "name": "Ada" }));
        let response = client.tool("twice", vec![ada()]).await;
        assert_eq!(response["result"]["isError"], true, "{setup}: {response}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_once_block_fails_the_next_attempt() {
    for setup in setups(&["2026-07-28"]) {
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
        let mut client = Client::connect(&server, setup, everything()).await;
        let params = json!({ "name": "breaks", "arguments": {} });
        client.send("tools/call", params.clone()).await;
        let first = client.receive().await;
        let mut again = params;
        again["requestState"] = first["result"]["requestState"].clone();
        again["inputResponses"] = json!({ "name": { "action": "accept", "content": { "name": "Ada" } } });
        let id = client.send("tools/call", again.clone()).await;
        started.notified().await;
        client.cancel(id).await;
        client.send("tools/call", again).await;
        let response = client.receive().await;
        assert!(text(&response).contains("an earlier attempt"), "{response}");
    }
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
    for setup in setups(&ALL) {
        for (first, second, expected) in [
            (answer("accept"), answer("accept"), "true true"),
            (accept(json!({})), answer("decline"), "true false"),
            (answer("decline"), answer("accept"), "false true"),
            (answer("cancel"), answer("cancel"), "false false"),
        ] {
            let mut client = Client::connect(&server, setup, everything()).await;
            let response = client.tool("delete", vec![first, second]).await;
            assert_eq!(text(&response), expected, "{setup}");
            let form = client.input_requests[0]["params"]["requestedSchema"].clone();
            assert_eq!(form, json!({ "type": "object", "properties": {} }), "{setup}");
        }
        let mut client = Client::connect(&server, setup, json!({})).await;
        let response = client.tool("delete", vec![]).await;
        assert_eq!(response["error"]["code"], -32021, "{setup}: {response}");
    }
}
