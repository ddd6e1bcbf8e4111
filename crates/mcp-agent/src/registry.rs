//! The registry: named servers, their life cycle and their status.

mod activity;
mod back_off;
mod caller;
mod changes;
mod follow;
mod listing;
mod manifest;
#[cfg(feature = "gateway")]
mod metadata;
mod options;
mod pinning;
mod pool;
mod questions;
#[cfg(feature = "gateway")]
mod records;
mod runner;
#[cfg(feature = "gateway")]
mod sessions;
mod settings;
mod slot;
mod status;
mod token_fault;
#[cfg(feature = "oauth")]
mod tokens;
mod watched;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "gateway")]
pub(crate) use self::pool::{ConnectionKey, OpenNumbers, Wanted};
#[cfg(feature = "oauth")]
pub use self::tokens::CallerToken;
#[cfg(feature = "oauth")]
pub(crate) use self::tokens::{Exchanges, OfHost};
use self::{activity::ActiveCall, status::StatusTable, watched::Watched};
pub use self::{
    caller::Caller,
    options::ServerOptions,
    settings::Lists,
    status::{ServerState, ServerStatus, StatusEvents},
    token_fault::TokenFault,
};
#[cfg(feature = "gateway")]
pub(crate) use self::{
    listing::{GATEWAYS, MAX_GATEWAYS},
    metadata::{forward_meta, is_forwarded},
    sessions::Asking,
};
pub(crate) use self::{
    manifest::Manifest,
    pinning::PinKeeper,
    pool::Lease,
    settings::Settings,
    slot::{Slot, Unavailable},
};
use crate::catalog::{Catalog, ServerEntries, names_server};

/// How long a change of the items waits for other changes before the manifest is written.
const STORE_DELAY: Duration = Duration::from_millis(200);

/// The servers of a host, and the catalog of their items.
pub(crate) struct Registry {
    pub(crate) settings: Settings,
    slots: RwLock<Vec<Arc<Slot>>>,
    catalog: watch::Sender<Arc<Catalog>>,
    /// Held while the next snapshot is built, so that generations have an order.
    building: Mutex<()>,
    pub(crate) statuses: Arc<StatusTable>,
    manifest: Option<Manifest>,
    pub(crate) pins: Option<PinKeeper>,
    /// The number of changes of the set of servers.
    changes: watch::Sender<u64>,
    /// A gateway of the host serves one client.
    serves_one: AtomicBool,
    /// A gateway of the host serves several clients.
    serves_several: AtomicBool,
    /// Ends all servers.
    pub(crate) closing: CancellationToken,
}

impl Registry {
    pub(crate) fn new(mut settings: Settings, manifest: Option<Manifest>) -> Arc<Self> {
        let pins = settings.pins.take().map(PinKeeper::new);
        Arc::new(Self {
            manifest,
            settings,
            pins,
            changes: watch::Sender::new(0),
            serves_one: AtomicBool::default(),
            serves_several: AtomicBool::default(),
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

    /// Returns the status of each server, with the newest lines of their standard errors.
    pub(crate) fn statuses_now(&self) -> Vec<ServerStatus> {
        for slot in self.slots() {
            self.statuses.update(&slot);
        }
        self.statuses.all()
    }

    /// Returns a server by its name.
    pub(crate) fn slot(&self, name: &str) -> Option<Arc<Slot>> {
        self.slots.read().iter().find(|slot| &*slot.name == name).cloned()
    }

    /// Returns the server that the name of a tool names, if the server is not ready and has never listed its tools.
    pub(crate) fn unlisted(&self, tool: &str) -> Option<Arc<Slot>> {
        let slots = self.slots.read();
        slots.iter().filter(|slot| slot.is_unlisted()).find(|slot| names_server(tool, &slot.name)).cloned()
    }

    pub(crate) fn slots(&self) -> Vec<Arc<Slot>> {
        self.slots.read().clone()
    }

    /// Takes note of a gateway of the host.
    #[cfg(feature = "gateway")]
    pub(crate) fn add_gateway(&self, is_for_one_client: bool) {
        let serves = if is_for_one_client { &self.serves_one } else { &self.serves_several };
        serves.store(true, Ordering::Release);
    }

    /// Whether all callers are one client.
    fn has_one_client(&self) -> bool {
        self.serves_one.load(Ordering::Acquire) && !self.serves_several.load(Ordering::Acquire)
    }

    /// Returns a number that changes with the set of servers.
    pub(crate) fn changes(&self) -> u64 {
        *self.changes.borrow()
    }

    /// Returns a receiver of the changes of the set of servers.
    #[cfg(feature = "gateway")]
    pub(crate) fn watch_changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
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
        self.changes.send_modify(|changes| *changes += 1);
        self.statuses.add(slot);
        true
    }

    /// Puts a server in the place of another server with its name. Returns the former server.
    pub(crate) fn exchange(&self, slot: &Arc<Slot>) -> Option<Arc<Slot>> {
        let former = {
            let mut slots = self.slots.write();
            let place = slots.iter_mut().find(|other| other.name == slot.name)?;
            std::mem::replace(place, Arc::clone(slot))
        };
        self.changes.send_modify(|changes| *changes += 1);
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
        self.changes.send_modify(|changes| *changes += 1);
        self.statuses.remove(&taken);
        self.rebuild();
        Some(taken)
    }

    /// Publishes the next snapshot if the items of a server have changed. No reader waits meanwhile.
    pub(crate) fn rebuild(&self) {
        let _building = self.building.lock();
        let servers: Vec<(Arc<str>, Arc<ServerEntries>)> =
            self.slots.read().iter().map(|slot| (Arc::clone(&slot.name), slot.entries())).collect();
        let next = self.catalog.borrow().next(&servers, self.settings.characters);
        if let Some(next) = next {
            tracing::debug!(generation = next.generation(), tools = next.tools().len(), "the catalog changed");
            self.catalog.send_replace(Arc::new(next));
        }
    }

    /// Returns the stored items of a server, if its definition has not changed since.
    pub(crate) fn stored(&self, slot: &Slot) -> Option<ServerEntries> {
        self.manifest.as_ref()?.find(&slot.name, &slot.fingerprint)
    }

    /// Stores the items of all servers on disk soon, in the background. Changes in the meantime are written together.
    pub(crate) fn store_soon(self: &Arc<Self>) {
        if !self.manifest.as_ref().is_some_and(Manifest::schedule) {
            return;
        }
        let registry = Arc::clone(self);
        tokio::spawn(async move {
            let _ = registry.closing.run_until_cancelled(tokio::time::sleep(STORE_DELAY)).await;
            registry.store().await;
        });
    }

    /// Stores the items of all servers on disk.
    pub(crate) async fn store(&self) {
        let Some(manifest) = &self.manifest else { return };
        manifest.unschedule();
        let slots = self.slots();
        let listed = slots.iter().filter(|slot| slot.was_listed());
        manifest.write(listed.map(|slot| (slot.name.clone(), slot.fingerprint.clone(), slot.own_entries()))).await;
    }
}
