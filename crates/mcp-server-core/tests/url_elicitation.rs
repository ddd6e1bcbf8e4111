//! URL elicitation, and the notification that the user has completed a page.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use mcp_protocol::{ProtocolVersion, RpcError, UrlElicitParams};
use mcp_server_core::{Inputs, Server, ToolError, prompt, resource, tool};
use serde_json::{Value, json};

use crate::{
    input_client::{ALL, Client, text},
    json_client,
    tasks_fixture::{as_task, call, declared, of, wait_for},
};

/// Sends the user to a page.
fn pay() -> ToolError {
    let page = UrlElicitParams::new("Pay.", "https://a.example/8").with_elicitation_id("page-8");
    ToolError::protocol(RpcError::url_elicitation_required([page]))
}

fn server() -> Server {
    Server::builder("pages", "1")
        .tool(tool("sign_in", async |inputs: Inputs| -> Result<&str, ToolError> {
            inputs.elicit_page("sign_in", "Sign in.", "https://a.example/7", "page-7").await?;
            Ok("gone there")
        }))
        .tool(tool("refuse", async || Err::<&str, _>(pay())))
        .tool(tool("refuse_later", async || Err::<&str, _>(pay())).long_running())
        .resource(resource("a:refused", async || Err::<String, _>(pay())))
        .prompt(prompt("refuse", async || Err::<String, _>(pay())))
        .build()
}

fn answer(action: &str) -> (&'static str, Value) {
    ("elicitation/create", json!({ "action": action }))
}

/// Returns the messages before the response to a ping.
async fn drain_notifications(client: &mut Client) -> Vec<Value> {
    let method = if client.is_legacy() { "ping" } else { "server/discover" };
    let id = client.send(method, json!({})).await;
    let mut received = Vec::new();
    loop {
        let message = client.receive().await;
        if message["id"] == id {
            return received;
        }
        received.push(message);
    }
}

#[tokio::test]
async fn notifies_the_client_of_the_input_request_once_when_the_page_is_completed() {
    let server = server();
    let capabilities = json!({ "elicitation": { "url": {} } });
    for version in ALL.into_iter().filter(|version| *version >= "2025-11-25") {
        let mut client = Client::connect(&server, version, capabilities.clone()).await;
        let mut other = Client::connect(&server, version, capabilities.clone()).await;
        let expects_notification = client.is_legacy();
        assert_eq!(text(&client.tool("sign_in", vec![answer("accept")]).await), "gone there");
        let page = &client.input_requests[0]["params"]["elicitationId"];
        assert_eq!(page == "page-7", expects_notification, "{version}: {page}");
        assert!(other.tool("sign_in", vec![answer("decline")]).await["result"]["isError"].as_bool().unwrap());
        client.tool("refuse", vec![]).await;
        for page in ["page-7", "page-8"] {
            server.notify().elicitation_complete(page);
            server.notify().elicitation_complete(page);
            let notice = json!({
                "jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": { "elicitationId": page },
            });
            let expected = if expects_notification { vec![notice] } else { vec![] };
            assert_eq!(drain_notifications(&mut client).await, expected, "{version} {page}");
            assert!(drain_notifications(&mut other).await.is_empty(), "{version} {page}");
        }
        server.notify().elicitation_complete("page-9");
        assert!(drain_notifications(&mut client).await.is_empty());
    }
}

#[tokio::test]
async fn the_url_elicitation_error_exists_in_one_revision_only() {
    let server = server();
    for &version in ProtocolVersion::ALL {
        let mut client = json_client::Client::connect_with(&server, version, declared()).await;
        let mut errors = vec![
            client.error("tools/call", call("refuse")).await,
            client.error("resources/read", json!({ "uri": "a:refused" })).await,
            client.error("prompts/get", json!({ "name": "refuse" })).await,
        ];
        if version == ProtocolVersion::LATEST {
            let task = client.result("tools/call", call("refuse_later")).await["taskId"].take();
            errors.push(wait_for(&mut client, &task, "failed").await["error"].take());
        }
        for error in errors {
            if version == ProtocolVersion::V2025_11_25 {
                assert_eq!(error["code"], -32042, "{version}: {error}");
                assert_eq!(error["data"]["elicitations"][0]["elicitationId"], "page-8", "{version}: {error}");
            } else {
                let text = "the user has to visit a page first: https://a.example/8 (Pay.)";
                assert_eq!(error, json!({ "code": -32603, "message": text }), "{version}");
            }
        }
    }
}

#[tokio::test]
async fn notifies_about_completed_pages_of_calls_and_tasks() {
    let server = server();
    let mut client = json_client::Client::connect_with(&server, ProtocolVersion::V2025_11_25, declared()).await;
    let task = client.result("tools/call", as_task("refuse_later")).await["task"]["taskId"].take();
    assert_eq!(client.error("tasks/result", of(&task)).await["code"], -32042);
    server.notify().elicitation_complete("page-8");
    let notice = client.notification("notifications/elicitation/complete").await;
    assert_eq!(notice["params"]["elicitationId"], "page-8");
}
