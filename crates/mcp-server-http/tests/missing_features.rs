//! A server does not declare tasks or kinds without registrations.

use crate::common::{initialize, legacy, open, send, service, stateless};
use http::StatusCode;
use serde_json::json;

#[tokio::test]
async fn declares_no_capability_without_a_feature() {
    let service = service();
    let modern =
        send(&service, stateless("server/discover", json!({}), &[])).await.json()["result"]["capabilities"].clone();
    let old = send(&service, initialize()).await.json()["result"]["capabilities"].clone();
    for capabilities in [modern, old] {
        for absent in ["tasks", "resources", "prompts", "completions", "extensions", "experimental"] {
            assert!(capabilities.get(absent).is_none(), "{absent}: {capabilities}");
        }
        assert_eq!(capabilities["tools"], json!({ "listChanged": true }), "{capabilities}");
        assert!(!capabilities.to_string().contains("subscribe"), "{capabilities}");
    }
}

#[tokio::test]
async fn a_call_that_requests_a_task_gets_the_result() {
    let service = service();
    let session = open(&service).await;
    let params = || json!({ "name": "echo", "arguments": { "text": "hi" }, "task": { "ttl": 1000 } });
    let extension = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let mut declared = params();
    declared["_meta"] = json!({ "io.modelcontextprotocol/clientCapabilities": extension });
    for request in [
        legacy(Some(&session), "tools/call", params()),
        stateless("tools/call", params(), &[]),
        stateless("tools/call", declared, &[]),
    ] {
        let answer = send(&service, request).await;
        let result = &answer.json()["result"];
        assert_eq!((answer.status, &result["content"][0]["text"]), (StatusCode::OK, &json!("hi")));
        assert!(result.get("task").is_none() && result.get("taskId").is_none(), "{result}");
        assert!(result.get("resultType").is_none_or(|kind| kind == "complete"), "{result}");
    }
}

#[tokio::test]
async fn methods_of_missing_features_are_unknown_in_both_eras() {
    let service = service();
    let session = open(&service).await;
    for method in [
        "tasks/get",
        "tasks/result",
        "tasks/list",
        "tasks/cancel",
        "tasks/update",
        "resources/subscribe",
        "resources/unsubscribe",
        "elicitation/create",
        "sampling/createMessage",
        "roots/list",
    ] {
        let params = || json!({ "taskId": "t", "uri": "test://x" });
        // The tasks extension mirrors the id of the task.
        let name = if method.starts_with("tasks/") && !method.ends_with("list") { "t" } else { "test://x" };
        let modern = send(&service, stateless(method, params(), &[("mcp-name", name)])).await;
        assert_eq!((modern.status.as_u16(), modern.error_code()), (404, Some(-32601)), "{method}: {modern:?}");
        let old = send(&service, legacy(Some(&session), method, params())).await;
        assert_eq!((old.status.as_u16(), old.error_code()), (200, Some(-32601)), "{method}: {old:?}");
    }
}
