//! Keys and logs of a memory store, with their expiry and cost.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    ops::Bound,
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use crate::{KeyPage, LogPage, MemoryLimits, Record, Retain, StoreError, limits::MAX_WRITERS};

/// The number of expired items that one write sweeps.
const SWEEP: usize = 16;

#[derive(Default)]
pub(super) struct Records {
    keys: BTreeMap<Arc<str>, Entry>,
    logs: HashMap<Arc<str>, Sequence>,
    expiries: BTreeSet<(Instant, Item)>,
    entries: usize,
    bytes: usize,
}

/// An item that expires.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    Key(Arc<str>),
    Log(Arc<str>),
}

struct Entry {
    value: Arc<[u8]>,
    expires: Option<Instant>,
}

struct Sequence {
    records: VecDeque<Arc<[u8]>>,
    /// The sequence of the newest record that the log ever had.
    last: u64,
    /// The last number of each writer, and the sequence of its record.
    writers: BTreeMap<u64, (u64, u64)>,
    bytes: usize,
    expires: Option<Instant>,
}

impl Sequence {
    fn trimmed(&self) -> u64 {
        self.last - self.records.len() as u64
    }
}

impl Records {
    pub(super) fn usage(&self) -> (usize, usize) {
        (self.entries, self.bytes)
    }

    pub(super) fn get(&mut self, key: &str, now: Instant) -> Option<Arc<[u8]>> {
        self.expire_key(key, now);
        self.keys.get(key).map(|entry| entry.value.clone())
    }

    pub(super) fn put(
        &mut self,
        key: &str,
        value: Arc<[u8]>,
        ttl: Option<Duration>,
        now: Instant,
        limits: &MemoryLimits,
    ) -> Result<(), StoreError> {
        self.expire_key(key, now);
        let (entries, bytes) = match self.keys.get(key) {
            Some(old) => (0, value.len().saturating_sub(old.value.len())),
            None => (1, key.len().saturating_add(value.len())),
        };
        self.make_room(entries, bytes, now, limits)?;
        let name = match self.keys.remove_entry(key) {
            Some((name, old)) => {
                self.forget_expiry(old.expires, Item::Key(name.clone()));
                self.bytes -= old.value.len();
                name
            }
            None => {
                self.entries += 1;
                self.bytes += key.len();
                Arc::from(key)
            }
        };
        self.bytes += value.len();
        let expires = self.note_expiry(ttl, now, Item::Key(name.clone()));
        self.keys.insert(name, Entry { value, expires });
        Ok(())
    }

    pub(super) fn delete(&mut self, key: &str, now: Instant) -> bool {
        self.expire_key(key, now);
        self.remove_key(key)
    }

    pub(super) fn list(&self, prefix: &str, after: Option<&str>, limit: usize, now: Instant) -> KeyPage {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let mut page = KeyPage::default();
        let (mut examined, mut last) = (0, None);
        for (key, entry) in self.keys.range::<str, _>((start, Bound::Unbounded)) {
            if !key.starts_with(prefix) {
                break;
            }
            if examined == limit {
                // A page whose records have all expired also returns the start of the next page.
                page.next = last;
                break;
            }
            examined += 1;
            if examined == limit {
                last = Some(key.as_ref().to_owned());
            }
            if !is_past(entry.expires, now) {
                page.entries.push((key.as_ref().to_owned(), entry.value.clone()));
            }
        }
        page
    }

    pub(super) fn append(
        &mut self,
        log: &str,
        data: Arc<[u8]>,
        ttl: Option<Duration>,
        now: Instant,
        limits: &MemoryLimits,
    ) -> Result<u64, StoreError> {
        self.expire_log(log, now);
        let (entries, bytes) = if self.logs.contains_key(log) { (1, 0) } else { (2, log.len()) };
        self.make_room(entries, bytes.saturating_add(data.len()), now, limits)?;
        // The sweep removes only expired items, so this log is unchanged.
        let (name, mut sequence) = self.logs.remove_entry(log).unwrap_or_else(|| {
            let (records, writers) = (VecDeque::new(), BTreeMap::new());
            (Arc::from(log), Sequence { records, last: 0, writers, bytes: 0, expires: None })
        });
        self.entries += entries;
        self.bytes += bytes + data.len();
        self.forget_expiry(sequence.expires, Item::Log(name.clone()));
        sequence.expires = self.note_expiry(ttl, now, Item::Log(name.clone()));
        sequence.last += 1;
        sequence.bytes += data.len();
        sequence.records.push_back(data);
        let last = sequence.last;
        self.logs.insert(name, sequence);
        Ok(last)
    }

    /// Returns the last number of a writer, and the sequence of its record.
    pub(super) fn last_of_writer(&mut self, log: &str, writer: u64, now: Instant) -> Option<(u64, u64)> {
        self.expire_log(log, now);
        self.logs.get(log)?.writers.get(&writer).copied()
    }

    pub(super) fn record_writer(&mut self, log: &str, writer: u64, number: u64, sequence: u64) {
        let Some(log) = self.logs.get_mut(log) else { return };
        log.writers.insert(writer, (number, sequence));
        if log.writers.len() > MAX_WRITERS {
            let oldest = log.writers.iter().min_by_key(|(_, (_, sequence))| *sequence).map(|(writer, _)| *writer);
            oldest.map(|oldest| log.writers.remove(&oldest));
        }
    }

