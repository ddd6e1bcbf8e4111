//! The requests of a stream whose subscriptions begin. A source sends a limited number of them to a server at the same time.

use std::{collections::HashMap, sync::Arc, time::Duration};

use mcp_protocol::RpcError;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::SourceCall;

/// The most requests of a stream at a server at the same time.
const AT_ONCE: usize = 8;
/// How long a request can be without an answer while its stream has another subscription. A stream whose servers took longer for their
/// answers waits for twice this time.
const PATIENCE: Duration = Duration::from_secs(2);
/// Requests that went out nearly at the same time end at the same time, so that further requests see a silent server.
const SLACK: Duration = Duration::from_millis(100);

/// The requests of a stream, and the subscriptions that wait for their turn.
#[derive(Debug, Default)]
pub(crate) struct StreamTurns {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    servers: HashMap<Arc<str>, ServerTurns>,
    /// The subscriptions whose requests have no answer yet.
    out: HashMap<usize, Out>,
    /// The longest time of an answer.
    slowest: Duration,
}

#[derive(Debug)]
struct ServerTurns {
    free: Arc<Semaphore>,
    /// The requests without an answer that the stream gave up since the last answer.
    silent: usize,
}

#[derive(Debug)]
struct Out {
    server: Arc<str>,
    since: Instant,
}

impl State {
    fn patience(&self) -> Duration {
        PATIENCE.max(self.slowest * 2)
    }
}

impl StreamTurns {
    /// Waits for the turn of a subscription at a server. Cancel safe.
    async fn take(self: &Arc<Self>, subscription: usize, server: &str) -> Result<SubscriptionTurn, RpcError> {
        let silent = || RpcError::internal("the server does not answer the requests of the stream");
        let server: Arc<str> = server.into();
        let free = {
            let mut state = self.state.lock();
            let new = || ServerTurns { free: Arc::new(Semaphore::new(AT_ONCE)), silent: 0 };
            Arc::clone(&state.servers.entry(Arc::clone(&server)).or_insert_with(new).free)
        };
        // No code closes the semaphore.
        let place = free.acquire_owned().await.map_err(|_| silent())?;
        {
            let state = self.state.lock();
            if state.servers.get(&server).is_some_and(|turns| turns.silent >= AT_ONCE) {
                return Err(silent());
            }
        }
        let taken = Taken { turns: Arc::clone(self), subscription, server, _place: place };
        taken.set_out(true);
        Ok(SubscriptionTurn { taken: Some(taken) })
    }

    /// Waits until another request is out. Cancel safe.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns the time at which the stream gives up a request that is out.
    pub(crate) fn end(&self) -> Option<Instant> {
        let state = self.state.lock();
        state.out.values().map(|out| out.since).min().map(|since| since + state.patience())
    }

    /// Returns the subscriptions whose requests have no answer in time. They must end now.
    pub(crate) fn give_up(&self) -> Vec<usize> {
        let state = &mut *self.state.lock();
        let latest = Instant::now() + SLACK;
        let (patience, mut late) = (state.patience(), Vec::new());
        state.out.retain(|subscription, out| {
            let is_late = out.since + patience <= latest;
            if is_late {
                late.push(*subscription);
                state.servers.entry(Arc::clone(&out.server)).and_modify(|turns| turns.silent += 1);
            }
            !is_late
        });
        late
    }
}

/// The turn of a subscription at a server, until the server answers.
#[doc(hidden)]
#[must_use = "the drop of the value ends the turn"]
#[derive(Debug)]
pub struct SubscriptionTurn {
    taken: Option<Taken>,
}

#[derive(Debug)]
struct Taken {
    turns: Arc<StreamTurns>,
    subscription: usize,
    server: Arc<str>,
    _place: OwnedSemaphorePermit,
}

impl SubscriptionTurn {
    /// Sets whether the time of the request counts. It does not count while the source connects to the server again.
    pub fn set_counted(&self, is_counted: bool) {
        if let Some(taken) = &self.taken {
            taken.set_out(is_counted);
        }
    }
}

impl Taken {
    fn set_out(&self, is_out: bool) {
        {
            let mut state = self.turns.state.lock();
            if is_out {
                let new = || Out { server: Arc::clone(&self.server), since: Instant::now() };
                state.out.entry(self.subscription).or_insert_with(new);
            } else {
                state.out.remove(&self.subscription);
            }
        }
        self.turns.changed.notify_one();
    }
}

