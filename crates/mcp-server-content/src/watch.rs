//! Watches a directory of resources by listing it again and again, and notifies clients of the differences.

use std::{ops::Bound, sync::Arc, time::Duration};

use mcp_server_core::{
    Server,
    extension::{BackgroundWork, ResourceUpdate, WeakServer},
};
use parking_lot::{Mutex, MutexGuard};
use tokio::task::spawn_blocking;

use crate::{listing::Listing, resource_dir::Settings};

/// A directory together with the files that the server lists.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    settings: Arc<Settings>,
    listed: Listed,
}

/// The files of a directory that the server lists. The clones share one listing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listed(Arc<Mutex<Listing>>);

impl Listed {
    fn lock(&self) -> MutexGuard<'_, Listing> {
        self.0.lock()
    }

    /// Replaces the listing, and returns the former one.
    pub(crate) fn replace(&self, listing: Listing) -> Listing {
        std::mem::replace(&mut *self.lock(), listing)
    }

    /// Returns the paths that begin with a text.
    pub(crate) fn beginning_with(&self, text: &str) -> Vec<String> {
        let listing = self.lock();
        let begin = listing.range::<str, _>((Bound::Included(text), Bound::Unbounded)).map(|(path, _)| path);
        begin.take_while(|path| path.starts_with(text)).cloned().collect()
    }
}

impl Watched {
    pub(crate) fn new(settings: Arc<Settings>, listed: Listed) -> Self {
        Self { settings, listed }
    }

    /// Lists the directory at each interval, until the server is dropped.
    pub(crate) fn run(self, interval: Duration, server: WeakServer) -> BackgroundWork {
        BackgroundWork::new(async move {
            loop {
                tokio::time::sleep(interval).await;
                let settings = self.settings.clone();
                let now = spawn_blocking(move || settings.list()).await;
                let Some(server) = server.upgrade() else { return };
                match now {
                    Ok(Ok(now)) => self.update(&server, &now),
                    // The directory may be readable again at the next interval. Until then the list stays as it is.
                    Ok(Err(error)) => tracing::debug!(%error, "a directory of resources cannot be read"),
                    Err(_) => {}
                }
            }
        })
    }

    /// Updates the resources of the server to a listing, and notifies subscribers of each changed file.
    fn update(&self, server: &Server, now: &Listing) {
        let before = self.listed.replace(now.clone());
        if before == *now {
            return;
        }
        let mut update = ResourceUpdate::default();
        let mut updated = Vec::new();
        for path in before.keys().filter(|path| !now.contains_key(*path)) {
            let uri = self.settings.uri(path);
            update.remove(&uri);
            updated.push(uri);
        }
        for (path, stamp) in now {
            let route = || self.settings.file_route(path, stamp);
            let registered = match before.get(path) {
                None => update.add(route()),
                Some(old) if old != stamp => {
                    updated.push(self.settings.uri(path));
                    update.replace(route())
                }
                Some(_) => Ok(()),
            };
            if let Err(error) = registered {
                tracing::debug!(path, %error, "a file is not listed");
            }
        }
        let taken = server.resources().apply(update);
        if !taken.is_empty() {
            // These files count as new at every interval, so that the server lists them as soon as their URIs are free.
            tracing::debug!(?taken, "files are not listed: other resources have their URIs");
            self.listed.lock().retain(|path, _| !taken.contains(&self.settings.uri(path)));
        }
        for uri in updated {
            server.notify().resource_updated(&uri);
        }
    }
}
