//! The subscriptions of a stream that begin. A limited number of them begins at a server at the same time.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use mcp_protocol::RpcError;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::SourceCall;

/// The most subscriptions of a stream that begin at a server at the same time.
const AT_ONCE: usize = 8;
/// How long a request can be without an answer while its stream has another subscription. A server that took longer for an answer has
/// twice the time of this answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest such time. A request has this time too if subscriptions at its own server wait for a turn.
const LONGEST_PATIENCE: Duration = Duration::from_secs(10);
/// A stream sends no further requests to a server after this number of requests without an answer.
const SILENT: usize = 16;
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
    /// The servers of subscriptions.
    subscriptions: HashMap<usize, Arc<str>>,
    /// The subscriptions whose requests have no answer yet.
    out: HashMap<usize, Out>,
    /// The subscriptions with an answer, and those that the stream gave up. Their time counts no more.
    ended: HashSet<usize>,
}

#[derive(Debug)]
struct ServerTurns {
    free: Arc<Semaphore>,
    /// The subscriptions that wait for a turn.
    waiting: usize,
    /// The requests without an answer that the stream gave up since the last answer.
    silent: usize,
    /// The subscriptions that the stream gave up.
    given_up: usize,
    /// The longest time of an answer.
    slowest: Duration,
}

impl Default for ServerTurns {
    fn default() -> Self {
        let free = Arc::new(Semaphore::new(AT_ONCE));
        Self { free, waiting: 0, silent: 0, given_up: 0, slowest: Duration::ZERO }
    }
}

#[derive(Debug)]
struct Out {
    server: Arc<str>,
    since: Instant,
}

impl State {
    fn server(&mut self, server: &Arc<str>) -> &mut ServerTurns {
        self.servers.entry(Arc::clone(server)).or_default()
    }

    /// Returns the time at which the stream gives up a request. `None` if the request delays no other subscription.
    fn end_of(&self, out: &Out, has_other: bool) -> Option<Instant> {
        let server = self.servers.get(&out.server)?;
        let patience = (server.slowest * 2).clamp(PATIENCE, LONGEST_PATIENCE);
        match (has_other, server.waiting) {
            (true, _) => Some(out.since + patience),
            (false, 0) => None,
            (false, _) => Some(out.since + LONGEST_PATIENCE),
        }
    }
}

impl StreamTurns {
    /// Waits for the turn of a subscription at a server. Cancel safe.
    async fn take(self: &Arc<Self>, subscription: usize, server: &str) -> SubscriptionTurn {
        let server: Arc<str> = server.into();
        let free = {
            let mut state = self.state.lock();
            state.subscriptions.insert(subscription, Arc::clone(&server));
            Arc::clone(&state.server(&server).free)
        };
        // No code closes the semaphore.
        let place = match Arc::clone(&free).try_acquire_owned() {
            Ok(place) => Some(place),
            Err(_) => {
                let _waiting = Waiting::new(self, &server);
                free.acquire_owned().await.ok()
            }
        };
        SubscriptionTurn { taken: Some(Taken { turns: Arc::clone(self), subscription, server, _place: place }) }
    }

    /// Waits until another request is out, or another subscription waits. Cancel safe.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns the server of a subscription, if the subscription has had a turn.
    pub(crate) fn server(&self, subscription: usize) -> Option<Arc<str>> {
        self.state.lock().subscriptions.get(&subscription).cloned()
    }

    /// Returns the time at which the stream gives up a request that is out. `has_other` tells whether the stream has another
    /// subscription.
    pub(crate) fn end(&self, has_other: bool) -> Option<Instant> {
        let state = self.state.lock();
        state.out.values().filter_map(|out| state.end_of(out, has_other)).min()
    }

    /// Returns the subscriptions whose requests have no answer in time. They must end now.
    pub(crate) fn give_up(&self, has_other: bool) -> Vec<usize> {
        let state = &mut *self.state.lock();
        let latest = Instant::now() + SLACK;
        let is_late = |out: &Out| state.end_of(out, has_other).is_some_and(|end| end <= latest);
        let late = state.out.iter().filter(|(_, out)| is_late(out)).map(|(subscription, _)| *subscription);
        let late: Vec<usize> = late.collect();
        for subscription in &late {
            // An answer that arrives before the end of the subscription must not count.
            state.ended.insert(*subscription);
            if let Some(out) = state.out.remove(subscription) {
                let server = state.server(&out.server);
                server.silent += 1;
                server.given_up += 1;
            }
        }
        late
    }

