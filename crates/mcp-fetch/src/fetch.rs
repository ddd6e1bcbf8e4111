//! Requests.

use std::{
    error::Error,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use reqwest::{Client, NoProxy, Proxy};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use url::Url;

use crate::{
    address::Network,
    answers::{Answering, Answers},
    client::{self, Route, Settings},
    error::{FetchError, FetchErrorKind},
    guard::{self, Guard},
    resolver::{CheckedResolver, Resolver, SystemResolver},
    response::Response,
};

/// The largest number of redirects of a GET.
const MAX_REDIRECTS: usize = 3;

/// Sends guarded requests. Clones share their connections. The [crate] page has the rules.
///
/// ```no_run
/// # async fn example() -> Result<(), mcp_fetch::FetchError> {
/// use mcp_fetch::Fetch;
///
/// let fetch = Fetch::new();
/// let answer = fetch.post_form("https://as.example/token", &[("grant_type", "client_credentials")], None).await?;
/// println!("{}", answer.status());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Fetch {
    inner: Arc<Inner>,
}

struct Inner {
    guard: Arc<Guard>,
    resolver: Arc<dyn Resolver>,
    settings: Settings,
    timeout: Duration,
    body_limit: usize,
    /// Replaces the network in a test.
    answers: Option<Answers>,
    /// The clients by [`Route`], built for their first request.
    clients: [OnceLock<Client>; 3],
}

impl Fetch {
    /// Returns the default: public hosts over `https`, without a proxy.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> FetchBuilder {
        FetchBuilder::new()
    }

    /// Fetches a JSON document with GET.
    ///
    /// # Errors
    /// If the URL, the host or its address is not allowed, or there is no response. An error status is not an error.
    pub async fn get(&self, url: &str) -> Result<Response, FetchError> {
        self.get_with(url, HeaderMap::new()).await
    }

    /// Fetches a JSON document with GET and further headers. A redirect within the origin receives them too.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub async fn get_with(&self, url: &str, headers: HeaderMap) -> Result<Response, FetchError> {
        self.bounded(self.follow(parse(url)?, headers)).await
    }

    /// Posts a form (`application/x-www-form-urlencoded`), optionally with the value of `Authorization`.
    ///
    /// # Errors
    /// As for [`get`](Self::get), and if the response is a redirect.
    pub async fn post_form(
        &self,
        url: &str,
        form: &[(&str, &str)],
        authorization: Option<HeaderValue>,
    ) -> Result<Response, FetchError> {
        let headers = authorization.into_iter().map(|value| (header::AUTHORIZATION, value)).collect();
        self.post_form_with(url, form, headers).await
    }

    /// Posts a form with further headers, such as `DPoP`.
    ///
    /// # Errors
    /// As for [`post_form`](Self::post_form).
    pub async fn post_form_with(
        &self,
        url: &str,
        form: &[(&str, &str)],
        headers: HeaderMap,
    ) -> Result<Response, FetchError> {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        self.post_body(url, HeaderValue::from_static("application/x-www-form-urlencoded"), body, headers).await
    }

    /// Posts a JSON document with further headers.
    ///
    /// # Errors
    /// As for [`post_form`](Self::post_form).
    pub async fn post_json(
        &self,
        url: &str,
        document: &serde_json::Value,
        headers: HeaderMap,
    ) -> Result<Response, FetchError> {
        self.post_body(url, HeaderValue::from_static("application/json"), document.to_string(), headers).await
    }

    /// Posts a JSON document with further headers, and returns a redirect like each other response. The caller decides whether
    /// it posts the document to the target of the redirect, which is checked like each URL.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub async fn post_json_once(
        &self,
        url: &str,
        document: &serde_json::Value,
        mut headers: HeaderMap,
    ) -> Result<Response, FetchError> {
        let (url, body) = (parse(url)?, document.to_string());
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.bounded(self.send(Method::POST, &url, headers, body.into())).await
    }

    /// Posts a body of any media type, such as a form that another library encoded.
    ///
    /// # Errors
    /// As for [`post_form`](Self::post_form).
    pub async fn post_body(
        &self,
        url: &str,
        content_type: HeaderValue,
        body: impl Into<Bytes>,
        mut headers: HeaderMap,
    ) -> Result<Response, FetchError> {
        let (url, body) = (parse(url)?, body.into());
        headers.insert(header::CONTENT_TYPE, content_type);
        self.bounded(async {
            let response = self.send(Method::POST, &url, headers, body).await?;
            if is_redirect(response.status()) {
                return Err(FetchError::new(FetchErrorKind::Redirect, "a POST must not be redirected"));
            }
            Ok(response)
        })
        .await
    }

    async fn bounded<T>(&self, request: impl Future<Output = Result<T, FetchError>>) -> Result<T, FetchError> {
        match tokio::time::timeout(self.inner.timeout, request).await {
            Ok(result) => result,
            Err(_) => Err(FetchError::new(FetchErrorKind::TimedOut, "the response did not arrive in time")),
        }
    }

    async fn follow(&self, mut url: Url, headers: HeaderMap) -> Result<Response, FetchError> {
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send(Method::GET, &url, headers.clone(), Bytes::new()).await?;
            let Some(location) = location(&response) else { return Ok(response) };
            let refused = |text| FetchError::new(FetchErrorKind::Redirect, text);
            let next = url.join(location).map_err(|_| refused("the target of a redirect is not a URL"))?;
            if next.origin() != url.origin() {
                return Err(refused("a redirect leads to another origin"));
            }
            url = next;
        }
        Err(FetchError::new(FetchErrorKind::Redirect, "there are too many redirects"))
    }

    async fn send(&self, method: Method, url: &Url, headers: HeaderMap, body: Bytes) -> Result<Response, FetchError> {
        let inner = &*self.inner;
        inner.guard.check_url(url)?;
        if let Some(answers) = &inner.answers {
            return answers.response(url, body).await;
        }
        let mut request = inner.client(url)?.request(method, url.clone());
        if !headers.contains_key(header::ACCEPT) {
            request = request.header(header::ACCEPT, "application/json");
        }
        let sent = request.headers(protected(headers)).body(body).send().await;
        let mut response = sent.map_err(|error| failed(url, error))?;
        let too_large = || {
            let text = format!("the response is larger than {} bytes", inner.body_limit);
            Err(FetchError::new(FetchErrorKind::TooLarge, text))
        };
        if response.content_length().is_some_and(|length| length > inner.body_limit as u64) {
            return too_large();
        }
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| failed(url, error))? {
            if body.len() + chunk.len() > inner.body_limit {
                return too_large();
            }
            body.extend_from_slice(&chunk);
        }
        let headers = std::mem::take(response.headers_mut());
        Ok(Response::new(response.status(), headers, body.freeze()))
    }
}

