//! Resources: the result of a read, and the error for a missing resource.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use crate::json_client::{Client, code_and_text};
use mcp_protocol::{Meta, ProtocolVersion, ReadResourceResult, ResourceContents, RpcError};
use mcp_server_core::{
    Blob, IntoOutput, Json, ResourceKind, ResourceRoute, ResourceUri, Server, State, ToolError, Visible, resource,
    template,
};
use serde::Serialize;
use serde_json::{Value, json};

#[derive(Serialize)]
struct Settings {
    debug: bool,
}

/// Reads `a:r` of a server that has this one resource.
async fn read(route: ResourceRoute) -> Result<Value, RpcError> {
    let server = Server::builder("t", "1").resource(route).build();
    server.read_resource("a:r").await.map(|result| serde_json::to_value(result.contents).unwrap())
}

async fn check(what: &str, route: ResourceRoute, expected: Value) {
    assert_eq!(read(route).await.unwrap(), json!([expected]), "{what}");
}

#[tokio::test]
async fn returns_every_form_of_contents() {
    let text = json!({ "uri": "a:r", "text": "x" });
    check("text", resource("a:r", async || "x"), text.clone()).await;
    check("owned text", resource("a:r", async || String::from("x")), text.clone()).await;
    check("a result", resource("a:r", async || Ok::<_, ToolError>("x")), text).await;
    let typed = json!({ "uri": "a:r", "mimeType": "text/x", "text": "x" });
    check("text of a type", resource("a:r", async || "x").mime_type("text/x"), typed).await;
    // Standard base64 with padding: `+` and `/`, not `-` and `_`.
    let blob = json!({ "uri": "a:r", "blob": "+/8=" });
    check("bytes", resource("a:r", async || Blob::new([0xfb, 0xff])), blob).await;
    let typed = json!({ "uri": "a:r", "mimeType": "image/png", "blob": "/w==" });
    check("bytes of a type", resource("a:r", async || Blob::new([0xff])).mime_type("image/png"), typed.clone()).await;
    let own = async || Blob::new([0xff]).mime_type("image/png");
    check("bytes with a type of their own", resource("a:r", own).mime_type("x/y"), typed).await;
    let object = json!({ "uri": "a:r", "mimeType": "application/json", "text": r#"{"debug":true}"# });
    check("a typed value", resource("a:r", async || Json(Settings { debug: true })), object.clone()).await;
    check("a JSON value", resource("a:r", async || json!({ "debug": true })), object).await;
    let own = json!({ "uri": "a:r", "mimeType": "application/geo+json", "text": "{}" });
    check("JSON of another type", resource("a:r", async || json!({})).mime_type("application/geo+json"), own).await;
}

#[tokio::test]
async fn custom_contents_remain_unchanged() {
    let parts = async || {
        let mut second = ResourceContents::blob("a:r/2", [0]).with_mime_type("x/y");
        second.meta = Some(Meta::new().with("k", 1));
        vec![ResourceContents::text("", "one"), second]
    };
    let expected = json!([
        { "uri": "a:r", "mimeType": "text/plain", "text": "one" },
        { "uri": "a:r/2", "mimeType": "x/y", "blob": "AA==", "_meta": { "k": 1 } },
    ]);
    assert_eq!(read(resource("a:r", parts).mime_type("text/plain")).await.unwrap(), expected);
    let whole = async || {
        let mut result = ReadResourceResult::new(vec![ResourceContents::text("a:other", "x")]);
        result.meta = Some(Meta::new().with("k", 2));
        result
    };
    let server = Server::builder("t", "1").resource(resource("a:r", whole)).build();
    let result = server.read_resource("a:r").await.unwrap();
    assert_eq!(result.contents[0].uri, "a:other");
    assert_eq!(result.meta.unwrap().get("k"), Some(&json!(2)));
    // A type of one's own can be read as well.
    struct Csv(&'static str);
    impl IntoOutput<ResourceKind> for Csv {
        fn into_output(self) -> Result<ReadResourceResult, ToolError> {
            Ok(ReadResourceResult::new(vec![ResourceContents::text("", self.0).with_mime_type("text/csv")]))
        }
    }
    check("csv", resource("a:r", async || Csv("1,2")), json!({ "uri": "a:r", "mimeType": "text/csv", "text": "1,2" }))
        .await;
}

#[tokio::test]
async fn a_missing_resource_has_the_error_code_of_the_revision() {
    let server = Server::builder("t", "1")
        .resource(resource("a:r", async || "x"))
        .resource(resource("a:gone", async || Err::<String, _>(ToolError::not_found())))
        .resource(resource("a:empty", async || Vec::<ResourceContents>::new()))
        .resource_template(template("b:{x}", async || Err::<String, _>(ToolError::not_found())))
        .build();
    for &version in ProtocolVersion::ALL {
        let code = if version == ProtocolVersion::V2026_07_28 { -32602 } else { -32002 };
        let mut client = Client::connect(&server, version).await;
        for uri in ["a:nope", "a:R", "a:r/", "a:gone", "b:1", "", "no uri at all", "../r"] {
            let error = client.error("resources/read", json!({ "uri": uri })).await;
            assert_eq!(error["code"], code, "{version} {uri}: {error}");
            assert_eq!(error["data"]["uri"], uri, "{version} {uri}: {error}");
        }
        // The newest revision does not allow empty contents for a missing resource.
        let response = client.request("resources/read", json!({ "uri": "a:empty" })).await;
        if version.is_stateless() {
            assert_eq!(response["error"]["code"], code);
        } else {
            assert_eq!(response["result"]["contents"], json!([]));
        }
        for params in [json!({}), json!({ "uri": 7 }), json!({ "uri": null })] {
            assert_eq!(client.error("resources/read", params).await["code"], -32602, "{version}");
        }
    }
    assert!(server.read_resource("a:nope").await.is_err());
}

#[tokio::test]
async fn an_error_of_a_read_discloses_no_details() {
    let fails = async || -> Result<String, ToolError> { Ok(std::fs::read_to_string("/no/such/secret")?) };
    for route in [resource("a:r", fails), resource("a:r", async || -> String { panic!("secret") })] {
        let error = read(route).await.unwrap_err();
        assert_eq!(error.code.0, -32603);
        assert!(error.message.contains("reference") && !error.message.contains("secret"), "{}", error.message);
        assert!(!error.message.contains("No such file"), "{}", error.message);
    }
    let failing = async || Err::<String, _>("the disk is not mounted").visible();
    let error = read(resource("a:r", failing)).await.unwrap_err();
    assert_eq!((error.code.0, &*error.message), (-32603, "the disk is not mounted"));
}

#[tokio::test]
async fn resources_share_the_state() {
    let server = Server::builder("t", "1")
        .resource(resource("a:r", async |State(text): State<String>| text))
        .resource_template(template("b:{x}", async |State(text): State<String>| text))
        .with_state("shared".to_owned())
        .build();
    for uri in ["a:r", "b:1"] {
        assert_eq!(server.read_resource(uri).await.unwrap().contents[0].as_text(), Some("shared"), "{uri}");
    }
}

#[tokio::test]
async fn adds_no_annotations() {
    let server = Server::builder("t", "1").resource(resource("a:r", async || "x")).build();
    for &version in ProtocolVersion::ALL {
        let mut client = Client::connect(&server, version).await;
        let listed = client.list("resources/list", "resources").await;
        assert_eq!(listed, [json!({ "uri": "a:r", "name": "a:r" })], "{version}");
    }
}

#[tokio::test]
async fn templates_work_without_resources() {
    let server = Server::builder("t", "1").resource_template(template("b:{x}", async || "x")).build();
    for &version in ProtocolVersion::ALL {
        let mut client = Client::connect(&server, version).await;
        assert!(client.list("resources/list", "resources").await.is_empty(), "{version}");
        assert_eq!(client.list("resources/templates/list", "resourceTemplates").await.len(), 1, "{version}");
        client.result("resources/read", json!({ "uri": "b:1" })).await;
        let error = client.error("resources/read", json!({ "uri": "a:1" })).await;
        assert!(code_and_text(&error).1.contains("not found"), "{error}");
    }
}

#[tokio::test]
async fn a_handler_receives_the_uri_of_the_read() {
    let server = Server::builder("test", "1")
        .resource(resource("test://fixed", async |ResourceUri(uri): ResourceUri| uri))
        .resource_template(template("test://any/{+path}", async |ResourceUri(uri): ResourceUri| uri))
        .build();
    for uri in ["test://fixed", "test://any/a/b%20c"] {
        assert_eq!(server.read_resource(uri).await.unwrap().contents[0].as_text(), Some(uri));
    }
}
