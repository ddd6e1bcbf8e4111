//! Input requests through a gateway, in all four cells, over HTTP and in memory.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::Arc;

use mcp_agent::{Gateway, Host, Names};
use mcp_client::{Client, Handler, InputContext};
use mcp_protocol::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitResult, ElicitationCapability,
    FormElicitParams, JsonObject, ProtocolVersion, Root, RootsCapability, RpcError, SamplingCapability,
    SamplingMessage, UrlElicitParams,
};
use mcp_server::prelude::*;
use mcp_transport::BoxFuture;
use tokio::time::timeout;

use crate::{
    common::{SOON, cells, client, over_http},
    rounds::assert_not_asked,
};

/// Answers with a name.
struct User {
    name: String,
    declared: ClientCapabilities,
}

fn all() -> ClientCapabilities {
    ClientCapabilities::new()
        .with_elicitation(ElicitationCapability::form_and_url())
        .with_sampling(SamplingCapability::new())
        .with_roots(RootsCapability::new())
}

impl Handler for User {
    fn capabilities(&self) -> ClientCapabilities {
        self.declared.clone()
    }

    fn elicit(&self, _form: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        Box::pin(async { Ok(ElicitResult::accept(JsonObject::new().with("name", &*self.name))) })
    }

    fn elicit_url(&self, page: InputContext<UrlElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        assert_eq!(page.url, "https://login.example/");
        Box::pin(async { Ok(ElicitResult::accept(JsonObject::new())) })
    }

    fn sample(
        &self,
        message: InputContext<CreateMessageParams>,
    ) -> BoxFuture<'_, Result<CreateMessageResult, RpcError>> {
        assert_eq!(message.messages.len(), 1);
        Box::pin(async { Ok(CreateMessageResult::new("model", &*self.name)) })
    }

    fn list_roots(&self) -> BoxFuture<'_, Result<Vec<Root>, RpcError>> {
        Box::pin(async { Ok(vec![Root::new(format!("file:///{}", self.name))]) })
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Name {
    name: String,
}

/// The server. Each tool asks for one kind of input, and returns the answer.
fn asking(version: ProtocolVersion) -> Server {
    Server::builder("asking", "1")
        .versions([version])
        .tool(tool("form", async |inputs: Inputs| {
            let Name { name } = inputs.elicit("name", "Your name?").await?;
            Ok::<_, ToolError>(name)
        }))
        .tool(tool("twice", async |inputs: Inputs| {
            let first: Name = inputs.elicit("first", "Your name?").await?;
            let second: Name = inputs.elicit("second", "Again?").await?;
            Ok::<_, ToolError>(format!("{} {}", first.name, second.name))
        }))
        .tool(tool("url", async |inputs: Inputs| {
            inputs.elicit_url("login", "Log in.", "https://login.example/").await?;
            Ok::<_, ToolError>("accepted")
        }))
        .tool(tool("sample", async |inputs: Inputs| {
            let params = CreateMessageParams::new(vec![SamplingMessage::user("Hello")], 100);
            Ok::<_, ToolError>(inputs.sample("sum", params).await?.content.text())
        }))
        .tool(tool("roots", async |inputs: Inputs| {
            let roots = inputs.roots("roots").await?;
            Ok::<_, ToolError>(roots[0].uri.clone())
        }))
        .build()
}

/// Starts a gateway in front of the asking server. Both are reached over HTTP or in memory.
async fn serve(up: ProtocolVersion, down: ProtocolVersion, is_http: bool) -> Server {
    let host = Host::builder("gateway", "1");
    let host = match is_http {
        true => host.server("s", over_http(asking(up)).await),
        false => host.server("s", &asking(up)),
    };
    Gateway::builder(host.start().await.unwrap()).names(Names::Raw).build().unwrap().versions([down]).build()
}

async fn user(gateway: &Server, is_http: bool, name: &str, declared: ClientCapabilities) -> Client {
    let user = client().handler(User { name: name.to_owned(), declared });
    match is_http {
        true => user.connect(over_http(gateway.clone()).await).await.unwrap(),
        false => user.connect(gateway).await.unwrap(),
    }
}

#[tokio::test]
async fn each_kind_of_input_request_reaches_the_user_in_each_cell() {
    for ((down, up), is_http) in cells().flat_map(|cell| [(cell, false), (cell, true)]) {
        let gateway = serve(up, down, is_http).await;
        let client = user(&gateway, is_http, "ada", all()).await;
        for (tool, expected) in
            [("form", "ada"), ("url", "accepted"), ("sample", "ada"), ("roots", "file:///ada"), ("twice", "ada ada")]
        {
            let result = timeout(SOON, client.call_tool(tool, ()).into_future()).await.unwrap().unwrap();
            assert!(result.text().contains(expected), "{down} {up} {is_http} {tool}: {result:?}");
        }
    }
}

#[tokio::test]
async fn a_question_without_a_capability_of_the_client_fails_at_once() {
    for ((down, up), is_http) in cells().flat_map(|cell| [(cell, false), (cell, true)]) {
        let gateway = serve(up, down, is_http).await;
        let client = user(&gateway, is_http, "ada", ClientCapabilities::new()).await;
        for tool in ["form", "url", "sample", "roots"] {
            let called = timeout(SOON, client.call_tool(tool, ()).into_future()).await.unwrap();
            assert_not_asked(called.as_ref(), up, tool);
        }
    }
}

#[tokio::test]
async fn two_users_at_once_receive_their_own_questions() {
    for ((down, up), is_http) in cells().flat_map(|cell| [(cell, false), (cell, true)]) {
        let gateway = Arc::new(serve(up, down, is_http).await);
        let (ada, grace) = (user(&gateway, is_http, "ada", all()).await, user(&gateway, is_http, "grace", all()).await);
        // The host learns from this call that the server asks.
        ada.call_tool("form", ()).await.unwrap();
        for _ in 0..10 {
            let calls = [(&ada, "ada ada"), (&grace, "grace grace"), (&ada, "ada ada"), (&grace, "grace grace")];
            let mut running = tokio::task::JoinSet::new();
            for (client, expected) in calls {
                let client = client.clone();
                running.spawn(async move {
                    let result = timeout(SOON, client.call_tool("twice", ()).into_future()).await.unwrap().unwrap();
                    assert_eq!(result.text(), expected);
                });
            }
            while let Some(ended) = running.join_next().await {
                ended.unwrap();
            }
        }
    }
}
