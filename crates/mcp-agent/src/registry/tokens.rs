//! The tokens of callers at a server: the token of each caller is exchanged for a token of the server, which is kept until
//! shortly before its end.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use mcp_client::{
    http::{
        Authorizer, AuthorizerError, Refusal, Target, Verdict,
        mcp_fetch::{Fetch, FetchError},
        reqwest::{
            StatusCode,
            header::{AUTHORIZATION, HeaderMap, HeaderValue},
        },
    },
    oauth::{Error, ErrorKind, ExchangedToken, TokenExchange},
    transport::BoxFuture,
};
use mcp_protocol::{Principal, auth::Secret};
use parking_lot::Mutex;
use tokio::time::Instant;
use url::Url;

use super::TokenFault;
use crate::config;

/// The largest number of callers whose tokens are kept for one server. The token of the caller that was idle for the longest time
/// is removed first.
const CALLERS: usize = 4096;
/// The lifetime of a token whose answer names none, and the longest lifetime.
const DEFAULT_LIFE: Duration = Duration::from_secs(60);
const LONGEST_LIFE: Duration = Duration::from_secs(3600);
/// A token is exchanged again this long before its end, and at most half of its life before its end.
const MARGIN: Duration = Duration::from_secs(30);
/// How long a refused token is not sent to the token endpoint again.
const REFUSED: Duration = Duration::from_secs(10);

/// The token of a caller of a host, for servers with a token exchange
/// ([`TokenExchange`](crate::config::TokenExchange)). No server receives it.
///
/// ```
/// use mcp_agent::{Caller, CallerToken};
/// use mcp_client::protocol::Principal;
///
/// let mut ada = Principal::new("ada");
/// ada.issuer = Some("https://idp.example.com".to_owned());
/// let caller = Caller::new().principal("ada").token(CallerToken::new(&ada, "hunter2"));
/// assert!(!format!("{caller:?}").contains("hunter2"));
/// ```
#[derive(Clone)]
pub struct CallerToken {
    issuer: Option<String>,
    /// The principal with its client and its scopes. A token with fewer scopes must not lead to a token for more.
    authority: Arc<str>,
    secret: Secret,
    /// The time at which the caller was authenticated with the token.
    since: std::time::Instant,
}

impl CallerToken {
    /// Returns the access token of an authenticated caller.
    ///
    /// See the example of the [type](Self).
    pub fn new(principal: &Principal, token: impl Into<Secret>) -> Self {
        let Principal { issuer, subject, client_id, scopes, .. } = principal;
        let authority = serde_json::json!([issuer, subject, client_id, scopes]).to_string().into();
        Self { issuer: issuer.clone(), authority, secret: token.into(), since: std::time::Instant::now() }
    }

    /// Returns the token of the client of a gateway. The requests of a stream have the token of its first request, so the time of a
    /// request does not decide which token is the newest one.
    #[cfg(feature = "gateway")]
    pub(crate) fn of_client(principal: &Principal, token: &mcp_auth::SubjectToken) -> Self {
        let since = token.since();
        Self { since, ..Self::new(principal, token.clone().into_secret()) }
    }

    /// Whether the caller was authenticated with another token later.
    pub(crate) fn is_older_than(&self, other: &Self) -> bool {
        self.since < other.since
    }

    /// Returns the part of the caller on which the tokens of servers depend.
    pub(super) fn authority(&self) -> &Arc<str> {
        &self.authority
    }
}

impl fmt::Debug for CallerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallerToken").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// The token exchange of one server, and the tokens of its callers.
pub(crate) struct Exchanges {
    exchange: TokenExchange,
    issuer: String,
    server: String,
    callers: Mutex<HashMap<Arc<str>, Arc<Held>>>,
}

/// The token of one caller at the server, or of the host itself.
#[derive(Default)]
struct Held {
    state: Mutex<State>,
    /// One exchange runs at a time.
    exchanging: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    /// The newest token of the caller.
    token_of_caller: Option<CallerToken>,
    header: Option<HeaderValue>,
    until: Option<Instant>,
    /// A refused token of the caller, and the end of the refusal.
    refused: Option<(Secret, Instant)>,
    last_used: Option<Instant>,
}

