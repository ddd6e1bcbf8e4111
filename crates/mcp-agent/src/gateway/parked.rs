//! Calls of stateless clients that wait for answers at an upstream server of the session era.

mod call;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Arc, time::Duration};

use mcp_protocol::{InputRequests, JsonObject};
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument as _;

pub(crate) use self::call::Questions;
use self::call::{Next, ParkedCall};

const LIFETIME: Duration = Duration::from_secs(600);
const PER_PRINCIPAL: usize = 64;
const TOTAL: usize = 4096;
const BYTES_PER_PRINCIPAL: usize = 32 << 20;
const TOTAL_BYTES: usize = 128 << 20;

/// The limits of parked calls.
#[derive(Debug, Clone)]
pub(crate) struct ParkedLimits {
    /// The lifetime of a parked call since its last round.
    pub(crate) lifetime: Duration,
    /// The most parked calls of one principal. All callers without a principal count as one.
    pub(crate) per_principal: usize,
    /// The most parked calls of all principals.
    pub(crate) total: usize,
    /// The most bytes of the open questions and the waiting results of one principal, and of all principals.
    pub(crate) bytes_per_principal: usize,
    pub(crate) total_bytes: usize,
}

impl Default for ParkedLimits {
    fn default() -> Self {
        Self {
            lifetime: LIFETIME,
            per_principal: PER_PRINCIPAL,
            total: TOTAL,
            bytes_per_principal: BYTES_PER_PRINCIPAL,
            total_bytes: TOTAL_BYTES,
        }
    }
}

/// A result that can wait for a round.
pub(crate) trait Parkable: Clone + Send + Sync + 'static {
    /// Returns the size of the result, in bytes.
    fn bytes(&self) -> usize;
}

/// The parked calls of one node, with results of type `R` and rounds of type `C`.
///
/// A call runs in a task of its own. It is parked from its first question until its result reaches a round.
pub(crate) struct ParkedCalls<R, C> {
    shared: Arc<Shared<R, C>>,
}

struct Shared<R, C> {
    limits: ParkedLimits,
    table: Mutex<Table<R, C>>,
}

struct Table<R, C> {
    last_id: u64,
    calls: HashMap<u64, Entry<R, C>>,
}

struct Entry<R, C> {
    call: Arc<ParkedCall<R, C>>,
    principal: Option<Arc<str>>,
    is_parked: bool,
    /// The bytes of the open questions and of the result.
    bytes: usize,
    /// Its drop ends the task of the call, and with it the upstream call.
    _task: DropGuard,
}

/// The outcome of a round.
#[derive(Debug)]
pub(crate) enum ParkedRound<R> {
    /// The result of the upstream call.
    Complete(R),
    /// The upstream server waits for answers. The next round names the call and the number.
    Asked {
        call: u64,
        /// The number of the last question of the round.
        number: u32,
        requests: InputRequests,
    },
}

/// The fault of a round of a parked call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParkedError {
    #[error("the call has ended, or its time is over")]
    Gone,
    #[error("the result was dropped, because the results that wait for their clients are too large")]
    Dropped,
    #[error("the input request `{key}` has its response already")]
    Answered { key: String },
    #[error("the response to `{key}` is not valid: {reason}")]
    Invalid { key: String, reason: String },
}

/// The fault of a question that cannot be parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("too many calls of the user wait for answers")]
    Principal,
    #[error("too many calls wait for answers")]
    Total,
    #[error("the call has too many questions")]
    Questions,
    #[error("the questions and results that wait for their clients are too large")]
    Bytes,
    #[error("the call has ended")]
    Ended,
}

