//! One HTTP request and the head of its response: authorization, time limit, and the check of its origin.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use mcp_transport::{AuthorizationClocks, BoxFuture, Frame, Hints};
use reqwest::{Request, Response, Url};
use tokio::time::timeout;

use crate::{
    AuthorizerError, Operation, Refusal, Target, Verdict,
    client::{self, MAX_REDIRECTS},
    config::{self, Config},
    fault::Fault,
    headers::{self, EVENT_STREAM, JSON, JSON_OR_EVENTS, LAST_EVENT_ID},
    shared::Shared,
};

/// A request that can be sent more than once.
#[derive(Clone)]
pub(crate) struct HttpRequest<'f> {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Bytes,
    /// The hints of the message, for the authorizer.
    hints: Option<&'f Hints>,
}

/// The headers that authorized a request. No text about the response may contain them.
#[derive(Clone, Default)]
pub(crate) struct Authorization(pub(crate) HeaderMap);

/// The largest number of repetitions with another token, and of repetitions with a fresh proof.
const MAX_REPETITIONS: u32 = 2;

/// The number of headers that a message usually adds: its revision, method, name and session.
const MESSAGE_HEADERS: usize = 4;

/// The repetitions of a request that are left.
struct Repetitions {
    retries: u32,
    fresh: u32,
}

impl Repetitions {
    fn new() -> Self {
        Self { retries: MAX_REPETITIONS, fresh: MAX_REPETITIONS }
    }

    fn is_left(&self) -> bool {
        self.retries > 0 || self.fresh > 0
    }

    /// Returns true if the request is repeated, and counts the repetition.
    fn take(&mut self, verdict: Verdict) -> bool {
        let left = match verdict {
            Verdict::Retry => &mut self.retries,
            Verdict::RetryFresh => &mut self.fresh,
            Verdict::GiveUp => return false,
        };
        let is_left = *left > 0;
        *left = left.saturating_sub(1);
        is_left
    }
}

impl<'f> HttpRequest<'f> {
    /// Returns a POST of a message, with the headers of [`HttpRequest::post_headers`] and those of the message.
    pub(crate) fn post(shared: &Shared, headers: HeaderMap, frame: &'f Frame) -> Self {
        let (url, body) = (shared.target().clone(), frame.message.clone());
        Self { method: Method::POST, url, headers, body, hints: Some(&frame.hints) }
    }

    /// Returns the headers that all POSTs share.
    pub(crate) fn post_headers(config: &Config) -> HeaderMap {
        let mut headers = config.headers.clone();
        headers.insert(header::CONTENT_TYPE, JSON);
        headers.insert(header::ACCEPT, JSON_OR_EVENTS);
        // The headers of a message are added to a copy, which has the same table.
        headers.reserve(MESSAGE_HEADERS);
        headers
    }

    /// Returns the GET of an event stream, from its start or after an event.
    pub(crate) fn stream(shared: &Shared, named: HeaderMap, last_event_id: Option<HeaderValue>) -> Self {
        let mut get = Self::without_body(shared, Method::GET, named);
        get.headers.insert(header::ACCEPT, EVENT_STREAM);
        if let Some(id) = last_event_id {
            get.headers.insert(LAST_EVENT_ID, id);
        }
        get
    }

    /// Returns the request that ends a session.
    pub(crate) fn delete(shared: &Shared, named: HeaderMap) -> Self {
        Self::without_body(shared, Method::DELETE, named)
    }

    fn without_body(shared: &Shared, method: Method, named: HeaderMap) -> Self {
        let mut headers = shared.config.headers.clone();
        headers.extend(named);
        Self { method, url: shared.url.clone(), headers, body: Bytes::new(), hints: None }
    }

    /// Sends the request, and repeats it if the authorizer has a better authorization. `limit` bounds the time until
    /// the head of each response.
    pub(crate) fn send(
        self,
        shared: &Shared,
        limit: Option<Duration>,
    ) -> impl Future<Output = Result<Response, Fault>> + Send {
        enum Sending<A, O> {
            Authorized(A),
            Once(O),
        }
        // An `async fn` would store the request in each of these futures.
        let sending = match &shared.config.authorization {
            Some(authorization) => Sending::Authorized(Box::pin(self.send_authorized(shared, authorization, limit))),
            None => Sending::Once(self.execute(shared, limit)),
        };
        async move {
            match sending {
                Sending::Authorized(sending) => sending.await,
                Sending::Once(sending) => checked(sending.await?, shared),
            }
        }
    }

