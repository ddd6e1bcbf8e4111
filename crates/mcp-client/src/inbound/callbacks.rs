//! Callbacks for notifications, and the notification of changed roots. Each runs on its own task.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
};

use mcp_protocol::{
    EmptyParams, NotificationMethod, SubscriptionFilter, jsonrpc,
    notification::{PromptListChanged, ResourceListChanged, RootsListChanged, ToolListChanged},
};
use tokio_util::sync::CancellationToken;

use super::{NotificationHub, Roots};
use crate::connection::{ConnectionManager, Notification};

pub(crate) type Callback = Box<dyn FnMut(&Notification) + Send>;

/// The callbacks that the builder registered.
#[derive(Default)]
pub(crate) struct Callbacks {
    pub(crate) all: Vec<Callback>,
    /// The changes that the callbacks need. In 2026-07-28 the client subscribes to them.
    pub(crate) filter: SubscriptionFilter,
}

impl Callbacks {
    /// Adds the change that a notification reports to the filter.
    pub(crate) fn want(&mut self, name: &str) {
        match name {
            ToolListChanged::NAME => self.filter.tools_list_changed = Some(true),
            PromptListChanged::NAME => self.filter.prompts_list_changed = Some(true),
            ResourceListChanged::NAME => self.filter.resources_list_changed = Some(true),
            _ => {}
        }
    }

    /// Runs the callbacks on a task until the client is closed.
    pub(crate) fn listen(mut self, hub: &NotificationHub, closing: CancellationToken) {
        if self.all.is_empty() {
            return;
        }
        let mut notifications = hub.listen();
        let listening = async move {
            while let Some(notification) = notifications.next().await {
                for listener in &mut self.all {
                    if catch_unwind(AssertUnwindSafe(|| listener(&notification))).is_err() {
                        tracing::error!(method = notification.method(), "a callback for notifications panicked");
                    }
                }
            }
        };
        tokio::spawn(async move { closing.run_until_cancelled(listening).await });
    }
}

/// Notifies the server of changed roots until the client is closed, in the revisions that have a notification for it.
pub(crate) fn send_root_changes(manager: &Arc<ConnectionManager>, roots: Roots) {
    let (manager, closing) = (Arc::downgrade(manager), manager.closing.clone());
    tokio::spawn(async move { closing.run_until_cancelled(watch_roots(manager, roots)).await });
}

async fn watch_roots(manager: Weak<ConnectionManager>, roots: Roots) {
    let mut changes = roots.changes();
    while changes.changed().await.is_ok() {
        let Some(connection) = manager.upgrade().and_then(|manager| manager.current()) else { continue };
        if !connection.version().is_some_and(|version| version.has_handshake()) {
            continue;
        }
        if let Ok(message) = jsonrpc::notification(RootsListChanged::NAME, &EmptyParams::new()) {
            // If this fails, the server of the next session requests the roots.
            let _ = connection.sender.send(connection.notice(RootsListChanged::NAME, message)).await;
        }
    }
}
