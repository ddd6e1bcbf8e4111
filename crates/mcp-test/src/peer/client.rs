//! A client that sends any text.

use std::fmt;

use mcp_transport::ndjson::{Ndjson, Options};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split},
    time::timeout,
};

use super::TIMEOUT;

/// A client over pipes in memory. It sends any text, and reads the messages of the server.
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
/// client.send("this is not JSON\n").await;
/// assert_eq!(client.next().await["error"]["code"], -32700);
/// client.send_part(r#"{"jsonrpc": "2.0", "id""#).await;
/// client.close().await;
/// assert!(serving.await.unwrap().is_ok(), "a partial message is not an error of the transport");
/// # });
/// ```
pub struct ScriptedClient {
    reader: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl ScriptedClient {
    /// Creates a client, and the transport for [`Server::serve`](mcp_server_core::Server::serve).
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime.
    #[must_use]
    pub fn new() -> (Self, Ndjson<ReadHalf<DuplexStream>>) {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (reader, writer) = split(theirs);
        let transport = Ndjson::with_options(reader, writer, &Options::default());
        let (reader, writer) = split(ours);
        (Self { reader: BufReader::new(reader).lines(), writer }, transport)
    }

    /// Sends a text, and adds a line break if it has none.
    ///
    /// # Panics
    ///
    /// Panics if the server does not read the text within ten seconds.
    pub async fn send(&mut self, text: impl AsRef<str>) {
        let text = text.as_ref();
        self.send_part(text).await;
        if !text.ends_with('\n') {
            self.send_part("\n").await;
        }
    }

    /// Sends bytes unchanged.
    ///
    /// # Panics
    ///
    /// Panics if the server does not read the bytes within ten seconds.
    pub async fn send_part(&mut self, text: impl AsRef<[u8]>) {
        let sent = timeout(TIMEOUT, self.writer.write_all(text.as_ref())).await;
        assert!(matches!(sent, Ok(Ok(()))), "the server did not read the message: {sent:?}");
    }

    /// Returns the next message. Text that is not JSON is a string, and the end of the connection is null.
    ///
    /// # Panics
    ///
    /// Panics if the server sends nothing within ten seconds.
    pub async fn next(&mut self) -> Value {
        match timeout(TIMEOUT, self.reader.next_line()).await {
            Ok(Ok(Some(line))) => serde_json::from_str(&line).unwrap_or(Value::String(line)),
            Ok(Ok(None) | Err(_)) => Value::Null,
            Err(_) => panic!("the server sent nothing for {TIMEOUT:?}"),
        }
    }

    /// Closes the writing half. The client can still read.
    pub async fn close(&mut self) {
        // The server may have closed the connection first.
        let _ = self.writer.shutdown().await;
    }
}

impl fmt::Debug for ScriptedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedClient").finish_non_exhaustive()
    }
}