/// The request has an answer, or has ended for another reason. The stream has removed a request that it gave up.
impl Drop for Taken {
    fn drop(&mut self) {
        let state = &mut *self.turns.state.lock();
        let Some(out) = state.out.remove(&self.subscription) else { return };
        state.slowest = state.slowest.max(out.since.elapsed());
        if let Some(turns) = state.servers.get_mut(&out.server) {
            turns.silent = 0;
        }
    }
}

impl SourceCall {
    /// Waits until the subscription of a `subscriptions/listen` stream may send its request to a server. For a source that begins all
    /// subscriptions at once ([`Source::has_turns`](super::Source::has_turns)). Without a stream, there is no wait.
    ///
    /// A stream with another subscription gives up requests without an answer. The time before the turn does not count: the start
    /// of a server, an approval, or the requests of other subscriptions.
    ///
    /// # Errors
    /// If the stream gave up each earlier request at the server.
    #[doc(hidden)]
    pub async fn turn_at(&self, server: &str) -> Result<SubscriptionTurn, RpcError> {
        match &self.turns {
            Some((turns, subscription)) => turns.take(*subscription, server).await,
            None => Ok(SubscriptionTurn { taken: None }),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    async fn take(turns: &Arc<StreamTurns>, subscription: usize, server: &str) -> Option<SubscriptionTurn> {
        timeout(Duration::from_millis(1), turns.take(subscription, server)).await.ok().map(Result::unwrap)
    }

    #[tokio::test(start_paused = true)]
    async fn a_limited_number_of_requests_of_a_stream_is_out_at_each_server() {
        let turns = Arc::new(StreamTurns::default());
        let mut out = Vec::new();
        for subscription in 0..AT_ONCE {
            out.push(take(&turns, subscription, "s").await.unwrap());
        }
        assert!(take(&turns, 8, "s").await.is_none());
        out.push(take(&turns, 9, "t").await.unwrap());
        // A server that answers has a turn for the next request.
        drop(out.swap_remove(0));
        out.push(take(&turns, 8, "s").await.unwrap());
        drop(out);
        assert_eq!((turns.end(), turns.give_up()), (None, Vec::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_patience_begins_with_the_turn_and_grows_with_the_time_of_answers() {
        let turns = Arc::new(StreamTurns::default());
        let first = take(&turns, 0, "s").await.unwrap();
        assert_eq!(turns.end(), Some(Instant::now() + PATIENCE));
        advance(PATIENCE / 2).await;
        let second = take(&turns, 1, "s").await.unwrap();
        advance(PATIENCE / 2).await;
        assert_eq!(turns.give_up(), [0]);
        assert_eq!(turns.end(), Some(Instant::now() + PATIENCE / 2));
        drop(first);
        advance(PATIENCE * 2).await;
        // The answer is late, and proves that the servers are slow.
        drop(second);
        let third = take(&turns, 2, "s").await.unwrap();
        assert_eq!(turns.end(), Some(Instant::now() + PATIENCE * 5));
        drop(third);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_request_counts_from_the_end_of_its_last_pause() {
        let turns = Arc::new(StreamTurns::default());
        let turn = take(&turns, 0, "s").await.unwrap();
        turn.set_counted(false);
        advance(PATIENCE * 10).await;
        assert_eq!((turns.end(), turns.give_up()), (None, Vec::new()));
        turn.set_counted(true);
        advance(PATIENCE / 2).await;
        turn.set_counted(true);
        assert_eq!(turns.end(), Some(Instant::now() + PATIENCE / 2));
        drop(turn);
        assert_eq!(turns.end(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_receives_no_further_requests_of_the_stream() {
        let turns = Arc::new(StreamTurns::default());
        for (is_silent, answers) in [(false, true), (true, false)] {
            let mut out = Vec::new();
            for subscription in 0..AT_ONCE {
                out.push(take(&turns, subscription, "s").await.unwrap());
            }
            if answers {
                drop(out.pop());
            }
            advance(PATIENCE * 10).await;
            assert_eq!(turns.give_up().len(), out.len());
            drop(out);
            let next = timeout(PATIENCE, turns.take(20, "s")).await.unwrap();
            assert_eq!(next.is_err(), is_silent);
            assert!(take(&turns, 21, "t").await.is_some());
        }
    }
}
