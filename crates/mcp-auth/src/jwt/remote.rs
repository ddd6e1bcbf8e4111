//! The keys of an issuer, fetched from its URL.

use std::{sync::Arc, time::Duration};

use mcp_fetch::{Fetch, FetchErrorKind};
use mcp_protocol::auth::AuthorizationServerMetadata;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    Fault,
    key_cache::{KeyCache, Lookup},
    keys::{Key, KeySet},
    token::Token,
};
use crate::clock::Clock;

/// The longest time of a fetch with its discovery.
const MAX_FETCH: Duration = Duration::from_secs(14);
/// The longest time that one request waits for keys.
const MAX_WAIT: Duration = Duration::from_secs(15);
/// The time after which a client may try again when the wait was too long.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The source of the keys.
#[derive(Clone)]
pub(crate) enum Source {
    /// The metadata document of this issuer names the URL.
    Issuer(String),
    /// The URL of the key set.
    Url(String),
}

pub(crate) struct RemoteKeys {
    pub(crate) source: Source,
    fetch: Fetch,
    clock: Clock,
    cache: Mutex<KeyCache>,
    /// The number of completed fetches. It changes while the cache is locked.
    completed: watch::Sender<u64>,
}

impl RemoteKeys {
    pub(crate) fn new(source: Source, fetch: Fetch, clock: Clock) -> Self {
        Self { source, fetch, clock, cache: Mutex::default(), completed: watch::Sender::new(0) }
    }

    /// Checks the signature of a token, and fetches the keys if necessary.
    pub(crate) async fn check(self: &Arc<Self>, token: &Token<'_>) -> Result<(), Fault> {
        let wrong = Err(Fault::Invalid("the signature is wrong"));
        let (lookup, completed) = {
            let mut cache = self.cache.lock();
            (cache.lookup(token.algorithm, token.key_id(), self.clock.moment().instant), self.completed.subscribe())
        };
        match lookup {
            Lookup::Found(keys) if token.is_signed_by(&keys) => return Ok(()),
            Lookup::Found(_) => {}
            Lookup::Stale(keys) => {
                // The request does not wait, because the known keys are still good.
                self.start();
                if token.is_signed_by(&keys) {
                    return Ok(());
                }
            }
            Lookup::Fetch | Lookup::Join => {
                if matches!(lookup, Lookup::Fetch) {
                    self.start();
                }
                let keys = self.fetched(completed, token).await?;
                return if token.is_signed_by(&keys) { Ok(()) } else { wrong };
            }
            Lookup::Unavailable(retry_after) => return Err(Fault::Unavailable(retry_after)),
        }
        let (lookup, completed) = {
            let mut cache = self.cache.lock();
            (cache.mismatch(self.clock.moment().instant), self.completed.subscribe())
        };
        match lookup {
            None => return wrong,
            Some(Lookup::Fetch) => self.start(),
            Some(_) => {}
        }
        let keys = self.fetched(completed, token).await?;
        if token.is_signed_by(&keys) { Ok(()) } else { wrong }
    }

    /// Waits for the end of the fetch, and returns the keys of a token.
    async fn fetched(&self, mut completed: watch::Receiver<u64>, token: &Token<'_>) -> Result<Vec<Arc<Key>>, Fault> {
        match tokio::time::timeout(MAX_WAIT, completed.changed()).await {
            Ok(Ok(())) => {
                let now = self.clock.moment().instant;
                self.cache.lock().fetched(token.algorithm, token.key_id(), now)
            }
            _ => Err(Fault::Unavailable(RETRY_AFTER)),
        }
    }

    /// Fetches the keys on a task of its own, so that the end of a request does not end the fetch.
    fn start(self: &Arc<Self>) {
        let mut fetching = Fetching { keys: Arc::clone(self), result: None };
        tokio::spawn(async move {
            let loaded = tokio::time::timeout(MAX_FETCH, fetching.keys.load()).await;
            let loaded = loaded.unwrap_or_else(|_| Err("the issuer does not answer in time".to_owned()));
            if let Err(reason) = &loaded {
                tracing::warn!(reason, "the keys of an issuer could not be fetched");
            }
            fetching.set(loaded.ok());
        });
    }

    async fn load(&self) -> Result<KeySet, String> {
        let url = match &self.source {
            Source::Url(url) => url.clone(),
            Source::Issuer(issuer) => {
                let metadata = discover(&self.fetch, issuer).await?;
                metadata.jwks_uri.ok_or("the metadata of the issuer names no keys")?
            }
        };
        let response = self.fetch.get(&url).await.map_err(|error| error.to_string())?;
        if !response.status().is_success() {
            return Err(format!("the URL of the keys has the status {}", response.status()));
        }
        let keys = KeySet::parse(response.body())?;
        if keys.is_empty() {
            tracing::warn!("an issuer publishes no usable key");
        }
        Ok(keys)
    }
}

/// A fetch that runs. Its end is recorded even if its task ends early.
struct Fetching {
    keys: Arc<RemoteKeys>,
    result: Option<KeySet>,
}

impl Fetching {
    fn set(&mut self, result: Option<KeySet>) {
        self.result = result;
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        let mut cache = self.keys.cache.lock();
        cache.complete(self.result.take(), self.keys.clock.moment().instant);
        self.keys.completed.send_modify(|completed| *completed += 1);
    }
}

/// Fetches the metadata document of an issuer, in the order of the specification. The document must name the issuer.
///
/// A URL of the specification may have another purpose at an issuer, such as a page for people. The next URL is tried then,
/// unless the issuer cannot be reached.
pub(crate) async fn discover(fetch: &Fetch, issuer: &str) -> Result<AuthorizationServerMetadata, String> {
    let urls = AuthorizationServerMetadata::well_known_urls(issuer).ok_or("the issuer is not a URL")?;
    let mut reasons = Vec::new();
    for url in urls {
        let response = match fetch.get(&url).await {
            Ok(response) => response,
            Err(error) if matches!(error.kind(), FetchErrorKind::Redirect | FetchErrorKind::TooLarge) => {
                reasons.push(error.to_string());
                continue;
            }
            Err(error) => return Err(error.to_string()),
        };
        if !response.status().is_success() {
            reasons.push(format!("the metadata of the issuer has the status {}", response.status()));
            continue;
        }
        match response.json::<AuthorizationServerMetadata>() {
            Ok(metadata) if metadata.is_issued_by(issuer) => return Ok(metadata),
            Ok(_) => reasons.push("the metadata names another issuer".to_owned()),
            Err(error) => reasons.push(error.to_string()),
        }
    }
    Err(reasons.join("; "))
}
