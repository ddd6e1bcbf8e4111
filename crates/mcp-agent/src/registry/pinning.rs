//! The pins of a host: each list of tools is compared with them before the catalog contains it.

use std::{path::Path, sync::Arc, time::SystemTime};

use mcp_protocol::Tool;
use parking_lot::Mutex;
use tokio::task::spawn_blocking;

use crate::{
    catalog::ListedTool,
    pins::{
        Drift, Fingerprint, PinError, PinFile, PinReview, PinRules, PinState, PinStore, Pins, ReviewedTool, Verdict,
    },
};

/// The pins of a host and their rules.
pub(crate) struct PinKeeper {
    store: Store,
    rules: PinRules,
    /// Held while items are reviewed and published, so that an older review does not replace a newer one.
    pub(super) publishing: tokio::sync::Mutex<()>,
}

enum Store {
    Memory(Mutex<Pins>),
    File(PinFile),
}

impl PinKeeper {
    pub(super) fn new((store, rules): (PinStore, PinRules)) -> Self {
        let store = match store {
            PinStore::Memory(pins) => Store::Memory(Mutex::new(pins)),
            PinStore::File(file) => Store::File(file),
        };
        Self { store, rules, publishing: tokio::sync::Mutex::default() }
    }

    /// Returns the path of the file of pins.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.store {
            Store::Memory(_) => None,
            Store::File(file) => Some(file.path()),
        }
    }

    /// Compares the tools of a server with their pins. Returns the reason why the pins cannot be used. In that case a former
    /// comparison of a tool stays.
    pub(super) async fn review(&self, server: &str, drift: Option<Drift>, tools: &mut [ListedTool]) -> Option<String> {
        let rules = drift.map_or(self.rules, |drift| self.rules.drift(drift));
        let definitions: Vec<Arc<Tool>> = tools.iter().map(|tool| Arc::clone(tool.definition())).collect();
        let name = server.to_owned();
        let reviewed = self.change(move |pins| {
            let tools = definitions.iter().map(|tool| &**tool);
            pins.review(&name, tools, rules, SystemTime::now())
        });
        match reviewed.await {
            Ok(PinReview { tools: reviewed, removed, .. }) => {
                if !removed.is_empty() {
                    tracing::debug!(server, ?removed, "a server does not list pinned tools");
                }
                for (tool, reviewed) in tools.iter_mut().zip(reviewed) {
                    if reviewed.verdict != Verdict::Use {
                        tracing::warn!(server, tool = ?reviewed.name, reason = %reviewed.state, "a definition differs");
                    }
                    tool.pin = Some(Arc::new(reviewed));
                }
                None
            }
            Err(fault) => {
                tracing::warn!(server, fault, "the pins of a server cannot be used");
                for tool in tools.iter_mut().filter(|tool| tool.pin.is_none()) {
                    let definition = tool.definition();
                    tool.pin = Some(Arc::new(ReviewedTool {
                        name: definition.name.clone(),
                        fingerprint: Fingerprint::of(definition),
                        state: PinState::Unknown,
                        verdict: rules.unknown(),
                    }));
                }
                Some(fault)
            }
        }
    }

    /// Pins a definition that a person accepted.
    pub(crate) async fn accept(&self, server: &str, tool: Arc<Tool>) -> Result<(), String> {
        let server = server.to_owned();
        self.change(move |pins| pins.accept(&server, &tool, SystemTime::now())).await
    }

    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Pins) -> T + Send + 'static,
    ) -> Result<T, String> {
        match &self.store {
            Store::Memory(pins) => Ok(change(&mut pins.lock())),
            Store::File(file) => {
                let file = file.clone();
                let changed = spawn_blocking(move || file.update(change)).await;
                changed.map_err(|error| error.to_string())?.map_err(|error: PinError| error.to_string())
            }
        }
    }
}
