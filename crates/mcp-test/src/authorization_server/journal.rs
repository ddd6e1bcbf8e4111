//! The requests that the authorization server received, for assertions of tests.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use parking_lot::Mutex;
use url::form_urlencoded;

use super::message;

/// The largest number of requests with their content. Older requests are only counted.
const MAX_REQUESTS: usize = 1_000;

/// An endpoint of the authorization server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Endpoint {
    /// The metadata document, at each of its URLs (RFC 8414, OpenID Connect Discovery).
    Metadata,
    /// The key set (RFC 7517).
    Keys,
    /// Dynamic registration of clients (RFC 7591).
    Registration,
    /// The authorization endpoint (RFC 6749 §3.1).
    Authorization,
    /// The form of the consent page.
    Decision,
    /// The token endpoint (RFC 6749 §3.2).
    Token,
    /// Introspection of tokens (RFC 7662).
    Introspection,
    /// Revocation of tokens (RFC 7009).
    Revocation,
    /// The start of the device flow (RFC 8628 §3.1).
    DeviceAuthorization,
    /// The page on which a user enters the code of a device (RFC 8628 §3.3).
    Device,
    /// A path without an endpoint.
    Unknown,
}

/// A request that the authorization server received. `Debug` shows the names of its parameters, and no values.
///
/// ```
/// use mcp_test::authorization_server::{AuthorizationServer, Endpoint};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let server = AuthorizationServer::builder().build("http://127.0.0.1:8000")?;
/// let request = http::Request::get("/authorize?client_id=c&scope=a").body(Default::default()).unwrap();
/// server.respond(request, std::time::SystemTime::now()).await;
/// assert_eq!(server.count(Endpoint::Authorization), 1);
/// let request = &server.requests()[0];
/// assert_eq!((request.parameter("scope"), request.status().as_u16()), (Some("a"), 400));
/// # Ok::<_, mcp_test::authorization_server::AuthorizationServerError>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct RecordedRequest {
    endpoint: Endpoint,
    method: Method,
    headers: HeaderMap,
    parameters: Vec<(String, String)>,
    body: Bytes,
    status: StatusCode,
}

impl RecordedRequest {
    /// Returns the endpoint.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// Returns the method.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Returns the headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the first value of a parameter of the query or the form.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Returns the parameters of the query and the form, in their order.
    #[must_use]
    pub fn parameters(&self) -> &[(String, String)] {
        &self.parameters
    }

    /// Returns the body, for example the metadata of a registration.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Returns the status of the response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }
}

impl fmt::Debug for RecordedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.parameters.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("RecordedRequest")
            .field("endpoint", &self.endpoint)
            .field("method", &self.method)
            .field("parameters", &names)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// Counts requests and remembers the last of them.
#[derive(Debug, Default)]
pub(super) struct Journal(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    counts: HashMap<Endpoint, usize>,
    last: VecDeque<RecordedRequest>,
}

impl Journal {
    pub(super) fn record(&self, endpoint: Endpoint, request: &Request<Bytes>, status: StatusCode) {
        let parse = |text: &[u8]| form_urlencoded::parse(text).into_owned().collect::<Vec<_>>();
        let mut parameters = parse(request.uri().query().unwrap_or_default().as_bytes());
        if message::has_type(request.headers(), "application/x-www-form-urlencoded") {
            parameters.extend(parse(request.body()));
        }
        let recorded = RecordedRequest {
            endpoint,
            method: request.method().clone(),
            headers: request.headers().clone(),
            parameters,
            body: request.body().clone(),
            status,
        };
        let mut entries = self.0.lock();
        *entries.counts.entry(endpoint).or_default() += 1;
        if entries.last.len() == MAX_REQUESTS {
            entries.last.pop_front();
        }
        entries.last.push_back(recorded);
    }

    pub(super) fn count(&self, endpoint: Endpoint) -> usize {
        self.0.lock().counts.get(&endpoint).copied().unwrap_or_default()
    }

    pub(super) fn requests(&self) -> Vec<RecordedRequest> {
        self.0.lock().last.iter().cloned().collect()
    }
}
