//! [`RedisStore`], and its parts for the three traits.

use std::{fmt, sync::Arc, time::Duration};

use mcp_store::StoreError;
use redis::{Cmd, FromRedisValue, from_redis_value};

use crate::{
    dial::Dialer,
    error::store_error,
    link::{Effect, Link},
    names::Names,
    options::RedisOptions,
    script::{Acknowledgement, Request, StoredScript},
    topics::Topics,
};

mod key_value;
mod log;
mod pub_sub;

/// A shared store on Redis 7 or Valkey. Clones are cheap and share their connections.
///
/// A store has one connection for commands, and one for topics from the first subscription on. Lost connections are
/// replaced in the background. A call returns within the time limit of the options: with a response, or with an error
/// that is [unavailable](StoreError::is_unavailable). While a lost connection is replaced for the first time, calls wait
/// for it. After an attempt has failed, calls fail at once.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use mcp_store::{KeyValue, Store};
/// use mcp_store_redis::{RedisOptions, RedisStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_store::StoreError> {
/// let options = RedisOptions::from_url("redis://127.0.0.1")?.namespace("mcp/notes");
/// let store: Arc<dyn Store> = Arc::new(RedisStore::connect(options).await?);
/// store.put("session/1", Arc::from(*b"{}"), None).await?;
/// assert_eq!(store.get("session/1").await?.as_deref(), Some(&b"{}"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisStore {
    shared: Arc<Shared>,
    acknowledgement: Option<Acknowledgement>,
}

struct Shared {
    link: Link,
    topics: Topics,
    names: Names,
    address: String,
}

impl RedisStore {
    /// Connects to Redis, and checks its settings.
    ///
    /// The store rejects a server with a `maxmemory-policy` other than `noeviction`, because such a server drops records
    /// that are in use. Missing persistence is a warning of `tracing`, which names the writes that can be lost. If the
    /// server allows neither `CONFIG GET` nor `INFO`, the store logs a warning. The checks also apply to each later
    /// connection.
    ///
    /// # Errors
    /// [Invalid](StoreError::is_invalid) if the options, the credentials or the settings of the server cannot work, and
    /// [unavailable](StoreError::is_unavailable) if the server is not reachable within 2 seconds.
    pub async fn connect(options: RedisOptions) -> Result<Self, StoreError> {
        let names = Names::new(&options.namespace)?;
        let dialer = Arc::new(Dialer::new(&options, names.index())?);
        let link = Link::open(dialer.clone(), options.call_time).await?;
        let topics = Topics::start(dialer, names.clone(), options.call_time, link.newest());
        let shared = Shared { link, topics, names, address: options.to_string() };
        Ok(Self { shared: Arc::new(shared), acknowledgement: None })
    }

    /// Returns a handle whose compare-and-swaps and appends wait until `replicas` replicas have acknowledged them (`WAIT`).
    ///
    /// If fewer replicas respond `within` the time, the call is [unavailable](StoreError::is_unavailable), and the write
    /// may have taken effect. An acknowledged write survives the loss of the primary server if the failover selects one of
    /// these replicas. Concurrent calls of all handles wait behind a call that waits for replicas, because they share one
    /// connection. The time is at most one second, and at most half of the time limit of a call.
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use mcp_store_redis::{RedisOptions, RedisStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_store::StoreError> {
    /// let store = RedisStore::connect(RedisOptions::from_url("redis://redis.internal")?).await?;
    /// let durable = store.acknowledged_by(1, Duration::from_millis(500));
    /// # let _ = durable;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn acknowledged_by(&self, replicas: u32, within: Duration) -> Self {
        let millis = u64::try_from(within.as_millis()).unwrap_or(u64::MAX).clamp(1, self.shared.link.longest_wait());
        let acknowledgement = (replicas > 0).then_some(Acknowledgement { replicas: replicas.into(), millis });
        Self { shared: self.shared.clone(), acknowledgement }
    }

    fn names(&self) -> &Names {
        &self.shared.names
    }

    async fn command<T: FromRedisValue>(&self, effect: Effect, command: Cmd) -> Result<T, StoreError> {
        let reply = self.shared.link.call(effect, &Request::Command(command)).await?;
        from_redis_value(reply.value).map_err(|error| store_error(error.into()))
    }

    async fn script<T: FromRedisValue>(
        &self,
        effect: Effect,
        script: &'static StoredScript,
        keys: &[String],
        args: &[&[u8]],
    ) -> Result<T, StoreError> {
        let request = Request::Script { script, keys, args, acknowledgement: None };
        let reply = self.shared.link.call(effect, &request).await?;
        from_redis_value(reply.value).map_err(|error| store_error(error.into()))
    }

    /// Runs a script that may write, and waits for the replicas of this handle if it has written.
    async fn acknowledged<T: FromRedisValue>(
        &self,
        script: &'static StoredScript,
        keys: &[String],
        args: &[&[u8]],
    ) -> Result<T, StoreError> {
        let request = Request::Script { script, keys, args, acknowledgement: self.acknowledgement };
        let reply = self.shared.link.call(Effect::Write, &request).await?;
        if let (Some(reached), Some(expected)) = (reply.acknowledged, self.acknowledgement)
            && reached < expected.replicas
        {
            let Acknowledgement { replicas, millis } = expected;
            let message = format!("{reached} of {replicas} replicas acknowledged the write within {millis} ms");
            return Err(StoreError::unavailable(message));
        }
        from_redis_value(reply.value).map_err(|error| store_error(error.into()))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("address", &self.shared.address)
            .field("names", &self.shared.names)
            .field("link", &self.shared.link)
            .field("acknowledgement", &self.acknowledgement)
            .finish_non_exhaustive()
    }
}

/// Returns a time to live in milliseconds, rounded up. An empty text is a record that stays.
fn millis(ttl: Option<Duration>) -> String {
    /// A longer time is unbounded: about 31,000 years.
    const LONGEST: u128 = 1_000_000_000_000_000;
    match ttl.map(|ttl| ttl.as_nanos().div_ceil(1_000_000)) {
        Some(millis) if millis < LONGEST => millis.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_live_is_rounded_up_and_bounded() {
        for (ttl, text) in [
            (None, ""),
            (Some(Duration::from_nanos(1)), "1"),
            (Some(Duration::from_millis(1)), "1"),
            (Some(Duration::from_micros(1_001)), "2"),
            (Some(Duration::from_secs(60)), "60000"),
            (Some(Duration::MAX), ""),
        ] {
            assert_eq!(millis(ttl), text, "{ttl:?}");
        }
    }
}
