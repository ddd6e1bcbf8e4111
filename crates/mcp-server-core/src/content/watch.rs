//! Tells clients of files that come, go and change, by looking at a directory again and again.

use std::{
    collections::HashSet,
    fmt,
    ops::Bound,
    sync::{Arc, Weak},
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{
    runtime::Handle,
    task::{AbortHandle, spawn_blocking},
};

use super::{ResourceDir, listing::Listing};
use crate::{
    RegistrationError, Server, change,
    data::ServerData,
    registry::{Change, ResourceEntry},
};

/// A directory, and what of it is listed.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    dir: Arc<ResourceDir>,
    known: Known,
}

/// What of a directory is listed.
#[derive(Debug, Clone, Default)]
pub(super) struct Known(Arc<Mutex<Listing>>);

impl Known {
    fn listing(&self) -> MutexGuard<'_, Listing> {
        self.0.lock()
    }

    /// Lists something else; gives back what was listed.
    pub(super) fn replace(&self, listing: Listing) -> Listing {
        std::mem::replace(&mut *self.listing(), listing)
    }

    pub(super) fn beginning_with(&self, text: &str) -> Vec<String> {
        let listing = self.listing();
        let begin = listing.range::<str, _>((Bound::Included(text), Bound::Unbounded)).map(|(path, _)| path);
        begin.take_while(|path| path.starts_with(text)).cloned().collect()
    }
}

impl Watched {
    pub(super) fn new(dir: Arc<ResourceDir>, known: Known) -> Self {
        Self { dir, known }
    }

    /// Looks at the directory until the server is gone or ends.
    async fn run(self, server: Weak<ServerData>) {
        let Some(interval) = self.dir.interval() else { return };
        let Some(shutdown) = server.upgrade().map(|data| data.shutdown.clone()) else { return };
        let looking = async {
            loop {
                tokio::time::sleep(interval).await;
                let dir = self.dir.clone();
                let now = spawn_blocking(move || dir.list()).await;
                let Some(data) = server.upgrade() else { return };
                match now {
                    Ok(Ok(now)) => self.compare(&Server { data }, &now),
                    // It may be back the next time: what is listed stays until then.
                    Ok(Err(error)) => tracing::debug!(%error, "a directory of resources cannot be read"),
                    Err(_) => {}
                }
            }
        };
        tokio::select! {
            () = looking => {}
            () = shutdown.cancelled() => {}
        }
    }

    /// Makes the list what the directory is, and tells of the difference.
    fn compare(&self, server: &Server, now: &Listing) {
        let before = self.known.replace(now.clone());
        if before == *now {
            return;
        }
        let entry = |path: &str| -> Result<ResourceEntry, RegistrationError> {
            let (spec, run) = self.dir.file_route::<()>(path, &now[path]).check()?;
            Ok(ResourceEntry { spec, run: run.with_state(()) })
        };
        let gone: HashSet<String> =
            before.keys().filter(|path| !now.contains_key(*path)).map(|path| self.dir.uri(path)).collect();
        let changed: Vec<&String> = now
            .iter()
            .filter(|(path, stamp)| before.get(*path).is_some_and(|old| old != *stamp))
            .map(|(p, _)| p)
            .collect();
        let new: Vec<&String> = now.keys().filter(|path| !before.contains_key(*path)).collect();
        let entries = |paths: &[&String]| paths.iter().filter_map(|path| entry(path).ok()).collect();
        let Change { taken, differs } = server.data.resources.change(&gone, entries(&changed), entries(&new));
        if !taken.is_empty() {
            // They are new at every look, and listed as soon as their URIs are free.
            tracing::debug!(?taken, "files are not listed: their URIs are other resources'");
            self.known.listing().retain(|path, _| !taken.contains(&self.dir.uri(path)));
        }
        if differs {
            server.data.publisher.publish(change::Change::Resources);
        }
        for uri in gone {
            server.notify().resource_updated(&uri);
        }
        for path in changed {
            server.notify().resource_updated(&self.dir.uri(path));
        }
    }
}

/// The directories of a server, and what looks at them.
#[derive(Default)]
pub(crate) struct Watchers {
    watched: Vec<Watched>,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Watchers {
    pub(crate) fn new(watched: Vec<Watched>) -> Self {
        let watched = watched.into_iter().filter(|watched| watched.dir.interval().is_some()).collect();
        Self { watched, tasks: Mutex::default() }
    }

    /// Looks at the directories from now on, where there is a runtime to do it.
    pub(crate) fn start(&self, server: &Arc<ServerData>) {
        if self.watched.is_empty() {
            return;
        }
        let mut tasks = self.tasks.lock();
        // A runtime of another time may have ended with the tasks.
        if !tasks.is_empty() && !tasks.iter().all(AbortHandle::is_finished) {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let run = |watched: &Watched| runtime.spawn(watched.clone().run(Arc::downgrade(server))).abort_handle();
        *tasks = self.watched.iter().map(run).collect();
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        for task in self.tasks.get_mut().drain(..) {
            task.abort();
        }
    }
}

impl fmt::Debug for Watchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watchers").field(&self.watched.len()).finish()
    }
}
