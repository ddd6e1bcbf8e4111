//! Follows the files of a host: configuration files, policy files and the file of pins.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use super::Host;
use crate::{
    config::{ConfigDiff, ConfigFile, ConfigWatch, ServerDefinition},
    policy::PolicyFile,
};

/// The faults of the last readings of configuration files and watched files.
#[derive(Debug, Default)]
pub(super) struct FileFaults {
    faults: Mutex<BTreeMap<PathBuf, Vec<String>>>,
}

impl FileFaults {
    /// Sets the faults of a file, and logs new ones.
    pub(super) fn set(&self, path: &Path, found: Vec<String>) {
        let mut faults = self.faults.lock();
        if faults.get(path).is_some_and(|known| *known == found) {
            return;
        }
        for fault in &found {
            tracing::warn!(path = %path.display(), fault, "an entry or a change of a configuration or policy file has no effect");
        }
        if found.is_empty() {
            faults.remove(path)
        } else {
            faults.insert(path.to_owned(), found)
        };
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.faults.lock().values().flatten().cloned().collect()
    }
}

/// A configuration file of a host, with the definitions that the host has.
pub(super) struct Source {
    pub(super) watch: ConfigWatch,
    pub(super) path: PathBuf,
    pub(super) known: Vec<ServerDefinition>,
    /// The failed servers of entries that have had a fault since the start of the host.
    pub(super) faulty: Vec<String>,
}

impl Source {
    /// Returns whether a server of the host can be of this file. A disabled entry has no server.
    fn owns(&self, name: &str) -> bool {
        self.faulty.iter().any(|known| known == name)
            || self.known.iter().any(|known| known.enabled && known.name == name)
    }
}

/// Follows the files until the host ends. The tasks do not keep the host running.
pub(super) fn follow(host: &Host, sources: Vec<Source>, every: Duration) {
    for mut source in sources {
        let host = host.without_guard();
        source.watch = source.watch.interval(every);
        tokio::spawn(async move {
            let closing = host.registry().closing.clone();
            closing.run_until_cancelled(follow_config(&host, source)).await;
        });
    }
    let policies: Vec<PolicyFile> = host.inner.shared.gate.files().cloned().collect();
    let pins = host.registry().pins.as_ref().and_then(|pins| pins.path()).map(Path::to_owned);
    if policies.is_empty() && pins.is_none() {
        return;
    }
    let host = host.without_guard();
    tokio::spawn(async move {
        let closing = host.registry().closing.clone();
        closing.run_until_cancelled(follow_files(&host, policies, pins, every)).await;
    });
}

async fn follow_config(host: &Host, mut source: Source) {
    loop {
        match source.watch.next().await {
            Ok(file) => {
                let faults = apply(host, &mut source, file).await;
                host.inner.faults.set(&source.path, faults);
            }
            Err(error) => host.inner.faults.set(&source.path, vec![error.to_string()]),
        }
    }
}

/// Applies a reading of a configuration file. Returns the changes that failed.
async fn apply(host: &Host, source: &mut Source, file: ConfigFile) -> Vec<String> {
    let mut faults: Vec<String> = file.errors.iter().map(ToString::to_string).collect();
    let unusable: Vec<String> = file.unusable().map(|(name, _)| name.to_owned()).collect();
    let mut servers = file.servers;
    // The server of an entry with a fault stays as it is.
    servers.extend(source.known.iter().filter(|server| unusable.contains(&server.name)).cloned());
    let changes = ConfigDiff::between(&source.known, &servers);
    let is_absent = |name: &&String| !unusable.contains(name) && servers.iter().all(|server| server.name != **name);
    for name in changes.removed.iter().chain(source.faulty.iter().filter(is_absent)) {
        if source.owns(name) {
            host.remove(name).await;
        }
    }
    let (mut missing, mut failed) = (Vec::new(), Vec::new());
    for definition in &servers {
        let name = &definition.name;
        if !changes.changed.contains(name) && !changes.added.contains(name) {
            continue;
        }
        // Another source can have a server with the name of a new entry.
        let is_present = source.owns(name) && host.status(name).is_some();
        let applied = match definition.enabled {
            _ if is_present => host.replace_definition(definition).await,
            true => host.add_watched(definition).await,
            false => Ok(()),
        };
        match applied {
            Ok(()) => tracing::info!(server = name, "the configuration of a server changed"),
            Err(error) => {
                faults.push(error.to_string());
                if is_present { failed.push(name.clone()) } else { missing.push(name.clone()) }
            }
        }
    }
    servers.retain(|server| !missing.contains(&server.name));
    // The former server stays, so each later reading tries the new definition again and reports its fault.
    for name in &failed {
        servers.retain(|server| server.name != *name);
        servers.extend(source.known.iter().find(|known| known.name == *name).cloned());
    }
    source.faulty.retain(|name| unusable.contains(name) || failed.contains(name));
    source.known = servers;
    faults
}

/// The time and the size of a file, which change with its content.
type Stamp = Option<(SystemTime, u64)>;

async fn follow_files(host: &Host, policies: Vec<PolicyFile>, pins: Option<PathBuf>, every: Duration) {
    let policies: Arc<[PolicyFile]> = policies.into();
    let mut ticks = interval(every.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last: Option<Stamp> = None;
    loop {
        ticks.tick().await;
        let (files, path) = (Arc::clone(&policies), pins.clone());
        let read = spawn_blocking(move || {
            let policies: Vec<_> = files.iter().map(|file| (file.path().to_owned(), file.reload())).collect();
            (policies, path.map(|path| stamp(&path)))
        });
        let Ok((policies, stamp)) = read.await else { continue };
        for (path, reloaded) in policies {
            match reloaded {
                Ok(Some(true)) => {
                    tracing::info!(path = %path.display(), "a policy changed");
                    host.inner.faults.set(&path, Vec::new());
                }
                Ok(Some(false)) => host.inner.faults.set(&path, Vec::new()),
                // The text is that of the last reading, and so is its fault.
                Ok(None) => {}
                Err(error) => host.inner.faults.set(&path, vec![error.to_string()]),
            }
        }
        if let (Some(stamp), Some(path)) = (stamp, &pins) {
            // The first reading reviews too, because the file can have changed since the start of the servers.
            if last != Some(stamp) {
                let mut faults = Vec::new();
                for slot in host.registry().slots() {
                    faults.extend(slot.review(host.registry()).await);
                }
                faults.dedup();
                host.inner.faults.set(path, faults);
            }
            last = Some(stamp);
        }
    }
}

fn stamp(path: &Path) -> Stamp {
    let found = std::fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}
