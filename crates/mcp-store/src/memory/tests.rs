//! Tests of the memory store alone: its bounds, its sweeps, and that it frees all records.

use std::{sync::Arc, time::Duration};

use tokio::time::advance;

use crate::{KeyValue, Log, MemoryLimits, MemoryStore, Retain, Store};

const TTL: Option<Duration> = Some(Duration::from_secs(1));

fn store(entries: usize, bytes: usize) -> MemoryStore {
    MemoryStore::with_limits(MemoryLimits { entries, bytes, subscriptions: 2 })
}

fn data(len: usize) -> Arc<[u8]> {
    vec![0; len].into()
}

fn used(store: &MemoryStore) -> (usize, usize) {
    let usage = store.usage();
    (usage.entries, usage.bytes)
}

#[tokio::test]
async fn the_usage_counts_writes_and_deletions() {
    let store = store(100, 1_000);
    store.put("abc", data(10), None).await.unwrap();
    assert_eq!(used(&store), (1, 13));
    store.put("abc", data(4), TTL).await.unwrap();
    assert_eq!(used(&store), (1, 7));
    store.append("log", data(5), None).await.unwrap();
    store.append("log", data(6), TTL).await.unwrap();
    assert_eq!(used(&store), (4, 21));
    store.trim("log", Retain::all().records(1)).await.unwrap();
    assert_eq!(used(&store), (3, 16));
    store.delete("abc").await.unwrap();
    store.delete_log("log").await.unwrap();
    assert_eq!(used(&store), (0, 0));
}

#[tokio::test]
async fn a_full_store_rejects_a_write_unchanged() {
    let store = store(3, 100);
    store.put("a", data(49), None).await.unwrap();
    store.put("b", data(49), None).await.unwrap();
    let error = store.put("c", data(0), None).await.unwrap_err();
    assert!(error.is_full() && !error.is_retryable(), "{error:?}");
    assert_eq!(
        error.to_string(),
        "the memory store is full: 2 of 3 entries, 100 of 100 bytes; the write needs 1 bytes more"
    );
    assert!(store.put("a", data(50), None).await.unwrap_err().is_full());
    assert!(store.compare_and_swap("a", Some(&[0; 49]), Some(data(50)), None).await.unwrap_err().is_full());
    assert_eq!(store.get("a").await.unwrap(), Some(data(49)));
    store.put("a", data(0), None).await.unwrap();
    // A log and its first record are two entries.
    assert!(store.append("l", data(1), None).await.unwrap_err().is_full());
    assert_eq!(store.read_after("l", 0, 1).await.unwrap().records.len(), 0);
    store.delete("b").await.unwrap();
    assert_eq!(store.append("l", data(1), None).await.unwrap(), 1);
    assert!(store.append("l", data(1), None).await.unwrap_err().is_full());
    assert_eq!(used(&store), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn expired_records_are_swept_before_a_write_is_rejected() {
    // A hundred keys, and fifty logs of two records each.
    let store = store(250, 10_000);
    for n in 0..100 {
        store.put(&format!("k{n}"), data(1), TTL).await.unwrap();
        store.append(&format!("l{}", n / 2), data(1), TTL).await.unwrap();
    }
    assert!(store.put("one more", data(1), None).await.unwrap_err().is_full());
    advance(Duration::from_secs(1)).await;
    store.put("one more", data(9_000), None).await.unwrap();
    assert!(store.get("one more").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_write_sweeps_a_few_expired_records_and_a_read_removes_its_own() {
    let store = store(1_000, 100_000);
    for n in 0..100 {
        store.put(&format!("k{n}"), data(1), TTL).await.unwrap();
    }
    advance(Duration::from_secs(1)).await;
    assert_eq!(used(&store).0, 100);
    assert_eq!(store.get("k7").await.unwrap(), None);
    assert_eq!(used(&store).0, 99);
    store.put("new", data(1), None).await.unwrap();
    assert_eq!(used(&store).0, 99 - 16 + 1);
    for _ in 0..10 {
        store.put("new", data(1), None).await.unwrap();
    }
    assert_eq!(used(&store), (1, 4));
}

#[tokio::test(start_paused = true)]
async fn a_log_that_expires_during_a_sweep_restarts_at_one() {
    let store = store(4, 100);
    store.append("l", data(1), TTL).await.unwrap();
    store.append("l", data(1), TTL).await.unwrap();
    advance(Duration::from_secs(1)).await;
    assert_eq!(store.append("l", data(1), TTL).await.unwrap(), 1);
    assert_eq!(used(&store), (2, 2));
}

#[tokio::test]
async fn subscriptions_are_bounded_and_released() {
    let store: Arc<dyn Store> = Arc::new(store(10, 100));
    let first = store.subscribe("a", 1).await.unwrap();
    let _second = store.subscribe("b", 1).await.unwrap();
    let error = store.subscribe("a", 1).await.unwrap_err();
    assert_eq!(error.to_string(), "the memory store has its 2 subscriptions");
    assert!(error.is_full());
    drop(first);
    let mut third = store.subscribe("c", 1).await.unwrap();
    drop(store);
    assert_eq!(third.recv().await, None, "a store that is gone ends its subscriptions");
}

#[tokio::test]
async fn a_future_that_is_never_polled_writes_nothing_and_debug_prints_no_values() {
    let store = MemoryStore::new();
    drop(store.put("a", data(1), None));
    assert_eq!(used(&store), (0, 0));
    store.put("secret-key", Arc::from(*b"secret-value"), None).await.unwrap();
    let lost = store.compare_and_swap("secret-key", None, None, None).await.unwrap();
    let printed = format!("{store:?} {lost:?} {:?}", store.list("", None, 1).await.unwrap());
    assert!(!printed.contains("secret-value") && !printed.contains("115"), "{printed}");
}
