//! The records of the authorization server in a store. A secret is stored as a digest only.

use std::{fmt, future::IntoFuture, sync::Arc, time::Duration};

use mcp_auth::jose;
use mcp_protocol::auth::ClientMetadata;
use mcp_store::{KeyValue, StoreError};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The longest time of an operation of the store.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The shortest time to live of a record. A store rejects zero.
const MIN_TTL: Duration = Duration::from_secs(1);
/// The number of attempts to change a record that other requests change as well.
const ATTEMPTS: usize = 16;

/// A record with a kind, which is a part of its key.
pub(super) trait Record: Serialize + DeserializeOwned + Send + Sync {
    const KIND: &'static str;
}

/// A registered client.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ClientRecord {
    pub(super) metadata: ClientMetadata,
    /// The digest of the secret. A public client has none.
    pub(super) secret: Option<String>,
}

/// An authorization request that waits for the consent of the user.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct PendingRecord {
    pub(super) request: AuthorizationRequest,
    /// The digest of the cookie of the browser that received the page.
    pub(super) browser: String,
    pub(super) expires_at: u64,
}

/// A valid authorization request.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct AuthorizationRequest {
    pub(super) client_id: String,
    pub(super) redirect_uri: String,
    /// Whether the request had the redirect URI. The token request must then repeat it.
    pub(super) names_redirect_uri: bool,
    pub(super) state: Option<String>,
    /// The challenge of PKCE with S256.
    pub(super) challenge: String,
    pub(super) scopes: Vec<String>,
    pub(super) resources: Vec<String>,
    /// The thumbprint of the DPoP key (RFC 9449 §10).
    pub(super) jkt: Option<String>,
}

/// An authorization code.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct CodeRecord {
    pub(super) request: AuthorizationRequest,
    pub(super) subject: String,
    pub(super) expires_at: u64,
    /// The grant that the code becomes.
    pub(super) grant: String,
    pub(super) is_used: bool,
}

/// The consent of a user: the family of the tokens that came from it.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct GrantRecord {
    pub(super) client_id: String,
    pub(super) subject: String,
    pub(super) scopes: Vec<String>,
    pub(super) audience: Vec<String>,
    pub(super) jkt: Option<String>,
    pub(super) is_revoked: bool,
}

/// A refresh token.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct RefreshRecord {
    pub(super) grant: String,
    pub(super) expires_at: u64,
    /// The key from which the successor is derived. The record does not contain the successor.
    pub(super) salt: String,
    /// The time at which the token was replaced by its successor.
    pub(super) rotated_at: Option<u64>,
}

/// An access token.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct TokenRecord {
    /// The family of the token. A token without a consent has none.
    pub(super) grant: Option<String>,
    pub(super) client_id: String,
    pub(super) subject: String,
    pub(super) scopes: Vec<String>,
    pub(super) audience: Vec<String>,
    pub(super) jkt: Option<String>,
    pub(super) issued_at: u64,
    pub(super) expires_at: u64,
    pub(super) is_revoked: bool,
}

impl Record for ClientRecord {
    const KIND: &'static str = "client";
}
impl Record for PendingRecord {
    const KIND: &'static str = "pending";
}
impl Record for CodeRecord {
    const KIND: &'static str = "code";
}
impl Record for GrantRecord {
    const KIND: &'static str = "grant";
}
impl Record for RefreshRecord {
    const KIND: &'static str = "refresh";
}
impl Record for TokenRecord {
    const KIND: &'static str = "token";
}

/// A record and its bytes, which a swap compares.
pub(super) struct Stored<T> {
    pub(super) record: T,
    bytes: Arc<[u8]>,
}

/// The outcome of a change of a record.
pub(super) enum Update<T> {
    /// The new record.
    Changed(T),
    /// The record, which the caller did not want to change.
    Kept(T),
    Absent,
}

/// The records of one authorization server. Several servers with different issuers can share a store.
pub(super) struct State {
    store: Arc<dyn KeyValue>,
    prefix: String,
}

