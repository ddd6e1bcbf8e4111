//! The registry: named servers, their life cycle and their status.

mod activity;
mod listing;
mod manifest;
mod options;
mod questions;
mod runner;
mod settings;
mod slot;
mod status;
mod watched;

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) use self::{
    activity::ActiveCall,
    settings::Settings,
    slot::{Slot, Unavailable},
};
use self::{manifest::Manifest, status::StatusTable, watched::Watched};
pub use self::{
    options::ServerOptions,
    status::{ServerState, ServerStatus, StatusEvents},
};
use crate::catalog::{Catalog, ServerEntries};

/// The servers of a host, and the catalog of their items.
pub(crate) struct Registry {
    pub(crate) settings: Settings,
    slots: RwLock<Vec<Arc<Slot>>>,
    catalog: watch::Sender<Arc<Catalog>>,
    /// Held while the next snapshot is built, so that generations have an order.
    building: Mutex<()>,
    pub(crate) statuses: Arc<StatusTable>,
    manifest: Option<Manifest>,
    /// Ends all servers.
    pub(crate) closing: CancellationToken,
}

impl Registry {
    pub(crate) fn new(settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            manifest: settings.manifest.clone().map(Manifest::read),
            settings,
            slots: RwLock::default(),
            catalog: watch::Sender::new(Arc::new(Catalog::default())),
            building: Mutex::default(),
            statuses: Arc::default(),
            closing: CancellationToken::new(),
        })
    }

    /// Returns the current snapshot.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.borrow())
    }

    pub(crate) fn catalogs(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    /// Returns a server by its name.
    pub(crate) fn slot(&self, name: &str) -> Option<Arc<Slot>> {
        self.slots.read().iter().find(|slot| &*slot.name == name).cloned()
    }

    pub(crate) fn slots(&self) -> Vec<Arc<Slot>> {
        self.slots.read().clone()
    }

    /// Adds a server after the others. Returns false if the name is taken.
    pub(crate) fn insert(&self, slot: &Arc<Slot>) -> bool {
        {
            let mut slots = self.slots.write();
            if slots.iter().any(|other| other.name == slot.name) {
                return false;
            }
            slots.push(Arc::clone(slot));
        }
        self.statuses.add(slot);
        true
    }

    /// Puts a server in the place of another one with its name. Returns the former server.
    pub(crate) fn exchange(&self, slot: &Arc<Slot>) -> Option<Arc<Slot>> {
        let former = {
            let mut slots = self.slots.write();
            let place = slots.iter_mut().find(|other| other.name == slot.name)?;
            std::mem::replace(place, Arc::clone(slot))
        };
        self.statuses.add(slot);
        self.rebuild();
        Some(former)
    }

    /// Removes a server and its items.
    pub(crate) fn take(&self, name: &str) -> Option<Arc<Slot>> {
        let taken = {
            let mut slots = self.slots.write();
            let index = slots.iter().position(|slot| &*slot.name == name)?;
            slots.remove(index)
        };
        self.statuses.remove(&taken);
        self.rebuild();
        Some(taken)
    }

    /// Publishes the next snapshot if the items of a server have changed. No reader waits meanwhile.
    pub(crate) fn rebuild(&self) {
        let _building = self.building.lock();
        let servers: Vec<(Arc<str>, Arc<ServerEntries>)> =
            self.slots.read().iter().map(|slot| (Arc::clone(&slot.name), slot.entries())).collect();
        let next = self.catalog.borrow().next(&servers);
        if let Some(next) = next {
            tracing::debug!(generation = next.generation(), tools = next.tools().len(), "the catalog changed");
            self.catalog.send_replace(Arc::new(next));
        }
    }

    /// Returns the stored items of a server, if its definition has not changed since.
    pub(crate) fn stored(&self, slot: &Slot) -> Option<ServerEntries> {
        self.manifest.as_ref()?.find(&slot.name, &slot.fingerprint)
    }

    /// Stores the items of all servers on disk.
    pub(crate) async fn store(&self) {
        let Some(manifest) = &self.manifest else { return };
        let servers: HashMap<Arc<str>, (Arc<str>, Arc<ServerEntries>)> = self
            .slots()
            .into_iter()
            .filter(|slot| slot.was_listed())
            .map(|slot| (slot.name.clone(), (slot.fingerprint.clone(), slot.entries())))
            .collect();
        manifest.write(servers).await;
    }
}
