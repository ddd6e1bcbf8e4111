//! The list of the nodes that have run. One of the running nodes ends the work of each node that stopped.
//!
//! The entry of a node names the node that is responsible for its work: at first the node itself. When the responsible node has
//! no lease, another node replaces it by compare-and-swap. It ends the work, and then removes the entry.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use mcp_store::StoreError;
use tokio::time::sleep;

use super::{LEASES, Lease, Shared};
use crate::store::ServerStore;

/// The prefix of the entries.
const MEMBERS: &str = "member/";
/// The lifetime of an entry. A running node writes its expired entry again.
const TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The most records of one page.
const PAGE: usize = 64;
/// The pause between two pages, so that the requests of clients do not wait for the store.
const PAUSE: Duration = Duration::from_millis(20);

/// The warning for a fleet whose nodes have different keys.
const FOREIGN_KEYS: &str = "another node of this fleet has other `state_keys`, so each of the two nodes rejects the request states of the \
    other. Set the same keys on all nodes, or another server name";

/// Writes the entry of a node.
pub(super) async fn add(store: &ServerStore, id: &str) -> Result<(), StoreError> {
    store.put(&key(id), id.as_bytes().into(), Some(TTL)).await
}

fn key(id: &str) -> String {
    format!("{MEMBERS}{id}")
}

/// The records whose keys begin with a prefix, page by page.
pub(crate) struct Walk<'a> {
    store: &'a ServerStore,
    prefix: &'a str,
    cursor: Option<String>,
    is_over: bool,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(store: &'a ServerStore, prefix: &'a str) -> Self {
        Self { store, prefix, cursor: None, is_over: false }
    }

    /// Returns the keys and values of the next page. `None` after the last page.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<(String, Arc<[u8]>)>>, StoreError> {
        if self.is_over {
            return Ok(None);
        }
        if self.cursor.is_some() {
            sleep(PAUSE).await;
        }
        let page = self.store.list(self.prefix, self.cursor.as_deref(), PAGE).await?;
        self.is_over = page.next.is_none();
        self.cursor = page.next;
        let local = |(key, value): (String, Arc<[u8]>)| (self.store.local(&key).to_owned(), value);
        Ok(Some(page.entries.into_iter().map(local).collect()))
    }
}

/// Returns the records whose keys begin with a prefix, by the rest of their keys.
async fn all(store: &ServerStore, prefix: &str) -> Result<BTreeMap<String, Arc<[u8]>>, StoreError> {
    let (mut all, mut walk) = (BTreeMap::new(), Walk::new(store, prefix));
    while let Some(page) = walk.next().await? {
        all.extend(page.into_iter().filter_map(|(key, value)| Some((key.strip_prefix(prefix)?.to_owned(), value))));
    }
    Ok(all)
}

/// Returns the nodes that have a lease.
pub(super) async fn running(store: &ServerStore) -> Result<Vec<String>, StoreError> {
    Ok(all(store, LEASES).await?.into_keys().collect())
}

/// The regular check of the list by one node.
#[derive(Default)]
pub(super) struct Sweep {
    /// The nodes that had no lease at the last check. A node that starts has an entry before its lease.
    suspects: HashSet<String>,
    /// The nodes whose state keys were reported.
    foreign: BTreeSet<String>,
}

impl Sweep {
    /// Checks the list at half of the lifetime of a lease, while the lease of this node is valid.
    pub(super) async fn run(mut self, shared: &Shared, lease: &Lease) {
        loop {
            sleep(shared.limits.lease / 2).await;
            if let Err(error) = self.check(shared, lease.id()).await {
                tracing::debug!(%error, "the work of stopped nodes ends later");
            }
        }
    }

    /// Reports each node that has state keys, and none in common with this node. Nodes of a rotation have a common key.
    fn compare_keys(&mut self, own: &[String], leases: &BTreeMap<String, Arc<[u8]>>) {
        if own.is_empty() {
            return;
        }
        let is_foreign = |lease: &[u8]| {
            let Ok(lease) = std::str::from_utf8(lease) else { return false };
            let mut keys = lease.split(' ').skip(1).peekable();
            keys.peek().is_some() && !keys.any(|key| own.iter().any(|own| own == key))
        };
        let foreign = leases.iter().filter(|(_, lease)| is_foreign(lease)).map(|(id, _)| id.clone()).collect();
        for node in BTreeSet::difference(&foreign, &self.foreign) {
            tracing::warn!(node, "{FOREIGN_KEYS}");
        }
        self.foreign = foreign;
    }

    async fn check(&mut self, shared: &Shared, me: &str) -> Result<(), StoreError> {
        let store = &shared.store;
        let mut members = all(store, MEMBERS).await?;
        let leases = all(store, LEASES).await?;
        self.compare_keys(&shared.keys, &leases);
        if !members.contains_key(me) {
            add(store, me).await?;
        }
        let is_running = |id: &[u8]| std::str::from_utf8(id).is_ok_and(|id| leases.contains_key(id));
        members.retain(|id, _| !leases.contains_key(id));
        let suspects = std::mem::replace(&mut self.suspects, members.keys().cloned().collect());
        let (mut stopped, mine) = (HashSet::new(), Arc::<[u8]>::from(me.as_bytes()));
        for (id, responsible) in members.into_iter().filter(|(id, _)| suspects.contains(id)) {
            let is_mine = *responsible == *mine;
            if !is_mine && is_running(&responsible) {
                continue;
            }
            // The entry keeps its lifetime, because another claim follows if this node stops.
            if is_mine
                || store.compare_and_swap(&key(&id), Some(&responsible), Some(mine.clone()), Some(TTL)).await?.is_done()
            {
                stopped.insert(id);
            }
        }
        if stopped.is_empty() {
            return Ok(());
        }
        let stopped = Arc::new(stopped);
        let endings = shared.endings.lock().clone();
        for ending in endings {
            ending(stopped.clone()).await?;
        }
        for id in &*stopped {
            store.compare_and_swap(&key(id), Some(&mine), None, None).await?;
            self.suspects.remove(id);
            tracing::debug!(node = id, "the work of a stopped node has ended");
        }
        Ok(())
    }
}
