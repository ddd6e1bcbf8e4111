//! Resources, templates, prompts, completions and instructions through a gateway.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use mcp_agent::Names;
use mcp_client::Client;
use mcp_protocol::{
    CompletionReference, ContentBlock, EmbeddedResource, Meta, ProtocolVersion, Resource, ResourceContents, RpcError,
};
use mcp_server::{
    prelude::*,
    source::{Source, SourceCall, SourceDefinition, SourceList, SourceOutcome, SourcePage, SourceResult},
};
use mcp_transport::BoxFuture;
use serde_json::json;

use crate::common::{cells, connect, gateway};

#[derive(Deserialize, JsonSchema)]
struct Number {
    number: String,
}

/// A server whose resources and prompts have the same names as those of other servers. Each text contains the name.
fn server(name: &'static str, version: ProtocolVersion) -> Server {
    Server::builder(name, "1")
        .versions([version])
        .instructions(format!("Ask \u{202e}{name}.\u{200b}"))
        .resource(resource("file:///notes.md", move || async move { format!("notes of {name}") }))
        .resource(resource("ui://app/index.html", move || async move { format!("page of {name}") }))
        .resource_template(
            template("issue://{number}", move |Args(Number { number }): Args<Number>| async move {
                format!("issue {number} of {name}")
            })
            .complete_from("number", ["17", "18"]),
        )
        .prompt(
            prompt("review", move |Args(Number { number }): Args<Number>| async move {
                format!("review {number} with {name}")
            })
            .complete_from("number", ["27", "28"]),
        )
        .tool(tool("links", async || {
            let resource = ResourceContents::text("file:///notes.md", "text");
            vec![
                ContentBlock::resource_link(Resource::new("issue://9", "issue")),
                ContentBlock::Resource(EmbeddedResource::new(resource)),
                ContentBlock::text("file:///notes.md"),
            ]
        }))
        .tool(tool("page", async || "ok").meta(Meta::new().with("ui", json!({ "resourceUri": "ui://app/index.html" }))))
        .build()
}

async fn text(client: &Client, uri: &str) -> (String, String) {
    let read = client.read_resource(uri).await.unwrap();
    (read.contents[0].uri.clone(), read.contents[0].as_text().unwrap().to_owned())
}

#[tokio::test]
async fn uris_and_names_with_their_server_lead_to_it() {
    for (down, up) in cells() {
        let (one, two) = (server("one", up), server("two", up));
        let client = connect(gateway(&[("one", &one), ("two", &two)]).await, down).await;
        let uris: Vec<String> = client.list_resources().await.unwrap().iter().map(|item| item.uri.clone()).collect();
        let expected = ["mcp://one/file:///notes.md", "ui://one/app/index.html"];
        let others = ["mcp://two/file:///notes.md", "ui://two/app/index.html"];
        assert_eq!(uris, expected.iter().chain(&others).copied().collect::<Vec<_>>(), "{down} {up}");
        let templates = client.list_resource_templates().await.unwrap();
        assert_eq!(templates[1].uri_template, "mcp://two/issue://{number}");
        for (uri, expected) in [
            (expected[0], "notes of one"),
            (others[0], "notes of two"),
            (others[1], "page of two"),
            ("mcp://two/issue://7", "issue 7 of two"),
        ] {
            assert_eq!(text(&client, uri).await, (uri.to_owned(), expected.to_owned()), "{down} {up}");
        }
        for missing in ["mcp://two/file:///x", "mcp://three/file:///notes.md", "file:///notes.md"] {
            let error = client.read_resource(missing).await.unwrap_err();
            assert!(error.is_resource_not_found(), "{error:?}");
            assert_eq!(error.rpc().unwrap().data.as_ref().unwrap()["uri"], missing, "{down} {up}");
        }
        let prompt = client.get_prompt("two__review", json!({ "number": "3" })).await.unwrap();
        assert_eq!(prompt.messages[0].content.as_text(), Some("review 3 with two"));
        let by_prompt = client.complete(CompletionReference::prompt("two__review"), "number", "2").await.unwrap();
        assert_eq!(by_prompt.completion.values, ["27", "28"]);
        let template = CompletionReference::resource_template("mcp://one/issue://{number}");
        let by_template = client.complete(template, "number", "1").await.unwrap();
        assert_eq!(by_template.completion.values, ["17", "18"], "{down} {up}");

        let links = client.call_tool("two__links", ()).await.unwrap();
        let json = serde_json::to_value(&links.content).unwrap();
        assert_eq!(json[0]["uri"], "mcp://two/issue://9");
        assert_eq!(json[1]["resource"]["uri"], "mcp://two/file:///notes.md");
        assert_eq!(json[2]["text"], "file:///notes.md");
        assert_eq!(text(&client, "mcp://two/issue://9").await.1, "issue 9 of two");
        let tools = client.list_tools().await.unwrap();
        let page = tools.iter().find(|tool| tool.name == "two__page").unwrap();
        assert_eq!(page.meta.as_ref().unwrap()["ui"]["resourceUri"], "ui://two/app/index.html");
        let negotiated = client.negotiated();
        assert_eq!(negotiated.instructions.as_deref(), Some("# one\n\n> Ask one.\n\n# two\n\n> Ask two."));
    }
}