    pub(super) fn extend(&mut self, log: &str, ttl: Option<Duration>, now: Instant) -> u64 {
        self.expire_log(log, now);
        let Some((name, mut sequence)) = self.logs.remove_entry(log) else { return 0 };
        self.forget_expiry(sequence.expires, Item::Log(name.clone()));
        sequence.expires = self.note_expiry(ttl, now, Item::Log(name.clone()));
        let last = sequence.last;
        self.logs.insert(name, sequence);
        last
    }

    pub(super) fn read_after(&mut self, log: &str, after: u64, limit: usize, now: Instant) -> LogPage {
        self.expire_log(log, now);
        let Some(sequence) = self.logs.get(log) else { return LogPage::default() };
        let trimmed = sequence.trimmed();
        let skip = usize::try_from(after.saturating_sub(trimmed)).unwrap_or(usize::MAX);
        let left = sequence.records.len().saturating_sub(skip);
        let first = trimmed.max(after).saturating_add(1);
        let records = sequence.records.iter().skip(skip).take(limit).zip(first..);
        LogPage {
            records: records.map(|(data, sequence)| Record::new(sequence, data.clone())).collect(),
            missed: trimmed.saturating_sub(after),
            more: left > limit,
        }
    }

    pub(super) fn trim(&mut self, log: &str, retain: Retain, now: Instant) -> u64 {
        self.expire_log(log, now);
        let Some(sequence) = self.logs.get_mut(log) else { return 0 };
        let (before, bytes) = (sequence.records.len(), sequence.bytes);
        let within = |sequence: &Sequence| {
            retain.records.is_none_or(|cap| sequence.records.len() as u64 <= cap)
                && retain.bytes.is_none_or(|cap| sequence.bytes as u64 <= cap)
        };
        while !within(sequence) {
            let Some(data) = sequence.records.pop_front() else { break };
            sequence.bytes -= data.len();
        }
        let dropped = before - sequence.records.len();
        self.entries -= dropped;
        self.bytes -= bytes - sequence.bytes;
        dropped as u64
    }

    pub(super) fn delete_log(&mut self, log: &str, now: Instant) -> bool {
        self.expire_log(log, now);
        self.remove_log(log)
    }

    fn expire_key(&mut self, key: &str, now: Instant) {
        if self.keys.get(key).is_some_and(|entry| is_past(entry.expires, now)) {
            self.remove_key(key);
        }
    }

    fn expire_log(&mut self, log: &str, now: Instant) {
        if self.logs.get(log).is_some_and(|sequence| is_past(sequence.expires, now)) {
            self.remove_log(log);
        }
    }

    fn remove_key(&mut self, key: &str) -> bool {
        let Some((name, entry)) = self.keys.remove_entry(key) else { return false };
        self.entries -= 1;
        self.bytes -= name.len() + entry.value.len();
        self.forget_expiry(entry.expires, Item::Key(name));
        true
    }

    fn remove_log(&mut self, log: &str) -> bool {
        let Some((name, sequence)) = self.logs.remove_entry(log) else { return false };
        self.entries -= 1 + sequence.records.len();
        self.bytes -= name.len() + sequence.bytes;
        self.forget_expiry(sequence.expires, Item::Log(name));
        true
    }

    fn note_expiry(&mut self, ttl: Option<Duration>, now: Instant, item: Item) -> Option<Instant> {
        // A time to live beyond the range of the clock is unbounded.
        let expires = now.checked_add(ttl?)?;
        self.expiries.insert((expires, item));
        Some(expires)
    }

    fn forget_expiry(&mut self, expires: Option<Instant>, item: Item) {
        if let Some(expires) = expires {
            self.expiries.remove(&(expires, item));
        }
    }

    /// Sweeps a few expired items, and more when `entries` and `bytes` do not fit otherwise.
    fn make_room(
        &mut self,
        entries: usize,
        bytes: usize,
        now: Instant,
        limits: &MemoryLimits,
    ) -> Result<(), StoreError> {
        let mut swept = 0;
        loop {
            let fits = self.entries.saturating_add(entries) <= limits.entries
                && self.bytes.saturating_add(bytes) <= limits.bytes;
            if fits && swept >= SWEEP {
                return Ok(());
            }
            match self.expiries.first() {
                Some((expires, item)) if *expires <= now => {
                    let item = item.clone();
                    swept += 1;
                    match item {
                        Item::Key(key) => self.remove_key(&key),
                        Item::Log(log) => self.remove_log(&log),
                    };
                }
                _ if fits => return Ok(()),
                _ => {
                    return Err(StoreError::full(format!(
                        "the memory store is full: {} of {} entries, {} of {} bytes; the write needs {bytes} bytes more",
                        self.entries, limits.entries, self.bytes, limits.bytes
                    )));
                }
            }
        }
    }
}

fn is_past(expires: Option<Instant>, now: Instant) -> bool {
    expires.is_some_and(|expires| expires <= now)
}
