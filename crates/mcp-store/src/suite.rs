//! Rules for implementations of the store traits, to call from their tests (feature `suite`).
//!
//! Each function gets a factory that returns an **empty** store for each rule; for a remote store this can be a new
//! prefix. It runs all rules, each for at most [`RULE_TIME`], and returns the broken rules. Rules about time use
//! tokio's clock and short times to live, so they take no time under a paused clock.
//!
//! [`all`] has the rules of one handle. A store that several processes share also keeps the rules of [`handles`]. A store
//! behind a network also keeps those of [`lost_connections`] and [`away`]. [`Registers`] checks that compare-and-swap is
//! linearizable while the test causes faults.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
//! use mcp_store::{MemoryStore, suite};
//!
//! suite::all(async || MemoryStore::new()).await?;
//! # Ok::<(), suite::BrokenRules>(()) }).unwrap();
//! ```

use std::{error::Error, fmt, pin::Pin, sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};

use crate::{KeyValue, Log, PubSub, Store, StoreError};

mod faults;
mod handles;
mod key_value;
mod log;
mod pub_sub;
mod registers;

pub use self::registers::{NotLinearizable, RegisterCounts, Registers};

/// The maximum time of one rule.
pub const RULE_TIME: Duration = Duration::from_secs(20);

/// The maximum time of a call of a store whose server is [away].
pub const AWAY_TIME: Duration = Duration::from_secs(5);

/// Runs the rules of all three traits.
///
/// ```
/// use mcp_store::{MemoryStore, suite};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let outcome = suite::all(async || MemoryStore::new()).await;
/// assert!(outcome.is_ok());
/// # }
/// ```
///
/// # Errors
/// The broken rules.
pub async fn all<S: Store>(factory: impl AsyncFn() -> S) -> Result<(), BrokenRules> {
    let mut broken = Vec::new();
    run("key-value", key_value::RULES, async || Arc::new(factory().await) as Arc<dyn KeyValue>, &mut broken).await;
    run("log", log::RULES, async || Arc::new(factory().await) as Arc<dyn Log>, &mut broken).await;
    run("pub/sub", pub_sub::RULES, async || Arc::new(factory().await) as Arc<dyn PubSub>, &mut broken).await;
    BrokenRules::check(broken)
}

/// Runs the rules of [`KeyValue`].
///
/// ```
/// use mcp_store::{MemoryStore, suite};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let outcome = suite::key_value(async || MemoryStore::new()).await;
/// assert!(outcome.is_ok());
/// # }
/// ```
///
/// # Errors
/// The broken rules.
pub async fn key_value<S: KeyValue>(factory: impl AsyncFn() -> S) -> Result<(), BrokenRules> {
    let mut broken = Vec::new();
    run("key-value", key_value::RULES, async || Arc::new(factory().await) as Arc<dyn KeyValue>, &mut broken).await;
    BrokenRules::check(broken)
}

/// Runs the rules of [`Log`].
///
/// ```
/// use mcp_store::{MemoryStore, suite};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let outcome = suite::log(async || MemoryStore::new()).await;
/// assert!(outcome.is_ok());
/// # }
/// ```
///
/// # Errors
/// The broken rules.
pub async fn log<S: Log>(factory: impl AsyncFn() -> S) -> Result<(), BrokenRules> {
    let mut broken = Vec::new();
    run("log", log::RULES, async || Arc::new(factory().await) as Arc<dyn Log>, &mut broken).await;
    BrokenRules::check(broken)
}

/// Runs the rules of [`PubSub`].
///
/// ```
/// use mcp_store::{MemoryStore, suite};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let outcome = suite::pub_sub(async || MemoryStore::new()).await;
/// assert!(outcome.is_ok());
/// # }
/// ```
///
/// # Errors
/// The broken rules.
pub async fn pub_sub<S: PubSub>(factory: impl AsyncFn() -> S) -> Result<(), BrokenRules> {
    let mut broken = Vec::new();
    run("pub/sub", pub_sub::RULES, async || Arc::new(factory().await) as Arc<dyn PubSub>, &mut broken).await;
    BrokenRules::check(broken)
}

/// Runs the rules of two handles on one store. The factory returns both handles of an empty store.
///
/// ```
/// use mcp_store::{MemoryStore, suite};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let factory = async || {
///     let store = MemoryStore::new();
///     (store.clone(), store)
/// };
/// assert!(suite::handles(factory).await.is_ok());
/// // Two stores are not two handles on one store.
/// assert!(suite::handles(async || (MemoryStore::new(), MemoryStore::new())).await.is_err());
/// # }
/// ```
///
/// # Errors
/// The broken rules.
pub async fn handles<S: Store>(factory: impl AsyncFn() -> (S, S)) -> Result<(), BrokenRules> {
    let mut broken = Vec::new();
    let factory = async || {
        let (a, b) = factory().await;
        Arc::new(handles::Handles { a: Arc::new(a), b: Arc::new(b) })
    };
    run("two handles", handles::RULES, factory, &mut broken).await;
    BrokenRules::check(broken)
}

