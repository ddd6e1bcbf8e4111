//! A layer that limits the rate of calls.

use std::{
    collections::HashMap,
    fmt,
    future::ready,
    sync::Arc,
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use mcp_protocol::{Principal, RpcError};
use parking_lot::Mutex;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use super::{HandlerService, Invocation, Outcome, Running};
use crate::request::busy_error;

/// The most principals with a bucket of their own. Further principals share one bucket, apart from anonymous callers.
const MAX_PRINCIPALS: usize = 16 << 10;
/// The longest window: ten years. Longer ones could exceed the range of the clock.
const MAX_WINDOW: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// A layer that limits how often handlers run: `calls` calls at once, and `calls` calls in each `window` after that.
///
/// It is a token bucket. A full bucket holds `calls` tokens. Each run of a handler takes one token, and one token returns
/// after `window / calls`. When the bucket is empty, the layer rejects the call at once with a retryable error. The text of
/// the error and the member `retryAfterMs` of its data contain the time to wait.
///
/// Layers are cheap to clone, and clones share their buckets: one `RateLimit` on two tools limits both tools together. The
/// buckets belong to one process. In the stateless era, each input round of a call takes a token.
///
/// With zero `calls` the layer rejects every call, with an error that is not retryable. Otherwise, with a zero `window`, it
/// rejects none.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_server_core::{RateLimit, Server, tool};
///
/// let minute = Duration::from_secs(60);
/// let server = Server::builder("search", "1.0.0")
///     // Each caller: 100 calls per minute, over all handlers.
///     .layer(RateLimit::per_principal(100, minute))
///     // All callers together: 10 reports per minute.
///     .tool(tool("report", async || "done").layer(RateLimit::shared(10, minute)))
///     .build();
/// # let _: Server = server;
/// ```
#[derive(Clone)]
pub struct RateLimit {
    rate: Rate,
    buckets: Buckets,
}

#[derive(Clone, Copy)]
struct Rate {
    calls: u32,
    window: Duration,
}

#[derive(Clone)]
enum Buckets {
    Shared(Arc<Mutex<Bucket>>),
    PerPrincipal(Arc<Mutex<Table>>),
}

/// The time at which the bucket is full again. A bucket without this time is full.
type Bucket = Option<Instant>;

#[derive(Default)]
struct Table {
    buckets: HashMap<String, Bucket>,
    anonymous: Bucket,
    /// The bucket of principals above [`MAX_PRINCIPALS`].
    overflow: Bucket,
    swept: Option<Instant>,
}

impl RateLimit {
    /// Limits each principal on its own. Anonymous callers share one bucket. The table has room for 16,384 principals that
    /// called within the window. Further principals share one more bucket.
    #[must_use]
    pub fn per_principal(calls: u32, window: Duration) -> Self {
        Self { rate: Rate::new(calls, window), buckets: Buckets::PerPrincipal(Arc::default()) }
    }

    /// Limits all callers together.
    #[must_use]
    pub fn shared(calls: u32, window: Duration) -> Self {
        Self { rate: Rate::new(calls, window), buckets: Buckets::Shared(Arc::default()) }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// The time until a token returns, if the bucket is empty.
    fn take(&self, principal: Option<&Principal>) -> Result<(), Duration> {
        let now = Instant::now();
        match &self.buckets {
            Buckets::Shared(bucket) => self.rate.take(&mut bucket.lock(), now),
            Buckets::PerPrincipal(table) => {
                let key = principal.map(Principal::key);
                let mut table = table.lock();
                self.rate.take(table.bucket(key, now, self.rate.interval()), now)
            }
        }
    }
}

impl Rate {
    fn new(calls: u32, window: Duration) -> Self {
        Self { calls, window: window.min(MAX_WINDOW) }
    }

    /// The time after which one token returns.
    fn interval(self) -> Duration {
        self.window.checked_div(self.calls).unwrap_or(self.window)
    }

    fn take(self, bucket: &mut Bucket, now: Instant) -> Result<(), Duration> {
        if self.calls == 0 {
            return Err(self.window);
        }
        let full_at = bucket.map_or(now, |full_at| full_at.max(now)) + self.interval();
        // An interval is rounded down, so `calls` intervals never exceed the window.
        let wait = full_at.saturating_duration_since(now + self.window);
        if !wait.is_zero() {
            return Err(wait);
        }
        *bucket = Some(full_at);
        Ok(())
    }

    fn exceeded(self, wait: Duration) -> RpcError {
        let Self { calls, window } = self;
        if calls == 0 {
            return RpcError::internal("the limit of the server allows no calls");
        }
        // Rounded up, so that a retry after this time succeeds.
        let millis = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let wait = Duration::from_millis(millis);
        let problem = format!("the limit of {calls} calls in {window:?} is reached, retry in {wait:?}");
        busy_error(&problem, Some(millis))
    }
}

impl Table {
    fn bucket(&mut self, principal: Option<String>, now: Instant, interval: Duration) -> &mut Bucket {
        let Some(key) = principal else { return &mut self.anonymous };
        if self.buckets.len() >= MAX_PRINCIPALS && !self.buckets.contains_key(&key) {
            // One sweep per interval bounds its cost.
            if self.swept.is_none_or(|swept| now.duration_since(swept) >= interval) {
                self.swept = Some(now);
                self.buckets.retain(|_, bucket| bucket.is_some_and(|full_at| full_at > now));
            }
            if self.buckets.len() >= MAX_PRINCIPALS {
                return &mut self.overflow;
            }
        }
        self.buckets.entry(key).or_default()
    }
}

impl Layer<HandlerService> for RateLimit {
    type Service = RateLimited;

    fn layer(&self, inner: HandlerService) -> RateLimited {
        RateLimited { limit: self.clone(), inner }
    }
}

/// The service of a [`RateLimit`].
///
/// ```
/// use std::time::Duration;
///
/// use mcp_server_core::{HandlerService, RateLimit, RateLimited};
/// use tower::Layer;
///
/// /// Wraps a service in the limit, as a layer of your own does.
/// fn limited(inner: HandlerService) -> RateLimited {
///     RateLimit::per_principal(10, Duration::from_secs(60)).layer(inner)
/// }
/// # let _ = limited;
/// ```
#[derive(Debug, Clone)]
pub struct RateLimited {
    limit: RateLimit,
    inner: HandlerService,
}

impl Service<Invocation> for RateLimited {
    type Response = Outcome;
    type Error = RpcError;
    type Future = Running;

    fn poll_ready(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, invocation: Invocation) -> Self::Future {
        match self.limit.take(invocation.context().principal()) {
            Ok(()) => self.inner.call(invocation),
            Err(wait) => Box::pin(ready(Err(self.limit.rate.exceeded(wait)))),
        }
    }
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per = match self.buckets {
            Buckets::Shared(_) => "server",
            Buckets::PerPrincipal(_) => "principal",
        };
        f.debug_struct("RateLimit")
            .field("calls", &self.rate.calls)
            .field("window", &self.rate.window)
            .field("per", &per)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn principals_above_the_cap_share_one_bucket_until_others_leave() {
        let window = Duration::from_secs(60);
        let limit = RateLimit::per_principal(1, window);
        let take = |subject: &str| limit.take(Some(&Principal::new(subject)));
        for n in 0..MAX_PRINCIPALS {
            assert_eq!(take(&n.to_string()), Ok(()));
        }
        assert_eq!(take("x"), Ok(()));
        assert_eq!(take("y"), Err(window));
        // A full bucket leaves the table.
        tokio::time::advance(window).await;
        assert_eq!(take("x"), Ok(()));
        assert_eq!(take("y"), Ok(()));
        assert_eq!(take("x"), Err(window));
    }
}
