//! The subscriptions of a `subscriptions/listen` stream at the source of its server: to resources and to tasks.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, Weak},
    time::Duration,
};

use mcp_protocol::{
    ErrorCode, Meta, RawMembers, RequestId, RpcError, SubscriptionFilter, meta::keys, tasks::TaskStatus,
};
use parking_lot::Mutex;
use serde::de::Error as _;
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};
use tokio::{
    sync::Semaphore,
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep_until},
};
use tracing::Instrument as _;

use super::source_call::{SourceWork, SubscriptionGuard};
use crate::{
    Server,
    context::Context,
    publisher::{Fetches, Listener, Listening, TaskState},
    request::Scope,
    source::{InstalledSource, Source, StreamTurns, Subscriber},
};

/// The most states that a stream requests at the same time, and the most of one server. Tasks whose last request failed have half of them.
const REQUESTS: usize = 16;
const OF_SERVER: usize = 4;
pub(super) const SOURCE_FETCHES: Fetches = Fetches { all: REQUESTS, of_server: OF_SERVER };
/// How long a stream waits for a state. Other tasks of the server can wait meanwhile.
const STATE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a stream waits for its subscriptions. Clients often give up a request after 60 seconds.
const ACKNOWLEDGEMENT: Duration = Duration::from_secs(45);
/// The pauses before a stream requests a state again after a failure. The servers of a source can be away for a long time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
pub(super) const SOURCE_PAUSES: (Duration, Duration) = (FIRST_PAUSE, LONGEST_PAUSE);
/// The most subscriptions of a stream that begin at the same time, for a source without turns.
const AT_ONCE: usize = 8;

/// The subscriptions of a stream at the source. The drop of the value ends them.
#[derive(Default)]
pub(super) struct SourceSubscriptions {
    resources: Mutex<Vec<SubscriptionGuard>>,
    tasks: Mutex<HashMap<Box<str>, FollowedTask>>,
}

/// A task of the stream, until its final state.
struct FollowedTask {
    _guard: Option<SubscriptionGuard>,
    /// The hash of the last state that the stream sent.
    sent: Option<u64>,
}

/// A stream, for its requests at the source.
#[derive(Clone, Copy)]
pub(super) struct SourceStream<'a> {
    pub(super) server: &'a Server,
    pub(super) scope: &'a Scope,
    pub(super) context: &'a Context,
    pub(super) id: &'a RequestId,
    pub(super) listening: &'a Listening,
}

/// The subscription to a resource or to a task.
enum Wanted {
    Resource(String),
    Task(String),
}

/// A subscription that begins, in a task of its own.
struct Beginning {
    /// The place in the request.
    at: usize,
    wanted: Wanted,
    server: Server,
    context: Context,
    source: Arc<dyn Source>,
    listener: Weak<Listener>,
    turns: Arc<StreamTurns>,
    free: Arc<Semaphore>,
}

impl Beginning {
    async fn run(self) -> (usize, Wanted, Result<Option<SubscriptionGuard>, RpcError>) {
        let begun = self.begin().await;
        (self.at, self.wanted, begun)
    }

    async fn begin(&self) -> Result<Option<SubscriptionGuard>, RpcError> {
        // No code closes the semaphore.
        let _place = self.free.acquire().await;
        let listener = Weak::clone(&self.listener);
        let (work, stream) = match &self.wanted {
            Wanted::Resource(uri) => (SourceWork::subscription(&self.source, uri)?, Subscriber::Stream(listener)),
            Wanted::Task(id) => (SourceWork::task_subscription(&self.source, id)?, Subscriber::TaskStream(listener)),
        };
        let stream = (stream, Arc::clone(&self.turns), self.at);
        work.subscribe(&self.server, &self.context, Some(stream)).await
    }
}

impl SourceStream<'_> {
    /// Returns the source if it has tasks.
    pub(super) fn source_of_tasks(server: &Server) -> Option<&InstalledSource> {
        server.source().filter(|installed| installed.features.tasks)
    }
}

