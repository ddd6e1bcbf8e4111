//! The bus between the nodes of a fleet: changes, completed pages, and cancellations of tasks that run on another node.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
    time::Duration,
};

use mcp_store::{Delivery, Subscription};
use mcp_transport::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio::{runtime::Handle, sync::Notify, task::AbortHandle};

use super::Readers;
use crate::{
    change::{Change, PendingChanges},
    json,
    node::Failing,
    random,
    store::ServerStore,
    tasks::TaskTable,
};

/// The topic of the notices.
const TOPIC: &str = "notices";
/// The most changes that wait to be published or received. Beyond it, all changes are merged into one.
const QUEUE: usize = 256;
/// The longest URI or id of a page, in bytes, that is published. A change with a longer URI is published as a change of everything.
const URI_BYTES: usize = 8 << 10;
/// The first and the longest pause between retries of a failing store.
pub(crate) const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// The connection of this node to the bus.
pub(crate) struct Fleet {
    shared: Arc<Shared>,
    task: Mutex<Option<AbortHandle>>,
}

struct Shared {
    store: ServerStore,
    /// The random name of this node, by which it ignores its own messages. The first start sets it.
    node: OnceLock<String>,
    readers: Arc<Readers>,
    tasks: Arc<TaskTable>,
    outgoing: Mutex<Outgoing>,
    more: Notify,
    /// Messages of other nodes may have been lost.
    missed: Notify,
}

#[derive(Default)]
struct Outgoing {
    changes: PendingChanges,
    all: bool,
    /// Ids of tasks on other nodes. When the queue is full, the oldest is dropped and everything counts as changed. The
    /// record of a dropped task is marked, so its node finds the cancellation there.
    cancelled: VecDeque<String>,
    /// The pages on which users are done. When the queue is full, the oldest is dropped.
    pages: VecDeque<String>,
}

/// A message between nodes.
#[derive(Serialize, Deserialize)]
struct Message {
    node: String,
    changed: Changed,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Changed {
    All,
    Tools,
    Prompts,
    Resources,
    Resource(String),
    /// A task was cancelled that may run on another node.
    Cancelled(String),
    /// A user is done on a page.
    Page(String),
}

impl Fleet {
    /// Creates the connection. Servers with the same name and store are one fleet.
    pub(crate) fn new(store: ServerStore, readers: Arc<Readers>, tasks: Arc<TaskTable>) -> Self {
        let shared = Shared {
            store,
            node: OnceLock::new(),
            readers,
            tasks,
            outgoing: Mutex::default(),
            more: Notify::new(),
            missed: Notify::new(),
        };
        Self { shared: Arc::new(shared), task: Mutex::default() }
    }

    /// Starts the tasks of the bus, if a Tokio runtime is present and they do not run. Without random numbers for the name
    /// of the node, a later call starts them.
    pub(super) fn start(&self) {
        let mut task = self.task.lock();
        // The runtime of an earlier start may have ended.
        if task.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let shared = self.shared.clone();
        if shared.node.get().is_none() {
            match random::id() {
                Ok(name) => drop(shared.node.set(name)),
                Err(error) => {
                    tracing::error!(%error, "the connection to the other nodes cannot start yet");
                    return;
                }
            }
        }
        let running: BoxFuture<'static, ()> = Box::pin(async move {
            tokio::join!(shared.publish(), shared.listen(), shared.recheck_tasks());
        });
        *task = Some(runtime.spawn(running).abort_handle());
    }

    #[cfg(test)]
    pub(super) fn is_running(&self) -> bool {
        self.task.lock().as_ref().is_some_and(|task| !task.is_finished())
    }

    /// Publishes a change to the other nodes. Does not wait; equal changes that wait are merged.
    pub(super) fn publish(&self, change: Change) {
        let is_long = matches!(&change, Change::Updated(uri) if uri.len() > URI_BYTES);
        {
            let mut outgoing = self.shared.outgoing();
            if is_long || outgoing.changes.len() >= QUEUE {
                outgoing.changes.clear();
                outgoing.all = true;
            } else if !outgoing.all {
                outgoing.changes.insert(change);
            }
        }
        self.shared.more.notify_one();
    }

    /// Publishes the id of a page on which a user is done. Does not wait.
    pub(super) fn publish_page(&self, page: &str) {
        if page.len() > URI_BYTES {
            tracing::warn!(bytes = page.len(), "the id of a page is too long for the other nodes");
            return;
        }
        {
            let pages = &mut self.shared.outgoing().pages;
            if pages.len() >= QUEUE && pages.pop_front().is_some() {
                tracing::warn!("a client is not notified of a page, because the store takes too long");
            }
            pages.push_back(page.to_owned());
        }
        self.shared.more.notify_one();
    }

    /// Publishes the cancellation of a task to the other nodes. Does not wait.
    pub(crate) fn publish_cancellation(&self, id: &str) {
        {
            let mut outgoing = self.shared.outgoing();
            if outgoing.cancelled.len() >= QUEUE && outgoing.cancelled.pop_front().is_some() {
                tracing::warn!("the node of a task receives its cancellation late, because the store takes too long");
                outgoing.changes.clear();
                outgoing.all = true;
            }
            outgoing.cancelled.push_back(id.to_owned());
        }
        self.shared.more.notify_one();
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }
}

