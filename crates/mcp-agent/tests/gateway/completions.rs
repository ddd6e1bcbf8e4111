//! Completions through a gateway: at servers that ask, and at servers without completions.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use mcp_agent::Names;
use mcp_client::{Handler, InputContext, transport::BoxFuture};
use mcp_protocol::{
    ClientCapabilities, CompletionReference, ElicitParams, ElicitResult, ElicitationCapability, FormElicitParams,
    InputRequest, JsonObject, ProtocolVersion, RpcError,
};
use mcp_server::{
    prelude::*,
    source::{Source, SourceCall, SourceList, SourcePage, SourceResult},
};
use serde_json::json;
use tokio::time::timeout;

use crate::common::{REVISIONS, SOON, cells, client, connect, gateway, page};

/// A server that asks during a completion. The value is the action of the user, or the code of the error.
struct Asking;

impl Source for Asking {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        let prompt = r#"{"name":"review","arguments":[{"name":"number"}]}"#;
        page((list == SourceList::Prompts).then_some(prompt))
    }

    fn complete(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        Box::pin(async move {
            let schema = JsonObject::new().with("type", "object").with("properties", json!({}));
            let question = ElicitParams::Form(FormElicitParams::new("Which project?", schema));
            let value = match call.ask(InputRequest::elicit(&question).unwrap()).await {
                Ok(answer) => answer["action"].as_str().unwrap().to_owned(),
                Err(error) => error.code.0.to_string(),
            };
            let result = json!({ "completion": { "values": [value] } });
            Ok(SourceResult::new(result.to_string(), ProtocolVersion::V2025_11_25))
        })
    }
}

/// Accepts each form.
struct User;

impl Handler for User {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::new().with_elicitation(ElicitationCapability::new().with_form())
    }

    fn elicit(&self, _form: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        Box::pin(async { Ok(ElicitResult::accept(JsonObject::new())) })
    }
}

#[tokio::test]
async fn a_question_during_a_completion_is_answered_or_rejected_at_once() {
    for down in REVISIONS {
        let server = Server::builder::<()>("s", "1").versions([REVISIONS[0]]).source(Asking).build();
        let gateway = gateway(&[("s", &server)]).await.build().unwrap().versions([down]).build();
        let user = client().handler(User).connect(&gateway).await.unwrap();
        let completed = user.complete(CompletionReference::prompt("s__review"), "number", "1").into_future();
        let completed = timeout(SOON, completed).await.unwrap().unwrap();
        // A client of 2026-07-28 receives questions in results only, and a completion has no such result.
        let expected = if down.has_input_required() { "-32600" } else { "accept" };
        assert_eq!(completed.completion.values, [expected], "{down}");
    }
}

#[tokio::test]
async fn a_server_without_completions_offers_no_values() {
    for (down, up) in cells() {
        let review = prompt("review", async |Args(Number { number }): Args<Number>| number);
        let server = Server::builder("s", "1").versions([up]).prompt(review).build();
        for (names, name) in [(Names::Provider, "s__review"), (Names::Raw, "review")] {
            let client = connect(gateway(&[("s", &server)]).await.names(names), down).await;
            let completed = client.complete(CompletionReference::prompt(name), "number", "1").await.unwrap();
            assert!(completed.completion.values.is_empty(), "{down} {up}");
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Number {
    number: String,
}
