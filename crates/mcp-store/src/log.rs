//! The trait for append-only logs, with its parameters and return types.

use std::{fmt, sync::Arc, time::Duration};

use crate::StoreFuture;

/// Append-only logs under names. Each log numbers its own records.
///
/// The first record of a log has the sequence 1, and each further record the next number, also after the log was
/// trimmed. A log that does not exist, was deleted or has expired is empty; the next append starts at 1 again.
pub trait Log: Send + Sync + fmt::Debug + 'static {
    /// Appends `data` and returns its sequence. The whole log expires `ttl` after its last append. Without a `ttl` it
    /// stays until it is deleted.
    fn append<'a>(&'a self, log: &'a str, data: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, u64>;

    /// Returns the records after the sequence `after` (0: from the start), oldest first. A page has at most `limit`
    /// records, and never more than [`MAX_PAGE`](crate::limits::MAX_PAGE).
    fn read_after<'a>(&'a self, log: &'a str, after: u64, limit: usize) -> StoreFuture<'a, LogPage>;

    /// Drops the oldest records until the rest is within `retain`. Returns the number of dropped records.
    fn trim<'a>(&'a self, log: &'a str, retain: Retain) -> StoreFuture<'a, u64>;

    /// Deletes the log with all its records. Returns whether it existed.
    fn delete_log<'a>(&'a self, log: &'a str) -> StoreFuture<'a, bool>;
}

/// The bounds of [`Log::trim`], which keeps the newest records within each bound.
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
