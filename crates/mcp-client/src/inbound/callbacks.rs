//! Callbacks for notifications, and the notices that this side sends by itself. Each on a task of its own, off the read loop.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
};

use mcp_protocol::{
    EmptyParams, NotificationMethod, SubscriptionFilter, jsonrpc,
    notification::{PromptListChanged, ResourceListChanged, RootsListChanged, ToolListChanged},
};

use super::{Notification, Roots};
use crate::connection::Shared;

pub(crate) type Listener = Box<dyn FnMut(&Notification) + Send>;

/// Everybody who was registered for notifications when the client was built.
#[derive(Default)]
pub(crate) struct Listeners {
    pub(crate) all: Vec<Listener>,
    /// What has to be subscribed to for them, where nothing comes by itself.
    pub(crate) filter: SubscriptionFilter,
}

impl Listeners {
    /// Notifications of this name are wanted.
    pub(crate) fn want(&mut self, name: &str) {
        match name {
            ToolListChanged::NAME => self.filter.tools_list_changed = Some(true),
            PromptListChanged::NAME => self.filter.prompts_list_changed = Some(true),
            ResourceListChanged::NAME => self.filter.resources_list_changed = Some(true),
            _ => {}
        }
    }

    /// Starts to listen, until the client is closed.
    pub(crate) fn listen(mut self, shared: &Arc<Shared>) {
        if let Some(roots) = shared.config.handlers.roots.clone() {
            let (shared, closing) = (Arc::downgrade(shared), shared.closing.clone());
            tokio::spawn(async move { closing.run_until_cancelled(tell_roots(shared, roots)).await });
        }
        if self.all.is_empty() {
            return;
        }
        let (mut notifications, closing) = (shared.hub.listen(), shared.closing.clone());
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

/// Tells the server when the roots change, in the revisions that have a notice for it.
async fn tell_roots(shared: Weak<Shared>, roots: Roots) {
    let mut changes = roots.changes();
    while changes.changed().await.is_ok() {
        let Some(link) = shared.upgrade().and_then(|shared| shared.current()) else { continue };
        if !link.version().is_some_and(|version| version.has_handshake()) {
            continue;
        }
        if let Ok(message) = jsonrpc::notification(RootsListChanged::NAME, &EmptyParams::new()) {
            // A new session asks for the roots by itself.
            let _ = link.sender.send(link.notice(RootsListChanged::NAME, message)).await;
        }
    }
}
