//! The changes of the merged lists, as notifications for the clients of the gateway.

use std::{collections::BTreeSet, sync::Arc};

use mcp_protocol::{ProtocolVersion, ServerCapabilities};
use mcp_server_core::{
    RegistrationError,
    extension::{BackgroundWork, Registrar, ServerExtension, WeakServer},
};

use serde_json::json;

use super::{Core, merged::Merged};
use crate::registry::GATEWAYS;

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
        let ids: BTreeSet<&str> = behind.chain([self.core.hop.as_str()]).collect();
        let experimental = capabilities.experimental.get_or_insert_default();
        experimental.insert(GATEWAYS.to_owned(), json!({ "ids": ids }));
        capabilities
    }

    fn start(&self, server: WeakServer) -> Option<BackgroundWork> {
        let core = Arc::clone(&self.core);
        *core.server.lock() = Some(server.clone());
        // A change after this reading differs from it.
        let mut known = core.merged_here();
        let mut changes = core.host.catalog_changes();
        Some(BackgroundWork::new(async move {
            while changes.next().await.is_some() {
                let Some(server) = server.upgrade() else { return };
                // The new lists are complete before clients list again.
                let now = core.merged().await;
                announce(&server, &known, &now);
                known = now;
            }
        }))
    }
}

fn announce(server: &mcp_server_core::Server, known: &Merged, now: &Merged) {
    let notices = server.notify();
    if !now.tools.has_items_of(&known.tools) {
        notices.tools_changed();
    }
    if !now.prompts.has_items_of(&known.prompts) {
        notices.prompts_changed();
    }
    if !now.resources.has_items_of(&known.resources) || !now.templates.has_items_of(&known.templates) {
        notices.resources_changed();
    }
}
