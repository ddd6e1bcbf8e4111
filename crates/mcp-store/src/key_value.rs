//! Records under keys: the trait and what its methods return.

use std::{fmt, sync::Arc, time::Duration};

use crate::StoreFuture;

/// Records under keys, each with an optional time to live.
///
/// Keys are text of 1 to [`MAX_NAME_BYTES`](crate::limits::MAX_NAME_BYTES) bytes. An expired record is as one that
/// never was. A caller sees its own earlier writes.
pub trait KeyValue: Send + Sync + fmt::Debug + 'static {
    /// The value under `key`.
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Arc<[u8]>>>;

    /// Writes `value` under `key`, whatever was there. `ttl` replaces an earlier one; `None` keeps the record until it
    /// is deleted.
    fn put<'a>(&'a self, key: &'a str, value: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, ()>;

    /// Replaces the record under `key` if its value is still `expected` (`None`: if there is no record), in one step
    /// that no other writer can come between. `new` as `None` deletes the record.
    ///
    /// Writing the same value again with another `ttl` prolongs a record without bringing back a deleted one.
    fn compare_and_swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a [u8]>,
        new: Option<Arc<[u8]>>,
        ttl: Option<Duration>,
    ) -> StoreFuture<'a, Swap>;

    /// Deletes the record under `key` and says whether there was one.
    fn delete<'a>(&'a self, key: &'a str) -> StoreFuture<'a, bool>;

    /// The records whose keys begin with `prefix`, in byte order of their keys, beginning behind the key `after`, at
    /// most `limit` of them (and never more than [`MAX_PAGE`](crate::limits::MAX_PAGE)).
    ///
    /// A record that is there during a whole walk is in it exactly once, whatever else comes and goes.
    fn list<'a>(&'a self, prefix: &'a str, after: Option<&'a str>, limit: usize) -> StoreFuture<'a, KeyPage>;
}

/// What a compare-and-swap came to.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Swap {
    /// The record was as expected and is replaced.
    Done,
    /// The record was another; nothing is changed.
    Lost {
        /// What is there.
        current: Option<Arc<[u8]>>,
    },
}

impl Swap {
    /// Whether the record was replaced.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }
}

// Values may be secrets, so that only their sizes are printed.
impl fmt::Debug for Swap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("Done"),
            Self::Lost { current: None } => f.write_str("Lost(no record)"),
            Self::Lost { current: Some(value) } => write!(f, "Lost({} bytes)", value.len()),
        }
    }
}

/// One page of a listing.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct KeyPage {
    /// Keys and values, in byte order of the keys.
    pub entries: Vec<(String, Arc<[u8]>)>,
    /// When there may be more: pass it as `after` of the next call.
    pub next: Option<String>,
}

impl KeyPage {
    /// A page from its entries and the key to go on behind.
    pub fn new(entries: Vec<(String, Arc<[u8]>)>, next: Option<String>) -> Self {
        Self { entries, next }
    }
}

impl fmt::Debug for KeyPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPage").field("entries", &self.entries.len()).field("next", &self.next).finish()
    }
}
