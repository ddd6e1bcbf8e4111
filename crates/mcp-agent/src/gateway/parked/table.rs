//! The parked calls of a node, with the sums of their limits.

use std::{
    collections::{HashMap, hash_map},
    sync::Arc,
};

use tokio_util::sync::DropGuard;

use super::{Holder, ParkedLimits, Refused, call::ParkedCall};

/// The calls by their ids.
pub(super) struct Table<R, C> {
    last_id: u64,
    calls: HashMap<u64, Entry<R, C>>,
    /// The sums of each principal with a parked call or with bytes.
    sums: HashMap<Option<Arc<str>>, Sums>,
    total: Sums,
}

pub(super) struct Entry<R, C> {
    pub(super) call: Arc<ParkedCall<R, C>>,
    pub(super) holder: Holder,
    is_parked: bool,
    /// The bytes of the open questions and of the result.
    bytes: usize,
    /// Its drop ends the task of the call, and with it the upstream call.
    _task: DropGuard,
}

impl<R, C> Entry<R, C> {
    pub(super) fn new(call: Arc<ParkedCall<R, C>>, holder: Holder, task: DropGuard) -> Self {
        Self { call, holder, is_parked: false, bytes: 0, _task: task }
    }
}

/// The number of parked calls, and the bytes of their questions and results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    parked: usize,
    bytes: usize,
}

impl Sums {
    const PARKED: Self = Self { parked: 1, bytes: 0 };

    fn of_bytes(bytes: usize) -> Self {
        Self { parked: 0, bytes }
    }

    fn plus(self, other: Self) -> Self {
        Self { parked: self.parked + other.parked, bytes: self.bytes + other.bytes }
    }

    fn minus(self, other: Self) -> Self {
        Self { parked: self.parked - other.parked, bytes: self.bytes - other.bytes }
    }
}

impl<R, C> Default for Table<R, C> {
    fn default() -> Self {
        Self { last_id: 0, calls: HashMap::new(), sums: HashMap::new(), total: Sums::default() }
    }
}

impl<R, C> Table<R, C> {
    /// Adds the entry that `create` returns for a new id.
    pub(super) fn insert<T>(&mut self, create: impl FnOnce(u64) -> (Entry<R, C>, T)) -> T {
        self.last_id += 1;
        let (entry, created) = create(self.last_id);
        self.calls.insert(self.last_id, entry);
        created
    }

    pub(super) fn get(&self, id: u64) -> Option<&Entry<R, C>> {
        self.calls.get(&id)
    }

    /// Counts a call as parked. It has no effect for a parked call.
    pub(super) fn park(&mut self, id: u64, limits: &ParkedLimits) -> Result<(), Refused> {
        let entry = self.calls.get_mut(&id).ok_or(Refused::Ended)?;
        if entry.is_parked {
            return Ok(());
        }
        let own = self.sums.get(&entry.holder.principal).copied().unwrap_or_default();
        if own.parked >= limits.per_principal {
            return Err(Refused::Principal);
        }
        if self.total.parked >= limits.total {
            return Err(Refused::Total);
        }
        entry.is_parked = true;
        let principal = entry.holder.principal.clone();
        self.add(principal, Sums::PARKED);
        Ok(())
    }

    /// Does not count a call as parked any more.
    pub(super) fn unpark(&mut self, id: u64) {
        let Some(entry) = self.calls.get_mut(&id).filter(|entry| entry.is_parked) else { return };
        entry.is_parked = false;
        let principal = entry.holder.principal.clone();
        self.subtract(principal, Sums::PARKED);
    }

    /// Counts the bytes of a question or a result.
    pub(super) fn reserve(&mut self, id: u64, bytes: usize, limits: &ParkedLimits) -> Result<(), Refused> {
        let entry = self.calls.get_mut(&id).ok_or(Refused::Ended)?;
        let own = self.sums.get(&entry.holder.principal).copied().unwrap_or_default();
        let fits = |sums: Sums, limit: usize| sums.bytes.saturating_add(bytes) <= limit;
        if !fits(own, limits.bytes_per_principal) || !fits(self.total, limits.total_bytes) {
            return Err(Refused::Bytes);
        }
        entry.bytes += bytes;
        let principal = entry.holder.principal.clone();
        self.add(principal, Sums::of_bytes(bytes));
        Ok(())
    }

    /// Subtracts the bytes of a question that has ended.
    pub(super) fn release(&mut self, id: u64, bytes: usize) {
        let Some(entry) = self.calls.get_mut(&id) else { return };
        let bytes = bytes.min(entry.bytes);
        entry.bytes -= bytes;
        let principal = entry.holder.principal.clone();
        self.subtract(principal, Sums::of_bytes(bytes));
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Entry<R, C>> {
        let entry = self.calls.remove(&id)?;
        let counted = Sums { parked: entry.is_parked.into(), bytes: entry.bytes };
        self.subtract(entry.holder.principal.clone(), counted);
        Some(entry)
    }

    fn add(&mut self, principal: Option<Arc<str>>, counted: Sums) {
        let own = self.sums.entry(principal).or_default();
        *own = own.plus(counted);
        self.total = self.total.plus(counted);
    }

    fn subtract(&mut self, principal: Option<Arc<str>>, counted: Sums) {
        self.total = self.total.minus(counted);
        if let hash_map::Entry::Occupied(mut own) = self.sums.entry(principal) {
            *own.get_mut() = own.get().minus(counted);
            if *own.get() == Sums::default() {
                own.remove();
            }
        }
    }

    #[cfg(test)]
    pub(super) fn parked(&self) -> usize {
        self.total.parked
    }

    /// Whether no call and no sum is left.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.sums.is_empty() && self.total == Sums::default()
    }
}
