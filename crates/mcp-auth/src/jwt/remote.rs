//! The keys of an issuer, fetched from its URL.

use std::{sync::Arc, time::Duration};

use jsonwebtoken::Algorithm;
use mcp_fetch::Fetch;
use mcp_protocol::auth::AuthorizationServerMetadata;
use parking_lot::Mutex;

use super::{
    Fault,
    key_cache::{KeyCache, Lookup},
    keys::{Key, KeySet},
};
use crate::clock::Clock;

/// The longest time that one request waits for keys.
const MAX_WAIT: Duration = Duration::from_secs(15);
/// The time after which a client may try again when the wait was too long.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The source of the keys.
pub(crate) enum Source {
    /// The metadata document of this issuer names the URL.
    Issuer(String),
    /// The URL of the key set.
    Url(String),
}

pub(crate) struct RemoteKeys {
    pub(crate) source: Source,
    pub(crate) fetch: Fetch,
    pub(crate) clock: Clock,
    cache: Mutex<KeyCache>,
    /// One fetch runs at a time. The others wait for its result.
    turn: tokio::sync::Mutex<()>,
}

impl RemoteKeys {
    pub(crate) fn new(source: Source, fetch: Fetch, clock: Clock) -> Self {
        Self { source, fetch, clock, cache: Mutex::default(), turn: tokio::sync::Mutex::new(()) }
    }

    /// Returns the key of a token, and fetches the keys if necessary.
    pub(crate) async fn key(self: &Arc<Self>, algorithm: Algorithm, id: Option<&str>) -> Result<Arc<Key>, Fault> {
        let (found, completed) = self.lookup(algorithm, id);
        match found {
            Lookup::Stale(key) => {
                let keys = Arc::clone(self);
                // The request does not wait, because the known key is still good.
                tokio::spawn(async move { keys.refresh(completed).await });
                Ok(key)
            }
            Lookup::Fetch => {
                if tokio::time::timeout(MAX_WAIT, self.refresh(completed)).await.is_err() {
                    return Err(Fault::Unavailable(RETRY_AFTER));
                }
                match self.lookup(algorithm, id).0 {
                    Lookup::Found(key) | Lookup::Stale(key) => Ok(key),
                    _ => result(self.cache.lock().missing(self.clock.now())),
                }
            }
            other => result(other),
        }
    }

    fn lookup(&self, algorithm: Algorithm, id: Option<&str>) -> (Lookup, u64) {
        let cache = self.cache.lock();
        (cache.lookup(algorithm, id, self.clock.now()), cache.completed)
    }

    /// Fetches the keys, unless another request has fetched them since `completed` attempts.
    async fn refresh(&self, completed: u64) {
        let _turn = self.turn.lock().await;
        {
            let mut cache = self.cache.lock();
            if cache.completed != completed || !cache.begin(self.clock.now()) {
                return;
            }
        }
        let keys = self.load().await;
        if let Err(reason) = &keys {
            tracing::warn!(reason, "the keys of an issuer could not be fetched");
        }
        self.cache.lock().complete(keys.ok(), self.clock.now());
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
        Ok(KeySet::parse(response.body())?)
    }
}

fn result(lookup: Lookup) -> Result<Arc<Key>, Fault> {
    match lookup {
        Lookup::Found(key) | Lookup::Stale(key) => Ok(key),
        Lookup::Unknown | Lookup::Fetch => Err(Fault::Invalid("the issuer has no key for the token")),
        Lookup::Unavailable(retry_after) => Err(Fault::Unavailable(retry_after)),
    }
}

/// Fetches the metadata document of an issuer, in the order of the specification. The document must name the issuer.
pub(crate) async fn discover(fetch: &Fetch, issuer: &str) -> Result<AuthorizationServerMetadata, String> {
    let urls = AuthorizationServerMetadata::well_known_urls(issuer).ok_or("the issuer is not a URL")?;
    let mut reason = String::new();
    for url in urls {
        let response = fetch.get(&url).await.map_err(|error| error.to_string())?;
        if !response.status().is_success() {
            reason = format!("the metadata of the issuer has the status {}", response.status());
            continue;
        }
        let metadata: AuthorizationServerMetadata = response.json().map_err(|error| error.to_string())?;
        return if metadata.is_issued_by(issuer) {
            Ok(metadata)
        } else {
            Err("the metadata names another issuer".to_owned())
        };
    }
    Err(reason)
}
