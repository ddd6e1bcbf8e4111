//! Rules of [`KeyValue`].

use std::{sync::Arc, time::Duration};

use tokio::task::JoinSet;

use super::{Check, Rule, SHORT, Seen, bytes, invalid, outlive, same};
use crate::{KeyValue, Swap, limits};

pub(super) const RULES: &[Rule<dyn KeyValue>] = &[
    ("an unknown key has no value", unknown),
    ("a value is read as it was written, whatever its bytes", round_trip),
    ("a later put replaces value and ttl", replace),
    ("delete returns whether there was a record", delete),
    ("a record is gone when its ttl has passed", expiry),
    ("a record without ttl stays", no_expiry),
    ("compare-and-swap creates only what is not there", swap_create),
    ("compare-and-swap replaces only the expected value, and otherwise returns the present value", swap_replace),
    ("compare-and-swap with no new value deletes only what is as expected", swap_delete),
    ("compare-and-swap sets the ttl anew and sees expired records as none", swap_ttl),
    ("of writers that compare and swap at once none is lost", contested),
    ("a listing brings exactly the keys with the prefix, in byte order", listing),
    ("a walk in pages brings every key once", walk),
    ("a walk continues after the key at which it stopped was deleted", walk_over_deleted),
    ("a listing leaves out expired records", list_expired),
    ("names, ttl and page limits are checked", arguments),
];

fn unknown(store: Arc<dyn KeyValue>) -> Check {
    Box::pin(async move { same("get", store.get("nothing").await?, None) })
}

fn round_trip(store: Arc<dyn KeyValue>) -> Check {
    Box::pin(async move {
        let all: Arc<[u8]> = (0..=255).collect();
        let longest = "k".repeat(limits::MAX_NAME_BYTES);
        let large: Arc<[u8]> = vec![7; 1 << 20].into();
        let cases = [("a", all), ("empty", bytes("")), ("ключ/*?[]\n \0", bytes("x")), (&longest, large)];
        for (key, value) in &cases {
            store.put(key, value.clone(), None).await?;
        }
        for (key, value) in cases {
            same(key, store.get(key).await?.is_some_and(|seen| seen == value), true)?;
        }
        Ok(())
    })
}

fn replace(store: Arc<dyn KeyValue>) -> Check {
    Box::pin(async move {
        store.put("k", bytes("one"), Some(SHORT)).await?;
        store.put("k", bytes("two"), None).await?;
        outlive().await;
        same("without the earlier ttl", store.get("k").await?, Some(bytes("two")))?;
        store.put("k", bytes("three"), Some(SHORT)).await?;
        outlive().await;
        same("with the later ttl", store.get("k").await?, None)
    })
}

fn delete(store: Arc<dyn KeyValue>) -> Check {
    Box::pin(async move {
        store.put("k", bytes("v"), None).await?;
        same("first delete", store.delete("k").await?, true)?;
        same("get", store.get("k").await?, None)?;
        same("second delete", store.delete("k").await?, false)
    })
}

fn expiry(store: Arc<dyn KeyValue>) -> Check {
    Box::pin(async move {
        store.put("k", bytes("v"), Some(Duration::from_secs(3600))).await?;
        same("long before", store.get("k").await?, Some(bytes("v")))?;
        store.put("k", bytes("v"), Some(SHORT)).await?;
        outlive().await;
        same("get after", store.get("k").await?, None)?;
        store.put("k", bytes("v"), Some(SHORT)).await?;
        outlive().await;
        same("delete after", store.delete("k").await?, false)
    })
}

fn no_expiry(store: Arc<dyn KeyValue>) -> Check {
    Box::pin(async move {
        store.put("never", bytes("v"), None).await?;
        store.put("hardly ever", bytes("v"), Some(Duration::MAX)).await?;
        outlive().await;
        same("without ttl", store.get("never").await?, Some(bytes("v")))?;
        same("with the longest ttl", store.get("hardly ever").await?, Some(bytes("v")))
    })
}

