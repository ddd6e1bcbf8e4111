//! Calls of stateless clients that wait for answers at an upstream server of the session era.

mod call;
mod table;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use mcp_protocol::{InputRequests, JsonObject};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

pub(crate) use self::call::Questions;
use self::{
    call::{ParkedCall, Wait},
    table::{Entry, Table},
};

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

/// The client whose rounds may continue a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) principal: Option<Arc<str>>,
    /// The part of the client on which its credentials at the server depend.
    pub(crate) authority: Option<Arc<str>>,
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
        Self { shared: Arc::new(Shared { limits, table: Mutex::default() }) }
    }

    /// Begins a call, and waits for its result or its first question. `request` is the first round, and `run` receives the
    /// questions of the upstream server.
    ///
    /// If the caller drops this future, the upstream call ends, because the client has no state for a further round.
    pub(crate) async fn start<F>(
        &self,
        holder: Holder,
        request: C,
        run: impl FnOnce(Questions<R, C>) -> F,
    ) -> Result<ParkedRound<R>, ParkedError>
    where
        F: Future<Output = R> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let task = stop.clone().drop_guard();
        let call = self.shared.table.lock().insert(|id| {
            let call = Arc::new(ParkedCall::new(id));
            (Entry::new(Arc::clone(&call), holder, task), call)
        });
        let waiting = self.waiting(&call, call.wait(Some(request)));
        let work = run(Questions::new(&self.shared, &call));
        let driven = drive(Arc::downgrade(&self.shared), Arc::clone(&call), stop, work);
        // The upstream request belongs to the trace of the first round.
        tokio::spawn(driven.in_current_span());
        waiting.round().await
    }

    /// Checks whether a round would continue its call. A call whose result was dropped ends, because its client receives the error.
    ///
    /// # Errors
    /// The error that [`ParkedCalls::resume`] would return at once.
    pub(crate) fn check(
        &self,
        call: u64,
        holder: &Holder,
        number: u32,
        responses: &JsonObject,
    ) -> Result<(), ParkedError> {
        let call = self.call(call, holder)?;
        let checked = call.check(number, responses);
        if checked == Err(ParkedError::Dropped) {
            self.shared.remove(call.id);
        }
        checked
    }

    /// Continues a call with the responses to its questions, and waits for its result or the next question. `number` is that of
    /// the former round. A round without responses only waits.
    ///
    /// If the caller drops this future, the upstream call ends, unless another round waits: the drop is the cancellation of the
    /// client.
    ///
    /// # Errors
    /// [`ParkedError`]. A round with an error changes nothing.
    pub(crate) async fn resume(
        &self,
        call: u64,
        holder: &Holder,
        number: u32,
        responses: JsonObject,
        request: C,
    ) -> Result<ParkedRound<R>, ParkedError> {
        let call = self.call(call, holder)?;
        let wait = call.begin_round(number, responses, Some(request))?;
        self.waiting(&call, wait).round().await
    }

    /// Continues a call as [`ParkedCalls::resume`] does, for a round of another node. A completed call stays for a short time,
    /// because the reply to that node can be lost.
    ///
    /// If the caller drops this future, only the wait ends. The other node cancels the call by [`ParkedCalls::cancel`].
    ///
    /// # Errors
    /// [`ParkedError`]. A round with an error changes nothing.
    pub(crate) async fn resume_for_node(
        &self,
        call: u64,
        holder: &Holder,
        number: u32,
        responses: JsonObject,
    ) -> Result<ParkedRound<R>, ParkedError> {
        let call = self.call(call, holder)?;
        let _wait = call.begin_round(number, responses, None)?;
        let round = call.round().await;
        if matches!(round, Ok(ParkedRound::Complete(_))) {
            call.delivered();
            self.shared.table.lock().unpark(call.id);
        }
        round
    }

    /// Waits for the result or the next question of a call. If the caller drops this future, only the wait ends.
    ///
    /// # Errors
    /// [`ParkedError`].
    pub(crate) async fn next(&self, call: u64, holder: &Holder, request: C) -> Result<ParkedRound<R>, ParkedError> {
        let call = self.call(call, holder)?;
        let mut waiting = self.waiting(&call, call.wait(Some(request)));
        waiting.is_kept = true;
        waiting.round().await
    }

    /// Ends a call, because the client cancelled a round at another node. A call for which a round waits longer than `limit`
    /// continues.
    pub(crate) async fn cancel(&self, call: u64, holder: &Holder, limit: Duration) {
        let Ok(call) = self.call(call, holder) else { return };
        // The round of the other node ends at the same time.
        if timeout(limit, call.until_no_round()).await.is_ok() {
            self.shared.remove(call.id);
        }
    }

    /// Returns a call of a holder.
    fn call(&self, id: u64, holder: &Holder) -> Result<Arc<ParkedCall<R, C>>, ParkedError> {
        let table = self.shared.table.lock();
        let entry = table.get(id).filter(|entry| entry.holder == *holder);
        entry.map(|entry| Arc::clone(&entry.call)).ok_or(ParkedError::Gone)
    }

    /// Sends responses to the questions of a call, without waiting.
    ///
    /// # Errors
    /// [`ParkedError`]. No question has a response then.
    pub(crate) fn answer(&self, call: u64, holder: &Holder, responses: JsonObject) -> Result<(), ParkedError> {
        self.call(call, holder)?.answer(u32::MAX, responses)
    }

    /// Ends a call. Its waiting result is dropped.
    pub(crate) fn end(&self, call: u64, holder: &Holder) {
        if let Ok(call) = self.call(call, holder) {
            self.shared.remove(call.id);
        }
    }

    /// Lets the result of a call wait for a short time only, because the server can return it again.
    pub(crate) fn shorten(&self, call: u64, holder: &Holder) {
        if let Ok(call) = self.call(call, holder) {
            call.shorten();
        }
    }

    /// Whether the call has not ended.
    pub(crate) fn contains(&self, call: u64) -> bool {
        self.shared.table.lock().get(call).is_some()
    }

    fn waiting<'a>(&'a self, call: &'a ParkedCall<R, C>, wait: Wait<'a, R, C>) -> Waiting<'a, R, C> {
        Waiting { shared: &self.shared, call, wait: Some(wait), is_kept: false }
    }

    /// Returns the number of parked calls.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.shared.table.lock().parked()
    }
}

