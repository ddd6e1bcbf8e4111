//! Tests of the server through its public interface.

use std::{sync::Arc, time::Duration};

use mcp_server::{
    Server,
    store::{MemoryStore, Store},
    transport::{Frame, Transport as _, memory::duplex, recv},
};
use serde_json::{Value, json};

use crate::{app::App, cli::Options};

fn server(options: &Options) -> Server {
    crate::server(options, &App::default(), None)
}

#[test]
fn lists_have_the_order_that_the_suites_require() {
    let tools = server(&Options { tools: 1_000, ..Options::default() });
    let tools = tools.tools().names();
    assert_eq!(tools[..2], ["test_simple_text", "test_x_mcp_header"]);
    assert!(tools.contains(&"generated_0001".to_owned()) && tools.contains(&"generated_1000".to_owned()));
    let resources = server(&Options::default()).resources().names();
    assert_eq!(resources[0], "test://static-text");
}

#[tokio::test]
async fn tools_return_results() {
    let server = server(&Options { tools: 1, ..Options::default() });
    for (tool, arguments, is_error, text) in [
        ("echo", json!({ "text": "hi" }), false, "hi"),
        ("add", json!({ "a": 1, "b": 2.5 }), false, r#"{"sum":3.5}"#),
        ("add", json!({ "a": 1e308, "b": 1e308 }), true, "too large"),
        ("big", json!({ "n": 3 }), false, "xxx"),
        ("big", json!({ "n": 16_777_217 }), true, "16777216"),
        ("slow", json!({ "ms": 0 }), false, "That took 0 ms."),
        ("test_x_mcp_header", json!({ "region": "eu" }), false, r#"The region is "eu"."#),
        ("json_schema_2020_12_tool", json!({ "contactMethod": "phone", "phone": "1" }), false, "contactMethod, phone"),
        ("json_schema_2020_12_tool", json!({ "contactMethod": "phone" }), true, "phone"),
        ("generated_0001", json!({ "text": "abc", "limit": 2 }), false, "1: ab"),
    ] {
        let result = server.call_tool(tool, arguments).await.unwrap();
        assert_eq!(result.is_error, is_error, "{tool}: {result:?}");
        let text_of_result = result.content[0].as_text().unwrap();
        assert!(text_of_result.contains(text), "{tool}: {text_of_result}");
    }
}

#[tokio::test]
async fn counts_finished_and_dropped_calls() {
    let server = server(&Options::default());
    server.call_tool("slow", json!({ "ms": 0 })).await.unwrap();
    let cut = tokio::time::timeout(Duration::from_millis(20), server.call_tool("slow", json!({ "ms": 50_000 }))).await;
    assert!(cut.is_err());
    let observed = server.call_tool("observed", json!({})).await.unwrap();
    let expected = json!({ "running": 0, "finished": 1, "dropped": 1, "roots_changed": 0 });
    assert_eq!(observed.structured_content, Some(expected));
}

#[tokio::test]
async fn writes_finds_and_reads_a_note() {
    let server = server(&Options::default());
    for answer in ["A new note.", "The note says something new."] {
        let written = server.call_tool("write_note", json!({ "title": "a b/c", "text": answer })).await.unwrap();
        assert_eq!(written.content[0].as_text(), Some(answer));
    }
    let found = server.call_tool("find_notes", json!({ "beginning": "a" })).await.unwrap();
    assert_eq!(found.structured_content, Some(json!({ "titles": ["a b/c"] })));
    let link = serde_json::to_value(&found.content[0]).unwrap();
    let read = server.read_resource(link["uri"].as_str().unwrap()).await.unwrap();
    assert_eq!(read.contents[0].as_text(), Some("The note says something new."));
    assert!(server.read_resource("note:///other").await.is_err());
    let prompt = server.get_prompt("summarize_note", [("title", "a b/c")]).await.unwrap();
    assert_eq!(prompt.messages.len(), 2);
    assert!(server.get_prompt("summarize_note", [("title", "other")]).await.is_err());
}

#[tokio::test]
async fn lists_change_while_the_server_runs() {
    let server = server(&Options::default());
    let before = server.tools().names().len();
    for (tool, more) in [("test_trigger_tool_change", 1), ("test_trigger_tool_change", 0)] {
        server.call_tool(tool, json!({})).await.unwrap();
        assert_eq!(server.tools().names().len(), before + more);
    }
    for present in [true, false] {
        server.call_tool("test_trigger_prompt_change", json!({})).await.unwrap();
        assert_eq!(server.prompts().names().contains(&"test_dynamic_prompt".to_owned()), present);
    }
}

#[tokio::test]
async fn all_nodes_have_the_same_lists() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let [here, there] = [(); 2].map(|()| {
        let app = App::new(Some(store.clone()));
        let server =
            crate::server(&Options { state_key: Some([7; 32]), ..Options::default() }, &app, Some(store.clone()));
        (app, server)
    });
    // Any node may remove the item.
    let work = async {
        for (caller, exists) in [(&here, true), (&there, false), (&there, true), (&here, false)] {
            caller.1.call_tool("test_trigger_tool_change", json!({})).await.unwrap();
            for (_, server) in [&here, &there] {
                while server.tools().names().contains(&"test_dynamic_tool".to_owned()) != exists {
                    tokio::task::yield_now().await;
                }
            }
        }
    };
    tokio::select! {
        () = here.0.follow_items(&here.1) => unreachable!("it never completes"),
        () = there.0.follow_items(&there.1) => unreachable!("it never completes"),
        () = async { tokio::time::timeout(Duration::from_secs(60), work).await.unwrap() } => {}
    }
}

#[tokio::test]
async fn a_review_has_only_the_given_focus() {
    let server = server(&Options::default());
    for (focus, expected) in [(None, false), (Some(("focus", "naming")), true)] {
        let arguments = [("language", "rust"), ("code", "fn f() {}")].into_iter().chain(focus);
        let prompt = server.get_prompt("review_code", arguments).await.unwrap();
        let text = prompt.messages[0].content.as_text().unwrap();
        assert_eq!(text.contains("Look at naming above all."), expected, "{text}");
        assert!(text.contains("```rust\nfn f() {}\n```"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_watched_resource_changes_every_three_seconds() {
    let app = App::default();
    let server = crate::server(&Options::default(), &app, None);
    let (mut client, far) = duplex(16);
    let serving = async {
        tokio::select! {
            served = server.serve(far) => served.unwrap(),
            () = app.change_periodically(&server) => unreachable!("it never completes"),
        }
    };
    let watching = async {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let filter = json!({ "resourceSubscriptions": ["test://watched-resource"] });
        let params = json!({ "_meta": meta, "notifications": filter });
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params });
        client.sender().send(Frame::new(request.to_string())).await.unwrap();
        let mut texts = Vec::new();
        let mut start = None;
        for method in ["subscriptions/acknowledged", "resources/updated", "resources/updated"] {
            let message = tokio::time::timeout(Duration::from_secs(10), recv(&mut client)).await.unwrap();
            let message: Value = serde_json::from_slice(&message.unwrap().unwrap().message).unwrap();
            assert_eq!(message["method"], format!("notifications/{method}"));
            start.get_or_insert_with(tokio::time::Instant::now);
            let read = server.read_resource("test://watched-resource").await.unwrap();
            texts.push(read.contents[0].as_text().unwrap().to_owned());
        }
        assert_eq!(texts, [0, 1, 2].map(|n| format!("Watched resource content, change {n}.")));
        assert_eq!(start.unwrap().elapsed(), Duration::from_secs(6));
        drop(client);
    };
    tokio::join!(serving, watching);
}
