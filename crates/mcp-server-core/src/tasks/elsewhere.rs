//! Tasks of other nodes: their state, their answers, their cancellation, and the end of tasks whose node stopped.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    convert::Infallible,
    future::pending,
    sync::Arc,
    time::Duration,
};

use mcp_protocol::{ClientCapabilities, InputRequest, InputRequests, JsonObject, RequestId, RpcError};
use mcp_store::{StoreError, Swap};
use mcp_transport::{BoxFuture, FrameSender};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, timeout},
};

use super::{
    offers::{OfferAnswer, Waiter},
    owner::{self, Owner},
    polls::Seen,
    record::{Record, TaskOutcome},
    table::{Found, TaskTable, bytes_of, unknown},
    timestamp,
};
use crate::{
    json,
    node::{Node, NodeError, Walk},
    random,
    session::Session,
};

/// The kinds of requests between nodes.
const STATES: &str = "task/states";
const ANSWER: &str = "task/answer";
const CANCEL: &str = "task/cancel";
const NEXT: &str = "task/next";
const TAKE_OFFER: &str = "task/takeOffer";
const ANSWER_OFFER: &str = "task/answerOffer";
const LEAVE: &str = "task/leave";

/// The pause after a request to another node failed.
const PAUSE: Duration = Duration::from_secs(1);

/// The result of cancelling a task that does not run on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CancelOutcome {
    /// The task is cancelled now.
    Cancelled,
    /// The task was cancelled before. Its node may not know yet.
    AlreadyCancelled,
    /// The task ended in another way.
    Ended,
}

/// A record and its bytes in the store.
pub(crate) struct StoredTask {
    pub(crate) record: Record,
    pub(crate) bytes: Arc<[u8]>,
    /// The record has the current state. The state of a task on a node that does not reply is not current.
    pub(crate) is_current: bool,
}

/// The reply of a node to the request for the states of its tasks.
enum States {
    /// The states of the running tasks among those of the request.
    Running(Vec<View>),
    /// The node did not reply in time.
    Unknown,
    /// The node stopped.
    Stopped,
}

impl StoredTask {
    fn new(record: Record, bytes: Arc<[u8]>) -> Self {
        // Only the node of a running task knows its state.
        let is_current = record.outcome.is_some() || record.node.is_none();
        Self { record, bytes, is_current }
    }

    /// Returns the record with the end of a task whose node stopped.
    fn abandoned(&self) -> Record {
        let mut ended = self.record.clone();
        ended.outcome = Some(TaskOutcome::Error(stopped("the node of this task stopped before the task ended")));
        ended
    }

    pub(super) fn read(bytes: &Arc<[u8]>) -> Option<Self> {
        Some(Self::new(Record::read(bytes)?, bytes.clone()))
    }

    /// Replaces the record by the current state on the node of the task.
    fn update(&mut self, view: View) {
        let View { record, questions, awaits_input, version } = view;
        self.record = Record { questions, awaits_input, version, ..record };
        self.is_current = true;
    }
}

impl From<StoredTask> for Found {
    fn from(stored: StoredTask) -> Self {
        Self::Stored(Box::new(stored))
    }
}

/// The state of a running task, with the members that its record in the store lacks.
#[derive(Serialize, Deserialize)]
struct View {
    record: Record,
    questions: InputRequests,
    awaits_input: bool,
    version: u64,
}

/// Answers to the input requests of a task.
#[derive(Serialize, Deserialize)]
struct Answers {
    id: String,
    answers: JsonObject,
}

/// A request for an input request of a task, for a client with these capabilities.
#[derive(Serialize, Deserialize)]
struct TakeOffer {
    id: String,
    client: ClientCapabilities,
    waiter: Waiter,
}

/// The answer to an input request of a task.
#[derive(Serialize, Deserialize)]
struct AnswerOffer {
    id: String,
    number: u64,
    answer: OfferAnswer,
}

/// A request for the next change of a task, and its reply.
#[derive(Serialize, Deserialize)]
struct Next {
    id: String,
    version: u64,
}