/// Returns the exchange of the settings.
///
/// # Errors
/// If the name of a permitted host is invalid.
fn exchange_of(settings: &config::TokenExchange, server: &str) -> Result<TokenExchange, FetchError> {
    let (client_id, secret) = (&settings.client_id, settings.client_secret.clone());
    let (endpoint, exchange) = match &settings.token_endpoint {
        Some(endpoint) => (endpoint, TokenExchange::new(endpoint, client_id, secret)),
        None => (&settings.issuer, TokenExchange::of_issuer(&settings.issuer, client_id, secret)),
    };
    let mut fetch = Fetch::builder().for_server(endpoint);
    // The user chose this host, and no server did.
    let own = Url::parse(endpoint).ok().and_then(|url| url.host_str().map(ToOwned::to_owned));
    for host in own.iter().chain(&settings.allowed_hosts) {
        fetch = fetch.allow_host(host)?;
    }
    let mut exchange = exchange.scopes(&settings.scopes).requested_token_type(&settings.requested_token_type);
    exchange = match (&settings.resource, &settings.audience) {
        (None, None) => exchange.resource(server),
        (Some(resource), _) => exchange.resource(resource),
        (None, Some(_)) => exchange,
    };
    if let Some(audience) = &settings.audience {
        exchange = exchange.audience(audience);
    }
    Ok(exchange.fetch(fetch.build()))
}

impl Exchanges {
    /// Returns the exchange of a server at a URL.
    ///
    /// # Errors
    /// If the name of a permitted host is invalid.
    pub(crate) fn new(server: &str, url: &str, settings: &config::TokenExchange) -> Result<Arc<Self>, FetchError> {
        Ok(Arc::new(Self {
            exchange: exchange_of(settings, url)?,
            issuer: settings.issuer.clone(),
            server: server.to_owned(),
            callers: Mutex::default(),
        }))
    }

    /// Exchanges the token of a caller, unless its token at the server is valid.
    pub(super) async fn admit(&self, token: Option<&CallerToken>) -> Result<(), (TokenFault, Option<Duration>)> {
        let token = token.ok_or((TokenFault::Missing, None))?;
        if token.issuer.as_ref() != Some(&self.issuer) {
            return Err((TokenFault::OtherIssuer, None));
        }
        let held = self.held(&token.authority);
        held.update(token);
        let exchanged = self.header(&held).await;
        exchanged.map(drop).map_err(|error| match error.kind() {
            ErrorKind::Unavailable => (TokenFault::Unavailable, error.retry_after()),
            _ => (TokenFault::Refused, None),
        })
    }

    /// Returns the authorizer of the connections of a caller.
    pub(crate) fn of_caller(self: &Arc<Self>, authority: &str) -> impl Authorizer + use<> {
        OfCaller { exchanges: Arc::clone(self), authority: authority.into() }
    }

    fn held(&self, authority: &Arc<str>) -> Arc<Held> {
        let mut callers = self.callers.lock();
        if callers.len() >= CALLERS && !callers.contains_key(authority) {
            let idle = callers.iter().min_by_key(|(_, held)| held.state.lock().last_used);
            if let Some(idle) = idle.map(|(authority, _)| Arc::clone(authority)) {
                callers.remove(&idle);
            }
        }
        let held = callers.entry(Arc::clone(authority)).or_default();
        held.state.lock().last_used = Some(Instant::now());
        Arc::clone(held)
    }

    /// Returns the header with the token of a caller. Exchanges the token of the caller if necessary.
    async fn header(&self, held: &Held) -> Result<HeaderValue, Error> {
        held.header(|| async {
            let token = held.state.lock().token_of_caller.clone();
            let missing = || Error::new(ErrorKind::LoginRequired, "the caller has no token");
            let token = token.ok_or_else(missing)?.secret;
            let refused = held.state.lock().refused.clone();
            if refused.is_some_and(|(refused, until)| refused == token && Instant::now() < until) {
                return Err(Error::new(ErrorKind::Token, "the token endpoint refused the token of the caller before"));
            }
            let exchanged = self.exchange.exchange(&token).await;
            if let Err(error) = &exchanged {
                tracing::warn!(server = self.server, %error, "the token of a caller cannot be exchanged");
                if error.kind() != ErrorKind::Unavailable {
                    held.state.lock().refused = Some((token, Instant::now() + REFUSED));
                }
            }
            exchanged
        })
        .await
    }
}