impl<R: Parkable, C: Clone + Send + Sync + 'static> ParkedCalls<R, C> {
    pub(crate) fn new(limits: ParkedLimits) -> Self {
        let table = Table { last_id: 0, calls: HashMap::new() };
        Self { shared: Arc::new(Shared { limits, table: Mutex::new(table) }) }
    }

    /// Begins a call, and waits for its result or its first question. `request` is the first round, and `run` receives the
    /// questions of the upstream server.
    ///
    /// If the caller drops this future, the upstream call ends, because the client has no state for a further round.
    pub(crate) async fn start<F>(
        &self,
        principal: Option<Arc<str>>,
        request: C,
        run: impl FnOnce(Questions<R, C>) -> F,
    ) -> Result<ParkedRound<R>, ParkedError>
    where
        F: Future<Output = R> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let call = {
            let mut table = self.shared.table.lock();
            table.last_id += 1;
            let call = Arc::new(ParkedCall::new(table.last_id));
            let _task = stop.clone().drop_guard();
            let entry = Entry { call: Arc::clone(&call), principal, is_parked: false, bytes: 0, _task };
            table.calls.insert(call.id, entry);
            call
        };
        let mut begun = Begun { shared: &self.shared, id: call.id, is_kept: false };
        let wait = call.wait(Some(request));
        let work = run(Questions::new(&self.shared, &call));
        let driven = drive(Arc::downgrade(&self.shared), Arc::clone(&call), stop, work);
        // The upstream request belongs to the trace of the first round.
        tokio::spawn(driven.in_current_span());
        let round = self.round(&call).await;
        begun.is_kept = matches!(round, Ok(ParkedRound::Asked { .. }));
        drop(wait);
        round
    }

    /// Continues a call with the responses to its questions, and waits for its result or the next question. `number` is that of
    /// the former round. A round without responses only waits.
    ///
    /// If the caller drops this future, only the wait ends.
    ///
    /// # Errors
    /// [`ParkedError`]. A round with an error changes nothing.
    pub(crate) async fn resume(
        &self,
        call: u64,
        number: u32,
        responses: JsonObject,
        request: C,
    ) -> Result<ParkedRound<R>, ParkedError> {
        let call = self.call(call)?;
        let _wait = call.begin_round(number, responses, Some(request))?;
        let round = self.round(&call).await;
        if !matches!(round, Ok(ParkedRound::Asked { .. })) {
            self.shared.remove(call.id);
        }
        round
    }

    /// Continues a call as [`ParkedCalls::resume`] does, for a round of another node. A completed call stays for a short time,
    /// because the reply to that node can be lost.
    ///
    /// # Errors
    /// [`ParkedError`]. A round with an error changes nothing.
    pub(crate) async fn resume_for_node(
        &self,
        call: u64,
        number: u32,
        responses: JsonObject,
    ) -> Result<ParkedRound<R>, ParkedError> {
        let call = self.call(call)?;
        let _wait = call.begin_round(number, responses, None)?;
        let round = self.round(&call).await;
        if matches!(round, Ok(ParkedRound::Complete(_))) {
            call.delivered();
            self.shared.unpark(call.id);
        }
        round
    }

    fn call(&self, id: u64) -> Result<Arc<ParkedCall<R, C>>, ParkedError> {
        self.shared.table.lock().calls.get(&id).map(|entry| Arc::clone(&entry.call)).ok_or(ParkedError::Gone)
    }

    /// Sends responses to the questions of a call, without waiting.
    ///
    /// # Errors
    /// [`ParkedError`]. No question has a response then.
    pub(crate) fn answer(&self, call: u64, responses: JsonObject) -> Result<(), ParkedError> {
        self.call(call)?.answer(u32::MAX, responses)
    }

    /// Whether the call has not ended.
    pub(crate) fn contains(&self, call: u64) -> bool {
        self.shared.table.lock().calls.contains_key(&call)
    }

    async fn round(&self, call: &ParkedCall<R, C>) -> Result<ParkedRound<R>, ParkedError> {
        match call.next().await {
            Next::Complete(result) => Ok(ParkedRound::Complete(result)),
            Next::Asked { number, requests } => Ok(ParkedRound::Asked { call: call.id, number, requests }),
            Next::Dropped => Err(ParkedError::Dropped),
            Next::Ended => Err(ParkedError::Gone),
        }
    }

    /// Returns the number of parked calls.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.shared.table.lock().calls.values().filter(|entry| entry.is_parked).count()
    }
}

