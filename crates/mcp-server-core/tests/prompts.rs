//! Prompts: messages that a handler writes, and messages that are templates.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use crate::json_client::{Client, code_and_text};
use mcp_protocol::{
    ContentBlock, GetPromptResult, PromptArgument, PromptMessage, ProtocolVersion, Resource, ResourceContents, Role,
    RpcError,
};
use mcp_server_core::{Args, MessageTemplate, PromptRoute, RawArgs, Server, ToolError, prompt, prompt_template};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Review code.
#[derive(Deserialize, JsonSchema)]
struct Review {
    /// The code.
    code: String,
    /// Where to look.
    focus: Option<Focus>,
    #[serde(default)]
    depth: u8,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Focus {
    Speed,
    Safety,
}

async fn review(Args(review): Args<Review>) -> String {
    let focus = match review.focus {
        Some(Focus::Speed) => "speed",
        Some(Focus::Safety) => "safety",
        None => "all",
    };
    format!("{} {focus} {}", review.code, review.depth)
}

async fn get(route: PromptRoute, arguments: &[(&str, &str)]) -> Result<Value, RpcError> {
    let server = Server::builder("t", "1").prompt(route).build();
    let name = server.prompts().names().remove(0);
    let result = server.get_prompt(&name, arguments.iter().copied()).await?;
    Ok(serde_json::to_value(result).unwrap())
}

fn message(role: &str, text: &str) -> Value {
    json!({ "role": role, "content": { "type": "text", "text": text } })
}

#[tokio::test]
async fn a_handler_defines_its_arguments() {
    let server = Server::builder("t", "1").prompt(prompt("review", review)).build();
    let mut client = Client::connect(&server, ProtocolVersion::LATEST).await;
    let listed = client.list("prompts/list", "prompts").await;
    let expected = json!({
        "name": "review", "description": "Review code.",
        "arguments": [
            { "name": "code", "description": "The code.", "required": true },
            { "name": "depth", "required": false },
            { "name": "focus", "description": "Where to look.", "required": false },
        ]
    });
    let mut got = listed[0].clone();
    got["arguments"].as_array_mut().unwrap().sort_by_key(|argument| argument["name"].to_string());
    assert_eq!(got, expected);
    let result = client.result("prompts/get", json!({ "name": "review", "arguments": { "code": "x" } })).await;
    assert_eq!(result["description"], "Review code.");
}

#[tokio::test]
async fn converts_string_arguments_to_types() {
    for (arguments, expected_text) in [
        (&[("code", "x")][..], "x all 0"),
        (&[("code", "x"), ("focus", "speed"), ("depth", "7")], "x speed 7"),
        (&[("code", ""), ("other", "is ignored")], " all 0"),
    ] {
        let result = get(prompt("review", review), arguments).await.unwrap();
        assert_eq!(result["messages"], json!([message("user", expected_text)]));
    }
    for (arguments, expected_text) in [
        (&[][..], "the prompt `review` needs the arguments: code"),
        (&[("focus", "speed")], "the prompt `review` needs the arguments: code"),
        (&[("code", "x"), ("depth", "deep")], "\"deep\" is not an integer"),
        (&[("code", "x"), ("focus", "beauty")], "unknown variant `beauty`"),
    ] {
        let error = get(prompt("review", review), arguments).await.unwrap_err();
        assert_eq!(error.code.0, -32602);
        assert!(error.message.contains(expected_text), "{}", error.message);
    }
}

#[tokio::test]
async fn unknown_prompts_and_missing_arguments_are_invalid_params_in_every_revision() {
    let both = [PromptArgument::new("a").required(), PromptArgument::new("b").required(), PromptArgument::new("c")];
    let server = Server::builder("t", "1")
        .prompt(prompt("needs", async |RawArgs(args): RawArgs| json!(args).to_string()).arguments(both))
        .prompt(prompt("bare", async || "x"))
        .build();
    for &version in ProtocolVersion::ALL {
        let mut client = Client::connect(&server, version).await;
        for (params, expected_text) in [
            (json!({ "name": "nope" }), "Unknown prompt: nope"),
            (json!({ "name": "needs" }), "needs the arguments: a, b"),
            (json!({ "name": "needs", "arguments": {} }), "needs the arguments: a, b"),
            (json!({ "name": "needs", "arguments": { "b": "" } }), "needs the arguments: a"),
            (json!({ "name": "needs", "arguments": { "a": 1, "b": "" } }), ""),
            (json!({ "name": "needs", "arguments": [] }), ""),
            (json!({}), ""),
        ] {
            let error = client.error("prompts/get", params.clone()).await;
            let (code, text) = code_and_text(&error);
            assert!(code == -32602 && text.contains(expected_text), "{version} {params}: {error}");
        }
        let result = client.result("prompts/get", json!({ "name": "bare" })).await;
        assert_eq!(result["messages"], json!([message("user", "x")]), "{version}");
        let params = json!({ "name": "needs", "arguments": { "a": "1", "b": "" } });
        let result = client.result("prompts/get", params).await;
        assert_eq!(result["messages"], json!([message("user", r#"{"a":"1","b":""}"#)]), "{version}");
    }
}

#[tokio::test]
async fn returns_every_form_of_messages() {
    let one = json!([message("user", "x")]);
    let both = json!([message("user", "x"), message("assistant", "y")]);
    let pair = || vec![PromptMessage::user("x"), PromptMessage::assistant("y")];
    for (what, route, expected) in [
        ("text", prompt("p", async || "x"), &one),
        ("owned text", prompt("p", async || String::from("x")), &one),
        ("a message", prompt("p", async || PromptMessage::user("x")), &one),
        ("messages", prompt("p", async move || pair()), &both),
        ("a result", prompt("p", async move || Ok::<_, ToolError>(pair())), &both),
        ("a full result", prompt("p", async move || GetPromptResult::new(pair())), &both),
    ] {
        assert_eq!(get(route, &[]).await.unwrap()["messages"], *expected, "{what}");
    }
    let described = async || GetPromptResult::new(vec![]).with_description("now");
    assert_eq!(get(prompt("p", described).description("then"), &[]).await.unwrap()["description"], "now");
    assert_eq!(get(prompt("p", async || "x").description("then"), &[]).await.unwrap()["description"], "then");
}

#[tokio::test]
async fn returns_every_type_of_content() {
    let blocks = || {
        [
            ContentBlock::image([0xfb, 0xff], "image/png"),
            ContentBlock::audio([0], "audio/wav"),
            ContentBlock::resource_link(Resource::new("a:b", "b")),
            ContentBlock::resource(ResourceContents::blob("a:b", [0xff]).with_mime_type("x/y")),
        ]
    };
    let expected = json!([
        { "type": "image", "data": "+/8=", "mimeType": "image/png" },
        { "type": "audio", "data": "AA==", "mimeType": "audio/wav" },
        { "type": "resource_link", "uri": "a:b", "name": "b" },
        { "type": "resource", "resource": { "uri": "a:b", "mimeType": "x/y", "blob": "/w==" } },
    ]);
    let written = async move || blocks().map(PromptMessage::user).to_vec();
    let declared = blocks().map(|block| MessageTemplate::content(Role::User, block));
    for route in [prompt("p", written), prompt_template("p", declared)] {
        let result = get(route, &[]).await.unwrap();
        let contents: Vec<_> = result["messages"].as_array().unwrap().iter().map(|m| m["content"].clone()).collect();
        assert_eq!(json!(contents), expected);
    }
}

#[tokio::test]
async fn declares_prompts_without_a_handler() {
    let route = || {
        prompt_template(
            "review",
            [
                MessageTemplate::user("Review this {language} code:{?focus? Look at {focus}.}\n{code}"),
                MessageTemplate::assistant("{?polite?With pleasure. }Here it is, in {language}:"),
            ],
        )
    };
    let server = Server::builder("t", "1").prompt(route()).build();
    let mut client = Client::connect(&server, ProtocolVersion::LATEST).await;
    let listed = client.list("prompts/list", "prompts").await;
    let mut arguments: Vec<_> = listed[0]["arguments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| (a["name"].as_str().unwrap().to_owned(), a["required"].as_bool().unwrap()))
        .collect();
    arguments.sort();
    let expected = [("code", true), ("focus", false), ("language", true), ("polite", false)];
    assert_eq!(arguments, expected.map(|(name, required)| (name.to_owned(), required)));
    for (arguments, user, assistant) in [
        (&[("language", "Rust"), ("code", "{x}")][..], "Review this Rust code:\n{x}", "Here it is, in Rust:"),
        (
            &[("language", "C"), ("code", "1"), ("focus", "speed"), ("polite", "yes")],
            "Review this C code: Look at speed.\n1",
            "With pleasure. Here it is, in C:",
        ),
        (&[("language", "C"), ("code", "1"), ("focus", "")], "Review this C code:\n1", "Here it is, in C:"),
    ] {
        let result = get(route(), arguments).await.unwrap();
        assert_eq!(result["messages"], json!([message("user", user), message("assistant", assistant)]));
    }
    let error = get(route(), &[("focus", "x")]).await.unwrap_err();
    assert_eq!(error.message, "the prompt `review` needs the arguments: language, code");
    let named = route().arguments([PromptArgument::new("language"), PromptArgument::new("code")]);
    let result = get(named, &[]).await.unwrap();
    assert_eq!(result["messages"][0], message("user", "Review this  code:\n"), "arguments can be made optional");
}

#[tokio::test]
async fn an_error_of_a_prompt_discloses_no_details() {
    let fails = async || -> Result<String, ToolError> { Ok("secret".parse::<u8>()?.to_string()) };
    for route in [prompt("p", fails), prompt("p", async || -> String { panic!("secret") })] {
        let error = get(route, &[]).await.unwrap_err();
        assert_eq!(error.code.0, -32603);
        assert!(error.message.contains("reference") && !error.message.contains("digit"), "{}", error.message);
        assert!(!error.message.contains("secret"), "{}", error.message);
    }
}

/// A deliberate error of a prompt is about its arguments. Other failures are not.
#[tokio::test]
async fn a_deliberate_error_of_a_prompt_is_an_error_of_its_arguments() {
    async fn fails(RawArgs(arguments): RawArgs) -> Result<String, ToolError> {
        match arguments.get("how").and_then(Value::as_str) {
            Some("text") => Err(ToolError::new("there is no city Atlantis")),
            Some("fault") => Err(std::io::Error::other("secret").into()),
            Some("protocol") => Err(ToolError::protocol(RpcError::internal("x"))),
            _ => panic!("secret"),
        }
    }
    let server = Server::builder("t", "1").prompt(prompt("p", fails).arguments([PromptArgument::new("how")])).build();
    for &version in ProtocolVersion::ALL {
        let mut client = Client::connect(&server, version).await;
        for (how, code) in [("text", -32602), ("fault", -32603), ("protocol", -32603), ("panic", -32603)] {
            let error = client.error("prompts/get", json!({ "name": "p", "arguments": { "how": how } })).await;
            assert_eq!(error["code"], code, "{version} {how}: {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
            assert!(how != "text" || error["message"] == "there is no city Atlantis", "{error}");
        }
    }
}