/// Serves a tool whose result links to a resource that no list contains.
struct Later;

impl Source for Later {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        let json = r#"{"name":"linked","inputSchema":{"type":"object"}}"#;
        let tools = (list == SourceList::Tools).then(|| SourceDefinition::new(json).unwrap());
        Box::pin(std::future::ready(Ok(SourcePage::new(tools))))
    }

    fn call_tool(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let json = r#"{"content":[{"type":"resource_link","uri":"later://a","name":"a"}]}"#;
        let result = SourceResult::new(json, ProtocolVersion::V2025_11_25);
        Box::pin(std::future::ready(Ok(SourceOutcome::Complete(result))))
    }

    fn read_resource(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let json = json!({ "contents": [{ "uri": call.name(), "text": "of the link" }] }).to_string();
        let result = SourceResult::new(json, ProtocolVersion::V2025_11_25);
        Box::pin(std::future::ready(Ok(SourceOutcome::Complete(result))))
    }
}

#[tokio::test]
async fn raw_uris_lead_to_the_first_server_that_has_them() {
    for (down, up) in cells() {
        let (one, two) = (server("one", up), server("two", up));
        let plain = Server::builder("plain", "1")
            .versions([up])
            .resource(resource("plain://a", async || "plain"))
            .resource_template(template("plain://{number}", async || "plain template"))
            .build();
        let later = Server::builder::<()>("later", "1").versions([up]).source(Later).build();
        let builder =
            gateway(&[("one", &one), ("two", &two), ("plain", &plain), ("later", &later)]).await.names(Names::Raw);
        let observed = builder.gateway();
        let client = connect(builder, down).await;
        for (uri, expected) in [
            ("file:///notes.md", "notes of one"),
            ("issue://8", "issue 8 of one"),
            ("plain://a", "plain"),
            ("plain://b", "plain template"),
        ] {
            assert_eq!(text(&client, uri).await, (uri.to_owned(), expected.to_owned()), "{down} {up}");
        }
        assert!(client.read_resource("other://x").await.unwrap_err().is_resource_not_found());
        // A link leads to the server of its result.
        assert!(client.read_resource("later://a").await.unwrap_err().is_resource_not_found());
        client.call_tool("linked", ()).await.unwrap();
        assert_eq!(text(&client, "later://a").await.1, "of the link", "{down} {up}");
        let links = client.call_tool("links", ()).await.unwrap();
        assert_eq!(serde_json::to_value(&links.content).unwrap()[0]["uri"], "issue://9");
        assert_eq!(observed.diagnostics().len(), 6, "{:?}", observed.diagnostics());
    }
}

#[tokio::test]
async fn instructions_without_visible_characters_are_absent() {
    for (down, up) in cells() {
        let server = |name: &str, text: &str| {
            Server::builder(name, "1").versions([up]).instructions(text).tool(tool("t", async || "t")).build()
        };
        let (blank, empty, plain) = (server("blank", "\u{200b}\u{202e}"), server("empty", ""), server("plain", "Ask."));
        for (servers, expected) in [
            (&[("blank", &blank)][..], None),
            (&[("empty", &empty)], None),
            (&[("blank", &blank), ("empty", &empty), ("plain", &plain)], Some("# plain\n\n> Ask.")),
        ] {
            let client = connect(gateway(servers).await, down).await;
            assert_eq!(client.negotiated().instructions.as_deref(), expected, "{down} {up} {servers:?}");
        }
    }
}
