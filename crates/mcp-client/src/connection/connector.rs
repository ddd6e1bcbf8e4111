//! What a client can be connected to.

use std::sync::Arc;

use mcp_transport::{BoxFuture, Connect, Transport, TransportError};
use parking_lot::Mutex;

use crate::Error;

/// What a client can be connected to: a URL (feature `http`), and whatever opens transports ([`Connect`]: a child process, a
/// server in memory), by value, by reference or manager.
///
/// `M` only tells the implementations apart, and is never written.
#[diagnostic::on_unimplemented(
    message = "a client cannot be connected to `{Self}`",
    note = "it takes a URL (feature `http`), a `ChildProcess`, a `Server` in memory, `OpenTransport::new(transport)`, or anything else that implements `Connect`"
)]
pub trait IntoConnector<M> {
    /// What opens the transports.
    ///
    /// # Errors
    /// When the target is not one that can be connected to, as an address that does not parse.
    fn into_connector(self) -> Result<Arc<dyn Connect>, Error>;
}

/// Marks the targets that open transports by themselves.
#[derive(Debug)]
#[non_exhaustive]
pub struct ByValue;

/// Marks references to targets that open transports by themselves.
#[derive(Debug)]
#[non_exhaustive]
pub struct ByReference;

/// Marks manager targets.
#[derive(Debug)]
#[non_exhaustive]
pub struct ByArc;

impl<C: Connect> IntoConnector<ByValue> for C {
    fn into_connector(self) -> Result<Arc<dyn Connect>, Error> {
        Ok(Arc::new(self))
    }
}

impl<C: Connect + Clone> IntoConnector<ByReference> for &C {
    fn into_connector(self) -> Result<Arc<dyn Connect>, Error> {
        Ok(Arc::new(self.clone()))
    }
}

impl IntoConnector<ByArc> for Arc<dyn Connect> {
    fn into_connector(self) -> Result<Arc<dyn Connect>, Error> {
        Ok(self)
    }
}

/// Marks URLs.
#[cfg(feature = "http")]
#[derive(Debug)]
#[non_exhaustive]
pub struct ByUrl;

#[cfg(feature = "http")]
impl IntoConnector<ByUrl> for &str {
    fn into_connector(self) -> Result<Arc<dyn Connect>, Error> {
        match mcp_client_http::Http::new(self) {
            Ok(http) => Ok(Arc::new(http)),
            Err(error) => Err(crate::error::Kind::Address(error).into()),
        }
    }
}

#[cfg(feature = "http")]
impl IntoConnector<ByUrl> for String {
    fn into_connector(self) -> Result<Arc<dyn Connect>, Error> {
        self.as_str().into_connector()
    }
}

#[cfg(feature = "http")]
impl IntoConnector<ByUrl> for &String {
    fn into_connector(self) -> Result<Arc<dyn Connect>, Error> {
        self.as_str().into_connector()
    }
}

/// A transport that is open already: a client can connect to it once, and never again.
pub struct OpenTransport {
    transport: Mutex<Option<Box<dyn Transport>>>,
}

impl OpenTransport {
    /// Connects to this transport.
    pub fn new(transport: impl Transport) -> Self {
        Self { transport: Mutex::new(Some(Box::new(transport))) }
    }
}

impl Connect for OpenTransport {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        let transport = self.transport.lock().take();
        Box::pin(std::future::ready(transport.ok_or_else(TransportError::closed)))
    }

    fn describe(&self) -> String {
        "an open transport".into()
    }
}

impl std::fmt::Debug for OpenTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenTransport").finish_non_exhaustive()
    }
}
