//! The request state of the stateless era: its binding, its proof of the questions, and its store.

use std::sync::atomic::Ordering;

use mcp_server_core::{Inputs, Server, StateKeys, ToolError, tool};
use serde_json::{Value, json};

use crate::{
    Counts, Name,
    client::{Client, accept, everything, setups, text},
    server,
};

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
    for setup in setups(&["2026-07-28"]) {
        let counts = Counts::default();
        let mut client = Client::connect(&server(&counts), setup, everything()).await;
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
}

#[tokio::test]
async fn rejects_the_request_state_of_another_request() {
    for setup in setups(&["2026-07-28"]) {
        let counts = Counts::default();
        let mut client = Client::connect(&server(&counts), setup, everything()).await;
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
            client.write_text(message).await;
            let response = client.receive().await;
            assert!(response["error"]["code"].is_i64(), "{junk}: {response}");
        }
        // Another server has other keys.
        let mut other_server = Client::connect(&server(&counts), setup, everything()).await;
        other_server.send("tools/call", good.clone()).await;
        assert_eq!(other_server.receive().await["error"]["code"], -32602);
        assert_eq!(counts.effects.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn missing_and_unknown_answers_repeat_the_input_request() {
    for setup in setups(&["2026-07-28"]) {
        let mut client = Client::connect(&server(&Counts::default()), setup, everything()).await;
        for responses in [json!({ "wrong": { "action": "accept" } }), Value::Null, json!({})] {
            let params = json!({ "name": "greet", "arguments": {}, "inputResponses": responses });
            client.send("tools/call", params).await;
            let response = client.receive().await;
            assert_eq!(response["result"]["resultType"], "input_required", "{response}");
            assert!(response["result"]["inputRequests"]["name"].is_object());
        }
    }
}

#[tokio::test]
async fn an_answer_without_a_proof_of_its_question_repeats_the_question() {
    for setup in setups(&["2026-07-28"]) {
        let counts = Counts::default();
        let ada = || json!({ "name": { "action": "accept", "content": { "name": "Ada" } }, "extra": 1 });
        let buy = |answers: Value| json!({ "name": "buy", "arguments": {}, "inputResponses": answers });
        let mut client = Client::connect(&server(&counts), setup, everything()).await;
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
}

#[tokio::test]
async fn a_server_can_accept_unsolicited_answers() {
    for setup in setups(&["2026-07-28"]) {
        let greet = async |inputs: Inputs| -> Result<String, ToolError> {
            Ok(format!("Hello, {}!", inputs.elicit::<Name>("name", "Name?").await?.name))
        };
        let server = Server::builder("asks", "1").accept_unsolicited_answers().tool(tool("greet", greet)).build();
        let mut client = Client::connect(&server, setup, everything()).await;
        let responses = json!({ "name": { "action": "accept", "content": { "name": "Ada" } }, "extra": 1 });
        client.send("tools/call", json!({ "name": "greet", "arguments": {}, "inputResponses": responses })).await;
        assert_eq!(text(&client.receive().await), "Hello, Ada!");
    }
}

#[tokio::test]
async fn the_error_of_a_lost_state_declares_whether_the_call_can_restart() {
    for setup in setups(&["2026-07-28"]) {
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
                let mut client = Client::connect(&start(state_bytes, 1), setup, everything()).await;
                client.send("tools/call", json!({ "name": tool, "arguments": {} })).await;
                let state = client.receive().await["result"]["requestState"].clone();
                let again = |state: &Value| json!({ "name": tool, "arguments": {}, "requestState": state });
                let mut client = Client::connect(&start(state_bytes, key), setup, everything()).await;
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
}

#[tokio::test]
async fn keeps_a_large_request_state_in_the_store() {
    for setup in setups(&["2026-07-28"]) {
        let server = Server::builder("big", "1")
            .limits(|limits| limits.inputs.state_bytes = 1000)
            .tool(tool("big", async |inputs: Inputs| -> Result<String, ToolError> {
                let kept: String = inputs.remember("kept", || "x".repeat(100_000))?;
                let Name { name } = inputs.elicit("name", "Name?").await?;
                Ok(format!("{name} {}", kept.len()))
            }))
            .build();
        let mut client = Client::connect(&server, setup, everything()).await;
        let params = json!({ "name": "big", "arguments": {} });
        client.send("tools/call", params.clone()).await;
        let first = client.receive().await;
        assert!(first["result"]["requestState"].as_str().unwrap().len() < 1000);
        let response = client.tool("big", vec![accept(json!({ "name": "Ada" }))]).await;
        assert_eq!(text(&response), "Ada 100000");
    }
}
