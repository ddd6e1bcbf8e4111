//! Tests of the suite: it reports exactly the rules that a faulty implementation breaks.

use std::{sync::Arc, time::Duration};

use super::{Registers, all, handles, key_value};
use crate::{KeyPage, KeyValue, MemoryStore, StoreFuture, Swap};

#[tokio::test(start_paused = true)]
async fn the_memory_store_passes_the_suite() {
    all(async || MemoryStore::new()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn clones_of_a_memory_store_are_handles_on_one_store() {
    let factory = async || {
        let store = MemoryStore::new();
        (store.clone(), store)
    };
    handles(factory).await.unwrap();
    let broken = handles(async || (MemoryStore::new(), MemoryStore::new())).await.unwrap_err();
    // A store that is not shared breaks each rule about the effects of the other handle.
    assert_eq!(broken.iter().count(), 8, "{broken}");
}

/// Ignores the time to live, and writes in compare-and-swap without comparing.
#[derive(Debug, Default)]
struct Careless(MemoryStore);

impl KeyValue for Careless {
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Arc<[u8]>>> {
        Box::pin(async move {
            let value = self.0.get(key).await;
            tokio::task::yield_now().await;
            value
        })
    }

    fn put<'a>(&'a self, key: &'a str, value: Arc<[u8]>, _: Option<Duration>) -> StoreFuture<'a, ()> {
        self.0.put(key, value, None)
    }

    fn compare_and_swap<'a>(
        &'a self,
        key: &'a str,
        _: Option<&'a [u8]>,
        new: Option<Arc<[u8]>>,
        ttl: Option<Duration>,
    ) -> StoreFuture<'a, Swap> {
        Box::pin(async move {
            if let Some(new) = new {
                self.0.put(key, new, ttl).await?;
            }
            Ok(Swap::Done)
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let deleted = self.0.delete(key).await?;
            // A store that hangs must not hang the suite.
            if !deleted { std::future::pending().await } else { Ok(true) }
        })
    }

    fn list<'a>(&'a self, prefix: &'a str, after: Option<&'a str>, limit: usize) -> StoreFuture<'a, KeyPage> {
        self.0.list(prefix, after, limit)
    }
}

#[tokio::test(start_paused = true)]
async fn the_suite_names_the_broken_rule() {
    let broken = key_value(async || Careless::default()).await.unwrap_err();
    let names: Vec<&str> = broken.iter().map(|(rule, _)| rule.strip_prefix("key-value: ").unwrap()).collect();
    let expected = [
        "a later put replaces value and ttl",
        "delete returns whether there was a record",
        "a record is gone when its ttl has passed",
        "compare-and-swap creates only what is not there",
        "compare-and-swap replaces only the expected value, and otherwise returns the present value",
        "compare-and-swap with no new value deletes only what is as expected",
        "compare-and-swap sets the ttl anew and sees expired records as none",
        "of writers that compare and swap at once none is lost",
        "a listing leaves out expired records",
        "names, ttl and page limits are checked",
    ];
    assert_eq!(names, expected, "{broken}");
    assert!(broken.to_string().contains("not done after 20 s"), "{broken}");
}

#[tokio::test(start_paused = true)]
async fn a_swap_that_is_lost_after_its_register_is_found_by_the_last_read() {
    for (is_lost, is_read, is_found) in [(true, true, true), (true, false, false), (false, true, false)] {
        let (store, registers) = (MemoryStore::new(), Registers::new());
        let test = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            registers.end();
        };
        let (first, second, ()) = tokio::join!(registers.run(&store, 1), registers.run(&store, 2), test);
        first.unwrap();
        second.unwrap();
        if is_lost {
            // The store forgets an acknowledged swap of an early register, which no client uses any more.
            assert!(store.delete("register/1").await.unwrap());
        }
        if is_read {
            registers.read(&store).await.unwrap();
        }
        assert_eq!(registers.check().is_err(), is_found, "lost: {is_lost}, read: {is_read}");
    }
}
