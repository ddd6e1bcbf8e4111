//! The tokens of one MCP server in this process: the token of each request, and the reaction to refusals.
//!
//! All work on tokens runs on tasks of its own, one at a time. A request that is cancelled stops its wait and not the work.

mod grant;
mod record;
mod refusal;
mod renewal;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use mcp_fetch::Fetch;
use mcp_protocol::auth::Secret;
use parking_lot::RwLock;
use tokio::sync::{Mutex, MutexGuard};
use url::Url;

pub(crate) use self::refusal::Refused;
use crate::{
    discovery::{self, Server},
    error::{Error, ErrorKind},
    settings::Settings,
    tokens::{Tokens, now},
};

/// The wait after a temporary failure of a refresh, while the old token is still valid.
const REFRESH_PAUSE: Duration = Duration::from_secs(10);
/// The longest wait for the lock of a refresh.
const REFRESH_LOCK: Duration = Duration::from_secs(60);

/// The tokens of one MCP server.
pub(crate) struct Session {
    settings: Arc<Settings>,
    fetch: Fetch,
    endpoint: Url,
    /// The key of the tokens in the store.
    key: String,
    current: RwLock<Option<Arc<Tokens>>>,
    /// The stored tokens that the current tokens equal or replace. They differ if a write to the store failed.
    origin: RwLock<Option<Secret>>,
    /// The latest tokens that the MCP server accepted.
    accepted: RwLock<Option<Arc<Tokens>>>,
    /// The number of completed logins, with and without success.
    logins: AtomicU64,
    /// Whether a user is asked to log in.
    is_asking: AtomicBool,
    work: Mutex<Work>,
}

/// The state that only the task that works on the tokens uses.
#[derive(Default)]
struct Work {
    is_loaded: bool,
    /// The authorization server of the current tokens.
    server: Option<Arc<Server>>,
    /// The error of the latest login, if it failed.
    failure: Option<Error>,
    refresh_after: Option<Instant>,
}

impl Session {
    /// Returns the session of an endpoint. `attached` is the default of the HTTP client for requests to other servers.
    pub(crate) fn new(settings: Arc<Settings>, mut endpoint: Url, attached: Option<&Fetch>) -> Arc<Self> {
        endpoint.set_fragment(None);
        let fetch = settings.fetch.as_ref().or(attached).cloned();
        let fetch = fetch.unwrap_or_else(|| Fetch::builder().for_server(endpoint.as_str()).build());
        Arc::new(Self {
            settings,
            fetch,
            key: format!("tokens/{endpoint}"),
            endpoint,
            current: RwLock::default(),
            origin: RwLock::default(),
            accepted: RwLock::default(),
            logins: AtomicU64::new(0),
            is_asking: AtomicBool::new(false),
            work: Mutex::default(),
        })
    }

    /// Returns the tokens for a request, renewed if their end is near. Without tokens the client sends the request
    /// unauthorized, and the challenge of the server begins a login.
    pub(crate) async fn tokens(self: &Arc<Self>) -> Result<Option<Arc<Tokens>>, Error> {
        let current = self.current();
        if let Some(tokens) = current.filter(|tokens| !tokens.needs_renewal(now())) {
            return Ok(Some(tokens));
        }
        let session = Arc::clone(self);
        on_own_task(async move { session.renewed().await }).await
    }

    /// Notes that the MCP server accepts the current tokens.
    pub(crate) fn accept(&self) {
        let current = self.current();
        *self.accepted.write() = current;
    }

    /// Takes over the tokens of another process, which used them.
    fn adopt(&self, tokens: Tokens) -> Arc<Tokens> {
        let tokens = Arc::new(tokens);
        *self.origin.write() = Some(tokens.access_token.clone());
        *self.current.write() = Some(Arc::clone(&tokens));
        self.accept();
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

    async fn renewed(&self) -> Result<Option<Arc<Tokens>>, Error> {
        let mut work = self.working().await?;
        let Some(tokens) = self.current() else { return Ok(None) };
        if !tokens.needs_renewal(now()) {
            return Ok(Some(tokens));
        }
        let is_expired = tokens.is_expired(now());
        let is_paused = work.refresh_after.is_some_and(|time| Instant::now() < time);
        if tokens.refresh_token().is_none() || is_paused && !is_expired {
            return Ok((!is_expired).then_some(tokens));
        }
        match self.refresh(&mut work, &tokens).await {
            Ok(fresh) => Ok(Some(fresh)),
            Err(error) if error.is_temporary() && !is_expired => {
                tracing::warn!(%error, "the token is not renewed yet, and still valid");
                work.refresh_after = Some(Instant::now() + REFRESH_PAUSE);
                Ok(Some(tokens))
            }
            Err(error) if error.is_temporary() || error.kind() == ErrorKind::Store => Err(error),
            Err(error) => {
                tracing::warn!(%error, "the token cannot be renewed, so the user must log in again");
                Ok((!is_expired).then_some(tokens))
            }
        }
    }

    /// Returns the authorization server of the tokens.
    async fn server_of(&self, work: &mut Work, tokens: &Tokens) -> Result<Arc<Server>, Error> {
        if let Some(server) = work.server.as_ref().filter(|server| server.identity == tokens.issuer) {
            return Ok(Arc::clone(server));
        }
        let server = if tokens.is_legacy {
            discovery::legacy(&self.fetch, &self.endpoint).await?
        } else {
            discovery::server(&self.fetch, &tokens.issuer).await?
        };
        let server = Arc::new(server);
        work.server = Some(Arc::clone(&server));
        Ok(server)
    }

    /// Whether a user is asked to log in.
    pub(crate) fn is_asking(&self) -> bool {
        self.is_asking.load(Ordering::Acquire)
    }

    fn completed_logins(&self) -> u64 {
        self.logins.load(Ordering::Acquire)
    }
}

/// Runs work that a cancelled request must not stop.
async fn on_own_task<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(_) => Err(Error::new(ErrorKind::Unavailable, "the work on the tokens was stopped")),
    }
}
