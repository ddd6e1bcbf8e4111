//! The errors of a server that cannot serve an address.

use std::{fmt, io, net::SocketAddr};

use mcp_auth::ConfigError;
use mcp_protocol::ErrorChain;

#[cfg(doc)]
use crate::HttpConfig;

/// The error of a server that cannot serve an address.
///
/// `Debug` writes the error with its sources on one line, because a program whose `main` returns the error prints this
/// form.
///
/// ```
/// use mcp_server_core::Server;
/// use mcp_server_http::{HttpError, HttpServer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let server = Server::builder("example", "1.0.0").build();
/// // The default configuration allows loopback hosts only.
/// assert!(matches!(server.serve_http("0.0.0.0:0").await, Err(HttpError::HostsRequired(_))));
/// # }
/// ```
#[non_exhaustive]
pub enum HttpError {
    /// The configuration is invalid. The text names the setting ([`HttpConfig::check`]).
    Config(ConfigError),
    /// The address is not a loopback address, and the configuration names no hosts
    /// ([`HttpConfig::allowed_hosts`]).
    HostsRequired(SocketAddr),
    /// The address is not a loopback address, and the configuration has an authenticator but no
    /// [`public_url`](HttpConfig::public_url).
    PublicUrlRequired(SocketAddr),
    /// The address cannot be resolved.
    Resolve {
        /// The address as the caller wrote it.
        address: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The server cannot listen on the address.
    Bind {
        /// The resolved address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The listener does not report its own address.
    Listener(io::Error),
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(fault) => fmt::Display::fmt(fault, f),
            Self::HostsRequired(address) => {
                write!(f, "{address} is not a loopback address: name the hosts that it serves (`allowed_hosts`)")
            }
            Self::PublicUrlRequired(address) => {
                write!(f, "{address} is not a loopback address: set the URL for which tokens are issued (`public_url`)")
            }
            Self::Resolve { address, .. } => write!(f, "the address {address} to listen on cannot be resolved"),
            Self::Bind { address, .. } => write!(f, "the server cannot listen on {address}"),
            Self::Listener(_) => f.write_str("the listener has no address"),
        }
    }
}

impl fmt::Debug for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&ErrorChain::new(self), f)
    }
}

impl std::error::Error for HttpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Resolve { source, .. } | Self::Bind { source, .. } | Self::Listener(source) => Some(source),
            Self::Config(_) | Self::HostsRequired(_) | Self::PublicUrlRequired(_) => None,
        }
    }
}
