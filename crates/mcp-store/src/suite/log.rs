//! Rules of [`Log`].

use std::{sync::Arc, time::Duration};

use tokio::task::JoinSet;

use super::{Check, Rule, SHORT, Seen, bytes, invalid, outlive, same};
use crate::{Log, LogPage, Retain, limits};

pub(super) const RULES: &[Rule<dyn Log>] = &[
    ("an unknown log reads as an empty one", unknown),
    ("sequences begin at 1 and have no gaps, each log its own", sequences),
    ("records are read in order, strictly behind the sequence", read_after),
    ("a walk in pages brings every record once", walk),
    ("trim keeps the newest records within every bound", trim),
    ("sequences continue after a trim, and a page has the number of missed records", missed),
    ("a deleted log is gone and begins at 1 again", delete),
    ("a log expires as a whole, its ttl after the last append", expiry),
    ("a log is extended without a new record, and returns its newest sequence", extend),
    ("a numbered record is appended once, and repeats return its sequence", once),
    ("a record with an outdated number is not appended", outdated),
    ("of repeats at once exactly one is appended", repeats),
    ("of appends at once none is lost", contested),
    ("names, ttl and page limits are checked", arguments),
];

async fn fill(store: &dyn Log, log: &str, count: u64) -> Result<(), Seen> {
    for n in 1..=count {
        same("sequence", store.append(log, bytes(&n.to_string()), None).await?, n)?;
    }
    Ok(())
}

/// Returns the sequences of a page, and checks the data of each record against [`fill`].
fn numbers(page: &LogPage) -> Result<Vec<u64>, Seen> {
    for record in &page.records {
        same("data", &*record.data, record.sequence.to_string().as_bytes())?;
    }
    Ok(page.records.iter().map(|record| record.sequence).collect())
}

fn unknown(store: Arc<dyn Log>) -> Check {
    Box::pin(async move {
        same("read", store.read_after("nothing", 0, 10).await?, LogPage::default())?;
        same("read behind something", store.read_after("nothing", 7, 10).await?, LogPage::default())?;
        same("trim", store.trim("nothing", Retain::all().records(0)).await?, 0)?;
        same("delete", store.delete_log("nothing").await?, false)
    })
}

fn sequences(store: Arc<dyn Log>) -> Check {
    Box::pin(async move {
        fill(&*store, "a", 3).await?;
        fill(&*store, "b", 2).await?;
        same("the next of a", store.append("a", bytes("4"), None).await?, 4)
    })
}

fn read_after(store: Arc<dyn Log>) -> Check {
    Box::pin(async move {
        fill(&*store, "l", 4).await?;
        let cases: [(u64, &[u64]); 5] = [(0, &[1, 2, 3, 4]), (1, &[2, 3, 4]), (3, &[4]), (4, &[]), (u64::MAX, &[])];
        for (after, expected) in cases {
            let page = store.read_after("l", after, 10).await?;
            same(&format!("behind {after}"), numbers(&page)?.as_slice(), expected)?;
            same("missed", page.missed, 0)?;
            same("more", page.more, false)?;
        }
        Ok(())
    })
}

fn walk(store: Arc<dyn Log>) -> Check {
    Box::pin(async move {
        fill(&*store, "l", 10).await?;
        for limit in [1, 3, 5, 10, 11] {
            let (mut seen, mut after) = (Vec::new(), 0);
            loop {
                let page = store.read_after("l", after, limit).await?;
                same("page within its limit", page.records.len() <= limit, true)?;
                seen.extend(numbers(&page)?);
                after = seen.last().copied().unwrap_or(u64::MAX);
                if !page.more || seen.len() > 10 {
                    break;
                }
            }
            same("records of the walk", seen, (1..=10).collect())?;
        }
        Ok(())
    })
}

fn trim(store: Arc<dyn Log>) -> Check {
    Box::pin(async move {
        // Ten records of ten bytes each, trimmed in several steps.
        for n in 0..10_u8 {
            store.append("l", vec![n; 10].into(), None).await?;
        }
        let cases = [
            (Retain::all(), 0, 10),
            (Retain::all().records(10).bytes(100), 0, 10),
            (Retain::all().records(8), 2, 8),
            (Retain::all().records(20).bytes(79), 1, 7),
            (Retain::all().records(5).bytes(1_000), 2, 5),
            (Retain::all().records(4).bytes(20), 3, 2),
            (Retain::all().bytes(9), 2, 0),
        ];
        for (retain, dropped, left) in cases {
            same(&format!("dropped by {retain:?}"), store.trim("l", retain).await?, dropped)?;
            let page = store.read_after("l", 0, 100).await?;
            same("left", page.records.len(), left)?;
            let newest = (0..10_u8).skip(10 - left);
            same("newest", page.records.iter().zip(newest).all(|(record, n)| *record.data == vec![n; 10]), true)?;
        }
        Ok(())
    })
}

