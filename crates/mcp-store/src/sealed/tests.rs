//! Tests of the sealed store: the rules of the suite, its listings, its keys, and the view of the inner store.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    Delivery, KeyValue, Log, MemoryStore, PubSub, SealKeys, SealedStore, Store, Swap,
    limits::{MAX_MESSAGE_BYTES, MAX_NAME_BYTES},
    suite,
};

fn keys() -> SealKeys {
    SealKeys::new([1; 32], [[2; 32]])
}

fn sealed(inner: &Arc<MemoryStore>) -> SealedStore<MemoryStore> {
    SealedStore::new(inner.clone(), keys())
}

fn bytes(text: &str) -> Arc<[u8]> {
    Arc::from(text.as_bytes())
}

#[tokio::test(start_paused = true)]
async fn the_sealed_store_breaks_only_the_rules_that_its_documentation_names() {
    let broken = suite::all(async || sealed(&Arc::new(MemoryStore::new()))).await.unwrap_err();
    let rules: Vec<&str> = broken.iter().map(|(rule, _)| rule).collect();
    let expected = [
        // The order is that of the hashes.
        "key-value: a listing brings exactly the keys with the prefix, in byte order",
        "key-value: a walk in pages brings every key once",
        "key-value: a walk continues after the key at which it stopped was deleted",
        // The encryption adds bytes.
        "log: trim keeps the newest records within every bound",
        "pub/sub: names, capacity and size are checked",
    ];
    assert_eq!(rules, expected, "{broken}");
    let factory = async || {
        let inner = Arc::new(MemoryStore::new());
        (sealed(&inner), sealed(&inner))
    };
    suite::handles(factory).await.unwrap();
}

#[tokio::test]
async fn a_walk_brings_each_key_with_the_prefix_exactly_once() {
    let store: SealedStore<dyn Store> = SealedStore::new(Arc::new(MemoryStore::new()), keys());
    let deep = "a/b/c/d/e/f/g/h/i/j/";
    let all: BTreeSet<String> = (0..40)
        .flat_map(|n| [format!("p/{n}"), format!("q/{n}"), format!("p/sub/{n}"), format!("{deep}{n}"), format!("x{n}")])
        .collect();
    for key in &all {
        store.put(key, bytes(key), None).await.unwrap();
    }
    for prefix in ["", "p", "p/", "p/1", "p/sub/", "p/sub/3", deep, "a/b/c/d/e/f/g/h/i/j/1", "x", "none/"] {
        for limit in [1, 7, 1_000] {
            let (mut seen, mut after) = (Vec::new(), None::<String>);
            loop {
                let page = store.list(prefix, after.as_deref(), limit).await.unwrap();
                assert!(page.entries.len() <= limit, "{prefix} {limit}");
                assert!(page.entries.iter().all(|(key, value)| **value == *key.as_bytes()), "{prefix}");
                seen.extend(page.entries.into_iter().map(|(key, _)| key));
                let Some(next) = page.next else { break };
                after = Some(next);
            }
            let expected: BTreeSet<String> = all.iter().filter(|key| key.starts_with(prefix)).cloned().collect();
            assert_eq!(seen.len(), expected.len(), "{prefix:?} {limit}");
            assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), expected, "{prefix:?} {limit}");
        }
    }
}

#[tokio::test]
async fn a_rotated_store_reads_old_values_and_writes_new_ones() {
    let inner = Arc::new(MemoryStore::new());
    let old = sealed(&inner);
    let rotated = SealedStore::new(inner.clone(), SealKeys::new([1; 32], [[3; 32], [2; 32]]));
    let new = SealedStore::new(inner.clone(), SealKeys::new([1; 32], [[3; 32]]));
    old.put("k", bytes("v"), None).await.unwrap();
    assert_eq!(rotated.get("k").await.unwrap(), Some(bytes("v")));
    let error = new.get("k").await.unwrap_err();
    assert!(error.is_invalid(), "{error:?}");
    // A swap writes with the newest key.
    let swapped = rotated.compare_and_swap("k", Some(b"v"), Some(bytes("v")), None).await.unwrap();
    assert_eq!(swapped, Swap::Done);
    assert_eq!(new.get("k").await.unwrap(), Some(bytes("v")));
    assert!(old.get("k").await.unwrap_err().is_invalid());
}

#[tokio::test]
async fn the_inner_store_sees_no_name_and_no_value_and_cannot_move_one() {
    let inner = Arc::new(MemoryStore::new());
    let store = sealed(&inner);
    let mut reader = store.subscribe("secret-topic", 10).await.unwrap();
    store.put("secret/key", bytes("secret-value"), None).await.unwrap();
    store.put("secret/other", bytes("other-value"), None).await.unwrap();
    store.append("secret-log", bytes("secret-record"), None).await.unwrap();
    let page = inner.list("", None, 10).await.unwrap();
    let [(first, sealed_first), (second, sealed_second)] = &page.entries[..] else { panic!("{page:?}") };
    for (name, value) in &page.entries {
        assert!(!name.contains("secret") && !String::from_utf8_lossy(value).contains("value"), "{name}");
    }
    // A value in the place of another, and each changed byte, is rejected.
    inner.put(first, sealed_second.clone(), None).await.unwrap();
    assert_eq!(
        [store.get("secret/key").await, store.get("secret/other").await].iter().filter(|it| it.is_err()).count(),
        1
    );
    inner.put(first, sealed_first.clone(), None).await.unwrap();
    for at in 0..sealed_second.len() {
        let mut changed = sealed_second.to_vec();
        changed[at] ^= 1;
        inner.put(second, changed.into(), None).await.unwrap();
        let error = store.list("", None, 10).await.unwrap_err();
        assert!(error.is_invalid(), "{at}: {error:?}");
    }
    // A forged message is a loss for the reader.
    inner.publish(&keys().topic("secret-topic"), bytes("forged")).await.unwrap();
    store.publish("secret-topic", bytes("m")).await.unwrap();
    assert_eq!(reader.recv().await, Some(Delivery::Lagged(1)));
    assert_eq!(reader.recv().await, Some(Delivery::Message(bytes("m"))));
}

#[tokio::test]
async fn the_longest_names_and_messages_fit() {
    let store = sealed(&Arc::new(MemoryStore::new()));
    for key in ["k".repeat(MAX_NAME_BYTES), "/".repeat(MAX_NAME_BYTES)] {
        store.put(&key, bytes("v"), None).await.unwrap();
        assert_eq!(store.get(&key).await.unwrap(), Some(bytes("v")));
        store.append(&key, bytes("x"), None).await.unwrap();
        let mut reader = store.subscribe(&key, 1).await.unwrap();
        let most = MAX_MESSAGE_BYTES - SealedStore::<MemoryStore>::OVERHEAD;
        store.publish(&key, vec![7; most].into()).await.unwrap();
        assert!(matches!(reader.recv().await, Some(Delivery::Message(message)) if message.len() == most));
        assert!(store.publish(&key, vec![7; most + 1].into()).await.unwrap_err().is_invalid());
    }
}
