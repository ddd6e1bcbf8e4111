//! The hook that authorizes requests and handles refusals.

use std::{fmt, sync::Arc};

use http::{HeaderMap, Method, StatusCode};
use mcp_fetch::Fetch;
use mcp_protocol::{Challenge, ProtocolVersion};
use mcp_transport::{BoxFuture, PauseClock, PauseGuard};
use reqwest::Url;

use crate::{AuthorizerError, config};

/// Authorizes requests, and decides whether a refused request is repeated.
///
/// One authorizer serves all requests of its [`Http`](crate::Http) in parallel. The transport sets no time limit, because
/// a user may have to log in. The time limits of the client pause while the authorizer holds the guard of
/// [`Target::asking_user`].
///
/// The transport drops the future of a method when its request is cancelled. A refresh or a login must therefore run on a
/// task of its own, and the future only waits for that task. Otherwise a cancelled call would lose a refresh token that
/// the authorization server has rotated already. Several requests wait for the same task.
///
/// ```
/// use mcp_client_http::{Authorizer, AuthorizerError, Http, Refusal, Target, Verdict};
/// use mcp_transport::{BoxFuture, PauseClock, PauseGuard};
/// use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
/// # use mcp_client_http::reqwest;
///
/// struct Token(HeaderValue);
///
/// impl Authorizer for Token {
///     fn authorize<'a>(&'a self, _: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
///         let headers = HeaderMap::from_iter([(AUTHORIZATION, self.0.clone())]);
///         Box::pin(std::future::ready(Ok(headers)))
///     }
///
///     fn refused<'a>(&'a self, _: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
///         Box::pin(std::future::ready(Ok(Verdict::GiveUp)))
///     }
/// }
///
/// let http = Http::new("https://mcp.example.com/mcp")?.authorizer(Token(HeaderValue::from_static("Bearer t")));
/// # Ok::<_, mcp_client_http::ConfigError>(())
/// ```
pub trait Authorizer: Send + Sync + 'static {
    /// Receives the endpoint, and `fetch` for requests to its authorization servers. `fetch` uses the proxy and the
    /// certificates of the endpoint, but not the client of [`Http::dangerous_client`](crate::Http::dangerous_client).
    ///
    /// The transport calls this once for each endpoint, before the first request. Default: it does nothing.
    fn attach(&self, endpoint: &Url, fetch: &Fetch) {
        let _ = (endpoint, fetch);
    }

    /// Returns the headers that authorize a request, such as `Authorization`. The transport calls this for each
    /// repetition and for each redirect too, so the headers can contain a proof for one request.
    ///
    /// # Errors
    /// The reason why there is no authorization. The request fails with it.
    fn authorize<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>>;

    /// Decides about a request that the server answered with 401 or 403. A request is repeated at most twice for
    /// [`Verdict::Retry`], and at most twice more for [`Verdict::RetryFresh`]. Without a repetition that is left, the
    /// transport does not call this method. [`Refusal::can_retry`] is false if only [`Verdict::RetryFresh`] is left.
    ///
    /// # Errors
    /// The reason why there is no better authorization. The request fails with it.
    fn refused<'a>(&'a self, refusal: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>>;

    /// Receives the status and the headers of each response, such as a new `DPoP-Nonce` (RFC 9449 §8.2). `sent` are the
    /// headers from [`authorize`](Self::authorize), because the authorizer may have other ones by now. The transport calls
    /// this for a refused request too, before [`refused`](Self::refused).
    ///
    /// The method must not block. Default: it does nothing.
    fn answered(&self, target: &Target, sent: &HeaderMap, status: StatusCode, headers: &HeaderMap) {
        let _ = (target, sent, status, headers);
    }
}

/// An authorizer that several endpoints share.
impl<T: Authorizer + ?Sized> Authorizer for Arc<T> {
    fn attach(&self, endpoint: &Url, fetch: &Fetch) {
        (**self).attach(endpoint, fetch);
    }

    fn authorize<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
        (**self).authorize(target)
    }

    fn refused<'a>(&'a self, refusal: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        (**self).refused(refusal)
    }

    fn answered(&self, target: &Target, sent: &HeaderMap, status: StatusCode, headers: &HeaderMap) {
        (**self).answered(target, sent, status, headers);
    }
}

/// A request that needs authorization.
///
/// ```
/// use mcp_client_http::{Operation, Target, reqwest::{Method, Url}};
///
/// let mut target = Target::new(Method::POST, "https://mcp.example.com/mcp".parse::<Url>()?);
/// target.operation = Some(Operation::new("tools/call", Some("get_weather")));
/// assert_eq!(target.endpoint, target.url);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Target {
    /// The HTTP method. The end of a session is a `DELETE`, for which no login should start.
    pub method: Method,
    /// The whole URL of the request. Over HTTP+SSE, it is the URL for messages with the id of the session.
    pub url: Url,
    /// The URL of the endpoint that the application configured.
    pub endpoint: Url,
    /// The revision of the message or of the session, once it is known.
    pub version: Option<ProtocolVersion>,
    /// The operation of the message. `None` for the stream and the end of a session, and for answers to the server.
    pub operation: Option<Operation>,
    user: PauseClock,
}

impl Target {
    /// Returns a target with this method and URL, which is also the endpoint.
    pub fn new(method: Method, url: Url) -> Self {
        Self { method, endpoint: url.clone(), url, version: None, operation: None, user: PauseClock::new() }
    }

