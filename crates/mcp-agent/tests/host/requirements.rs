//! The requirements of the specification on hosts: names, failures, templates and the pages of elicitation.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::{Arc, Mutex};

use mcp_agent::{Host, HostBuilder};
use mcp_client::{Handler, InputContext, transport::BoxFuture};
use mcp_protocol::{
    ClientCapabilities, ElicitAction, ElicitResult, ElicitationCapability, JsonObject, ProtocolVersion, RpcError,
    UrlElicitParams,
};
use mcp_server::prelude::*;
use mcp_tool_format::{Call, ContentOptions, Options, Provider, render};
use mcp_uri_template::{UriTemplate, Vars};
use serde_json::json;
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};

use crate::common::{TEST_TIMEOUT, names, server};

const REVISIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V2024_11_05, ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

fn builder() -> HostBuilder {
    Host::builder("test", "1")
}

#[derive(Deserialize, JsonSchema)]
struct Row {
    table: String,
    id: u32,
}

async fn row(Args(Row { table, id }): Args<Row>) -> Result<String, ToolError> {
    if id > 100 { Err(ToolError::not_found()) } else { Ok(format!("row {id} of {table}")) }
}

#[tokio::test]
async fn a_resource_of_an_expanded_template_is_read() {
    for version in REVISIONS {
        let tables = Server::builder("tables", "1")
            .versions([version])
            .resource_template(template("db://{table}/rows/{id}", row).name("row"))
            .build();
        let host = builder().server("other", &server("other", &["t"])).server("db", &tables).start().await.unwrap();
        let catalog = host.catalog();
        let [listed] = catalog.templates() else { panic!("{version}") };
        assert_eq!((listed.server(), &*listed.item().name), ("db", "row"), "{version}");

        // The application fills the template of the catalog in.
        let template = UriTemplate::parse_for_expansion(&listed.item().uri_template).unwrap();
        let expand = |id: &str| template.expand(&Vars::new().with("table", "order items").with("id", id));
        let uri = expand("7");
        assert_eq!(uri, "db://order%20items/rows/7");
        let read = host.read(listed.server(), &uri).await.unwrap();
        assert_eq!(read.contents[0].as_text(), Some("row 7 of order items"), "{version}");
        assert_eq!(read.contents[0].uri, uri, "{version}");

        for (uri, server) in [(expand("101"), "db"), (expand("x"), "db"), (uri, "other"), ("db://a".to_owned(), "db")] {
            let error = host.read(server, &uri).await.unwrap_err();
            assert!(error.client().is_some(), "{version} {uri}: {error}");
        }
    }
}

#[tokio::test]
async fn servers_with_one_name_have_distinct_tools() {
    let host = builder()
        .server("first", &server("same", &["t"]))
        .server("second", &server("same", &["t"]))
        .start()
        .await
        .unwrap();
    assert_eq!(names(&host), ["first:t", "second:t"]);
    let catalog = host.catalog();
    let provider_names: Vec<&str> = catalog.tools().iter().map(|tool| tool.provider_name()).collect();
    assert_eq!(provider_names, ["first__t", "second__t"]);
    for name in ["second:t", "second__t"] {
        assert_eq!(host.call(name, ()).await.unwrap().tool(), "second:t");
    }
    // The removal of a server changes no other name.
    assert!(host.remove("first").await);
    assert_eq!(host.catalog().tools()[0].provider_name(), "second__t");
}

#[tokio::test]
async fn the_model_reads_the_failure_of_a_tool() {
    let failing = Server::builder("s", "1")
        .tool(tool("fail", async || Err::<String, _>(ToolError::new("the disk is full"))))
        .tool(tool("row", row))
        .build();
    let host = builder().server("s", &failing).start().await.unwrap();
    let catalog = host.catalog();
    for provider in Provider::ALL {
        let rendered = render(catalog.definitions(), &Options::new(provider));
        for (name, arguments, fault) in [
            ("s__fail", json!({}), "the disk is full"),
            // The host detects these faults before the call. The model reads them too.
            ("s__row", json!({ "table": 1, "id": 1 }), "table"),
            ("s__other", json!({}), "s__fail"),
        ] {
            let call = Call::new("abcDEF123", name, JsonObject::from_value(arguments).unwrap());
            let result = match host.call(&*call.name, call.arguments.clone()).await {
                Ok(result) => result.into_inner(),
                Err(error) => error.result(),
            };
            assert!(result.is_error, "{name}");
            let messages = rendered.result_messages([(&call, &result)], &ContentOptions::new());
            let text = serde_json::to_string(&messages.messages).unwrap();
            assert!(text.contains(fault), "{provider} {name}: {text}");
            let mark = match provider {
                Provider::Anthropic => r#""is_error":true"#,
                Provider::Bedrock => r#""status":"error""#,
                Provider::Gemini => r#""error":"#,
                _ => r#""Error: "#,
            };
            assert!(text.contains(mark), "{provider} {name}: {text}");
        }
    }
}

/// Accepts each page, and stores its URL.
struct Agreeing(Arc<Mutex<Vec<String>>>);

impl Handler for Agreeing {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::new().with_elicitation(ElicitationCapability::new().with_form().with_url())
    }

    fn elicit_url(&self, page: InputContext<UrlElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        self.0.lock().unwrap().push(page.url.clone());
        Box::pin(async { Ok(ElicitResult::new(ElicitAction::Accept)) })
    }
}

#[tokio::test]
async fn the_page_of_an_elicitation_reaches_the_handler_whole_and_is_not_fetched() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://127.0.0.1:{}/sign-in?state=a%20b#c", listener.local_addr().unwrap().port());
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let page = url.clone();
        let asking = tool("visit", move |inputs: Inputs| {
            let page = page.clone();
            async move {
                inputs.elicit_url("page", "Sign in.", page).await?;
                Ok::<_, ToolError>("done")
            }
        });
        let asking = Server::builder("s", "1").versions([version]).tool(asking).build();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let known = Arc::clone(&seen);
        let host = builder()
            .handlers(move |_| Arc::new(Agreeing(Arc::clone(&known))))
            .server("s", &asking)
            .start()
            .await
            .unwrap();
        let result = timeout(TEST_TIMEOUT, host.call("s:visit", ()).into_future()).await.unwrap().unwrap();
        assert_eq!(result.text(), "done", "{version}");
        host.shutdown().await;
        assert_eq!(*seen.lock().unwrap(), [url.as_str()], "{version}");
    }
    // The servers and the host have ended. The first connection in the backlog is that of the test itself.
    let own = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (_, first) = timeout(TEST_TIMEOUT, listener.accept()).await.unwrap().unwrap();
    assert_eq!(first, own.local_addr().unwrap(), "the page was fetched");
}
