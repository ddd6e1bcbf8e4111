//! The tokens of one MCP server in this process: the token of each request, and the reaction to refusals.
//!
//! All work on tokens runs on tasks of its own, one at a time. A request that is cancelled stops its wait and not the work.

mod declined;
mod default_page;
mod explanation;
mod grant;
mod limit;
mod logout;
mod record;
mod refusal;
mod renewal;
#[cfg(test)]
mod schedules;
mod scopes;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use http::HeaderMap;
use mcp_fetch::Fetch;
use mcp_protocol::auth::Secret;
use parking_lot::RwLock;
use tokio::sync::{Mutex, MutexGuard, Notify, watch};
use url::Url;

use self::limit::Logins;
use self::refusal::Failure;
pub(crate) use self::refusal::Refused;
use crate::{
    discovery::{self, Server},
    dpop::{DpopKey, Nonces, Proofs},
    error::{Error, ErrorKind},
    settings::Settings,
    tokens::{Tokens, now},
    trail::Reader,
};

/// The wait after a failure of a refresh, while the old token is still valid.
const REFRESH_PAUSE: Duration = Duration::from_secs(10);
/// The wait after a failure of a refresh, if the old token has expired. Requests fail during this wait.
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);
/// The longest wait that `Retry-After` can demand.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The time for which a request with a valid token waits for its renewal.
const RENEWAL_WAIT: Duration = Duration::from_secs(2);
/// The longest wait for the lock of a refresh.
const REFRESH_LOCK: Duration = Duration::from_secs(60);

/// The tokens of one MCP server.
pub(crate) struct Session {
    settings: Arc<Settings>,
    /// The default of the HTTP client for requests to other servers. Absent until an HTTP client uses the session.
    attached: OnceLock<Fetch>,
    /// The requests of a session without an HTTP client.
    unattached: Fetch,
    endpoint: Url,
    /// The key of the tokens in the store.
    key: String,
    current: RwLock<Option<Arc<Tokens>>>,
    /// The stored tokens that the current tokens equal or replace. They differ if a write to the store failed.
    origin: RwLock<Option<Secret>>,
    /// The latest tokens that the MCP server accepted.
    accepted: RwLock<Option<Arc<Tokens>>>,
    /// The number of completed reactions to refusals, with and without success.
    reactions: AtomicU64,
    /// Whether a user is asked to log in.
    asking: watch::Sender<bool>,
    nonces: Nonces,
    /// Whether a login replaces records that the store cannot open.
    replaces_unreadable: AtomicBool,
    /// Notified by a logout. It ends a login that waits for the user.
    logouts: Notify,
    /// The number of renewals that run.
    renewals: watch::Sender<usize>,
    work: Mutex<Work>,
}

/// The state that only the task that works on the tokens uses.
#[derive(Default)]
struct Work {
    is_loaded: bool,
    /// The authorization server of the current tokens.
    server: Option<Arc<Server>>,
    /// The latest reaction to a refusal, if it failed.
    failure: Option<Failure>,
    /// The latest refresh, if it failed.
    pause: Option<Pause>,
    logins: Logins,
}

/// The time without a refresh after a failure.
struct Pause {
    start: Instant,
    error: Error,
}

impl Pause {
    fn is_over(&self, is_expired: bool) -> bool {
        let least = if is_expired { OUTAGE_PAUSE } else { REFRESH_PAUSE };
        self.start.elapsed() >= self.error.retry_after().unwrap_or(least).clamp(least, LONGEST_PAUSE)
    }
}

impl Session {
    /// Returns the session of an endpoint.
    pub(crate) fn new(settings: Arc<Settings>, endpoint: Url) -> Arc<Self> {
        Arc::new(Self {
            settings,
            attached: OnceLock::new(),
            unattached: Fetch::builder().for_server(endpoint.as_str()).build(),
            key: format!("tokens/{endpoint}"),
            endpoint,
            current: RwLock::default(),
            origin: RwLock::default(),
            accepted: RwLock::default(),
            reactions: AtomicU64::new(0),
            asking: watch::Sender::new(false),
            nonces: Nonces::default(),
            replaces_unreadable: AtomicBool::new(false),
            logouts: Notify::new(),
            renewals: watch::Sender::new(0),
            work: Mutex::default(),
        })
    }

    /// Takes over the default of the HTTP client for requests to other servers. The first HTTP client decides.
    pub(crate) fn attach(&self, fetch: &Fetch) {
        self.attached.get_or_init(|| fetch.clone());
    }

    /// Returns the requests to other servers: those of the application, else those of the HTTP client.
    fn fetch(&self) -> &Fetch {
        self.settings.fetch.as_ref().or_else(|| self.attached.get()).unwrap_or(&self.unattached)
    }

    /// Returns the tokens for a request, renewed if their end is near. Without tokens the client sends the request
    /// unauthorized, and the challenge of the server begins a login. The server also refuses expired tokens, if the client
    /// cannot renew them.
    pub(crate) async fn tokens(self: &Arc<Self>) -> Result<Option<Arc<Tokens>>, Error> {
        let session = Arc::clone(self);
        if self.current().is_none() {
            on_own_task(async move { session.working().await.map(drop) }).await?;
        }
        let session = Arc::clone(self);
        match self.current() {
            // The tokens still serve the requests that do not renew them, and the request of a slow renewal.
            Some(tokens) if tokens.needs_renewal(now()) && !tokens.is_expired(now()) => {
                let renewal = on_own_task(async move {
                    let Ok(mut work) = session.work.try_lock() else { return Ok(session.current()) };
                    session.renewed(&mut work).await
                });
                tokio::time::timeout(RENEWAL_WAIT, renewal).await.unwrap_or(Ok(Some(tokens)))
            }
            Some(tokens) if tokens.is_expired(now()) => {
                let renewal = async move {
                    let mut work = session.working().await?;
                    session.renewed(&mut work).await
                };
                on_own_task(renewal).await
            }
            tokens => Ok(tokens),
        }
    }