impl TaskTable {
    /// Lets other nodes use the tasks of this node.
    pub(crate) fn serve_nodes(self: &Arc<Self>) {
        self.serve(STATES, |table, ids: Vec<String>| Box::pin(async move { table.states(&ids) }));
        self.serve(ANSWER, |table, Answers { id, answers }| {
            Box::pin(async move {
                let running = table.here(&id).map(|(_, running_task)| running_task.answer(answers));
                running.is_some()
            })
        });
        self.serve(CANCEL, |table, id: String| Box::pin(async move { table.cancelled_elsewhere(&id) }));
        self.serve_waiting(NEXT, |table, Next { id, version }| {
            Box::pin(async move {
                let (_, running_task) = table.here(&id)?;
                let limit = table.node.as_ref()?.limits().reply / 2;
                let version = timeout(limit, running_task.changed_since(version)).await.unwrap_or(version);
                Some(Next { id, version })
            })
        });
        self.serve_waiting(TAKE_OFFER, |table, TakeOffer { id, client, waiter }| {
            Box::pin(async move {
                let (_, running_task) = table.here(&id)?;
                let limit = table.node.as_ref()?.limits().reply / 2;
                timeout(limit, running_task.take_offer(&client, &waiter)).await.ok().flatten()
            })
        });
        self.serve(ANSWER_OFFER, |table, AnswerOffer { id, number, answer }| {
            Box::pin(async move {
                let running = table.here(&id).map(|(_, running_task)| running_task.answer_offer(number, answer));
                running.is_some()
            })
        });
        if let Some(node) = &self.node {
            let table = Arc::downgrade(self);
            node.on_stopped(move |stopped| {
                let table = table.upgrade();
                async move {
                    match table {
                        Some(table) => table.end_tasks_of(&stopped).await,
                        None => Ok(()),
                    }
                }
            });
        }
        self.serve(LEAVE, |table, (id, waiter): (String, Waiter)| {
            Box::pin(async move {
                let running = table.here(&id).map(|(_, running_task)| running_task.waiter_left(&waiter));
                running.is_some()
            })
        });
    }

