//! The tasks of `subscriptions/listen` streams (2026-07-28): each task has a follower, which notifies its stream of changes.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher as _},
    sync::Arc,
    time::Duration,
};

use mcp_client::{RawResult, Subscription, Update};
use mcp_protocol::{ErrorCode, RpcError, SubscriptionFilter, tasks::TaskStatus};
use mcp_server_core::source::{SourceCall, SourceSubscription, UpdateNotifier};
use parking_lot::Mutex;
use tokio::{
    task::JoinSet,
    time::{Instant, interval_at, sleep, timeout},
};

use super::{
    Core,
    caller::identity,
    fault::Fault,
    members::Members,
    reach::{Reached, in_turn},
    task_form::{Dialect, status},
    tasks::{ServerTask, TaskRequest, interval, invalid, text},
};

/// The most tasks of all streams, and of the streams of a principal. A stream does not acknowledge further tasks.
const TASKS: usize = 1024;
const OF_PRINCIPAL: usize = 256;
/// The waits before the follower requests the state from a lost server again.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// How long a server can take to acknowledge a subscription. The gateway requests the states of the task otherwise.
const ACKNOWLEDGEMENT: Duration = Duration::from_secs(5);
/// The interval in which a stream requests the state of a task without changes. The policies decide each request.
const CHECK: Duration = Duration::from_secs(60);
/// The most subscriptions to tasks at a server. The gateway requests the states of further tasks, because the streams of a server are
/// limited, and the resources of other users need them too.
const OF_SERVER: usize = 16;

/// The number of followed tasks of each principal, and of the subscriptions to tasks at each server.
#[derive(Debug, Default)]
pub(super) struct TaskFollowers {
    principals: Counts<Option<Arc<str>>>,
    servers: Counts<Arc<str>>,
}

type Counts<K> = Arc<Mutex<HashMap<K, usize>>>;

/// The place of a followed task, or of a subscription. The drop of the value makes room for another one.
struct Place<K: Eq + Hash> {
    counts: Counts<K>,
    key: K,
}

impl<K: Clone + Eq + Hash> Place<K> {
    /// Returns a place if the key has less than `of_key`, and all keys have less than `in_all`.
    fn enter(counts: &Counts<K>, key: K, of_key: usize, in_all: usize) -> Option<Self> {
        let mut entered = counts.lock();
        let now = entered.get(&key).copied().unwrap_or_default();
        if now >= of_key || entered.values().sum::<usize>() >= in_all {
            return None;
        }
        entered.insert(key.clone(), now + 1);
        Some(Self { counts: Arc::clone(counts), key })
    }
}

impl TaskFollowers {
    fn enter(&self, principal: Option<Arc<str>>) -> Option<Place<Option<Arc<str>>>> {
        Place::enter(&self.principals, principal, OF_PRINCIPAL, TASKS)
    }

    fn subscribe(&self, server: &str) -> Option<Place<Arc<str>>> {
        Place::enter(&self.servers, server.into(), OF_SERVER, TASKS)
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut entered = self.counts.lock();
        match entered.get_mut(&self.key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                entered.remove(&self.key);
            }
        }
    }
}

impl Core {
    /// Follows a task for a stream, until the server drops the subscription. The server drops it at the end of the stream, at a final
    /// state, and when the task is unknown to the caller.
    pub(super) async fn subscribe_task(self: &Arc<Self>, call: &SourceCall) -> Result<SourceSubscription, Fault> {
        let principal = identity(call.context().principal());
        let full = || RpcError::invalid_request("too many tasks are followed");
        let place = self.task_followers.enter(principal).ok_or_else(full)?;
        let server = self.task_of(call)?.server;
        let turn = call.turn_at(&server).await;
        let request = TaskRequest::open(self, call).await?;
        let state = in_turn(&turn, &request.reached.client, Box::pin(request.get())).await;
        drop(turn);
        let seen = Seen::read(&state?, request.upstream)?;
        if seen.is_final {
            return Ok(SourceSubscription::default());
        }
        let TaskRequest { task, reached, upstream, .. } = request;
        let follower = Follower {
            core: Arc::clone(self),
            call: call.clone(),
            notifier: call.update_notifier(),
            task,
            polls: upstream == Dialect::Core,
            seen,
        };
        // The drop of the set ends its task.
        let mut following = JoinSet::new();
        following.spawn(follower.follow(reached));
        Ok(SourceSubscription::new((following, place)))
    }
}

