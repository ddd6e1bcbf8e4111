//! A client that says whatever a test wants it to say.

use std::fmt;

use mcp_transport::ndjson::{Ndjson, Options};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split},
    time::timeout,
};

use super::PATIENCE;

/// A client over pipes in memory that sends text, whatever it is, and reads what comes.
///
/// ```
/// use mcp_server_core::{Server, tool};
/// use mcp_test::peer::ScriptedClient;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # runtime.block_on(async {
/// let server = Server::builder("hello", "1.0").tool(tool("hello", async || "Hello!")).build();
/// let (mut client, transport) = ScriptedClient::new();
/// let serving = tokio::spawn(async move { server.serve(transport).await });
/// client.send("this is no JSON\n").await;
/// assert_eq!(client.next().await["error"]["code"], -32700);
/// client.send_part(r#"{"jsonrpc": "2.0", "id""#).await;
/// client.leave().await;
/// assert!(serving.await.unwrap().is_ok(), "half a message and an end do no harm");
/// # });
/// ```
pub struct ScriptedClient {
    reader: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl ScriptedClient {
    /// A client, and the transport that a server serves.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new() -> (Self, Ndjson<ReadHalf<DuplexStream>>) {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (reader, writer) = split(theirs);
        let transport = Ndjson::with_options(reader, writer, &Options::default());
        let (reader, writer) = split(ours);
        (Self { reader: BufReader::new(reader).lines(), writer }, transport)
    }

    /// Sends the text and, if it does not end with one, a line break.
    ///
    /// # Panics
    /// When the server does not take it within ten seconds.
    pub async fn send(&mut self, text: impl AsRef<str>) {
        let text = text.as_ref();
        self.send_part(text).await;
        if !text.ends_with('\n') {
            self.send_part("\n").await;
        }
    }

    /// Sends the text as it is.
    ///
    /// # Panics
    /// When the server does not take it within ten seconds.
    pub async fn send_part(&mut self, text: impl AsRef<[u8]>) {
        let sent = timeout(PATIENCE, self.writer.write_all(text.as_ref())).await;
        assert!(matches!(sent, Ok(Ok(()))), "the server did not take what was sent to it: {sent:?}");
    }

    /// The next message; text that is no JSON comes as a string, the end as null.
    ///
    /// # Panics
    /// When nothing comes within ten seconds.
    pub async fn next(&mut self) -> Value {
        match timeout(PATIENCE, self.reader.next_line()).await {
            Ok(Ok(Some(line))) => serde_json::from_str(&line).unwrap_or(Value::String(line)),
            Ok(Ok(None) | Err(_)) => Value::Null,
            Err(_) => panic!("the server said nothing for {PATIENCE:?}"),
        }
    }

    /// Ends its own side, and goes on listening.
    pub async fn leave(&mut self) {
        // The server may have left before.
        let _ = self.writer.shutdown().await;
    }
}

impl fmt::Debug for ScriptedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedClient").finish_non_exhaustive()
    }
}