impl Default for Fetch {
    fn default() -> Self {
        Self::new()
    }
}

impl Inner {
    fn client(&self, url: &Url) -> Result<&Client, FetchError> {
        let route = match url.scheme() {
            "https" if guard::is_loopback(url) => Route::Loopback,
            "https" => Route::Network,
            _ => Route::Cleartext,
        };
        let client = &self.clients[route as usize];
        if let Some(client) = client.get() {
            return Ok(client);
        }
        let resolver = CheckedResolver { resolver: Arc::clone(&self.resolver), guard: Arc::clone(&self.guard) };
        let built = client::build(&self.settings, route, resolver, self.timeout)?;
        Ok(client.get_or_init(|| built))
    }
}

fn parse(url: &str) -> Result<Url, FetchError> {
    let mut url = Url::parse(url).map_err(|_| FetchError::new(FetchErrorKind::Url, "the URL is invalid"))?;
    url.set_fragment(None);
    Ok(url)
}

/// Marks the headers with credentials: the HTTP client then neither prints nor indexes their values.
fn protected(mut headers: HeaderMap) -> HeaderMap {
    for (name, value) in &mut headers {
        if *name == header::AUTHORIZATION || *name == header::COOKIE || name.as_str() == "dpop" {
            value.set_sensitive(true);
        }
    }
    headers
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    )
}

/// Returns the target of a redirect.
fn location(response: &Response) -> Option<&str> {
    let location = response.headers().get(header::LOCATION).filter(|_| is_redirect(response.status()))?;
    location.to_str().ok()
}

