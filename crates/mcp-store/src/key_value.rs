//! The trait for records under keys, and its return types.

use std::{fmt, sync::Arc, time::Duration};

use crate::StoreFuture;

/// Records under keys, each with an optional time to live.
///
/// Keys are text of 1 to [`MAX_NAME_BYTES`](crate::limits::MAX_NAME_BYTES) bytes. An expired record does not exist
/// for callers. A caller sees its own earlier writes.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_store::{KeyValue, MemoryStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_store::StoreError> {
/// let store = MemoryStore::new();
/// store.put("task/1", Arc::from(*b"queued"), None).await?;
/// store.put("task/2", Arc::from(*b"queued"), None).await?;
/// let page = store.list("task/", None, 100).await?;
/// assert_eq!((page.entries.len(), page.next), (2, None));
/// assert!(store.delete("task/1").await?);
/// assert_eq!(store.get("task/1").await?, None);
/// # Ok(())
/// # }
/// ```
pub trait KeyValue: Send + Sync + fmt::Debug + 'static {
    /// Returns the value under `key`.
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Arc<[u8]>>>;

    /// Writes `value` under `key` and replaces an earlier record with its time to live. Without a `ttl` the record
    /// stays until it is deleted.
    fn put<'a>(&'a self, key: &'a str, value: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, ()>;

    /// Replaces the record under `key` if its value is still `expected` (`None`: if there is no record). The step is
    /// atomic. `new` as `None` deletes the record.
    ///
    /// Writing the same value with another `ttl` extends the life of a record, and does not restore a deleted record.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use mcp_store::{KeyValue, MemoryStore, Swap};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_store::StoreError> {
    /// let store = MemoryStore::new();
    /// let created = store.compare_and_swap("lease", None, Some(Arc::from(*b"node 1")), None).await?;
    /// assert_eq!(created, Swap::Done);
    /// let lost = store.compare_and_swap("lease", None, Some(Arc::from(*b"node 2")), None).await?;
    /// assert_eq!(lost, Swap::Lost { current: Some(Arc::from(*b"node 1")) });
    /// let deleted = store.compare_and_swap("lease", Some(b"node 1"), None, None).await?;
    /// assert!(deleted.is_done());
    /// # Ok(())
    /// # }
    /// ```
    fn compare_and_swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a [u8]>,
        new: Option<Arc<[u8]>>,
        ttl: Option<Duration>,
    ) -> StoreFuture<'a, Swap>;

    /// Deletes the record under `key`. Returns whether it existed.
    fn delete<'a>(&'a self, key: &'a str) -> StoreFuture<'a, bool>;

    /// Returns records whose keys begin with `prefix`, in byte order of the keys, from the first key after `after`. A
    /// page has at most `limit` records, and never more than [`MAX_PAGE`](crate::limits::MAX_PAGE).
    ///
    /// A record that exists during a whole listing is listed exactly once, regardless of other changes.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use mcp_store::{KeyValue, MemoryStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_store::StoreError> {
    /// let store = MemoryStore::new();
    /// for key in ["a/1", "a/2", "a/3", "b/1"] {
    ///     store.put(key, Arc::from(*b""), None).await?;
    /// }
    /// let (mut keys, mut after) = (Vec::new(), None::<String>);
    /// loop {
    ///     let page = store.list("a/", after.as_deref(), 2).await?;
    ///     keys.extend(page.entries.into_iter().map(|(key, _)| key));
    ///     after = page.next;
    ///     if after.is_none() {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(keys, ["a/1", "a/2", "a/3"]);
    /// # Ok(())
    /// # }
    /// ```
    fn list<'a>(&'a self, prefix: &'a str, after: Option<&'a str>, limit: usize) -> StoreFuture<'a, KeyPage>;
}

/// The outcome of a compare-and-swap.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_store::Swap;
///
/// let lost = Swap::Lost { current: Some(Arc::from(*b"secret")) };
/// assert!(Swap::Done.is_done() && !lost.is_done());
/// // The debug text has no values.
/// assert_eq!(format!("{lost:?}"), "Lost(6 bytes)");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Swap {
    /// The record had the expected value and was replaced.
    Done,
    /// The record had another value. Nothing was changed.
    Lost {
        /// The current value.
        current: Option<Arc<[u8]>>,
    },
}

impl Swap {
    /// Whether the record was replaced.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }
}

// Values may be secrets, so only their sizes are printed.
impl fmt::Debug for Swap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("Done"),
            Self::Lost { current: None } => f.write_str("Lost(no record)"),
            Self::Lost { current: Some(value) } => write!(f, "Lost({} bytes)", value.len()),
        }
    }
}

/// A page of a listing.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_store::KeyPage;
///
/// let page = KeyPage::new(vec![("task/1".to_owned(), Arc::from(*b"queued"))], Some("task/1".to_owned()));
/// assert_eq!(page.entries.len(), 1);
/// assert_eq!(page.next.as_deref(), Some("task/1"));
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct KeyPage {
    /// Keys and values, in byte order of the keys.
    pub entries: Vec<(String, Arc<[u8]>)>,
    /// The cursor if more records may follow: pass it as `after` of the next call.
    pub next: Option<String>,
}

impl KeyPage {
    /// Returns a page with entries and the key after which the next page starts.
    pub fn new(entries: Vec<(String, Arc<[u8]>)>, next: Option<String>) -> Self {
        Self { entries, next }
    }
}

impl fmt::Debug for KeyPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPage").field("entries", &self.entries.len()).field("next", &self.next).finish()
    }
}
