//! One server of a registry: its connector, its connection, its items and its state.

use std::{
    fmt,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_client::{Client, transport::Connect};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    Registry, ServerOptions, ServerState, Watched,
    activity::{ActiveCall, Activity},
};
use crate::catalog::ServerEntries;

/// One server of a registry.
pub(crate) struct Slot {
    pub(crate) name: Arc<str>,
    pub(crate) options: ServerOptions,
    /// A text that changes when the definition of the server changes.
    pub(crate) fingerprint: Arc<str>,
    pub(super) connector: Arc<Watched>,
    pub(super) link: watch::Sender<Link>,
    pub(super) activity: Arc<Activity>,
    /// A call needs the server.
    pub(super) wanted: Notify,
    /// Ends the server.
    pub(crate) stop: CancellationToken,
    pub(super) has_run: AtomicBool,
    /// Cancelled when the task of the server has ended, and its process too.
    pub(super) ended: CancellationToken,
    items: Mutex<Items>,
}

#[derive(Default)]
struct Items {
    entries: Arc<ServerEntries>,
    /// The server listed its items. Otherwise they are empty or from the disk.
    was_listed: bool,
}

/// The connection of a server, as calls see it.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) state: ServerState,
    pub(super) reason: Option<String>,
    pub(super) client: Option<Client>,
    /// The number of failed attempts.
    pub(super) failures: u64,
    pub(super) has_ended: bool,
}

/// A server that a call cannot reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unavailable {
    pub(crate) state: ServerState,
    pub(crate) reason: Option<String>,
}

impl Slot {
    pub(crate) fn new(
        name: &str,
        connector: Arc<dyn Connect>,
        options: ServerOptions,
        fingerprint: Option<&str>,
        closing: &CancellationToken,
    ) -> Arc<Self> {
        let state = if options.needs_approval { ServerState::NeedsApproval } else { ServerState::Configured };
        let link = Link { state, reason: None, client: None, failures: 0, has_ended: false };
        Arc::new(Self {
            name: name.into(),
            fingerprint: fingerprint.map_or_else(|| connector.describe().into(), Into::into),
            options,
            connector: Watched::new(connector),
            link: watch::Sender::new(link),
            activity: Arc::default(),
            wanted: Notify::new(),
            stop: closing.child_token(),
            has_run: AtomicBool::new(false),
            ended: CancellationToken::new(),
            items: Mutex::default(),
        })
    }

    pub(crate) fn entries(&self) -> Arc<ServerEntries> {
        Arc::clone(&self.items.lock().entries)
    }

    /// Sets the items that the server listed, or items from the disk.
    pub(super) fn set_entries(&self, entries: ServerEntries, was_listed: bool) {
        let mut items = self.items.lock();
        items.was_listed |= was_listed;
        if *items.entries != entries {
            items.entries = Arc::new(entries);
        }
    }

    /// Takes the items from the disk. Returns false if the disk has no items of this definition.
    pub(crate) fn restore(&self, registry: &Registry) -> bool {
        let stored = registry.stored(self);
        let is_stored = stored.is_some();
        self.items.lock().entries = Arc::new(stored.unwrap_or_default());
        is_stored
    }

    /// Takes the items of a former server with this name, which decide the order of the new items.
    pub(crate) fn inherit(&self, former: &Self) {
        self.items.lock().entries = former.entries();
    }

    pub(crate) fn was_listed(&self) -> bool {
        self.items.lock().was_listed
    }

    pub(crate) fn state(&self) -> ServerState {
        self.link.borrow().state
    }

    pub(crate) fn reason(&self) -> Option<String> {
        self.link.borrow().reason.clone()
    }

    /// Returns the time limit of calls of a tool of the server.
    pub(crate) fn call_timeout(&self, tool: &str) -> Option<Duration> {
        self.options.tool_timeouts.get(tool).copied().or(self.options.call_timeout)
    }

    /// Begins a call: the server does not become idle until the value is dropped.
    pub(crate) fn begin_call(&self) -> ActiveCall {
        self.activity.begin()
    }

    /// Lets the server start.
    pub(crate) fn wake(&self) {
        self.wanted.notify_one();
    }

    /// Returns the client of the server, within a time limit. Starts the server if it does not run.
    pub(crate) async fn client_within(&self, limit: Duration) -> Result<Client, Unavailable> {
        let reached = timeout(limit, self.client()).await;
        reached.unwrap_or_else(|_| {
            let link = self.link.borrow();
            let reason = link.reason.clone().or_else(|| Some(format!("it did not start within {limit:?}")));
            Err(Unavailable { state: link.state, reason })
        })
    }

    async fn client(&self) -> Result<Client, Unavailable> {
        let mut link = self.link.subscribe();
        let failures = link.borrow().failures;
        let mut has_woken = false;
        loop {
            {
                let now = link.borrow_and_update();
                if let Some(client) = &now.client {
                    return Ok(client.clone());
                }
                let has_failed = has_woken && now.failures > failures;
                if now.has_ended || now.state == ServerState::NeedsApproval || has_failed {
                    return Err(Unavailable { state: now.state, reason: now.reason.clone() });
                }
            }
            if !std::mem::replace(&mut has_woken, true) {
                self.wanted.notify_one();
            }
            if link.changed().await.is_err() {
                return Err(Unavailable { state: ServerState::Stopped, reason: None });
            }
        }
    }

    /// Waits until the first start of the server has an outcome.
    pub(crate) async fn settled(&self) {
        let is_settled =
            |link: &Link| !matches!(link.state, ServerState::Starting | ServerState::Waiting) || link.has_ended;
        // The sender is a part of this server.
        let _ = self.link.subscribe().wait_for(is_settled).await;
    }

    /// Removes a wake-up that is not needed any more.
    pub(super) fn clear_wake_up(&self) {
        pin!(self.wanted.notified()).as_mut().enable();
    }

    /// Ends the server and waits until its process has ended. Several callers can wait. Cancel safe.
    pub(crate) async fn end(&self) {
        self.stop.cancel();
        if self.has_run.load(Ordering::Acquire) {
            // The close of a client has its own time limits.
            self.ended.cancelled().await;
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("name", &self.name).field("state", &self.state()).finish_non_exhaustive()
    }
}
