//! The targets that a client can connect to.

use std::sync::Arc;

use mcp_transport::{BoxFuture, Connect, Transport, TransportError};
use parking_lot::Mutex;

use crate::Error;

#[diagnostic::on_unimplemented(
    message = "a client cannot be connected to `{Self}`",
    note = "a target is a URL (feature `http`), a `ChildProcess`, a `Server` in memory, `OpenTransport::new(transport)`, or a type that implements `Connect`"
)]
/// A target that a client can connect to: a URL (feature `http`), or a type that opens transports ([`Connect`]), such
/// as a child process or a server in memory.
///
/// `M` distinguishes the implementations. Programs do not name it.
///
/// ```
/// # use mcp_server::Server;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_client::Error> {
/// use mcp_client::{Client, IntoConnector};
///
/// async fn names<M>(target: impl IntoConnector<M>) -> Result<Vec<String>, mcp_client::Error> {
///     let client = Client::connect(target).await?;
///     Ok(client.list_tools().await?.into_iter().map(|tool| tool.name).collect())
/// }
///
/// # let server = Server::builder("s", "1").tool(mcp_server::tool("greet", async || "Hello!")).build();
/// assert_eq!(names(&server).await?, ["greet"]);
/// # Ok(())
/// # }
/// ```
pub trait IntoConnector<M> {
    /// Returns the connector that opens the transports, with the settings of the client for it.
    ///
    /// # Errors
    /// If the target is invalid, such as a malformed URL, or if it cannot use a setting.
    fn into_connector(self, settings: &ConnectorSettings) -> Result<Arc<dyn Connect>, Error>;
}

/// The settings of a client for its connector ([`IntoConnector`]).
///
/// A connector of your own that uses no setting:
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_client::{ConnectorSettings, Error, IntoConnector, OpenTransport, transport::{Connect, memory::MemoryTransport}};
///
/// struct Pipe(MemoryTransport);
///
/// impl IntoConnector<Pipe> for Pipe {
///     fn into_connector(self, settings: &ConnectorSettings) -> Result<Arc<dyn Connect>, Error> {
///         OpenTransport::new(self.0).into_connector(settings)
///     }
/// }
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ConnectorSettings {
    /// Authorizes the requests of the client over HTTP ([`ClientBuilder::auth`](crate::ClientBuilder::auth)).
    #[cfg(feature = "http")]
    pub authorizer: Option<Arc<dyn mcp_client_http::Authorizer>>,
}

impl ConnectorSettings {
    /// Rejects an authorizer for a target without HTTP.
    #[cfg_attr(not(feature = "http"), expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "see `http`"))]
    fn without_http(&self) -> Result<(), Error> {
        #[cfg(feature = "http")]
        if self.authorizer.is_some() {
            return Err(Error::request("an authorizer needs a target over HTTP: a URL or an `Http`"));
        }
        Ok(())
    }

    /// Returns the connector of an endpoint.
    #[cfg(feature = "http")]
    fn http(&self, mut http: mcp_client_http::Http) -> Arc<dyn Connect> {
        if let Some(authorizer) = &self.authorizer {
            http = http.authorizer(Arc::clone(authorizer));
        }
        Arc::new(http)
    }
}

impl std::fmt::Debug for ConnectorSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectorSettings").finish_non_exhaustive()
    }
}

/// Marks targets that implement [`Connect`].
#[derive(Debug)]
#[non_exhaustive]
pub struct ByValue;

/// Marks references to targets that implement [`Connect`].
#[derive(Debug)]
#[non_exhaustive]
pub struct ByReference;

/// Marks targets in an [`Arc`].
#[derive(Debug)]
#[non_exhaustive]
pub struct ByArc;

impl<C: Connect> IntoConnector<ByValue> for C {
    fn into_connector(self, settings: &ConnectorSettings) -> Result<Arc<dyn Connect>, Error> {
        #[cfg(feature = "http")]
        if let Some(http) = (&self as &dyn std::any::Any).downcast_ref::<mcp_client_http::Http>() {
            return Ok(settings.http(http.clone()));
        }
        settings.without_http()?;
        Ok(Arc::new(self))
    }
}

impl<C: Connect + Clone> IntoConnector<ByReference> for &C {
    fn into_connector(self, settings: &ConnectorSettings) -> Result<Arc<dyn Connect>, Error> {
        self.clone().into_connector(settings)
    }
}

impl IntoConnector<ByArc> for Arc<dyn Connect> {
    fn into_connector(self, settings: &ConnectorSettings) -> Result<Arc<dyn Connect>, Error> {
        settings.without_http()?;
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
    fn into_connector(self, settings: &ConnectorSettings) -> Result<Arc<dyn Connect>, Error> {
        match mcp_client_http::Http::new(self) {
            Ok(http) => Ok(settings.http(http)),
            Err(error) => Err(crate::error::Kind::Address(error).into()),
        }
    }
}

#[cfg(feature = "http")]
impl IntoConnector<ByUrl> for String {
    fn into_connector(self, settings: &ConnectorSettings) -> Result<Arc<dyn Connect>, Error> {
        self.as_str().into_connector(settings)
    }
}

#[cfg(feature = "http")]
impl IntoConnector<ByUrl> for &String {
    fn into_connector(self, settings: &ConnectorSettings) -> Result<Arc<dyn Connect>, Error> {
        self.as_str().into_connector(settings)
    }
}

/// A transport that is already open. A client can connect to it once, and cannot reconnect.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_client::Error> {
/// use mcp_client::{Client, OpenTransport, transport::memory};
/// # let server = mcp_server::Server::builder("s", "1").build();
///
/// let (ours, theirs) = memory::duplex(64);
/// tokio::spawn(async move { server.serve(theirs).await });
/// let client = Client::connect(OpenTransport::new(ours)).await?;
/// client.ping().await?;
/// # Ok(())
/// # }
/// ```
pub struct OpenTransport {
    transport: Mutex<Option<Box<dyn Transport>>>,
}

impl OpenTransport {
    /// Wraps an open transport.
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
