//! A scripted connection with properties of other transports: streams of requests, and a server that does not read.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use mcp_client::{
    Client, ClientBuilder,
    protocol::{ProtocolVersion, RequestId},
    transport::{BoxFuture, Connect, Frame, FrameSender, Transport, TransportError, TrySendError},
};

use super::{Peer, Scripted, scripted};

/// The properties of a transport.
#[derive(Clone, Default)]
pub(crate) struct Properties {
    /// Each request has its own stream, as over HTTP.
    pub(crate) has_request_streams: bool,
    /// The transport has no capacity for frames that do not wait.
    pub(crate) is_full: Arc<AtomicBool>,
}

struct Connector(Scripted, Properties);

struct OpenTransport(Box<dyn Transport>, Properties);

struct Sender(Arc<dyn FrameSender>, Properties);

impl Connect for Connector {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        Box::pin(async {
            let inner = self.0.connect().await?;
            Ok(Box::new(OpenTransport(inner, self.1.clone())) as Box<dyn Transport>)
        })
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

impl Transport for OpenTransport {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        self.0.poll_recv(cx)
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        Arc::new(Sender(self.0.sender(), self.1.clone()))
    }
}

impl Sender {
    fn is_full(&self) -> bool {
        self.1.is_full.load(Ordering::SeqCst)
    }
}

impl FrameSender for Sender {
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
        self.0.send(frame)
    }

    fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
        if self.is_full() { Err(TrySendError::Full(frame)) } else { self.0.try_send(frame) }
    }

    fn ready(&self, len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
        if self.is_full() { Box::pin(pending()) } else { self.0.ready(len) }
    }

    fn close(&self, id: &RequestId) {
        self.0.close(id);
    }

    fn has_request_streams(&self) -> bool {
        self.1.has_request_streams
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        self.0.shutdown()
    }
}

/// Connects a client over a transport with these properties. Returns the client and the server's end of its connection.
pub(crate) async fn connected_over(
    properties: &Properties,
    builder: ClientBuilder,
    version: ProtocolVersion,
) -> (Client, Peer) {
    let (connector, mut peers) = scripted();
    let connecting = tokio::spawn(builder.connect(Connector(connector, properties.clone())));
    let mut peer = peers.next().await;
    peer.open_any(version).await;
    (connecting.await.unwrap().unwrap(), peer)
}