/// Returns the error of a request. A blocked address is inside of the error of the HTTP client.
fn failed(url: &Url, error: reqwest::Error) -> FetchError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(current) = cause {
        if let Some(blocked) = current.downcast_ref::<FetchError>() {
            return FetchError::new(blocked.kind(), blocked.to_string());
        }
        cause = current.source();
    }
    // The texts of the HTTP client contain URLs, which may contain secrets.
    let error = error.without_url();
    let text = format!("the request to {} failed", url.origin().ascii_serialization());
    FetchError::new(FetchErrorKind::Connection, text).because(error)
}

impl fmt::Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetch")
            .field("allows_loopback", &self.inner.guard.allows_loopback)
            .field("has_proxy", &self.inner.settings.proxy.is_some())
            .finish_non_exhaustive()
    }
}

/// The settings of a [`Fetch`].
///
/// ```
/// use mcp_fetch::Fetch;
///
/// // A server on this machine, and an authorization server in the network of the company.
/// let fetch = Fetch::builder()
///     .allow_loopback(true)
///     .allow_network("10.20.0.0/16".parse()?)
///     .allow_host("login.corp.example")?
///     .build();
/// # let _ = fetch;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct FetchBuilder {
    pub(crate) guard: Guard,
    resolver: Arc<dyn Resolver>,
    settings: Settings,
    timeout: Duration,
    body_limit: usize,
    answers: Option<Answers>,
}

impl FetchBuilder {
    fn new() -> Self {
        Self {
            guard: Guard::default(),
            resolver: Arc::new(SystemResolver),
            settings: Settings::default(),
            timeout: Duration::from_secs(10),
            body_limit: 1 << 20,
            answers: None,
        }
    }

    /// Allows loopback hosts, also over `http`. Only for a server or a client on this machine.
    pub fn allow_loopback(mut self, allow: bool) -> Self {
        self.guard.allows_loopback = allow;
        self
    }

    /// Allows loopback hosts if the URL of the MCP server leads to this machine. Also allows the host of an `https` URL, for
    /// example in a private network: the user chose the URL, and its certificate proves the host.
    pub fn for_server(mut self, url: &str) -> Self {
        let url = Url::parse(url).ok();
        let chosen = url.as_ref().filter(|url| url.scheme() == "https").and_then(Url::host_str);
        self.guard.hosts.extend(chosen.map(guard::normalized));
        self.allow_loopback(url.is_some_and(|url| guard::is_loopback(&url)))
    }

    /// Allows the addresses of a network that the table forbids. A network of more than one address does not open the
    /// metadata services of cloud providers in it.
    pub fn allow_network(mut self, network: Network) -> Self {
        self.guard.networks.push(network);
        self
    }

    /// Allows a host with each address and each port. The scheme must still be `https`.
    ///
    /// # Errors
    /// If the text is not a host, for example because it has a port.
    pub fn allow_host(mut self, host: impl AsRef<str>) -> Result<Self, FetchError> {
        let invalid =
            || FetchError::new(FetchErrorKind::Configuration, "an allowed host is a name or an address alone");
        self.guard.hosts.push(guard::configured(host.as_ref()).ok_or_else(invalid)?);
        Ok(self)
    }

    /// Sends requests over `https` through a proxy, except those to loopback hosts. The section [Proxies](crate#proxies) has the rules.
    ///
    /// # Errors
    /// If the text is not the URL of a proxy.
    pub fn proxy(mut self, url: &str) -> Result<Self, FetchError> {
        let invalid = || FetchError::new(FetchErrorKind::Configuration, "the URL of the proxy is invalid");
        let parsed = Url::parse(url).map_err(|_| invalid())?;
        let host = parsed.host_str().ok_or_else(invalid)?;
        self.guard.proxy = Some(guard::normalized(host));
        self.settings.proxy = Some(Proxy::all(url).map_err(|_| invalid())?);
        Ok(self)
    }

    /// Sends requests over `https` through the proxy of the environment, if there is one: `HTTPS_PROXY` or `ALL_PROXY`, in
    /// upper or lower case. Hosts in `NO_PROXY` are reached without it. The rules of [`proxy`](Self::proxy) apply.
    ///
    /// # Errors
    /// If the variable is not the URL of a proxy.
    pub fn proxy_of_environment(self) -> Result<Self, FetchError> {
        self.proxy_of(|name| std::env::var(name).ok())
    }