fn swap_create(store: Arc<dyn KeyValue>) -> Check {
    Box::pin(async move {
        same("first", store.compare_and_swap("k", None, Some(bytes("1")), None).await?, Swap::Done)?;
        let lost = Swap::Lost { current: Some(bytes("1")) };
        same("second", store.compare_and_swap("k", None, Some(bytes("2")), None).await?, lost)?;
        same("get", store.get("k").await?, Some(bytes("1")))
    })
}

fn swap_replace(store: Arc<dyn KeyValue>) -> Check {
    Box::pin(async move {
        let lost = Swap::Lost { current: None };
        same("on nothing", store.compare_and_swap("k", Some(b"1"), Some(bytes("2")), None).await?, lost)?;
        same("still nothing", store.get("k").await?, None)?;
        store.put("k", bytes("1"), None).await?;
        same("as expected", store.compare_and_swap("k", Some(b"1"), Some(bytes("2")), None).await?, Swap::Done)?;
        let lost = Swap::Lost { current: Some(bytes("2")) };
        same("not as expected", store.compare_and_swap("k", Some(b"1"), Some(bytes("3")), None).await?, lost)?;
        same("get", store.get("k").await?, Some(bytes("2")))?;
        store.put("k", bytes(""), None).await?;
        let lost = Swap::Lost { current: Some(bytes("")) };
        same("empty is not none", store.compare_and_swap("k", None, Some(bytes("4")), None).await?, lost)
    })
}

fn swap_delete(store: Arc<dyn KeyValue>) -> Check {
    Box::pin(async move {
        store.put("k", bytes("1"), None).await?;
        let lost = Swap::Lost { current: Some(bytes("1")) };
        same("not as expected", store.compare_and_swap("k", Some(b"2"), None, None).await?, lost)?;
        same("as expected", store.compare_and_swap("k", Some(b"1"), None, None).await?, Swap::Done)?;
        same("get", store.get("k").await?, None)?;
        same("nothing stays nothing", store.compare_and_swap("k", None, None, None).await?, Swap::Done)?;
        same("get again", store.get("k").await?, None)
    })
}

fn swap_ttl(store: Arc<dyn KeyValue>) -> Check {
    Box::pin(async move {
        store.put("k", bytes("1"), Some(SHORT)).await?;
        same("prolonged", store.compare_and_swap("k", Some(b"1"), Some(bytes("1")), None).await?, Swap::Done)?;
        outlive().await;
        same("still there", store.get("k").await?, Some(bytes("1")))?;
        same("shortened", store.compare_and_swap("k", Some(b"1"), Some(bytes("1")), Some(SHORT)).await?, Swap::Done)?;
        outlive().await;
        let lost = Swap::Lost { current: None };
        same("expired", store.compare_and_swap("k", Some(b"1"), Some(bytes("2")), None).await?, lost)?;
        same("created again", store.compare_and_swap("k", None, Some(bytes("3")), None).await?, Swap::Done)
    })
}

fn contested(store: Arc<dyn KeyValue>) -> Check {
    Box::pin(async move {
        const WRITERS: u64 = 8;
        const ROUNDS: u64 = 10;
        let mut writers = JoinSet::new();
        for _ in 0..WRITERS {
            let store = store.clone();
            writers.spawn(async move {
                for _ in 0..ROUNDS {
                    loop {
                        let old = store.get("n").await?;
                        let new = number(old.as_deref()) + 1;
                        let new = Some(bytes(&new.to_string()));
                        if store.compare_and_swap("n", old.as_deref(), new, None).await?.is_done() {
                            break;
                        }
                    }
                }
                Ok::<(), Seen>(())
            });
        }
        while let Some(writer) = writers.join_next().await {
            writer.map_err(|error| Seen(format!("a writer failed: {error}")))??;
        }
        same("sum", number(store.get("n").await?.as_deref()), WRITERS * ROUNDS)
    })
}

fn number(value: Option<&[u8]>) -> u64 {
    value.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok()).unwrap_or(0)
}