impl Shared {
    fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock()
    }

    fn node(&self) -> &str {
        self.node.get().map_or("", String::as_str)
    }

    fn next_outgoing(&self) -> Option<Changed> {
        let mut outgoing = self.outgoing();
        if let Some(id) = outgoing.cancelled.pop_front() {
            return Some(Changed::Cancelled(id));
        }
        if let Some(page) = outgoing.pages.pop_front() {
            return Some(Changed::Page(page));
        }
        if std::mem::take(&mut outgoing.all) {
            return Some(Changed::All);
        }
        Some(match outgoing.changes.pop()? {
            Change::Tools => Changed::Tools,
            Change::Prompts => Changed::Prompts,
            Change::Resources => Changed::Resources,
            Change::Updated(uri) => Changed::Resource((*uri).to_owned()),
            // A part is for the subscribers of its resource.
            Change::Part { of, .. } => Changed::Resource((*of).to_owned()),
        })
    }

    async fn publish(&self) {
        loop {
            let Some(changed) = self.next_outgoing() else {
                self.more.notified().await;
                continue;
            };
            let message = Message { node: self.node().to_owned(), changed };
            let Ok(message) = serde_json::to_vec(&message) else { continue };
            let message: Arc<[u8]> = message.into();
            let (mut pause, mut failing) = (PAUSES.0, Failing::default());
            while let Err(error) = self.store.publish(TOPIC, message.clone()).await {
                if failing.record_failure() {
                    tracing::warn!(%error, "the change cannot be published to the other nodes yet");
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSES.1);
            }
        }
    }

    async fn listen(&self) {
        let (mut pause, mut failing) = (PAUSES.0, Failing::default());
        let mut is_first = true;
        loop {
            match self.store.subscribe(TOPIC, QUEUE).await {
                Ok(subscription) => {
                    pause = PAUSES.0;
                    failing.record_success();
                    if !std::mem::take(&mut is_first) {
                        self.readers.deliver_all();
                    }
                    // A task may have been cancelled before this node subscribed.
                    self.missed.notify_one();
                    self.receive(subscription).await;
                }
                Err(error) => {
                    if failing.record_failure() {
                        tracing::warn!(%error, "changes on other nodes cannot be received yet");
                    }
                    is_first = false;
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    async fn receive(&self, mut subscription: Subscription) {
        while let Some(delivery) = subscription.recv().await {
            let Delivery::Message(message) = delivery else {
                self.messages_lost();
                continue;
            };
            let change = match json::from_slice::<Message>(&message) {
                Ok(message) if message.node == self.node() => continue,
                Ok(message) => match message.changed {
                    Changed::All => {
                        self.messages_lost();
                        continue;
                    }
                    Changed::Tools => Change::Tools,
                    Changed::Prompts => Change::Prompts,
                    Changed::Resources => Change::Resources,
                    Changed::Resource(uri) => Change::Updated(uri.into()),
                    Changed::Cancelled(id) => {
                        let _ = self.tasks.cancelled_elsewhere(&id);
                        continue;
                    }
                    Changed::Page(page) => {
                        self.readers.complete_page(&page);
                        continue;
                    }
                },
                // A newer version of this library may publish other kinds of change.
                Err(error) => {
                    tracing::debug!(%error, "a notice of another node cannot be read");
                    self.messages_lost();
                    continue;
                }
            };
            self.readers.deliver(&change);
        }
    }

    /// Handles lost messages: everything may have changed, and any task may have been cancelled.
    fn messages_lost(&self) {
        self.readers.deliver_all();
        self.missed.notify_one();
    }

    /// Checks the records of running tasks whenever cancellations may have been lost.
    async fn recheck_tasks(&self) {
        let mut failing = Failing::default();
        loop {
            self.missed.notified().await;
            for id in self.tasks.running() {
                let mut pause = PAUSES.0;
                while let Err(error) = self.tasks.check(&id).await {
                    if failing.record_failure() {
                        tracing::warn!(%error, "whether a task was cancelled on another node cannot be seen yet");
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        }
    }
}
