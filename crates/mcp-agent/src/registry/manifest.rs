//! The items of all servers on disk, so that a host has a catalog before its servers start.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::{
    bounded_file,
    catalog::ServerEntries,
    config::{lock_file, replace_file},
};

/// The version of the file. A file of another version is ignored.
const VERSION: u32 = 3;
/// The largest file that is read, in bytes.
const LARGEST: u64 = 256 << 20;
/// The largest number of servers in the file. Beyond it, those that were stored first are removed.
const SERVERS: usize = 512;

/// The file with the items of all servers. Several hosts can use it at the same time.
pub(crate) struct Manifest {
    path: PathBuf,
    stored: Mutex<HashMap<String, Arc<ServerEntries>>>,
    is_scheduled: AtomicBool,
    /// Held while the file is written.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    /// The servers by their name and the fingerprint of their definition.
    servers: HashMap<String, Stored>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Stored {
    /// The time of the last change, in seconds since 1970.
    changed: u64,
    entries: Arc<ServerEntries>,
}

impl Manifest {
    /// Reads the file. A missing or invalid file has no items. The function blocks the thread for the time of the read.
    pub(crate) fn read(path: PathBuf) -> Self {
        let stored = read(&path).into_iter().map(|(key, stored)| (key, stored.entries)).collect();
        Self {
            path,
            stored: Mutex::new(stored),
            is_scheduled: AtomicBool::default(),
            writing: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the items of a server with this fingerprint.
    pub(super) fn find(&self, server: &str, fingerprint: &str) -> Option<ServerEntries> {
        self.stored.lock().get(&key(server, fingerprint)).map(|entries| (**entries).clone())
    }

    /// Returns true if the caller must write the file. Otherwise another task does so.
    pub(super) fn schedule(&self) -> bool {
        !self.is_scheduled.swap(true, Ordering::AcqRel)
    }

    /// Lets later changes cause another write. Call it before reading the items.
    pub(super) fn unschedule(&self) {
        self.is_scheduled.store(false, Ordering::Release);
    }

    /// Replaces the items of these servers, and writes the file if they changed. Forgets the items of other definitions.
    pub(super) async fn write(&self, servers: impl Iterator<Item = (Arc<str>, Arc<str>, Arc<ServerEntries>)>) {
        let servers: Vec<_> = servers.collect();
        let _writing = self.writing.lock().await;
        let keyed = servers.into_iter().map(|(name, fingerprint, entries)| (key(&name, &fingerprint), entries));
        let current: HashMap<String, Arc<ServerEntries>> = keyed.collect();
        let changed: Vec<(String, Arc<ServerEntries>)> = {
            let mut stored = self.stored.lock();
            // The servers have taken their items from the disk at the start of the host.
            stored.retain(|key, _| current.contains_key(key));
            let is_new = |(key, entries): &(String, Arc<ServerEntries>)| stored.get(key) != Some(entries);
            current.into_iter().filter(is_new).collect()
        };
        if changed.is_empty() {
            return;
        }
        let (path, new) = (self.path.clone(), changed.clone());
        match tokio::task::spawn_blocking(move || update(&path, new)).await {
            Ok(Ok(())) => self.stored.lock().extend(changed),
            Ok(Err(error)) => tracing::warn!(path = %self.path.display(), %error, "the manifest cannot be written"),
            Err(error) => tracing::warn!(%error, "the manifest was not written"),
        }
    }
}

fn key(server: &str, fingerprint: &str) -> String {
    format!("{fingerprint} {server}")
}

/// Returns the servers of the file. A file that cannot be used has none.
fn read(path: &Path) -> HashMap<String, Stored> {
    let read = || -> io::Result<File> { Ok(serde_json::from_slice(&bounded_file::read(path, LARGEST)?)?) };
    match read() {
        Ok(file) if file.version == VERSION => file.servers,
        Ok(file) => {
            tracing::debug!(path = %path.display(), version = file.version, "the manifest has another version");
            HashMap::new()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => HashMap::new(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the manifest is ignored: it cannot be read");
            HashMap::new()
        }
    }
}

/// Replaces the items of these servers in the file. The items of other hosts stay.
fn update(path: &Path, new: Vec<(String, Arc<ServerEntries>)>) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    let _lock = lock_file(&path.with_file_name(name))?;
    let changed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut servers = read(path);
    servers.extend(new.into_iter().map(|(key, entries)| (key, Stored { changed, entries })));
    replace_file(path, &bounded(servers, SERVERS, LARGEST)?)
}

/// Returns the text of a file with at most this many servers and bytes. The servers that were stored first are removed.
fn bounded(servers: HashMap<String, Stored>, most: usize, largest: u64) -> io::Result<Vec<u8>> {
    let mut file = File { version: VERSION, servers };
    let mut times: Vec<(u64, String)> =
        file.servers.iter().map(|(key, stored)| (stored.changed, key.clone())).collect();
    times.sort_unstable();
    let mut oldest = times.into_iter();
    let mut surplus = file.servers.len().saturating_sub(most);
    loop {
        for (_, key) in oldest.by_ref().take(surplus) {
            file.servers.remove(&key);
        }
        let text = serde_json::to_vec(&file)?;
        if text.len() as u64 <= largest || file.servers.is_empty() {
            return Ok(text);
        }
        surplus = file.servers.len().div_ceil(4);
    }
}

#[cfg(test)]
mod tests;
