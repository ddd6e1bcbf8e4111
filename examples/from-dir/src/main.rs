//! A server made from a directory: `from-dir [--stdio] [DIRECTORY]`. The default directory is the example `content`.

#![expect(clippy::print_stderr, reason = "over stdio, stdout carries protocol messages only")]

use mcp_server::{content::server_from_dir, prelude::*};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/content");

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The server logs files that it cannot serve, and the stderr of the commands.
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let (options, paths): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|arg| arg.starts_with("--"));
    let server = server_from_dir(paths.first().map_or(EXAMPLE, String::as_str))?;
    if options.iter().any(|option| option == "--stdio") {
        server.serve_stdio().await?;
    } else {
        eprintln!("from-dir serves http://127.0.0.1:8080/mcp");
        server.serve_http("127.0.0.1:8080").await?;
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use mcp_server::content::server_from_dir_report;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn serves_every_file_of_the_example() {
        let (server, problems) = server_from_dir_report(EXAMPLE).unwrap();
        assert_eq!(problems, []);
        assert_eq!(server.tools().names(), ["disk_usage", "word_count"]);

        let counted = server.call_tool("word_count", json!({ "text": "to be or not" })).await.unwrap();
        assert_eq!(counted.structured_content, Some(json!({ "words": 4, "bytes": 12 })));
        let usage = server.call_tool("disk_usage", json!({})).await.unwrap();
        assert!(!usage.is_error && usage.content[0].as_text().unwrap().contains("resources"), "{usage:?}");

        let prompt = server.get_prompt("summarize", [("guide", "style"), ("audience", "children")]).await.unwrap();
        assert!(prompt.messages[0].content.as_text().unwrap().contains("Write for children."));
        let guide = server.read_resource("file:///guides/style.md").await.unwrap();
        assert_eq!(guide.contents[0].mime_type.as_deref(), Some("text/markdown"));
    }
}
