//! The changes of the merged lists, as notifications for the clients of the gateway.

use std::sync::Arc;

use mcp_protocol::{ProtocolVersion, ServerCapabilities};
use mcp_server_core::{
    RegistrationError,
    extension::{BackgroundWork, Registrar, ServerExtension, WeakServer},
};
use serde_json::json;
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};

use super::{Core, merged::Merged};
use crate::{
    policy::{PolicyFile, Rule},
    registry::GATEWAYS,
};

/// Notifies the clients of the gateway of changed lists.
pub(super) struct Announcer {
    core: Arc<Core>,
}

impl Announcer {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core) }
    }
}

impl ServerExtension for Announcer {
    fn register(&mut self, _registrar: &mut Registrar<'_>) -> Result<(), RegistrationError> {
        Ok(())
    }

    fn declare(&self, _version: ProtocolVersion, mut capabilities: ServerCapabilities) -> ServerCapabilities {
        // A gateway that reaches itself, also through other gateways, finds its id.
        let catalog = self.core.host.catalog();
        let behind = catalog.facts().iter().flat_map(|facts| facts.gateways.iter().map(|id| &**id));
        let ids = self.core.hop.declared(behind);
        let experimental = capabilities.experimental.get_or_insert_default();
        experimental.insert(GATEWAYS.to_owned(), json!({ "ids": ids }));
        capabilities
    }

    fn start(&self, server: WeakServer) -> Option<BackgroundWork> {
        let core = Arc::clone(&self.core);
        // A change after this reading differs from it.
        let mut known = core.merged_here();
        let mut changes = core.host.catalog_changes();
        let mut servers = core.host.shared().registry.watch_changes();
        let mut rules = core.rules();
        let policies: Vec<_> = core.host.shared().gate.files().map(PolicyFile::changes).collect();
        Some(BackgroundWork::new(async move {
            let mut policies = Changed::of(policies);
            loop {
                let is_policy = tokio::select! {
                    changed = changes.next() => match changed {
                        Some(_) => false,
                        None => return,
                    },
                    () = policies.next() => true,
                    changed = servers.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        let former = std::mem::replace(&mut rules, core.rules());
                        former != rules
                    }
                };
                let Some(server) = server.upgrade() else { return };
                // The new lists are complete before clients list again.
                let now = core.merged().await;
                if is_policy {
                    // The lists depend on the caller, so the gateway does not know whose lists changed.
                    announce_all(&server);
                } else {
                    announce(&server, &known, &now);
                }
                known = now;
            }
        }))
    }
}

impl Core {
    /// Returns the servers with rules, and their rules.
    fn rules(&self) -> Vec<(Arc<str>, Vec<Rule>)> {
        let mut slots = self.host.shared().registry.slots();
        slots.retain(|slot| !slot.options.rules.is_empty());
        slots.into_iter().map(|slot| (Arc::clone(&slot.name), slot.options.rules.clone())).collect()
    }
}

/// The changes of all policy files. The tasks end with the value.
struct Changed {
    changed: Arc<Notify>,
    _tasks: JoinSet<()>,
}

impl Changed {
    fn of(files: Vec<watch::Receiver<()>>) -> Self {
        let (changed, mut tasks) = (Arc::<Notify>::default(), JoinSet::new());
        for mut file in files {
            let changed = Arc::clone(&changed);
            tasks.spawn(async move {
                while file.changed().await.is_ok() {
                    changed.notify_one();
                }
            });
        }
        Self { changed, _tasks: tasks }
    }

    async fn next(&mut self) {
        self.changed.notified().await;
    }
}

fn announce_all(server: &mcp_server_core::Server) {
    let notices = server.notify();
    notices.tools_changed();
    notices.prompts_changed();
    notices.resources_changed();
}

fn announce(server: &mcp_server_core::Server, known: &Merged, now: &Merged) {
    let notices = server.notify();
    // A gateway in front reads the ids with the tools.
    if !now.tools.has_items_of(&known.tools) || now.gateways() != known.gateways() {
        notices.tools_changed();
    }
    if !now.prompts.has_items_of(&known.prompts) {
        notices.prompts_changed();
    }
    if !now.resources.has_items_of(&known.resources) || !now.templates.has_items_of(&known.templates) {
        notices.resources_changed();
    }
}
