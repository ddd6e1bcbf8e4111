//! Client transports with one stream for all messages: memory, and newline-delimited JSON as on stdio.

#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use bytes::Bytes;
use mcp_server_core::Server;
use mcp_transport::{Frame, Transport, memory, ndjson::Ndjson, recv};
use serde_json::json;
use tokio::io::{DuplexStream, ReadHalf};

/// A client's end.
pub(crate) struct StreamTransport<T>(T);

pub(crate) type OverMemory = StreamTransport<memory::MemoryTransport>;
pub(crate) type OverNdjson = StreamTransport<Ndjson<ReadHalf<DuplexStream>>>;

impl OverMemory {
    pub(crate) fn connect(server: &Server) -> Self {
        let (near, far) = memory::duplex(64);
        let server = server.clone();
        tokio::spawn(async move { server.serve(far).await });
        Self(near)
    }
}

impl OverNdjson {
    pub(crate) fn connect(server: &Server) -> Self {
        let (near, far) = tokio::io::duplex(1 << 16);
        let server = server.clone();
        tokio::spawn(async move {
            let (reader, writer) = tokio::io::split(far);
            server.serve_io(reader, writer).await
        });
        let (reader, writer) = tokio::io::split(near);
        Self(Ndjson::new(reader, writer))
    }
}

impl<T: Transport> StreamTransport<T> {
    pub(crate) async fn send(&mut self, message: String) {
        self.0.sender().send(Frame::new(message)).await.unwrap();
    }

    pub(crate) async fn receive(&mut self) -> Bytes {
        recv(&mut self.0).await.unwrap().unwrap().message
    }

    /// Cancels a request.
    pub(crate) async fn cancel(&mut self, id: i64) {
        let params = json!({ "requestId": id });
        self.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }).to_string()).await;
    }
}