    fn proxy_of(self, variable: impl Fn(&str) -> Option<String>) -> Result<Self, FetchError> {
        let first = |names: [&str; 4]| names.into_iter().filter_map(&variable).find(|value| !value.trim().is_empty());
        let Some(proxy) = first(["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]) else { return Ok(self) };
        let scheme = if proxy.contains("://") { "" } else { "http://" };
        let mut builder = self.proxy(&format!("{scheme}{}", proxy.trim()))?;
        let excluded = first(["NO_PROXY", "no_proxy", "NO_PROXY", "no_proxy"]).unwrap_or_default();
        builder.settings.proxy = builder.settings.proxy.map(|proxy| proxy.no_proxy(NoProxy::from_string(&excluded)));
        Ok(builder)
    }

    /// Trusts further certificates (PEM) beside those of the system.
    ///
    /// # Errors
    /// If the text contains no certificate, or an invalid one.
    pub fn root_certificates(mut self, pem: &[u8]) -> Result<Self, FetchError> {
        let invalid = || FetchError::new(FetchErrorKind::Configuration, "the text contains no valid certificate");
        let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let roots = roots.map_err(|error| invalid().because(error))?;
        if roots.is_empty() {
            return Err(invalid());
        }
        self.settings.roots.extend(roots);
        Ok(self)
    }

    /// Sets the lookup of names. The default is the resolver of the operating system.
    pub fn resolver(mut self, resolver: impl Resolver) -> Self {
        self.resolver = Arc::new(resolver);
        self
    }

    /// Sets the time limit of a request with its redirects and its body. The default is 10 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the largest body of a response in bytes. The default is 1 MiB.
    pub fn body_limit(mut self, bytes: usize) -> Self {
        self.body_limit = bytes;
        self
    }

    /// Answers each request in memory, for tests whose clock is paused. `None` is a lost response.
    #[doc(hidden)]
    pub fn answers(mut self, answer: impl Fn(Url, Bytes) -> Answering + Send + Sync + 'static) -> Self {
        self.answers = Some(Answers::new(answer));
        self
    }

    /// Returns the configured [`Fetch`].
    #[must_use]
    pub fn build(self) -> Fetch {
        let Self { guard, resolver, settings, timeout, body_limit, answers } = self;
        let (guard, clients) = (Arc::new(guard), [const { OnceLock::new() }; 3]);
        Fetch { inner: Arc::new(Inner { guard, resolver, settings, timeout, body_limit, answers, clients }) }
    }
}

impl fmt::Debug for FetchBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchBuilder").field("guard", &self.guard).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proxy_of_the_environment_is_used() {
        for (variables, expected) in [
            (&[][..], Ok(None)),
            (&[("HTTPS_PROXY", "")], Ok(None)),
            (&[("HTTP_PROXY", "http://proxy.example:1")], Ok(None)),
            (
                &[("HTTPS_PROXY", "http://proxy.example:1"), ("ALL_PROXY", "http://other.example:1")],
                Ok(Some("proxy.example")),
            ),
            (&[("https_proxy", "proxy.example:1")], Ok(Some("proxy.example"))),
            (&[("all_proxy", "http://u:p@proxy.example:1"), ("NO_PROXY", "a.example")], Ok(Some("proxy.example"))),
            (&[("HTTPS_PROXY", "http://")], Err(())),
        ] {
            let variable =
                |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            let proxy = Fetch::builder().proxy_of(variable).map(|builder| builder.guard.proxy).map_err(drop);
            assert_eq!(proxy.as_ref().map(Option::as_deref), expected.as_ref().copied(), "{variables:?}");
        }
    }

    #[test]
    fn headers_with_credentials_are_marked() {
        let headers =
            ["authorization", "dpop", "cookie", "accept"].map(|name| (name.parse().unwrap(), "a".parse().unwrap()));
        let headers = protected(HeaderMap::from_iter(headers));
        let marked: Vec<bool> =
            ["authorization", "dpop", "cookie", "accept"].map(|name| headers[name].is_sensitive()).to_vec();
        assert_eq!(marked, [true, true, true, false]);
    }
}