    pub(crate) fn with_user_clock(mut self, user: &PauseClock) -> Self {
        self.user = user.clone();
        self
    }

    /// Pauses the time limits of the client until the guard is dropped, because the user is asked, such as for a login.
    /// The limit `login_pause` of the client bounds the pause.
    ///
    /// ```
    /// use mcp_client_http::{Target, reqwest::Method};
    ///
    /// async fn log_in(target: &Target) {
    ///     let _asking = target.asking_user();
    ///     // Open the browser, and wait for its redirect.
    /// }
    /// # log_in(&Target::new(Method::POST, "https://mcp.example.com/mcp".parse()?));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn asking_user(&self) -> PauseGuard {
        self.user.pause()
    }
}

/// The operation of a message: its method, and the name of its tool, prompt or resource.
///
/// ```
/// use mcp_client_http::Operation;
///
/// let operation = Operation::new("tools/call", Some("get_weather"));
/// assert_eq!(operation.name.as_deref(), Some("get_weather"));
/// assert_ne!(operation, Operation::new("tools/list", None::<&str>));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Operation {
    /// The method of the message.
    pub method: Box<str>,
    /// The name of the tool or prompt, the URI of the resource, or the id of the task.
    pub name: Option<Box<str>>,
}

impl Operation {
    /// Returns an operation.
    pub fn new(method: impl Into<Box<str>>, name: Option<impl Into<Box<str>>>) -> Self {
        Self { method: method.into(), name: name.map(Into::into) }
    }
}

/// A request that the server refused.
///
/// ```
/// use mcp_client_http::{Refusal, Target, reqwest::{Method, StatusCode}};
///
/// let target = Target::new(Method::POST, "https://mcp.example.com/mcp".parse()?);
/// let refusal = Refusal::new(target, StatusCode::UNAUTHORIZED);
/// assert!(refusal.challenges.is_empty() && refusal.headers.is_empty() && refusal.can_retry);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Refusal {
    /// The request.
    pub target: Target,
    /// The status: 401 or 403.
    pub status: StatusCode,
    /// The challenges of all `WWW-Authenticate` headers, in order.
    pub challenges: Vec<Challenge>,
    /// All headers of the response.
    pub headers: HeaderMap,
    /// The headers from [`Authorizer::authorize`]. The authorizer may have better ones by now.
    pub sent: HeaderMap,
    /// Whether the transport repeats the request for [`Verdict::Retry`]. If not, another token does not help this request,
    /// so the authorizer should not ask the user. [`Verdict::RetryFresh`] may still repeat the request.
    pub can_retry: bool,
}

impl Refusal {
    /// Returns a refusal without challenges, of a request without authorization that can be repeated.
    pub fn new(target: Target, status: StatusCode) -> Self {
        let (headers, sent) = Default::default();
        Self { target, status, challenges: Vec::new(), headers, sent, can_retry: true }
    }
}

/// The decision about a refused request ([`Authorizer::refused`]).
///
/// ```
/// use mcp_client_http::{
///     Refusal, Target, Verdict,
///     reqwest::{Method, StatusCode, header::AUTHORIZATION},
/// };
///
/// /// Repeats a request whose token the server does not accept any more.
/// fn decide(refusal: &Refusal) -> Verdict {
///     let had_token = refusal.sent.contains_key(AUTHORIZATION);
///     if refusal.status == StatusCode::UNAUTHORIZED && had_token { Verdict::Retry } else { Verdict::GiveUp }
/// }
///
/// let target = Target::new(Method::POST, "https://mcp.example.com/mcp".parse()?);
/// assert_eq!(decide(&Refusal::new(target, StatusCode::FORBIDDEN)), Verdict::GiveUp);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The request is authorized again and repeated: there is another token.
    Retry,
    /// The request is authorized again and repeated with the same token. The server only required a fresh proof, such
    /// as a DPoP proof with its nonce (RFC 9449 §9). This counts apart from [`Verdict::Retry`].
    RetryFresh,
    /// The request fails with the status of the server.
    GiveUp,
}

impl fmt::Debug for Target {
    /// Omits possible secrets: user, query, and long segments of the path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("method", &self.method)
            .field("url", &config::shown(&self.url))
            .field("endpoint", &config::shown(&self.endpoint))
            .field("version", &self.version)
            .field("operation", &self.operation)
            .finish()
    }
}

impl fmt::Debug for Refusal {
    /// Omits the authorization, the challenges and the headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal").field("target", &self.target).field("status", &self.status).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secrets() {
        for (url, shown) in [
            ("https://u:hunter2@a.example/mcp?key=hunter2#hunter2", "https://a.example/mcp"),
            ("https://a.example?key=hunter2", "https://a.example/"),
        ] {
            let target = Target::new(Method::GET, url.parse().unwrap());
            let start = format!("Target {{ method: GET, url: {shown:?}, endpoint: {shown:?}, ");
            assert!(format!("{target:?}").starts_with(&start), "{target:?}");
            let mut sent = HeaderMap::new();
            sent.insert("authorization", "Bearer hunter2".parse().unwrap());
            let mut refusal = Refusal::new(target, StatusCode::UNAUTHORIZED);
            refusal.challenges.push(Challenge::bearer().with_param("x", "hunter2"));
            refusal.headers.insert("dpop-nonce", "hunter2".parse().unwrap());
            refusal.sent = sent;
            assert!(!format!("{refusal:?}").contains("hunter2"));
        }
    }
}