impl State {
    pub(super) fn new(store: Arc<dyn KeyValue>, issuer: &str) -> Self {
        Self { store, prefix: format!("oauth/{}", jose::sha256(issuer.as_bytes())) }
    }

    /// Returns the key of a record. The name can be a secret, so the key has its digest.
    fn key<T: Record>(&self, name: &str) -> String {
        format!("{}/{}/{}", self.prefix, T::KIND, jose::sha256(name.as_bytes()))
    }

    pub(super) async fn get<T: Record>(&self, name: &str) -> Result<Option<Stored<T>>, StoreError> {
        let key = self.key::<T>(name);
        let Some(bytes) = bounded(self.store.get(&key)).await? else { return Ok(None) };
        let record = decode(&bytes)?;
        Ok(Some(Stored { record, bytes }))
    }

    /// Creates a record. `false` if it exists.
    pub(super) async fn create<T: Record>(&self, name: &str, record: &T, ttl: Duration) -> Result<bool, StoreError> {
        self.swap_bytes::<T>(name, None, Some(encode(record)?), Some(ttl)).await
    }

    /// Creates a record that does not expire. `false` if it exists.
    pub(super) async fn create_lasting<T: Record>(&self, name: &str, record: &T) -> Result<bool, StoreError> {
        self.swap_bytes::<T>(name, None, Some(encode(record)?), None).await
    }

    /// Writes a record in the place of an earlier record.
    pub(super) async fn put<T: Record>(&self, name: &str, record: &T, ttl: Duration) -> Result<(), StoreError> {
        let key = self.key::<T>(name);
        bounded(self.store.put(&key, encode(record)?, Some(ttl.max(MIN_TTL)))).await
    }

    /// Replaces a record if no other request changed it.
    pub(super) async fn replace<T: Record>(
        &self,
        name: &str,
        old: &Stored<T>,
        new: &T,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        self.swap_bytes::<T>(name, Some(&old.bytes), Some(encode(new)?), Some(ttl)).await
    }

    /// Deletes a record if no other request changed it. Of several requests that read the record, only one succeeds.
    pub(super) async fn take<T: Record>(&self, name: &str, old: &Stored<T>) -> Result<bool, StoreError> {
        self.swap_bytes::<T>(name, Some(&old.bytes), None, None).await
    }

    pub(super) async fn delete<T: Record>(&self, name: &str) -> Result<bool, StoreError> {
        let key = self.key::<T>(name);
        bounded(self.store.delete(&key)).await
    }

    /// Changes a record, also when other requests change it at the same time. `change` returns `None` to keep the record.
    pub(super) async fn update<T: Record + Clone>(
        &self,
        name: &str,
        ttl: Duration,
        change: impl Fn(&T) -> Option<T> + Send,
    ) -> Result<Update<T>, StoreError> {
        for _ in 0..ATTEMPTS {
            let Some(old) = self.get::<T>(name).await? else { return Ok(Update::Absent) };
            let Some(new) = change(&old.record) else { return Ok(Update::Kept(old.record)) };
            if self.replace(name, &old, &new, ttl).await? {
                return Ok(Update::Changed(new));
            }
        }
        Err(StoreError::conflict("the record changed during each attempt"))
    }

    async fn swap_bytes<T: Record>(
        &self,
        name: &str,
        expected: Option<&[u8]>,
        new: Option<Arc<[u8]>>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        let key = self.key::<T>(name);
        let ttl = ttl.map(|ttl| ttl.max(MIN_TTL));
        Ok(bounded(self.store.compare_and_swap(&key, expected, new, ttl)).await?.is_done())
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("store", &self.store).finish_non_exhaustive()
    }
}

async fn bounded<T>(operation: impl IntoFuture<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match tokio::time::timeout(TIMEOUT, operation).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::unavailable("the store did not respond in time")),
    }
}

fn encode(record: &impl Serialize) -> Result<Arc<[u8]>, StoreError> {
    let bytes = serde_json::to_vec(record);
    bytes.map(Arc::from).map_err(|_| StoreError::invalid("a record is not representable as JSON"))
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(bytes).map_err(|_| StoreError::invalid("a record of the store is not readable"))
}
