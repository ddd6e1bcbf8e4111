//! A client starts the program and uses each of its routes over stdio.

use std::time::Duration;

use mcp_client::{ChildProcess, Client};
use serde_json::json;

#[tokio::test]
async fn the_program_serves_a_tool_resources_and_a_prompt() {
    let session = async {
        let client = Client::connect(ChildProcess::new(env!("CARGO_BIN_EXE_macros"))).await.unwrap();
        let sum = client.call_tool("add", json!({ "a": 2, "b": 3 })).await.unwrap().ok().unwrap();
        assert_eq!(sum.text(), "5");
        for (uri, text) in [("config://app", "theme = dark"), ("greeting://Ada", "Hello, Ada!")] {
            let read = client.read_resource(uri).await.unwrap();
            assert_eq!(read.contents[0].as_text(), Some(text), "{uri}");
        }
        let prompt = client.get_prompt("review", json!({ "code": "let a;" })).await.unwrap();
        assert_eq!(prompt.messages[0].content.as_text(), Some("Review this code:\n\nlet a;"));
        client.close().await;
    };
    tokio::time::timeout(Duration::from_secs(30), session).await.unwrap();
}