/// The state of a task, as far as its follower needs it.
struct Seen {
    /// The hash of the members, without the metadata.
    hash: u64,
    is_final: bool,
    /// The server asks in a way that the state does not show (2025-11-25).
    asks: bool,
    interval: Duration,
}

impl Seen {
    fn read(state: &RawResult, dialect: Dialect) -> Result<Self, RpcError> {
        let state = Members::read(text(state)?).map_err(|error| invalid(&error))?;
        let mut hasher = DefaultHasher::new();
        let members = state.iter().filter(|(name, _)| *name != "_meta");
        members.for_each(|(name, value)| (name, value.get()).hash(&mut hasher));
        let status = status(&state);
        Ok(Self {
            hash: hasher.finish(),
            is_final: status.is_some_and(TaskStatus::is_terminal),
            asks: dialect == Dialect::Core && status == Some(TaskStatus::InputRequired),
            interval: interval(&state, dialect),
        })
    }
}

/// Notifies a stream of the changes of a task. The stream then requests the state, with the checks of each request about a task.
struct Follower {
    core: Arc<Core>,
    /// The subscription of the stream.
    call: SourceCall,
    notifier: UpdateNotifier,
    task: ServerTask,
    /// The server reports no changes of the task.
    polls: bool,
    /// The last state.
    seen: Seen,
}

/// The end of a subscription at the server of a task.
enum Listened {
    /// The server does not acknowledge the task.
    Refused,
    /// The subscription is lost, or the next state decides.
    Lost { was_open: bool },
}

