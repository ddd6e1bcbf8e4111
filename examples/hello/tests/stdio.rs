//! A client starts the program and calls its tool over stdio.

use std::time::Duration;

use mcp_client::{ChildProcess, Client};
use serde_json::json;

#[tokio::test]
async fn the_program_serves_its_tool_over_stdio() {
    let session = async {
        let client = Client::connect(ChildProcess::new(env!("CARGO_BIN_EXE_hello"))).await.unwrap();
        let tools = client.list_tools().await.unwrap();
        assert_eq!(tools.len(), 1);
        assert_eq!((tools[0].name.as_str(), tools[0].description.as_deref()), ("hello", Some("Greet a person.")));
        let result = client.call_tool("hello", json!({ "name": "Ada" })).await.unwrap().ok().unwrap();
        assert_eq!(result.text(), "Hello, Ada!");
        client.close().await;
    };
    tokio::time::timeout(Duration::from_secs(30), session).await.unwrap();
}
