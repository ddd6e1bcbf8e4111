//! The faults between a request and its answer. Their texts contain no secrets.

use std::{error::Error, fmt, io, time::Duration};

use mcp_fetch::FetchError;
use mcp_protocol::Challenge;
use mcp_transport::TransportError;
use reqwest::Url;

use crate::{AuthorizerError, AuthorizerErrorKind, config};

/// A reason why there is no usable answer.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Nothing was sent: no connection could be opened.
    Connect {
        origin: String,
        source: reqwest::Error,
    },
    /// Nothing was sent: the certificate of the server is not trusted.
    Tls {
        origin: String,
        source: rustls::Error,
    },
    /// Nothing was sent: the credentials would not be encrypted.
    Cleartext {
        origin: String,
    },
    /// Nothing was sent: the HTTP client cannot be built.
    Client(reqwest::Error),
    /// Nothing was sent: the client for authorization servers cannot be built.
    Fetch(FetchError),
    /// Nothing was sent: the certificates of the system cannot be used.
    Roots(rustls::Error),
    /// Nothing was sent: a header cannot carry a part of the message.
    Unsendable(String),
    /// The connection broke after something was sent.
    Broken(reqwest::Error),
    Redirect {
        status: u16,
        to: Option<String>,
    },
    /// The server redirects within its origin, too often or to another method.
    RedirectWithin {
        status: u16,
    },
    Silent {
        after: Duration,
    },
    ContentType(String),
    Status {
        status: u16,
        challenges: Vec<Challenge>,
    },
    TooLarge {
        limit: usize,
    },
    Authorizer(AuthorizerError),
    /// The stream of HTTP+SSE does not begin with an endpoint.
    NoEndpoint,
    ForeignEndpoint {
        origin: String,
    },
    /// The stream of HTTP+SSE ended, and with it the session.
    StreamEnded,
}

impl Fault {
    /// Classifies an error of sending a request.
    pub(crate) fn sending(error: reqwest::Error, url: &Url) -> Self {
        let origin = config::origin(url);
        match certificate_fault(&error) {
            Some(source) if error.is_connect() => Self::Tls { origin, source },
            _ if error.is_connect() => Self::Connect { origin, source: error.without_url() },
            _ if error.is_builder() => Self::Client(error.without_url()),
            _ => Self::Broken(error.without_url()),
        }
    }

    /// Returns the wait before another attempt, if the server cannot have received any part of the message and another
    /// attempt can succeed.
    pub(crate) fn unsent(&self) -> Option<Option<Duration>> {
        match self {
            Self::Connect { .. } => Some(None),
            Self::Authorizer(error) => match error.kind() {
                AuthorizerErrorKind::Unavailable { retry_after } => Some(retry_after),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn into_error(self) -> TransportError {
        match self {
            Self::Broken(error) => {
                tracing::debug!(error = &error as &dyn Error, "a connection broke before the answer was whole");
                TransportError::unanswered()
            }
            Self::TooLarge { limit } => TransportError::too_large(limit),
            Self::Status { status, challenges } => TransportError::http(status, None, "").with_challenges(challenges),
            Self::Authorizer(error) => error.into_transport_error(),
            fault @ Self::Connect { .. } => TransportError::unreachable(fault),
            fault @ (Self::Tls { .. } | Self::Cleartext { .. } | Self::Client(_) | Self::Fetch(_) | Self::Roots(_)) => {
                TransportError::unreachable(fault).lasting()
            }
            fault @ (Self::Redirect { .. } | Self::RedirectWithin { .. }) => TransportError::other(fault)
                .lasting()
                .with_summary("the server answered with a redirect that is not followed"),
            fault @ Self::ContentType(_) => TransportError::other(fault)
                .lasting()
                .with_summary("the server answered with content that is neither JSON nor an event stream"),
            fault @ (Self::Unsendable(_) | Self::NoEndpoint | Self::ForeignEndpoint { .. }) => {
                TransportError::other(fault).lasting()
            }
            fault => TransportError::other(fault),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect { origin, .. } => write!(f, "cannot connect to `{origin}`"),
            Self::Tls { origin, .. } => write!(f, "cannot connect to `{origin}` securely"),
            Self::Cleartext { origin } => {
                write!(f, "credentials are not sent to `{origin}`, because the connection is not encrypted")
            }
            Self::Client(_) => f.write_str("the HTTP client cannot be used as it is configured"),
            Self::Fetch(_) => f.write_str("the client for authorization servers cannot be used as it is configured"),
            Self::Roots(_) => f.write_str("the root certificates cannot be used"),
            Self::Unsendable(what) => write!(f, "the message contains {what}, which a header cannot carry"),
            Self::Broken(_) => f.write_str("the connection broke before the answer was whole"),
            Self::Redirect { status, to: Some(to) } => {
                write!(f, "the server redirects to `{to}` (HTTP status {status}), which is not followed")
            }
            Self::Redirect { status, to: None } => {
                write!(f, "the server redirects with HTTP status {status} but without a target")
            }
            Self::RedirectWithin { status: status @ (307 | 308) } => {
                write!(f, "the server redirects to itself too often (HTTP status {status})")
            }
            Self::RedirectWithin { status } => {
                write!(
                    f,
                    "the server redirects with HTTP status {status}, which would change the method of the request"
                )
            }
            Self::Silent { after } => write!(f, "the server did not answer within {after:?}"),
            Self::ContentType(kind) if kind.is_empty() => f.write_str("the server answered without a content type"),
            Self::ContentType(kind) => {
                write!(
                    f,
                    "the server answered with content of type `{kind}`, which is neither JSON nor an event stream"
                )
            }
            Self::Status { status, .. } => write!(f, "the server answered with HTTP status {status}"),
            Self::TooLarge { limit } => write!(f, "the answer is longer than the limit of {limit} bytes"),
            Self::Authorizer(_) => f.write_str("the request cannot be authorized"),
            Self::NoEndpoint => f.write_str("the event stream does not begin with the event `endpoint`"),
            Self::ForeignEndpoint { origin } => {
                write!(f, "the event stream names an endpoint of another origin, `{origin}`")
            }
            Self::StreamEnded => f.write_str("the event stream that carried the answers has ended"),
        }
    }
}

impl Error for Fault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Connect { source, .. } | Self::Client(source) | Self::Broken(source) => Some(source),
            Self::Tls { source, .. } | Self::Roots(source) => Some(source),
            Self::Fetch(source) => Some(source),
            Self::Authorizer(source) => Some(source),
            _ => None,
        }
    }
}

/// Finds the TLS error in the chain of causes.
fn certificate_fault(error: &reqwest::Error) -> Option<rustls::Error> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        // `io::Error` does not return its inner error as the source.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let tls = inner.and_then(|inner| inner.downcast_ref()).or_else(|| error.downcast_ref::<rustls::Error>());
        if let Some(tls) = tls {
            return Some(tls.clone());
        }
        cause = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}