fn listing(store: Arc<dyn KeyValue>) -> Check {
    Box::pin(async move {
        for key in ["task/b", "task/a", "task/ä", "task/B", "task", "tasks", "task/", "session/a", "task/*"] {
            store.put(key, bytes(key), None).await?;
        }
        let sorted = ["task/", "task/*", "task/B", "task/a", "task/b", "task/ä"];
        let page = store.list("task/", None, 100).await?;
        same("next", page.next, None)?;
        let keys: Vec<&str> = page.entries.iter().map(|(key, _)| key.as_str()).collect();
        same("keys", keys, sorted.to_vec())?;
        same("values", page.entries.iter().all(|(key, value)| **value == *key.as_bytes()), true)?;
        same("by an empty prefix", store.list("", None, 100).await?.entries.len(), 9)?;
        same("by a prefix of none", store.list("task/*?", None, 100).await?.entries.len(), 0)?;
        same("behind the last", store.list("task/", Some("task/ä"), 100).await?.entries.len(), 0)
    })
}

fn walk(store: Arc<dyn KeyValue>) -> Check {
    Box::pin(async move {
        let expected: Vec<String> = (0..25).map(|n| format!("p/{n:02}")).collect();
        for key in &expected {
            store.put(key, bytes("v"), None).await?;
        }
        store.put("q", bytes("v"), None).await?;
        for limit in [1, 4, 5, 25, 26] {
            let (mut seen, mut after) = (Vec::new(), None::<String>);
            loop {
                let page = store.list("p/", after.as_deref(), limit).await?;
                same("page within its limit", page.entries.len() <= limit, true)?;
                seen.extend(page.entries.into_iter().map(|(key, _)| key));
                after = page.next;
                if after.is_none() || seen.len() > expected.len() {
                    break;
                }
            }
            same("keys of the walk", &seen, &expected)?;
        }
        Ok(())
    })
}

fn walk_over_deleted(store: Arc<dyn KeyValue>) -> Check {
    Box::pin(async move {
        for key in ["p/1", "p/2", "p/3"] {
            store.put(key, bytes("v"), None).await?;
        }
        let page = store.list("p/", None, 1).await?;
        let Some(next) = page.next else { return Err(Seen("the first page has no next".into())) };
        store.delete("p/1").await?;
        let page = store.list("p/", Some(&next), 10).await?;
        let keys: Vec<String> = page.entries.into_iter().map(|(key, _)| key).collect();
        same("keys behind", keys, vec!["p/2".to_owned(), "p/3".to_owned()])
    })
}

fn list_expired(store: Arc<dyn KeyValue>) -> Check {
    Box::pin(async move {
        for n in 0..6 {
            store.put(&format!("p/{n}"), bytes("v"), (n != 5).then_some(SHORT)).await?;
        }
        outlive().await;
        let (mut seen, mut after) = (Vec::new(), None::<String>);
        for _ in 0..10 {
            let page = store.list("p/", after.as_deref(), 2).await?;
            seen.extend(page.entries.into_iter().map(|(key, _)| key));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        same("keys", seen, vec!["p/5".to_owned()])
    })
}

fn arguments(store: Arc<dyn KeyValue>) -> Check {
    Box::pin(async move {
        let long = "k".repeat(limits::MAX_NAME_BYTES + 1);
        invalid("an empty key", store.get("").await)?;
        invalid("too long a key", store.put(&long, bytes("v"), None).await)?;
        invalid("too long a key", store.delete(&long).await)?;
        invalid("too long a key", store.compare_and_swap(&long, None, None, None).await)?;
        invalid("too long a prefix", store.list(&long, None, 1).await)?;
        invalid("a page of none", store.list("", None, 0).await)?;
        invalid("a ttl of zero", store.put("k", bytes("v"), Some(Duration::ZERO)).await)?;
        let swap = store.compare_and_swap("k", None, Some(bytes("v")), Some(Duration::ZERO));
        invalid("a ttl of zero", swap.await)?;
        same("nothing was written", store.get("k").await?, None)
    })
}
