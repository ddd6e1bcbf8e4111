//! Results as the server sent them, without decoding.

use bytes::Bytes;
use mcp_protocol::ProtocolVersion;

use super::{Call, ClientCore, Reply};
use crate::Error;

/// The result of a call as the server sent it ([`Call::raw_result`]).
///
/// See the example of [`Call::raw_result`].
#[derive(Debug, Clone)]
pub struct RawResult {
    bytes: Bytes,
    version: ProtocolVersion,
    connection: u64,
}

impl<T> Call<T> {
    /// Returns the result as the JSON object that the server sent. The client does not decode it, and does not check
    /// structured content.
    ///
    /// The bytes are a part of the received message, without a copy.
    ///
    /// ```
    /// # use mcp_server::{Server, tool};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_client::Error> {
    /// use mcp_client::Client;
    ///
    /// # let server = Server::builder("s", "1").tool(tool("greet", async || "Hello!")).build();
    /// let client = Client::connect(&server).await?;
    /// let result = client.call_tool("greet", ()).raw_result().await?;
    /// println!("{} bytes of revision {}", result.bytes().len(), result.version());
    /// assert!(result.into_bytes().starts_with(b"{"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn raw_result(self) -> Call<RawResult> {
        let Self { handle, request, options, .. } = self;
        Call { handle, request, options, read: RawResult::read }
    }
}

impl RawResult {
    pub(super) fn read(_core: &ClientCore, reply: &Reply) -> Result<Self, Error> {
        reply.check_object()?;
        Ok(Self { bytes: reply.bytes.clone(), version: reply.version, connection: reply.connection })
    }

    /// Returns the JSON of the result.
    ///
    /// See the example of [`Call::raw_result`].
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the JSON of the result by value.
    ///
    /// See the example of [`Call::raw_result`].
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// Returns the revision of the connection. The result has the form of this revision.
    ///
    /// See the example of [`Call::raw_result`].
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// Returns the number of the connection of the result ([`Client::connection_number`](crate::Client::connection_number)).
    #[doc(hidden)]
    #[must_use]
    pub fn connection(&self) -> u64 {
        self.connection
    }
}