impl<R, C> Shared<R, C> {
    /// Counts a call as parked. It has no effect for a parked call.
    fn park(&self, id: u64) -> Result<(), Refused> {
        let mut table = self.table.lock();
        let entry = table.calls.get(&id).ok_or(Refused::Ended)?;
        if entry.is_parked {
            return Ok(());
        }
        let principal = entry.principal.clone();
        let parked = || table.calls.values().filter(|entry| entry.is_parked);
        if parked().filter(|entry| entry.principal == principal).count() >= self.limits.per_principal {
            return Err(Refused::Principal);
        }
        if parked().count() >= self.limits.total {
            return Err(Refused::Total);
        }
        if let Some(entry) = table.calls.get_mut(&id) {
            entry.is_parked = true;
        }
        Ok(())
    }

    /// Does not count a call as parked any more.
    fn unpark(&self, id: u64) {
        if let Some(entry) = self.table.lock().calls.get_mut(&id) {
            entry.is_parked = false;
        }
    }

    /// Counts the bytes of a question or a result.
    fn reserve(&self, id: u64, bytes: usize) -> Result<(), Refused> {
        let mut table = self.table.lock();
        let principal = table.calls.get(&id).ok_or(Refused::Ended)?.principal.clone();
        let (mut own, mut all) = (bytes, bytes);
        for entry in table.calls.values().filter(|entry| entry.bytes > 0) {
            all += entry.bytes;
            if entry.principal == principal {
                own += entry.bytes;
            }
        }
        if own > self.limits.bytes_per_principal || all > self.limits.total_bytes {
            return Err(Refused::Bytes);
        }
        if let Some(entry) = table.calls.get_mut(&id) {
            entry.bytes += bytes;
        }
        Ok(())
    }

    /// Subtracts the bytes of a question that has ended.
    fn release(&self, id: u64, bytes: usize) {
        if let Some(entry) = self.table.lock().calls.get_mut(&id) {
            entry.bytes = entry.bytes.saturating_sub(bytes);
        }
    }

    fn remove(&self, id: u64) {
        // The guard of the task is dropped after the lock.
        let _removed = self.table.lock().calls.remove(&id);
    }
}

/// Ends a call whose first round was dropped.
struct Begun<'a, R, C> {
    shared: &'a Shared<R, C>,
    id: u64,
    is_kept: bool,
}

impl<R, C> Drop for Begun<'_, R, C> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.shared.remove(self.id);
        }
    }
}

/// Runs an upstream call until its result, the end of its lifetime, or the end of the gateway.
async fn drive<R: Parkable, C: Clone>(
    shared: std::sync::Weak<Shared<R, C>>,
    call: Arc<ParkedCall<R, C>>,
    stop: CancellationToken,
    work: impl Future<Output = R>,
) {
    let Some(lifetime) = shared.upgrade().map(|shared| shared.limits.lifetime) else { return };
    let _ending = call.ending(std::sync::Weak::clone(&shared));
    let is_complete = {
        let lapsed = std::pin::pin!(call.lapsed(lifetime));
        tokio::select! {
            biased;
            () = stop.cancelled() => false,
            result = work => {
                let fits = shared.upgrade().is_some_and(|shared| shared.reserve(call.id, result.bytes()).is_ok());
                call.complete(result, fits);
                true
            }
            () = lapsed => {
                tracing::debug!(call = call.id, "no response to the questions of an upstream call arrived in time");
                false
            }
        }
    };
    // The result waits for a round that fetches it.
    if is_complete {
        tokio::select! {
            () = stop.cancelled() => {}
            () = call.lapsed(lifetime) => {}
        }
    }
}
