//! Differences between a run and its recording.

use std::fmt;

/// A difference between a run and its recording.
///
/// ```
/// use mcp_agent::record::{Recorder, Recording};
/// use mcp_client::Client;
/// use mcp_server::{Server, tool};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = std::env::temp_dir().join(format!("mcp-agent-difference-{}.jsonl", std::process::id()));
/// let recorder = Recorder::create(&path)?;
/// let server = Server::builder("s", "1.0").tool(tool("greet", async || "Hello!")).build();
/// let client = Client::connect(recorder.connector("s", server)).await?;
/// client.close().await;
///
/// let recording = Recording::load(&path)?;
/// let client = Client::connect(recording.connector("s")).await?;
/// assert!(client.call_tool("greet", ()).await.is_err());
/// assert_eq!(recording.differences()[0].server, "s");
/// # std::fs::remove_file(path)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The name of the server.
    pub server: String,
    /// The method of the message, or the method of the question that it answers.
    pub method: String,
    /// The text.
    pub text: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.server, self.method, self.text)
    }
}