    /// Registers the handler of a kind. The reply is an array of one value. The reply to a request that cannot be read is `null`.
    fn serve<A, R, F>(self: &Arc<Self>, kind: &'static str, handler: F)
    where
        A: DeserializeOwned,
        R: Serialize + 'static,
        F: Fn(Arc<Self>, A) -> BoxFuture<'static, R> + Send + Sync + 'static,
    {
        if let Some(node) = &self.node {
            node.handle(kind, self.replying(handler));
        }
    }

    /// Registers the handler of a kind of requests that wait for a change.
    fn serve_waiting<A, R, F>(self: &Arc<Self>, kind: &'static str, handler: F)
    where
        A: DeserializeOwned,
        R: Serialize + 'static,
        F: Fn(Arc<Self>, A) -> BoxFuture<'static, R> + Send + Sync + 'static,
    {
        if let Some(node) = &self.node {
            node.handle_waiting(kind, self.replying(handler));
        }
    }

    fn replying<A, R, F>(
        self: &Arc<Self>,
        handler: F,
    ) -> impl Fn(Vec<u8>) -> BoxFuture<'static, Vec<u8>> + Send + Sync + 'static
    where
        A: DeserializeOwned,
        R: Serialize + 'static,
        F: Fn(Arc<Self>, A) -> BoxFuture<'static, R> + Send + Sync + 'static,
    {
        let table = Arc::downgrade(self);
        move |body| {
            let (table, arguments) = (table.upgrade(), json::from_slice::<A>(&body).ok());
            let replying = table.zip(arguments).map(|(table, arguments)| handler(table, arguments));
            Box::pin(async move {
                let reply = match replying {
                    Some(replying) => Some([replying.await]),
                    None => None,
                };
                serde_json::to_vec(&reply).unwrap_or_default()
            })
        }
    }

    fn states(&self, ids: &[String]) -> Vec<View> {
        let records = ids.iter().filter_map(|id| self.here(id)).map(|(_, running_task)| running_task.record());
        let view = |mut record: Record| {
            let questions = std::mem::take(&mut record.questions);
            View { questions, awaits_input: record.awaits_input, version: record.version, record }
        };
        records.map(view).collect()
    }

    /// Completes the records of running tasks: by their state on their nodes, or by their end if their node stopped.
    ///
    /// # Errors
    /// Fails when the store fails. A task whose node does not reply keeps the state of its record.
    pub(super) async fn follow(&self, tasks: &mut [StoredTask]) -> Result<(), RpcError> {
        let Some(me) = &self.node else { return Ok(()) };
        let mut nodes: BTreeMap<String, Vec<&mut StoredTask>> = BTreeMap::new();
        for task in tasks {
            if task.record.outcome.is_none()
                && let Some(node) = task.record.node.clone()
                && self.here(&task.record.id).is_none()
            {
                nodes.entry(node).or_default().push(task);
            }
        }
        let mut asking: JoinSet<(Result<States, NodeError>, String)> = JoinSet::new();
        for (node, tasks) in &nodes {
            let (me, node) = (me.clone(), node.clone());
            let ids: Vec<_> = tasks.iter().map(|task| task.record.id.clone()).collect();
            asking.spawn(Box::pin(async move { (states_at(&me, &node, ids).await, node) }) as BoxFuture<'static, _>);
        }
        while let Some(asked) = asking.join_next().await {
            let Ok((states, node)) = asked else { continue };
            let tasks = nodes.remove(&node).unwrap_or_default();
            match states.map_err(|error| error.to_rpc())? {
                States::Unknown => {}
                States::Stopped => {
                    for task in tasks {
                        self.end_abandoned(task).await?;
                    }
                }
                States::Running(views) => {
                    let ids = views.into_iter().map(|view| (view.record.id.clone(), view));
                    let mut views: HashMap<_, _> = ids.collect();
                    for task in tasks {
                        match views.remove(&task.record.id) {
                            Some(view) => task.update(view),
                            None => self.end_unknown(task).await?,
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads the record of a task that does not run on its node any more. A record without an end is that of a failed creation.
    async fn end_unknown(&self, task: &mut StoredTask) -> Result<(), RpcError> {
        let key = Owner::named(&task.record.owner).key(&task.record.id);
        let stored = self.records.get(&key).await.map_err(|error| self.failed(&error))?;
        let stored = stored.and_then(|bytes| StoredTask::read(&bytes)).ok_or_else(unknown)?;
        let is_unchanged = stored.bytes == task.bytes;
        *task = stored;
        if is_unchanged { self.end_abandoned(task).await } else { Ok(()) }
    }

    /// Ends the record of a task whose node stopped, unless another node ended it first. While the store is full, the task has this
    /// end without a write.
    async fn end_abandoned(&self, task: &mut StoredTask) -> Result<(), RpcError> {
        let mut ended = task.abandoned();
        *task = match self.replace(&mut ended, &task.bytes).await {
            Ok((Swap::Done, bytes)) => StoredTask::new(ended, bytes),
            Ok((Swap::Lost { current: Some(current) }, _)) => StoredTask::read(&current).ok_or_else(unknown)?,
            Ok(_) => return Err(unknown()),
            Err(error) if error.is_full() => StoredTask::new(ended, task.bytes.clone()),
            Err(error) => return Err(self.failed(&error)),
        };
        Ok(())
    }

    /// Ends the records of all running tasks of nodes that stopped.
    async fn end_tasks_of(&self, stopped: &HashSet<String>) -> Result<(), StoreError> {
        let mut walk = Walk::new(&self.records, owner::PREFIX);
        while let Some(page) = walk.next().await? {
            for (_, bytes) in page {
                // Most records have ended, and their results can be large.
                let names_stopped = |text: &str| stopped.iter().any(|node| text.contains(node));
                let task =
                    std::str::from_utf8(&bytes).is_ok_and(names_stopped).then(|| StoredTask::read(&bytes)).flatten();
                let is_abandoned = |task: &StoredTask| {
                    task.record.outcome.is_none()
                        && task.record.node.as_ref().is_some_and(|node| stopped.contains(node))
                };
                if let Some(task) = task.filter(is_abandoned) {
                    // Another node may have ended the record meanwhile.
                    self.replace(&mut task.abandoned(), &task.bytes).await?;
                }
            }
        }
        Ok(())
    }

    /// Replaces a record if it still has these bytes. Returns the new bytes.
    async fn replace(&self, record: &mut Record, bytes: &[u8]) -> Result<(Swap, Arc<[u8]>), StoreError> {
        record.updated = timestamp::now();
        // Only the store knows the remaining time, so the record may live a little longer.
        let ttl = Duration::from_millis(record.ttl.max(1));
        let new = bytes_of(record).map_err(|error| StoreError::invalid(error.message))?;
        let key = Owner::named(&record.owner).key(&record.id);
        Ok((self.records.compare_and_swap(&key, Some(bytes), Some(new.clone()), Some(ttl)).await?, new))
    }

    /// Cancels a task that runs on another node, also when that node has stopped.
    pub(crate) async fn cancel_stored(&self, mut record: Record, bytes: &[u8]) -> Result<CancelOutcome, RpcError> {
        match &record.outcome {
            Some(TaskOutcome::Cancelled) => return Ok(CancelOutcome::AlreadyCancelled),
            Some(_) => return Ok(CancelOutcome::Ended),
            None => record.outcome = Some(TaskOutcome::Cancelled),
        }
        let swapped = self.replace(&mut record, bytes).await.map_err(|error| self.failed(&error))?;
        Ok(match swapped {
            (Swap::Done, _) => CancelOutcome::Cancelled,
            (Swap::Lost { current: Some(bytes) }, _) if is_cancelled(&bytes) => CancelOutcome::AlreadyCancelled,
            _ => CancelOutcome::Ended,
        })
    }

    /// Notifies the node of a task that the task is cancelled. Returns whether the node acknowledged it or has stopped.
    pub(crate) async fn cancel_elsewhere(&self, id: &str, node: Option<&str>) -> bool {
        let (Some(me), Some(node)) = (&self.node, node) else { return false };
        if me.is_alive(node).await == Ok(false) {
            return true;
        }
        match ask::<bool>(me, node, CANCEL, &id).await {
            // A task that has ended needs no cancellation.
            Ok(_) => true,
            Err(error) => {
                tracing::debug!(%error, "the node of a task did not acknowledge its cancellation");
                false
            }
        }
    }

    /// Passes answers to the node of a task. A task that has ended ignores them.
    ///
    /// # Errors
    /// `-32603` when the node does not acknowledge the answers, or cannot read them.
    pub(crate) async fn answer_elsewhere(&self, record: &Record, answers: JsonObject) -> Result<(), RpcError> {
        let (Some(me), Some(node), None) = (&self.node, &record.node, &record.outcome) else { return Ok(()) };
        if !me.is_alive(node).await.map_err(|error| error.to_rpc())? {
            return Ok(());
        }
        let body = Answers { id: record.id.clone(), answers };
        ask::<bool>(me, node, ANSWER, &body).await.map(drop).map_err(|error| error.to_rpc())
    }

    /// Calls `changed` after each change of a task on another node, until the task or its node ends.
    ///
    /// All calls for the same task share one request to its node.
    pub(crate) async fn watch_elsewhere(&self, record: &Record, changed: impl Fn()) {
        let (Some(me), Some(node)) = (&self.node, &record.node) else { return };
        let start = Seen { version: record.version, has_ended: false };
        let poll = |seen| Box::pin(poll(me.clone(), node.clone(), record.id.clone(), seen)) as BoxFuture<'static, ()>;
        let mut seen = self.polls.join(&record.id, start, poll);
        let mut known = record.version;
        loop {
            let now = *seen.borrow_and_update();
            if now.has_ended {
                return changed();
            }
            if now.version > known {
                known = now.version;
                changed();
            }
            if seen.changed().await.is_err() {
                return changed();
            }
        }
    }

    /// Sends the input requests of a task on another node to the client of a `tasks/result` request. Never returns.
    pub(crate) async fn ask_for_elsewhere(
        self: &Arc<Self>,
        record: &Record,
        session: &Session,
        sink: &dyn FrameSender,
        request: &RequestId,
    ) -> Infallible {
        let (Some(me), Some(node)) = (&self.node, &record.node) else { return pending().await };
        let Ok(waiter) = random::id() else { return pending().await };
        let id = record.id.clone();
        let client = session.client_capabilities().clone();
        let waiter = Waiter { node: String::new(), id: waiter };
        let mut leaving = LeaveGuard { table: self, node, wanted: TakeOffer { id: id.clone(), client, waiter } };
        loop {
            let start = Instant::now();
            // This node has another identity after it lost its lease.
            match me.lease().await {
                Ok(lease) if lease.id() != leaving.wanted.waiter.node => {
                    lease.id().clone_into(&mut leaving.wanted.waiter.node);
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(%error, "the input requests of a task on another node are late");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            }
            let wanted = &leaving.wanted;
            match ask::<Option<(u64, InputRequest)>>(me, node, TAKE_OFFER, wanted).await {
                Ok(Some((number, question))) => {
                    let answer = match session.ask(&question, Some(sink), request).await {
                        Ok(answer) => OfferAnswer::Answer(answer),
                        Err(error) => {
                            error.rpc().map_or(OfferAnswer::Gone, |error| OfferAnswer::Refused(error.clone()))
                        }
                    };
                    let body = AnswerOffer { id: id.clone(), number, answer };
                    // The client does not answer a second time. The node of the task ignores a repeated answer.
                    while let Err(error) = ask::<bool>(me, node, ANSWER_OFFER, &body).await
                        && !error.is_gone()
                    {
                        tracing::warn!(%error, "an answer has not reached the node of its task yet");
                        tokio::time::sleep(PAUSE).await;
                    }
                }
                // The time of the request is over, or the task has ended.
                Ok(None) => tokio::time::sleep_until(start + PAUSE).await,
                Err(error) => {
                    tracing::debug!(%error, "the input requests of a task on another node are late");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Cancels a running task, because another node cancelled it. Returns false if the task does not run here.
    pub(crate) fn cancelled_elsewhere(&self, id: &str) -> bool {
        let running = self.here(id).map(|(_, running_task)| self.mark(&running_task, TaskOutcome::Cancelled));
        running.is_some()
    }

    /// Ends a running task if another node ended its record.
    ///
    /// # Errors
    /// Fails when the store fails.
    pub(crate) async fn check(&self, id: &str) -> Result<(), StoreError> {
        let Some((owner, running_task)) = self.here(id) else { return Ok(()) };
        let Some(bytes) = self.records.get(&owner.key(id)).await? else { return Ok(()) };
        if bytes != running_task.stored_bytes() && is_cancelled(&bytes) {
            self.mark(&running_task, TaskOutcome::Cancelled);
        }
        Ok(())
    }
}

/// Notifies the node of a task that a `tasks/result` request no longer waits.
struct LeaveGuard<'a> {
    table: &'a Arc<TaskTable>,
    node: &'a str,
    wanted: TakeOffer,
}

impl Drop for LeaveGuard<'_> {
    fn drop(&mut self) {
        let (Some(me), Ok(runtime)) = (self.table.node.clone(), tokio::runtime::Handle::try_current()) else { return };
        let (node, body) = (self.node.to_owned(), (self.wanted.id.clone(), self.wanted.waiter.clone()));
        runtime.spawn(Box::pin(async move {
            // Without this message, the input request ends at its time limit.
            let _ = ask::<bool>(&me, &node, LEAVE, &body).await;
        }) as BoxFuture<'static, ()>);
    }
}

/// Returns the states of tasks at their node.
///
/// # Errors
/// Fails when the store fails.
async fn states_at(me: &Node, node: &str, ids: Vec<String>) -> Result<States, NodeError> {
    if !me.is_alive(node).await? {
        return Ok(States::Stopped);
    }
    match timeout(me.limits().acknowledgement, ask::<Vec<View>>(me, node, STATES, &ids)).await {
        Ok(Ok(views)) => Ok(States::Running(views)),
        Ok(Err(error)) if error.is_gone() => Ok(States::Stopped),
        Ok(Err(error)) => {
            tracing::debug!(%error, "the states of tasks on another node are not known");
            Ok(States::Unknown)
        }
        Err(_) => {
            tracing::debug!(node, "another node did not return the states of its tasks in time");
            Ok(States::Unknown)
        }
    }
}

/// Follows the changes of a task on another node by long polls, until the task or its node ends.
async fn poll(me: Arc<Node>, node: String, id: String, seen: watch::Sender<Seen>) {
    let mut known = Next { version: seen.borrow().version, id };
    loop {
        match ask::<Option<Next>>(&me, &node, NEXT, &known).await {
            Ok(Some(next)) => {
                known = next;
                seen.send_modify(|seen| seen.version = known.version);
            }
            // The task is stored, or its node stopped.
            Ok(None) => return,
            Err(error) if error.is_gone() => return,
            Err(error) => {
                tracing::debug!(%error, "the changes of a task on another node are late");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Sends a request to a node and returns its reply.
///
/// # Errors
/// [`NodeError`], also if the node has another version and cannot read the request.
async fn ask<R: DeserializeOwned>(
    me: &Node,
    node: &str,
    kind: &'static str,
    body: &(impl Serialize + Sync),
) -> Result<R, NodeError> {
    let body = serde_json::to_vec(body).map_err(|error| {
        tracing::error!(%error, kind, "a request to another node cannot be written");
        NodeError::unsupported()
    })?;
    let reply = me.request(node, kind, body).await?;
    let reply = json::from_slice::<Option<(R,)>>(&reply).ok().flatten();
    reply.map(|(reply,)| reply).ok_or_else(NodeError::unsupported)
}

/// The error of a task that did not end because of its node. The client can call the tool again.
pub(super) fn stopped(reason: &str) -> RpcError {
    let data = json!({ "reason": "node_stopped", "retryable": true });
    RpcError::internal(format!("{reason}; the call can be sent again")).with_data(data)
}

fn is_cancelled(bytes: &[u8]) -> bool {
    Record::read(bytes).is_some_and(|record| record.outcome == Some(TaskOutcome::Cancelled))
}
