//! Completion of prompt arguments and template variables.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use crate::json_client::{Client, code_and_text};
use mcp_protocol::{Completion, PromptArgument, ProtocolVersion};
use mcp_server_core::{Completing, Server, State, ToolError, prompt, resource, template, tool};
use serde_json::{Value, json};

fn many(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("v{n}")).collect()
}

fn server() -> Server {
    let arguments = ["lang", "seen", "many", "hundred", "pushed", "more", "fails", "panics", "state", "none"];
    Server::builder("t", "1")
        .prompt(
            prompt("p", async || "x")
                .arguments(arguments.map(PromptArgument::new))
                .complete_from("lang", ["rust", "ruby", "python", "Rust"])
                .complete("seen", async |completing: Completing| {
                    let context: Vec<_> =
                        completing.context.iter().map(|(name, value)| format!("{name}={value}")).collect();
                    vec![completing.argument, completing.value, context.join(" ")]
                })
                .complete("many", async || many(150))
                .complete("hundred", async || many(100))
                .complete("pushed", async || {
                    let mut completion = Completion::default();
                    completion.values = many(101);
                    completion
                })
                .complete("more", async || {
                    let mut completion = Completion::new(["a"]);
                    completion.total = Some(12);
                    completion.has_more = Some(true);
                    completion
                })
                .complete("fails", async || -> Result<Vec<String>, ToolError> {
                    "secret".parse::<u8>()?;
                    Ok(vec![])
                })
                .complete("panics", async || -> Vec<String> { panic!("secret") })
                .complete("state", async |State(values): State<Vec<&'static str>>| values),
        )
        .prompt(prompt("bare", async || "x").arguments([PromptArgument::new("a")]))
        .resource(resource("a:r", async || "x"))
        .resource_template(template("a://{city}/{street}", async || "x").complete_from("city", ["Bern", "Basel"]))
        .with_state(vec!["one", "two"])
        .build()
}

fn of(reference: Value, name: &str, value: &str) -> Value {
    json!({ "ref": reference, "argument": { "name": name, "value": value } })
}

fn of_prompt(argument: &str, value: &str) -> Value {
    of(json!({ "type": "ref/prompt", "name": "p" }), argument, value)
}

fn of_template(variable: &str, value: &str) -> Value {
    of(json!({ "type": "ref/resource", "uri": "a://{city}/{street}" }), variable, value)
}

#[tokio::test]
async fn completes_from_lists_and_handlers_in_every_revision() {
    let server = server();
    for &version in ProtocolVersion::ALL {
        let mut client = Client::connect(&server, version).await;
        for (params, values) in [
            (of_prompt("lang", ""), json!(["rust", "ruby", "python", "Rust"])),
            (of_prompt("lang", "ru"), json!(["rust", "ruby"])),
            (of_prompt("lang", "ython"), json!([])),
            (of_prompt("seen", "par"), json!(["seen", "par", ""])),
            (of_prompt("state", ""), json!(["one", "two"])),
            (of_template("city", "Be"), json!(["Bern"])),
        ] {
            let result = client.result("completion/complete", params.clone()).await;
            let completion = &result["completion"];
            let total = values.as_array().unwrap().len();
            assert_eq!(
                *completion,
                json!({ "values": values, "total": total, "hasMore": false }),
                "{version} {params}"
            );
        }
        if version.has_completions_capability() {
            assert_eq!(client.opening["capabilities"]["completions"], json!({}), "{version}");
        }
    }
}

#[tokio::test]
async fn passes_known_arguments_to_the_handler() {
    let server = server();
    for &version in ProtocolVersion::ALL {
        let mut client = Client::connect(&server, version).await;
        let mut params = of_prompt("seen", "p");
        params["context"] = json!({ "arguments": { "lang": "rust", "a": "1" } });
        let result = client.result("completion/complete", params).await;
        assert_eq!(result["completion"]["values"][2], "a=1 lang=rust", "{version}");
        for wrong in [json!({ "arguments": { "a": 1 } }), json!({ "arguments": ["a"] }), json!("x")] {
            let mut params = of_prompt("seen", "p");
            params["context"] = wrong.clone();
            assert_eq!(client.error("completion/complete", params).await["code"], -32602, "{version} {wrong}");
        }
    }
}

#[tokio::test]
async fn sends_at_most_a_hundred_values_and_the_total() {
    let mut client = Client::connect(&server(), ProtocolVersion::LATEST).await;
    for (argument, sent, total, has_more) in
        [("many", 100, 150, true), ("hundred", 100, 100, false), ("pushed", 100, 101, true), ("more", 1, 12, true)]
    {
        let result = client.result("completion/complete", of_prompt(argument, "")).await;
        let completion = &result["completion"];
        assert_eq!(completion["values"].as_array().unwrap().len(), sent, "{argument}");
        assert_eq!((&completion["total"], &completion["hasMore"]), (&json!(total), &json!(has_more)), "{argument}");
        assert!(completion["values"].as_array().unwrap().iter().all(Value::is_string));
    }
}

#[tokio::test]
async fn a_known_argument_without_a_source_is_empty_and_an_unknown_one_is_an_error() {
    let server = server();
    let prompt = |name: &str| of(json!({ "type": "ref/prompt", "name": name }), "a", "");
    let uri = |uri: &str| of(json!({ "type": "ref/resource", "uri": uri }), "a", "");
    for &version in ProtocolVersion::ALL {
        let mut client = Client::connect(&server, version).await;
        for params in [of_prompt("none", ""), prompt("bare"), of_template("street", ""), uri("a:r")] {
            let result = client.result("completion/complete", params.clone()).await;
            let expected = json!({ "values": [], "total": 0, "hasMore": false });
            assert_eq!(result["completion"], expected, "{version} {params}");
        }
        for params in [
            prompt("nope"),
            uri("a://{x}"),
            of(json!({ "type": "ref/tool", "name": "p" }), "a", ""),
            of(json!({ "name": "p" }), "a", ""),
            of(json!(null), "a", ""),
            json!({ "ref": { "type": "ref/prompt", "name": "p" } }),
            json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": "lang" } }),
            json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": "lang", "value": 1 } }),
        ] {
            let error = client.error("completion/complete", params.clone()).await;
            assert_eq!(error["code"], -32602, "{version} {params}");
        }
        for (params, expected_text) in [
            (of_prompt("not an argument", ""), "the prompt `p` has no argument `not an argument` to complete"),
            (of_template("planet", ""), "the template `a://{city}/{street}` has no argument `planet` to complete"),
            (prompt("nope"), "Unknown prompt: nope"),
            (uri("a://{x}"), "Unknown resource template"),
        ] {
            let error = client.error("completion/complete", params.clone()).await;
            assert_eq!(code_and_text(&error), (-32602, expected_text), "{version} {params}");
        }
    }
}

#[tokio::test]
async fn an_error_of_a_completion_discloses_no_details() {
    let mut client = Client::connect(&server(), ProtocolVersion::LATEST).await;
    for argument in ["fails", "panics"] {
        let error = client.error("completion/complete", of_prompt(argument, "")).await;
        let (code, text) = code_and_text(&error);
        assert_eq!(code, -32603);
        assert!(text.contains("reference") && !text.contains("secret") && !text.contains("digit"), "{text}");
    }
    client.result("completion/complete", of_prompt("lang", "")).await;
}

#[tokio::test]
async fn a_server_without_completions_does_not_declare_them() {
    let server =
        Server::builder("t", "1").prompt(prompt("p", async || "x").arguments([PromptArgument::new("lang")])).build();
    for &version in ProtocolVersion::ALL {
        let mut client = Client::connect(&server, version).await;
        assert!(client.opening["capabilities"].get("completions").is_none(), "{version}");
        assert_eq!(client.error("completion/complete", of_prompt("lang", "")).await["code"], -32601, "{version}");
    }
    let later = prompt("q", async || "x").arguments([PromptArgument::new("a")]).complete_from("a", ["b"]);
    server.prompts().add(later).unwrap();
    let mut client = Client::connect(&server, ProtocolVersion::LATEST).await;
    assert_eq!(client.opening["capabilities"]["completions"], json!({}));
    let params = of(json!({ "type": "ref/prompt", "name": "q" }), "a", "");
    assert_eq!(client.result("completion/complete", params.clone()).await["completion"]["values"], json!(["b"]));
    // A declared capability stays declared.
    assert!(server.prompts().remove("q"));
    assert_eq!(client.error("completion/complete", params).await["code"], -32602);
}

#[tokio::test]
async fn completions_count_towards_the_limit_of_running_calls() {
    let server = Server::builder("t", "1")
        .limits(|limits| limits.handlers = 1)
        .tool(tool("hold", std::future::pending::<String>))
        .prompt(prompt("p", async || "x").arguments([PromptArgument::new("lang")]).complete_from("lang", ["rust"]))
        .build();
    let mut client = Client::connect(&server, ProtocolVersion::LATEST).await;
    client.result("completion/complete", of_prompt("lang", "")).await;
    // The other call has its place when it was polled once.
    let mut other = std::pin::pin!(server.call_tool("hold", json!({})));
    std::future::poll_fn(|cx| std::task::Poll::Ready(other.as_mut().poll(cx).is_pending())).await;
    let error = client.error("completion/complete", of_prompt("lang", "")).await;
    let (code, text) = code_and_text(&error);
    assert!(code == -32603 && text.starts_with("busy"), "{error}");
    client.list("prompts/list", "prompts").await;
}
