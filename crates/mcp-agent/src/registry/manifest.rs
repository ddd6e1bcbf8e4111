//! The items of all servers on disk, so that a host has a catalog before its servers start.

use std::{collections::HashMap, fs, io::Write as _, path::PathBuf, sync::Arc};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::catalog::ServerEntries;

/// The version of the file. A file of another version is ignored.
const VERSION: u32 = 1;
/// The largest file that is read, in bytes.
const LARGEST: u64 = 256 << 20;

/// The file with the items of all servers.
pub(super) struct Manifest {
    path: PathBuf,
    stored: Mutex<HashMap<String, Stored>>,
    /// Held while the file is written.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    servers: HashMap<String, Stored>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Stored {
    fingerprint: String,
    entries: Arc<ServerEntries>,
}

impl Manifest {
    /// Reads the file. A missing or invalid file has no items.
    pub(super) fn read(path: PathBuf) -> Self {
        let stored = match fs::metadata(&path) {
            Ok(found) if found.len() <= LARGEST => {
                match fs::read(&path).map(|bytes| serde_json::from_slice::<File>(&bytes)) {
                    Ok(Ok(file)) if file.version == VERSION => file.servers,
                    Ok(Ok(_)) => HashMap::new(),
                    Ok(Err(error)) => {
                        tracing::warn!(path = %path.display(), %error, "the manifest is invalid and is ignored");
                        HashMap::new()
                    }
                    Err(error) => {
                        tracing::warn!(path = %path.display(), %error, "the manifest cannot be read");
                        HashMap::new()
                    }
                }
            }
            _ => HashMap::new(),
        };
        Self { path, stored: Mutex::new(stored), writing: tokio::sync::Mutex::default() }
    }

    /// Returns the items of a server with this fingerprint.
    pub(super) fn find(&self, server: &str, fingerprint: &str) -> Option<ServerEntries> {
        let stored = self.stored.lock();
        let found = stored.get(server).filter(|found| found.fingerprint == fingerprint)?;
        Some((*found.entries).clone())
    }

    /// Replaces the items of these servers, and writes the file if they changed.
    pub(super) async fn write(&self, servers: HashMap<Arc<str>, (Arc<str>, Arc<ServerEntries>)>) {
        let _writing = self.writing.lock().await;
        let file = {
            let mut stored = self.stored.lock();
            let mut has_changed = false;
            for (name, (fingerprint, entries)) in servers {
                let new = Stored { fingerprint: fingerprint.to_string(), entries };
                if stored.get(&*name) != Some(&new) {
                    stored.insert(name.to_string(), new);
                    has_changed = true;
                }
            }
            if !has_changed {
                return;
            }
            File { version: VERSION, servers: stored.clone() }
        };
        let path = self.path.clone();
        let written = tokio::task::spawn_blocking(move || write(&path, &file)).await;
        match written {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(path = %self.path.display(), %error, "the manifest cannot be written"),
            Err(error) => tracing::warn!(%error, "the manifest was not written"),
        }
    }
}

/// Writes the file completely or not at all.
fn write(path: &std::path::Path, file: &File) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = (|| {
        let mut out = fs::File::create(&temporary)?;
        out.write_all(&serde_json::to_vec(file)?)?;
        out.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // The next write replaces a file that is left.
        let _ = fs::remove_file(&temporary);
    }
    written
}
