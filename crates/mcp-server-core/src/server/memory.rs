//! Connects clients in the same process, through memory.

use mcp_transport::{BoxFuture, Connect, Transport, TransportError, memory::duplex};

use crate::Server;

/// The most messages that wait in one direction.
const CAPACITY: usize = 64;

/// Each transport is a connection of its own. A task serves it until the other end is dropped or the server shuts down.
/// Opening a transport needs a Tokio runtime.
impl Connect for Server {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        Box::pin(async move {
            if self.is_shutting_down() {
                return Err(TransportError::closed());
            }
            let (ours, theirs) = duplex(CAPACITY);
            let server = self.clone();
            tokio::spawn(async move {
                if let Err(error) = server.serve(ours).await {
                    tracing::debug!(%error, "a connection in memory ended");
                }
            });
            Ok(Box::new(theirs) as Box<dyn Transport>)
        })
    }

    fn describe(&self) -> String {
        format!("{} (in memory)", self.info().name)
    }
}