impl fmt::Debug for Exchanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchanges").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Held {
    /// Keeps the newest token of the caller.
    fn update(&self, token: &CallerToken) {
        let mut state = self.state.lock();
        if state.token_of_caller.as_ref().is_none_or(|known| !token.is_older_than(known)) {
            state.token_of_caller = Some(token.clone());
        }
    }

    fn valid(&self) -> Option<HeaderValue> {
        let state = self.state.lock();
        state.header.clone().filter(|_| state.until.is_some_and(|until| Instant::now() < until))
    }

    /// Returns the header with the valid token. `renew` requests a token if no valid token is stored.
    async fn header<F>(&self, renew: impl FnOnce() -> F) -> Result<HeaderValue, Error>
    where
        F: Future<Output = Result<ExchangedToken, Error>>,
    {
        if let Some(header) = self.valid() {
            return Ok(header);
        }
        let _one = self.exchanging.lock().await;
        if let Some(header) = self.valid() {
            return Ok(header);
        }
        let began = Instant::now();
        let exchanged = renew().await?;
        let invalid = |_| Error::new(ErrorKind::Token, "the token has characters that no token may have");
        let mut header = HeaderValue::try_from(format!("Bearer {}", exchanged.token.expose())).map_err(invalid)?;
        header.set_sensitive(true);
        let life = exchanged.lifetime.unwrap_or(DEFAULT_LIFE).min(LONGEST_LIFE);
        let mut state = self.state.lock();
        state.header = Some(header.clone());
        state.until = Some(began + life.saturating_sub(MARGIN.min(life / 2)));
        Ok(header)
    }

    /// Removes a token that the server did not accept. Returns false if another status than 401 or no token was the reason.
    fn reject(&self, refusal: &Refusal) -> bool {
        let Some(sent) = refusal.sent.get(AUTHORIZATION) else { return false };
        if refusal.status != StatusCode::UNAUTHORIZED || !refusal.can_retry {
            return false;
        }
        let mut state = self.state.lock();
        if state.header.as_ref() == Some(sent) {
            state.until = None;
        }
        true
    }
}

/// Authorizes the connections of one caller.
struct OfCaller {
    exchanges: Arc<Exchanges>,
    authority: Arc<str>,
}

impl Authorizer for OfCaller {
    fn authorize<'a>(&'a self, _: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
        Box::pin(async move {
            let held = self.exchanges.held(&self.authority);
            Ok(HeaderMap::from_iter([(AUTHORIZATION, self.exchanges.header(&held).await?)]))
        })
    }

    fn refused<'a>(&'a self, refusal: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        Box::pin(async move {
            let held = self.exchanges.held(&self.authority);
            if !held.reject(refusal) {
                return Ok(Verdict::GiveUp);
            }
            self.exchanges.header(&held).await?;
            Ok(Verdict::Retry)
        })
    }
}

/// Authorizes the connection that lists the items of a server: with a token of the host itself.
pub(crate) struct OfHost {
    exchange: TokenExchange,
    held: Held,
}

impl OfHost {
    /// Returns the authorizer of a server at a URL.
    ///
    /// # Errors
    /// If the name of a permitted host is invalid.
    pub(crate) fn new(url: &str, settings: &config::TokenExchange) -> Result<Self, FetchError> {
        Ok(Self { exchange: exchange_of(settings, url)?, held: Held::default() })
    }

    async fn header(&self) -> Result<HeaderValue, Error> {
        self.held.header(|| self.exchange.for_client()).await
    }
}

impl Authorizer for OfHost {
    fn authorize<'a>(&'a self, _: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
        Box::pin(async move { Ok(HeaderMap::from_iter([(AUTHORIZATION, self.header().await?)])) })
    }

    fn refused<'a>(&'a self, refusal: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        Box::pin(async move {
            if !self.held.reject(refusal) {
                return Ok(Verdict::GiveUp);
            }
            self.header().await?;
            Ok(Verdict::Retry)
        })
    }
}

#[cfg(all(test, feature = "gateway"))]
mod tests {
    use mcp_auth::SubjectToken;

    use super::*;

    #[test]
    fn the_token_of_an_older_stream_does_not_replace_a_newer_token() {
        let (ada, held, start) = (Principal::new("ada"), Held::default(), std::time::Instant::now());
        let token_of = |secret: &str, seconds| {
            let since = start + Duration::from_secs(seconds);
            CallerToken { since, ..CallerToken::new(&ada, secret) }
        };
        for (secret, seconds, newest) in [
            ("first", 0, "first"),
            ("second", 1, "second"),
            // The request of a stream, which began with the first token.
            ("first", 0, "second"),
            // A new request with the first token.
            ("first", 2, "first"),
        ] {
            held.update(&token_of(secret, seconds));
            let known = held.state.lock().token_of_caller.as_ref().map(|token| token.secret.expose().to_owned());
            assert_eq!(known.as_deref(), Some(newest), "{secret} {seconds}");
        }
        let of_client = SubjectToken::new("first");
        assert_eq!(CallerToken::of_client(&ada, &of_client).since, of_client.since());
    }
}
