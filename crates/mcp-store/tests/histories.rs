//! Random histories on stores in memory have the outcomes of a simple model.

mod history;

use std::time::Duration;

use mcp_store::{KeyValue, Log, MemoryStore};
use proptest::prelude::*;
use tokio::runtime::Builder;

use self::history::{NAMES, check, histories, run};

const UNIT: Duration = Duration::from_secs(1);

#[test]
fn a_store_in_memory_has_the_outcomes_of_the_model() {
    check(256, &histories(true), |history| {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let store = MemoryStore::new();
            run(&[&store, &store.clone()], &history, UNIT).await?;
            // An item that was deleted or has expired leaves nothing behind.
            for name in NAMES {
                store.delete(name).await.unwrap();
                store.delete_log(name).await.unwrap();
            }
            let usage = store.usage();
            prop_assert_eq!((usage.entries, usage.bytes), (0, 0));
            Ok(())
        })
    });
}

#[cfg(feature = "sealed")]
#[test]
fn a_sealed_store_has_the_outcomes_of_the_model() {
    use std::sync::Arc;

    use mcp_store::{SealKeys, SealedStore};

    use self::history::Operation;

    check(64, &histories(true), |mut history| {
        // The listing has another order, and the log counts the bytes of the encryption.
        history.retain(|operation| !matches!(operation, Operation::List(..) | Operation::Trim(_, _, Some(_))));
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let store = SealedStore::new(Arc::new(MemoryStore::new()), SealKeys::new([1; 32], [[2; 32]]));
            run(&[&store, &store.clone()], &history, UNIT).await
        })
    });
}
