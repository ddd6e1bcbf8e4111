//! Rules of two handles on one store, as two nodes of a fleet have them.

use std::{collections::BTreeSet, sync::Arc};

use tokio::task::JoinSet;

use super::{Check, Rule, Seen, bytes, pub_sub::expect, same};
use crate::{Retain, Store, Swap};

/// Two handles on one store.
pub(super) struct Handles {
    pub(super) a: Arc<dyn Store>,
    pub(super) b: Arc<dyn Store>,
}

pub(super) const RULES: &[Rule<Handles>] = &[
    ("a handle reads the records that the other handle wrote", records),
    ("a handle reads the log that the other handle appended to", log),
    ("of two handles that create a record at once exactly one succeeds", create),
    ("of writers on two handles that compare and swap at once none is lost", contested),
    ("of appends on two handles at once none is lost, and the numbers have no gaps", appends),
    ("a message reaches the subscriptions of both handles in order", messages),
    ("a subscription begins when it is made, also beside an earlier one", from_now_on),
    ("a handle works on after the other handle was dropped", dropped),
];

fn records(handles: Arc<Handles>) -> Check {
    Box::pin(async move {
        let Handles { a, b } = &*handles;
        for n in 0..20 {
            let value = bytes(&n.to_string());
            a.put("k", value.clone(), None).await?;
            same("get", b.get("k").await?, Some(value.clone()))?;
            let swapped = b.compare_and_swap("k", Some(&value), Some(bytes("swapped")), None).await?;
            same("swap", swapped, Swap::Done)?;
            let lost = Swap::Lost { current: Some(bytes("swapped")) };
            same("swap of the old value", a.compare_and_swap("k", Some(&value), None, None).await?, lost)?;
            let page = a.list("", None, 10).await?;
            same("listed", page.entries.into_iter().map(|(key, _)| key).collect(), vec!["k".to_owned()])?;
            same("delete", a.delete("k").await?, true)?;
            same("get after delete", b.get("k").await?, None)?;
            same("list after delete", b.list("", None, 10).await?.entries.len(), 0)?;
        }
        Ok(())
    })
}

fn log(handles: Arc<Handles>) -> Check {
    Box::pin(async move {
        let Handles { a, b } = &*handles;
        for n in 1..=10 {
            let writer = if n % 2 == 0 { a } else { b };
            same("sequence", writer.append("l", bytes("x"), None).await?, n)?;
            same("records", a.read_after("l", 0, 100).await?.records.len() as u64, n)?;
            same("new records", b.read_after("l", n - 1, 100).await?.records.len(), 1)?;
        }
        same("once", a.append_once("l", 1, 1, bytes("x"), None).await?, Some(11))?;
        same("repeated", b.append_once("l", 1, 1, bytes("x"), None).await?, Some(11))?;
        same("newest", b.extend("l", None).await?, 11)?;
        same("dropped", a.trim("l", Retain::all().records(3)).await?, 8)?;
        let page = b.read_after("l", 0, 100).await?;
        same("missed", (page.missed, page.records.len()), (8, 3))?;
        same("delete", b.delete_log("l").await?, true)?;
        same("sequence after delete", a.append("l", bytes("x"), None).await?, 1)
    })
}

fn create(handles: Arc<Handles>) -> Check {
    Box::pin(async move {
        let Handles { a, b } = &*handles;
        for n in 0..20 {
            let key = format!("lease/{n}");
            let (first, second) = tokio::join!(
                a.compare_and_swap(&key, None, Some(bytes("a")), None),
                b.compare_and_swap(&key, None, Some(bytes("b")), None),
            );
            let (winner, loser) = match (first?, second?) {
                (Swap::Done, lost @ Swap::Lost { .. }) => ("a", lost),
                (lost @ Swap::Lost { .. }, Swap::Done) => ("b", lost),
                both => return Err(Seen(format!("the outcomes are {both:?}"))),
            };
            same("the loser receives the value", loser, Swap::Lost { current: Some(bytes(winner)) })?;
        }
        Ok(())
    })
}

fn contested(handles: Arc<Handles>) -> Check {
    Box::pin(async move {
        const ROUNDS: usize = 10;
        let stores = [&handles.a, &handles.b, &handles.a, &handles.b];
        let mut writers = JoinSet::new();
        for store in stores.map(Arc::clone) {
            writers.spawn(async move {
                for _ in 0..ROUNDS {
                    loop {
                        let old = store.get("n").await?;
                        let mut new = old.as_deref().unwrap_or_default().to_vec();
                        new.push(b'.');
                        if store.compare_and_swap("n", old.as_deref(), Some(new.into()), None).await?.is_done() {
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
        let value = handles.b.get("n").await?;
        same("sum", value.map(|value| value.len()), Some(stores.len() * ROUNDS))
    })
}

fn appends(handles: Arc<Handles>) -> Check {
    Box::pin(async move {
        let mut writers = JoinSet::new();
        for store in [&handles.a, &handles.b, &handles.a, &handles.b].map(Arc::clone) {
            writers.spawn(async move {
                let mut sequences = Vec::new();
                for _ in 0..10 {
                    sequences.push(store.append("l", bytes("x"), None).await?);
                }
                Ok::<_, Seen>(sequences)
            });
        }
        let mut sequences = BTreeSet::new();
        while let Some(writer) = writers.join_next().await {
            sequences.extend(writer.map_err(|error| Seen(format!("a writer failed: {error}")))??);
        }
        same("sequences", sequences, (1..=40).collect())
    })
}

fn messages(handles: Arc<Handles>) -> Check {
    Box::pin(async move {
        let Handles { a, b } = &*handles;
        let (mut of_a, mut of_b) = (a.subscribe("t", 100).await?, b.subscribe("t", 100).await?);
        let sent: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        for message in &sent {
            a.publish("t", bytes(message)).await?;
        }
        b.publish("t", bytes("last")).await?;
        let expected: Vec<&str> = sent.iter().map(String::as_str).chain(["last"]).collect();
        expect(&mut of_a, &expected).await?;
        expect(&mut of_b, &expected).await
    })
}

fn from_now_on(handles: Arc<Handles>) -> Check {
    Box::pin(async move {
        let Handles { a, b } = &*handles;
        let mut earlier = b.subscribe("t", 1_000).await?;
        for _ in 0..20 {
            a.publish("t", bytes("before")).await?;
            let mut reader = b.subscribe("t", 10).await?;
            a.publish("t", bytes("after")).await?;
            expect(&mut reader, &["after"]).await?;
            expect(&mut earlier, &["before", "after"]).await?;
        }
        Ok(())
    })
}

fn dropped(handles: Arc<Handles>) -> Check {
    Box::pin(async move {
        let Some(Handles { a, b }) = Arc::into_inner(handles) else {
            return Err(Seen("the handles are shared".into()));
        };
        let mut reader = b.subscribe("t", 10).await?;
        let gone = a.subscribe("t", 10).await?;
        a.put("k", bytes("v"), None).await?;
        drop((a, gone));
        b.publish("t", bytes("1")).await?;
        expect(&mut reader, &["1"]).await?;
        same("get", b.get("k").await?, Some(bytes("v")))
    })
}