impl SourceSubscriptions {
    /// Begins the subscriptions of the stream at the source of the server, if it has one. The stream neither acknowledges resources
    /// and tasks that the source does not accept in time, nor sends their updates. The drop of the future ends those that begin.
    pub(super) async fn begin(&self, stream: SourceStream<'_>, accepted: &mut SubscriptionFilter, tasks: Vec<String>) {
        let Some(installed) = stream.server.source() else { return };
        let uris = std::mem::take(&mut accepted.resource_subscriptions).into_iter().map(Wanted::Resource);
        let turns = Arc::new(StreamTurns::default());
        let at_once = if installed.source.has_turns() { Semaphore::MAX_PERMITS } else { AT_ONCE };
        let free = Arc::new(Semaphore::new(at_once));
        let mut beginning = JoinSet::new();
        let start = |(at, wanted)| {
            let (server, context) = (stream.server.clone(), stream.context.clone());
            let (source, listener) = (Arc::clone(&installed.source), stream.listening.stream());
            let (turns, free) = (Arc::clone(&turns), Arc::clone(&free));
            let work = Beginning { at, wanted, server, context, source, listener, turns, free };
            beginning.spawn(work.run().in_current_span())
        };
        let all = uris.chain(tasks.into_iter().map(Wanted::Task)).enumerate();
        let started: Vec<AbortHandle> = all.map(start).collect();
        let deadline = Instant::now() + stream.server.limits().read_timeout.min(ACKNOWLEDGEMENT);
        let lists = [accepted.tools_list_changed, accepted.prompts_list_changed, accepted.resources_list_changed];
        let has_lists = lists.contains(&Some(true));
        let mut begun = Vec::new();
        loop {
            let has_other = has_lists || !begun.is_empty();
            let end = turns.end(has_other).map_or(deadline, |end| end.min(deadline));
            tokio::select! {
                biased;
                answered = beginning.join_next() => match answered {
                    None => break,
                    Some(Ok((at, wanted, Ok(guard)))) => begun.push((at, wanted, guard)),
                    Some(Ok((_, _, Err(error)))) => tracing::debug!(%error, "the source rejected a subscription"),
                    Some(Err(error)) => tracing::debug!(%error, "a subscription ended without an answer"),
                },
                () = turns.changed() => {}
                () = sleep_until(end) => {
                    if Instant::now() >= deadline {
                        tracing::debug!(late = beginning.len(), "the source exceeded the time limit of subscriptions");
                        break;
                    }
                    for late in turns.give_up(has_other) {
                        started.get(late).into_iter().for_each(AbortHandle::abort);
                    }
                }
            }
        }
        for (server, subscriptions) in turns.silent_servers() {
            tracing::warn!(
                server = &*server,
                subscriptions,
                "a server did not answer the subscriptions of a stream in time"
            );
        }
        drop(beginning);
        begun.sort_unstable_by_key(|(at, ..)| *at);
        for (at, wanted, guard) in begun {
            match wanted {
                Wanted::Resource(uri) => {
                    self.resources.lock().extend(guard);
                    accepted.resource_subscriptions.push(uri);
                }
                Wanted::Task(id) => {
                    self.tasks.lock().insert(id.as_str().into(), FollowedTask { _guard: guard, sent: None });
                    stream.listening.follow_task(&id, turns.server(at).unwrap_or_default());
                    accepted.task_ids.push(id);
                }
            }
        }
        stream.listening.retain_uris(&accepted.resource_subscriptions);
    }

    /// Returns the state of a task for its notification. Returns `None` if the task is unknown now, or if the stream sent this state
    /// last. The subscription to the task ends with a final state, and with a task that is unknown.
    ///
    /// # Errors
    /// An error that does not concern the task itself, such as `-32603`. The request can be repeated.
    pub(super) async fn state(&self, stream: SourceStream<'_>, task: &str) -> Result<Option<TaskState>, RpcError> {
        let Some(installed) = SourceStream::source_of_tasks(stream.server) else { return Ok(None) };
        let requested = async {
            let work = SourceWork::task_state(&installed.source, task)?;
            work.state(stream.server, stream.scope.version, stream.context, STATE_TIMEOUT).await
        };
        let state = match requested.await {
            Err(error) if !is_final(error.code) => return Err(error),
            state => state.map(|json| State::read(&json, stream.id)),
        };
        match state {
            Ok(Ok(state)) => {
                let former = match self.tasks.lock().get_mut(task) {
                    Some(followed) => followed.sent.replace(state.hash),
                    None => return Ok(None),
                };
                if state.is_final {
                    self.end(stream, task);
                }
                Ok((former != Some(state.hash)).then_some(TaskState::OfSource(state.params)))
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "a source returned an invalid state of a task");
                self.end(stream, task);
                Ok(None)
            }
            Err(error) => {
                tracing::debug!(%error, "the subscription to a task ended");
                self.end(stream, task);
                Ok(None)
            }
        }
    }

    fn end(&self, stream: SourceStream<'_>, task: &str) {
        stream.listening.end_task(task);
        // The source can run code at the drop, so the lock is free.
        let ended = self.tasks.lock().remove(task);
        drop(ended);
    }
}