impl Follower {
    /// Runs until the task has ended. The drop of the subscription ends it earlier.
    async fn follow(mut self, reached: Reached) {
        let (mut reached, mut wait, mut has_answered) = (Some(reached), FIRST_RETRY, true);
        loop {
            let lost = match reached.take() {
                // The connection is free until the next request.
                Some(_) if self.polls => None,
                Some(reached) => match self.listen(reached).await {
                    Listened::Refused => {
                        self.polls = true;
                        None
                    }
                    Listened::Lost { was_open } => Some(was_open),
                },
                None => Some(false),
            };
            match lost {
                None => {
                    wait = FIRST_RETRY;
                    sleep(self.seen.interval).await;
                }
                Some(was_open) => {
                    wait = if was_open { FIRST_RETRY } else { wait };
                    // Without the subscription, the states of a server that answers are polled.
                    sleep(if has_answered { wait.min(self.seen.interval) } else { wait }).await;
                    wait = (wait * 2).min(LONGEST_RETRY);
                }
            }
            reached = match self.request().await {
                Ok(Some(reached)) => Some(reached),
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(%error, "the state of a followed task cannot be requested");
                    None
                }
            };
            has_answered = reached.is_some();
        }
    }

    /// Requests the state of the task, and notifies the stream if it has changed. Returns the connection; `None` if the task has ended.
    ///
    /// # Errors
    /// The fault of the server. The request can be repeated.
    async fn request(&mut self) -> Result<Option<Reached>, RpcError> {
        let requested = async {
            let request = TaskRequest::open(&self.core, &self.call).await?;
            let seen = Seen::read(&request.get().await?, request.upstream)?;
            Ok::<_, Fault>((seen, request.upstream, request.reached))
        };
        match requested.await.map_err(RpcError::from) {
            Ok((seen, upstream, reached)) => {
                if seen.hash != self.seen.hash || seen.asks {
                    self.notifier.updated();
                }
                // A server that was started again can have another revision.
                self.polls |= upstream == Dialect::Core;
                self.seen = seen;
                Ok((!self.seen.is_final).then_some(reached))
            }
            Err(error) => {
                if error.code != ErrorCode::INTERNAL_ERROR {
                    // The stream ends the subscription if the task is unknown.
                    self.notifier.updated();
                }
                Err(error)
            }
        }
    }

    /// Follows the task by a subscription at its server.
    async fn listen(&self, reached: Reached) -> Listened {
        let Some(_place) = self.core.task_followers.subscribe(&self.task.server) else { return Listened::Refused };
        let filter = SubscriptionFilter::new().with_tasks([&*self.task.id]);
        let mut subscription = match timeout(ACKNOWLEDGEMENT, reached.client.listen(filter)).await {
            Ok(Ok(subscription)) if self.is_reported(&subscription) => subscription,
            Ok(Err(error)) if error.rpc().is_none() && !error.is_unsupported() => {
                tracing::debug!(%error, "the subscription to a task cannot be opened");
                return Listened::Lost { was_open: false };
            }
            _ => return Listened::Refused,
        };
        if !self.is_at_process(&reached) {
            return Listened::Lost { was_open: false };
        }
        // The task can have changed before the subscription.
        self.notifier.updated();
        let mut checks = interval_at(Instant::now() + CHECK, CHECK);
        loop {
            let update = tokio::select! {
                update = subscription.next() => update,
                _ = checks.tick() => {
                    // A stream can be lost without a report, and the policies can deny the task.
                    self.notifier.updated();
                    continue;
                }
            };
            // The client opens the subscription again, at a process that can have another task with the same id.
            if update.is_some() && !self.is_at_process(&reached) {
                self.notifier.updated();
                return Listened::Lost { was_open: true };
            }
            match update {
                Some(Ok(Update::Task(task))) => {
                    self.notifier.updated();
                    if task.task.status.is_terminal() {
                        return Listened::Lost { was_open: true };
                    }
                }
                Some(Ok(Update::Missed)) => {
                    self.notifier.updated();
                    // The client can have opened the subscription again, at a server that does not know the task any more.
                    if !self.is_reported(&subscription) {
                        return Listened::Lost { was_open: true };
                    }
                }
                Some(Ok(_)) => {}
                ended => {
                    tracing::debug!(?ended, "the subscription to a task ended");
                    return Listened::Lost { was_open: true };
                }
            }
        }
    }

    /// Whether the connection is still that of the process of the task.
    fn is_at_process(&self, reached: &Reached) -> bool {
        let process = self.task.process.as_ref();
        process.is_none_or(|process| process.number() == reached.client.connection_number())
    }

    fn is_reported(&self, subscription: &Subscription) -> bool {
        subscription.honoured().task_ids.contains(&self.task.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_followed_tasks_of_a_principal_and_of_all_principals_are_bounded() {
        let followers = TaskFollowers::default();
        let principal = |user: usize| (user > 0).then(|| Arc::from(user.to_string()));
        let mut places = Vec::new();
        for user in 0..TASKS / OF_PRINCIPAL {
            for _ in 0..OF_PRINCIPAL {
                places.push(followers.enter(principal(user)).unwrap());
            }
            assert!(followers.enter(principal(user)).is_none(), "{user}");
        }
        let further = principal(TASKS / OF_PRINCIPAL);
        assert!(followers.enter(further.clone()).is_none());
        drop(places.pop());
        let place = followers.enter(further.clone());
        assert!(place.is_some() && followers.enter(further).is_none());
        drop((places, place));
        assert!(followers.principals.lock().is_empty());
    }

    #[test]
    fn the_subscriptions_at_a_server_are_bounded() {
        let followers = TaskFollowers::default();
        let mut places: Vec<_> = (0..OF_SERVER).map(|_| followers.subscribe("s").unwrap()).collect();
        assert!(followers.subscribe("s").is_none() && followers.subscribe("t").is_some());
        drop(places.pop());
        assert!(followers.subscribe("s").is_some());
        drop(places);
        assert!(followers.servers.lock().is_empty());
    }
}
