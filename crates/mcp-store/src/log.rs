//! The trait for append-only logs, with its parameters and return types.

use std::{fmt, sync::Arc, time::Duration};

use crate::StoreFuture;

/// Append-only logs under names. Each log numbers its own records.
///
/// The first record of a log has the sequence 1, and each further record the next number, also after the log was
/// trimmed. A log that does not exist, was deleted or has expired is empty; the next append starts at 1 again.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_store::{Log, MemoryStore, Retain};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_store::StoreError> {
/// let store = MemoryStore::new();
/// for event in [&b"first"[..], b"second", b"third"] {
///     store.append("events", Arc::from(event), None).await?;
/// }
/// assert_eq!(store.trim("events", Retain::all().records(1)).await?, 2);
///
/// let page = store.read_after("events", 0, 100).await?;
/// assert_eq!((page.missed, page.more), (2, false));
/// assert_eq!((page.records[0].sequence, &*page.records[0].data), (3, &b"third"[..]));
/// assert!(store.delete_log("events").await?);
/// # Ok(())
/// # }
/// ```
pub trait Log: Send + Sync + fmt::Debug + 'static {
    /// Appends `data` and returns its sequence. The whole log expires `ttl` after its last append or
    /// [extension](Self::extend). Without a `ttl` it stays until it is deleted.
    fn append<'a>(&'a self, log: &'a str, data: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, u64>;

    /// Appends `data` as the record `number` of `writer`, at most once, and returns its sequence. The expiry is that of
    /// [`append`](Self::append).
    ///
    /// A writer is a random number, and numbers its records from 1 to [`MAX_NUMBER`](crate::limits::MAX_NUMBER) in increasing
    /// order. If the last record of the writer has this number already, nothing is appended, and its sequence is returned.
    /// A writer therefore repeats an append that may have failed. If the last record of the writer has a greater number,
    /// nothing is appended, and `None` is returned. Another process so excludes a writer: it appends a record with a number
    /// that this writer does not reach.
    ///
    /// The log forgets the numbers when it is deleted or expires. It remembers the last
    /// [`MAX_WRITERS`](crate::limits::MAX_WRITERS) writers.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use mcp_store::{Log, MemoryStore, limits::MAX_NUMBER};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_store::StoreError> {
    /// let store = MemoryStore::new();
    /// assert_eq!(store.append_once("events", 7, 1, Arc::from(*b"first"), None).await?, Some(1));
    /// assert_eq!(store.append_once("events", 7, 1, Arc::from(*b"first"), None).await?, Some(1));
    /// assert_eq!(store.append_once("events", 7, MAX_NUMBER, Arc::from(*b"end"), None).await?, Some(2));
    /// assert_eq!(store.append_once("events", 7, 2, Arc::from(*b"late"), None).await?, None);
    /// # Ok(())
    /// # }
    /// ```
    fn append_once<'a>(
        &'a self,
        log: &'a str,
        writer: u64,
        number: u64,
        data: Arc<[u8]>,
        ttl: Option<Duration>,
    ) -> StoreFuture<'a, Option<u64>>;

    /// Sets the time to live of the log without a new record, and returns the sequence of its newest record. Returns 0 for a
    /// log that does not exist.
    ///
    /// ```
    /// use std::{sync::Arc, time::Duration};
    ///
    /// use mcp_store::{Log, MemoryStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_store::StoreError> {
    /// let store = MemoryStore::new();
    /// store.append("events", Arc::from(*b"first"), None).await?;
    /// assert_eq!(store.extend("events", Some(Duration::from_secs(60))).await?, 1);
    /// assert_eq!(store.extend("nothing", None).await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    fn extend<'a>(&'a self, log: &'a str, ttl: Option<Duration>) -> StoreFuture<'a, u64>;

    /// Returns the records after the sequence `after` (0: from the start), oldest first. A page has at most `limit`
    /// records, and never more than [`MAX_PAGE`](crate::limits::MAX_PAGE).
    fn read_after<'a>(&'a self, log: &'a str, after: u64, limit: usize) -> StoreFuture<'a, LogPage>;

    /// Drops the oldest records until the rest is within `retain`. Returns the number of dropped records.
    fn trim<'a>(&'a self, log: &'a str, retain: Retain) -> StoreFuture<'a, u64>;

    /// Deletes the log with all its records. Returns whether it existed.
    fn delete_log<'a>(&'a self, log: &'a str) -> StoreFuture<'a, bool>;
}

/// The bounds of [`Log::trim`], which keeps the newest records within each bound.
///
/// ```
/// use mcp_store::Retain;
///
/// let retain = Retain::all().records(1_000).bytes(1 << 20);
/// assert_eq!((retain.records, retain.bytes), (Some(1_000), Some(1 << 20)));
/// assert_eq!(Retain::all(), Retain::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retain {
    /// The maximum number of records.
    pub records: Option<u64>,
    /// The maximum bytes of data.
    pub bytes: Option<u64>,
}

impl Retain {
    /// Returns bounds that keep all records.
    pub fn all() -> Self {
        Self::default()
    }

    /// Keeps at most `records` records.
    #[must_use]
    pub fn records(mut self, records: u64) -> Self {
        self.records = Some(records);
        self
    }

    /// Keeps at most `bytes` bytes of data.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }
}

/// A record of a log.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_store::Record;
///
/// let record = Record::new(7, Arc::from(*b"secret"));
/// assert_eq!(record.sequence, 7);
/// // The debug text has no data.
/// assert_eq!(format!("{record:?}"), "Record(7, 6 bytes)");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The sequence of the record in its log, from 1.
    pub sequence: u64,
    /// The appended data.
    pub data: Arc<[u8]>,
}

impl Record {
    /// Returns a record with a sequence and data.
    pub fn new(sequence: u64, data: Arc<[u8]>) -> Self {
        Self { sequence, data }
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Record({}, {} bytes)", self.sequence, self.data.len())
    }
}

/// A page of a log.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_store::{LogPage, Record};
///
/// // The reader asked for the records after sequence 4. The log was trimmed up to sequence 6.
/// let page = LogPage::new(vec![Record::new(7, Arc::from(*b"data"))], 2, false);
/// assert_eq!((page.records.len(), page.missed, page.more), (1, 2, false));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogPage {
    /// The records, oldest first.
    pub records: Vec<Record>,
    /// The number of requested records that were trimmed before they could be read.
    pub missed: u64,
    /// Whether more records follow.
    pub more: bool,
}

impl LogPage {
    /// Returns a page with records, the number of trimmed records before them, and whether more follow.
    pub fn new(records: Vec<Record>, missed: u64, more: bool) -> Self {
        Self { records, missed, more }
    }
}