/// Whether the error of a request for a state ends the subscription: the task is unknown now.
fn is_final(code: ErrorCode) -> bool {
    [ErrorCode::INVALID_REQUEST, ErrorCode::METHOD_NOT_FOUND, ErrorCode::INVALID_PARAMS].contains(&code)
}

/// The state of a task of a source.
struct State {
    /// The parameters of the notification.
    params: Box<RawValue>,
    /// The hash of the members, without the metadata.
    hash: u64,
    is_final: bool,
}

impl State {
    /// Reads the result of `tasks/get`. A notification is not a result, so it lacks the members that only results have.
    fn read(result: &[u8], stream: &RequestId) -> Result<Self, serde_json::Error> {
        let text = std::str::from_utf8(result).map_err(serde_json::Error::custom)?;
        let mut members = RawMembers::read(text)?;
        members.remove("resultType");
        let meta = members.remove("_meta").map(|meta| serde_json::from_str::<Option<Meta>>(meta.get())).transpose()?;
        let status = members.iter().find(|(name, _)| *name == "status").map_or("null", |(_, status)| status.get());
        let status: TaskStatus = serde_json::from_str(status)?;
        let mut hasher = DefaultHasher::new();
        members.iter().for_each(|(name, value)| (name, value.get()).hash(&mut hasher));
        let mut meta = meta.flatten().unwrap_or_default();
        meta.shift_remove(keys::SERVER_INFO);
        meta.insert(keys::SUBSCRIPTION_ID.to_owned(), json!(stream));
        let meta = to_raw_value(&meta)?;
        members.set("_meta", &meta);
        let params = RawValue::from_string(members.write())?;
        Ok(Self { params, hash: hasher.finish(), is_final: status.is_terminal() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_has_all_members_of_the_state_and_the_id_of_the_stream() {
        let read = |json: &str| State::read(json.as_bytes(), &RequestId::from(7));
        const ID: &str = r#""_meta":{"io.modelcontextprotocol/subscriptionId":7}"#;
        for (json, expected, is_final) in [
            (
                r#"{"resultType":"complete","taskId":"t","status":"working","vendor":1.50}"#,
                format!(r#"{{"taskId":"t","status":"working","vendor":1.50,{ID}}}"#),
                false,
            ),
            (
                r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{}},"status":"completed","result":{"x":2.50}}"#,
                format!(r#"{{"status":"completed","result":{{"x":2.50}},{ID}}}"#),
                true,
            ),
            (
                r#"{"_meta":{"a/b":1},"status":"cancelled"}"#,
                r#"{"status":"cancelled","_meta":{"a/b":1,"io.modelcontextprotocol/subscriptionId":7}}"#.to_owned(),
                true,
            ),
            (r#"{"_meta":null,"status":"failed"}"#, format!(r#"{{"status":"failed",{ID}}}"#), true),
        ] {
            let state = read(json).unwrap();
            assert_eq!((state.params.get(), state.is_final), (&*expected, is_final), "{json}");
        }
        for invalid in ["[]", "{}", r#"{"status":"later"}"#, r#"{"status":"working","_meta":7}"#] {
            assert!(read(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn states_with_equal_members_have_the_same_hash() {
        let hash = |json: &str| State::read(json.as_bytes(), &RequestId::from("s")).unwrap().hash;
        let state = hash(r#"{"status":"working","statusMessage":"a"}"#);
        for (json, is_equal) in [
            (r#"{"resultType":"complete","status":"working","statusMessage":"a","_meta":{"x/y":1}}"#, true),
            (r#"{"status":"working","statusMessage":"b"}"#, false),
            (r#"{"status":"working","statusMessage":"a","later":1}"#, false),
        ] {
            assert_eq!(hash(json) == state, is_equal, "{json}");
        }
    }
}
