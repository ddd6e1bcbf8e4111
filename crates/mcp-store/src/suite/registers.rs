//! Clients of registers that record each operation, and the check that compare-and-swap is linearizable.

mod checker;

use std::{
    collections::BTreeMap,
    error::Error,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use self::checker::{Call, Operation, is_linearizable};
use crate::{KeyValue, StoreError, Swap};

/// The time in which all clients use the same register. A short history is checked fast.
const EPOCH: Duration = Duration::from_millis(150);
/// The maximum pause between two operations of a client, in milliseconds.
const PAUSE_MS: u64 = 6;

/// Registers that several clients read and swap at the same time, with the history of all operations.
///
/// A test starts a client for each handle with [`run`](Self::run), causes faults, and ends all clients with [`end`](Self::end). A
/// fresh handle then reads each register with [`read`](Self::read), so that a lost swap at the end of a history is found too.
/// [`check`](Self::check) searches for an order of the operations that explains each outcome. An operation that ended with
/// "unavailable" took effect at any later time, or never.
///
/// ```
/// use mcp_store::{MemoryStore, suite::Registers};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (store, registers) = (MemoryStore::new(), Registers::new());
/// let test = async {
///     tokio::time::sleep(std::time::Duration::from_secs(1)).await;
///     registers.end();
/// };
/// let (first, second, ()) = tokio::join!(registers.run(&store, 1), registers.run(&store, 2), test);
/// (first?, second?);
/// registers.read(&store).await?;
/// let found = registers.check()?;
/// assert!(found.swaps > 0 && found.unknown == 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Registers {
    start: Instant,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_ended: AtomicBool,
    /// The last value of all clients. Each swap writes a new value.
    last: AtomicU64,
    /// The operations on each register.
    histories: Mutex<BTreeMap<u128, Vec<Operation>>>,
}

/// The counts of a linearizable history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegisterCounts {
    /// The registers.
    pub registers: usize,
    /// The swaps that replaced the value.
    pub swaps: usize,
    /// The swaps whose outcome the client does not know.
    pub unknown: usize,
}

/// The history of a register that no order of its operations explains.
#[derive(Debug, Clone)]
pub struct NotLinearizable(String);

impl fmt::Display for NotLinearizable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no order of the operations explains their outcomes: {}", self.0)
    }
}

impl Error for NotLinearizable {}

impl Default for Registers {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registers").finish_non_exhaustive()
    }
}

impl Registers {
    /// Returns registers without a history.
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now(), shared: Arc::default() }
    }

    /// Reads and swaps registers until [`end`](Self::end). The seed decides the order of reads and swaps.
    ///
    /// # Errors
    /// The first error of the store that is not "unavailable".
    pub async fn run(&self, store: &dyn KeyValue, seed: u64) -> Result<(), StoreError> {
        let mut choices = Choices::new(seed);
        let (mut known, mut epoch) = (None, u128::MAX);
        while !self.shared.is_ended.load(Ordering::Relaxed) {
            let now = self.start.elapsed().as_millis() / EPOCH.as_millis();
            if now != epoch {
                (epoch, known) = (now, None);
            }
            let begin = self.start.elapsed();
            if let Some(call) = self.operate(store, &key(epoch), &mut known, &mut choices).await? {
                let operation = Operation { start: begin, end: self.start.elapsed(), call };
                self.shared.histories.lock().entry(epoch).or_default().push(operation);
            }
            sleep(Duration::from_millis(choices.below(PAUSE_MS))).await;
        }
        Ok(())
    }

    /// One operation. Returns its call, except for a read without a result, which has no effect.
    async fn operate(
        &self,
        store: &dyn KeyValue,
        key: &str,
        known: &mut Option<u64>,
        choices: &mut Choices,
    ) -> Result<Option<Call>, StoreError> {
        if choices.below(3) == 0 {
            return match store.get(key).await {
                Ok(value) => {
                    *known = number(value.as_deref());
                    Ok(Some(Call::Read { value: *known }))
                }
                Err(error) if error.is_unavailable() => Ok(None),
                Err(error) => Err(error),
            };
        }
        let new = self.shared.last.fetch_add(1, Ordering::Relaxed);
        let expected = *known;
        let bytes = expected.map(|value| value.to_string().into_bytes());
        let value = Arc::from(new.to_string().into_bytes());
        match store.compare_and_swap(key, bytes.as_deref(), Some(value), None).await {
            Ok(Swap::Done) => {
                *known = Some(new);
                Ok(Some(Call::Done { expected, new }))
            }
            Ok(Swap::Lost { current }) => {
                *known = number(current.as_deref());
                Ok(Some(Call::Lost { expected, value: *known }))
            }
            Err(error) if error.is_unavailable() => Ok(Some(Call::Maybe { expected, new })),
            Err(error) => Err(error),
        }
    }

    /// Ends all clients after their current operation.
    pub fn end(&self) {
        self.shared.is_ended.store(true, Ordering::Relaxed);
    }

    /// Reads each register once, and adds the reads to the histories. Call it after all clients have ended, with a fresh handle.
    ///
    /// # Errors
    /// The first error of the store.
    pub async fn read(&self, store: &dyn KeyValue) -> Result<(), StoreError> {
        let names: Vec<u128> = self.shared.histories.lock().keys().copied().collect();
        for name in names {
            let start = self.start.elapsed();
            let value = number(store.get(&key(name)).await?.as_deref());
            let operation = Operation { start, end: self.start.elapsed(), call: Call::Read { value } };
            self.shared.histories.lock().entry(name).or_default().push(operation);
        }
        Ok(())
    }

    /// Checks the recorded operations of each register.
    ///
    /// # Errors
    /// The history of the first register without an order that explains all outcomes.
    pub fn check(&self) -> Result<RegisterCounts, NotLinearizable> {
        let histories = self.shared.histories.lock();
        for (register, history) in &*histories {
            if !is_linearizable(history) {
                return Err(NotLinearizable(format!("register {register}, {history:#?}")));
            }
        }
        let count = |is: fn(&Call) -> bool| histories.values().flatten().filter(|done| is(&done.call)).count();
        Ok(RegisterCounts {
            registers: histories.len(),
            swaps: count(|call| matches!(call, Call::Done { .. })),
            unknown: count(|call| matches!(call, Call::Maybe { .. })),
        })
    }
}

/// The key of a register.
fn key(register: u128) -> String {
    format!("register/{register}")
}

/// The number in a register. A value of another writer is unlike each number of the clients.
fn number(value: Option<&[u8]>) -> Option<u64> {
    value.map(|value| std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX))
}

/// A generator of choices (xorshift).
struct Choices(u64);

impl Choices {
    fn new(seed: u64) -> Self {
        // Seeds that differ in one bit only begin with different numbers.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
