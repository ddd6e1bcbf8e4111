//! Return values of tools and their form in messages.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use crate::json_client;
use std::io;

use mcp_protocol::{
    Annotations, CallToolResult, ContentBlock, EmbeddedResource, ErrorCode, Meta, ProtocolVersion, Resource,
    ResourceContents, Role, RpcError, TextContent,
};
use mcp_server_core::{Audio, Image, Json, Server, Structured, ToolError, ToolRoute, Visible, WithMeta, tool};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

/// Calls the one tool of a server, without a transport.
async fn call(route: ToolRoute) -> Result<Value, RpcError> {
    let server = Server::builder("t", "1").tool(route).build();
    let name = server.tools().names().remove(0);
    server.call_tool(&name, json!({})).await.map(|result| serde_json::to_value(result).unwrap())
}

async fn check(what: &str, route: ToolRoute, expected: Value) {
    assert_eq!(call(route).await.unwrap(), expected, "{what}");
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

#[tokio::test]
async fn plain_values_become_content_blocks() {
    let one = |block: Value| json!({ "content": [block] });
    check("text", tool("t", async || "a".to_owned()), one(text("a"))).await;
    check("static text", tool("t", async || "a"), one(text("a"))).await;
    check("a JSON value", tool("t", async || json!({ "a": [1, null] })), one(text(r#"{"a":[1,null]}"#))).await;
    check("nothing", tool("t", async || {}), json!({ "content": [] })).await;
    let image = json!({ "type": "image", "data": "+/8=", "mimeType": "image/png" });
    check("an image", tool("t", async || Image::png([0xfb, 0xff])), one(image)).await;
    let image = json!({ "type": "image", "data": "/w==", "mimeType": "image/webp" });
    check("another image", tool("t", async || Image::new([0xff], "image/webp")), one(image)).await;
    let audio = json!({ "type": "audio", "data": "AAE=", "mimeType": "audio/wav" });
    check("audio", tool("t", async || Audio::new([0, 1], "audio/wav")), one(audio)).await;
    let embedded = json!({ "type": "resource", "resource": { "uri": "a:b", "mimeType": "text/plain", "text": "x" } });
    let contents = async || ResourceContents::text("a:b", "x").with_mime_type("text/plain");
    check("embedded text", tool("t", contents), one(embedded)).await;
    let embedded = json!({ "type": "resource", "resource": { "uri": "a:b", "blob": "/w==" } });
    check("embedded bytes", tool("t", async || ResourceContents::blob("a:b", [0xff])), one(embedded)).await;
    let link =
        json!({ "type": "resource_link", "uri": "a:b", "name": "b", "title": "B", "mimeType": "m/t", "size": 3 });
    let linked = async || Resource::new("a:b", "b").with_title("B").with_mime_type("m/t").with_size(3);
    check("a link", tool("t", linked), one(link)).await;
}

#[tokio::test]
async fn lists_and_tuples_become_several_content_blocks() {
    let two = json!({ "content": [text("a"), text("b")] });
    check("a list of texts", tool("t", async || vec!["a", "b"]), two.clone()).await;
    check("a list of blocks", tool("t", async || vec![ContentBlock::text("a"), ContentBlock::text("b")]), two.clone())
        .await;
    check("an empty list", tool("t", async || Vec::<String>::new()), json!({ "content": [] })).await;
    check("a pair", tool("t", async || ("a", String::from("b"))), two).await;
    let mixed = async || ("a", Image::png([0]), Audio::new([0], "audio/wav"), Resource::new("a:b", "b"));
    let expected = json!({ "content": [
        text("a"),
        { "type": "image", "data": "AA==", "mimeType": "image/png" },
        { "type": "audio", "data": "AA==", "mimeType": "audio/wav" },
        { "type": "resource_link", "uri": "a:b", "name": "b" },
    ] });
    check("four of different types", tool("t", mixed), expected).await;
    check("three", tool("t", async || ("a", "b", json!(1))), json!({ "content": [text("a"), text("b"), text("1")] }))
        .await;
}

#[tokio::test]
async fn typed_values_become_structured_content_and_text() {
    let expected = json!({ "content": [text(r#"{"sum":3}"#)], "structuredContent": { "sum": 3 } });
    check("Json", tool("t", async || Json(Sum { sum: 3 })), expected).await;
    let list = json!({ "content": [text("[1,2]")], "structuredContent": [1, 2] });
    check("Json of a list", tool("t", async || Json(vec![1, 2])), list).await;
    let own = async || Structured { data: Sum { sum: 3 }, content: vec![ContentBlock::text("three")] };
    let expected = json!({ "content": [text("three")], "structuredContent": { "sum": 3 } });
    check("Structured", tool("t", own), expected).await;
}

#[tokio::test]
async fn null_is_structured_content_and_unit_is_not() {
    check(
        "null",
        tool("t", async || Json(None::<Sum>)),
        json!({ "content": [text("null")], "structuredContent": null }),
    )
    .await;
    let result = call(tool("t", async || CallToolResult::text("x"))).await.unwrap();
    assert!(result.get("structuredContent").is_none(), "{result}");
}

#[tokio::test]
async fn metadata_accompanies_any_result_and_is_omitted_when_empty() {
    let meta = || Meta::new().with("example.com/trace", 7);
    let expected = json!({ "content": [text("a")], "_meta": { "example.com/trace": 7 } });
    check("text", tool("t", async move || WithMeta("a", meta())), expected).await;
    let expected = json!({
        "content": [text(r#"{"sum":1}"#)], "structuredContent": { "sum": 1 }, "_meta": { "example.com/trace": 7 }
    });
    check("Json", tool("t", async move || WithMeta(Json(Sum { sum: 1 }), meta())), expected).await;
    let result = call(tool("t", async || WithMeta("a", Meta::new()))).await.unwrap();
    assert!(result.get("_meta").is_none(), "{result}");
    let mut failure = CallToolResult::text("no");
    failure.meta = Some(meta());
    let failing = async move || Err::<String, _>(ToolError::content(failure.clone()));
    let expected = json!({ "content": [text("no")], "isError": true, "_meta": { "example.com/trace": 7 } });
    check("a failure", tool("t", failing), expected).await;
}

#[tokio::test]
async fn sends_a_full_result_unchanged() {
    let mut full = CallToolResult::new(vec![
        ContentBlock::text("a"),
        ContentBlock::Resource(EmbeddedResource::new(ResourceContents::text("a:b", "x"))),
    ]);
    full.structured_content = Some(json!({ "k": [true] }));
    full.is_error = true;
    full.meta = Some(Meta::new().with("k", "v"));
    let expected = serde_json::to_value(&full).unwrap();
    assert_eq!(expected["isError"], true);
    check("everything", tool("t", async move || full.clone()), expected).await;
}

#[tokio::test]
async fn content_blocks_carry_annotations_and_metadata() {
    let mut annotations = Annotations::default();
    annotations.audience = vec![Role::User, Role::Assistant];
    annotations.priority = Some(0.5);
    annotations.last_modified = Some("2026-07-28T00:00:00Z".into());
    let expected =
        json!({ "audience": ["user", "assistant"], "priority": 0.5, "lastModified": "2026-07-28T00:00:00Z" });
    let blocks = [
        ContentBlock::text("a"),
        ContentBlock::image([0], "image/png"),
        ContentBlock::audio([0], "audio/wav"),
        ContentBlock::resource(ResourceContents::text("a:b", "x")),
        ContentBlock::resource_link(Resource::new("a:b", "b")),
    ];
    for block in blocks {
        let annotated = block.with_annotations(annotations.clone());
        let result = call(tool("t", async move || annotated.clone())).await.unwrap();
        assert_eq!(result["content"][0]["annotations"], expected, "{result}");
    }
    let mut block = TextContent::new("a");
    block.meta = Some(Meta::new().with("k", 1));
    let result = call(tool("t", async move || ContentBlock::Text(block.clone()))).await.unwrap();
    assert_eq!(result["content"][0]["_meta"], json!({ "k": 1 }));
}

#[tokio::test]
async fn only_explicit_failures_reach_the_model() {
    let failing = async || Err::<String, _>(ToolError::new("try a smaller number"));
    check("a failure", tool("t", failing), json!({ "content": [text("try a smaller number")], "isError": true })).await;
    let visible = async || Err::<String, _>(io::Error::other("disk full")).visible();
    check("a visible one", tool("t", visible), json!({ "content": [text("disk full")], "isError": true })).await;

    let mut references = Vec::new();
    let hidden = async || -> Result<String, ToolError> { Err(io::Error::other("password xyzzy"))? };
    for route in [tool("t", hidden), tool("t", async || -> String { panic!("password xyzzy") })] {
        let result = call(route).await.unwrap();
        assert_eq!(result["isError"], true);
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(!text.contains("password") && !text.contains("xyzzy") && !text.contains(".rs"), "{text}");
        references.push(text.to_owned());
    }
    assert_ne!(references[0], references[1], "each event can be found by its own reference");

    let error = call(tool("t", async || {
        Err::<String, _>(ToolError::protocol(RpcError::invalid_params("not that").with_data(json!({ "at": 1 }))))
    }))
    .await
    .unwrap_err();
    assert_eq!((error.code, &*error.message), (ErrorCode::INVALID_PARAMS, "not that"));
    assert_eq!(error.data, Some(json!({ "at": 1 })));
}

#[tokio::test]
async fn a_success_has_no_error_member() {
    let result = call(tool("t", async || "fine")).await.unwrap();
    assert!(result.get("isError").is_none(), "{result}");
}

#[tokio::test]
async fn older_revisions_receive_only_forms_that_they_define() {
    let server = Server::builder("t", "1")
        .tool(tool("list", async || Json(vec![1])))
        .tool(tool("object", async || Structured { data: Sum { sum: 1 }, content: vec![] }))
        .tool(tool("audio", async || Audio::new([0, 1], "audio/wav")))
        .tool(tool("link", async || Resource::new("a:b", "b")))
        .build();
    let sum = json!({ "sum": 1 });
    // Per revision, oldest first: structured content of a list and of an object, the types of audio and of a link.
    let rows = [
        (Value::Null, Value::Null, "text", "text"),
        (Value::Null, Value::Null, "audio", "text"),
        (Value::Null, sum.clone(), "audio", "resource_link"),
        (Value::Null, sum.clone(), "audio", "resource_link"),
        (json!([1]), sum, "audio", "resource_link"),
    ];
    for (version, (list, object, audio, link)) in ProtocolVersion::ALL.iter().copied().rev().zip(rows) {
        let mut client = json_client::Client::connect(&server, version).await;
        let mut call = async |name: &str| client.result("tools/call", json!({ "name": name })).await;
        let result = call("list").await;
        assert_eq!(result["structuredContent"], list, "{version}");
        assert_eq!(result["content"][0]["text"], "[1]", "{version}");
        let result = call("object").await;
        assert_eq!(result["structuredContent"], object, "{version}");
        // In a revision without structured content, the data is sent as text.
        let copied = if object.is_null() { json!([text(r#"{"sum":1}"#)]) } else { json!([]) };
        assert_eq!(result["content"], copied, "{version}");
        assert_eq!(call("audio").await["content"][0]["type"], audio, "{version}");
        assert_eq!(call("link").await["content"][0]["type"], link, "{version}");
    }
}
