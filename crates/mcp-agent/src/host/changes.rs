//! The changes of the catalog.

use std::{fmt, sync::Arc};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::catalog::Catalog;

/// A stream of the snapshots of a catalog. A slow reader skips snapshots.
///
/// ```
/// # async fn example(host: mcp_agent::Host) {
/// let mut changes = host.catalog_changes();
/// while let Some(catalog) = changes.next().await {
///     println!("generation {} has {} tools", catalog.generation(), catalog.tools().len());
/// }
/// # }
/// ```
pub struct CatalogChanges {
    catalogs: watch::Receiver<Arc<Catalog>>,
    closing: CancellationToken,
}

impl CatalogChanges {
    pub(super) fn new(catalogs: watch::Receiver<Arc<Catalog>>, closing: CancellationToken) -> Self {
        Self { catalogs, closing }
    }

    /// Returns the current snapshot.
    #[must_use]
    pub fn current(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalogs.borrow())
    }

    /// Waits for a newer snapshot than the last one; `None` after the end of the host. Cancel safe.
    ///
    /// See the example of the [type](Self).
    pub async fn next(&mut self) -> Option<Arc<Catalog>> {
        self.closing.run_until_cancelled(self.catalogs.changed()).await?.ok()?;
        Some(Arc::clone(&self.catalogs.borrow_and_update()))
    }

    /// Waits for a snapshot that fulfils the condition, and returns it; `None` after the end of the host. The current
    /// snapshot counts. Cancel safe.
    pub async fn wait_for(&mut self, mut condition: impl FnMut(&Catalog) -> bool) -> Option<Arc<Catalog>> {
        let found = self.catalogs.wait_for(|catalog| condition(catalog));
        Some(Arc::clone(&*self.closing.run_until_cancelled(found).await?.ok()?))
    }
}

impl fmt::Debug for CatalogChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatalogChanges").field("current", &self.current()).finish_non_exhaustive()
    }
}
