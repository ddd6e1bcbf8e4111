//! One request of HTTP and the head of its response: authorized, within its time, and not from elsewhere.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use reqwest::{Request, Response, Url};
use tokio::time::timeout;

use crate::{
    Authorizer, Refusal, Target, Verdict,
    config::{self, Config},
    fault::Fault,
    headers::{EVENT_STREAM, JSON, JSON_OR_EVENTS, LAST_EVENT_ID},
    link::Link,
};

/// A request that can be sent more than once.
#[derive(Clone)]
pub(crate) struct Exchange {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Bytes,
}

/// What authorized a request: no text about the response may show it.
#[derive(Clone, Default)]
pub(crate) struct Authorization(pub(crate) HeaderMap);

/// How often a request is repeated because its authorizer has something better.
const MAX_REFUSALS: usize = 2;

impl Exchange {
    /// A message, with the headers of [`Exchange::post_headers`] and those that belong to it.
    pub(crate) fn post(link: &Link, headers: HeaderMap, message: Bytes) -> Self {
        Self { method: Method::POST, url: link.target().clone(), headers, body: message }
    }

    /// The headers that every message is posted with.
    pub(crate) fn post_headers(config: &Config) -> HeaderMap {
        let mut headers = config.headers.clone();
        headers.insert(header::CONTENT_TYPE, JSON);
        headers.insert(header::ACCEPT, JSON_OR_EVENTS);
        headers
    }

    /// A stream of events, from its beginning or from behind an event.
    pub(crate) fn stream(link: &Link, named: HeaderMap, last_event_id: Option<HeaderValue>) -> Self {
        let mut get = Self::without_body(link, Method::GET, named);
        get.headers.insert(header::ACCEPT, EVENT_STREAM);
        if let Some(id) = last_event_id {
            get.headers.insert(LAST_EVENT_ID, id);
        }
        get
    }

    /// The end of a session.
    pub(crate) fn delete(link: &Link, named: HeaderMap) -> Self {
        Self::without_body(link, Method::DELETE, named)
    }

    fn without_body(link: &Link, method: Method, named: HeaderMap) -> Self {
        let mut headers = link.config.headers.clone();
        headers.extend(named);
        Self { method, url: link.url.clone(), headers, body: Bytes::new() }
    }

    /// Sends it, and again as often as its authorizer has something better. The head of each response may take `limit`.
    pub(crate) async fn send(self, link: &Link, limit: Option<Duration>) -> Result<Response, Fault> {
        match &link.config.authorizer {
            Some(authorizer) => Box::pin(self.send_authorized(link, authorizer, limit)).await,
            None => self.send_once(link, limit).await,
        }
    }

    async fn send_authorized(
        self,
        link: &Link,
        authorizer: &Arc<dyn Authorizer>,
        limit: Option<Duration>,
    ) -> Result<Response, Fault> {
        let mut refusals = 0;
        loop {
            let authorization = authorizer.authorize(&self.target()).await.map_err(Fault::Authorizer)?;
            let mut authorized = self.clone();
            for (name, value) in &authorization {
                let mut value = value.clone();
                value.set_sensitive(true);
                authorized.headers.insert(name, value);
            }
            let mut response = authorized.send_once(link, limit).await?;
            let is_refused = matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
            if is_refused && refusals < MAX_REFUSALS {
                refusals += 1;
                if self.ask(authorizer, &response, authorization.clone()).await? == Verdict::Retry {
                    continue;
                }
            }
            response.extensions_mut().insert(Authorization(authorization));
            return Ok(response);
        }
    }

    async fn send_once(self, link: &Link, limit: Option<Duration>) -> Result<Response, Fault> {
        let has_body = self.method == Method::POST;
        let mut request = Request::new(self.method, self.url);
        *request.headers_mut() = self.headers;
        if has_body {
            *request.body_mut() = Some(self.body.into());
        }
        let sending = link.client.execute(request);
        let sent = match limit {
            Some(after) => timeout(after, sending).await.map_err(|_| Fault::Silent { after })?,
            None => sending.await,
        };
        let response = sent.map_err(|error| Fault::sending(error, &link.url))?;
        let status = response.status();
        let to = if status.is_redirection() {
            response.headers().get(header::LOCATION).and_then(|to| response.url().join(to.to_str().ok()?).ok())
        } else if !config::is_same_origin(response.url(), &link.url) {
            // Only a client of the application goes there.
            Some(response.url().clone())
        } else {
            return Ok(response);
        };
        let status = status.as_u16();
        Err(match to {
            Some(to) if config::is_same_origin(&to, &link.url) => Fault::RedirectWithin { status },
            to => Fault::Redirect { status, to: to.as_ref().map(config::origin) },
        })
    }

    async fn ask(
        &self,
        authorizer: &Arc<dyn Authorizer>,
        response: &Response,
        sent: HeaderMap,
    ) -> Result<Verdict, Fault> {
        let challenges = response.headers().get_all(header::WWW_AUTHENTICATE).iter();
        let mut refusal = Refusal::new(self.target(), response.status());
        refusal.challenges = challenges.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
        refusal.sent = sent;
        authorizer.refused(&refusal).await.map_err(Fault::Authorizer)
    }

    fn target(&self) -> Target {
        Target::new(self.method.clone(), self.url.as_str())
    }
}

/// The whole body of a response, when it is not longer than `limit` bytes.
pub(crate) async fn body(response: &mut Response, limit: usize) -> Result<Bytes, Fault> {
    if response.content_length().is_some_and(|length| length > limit as u64) {
        return Err(Fault::TooLarge { limit });
    }
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
        whole.extend_from_slice(&std::mem::take(&mut first));
        whole.extend_from_slice(&chunk);
    }
    Ok(if whole.is_empty() { first } else { whole.into() })
}
