//! A client that lists the tools of a server and calls one. `client [URL]`; the default URL is that of the quickstart.

#![expect(clippy::print_stdout, reason = "the program prints the result")]

use mcp_client::Client;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:8080/mcp".to_owned());
    let client = Client::builder("client", env!("CARGO_PKG_VERSION")).connect(url).await?;
    for tool in client.list_tools().await? {
        println!("{}: {}", tool.name, tool.description.unwrap_or_default());
    }
    let found = client.call_tool("count", json!({ "text": "strawberry", "what": "r" })).await?.ok()?;
    println!("{}", found.text());
    client.close().await;
    Ok(())
}
