//! Append-only logs: the trait and what its methods take and return.

use std::{fmt, sync::Arc, time::Duration};

use crate::StoreFuture;

/// Append-only logs under names, each numbering its own records.
///
/// The first record of a log has the sequence 1 and every further one the next number, also after the log was trimmed.
/// A log that does not exist, was deleted or has expired reads as an empty one; appending to it begins at 1 again.
pub trait Log: Send + Sync + fmt::Debug + 'static {
    /// Appends `data` and returns its sequence. The whole log expires `ttl` after its last append; `None` keeps it
    /// until it is deleted.
    fn append<'a>(&'a self, log: &'a str, data: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, u64>;

    /// The records behind the sequence `after` (0: from the beginning), oldest first, at most `limit` of them (and
    /// never more than [`MAX_PAGE`](crate::limits::MAX_PAGE)).
    fn read_after<'a>(&'a self, log: &'a str, after: u64, limit: usize) -> StoreFuture<'a, LogPage>;

    /// Drops the oldest records until what is left keeps within `retain`, and returns how many were dropped.
    fn trim<'a>(&'a self, log: &'a str, retain: Retain) -> StoreFuture<'a, u64>;

    /// Deletes the log with all its records and says whether there was one.
    fn delete_log<'a>(&'a self, log: &'a str) -> StoreFuture<'a, bool>;
}

/// What [`Log::trim`] leaves: the newest records within every bound that is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retain {
    /// At most so many records.
    pub records: Option<u64>,
    /// At most so many bytes of data in all.
    pub bytes: Option<u64>,
}

impl Retain {
    /// Everything: no bound set.
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

/// One record of a log.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Its number in its log, from 1.
    pub sequence: u64,
    /// What was appended.
    pub data: Arc<[u8]>,
}

impl Record {
    /// A record from its number and its data.
    pub fn new(sequence: u64, data: Arc<[u8]>) -> Self {
        Self { sequence, data }
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Record({}, {} bytes)", self.sequence, self.data.len())
    }
}

/// One page of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogPage {
    /// The records, oldest first.
    pub records: Vec<Record>,
    /// How many records behind the asked sequence were trimmed before they could be read.
    pub missed: u64,
    /// Whether there are more behind the last one.
    pub more: bool,
}

impl LogPage {
    /// A page from its records, the number of trimmed ones before them, and whether more follow.
    pub fn new(records: Vec<Record>, missed: u64, more: bool) -> Self {
        Self { records, missed, more }
    }
}
