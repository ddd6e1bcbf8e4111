//! The roots of a client: the directories in which servers may work.

use std::{fmt, sync::Arc};

use mcp_protocol::{Excerpt, Root};
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::Error;

/// The roots of a client. Clones share them. The client notifies the server of each change, in revisions with such a
/// notification.
///
/// Each root is a `file://` URI, and all URIs are different.
///
/// # Example
/// ```
/// use mcp_client::{Client, Roots, protocol::Root};
///
/// let builder = Client::builder("my-app", "1.0").roots([Root::new("file:///home/ada/project")]);
/// let roots = Roots::new([Root::new("file:///a")])?;
/// assert!(roots.add(Root::new("file:///b"))?);
/// assert_eq!(roots.list().len(), 2);
/// assert!(roots.remove("file:///a"));
/// roots.set([Root::new("file:///c")])?;
/// # Ok::<_, mcp_client::Error>(())
/// ```
#[derive(Clone)]
pub struct Roots {
    inner: Arc<Inner>,
}

struct Inner {
    roots: RwLock<Vec<Root>>,
    changes: watch::Sender<u64>,
}

impl Roots {
    /// Returns these roots. Of two roots with the same URI the first one counts.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// If a root is not a `file://` URI.
    pub fn new(roots: impl IntoIterator<Item = Root>) -> Result<Self, Error> {
        let new = Self { inner: Arc::new(Inner { roots: RwLock::default(), changes: watch::Sender::new(0) }) };
        for root in roots {
            new.add(root)?;
        }
        Ok(new)
    }

    /// Returns a copy of the roots.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn list(&self) -> Vec<Root> {
        self.inner.roots.read().clone()
    }

    /// Adds a root. Returns false if its URI is present.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// If it is not a `file://` URI.
    pub fn add(&self, root: Root) -> Result<bool, Error> {
        check(&root)?;
        Ok(self.change(|roots| {
            let is_new = roots.iter().all(|known| known.uri != root.uri);
            if is_new {
                roots.push(root);
            }
            is_new
        }))
    }

    /// Removes a root by its URI. Returns false if it is not present.
    ///
    /// See the [example](Self#example).
    pub fn remove(&self, uri: &str) -> bool {
        self.change(|roots| {
            let before = roots.len();
            roots.retain(|root| root.uri != uri);
            roots.len() != before
        })
    }

    /// Replaces all roots.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// If a root is not a `file://` URI. Then nothing changes.
    pub fn set(&self, new: impl IntoIterator<Item = Root>) -> Result<(), Error> {
        let mut unique: Vec<Root> = Vec::new();
        for root in new {
            check(&root)?;
            if unique.iter().all(|known| known.uri != root.uri) {
                unique.push(root);
            }
        }
        self.change(|roots| {
            let is_other = *roots != unique;
            *roots = unique;
            is_other
        });
        Ok(())
    }

    /// Returns a receiver of the number of changes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Root>) -> bool) -> bool {
        let is_changed = change(&mut self.inner.roots.write());
        if is_changed {
            self.inner.changes.send_modify(|count| *count += 1);
        }
        is_changed
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list().iter().map(|root| &root.uri)).finish()
    }
}

fn check(root: &Root) -> Result<(), Error> {
    let scheme = root.uri.get(..7).unwrap_or_default();
    if scheme.eq_ignore_ascii_case("file://") {
        return Ok(());
    }
    let shown = Excerpt::new(&root.uri);
    Err(Error::request(format!("a root must be a `file://` URI, not {shown:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_unique_file_uris_and_changes_are_counted() {
        let roots = Roots::new([Root::new("file:///a"), Root::new("file:///a")]).unwrap();
        let changes = roots.changes();
        let before = *changes.borrow();
        assert!(Roots::new([Root::new("https://example.com")]).is_err());
        assert!(roots.add(Root::new("file:///b")).unwrap());
        assert!(!roots.add(Root::new("file:///b").with_name("again")).unwrap());
        assert!(roots.add(Root::new("/b")).is_err());
        assert!(roots.remove("file:///a") && !roots.remove("file:///a"));
        assert!(roots.set([Root::new("file:///c"), Root::new("x")]).is_err());
        roots.set([Root::new("file:///b")]).unwrap();
        assert_eq!(*changes.borrow() - before, 2);
        assert_eq!(format!("{roots:?}"), r#"["file:///b"]"#);
    }
}