/// Runs the rules of lost connections. The factory returns an empty store, and a function that cuts its connections once.
///
/// ```
/// use mcp_store::{MemoryStore, suite};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// // A store in memory has no connections, so its readers never lose messages by a lost connection.
/// let broken = suite::lost_connections(async || (MemoryStore::new(), || ())).await.unwrap_err();
/// assert!(broken.iter().all(|(rule, _)| rule.starts_with("lost connections: ")));
/// # }
/// ```
///
/// # Errors
/// The broken rules.
pub async fn lost_connections<S: Store, F: Fn() + Send + Sync + 'static>(
    factory: impl AsyncFn() -> (S, F),
) -> Result<(), BrokenRules> {
    let mut broken = Vec::new();
    let factory = async || {
        let (store, cut) = factory().await;
        Arc::new(faults::Cuttable { store: Arc::new(store), cut: Box::new(cut) })
    };
    run("lost connections", faults::LOST, factory, &mut broken).await;
    BrokenRules::check(broken)
}

/// Runs the rules of a store whose server is away: each call is [unavailable](StoreError::is_unavailable) within
/// [`AWAY_TIME`]. The factory returns a store that was connected before.
///
/// ```
/// use mcp_store::{MemoryStore, suite};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// // A store in memory is never away.
/// assert!(suite::away(async || MemoryStore::new()).await.is_err());
/// # }
/// ```
///
/// # Errors
/// The broken rules.
pub async fn away<S: Store>(factory: impl AsyncFn() -> S) -> Result<(), BrokenRules> {
    let mut broken = Vec::new();
    run("away", faults::AWAY, async || Arc::new(factory().await) as Arc<dyn Store>, &mut broken).await;
    BrokenRules::check(broken)
}

/// The broken rules of an implementation. `Display` and `Debug` print one rule per line with the observed behaviour.
///
/// ```
/// use mcp_store::{MemoryLimits, MemoryStore, suite};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let limits = MemoryLimits::default().subscriptions(0);
/// // This store rejects each subscription.
/// let broken = suite::pub_sub(async || MemoryStore::with_limits(limits)).await.unwrap_err();
/// assert!(broken.iter().all(|(rule, _observed)| rule.starts_with("pub/sub: ")));
/// # }
/// ```
pub struct BrokenRules {
    rules: Vec<(String, String)>,
}

impl BrokenRules {
    /// The broken rules (`trait: rule`) with the observed behaviour.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rules.iter().map(|(rule, seen)| (rule.as_str(), seen.as_str()))
    }

    fn check(rules: Vec<(String, String)>) -> Result<(), Self> {
        if rules.is_empty() { Ok(()) } else { Err(Self { rules }) }
    }
}

impl fmt::Display for BrokenRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rules broken", self.rules.len())?;
        for (rule, seen) in self.iter() {
            write!(f, "\n- {rule}: {seen}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for BrokenRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for BrokenRules {}

/// A rule: its text and the function that checks it.
type Rule<T> = (&'static str, fn(Arc<T>) -> Check);

type Check = Pin<Box<dyn Future<Output = Result<(), Seen>>>>;

/// The observed behaviour that breaks a rule.
struct Seen(String);

impl From<StoreError> for Seen {
    fn from(error: StoreError) -> Self {
        Self(format!("failed: {error:?}"))
    }
}

async fn run<T: ?Sized>(
    name: &str,
    rules: &[Rule<T>],
    factory: impl AsyncFn() -> Arc<T>,
    broken: &mut Vec<(String, String)>,
) {
    for (rule, check) in rules {
        let seen = match timeout(RULE_TIME, async { check(factory().await).await }).await {
            Ok(Ok(())) => continue,
            Ok(Err(Seen(seen))) => seen,
            Err(_) => format!("not done after {} s", RULE_TIME.as_secs()),
        };
        broken.push((format!("{name}: {rule}"), seen));
    }
}

/// The time to live that the rules use, and a wait that is longer.
const SHORT: Duration = Duration::from_millis(200);

async fn outlive() {
    sleep(SHORT * 2).await;
}

fn bytes(text: &str) -> Arc<[u8]> {
    Arc::from(text.as_bytes())
}

#[expect(clippy::needless_pass_by_value, reason = "the table of expectations reads better without references")]
fn same<T: fmt::Debug + PartialEq>(what: &str, seen: T, expected: T) -> Result<(), Seen> {
    if seen == expected { Ok(()) } else { Err(Seen(format!("{what}: {seen:?} instead of {expected:?}"))) }
}

fn invalid<T>(what: &str, result: Result<T, StoreError>) -> Result<(), Seen> {
    match result {
        Ok(_) => Err(Seen(format!("{what} was accepted"))),
        Err(error) if error.is_invalid() => Ok(()),
        Err(error) => Err(Seen(format!("{what} failed with {error:?} instead of an invalid argument"))),
    }
}

#[cfg(test)]
mod tests;