impl<R, C> Shared<R, C> {
    /// Counts a call as parked. It has no effect for a parked call.
    fn park(&self, id: u64) -> Result<(), Refused> {
        self.table.lock().park(id, &self.limits)
    }

    /// Counts the bytes of a question or a result.
    fn reserve(&self, id: u64, bytes: usize) -> Result<(), Refused> {
        self.table.lock().reserve(id, bytes, &self.limits)
    }

    /// Subtracts the bytes of a question that has ended.
    fn release(&self, id: u64, bytes: usize) {
        self.table.lock().release(id, bytes);
    }

    fn remove(&self, id: u64) {
        // The guard of the task is dropped after the lock.
        let _removed = self.table.lock().remove(id);
    }
}

/// A round that waits. Its drop ends the call if the round received no question, and no other round waits.
struct Waiting<'a, R, C> {
    shared: &'a Shared<R, C>,
    call: &'a ParkedCall<R, C>,
    wait: Option<Wait<'a, R, C>>,
    is_kept: bool,
}

impl<R: Parkable, C> Waiting<'_, R, C> {
    async fn round(mut self) -> Result<ParkedRound<R>, ParkedError> {
        let round = self.call.round().await;
        self.is_kept = matches!(round, Ok(ParkedRound::Asked { .. }));
        round
    }
}

impl<R, C> Drop for Waiting<'_, R, C> {
    fn drop(&mut self) {
        if self.wait.take().is_some_and(|wait| wait.end(!self.is_kept)) {
            self.shared.remove(self.call.id);
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