fn missed(store: Arc<dyn Log>) -> Check {
    Box::pin(async move {
        fill(&*store, "l", 6).await?;
        store.trim("l", Retain::all().records(2)).await?;
        for (after, missed, expected) in [(0, 4, vec![5, 6]), (2, 2, vec![5, 6]), (4, 0, vec![5, 6]), (5, 0, vec![6])] {
            let page = store.read_after("l", after, 10).await?;
            same(&format!("missed behind {after}"), page.missed, missed)?;
            same("records", numbers(&page)?, expected)?;
        }
        store.trim("l", Retain::all().records(0)).await?;
        let page = store.read_after("l", 1, 10).await?;
        same("missed of an empty log", (page.missed, page.records.len()), (5, 0))?;
        same("the next", store.append("l", bytes("7"), None).await?, 7)?;
        same("read", numbers(&store.read_after("l", 6, 10).await?)?, vec![7])
    })
}

fn delete(store: Arc<dyn Log>) -> Check {
    Box::pin(async move {
        fill(&*store, "l", 3).await?;
        same("first delete", store.delete_log("l").await?, true)?;
        same("read", store.read_after("l", 0, 10).await?, LogPage::default())?;
        same("second delete", store.delete_log("l").await?, false)?;
        fill(&*store, "l", 1).await
    })
}

fn expiry(store: Arc<dyn Log>) -> Check {
    Box::pin(async move {
        store.append("l", bytes("1"), Some(SHORT)).await?;
        store.append("l", bytes("2"), None).await?;
        outlive().await;
        same("kept by an append without ttl", numbers(&store.read_after("l", 0, 10).await?)?, vec![1, 2])?;
        store.append("l", bytes("3"), Some(SHORT)).await?;
        outlive().await;
        same("expired", store.read_after("l", 0, 10).await?, LogPage::default())?;
        same("delete", store.delete_log("l").await?, false)?;
        fill(&*store, "l", 1).await
    })
}

fn extend(store: Arc<dyn Log>) -> Check {
    Box::pin(async move {
        same("an unknown log", store.extend("l", Some(SHORT)).await?, 0)?;
        same("the log after it", store.read_after("l", 0, 10).await?, LogPage::default())?;
        store.append("l", bytes("1"), Some(SHORT)).await?;
        store.append("l", bytes("2"), Some(SHORT)).await?;
        same("the newest", store.extend("l", None).await?, 2)?;
        outlive().await;
        same("the extended log", numbers(&store.read_after("l", 0, 10).await?)?, vec![1, 2])?;
        store.trim("l", Retain::all().records(0)).await?;
        same("the newest after a trim", store.extend("l", Some(SHORT)).await?, 2)?;
        outlive().await;
        same("an expired log", store.extend("l", None).await?, 0)?;
        fill(&*store, "l", 1).await
    })
}

fn once(store: Arc<dyn Log>) -> Check {
    Box::pin(async move {
        let (one, other) = (7, u64::MAX);
        let steps = [(one, 1, 1), (one, 1, 1), (other, 1, 2), (one, 2, 3), (other, 9, 4), (one, 2, 3), (other, 9, 4)];
        for (writer, number, sequence) in steps {
            let appended = store.append_once("l", writer, number, bytes(&sequence.to_string()), None).await?;
            same(&format!("record {number} of {writer}"), appended, Some(sequence))?;
        }
        same("without a writer", store.append("l", bytes("5"), None).await?, 5)?;
        same("records", numbers(&store.read_after("l", 0, 10).await?)?, vec![1, 2, 3, 4, 5])?;
        // A trim drops the records, and not their numbers.
        store.trim("l", Retain::all().records(0)).await?;
        same("after a trim", store.append_once("l", one, 2, bytes("x"), None).await?, Some(3))?;
        same("in another log", store.append_once("m", one, 2, bytes("x"), Some(SHORT)).await?, Some(1))?;
        store.delete_log("l").await?;
        same("after a deletion", store.append_once("l", one, 2, bytes("x"), None).await?, Some(1))?;
        outlive().await;
        same("after the expiry", store.append_once("m", one, 1, bytes("x"), None).await?, Some(1))
    })
}