    async fn send_authorized(
        mut self,
        shared: &Shared,
        config::Authorization { authorizer, clocks, .. }: &config::Authorization,
        limit: Option<Duration>,
    ) -> Result<Response, Fault> {
        let mut target = self.target(shared, clocks);
        let mut repetitions = Repetitions::new();
        let mut redirects = 0;
        loop {
            let authorization = unsent(clocks, authorizer.authorize(&target)).await?;
            let mut authorized = self.clone();
            for (name, value) in &authorization {
                let mut value = value.clone();
                value.set_sensitive(true);
                authorized.headers.insert(name, value);
            }
            let response = authorized.execute(shared, limit).await?;
            authorizer.answered(&target, &authorization, response.status(), response.headers());
            if let Some(to) = redirect(&response).filter(|to| config::is_same_origin(to, &shared.url))
                && client::keeps_request(response.status())
                && redirects < MAX_REDIRECTS
            {
                // A proof of the authorization belongs to one URL and one request.
                redirects += 1;
                target.url = to.clone();
                self.url = to;
                continue;
            }
            let mut response = checked(response, shared)?;
            let is_refused = matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
            if is_refused && repetitions.is_left() {
                let mut refusal = Refusal::new(target.clone(), response.status());
                refusal.challenges = headers::challenges(response.headers());
                refusal.headers = response.headers().clone();
                refusal.sent = authorization.clone();
                refusal.can_retry = repetitions.retries > 0;
                if repetitions.take(unsent(clocks, authorizer.refused(&refusal)).await?) {
                    continue;
                }
            }
            response.extensions_mut().insert(Authorization(authorization));
            return Ok(response);
        }
    }

    fn execute(self, shared: &Shared, limit: Option<Duration>) -> impl Future<Output = Result<Response, Fault>> + Send {
        let has_body = self.method == Method::POST;
        let mut request = Request::new(self.method, self.url);
        *request.headers_mut() = self.headers;
        if has_body {
            *request.body_mut() = Some(self.body.into());
        }
        let sending = shared.client.execute(request);
        async move {
            let sent = match limit {
                Some(after) => timeout(after, sending).await.map_err(|_| Fault::Silent { after })?,
                None => sending.await,
            };
            sent.map_err(|error| Fault::sending(error, &shared.url))
        }
    }

    /// Returns the description of the request for the authorizer.
    fn target(&self, shared: &Shared, clocks: &AuthorizationClocks) -> Target {
        let mut target = Target::new(self.method.clone(), self.url.clone()).with_user_clock(&clocks.user);
        target.endpoint = shared.url.clone();
        target.version = self.hints.and_then(|hints| hints.version).or_else(|| shared.session_version());
        target.operation = self
            .hints
            .and_then(|hints| hints.method.as_ref().map(|method| Operation::new(method.clone(), hints.name.clone())));
        target
    }
}

/// Returns the target of a redirect.
fn redirect(response: &Response) -> Option<Url> {
    let to = response.headers().get(header::LOCATION).filter(|_| response.status().is_redirection())?;
    response.url().join(to.to_str().ok()?).ok()
}

/// Returns a response of the endpoint. A redirect that was not followed is a fault.
fn checked(response: Response, shared: &Shared) -> Result<Response, Fault> {
    let to = if response.status().is_redirection() {
        redirect(&response)
    } else if !config::is_same_origin(response.url(), &shared.url) {
        // Only a client of the application follows such redirects.
        Some(response.url().clone())
    } else {
        return Ok(response);
    };
    let status = response.status().as_u16();
    Err(match to {
        Some(to) if config::is_same_origin(&to, &shared.url) => Fault::RedirectWithin { status },
        to => Fault::Redirect { status, to: to.as_ref().map(config::origin) },
    })
}

/// Waits for the authorizer, while the request is not sent.
async fn unsent<T>(
    clocks: &AuthorizationClocks,
    authorizing: BoxFuture<'_, Result<T, AuthorizerError>>,
) -> Result<T, Fault> {
    let _pause = clocks.requests.pause();
    authorizing.await.map_err(Fault::Authorizer)
}

/// The largest memory that is reserved for a body before its bytes arrive.
const RESERVED: usize = 4 << 20;

/// Reads the whole body of a response, up to `limit` bytes.
pub(crate) async fn body(response: &mut Response, limit: usize) -> Result<Bytes, Fault> {
    if response.content_length().is_some_and(|length| length > limit as u64) {
        return Err(Fault::TooLarge { limit });
    }
    let length = response.content_length().map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX));
    let mut whole = Vec::new();
    let mut first = Bytes::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| Fault::Broken(error.without_url()))? {
        if whole.len() + first.len() + chunk.len() > limit {
            return Err(Fault::TooLarge { limit });
        }
        if whole.is_empty() && first.is_empty() {
            first = chunk;
            continue;
        }
        if whole.is_empty() {
            // The rest of the body arrives without further copies.
            whole.reserve(length.min(limit).min(RESERVED));
        }
        whole.extend_from_slice(&std::mem::take(&mut first));
        whole.extend_from_slice(&chunk);
    }
    Ok(if whole.is_empty() { first } else { whole.into() })
}