    /// Returns the servers at which subscriptions did not begin in time, and their numbers.
    pub(crate) fn silent_servers(&self) -> Vec<(Arc<str>, usize)> {
        let state = self.state.lock();
        let out = |server: &str| state.out.values().filter(|out| *out.server == *server).count();
        let all = state.servers.iter();
        let counts = all.map(|(server, turns)| (Arc::clone(server), turns.given_up + turns.waiting + out(server)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

/// A subscription that waits for a turn.
struct Waiting<'a> {
    turns: &'a StreamTurns,
    server: &'a Arc<str>,
}

impl<'a> Waiting<'a> {
    fn new(turns: &'a StreamTurns, server: &'a Arc<str>) -> Self {
        turns.state.lock().server(server).waiting += 1;
        turns.changed.notify_one();
        Self { turns, server }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.turns.state.lock().server(self.server).waiting -= 1;
    }
}

/// The turn of a subscription at a server. The drop of the value ends the turn.
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
    _place: Option<OwnedSemaphorePermit>,
}

impl SubscriptionTurn {
    /// Begins the time of the request, which goes out now.
    ///
    /// # Errors
    /// If the server did not answer earlier requests of the stream.
    pub fn begin(&self) -> Result<(), RpcError> {
        let Some(taken) = &self.taken else { return Ok(()) };
        {
            let mut state = taken.turns.state.lock();
            let server = state.server(&taken.server);
            if server.silent >= SILENT {
                server.given_up += 1;
                let text = format!("the server {:?} does not answer the requests of the stream", taken.server);
                return Err(RpcError::internal(text));
            }
        }
        taken.set_out(true);
        Ok(())
    }

    /// Sets whether the time of the request counts. It does not count while the source connects to the server again.
    pub fn set_counted(&self, is_counted: bool) {
        if let Some(taken) = &self.taken {
            taken.set_out(is_counted);
        }
    }

    /// The server answered the request, with a result or an error. Other ends of a request do not show that the server answers.
    pub fn answered(&self) {
        let Some(taken) = &self.taken else { return };
        let mut state = taken.turns.state.lock();
        let out = state.out.remove(&taken.subscription);
        if !state.ended.insert(taken.subscription) {
            return;
        }
        let server = state.server(&taken.server);
        server.silent = 0;
        server.slowest = server.slowest.max(out.map(|out| out.since.elapsed()).unwrap_or_default());
    }
}

impl Taken {
    fn set_out(&self, is_out: bool) {
        {
            let mut state = self.turns.state.lock();
            if !is_out {
                state.out.remove(&self.subscription);
            } else if !state.ended.contains(&self.subscription) {
                let new = || Out { server: Arc::clone(&self.server), since: Instant::now() };
                state.out.entry(self.subscription).or_insert_with(new);
            }
        }
        self.turns.changed.notify_one();
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.turns.state.lock().out.remove(&self.subscription);
    }
}

impl SourceCall {
    /// Waits for the turn of the subscription of a `subscriptions/listen` stream at a server. For a source that begins all
    /// subscriptions at once ([`Source::has_turns`](super::Source::has_turns)). Without a stream, there is no wait.
    ///
    /// A turn includes all work for the subscription: the approval, the start of the server and the request. The stream gives up a
    /// request without an answer if another subscription needs the stream or the turn. Only the time of the request counts
    /// ([`SubscriptionTurn::begin`]).
    #[doc(hidden)]
    pub async fn turn_at(&self, server: &str) -> SubscriptionTurn {
        match &self.turns {
            Some((turns, subscription)) => turns.take(*subscription, server).await,
            None => SubscriptionTurn { taken: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    async fn take(turns: &Arc<StreamTurns>, subscription: usize, server: &str) -> Option<SubscriptionTurn> {
        let turn = timeout(Duration::from_millis(1), turns.take(subscription, server)).await.ok()?;
        turn.begin().unwrap();
        Some(turn)
    }

    #[tokio::test(start_paused = true)]
    async fn a_limited_number_of_subscriptions_of_a_stream_begins_at_each_server() {
        let turns = Arc::new(StreamTurns::default());
        let mut out = Vec::new();
        for subscription in 0..AT_ONCE {
            out.push(take(&turns, subscription, "s").await.unwrap());
        }
        assert!(take(&turns, 8, "s").await.is_none());
        out.push(take(&turns, 9, "t").await.unwrap());
        // The end of a turn makes room for the next one.
        drop(out.swap_remove(0));
        out.push(take(&turns, 8, "s").await.unwrap());
        assert_eq!(
            (turns.server(8).as_deref(), turns.server(9).as_deref(), turns.server(10)),
            (Some("s"), Some("t"), None)
        );
        drop(out);
        assert_eq!((turns.end(true), turns.give_up(true)), (None, Vec::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_patience_begins_with_the_request_and_grows_with_the_time_of_the_answers_of_a_server() {
        let turns = Arc::new(StreamTurns::default());
        let first = take(&turns, 0, "s").await.unwrap();
        assert_eq!(turns.end(true), Some(Instant::now() + PATIENCE));
        advance(PATIENCE / 2).await;
        let second = take(&turns, 1, "s").await.unwrap();
        advance(PATIENCE / 2).await;
        assert_eq!(turns.give_up(true), [0]);
        assert_eq!(turns.end(true), Some(Instant::now() + PATIENCE / 2));
        drop(first);
        advance(PATIENCE).await;
        // The answer is late, and proves that the server is slow. Another server has no more time.
        second.answered();
        for (server, patience) in [("s", PATIENCE * 3), ("t", PATIENCE)] {
            let next = take(&turns, 2, server).await.unwrap();
            assert_eq!(turns.end(true), Some(Instant::now() + patience), "{server}");
            drop(next);
        }
        let slow = take(&turns, 3, "s").await.unwrap();
        advance(LONGEST_PATIENCE * 3).await;
        slow.answered();
        let next = take(&turns, 4, "s").await.unwrap();
        assert_eq!(turns.end(true), Some(Instant::now() + LONGEST_PATIENCE));
        drop(next);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_ends_early_only_if_another_subscription_needs_the_stream_or_the_turn() {
        let turns = Arc::new(StreamTurns::default());
        let mut out = Vec::new();
        for subscription in 0..AT_ONCE {
            out.push(take(&turns, subscription, "s").await.unwrap());
        }
        assert_eq!((turns.end(false), turns.end(true)), (None, Some(Instant::now() + PATIENCE)));
        let began = Instant::now();
        {
            let mut waiting = std::pin::pin!(turns.take(8, "s"));
            assert!(timeout(PATIENCE, waiting.as_mut()).await.is_err());
            assert_eq!(turns.end(false), Some(began + LONGEST_PATIENCE));
            advance(LONGEST_PATIENCE).await;
            assert_eq!(turns.give_up(false).len(), AT_ONCE);
            assert_eq!(turns.silent_servers(), [("s".into(), AT_ONCE + 1)]);
        }
        assert_eq!(turns.silent_servers(), [("s".into(), AT_ONCE)]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_request_counts_from_the_end_of_its_last_pause() {
        let turns = Arc::new(StreamTurns::default());
        let turn = take(&turns, 0, "s").await.unwrap();
        turn.set_counted(false);
        advance(PATIENCE * 10).await;
        assert_eq!((turns.end(true), turns.give_up(true)), (None, Vec::new()));
        turn.set_counted(true);
        advance(PATIENCE / 2).await;
        turn.set_counted(true);
        assert_eq!(turns.end(true), Some(Instant::now() + PATIENCE / 2));
        drop(turn);
        assert_eq!(turns.end(true), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_receives_no_further_requests_until_it_answers() {
        // The end of a request without an answer, such as a lost connection, shows no answer.
        for (is_answer, is_silent) in [(true, false), (false, true)] {
            let turns = Arc::new(StreamTurns::default());
            for round in 0..SILENT / AT_ONCE {
                let mut out = Vec::new();
                for place in 0..AT_ONCE {
                    out.push(take(&turns, round * AT_ONCE + place, "s").await.unwrap());
                }
                advance(LONGEST_PATIENCE).await;
                assert_eq!(turns.give_up(true).len(), AT_ONCE);
                drop(out);
                let other = turns.take(100 + round, "s").await;
                if is_answer {
                    other.answered();
                }
            }
            let next = turns.take(20, "s").await.begin();
            assert_eq!(next.is_err(), is_silent);
            if let Err(error) = next {
                assert!(error.message.contains("\"s\""), "{error}");
            }
            assert_eq!(turns.silent_servers(), [("s".into(), SILENT + usize::from(is_silent))]);
            assert!(take(&turns, 21, "t").await.is_some());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_the_stream_gave_up_counts_once() {
        let turns = Arc::new(StreamTurns::default());
        let turn = take(&turns, 0, "s").await.unwrap();
        advance(PATIENCE).await;
        assert_eq!(turns.give_up(true), [0]);
        // The client connects again, and the answer arrives, before the subscription ends.
        turn.set_counted(true);
        advance(PATIENCE).await;
        assert_eq!((turns.end(true), turns.give_up(true)), (None, Vec::new()));
        turn.answered();
        assert_eq!(turns.state.lock().servers["s"].silent, 1);
    }
}