fn outdated(store: Arc<dyn Log>) -> Check {
    Box::pin(async move {
        same("first", store.append_once("l", 1, 5, bytes("1"), None).await?, Some(1))?;
        same("outdated", store.append_once("l", 1, 4, bytes("x"), None).await?, None)?;
        same("excluded", store.append_once("l", 1, limits::MAX_NUMBER, bytes("2"), None).await?, Some(2))?;
        same("of the excluded writer", store.append_once("l", 1, 6, bytes("x"), None).await?, None)?;
        same("excluded again", store.append_once("l", 1, limits::MAX_NUMBER, bytes("x"), None).await?, Some(2))?;
        same("records", numbers(&store.read_after("l", 0, 10).await?)?, vec![1, 2])?;
        // The log remembers the writers of the newest records.
        for writer in 2..=limits::MAX_WRITERS as u64 {
            store.append_once("l", writer, 1, bytes("x"), None).await?;
        }
        same("of a remembered writer", store.append_once("l", 1, 6, bytes("x"), None).await?, None)?;
        let sequence = limits::MAX_WRITERS as u64 + 2;
        same("of one more", store.append_once("l", 0, 1, bytes("x"), None).await?, Some(sequence))?;
        same("of a forgotten writer", store.append_once("l", 1, 6, bytes("x"), None).await?, Some(sequence + 1))
    })
}

fn repeats(store: Arc<dyn Log>) -> Check {
    Box::pin(async move {
        for number in 1..=5 {
            let mut writers = JoinSet::new();
            for _ in 0..8 {
                let store = store.clone();
                writers.spawn(async move { store.append_once("l", 1, number, bytes("x"), None).await });
            }
            while let Some(writer) = writers.join_next().await {
                let appended = writer.map_err(|error| Seen(format!("a writer failed: {error}")))??;
                same("sequence", appended, Some(number))?;
            }
        }
        same("records", store.read_after("l", 0, 100).await?.records.len(), 5)
    })
}

fn contested(store: Arc<dyn Log>) -> Check {
    Box::pin(async move {
        let mut writers = JoinSet::new();
        for _ in 0..8 {
            let store = store.clone();
            writers.spawn(async move {
                let mut sequences = Vec::new();
                for _ in 0..10 {
                    sequences.push(store.append("l", bytes("x"), None).await?);
                }
                Ok::<_, Seen>(sequences)
            });
        }
        let mut sequences = Vec::new();
        while let Some(writer) = writers.join_next().await {
            let seen = writer.map_err(|error| Seen(format!("a writer failed: {error}")))??;
            same("a writer's own order", seen.is_sorted(), true)?;
            sequences.extend(seen);
        }
        sequences.sort_unstable();
        same("sequences", sequences, (1..=80).collect())?;
        same("records", store.read_after("l", 0, 100).await?.records.len(), 80)
    })
}

fn arguments(store: Arc<dyn Log>) -> Check {
    Box::pin(async move {
        let long = "l".repeat(limits::MAX_NAME_BYTES + 1);
        invalid("an empty name", store.append("", bytes("x"), None).await)?;
        invalid("too long a name", store.append(&long, bytes("x"), None).await)?;
        invalid("too long a name", store.read_after(&long, 0, 1).await)?;
        invalid("too long a name", store.trim(&long, Retain::all()).await)?;
        invalid("too long a name", store.delete_log(&long).await)?;
        invalid("too long a name", store.append_once(&long, 1, 1, bytes("x"), None).await)?;
        invalid("too long a name", store.extend(&long, None).await)?;
        invalid("a number of zero", store.append_once("l", 1, 0, bytes("x"), None).await)?;
        let great = limits::MAX_NUMBER + 1;
        invalid("too great a number", store.append_once("l", 1, great, bytes("x"), None).await)?;
        invalid("a ttl of zero", store.extend("l", Some(Duration::ZERO)).await)?;
        invalid("a page of none", store.read_after("l", 0, 0).await)?;
        invalid("a ttl of zero", store.append("l", bytes("x"), Some(Duration::ZERO)).await)
    })
}