    /// Notes that the MCP server accepts a token. The answer to an earlier token shows nothing about the current one.
    pub(crate) fn accept(&self, token: &Secret) {
        if let Some(current) = self.current().filter(|tokens| tokens.access_token == *token) {
            *self.accepted.write() = Some(current);
        }
    }

    /// Stores the nonce of a response of the MCP server.
    pub(crate) fn note_nonce(&self, url: &Url, headers: &HeaderMap) {
        self.nonces.note(url, headers);
    }

    /// Returns the proofs of a key.
    pub(crate) fn proofs<'a>(&'a self, key: &'a DpopKey) -> Proofs<'a> {
        Proofs { key, nonces: &self.nonces }
    }

    /// Removes the tokens from this process, but not from the store.
    fn forget_tokens(&self) {
        *self.current.write() = None;
        *self.origin.write() = None;
        *self.accepted.write() = None;
    }

    /// Takes over the tokens of another process, which used them.
    fn adopt(&self, tokens: Tokens) -> Arc<Tokens> {
        let tokens = Arc::new(tokens);
        *self.origin.write() = Some(tokens.access_token.clone());
        *self.current.write() = Some(Arc::clone(&tokens));
        *self.accepted.write() = Some(Arc::clone(&tokens));
        tokens
    }

    /// Whether another process stored these tokens after the current ones. The clocks of processes may differ, so the times
    /// of the records do not decide.
    fn is_news(&self, stored: &Tokens) -> bool {
        let is_origin = self.origin.read().as_ref().is_some_and(|origin| *origin == stored.access_token);
        !is_origin && !self.is_current(stored)
    }

    fn is_current(&self, stored: &Tokens) -> bool {
        self.current().is_some_and(|tokens| tokens.access_token == stored.access_token)
    }

    fn is_accepted(&self, tokens: &Tokens) -> bool {
        self.accepted.read().as_ref().is_some_and(|accepted| accepted.access_token == tokens.access_token)
    }

    fn current(&self) -> Option<Arc<Tokens>> {
        self.current.read().clone()
    }

    /// Waits until no other task works on the tokens, and reads the stored tokens once.
    async fn working(&self) -> Result<MutexGuard<'_, Work>, Error> {
        let mut work = self.work.lock().await;
        if !work.is_loaded {
            if let Some(tokens) = self.stored().await? {
                self.adopt(tokens);
            }
            work.is_loaded = true;
        }
        Ok(work)
    }

    async fn renewed(&self, work: &mut Work) -> Result<Option<Arc<Tokens>>, Error> {
        let Some(tokens) = self.current() else { return Ok(None) };
        if !tokens.needs_renewal(now()) || tokens.refresh_token().is_none() {
            return Ok(Some(tokens));
        }
        let is_expired = tokens.is_expired(now());
        let error = match work.pause.as_ref().filter(|pause| !pause.is_over(is_expired)) {
            Some(pause) => pause.error.clone(),
            None => match self.refresh(work, &tokens).await {
                Ok(fresh) => return Ok(Some(fresh)),
                Err(error) => {
                    let effect = if is_expired { "has expired" } else { "is valid until its end" };
                    tracing::warn!(%error, "the token {effect} and is not renewed");
                    work.pause = Some(Pause { start: Instant::now(), error: error.clone() });
                    error
                }
            },
        };
        if is_expired && (error.is_temporary() || error.kind() == ErrorKind::Store) {
            return Err(error);
        }
        // The server accepts the token until its end. Later its refusal starts a login. After a logout there is no token.
        Ok(self.current())
    }

    /// Returns the authorization server of the tokens.
    async fn server_of(&self, work: &mut Work, tokens: &Tokens) -> Result<Arc<Server>, Error> {
        if let Some(server) = work.server.as_ref().filter(|server| server.identity == tokens.issuer) {
            return Ok(Arc::clone(server));
        }
        let server = if tokens.is_legacy {
            discovery::legacy(Reader::unrecorded(self.fetch()), &self.endpoint).await?
        } else {
            discovery::server(Reader::unrecorded(self.fetch()), &tokens.issuer, &self.settings.quirks(&tokens.issuer))
                .await?
        };
        let server = Arc::new(server);
        work.server = Some(Arc::clone(&server));
        Ok(server)
    }

    /// Returns whether a user is asked to log in, now and after each change.
    pub(crate) fn asking(&self) -> watch::Receiver<bool> {
        self.asking.subscribe()
    }

    /// Waits until no renewal runs.
    pub(crate) async fn finish_renewals(&self) {
        // The session has the sender, so the channel does not close.
        let _ = self.renewals.subscribe().wait_for(|running| *running == 0).await;
    }

    fn completed_reactions(&self) -> u64 {
        self.reactions.load(Ordering::Acquire)
    }
}

/// Runs work that a cancelled request must not stop.
async fn on_own_task<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    match tokio::spawn(work).await {
        Ok(result) => result,
        // A repetition would panic again.
        Err(error) if error.is_panic() => {
            Err(Error::new(ErrorKind::Panic, "the work on the tokens panicked: the cause may be the token store"))
        }
        Err(_) => Err(Error::new(ErrorKind::Unavailable, "the work on the tokens was stopped")),
    }
}
