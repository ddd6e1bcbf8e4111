//! Resource templates: the matching template and the captured variables.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use crate::json_client;
use mcp_schema::safe_relative_path;
use mcp_server_core::{Args, RawArgs, Server, TemplateRoute, ToolError, Visible, resource, template};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The variables that a template captures from a URI. `None` means that no template matches.
async fn captured(uri_template: &str, uri: &str) -> Option<Value> {
    let route: TemplateRoute = template(uri_template, async |RawArgs(args): RawArgs| json!(args));
    let server = Server::builder("t", "1").resource_template(route).build();
    let result = server.read_resource(uri).await.ok()?;
    Some(serde_json::from_str(result.contents[0].as_text().unwrap()).unwrap())
}

#[tokio::test]
async fn captures_and_decodes_variables() {
    for (uri_template, uri, expected) in [
        ("file:///{path}", "file:///hosts", Some(json!({ "path": "hosts" }))),
        ("file:///{path}", "file:///etc/hosts", None),
        ("file:///{path}", "file:///etc%2Fhosts", Some(json!({ "path": "etc/hosts" }))),
        ("file:///{+path}", "file:///etc/hosts", Some(json!({ "path": "etc/hosts" }))),
        ("file:///{+path}", "file:///a%20b/%C3%A9", Some(json!({ "path": "a b/é" }))),
        ("file:///{path}", "file:///%zz", None),
        ("file:///{path}", "file:///%ff", None),
        ("u://{id}/posts/{post}", "u://7/posts/9", Some(json!({ "id": "7", "post": "9" }))),
        ("u://{id}/posts/{post}", "u://7/posts/9/x", None),
        ("db://{db}/t/{db}", "db://a/t/a", Some(json!({ "db": "a" }))),
        ("db://{db}/t/{db}", "db://a/t/b", None),
        ("a:{/path*}", "a:/1/2%2F3", Some(json!({ "path": ["1", "2/3"] }))),
        ("s://q{?a,b}", "s://q?b=x%26y&a=1", Some(json!({ "a": "1", "b": "x&y" }))),
        ("s://q{?a,b}", "s://q", Some(json!({}))),
        ("s://q{?a,b}", "s://q?c=1", None),
    ] {
        assert_eq!(captured(uri_template, uri).await, expected, "{uri_template} on {uri}");
    }
}

/// A row of a table.
#[derive(Deserialize, JsonSchema)]
struct Row {
    table: String,
    id: u32,
    #[serde(default)]
    deep: bool,
    columns: Option<Vec<String>>,
}

#[tokio::test]
async fn converts_variables_to_the_types_of_the_handler() {
    let handler = async |Args(row): Args<Row>| {
        format!("{} {} {} {:?}", row.table, row.id, row.deep, row.columns.unwrap_or_default())
    };
    let server =
        Server::builder("t", "1").resource_template(template("db://{table}/{id}{?deep,columns*}", handler)).build();
    for (uri, expected) in [
        ("db://users/7", "users 7 false []"),
        ("db://users/7?deep=true&columns=a&columns=b", r#"users 7 true ["a", "b"]"#),
    ] {
        assert_eq!(server.read_resource(uri).await.unwrap().contents[0].as_text(), Some(expected), "{uri}");
    }
    for (uri, expected_text) in [
        ("db://users/x", r#""x" is not an integer"#),
        ("db://users/-1", r#""-1" is not an integer"#),
        ("db://users/7?deep=maybe", r#""maybe" is not true or false"#),
    ] {
        let error = server.read_resource(uri).await.unwrap_err();
        assert_eq!(error.code.0, -32602);
        assert!(error.message.contains(expected_text), "{}", error.message);
    }
    let mut client = json_client::Client::connect(&server, mcp_protocol::ProtocolVersion::LATEST).await;
    let listed = client.list("resources/templates/list", "resourceTemplates").await;
    assert_eq!(listed[0]["description"], "A row of a table.");
}

#[tokio::test]
async fn prefers_the_exact_uri_and_then_the_first_template() {
    let named =
        |uri_template: &str, name: &'static str| -> TemplateRoute { template(uri_template, async move || name) };
    let server = Server::builder("t", "1")
        .resource_template(named("a://{+rest}", "any"))
        .resource_template(named("a://{x}", "one"))
        .resource_template(named("b://x/{y}", "narrow"))
        .resource_template(named("b://{+rest}", "wide"))
        .resource(resource("a://exact", async || "exact"))
        .build();
    let read = async |uri: &str| server.read_resource(uri).await.unwrap().contents[0].as_text().unwrap().to_owned();
    for (uri, reader) in [
        ("a://exact", "exact"),
        ("a://exact/", "any"),
        ("a://other", "any"),
        ("b://x/1", "narrow"),
        ("b://x/1/2", "wide"),
    ] {
        assert_eq!(read(uri).await, reader, "{uri}");
    }
    assert!(server.resource_templates().remove("a://{+rest}"));
    assert_eq!(read("a://other").await, "one");
    assert!(server.resources().remove("a://exact"));
    assert_eq!(read("a://exact").await, "one");
}

#[tokio::test]
async fn rejects_paths_with_parent_segments() {
    #[derive(Deserialize, JsonSchema)]
    struct File {
        path: String,
    }
    let handler = async |Args(File { path }): Args<File>| -> Result<String, ToolError> {
        let path = safe_relative_path(&path).visible()?;
        Ok(format!("root/{}", path.display()))
    };
    let server = Server::builder("t", "1").resource_template(template("file:///{+path}", handler)).build();
    for uri in ["file:///etc/hosts", "file:///etc//./hosts", "file:///etc%2Fhosts"] {
        assert_eq!(server.read_resource(uri).await.unwrap().contents[0].as_text(), Some("root/etc/hosts"), "{uri}");
    }
    for uri in [
        "file:///../secret",
        "file:///a/../../secret",
        "file:///%2e%2e/secret",
        "file:///a%2F..%2F..%2Fsecret",
        "file:///%252e%252e/secret",
        "file:////etc/passwd",
        "file:///a%00b",
        "file:///..%5Csecret",
        "file:///c:/secret",
    ] {
        let error = server.read_resource(uri).await.unwrap_err();
        assert!(error.message.starts_with("the path"), "{uri}: {}", error.message);
    }
}
