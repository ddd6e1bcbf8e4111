//! Random histories of operations on a store, and the model that they are compared with.

use std::{collections::BTreeMap, ops::Bound, sync::Arc, time::Duration};

use mcp_store::{Retain, Store, StoreError, Swap};
use proptest::{
    collection::vec,
    option,
    prelude::*,
    sample::select,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestCaseResult, TestRng, TestRunner},
};
use tokio::time::sleep;

/// Checks a property of random values. Each run has the same values, and `PROPTEST_CASES` sets their number.
pub(crate) fn check<S: Strategy>(cases: u32, values: &S, property: impl Fn(S::Value) -> TestCaseResult) {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config, rng).run(values, property).unwrap_or_else(|error| panic!("{error}"));
}

/// An operation. Times to live and waits are numbers of units.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Get(&'static str),
    Put(&'static str, Vec<u8>, Option<u32>),
    /// The expected value is the current one, or this one.
    Swap(&'static str, Option<Option<Vec<u8>>>, Option<Vec<u8>>, Option<u32>),
    Delete(&'static str),
    List(&'static str, Option<&'static str>, usize),
    Append(&'static str, Vec<u8>, Option<u32>),
    AppendOnce(&'static str, u64, u64, Vec<u8>, Option<u32>),
    Extend(&'static str, Option<u32>),
    Read(&'static str, u64, usize),
    Trim(&'static str, Option<u64>, Option<u64>),
    DeleteLog(&'static str),
    Wait(u32),
}

/// The names of keys and logs. Some are the beginnings of others, or have characters with a meaning in patterns.
pub(crate) const NAMES: [&str; 7] = ["a", "a/", "a/b", "a/b*", "a/é", "b", "["];

/// Returns the strategy of histories, with or without waits.
pub(crate) fn histories(with_waits: bool) -> impl Strategy<Value = Vec<Operation>> {
    let name = || select(NAMES.to_vec());
    let data =
        || prop_oneof![select(vec![&b""[..], b"x", b"y", b"\xff\0"]).prop_map(<[u8]>::to_vec), vec(any::<u8>(), 0..9)];
    let ttl = || option::of(1..4_u32);
    let wait = if with_waits { (0..3_u32).boxed() } else { Just(0).boxed() };
    let prefix = select(vec!["", "a", "a/", "a/b", "c"]);
    let operation = prop_oneof![
        2 => name().prop_map(Operation::Get),
        4 => (name(), data(), ttl()).prop_map(|(key, value, ttl)| Operation::Put(key, value, ttl)),
        4 => (name(), option::of(option::of(data())), option::of(data()), ttl())
            .prop_map(|(key, expected, new, ttl)| Operation::Swap(key, expected, new, ttl)),
        1 => name().prop_map(Operation::Delete),
        2 => (prefix, option::of(name()), 1..4_usize).prop_map(|(prefix, after, limit)| Operation::List(prefix, after, limit)),
        4 => (name(), data(), ttl()).prop_map(|(log, data, ttl)| Operation::Append(log, data, ttl)),
        3 => (name(), 1..3_u64, 1..4_u64, data(), ttl())
            .prop_map(|(log, writer, number, data, ttl)| Operation::AppendOnce(log, writer, number, data, ttl)),
        1 => (name(), ttl()).prop_map(|(log, ttl)| Operation::Extend(log, ttl)),
        3 => (name(), 0..6_u64, 1..4_usize).prop_map(|(log, after, limit)| Operation::Read(log, after, limit)),
        1 => (name(), option::of(0..4_u64), option::of(0..8_u64))
            .prop_map(|(log, records, bytes)| Operation::Trim(log, records, bytes)),
        1 => name().prop_map(Operation::DeleteLog),
        2 => wait.prop_map(Operation::Wait),
    ];
    vec(operation, 1..40)
}

/// The state of a store, and its time in units.
#[derive(Debug, Default)]
struct Model {
    now: u32,
    keys: BTreeMap<String, Expiring<Vec<u8>>>,
    logs: BTreeMap<String, Expiring<ModelLog>>,
}

#[derive(Debug)]
struct Expiring<T> {
    value: T,
    end: Option<u32>,
}

#[derive(Debug, Default)]
struct ModelLog {
    records: Vec<(u64, Vec<u8>)>,
    last: u64,
    /// The last number of each writer, and its sequence.
    writers: BTreeMap<u64, (u64, u64)>,
}

impl Model {
    fn wait(&mut self, units: u32) {
        self.now += units;
        let now = self.now;
        self.keys.retain(|_, key| key.end.is_none_or(|end| end > now));
        self.logs.retain(|_, log| log.end.is_none_or(|end| end > now));
    }

    fn put(&mut self, key: &str, value: Vec<u8>, ttl: Option<u32>) {
        let end = ttl.map(|ttl| self.now + ttl);
        self.keys.insert(key.to_owned(), Expiring { value, end });
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Vec<(String, Vec<u8>)> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let keys = self.keys.range::<str, _>((start, Bound::Unbounded));
        keys.filter(|(key, _)| key.starts_with(prefix)).map(|(key, entry)| (key.clone(), entry.value.clone())).collect()
    }

    fn append(&mut self, log: &str, data: Vec<u8>, ttl: Option<u32>) -> u64 {
        let end = ttl.map(|ttl| self.now + ttl);
        let log = self.logs.entry(log.to_owned()).or_insert(Expiring { value: ModelLog::default(), end });
        log.end = end;
        log.value.last += 1;
        log.value.records.push((log.value.last, data));
        log.value.last
    }

    fn append_once(&mut self, log: &str, writer: u64, number: u64, data: Vec<u8>, ttl: Option<u32>) -> Option<u64> {
        let last = self.logs.get(log).and_then(|log| log.value.writers.get(&writer).copied());
        match last {
            Some((last, sequence)) if last == number => {
                self.extend(log, ttl);
                Some(sequence)
            }
            Some((last, _)) if last > number => None,
            _ => {
                let sequence = self.append(log, data, ttl);
                self.logs.get_mut(log)?.value.writers.insert(writer, (number, sequence));
                Some(sequence)
            }
        }
    }

    fn extend(&mut self, log: &str, ttl: Option<u32>) -> u64 {
        let Some(log) = self.logs.get_mut(log) else { return 0 };
        log.end = ttl.map(|ttl| self.now + ttl);
        log.value.last
    }

    /// Returns the records, the number of trimmed records before them, and whether more follow.
    fn read(&self, log: &str, after: u64, limit: usize) -> (Vec<(u64, Vec<u8>)>, u64, bool) {
        let Some(Expiring { value: log, .. }) = self.logs.get(log) else { return (Vec::new(), 0, false) };
        let rest: Vec<_> = log.records.iter().filter(|(sequence, _)| *sequence > after).cloned().collect();
        let trimmed = log.last - log.records.len() as u64;
        let more = rest.len() > limit;
        (rest.into_iter().take(limit).collect(), trimmed.saturating_sub(after), more)
    }

    fn trim(&mut self, log: &str, records: Option<u64>, bytes: Option<u64>) -> u64 {
        let Some(Expiring { value: log, .. }) = self.logs.get_mut(log) else { return 0 };
        let mut dropped = 0;
        loop {
            let size: usize = log.records.iter().map(|(_, data)| data.len()).sum();
            let is_within = records.is_none_or(|records| log.records.len() as u64 <= records)
                && bytes.is_none_or(|bytes| size as u64 <= bytes);
            if is_within || log.records.is_empty() {
                return dropped;
            }
            log.records.remove(0);
            dropped += 1;
        }
    }
}

/// Runs a history on handles of one empty store, which take turns, and compares each outcome with the model.
pub(crate) async fn run(handles: &[&dyn Store], history: &[Operation], unit: Duration) -> TestCaseResult {
    let mut model = Model::default();
    for (operation, store) in history.iter().zip(handles.iter().cycle()) {
        step(*store, &mut model, operation, unit)
            .await
            .map_err(|error| TestCaseError::fail(format!("{operation:?}: {error}\nthe model: {model:?}")))?;
    }
    Ok(())
}

/// An operation that a store must not refuse.
fn done<T>(outcome: Result<T, StoreError>) -> Result<T, TestCaseError> {
    outcome.map_err(|error| TestCaseError::fail(format!("{error:?}")))
}

async fn step(store: &dyn Store, model: &mut Model, operation: &Operation, unit: Duration) -> TestCaseResult {
    let time = |ttl: &Option<u32>| ttl.map(|ttl| unit * ttl);
    let shared = |data: &Vec<u8>| Arc::<[u8]>::from(data.as_slice());
    match operation {
        Operation::Get(key) => {
            let found = done(store.get(key).await)?;
            prop_assert_eq!(found.as_deref(), model.keys.get(*key).map(|entry| entry.value.as_slice()));
        }
        Operation::Put(key, value, ttl) => {
            done(store.put(key, shared(value), time(ttl)).await)?;
            model.put(key, value.clone(), *ttl);
        }
        Operation::Swap(key, expected, new, ttl) => {
            let current = model.keys.get(*key).map(|entry| entry.value.clone());
            let expected = expected.clone().unwrap_or_else(|| current.clone());
            let swap = store.compare_and_swap(key, expected.as_deref(), new.as_ref().map(shared), time(ttl));
            let outcome = done(swap.await)?;
            if expected != current {
                prop_assert_eq!(outcome, Swap::Lost { current: current.as_ref().map(shared) });
                return Ok(());
            }
            prop_assert!(outcome.is_done(), "{:?}", outcome);
            match new {
                Some(new) => model.put(key, new.clone(), *ttl),
                None => _ = model.keys.remove(*key),
            }
        }
        Operation::Delete(key) => {
            prop_assert_eq!(done(store.delete(key).await)?, model.keys.remove(*key).is_some());
        }
        Operation::List(prefix, after, limit) => {
            let (mut found, mut next) = (Vec::new(), after.map(str::to_owned));
            // A page can be empty if its records have expired.
            for _ in 0..=NAMES.len() {
                let page = done(store.list(prefix, next.as_deref(), *limit).await)?;
                prop_assert!(page.entries.len() <= *limit, "{:?}", page);
                found.extend(page.entries.into_iter().map(|(key, value)| (key, value.to_vec())));
                next = page.next;
                if next.is_none() {
                    break;
                }
            }
            prop_assert_eq!(next, None);
            prop_assert_eq!(found, model.list(prefix, *after));
        }
        Operation::Append(log, data, ttl) => {
            let sequence = done(store.append(log, shared(data), time(ttl)).await)?;
            prop_assert_eq!(sequence, model.append(log, data.clone(), *ttl));
        }
        Operation::AppendOnce(log, writer, number, data, ttl) => {
            let sequence = done(store.append_once(log, *writer, *number, shared(data), time(ttl)).await)?;
            prop_assert_eq!(sequence, model.append_once(log, *writer, *number, data.clone(), *ttl));
        }
        Operation::Extend(log, ttl) => {
            prop_assert_eq!(done(store.extend(log, time(ttl)).await)?, model.extend(log, *ttl));
        }
        Operation::Read(log, after, limit) => {
            let page = done(store.read_after(log, *after, *limit).await)?;
            let records: Vec<_> = page.records.iter().map(|record| (record.sequence, record.data.to_vec())).collect();
            prop_assert_eq!((records, page.missed, page.more), model.read(log, *after, *limit));
        }
        Operation::Trim(log, records, bytes) => {
            let mut retain = Retain::all();
            (retain.records, retain.bytes) = (*records, *bytes);
            prop_assert_eq!(done(store.trim(log, retain).await)?, model.trim(log, *records, *bytes));
        }
        Operation::DeleteLog(log) => {
            prop_assert_eq!(done(store.delete_log(log).await)?, model.logs.remove(*log).is_some());
        }
        Operation::Wait(units) => {
            sleep(unit * *units).await;
            model.wait(*units);
        }
    }
    Ok(())
}
