//! The changes of tasks on other nodes: all streams of this node share one poll for each task.

use std::{collections::HashMap, sync::Arc};

use mcp_transport::BoxFuture;
use tokio::sync::watch;

use super::sync::Mutex;

/// The polls of a node by the ids of their tasks.
#[derive(Default)]
pub(super) struct Polls {
    open: Arc<Mutex<HashMap<String, watch::Sender<Seen>>>>,
}

/// The last state that a poll has seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// The number of changes of the task on its node.
    pub(super) version: u64,
    /// The task or its node has ended.
    pub(super) has_ended: bool,
}

impl Polls {
    /// Joins the poll of a task. Starts it with `poll` if it does not run. The poll ends when its last reader is dropped.
    pub(super) fn join(
        &self,
        id: &str,
        start: Seen,
        poll: impl FnOnce(watch::Sender<Seen>) -> BoxFuture<'static, ()>,
    ) -> watch::Receiver<Seen> {
        let (reader, new) = self.reader(id, start, poll);
        if let Some(polling) = new {
            tokio::spawn(polling);
        }
        reader
    }

    /// Returns a reader of the poll of a task, and the future of the poll if it does not run.
    fn reader(
        &self,
        id: &str,
        start: Seen,
        poll: impl FnOnce(watch::Sender<Seen>) -> BoxFuture<'static, ()>,
    ) -> (watch::Receiver<Seen>, Option<BoxFuture<'static, ()>>) {
        let mut open = self.open.lock();
        if let Some(seen) = open.get(id) {
            return (seen.subscribe(), None);
        }
        let (seen, reader) = watch::channel(start);
        open.insert(id.to_owned(), seen.clone());
        let polling = poll(seen.clone());
        (reader, Some(Box::pin(run(self.open.clone(), id.to_owned(), seen, polling))))
    }
}

/// Polls until the task ends or has no reader.
async fn run(
    open: Arc<Mutex<HashMap<String, watch::Sender<Seen>>>>,
    id: String,
    seen: watch::Sender<Seen>,
    mut polling: BoxFuture<'static, ()>,
) {
    loop {
        let has_ended = tokio::select! {
            biased;
            () = &mut polling => true,
            () = seen.closed() => false,
        };
        let mut open = open.lock();
        // A reader may have joined meanwhile.
        if has_ended || seen.receiver_count() == 0 {
            open.remove(&id);
            drop(open);
            seen.send_modify(|seen| seen.has_ended = true);
            return;
        }
    }
}

#[cfg(test)]
mod models {
    //! Models of the end of a poll while readers join and leave.

    use std::future::pending;

    use mcp_schedule::model::{block_on, check, spawn};

    use super::*;

    #[test]
    fn a_poll_does_not_end_while_it_has_a_reader() {
        check(|| {
            let polls = Arc::new(Polls::default());
            let join =
                |polls: &Polls| polls.reader("a", Seen { version: 1, has_ended: false }, |_| Box::pin(pending()));
            let (first, polling) = join(&polls);
            let leaving = spawn(move || drop(first));
            let joining = spawn({
                let polls = polls.clone();
                move || {
                    let (reader, new) = join(&polls);
                    // The lock is a step, in which the first poll can end.
                    assert_eq!(polls.open.lock().len(), 1);
                    assert!(!reader.borrow().has_ended);
                    drop(reader);
                    new
                }
            });
            block_on(polling.unwrap());
            leaving.join().unwrap();
            if let Some(polling) = joining.join().unwrap() {
                block_on(polling);
            }
            assert!(polls.open.lock().is_empty());
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const START: Seen = Seen { version: 1, has_ended: false };

    #[tokio::test]
    async fn readers_of_one_task_share_a_poll_until_the_last_reader_leaves() {
        let (polls, started, running) = (Polls::default(), Arc::new(AtomicUsize::new(0)), Arc::new(()));
        let join = |id: &str| {
            polls.join(id, START, |_seen| {
                started.fetch_add(1, Ordering::SeqCst);
                let running = running.clone();
                Box::pin(async move {
                    let _running = running;
                    std::future::pending().await
                })
            })
        };
        let readers = [join("a"), join("a"), join("b")];
        assert_eq!(started.load(Ordering::SeqCst), 2);
        drop(readers);
        while Arc::strong_count(&running) > 1 {
            tokio::task::yield_now().await;
        }
        assert!(polls.open.lock().is_empty());
        drop(join("a"));
        assert_eq!(started.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn readers_receive_changes_and_the_end() {
        let (polls, (next, end)) = (Polls::default(), tokio::sync::oneshot::channel::<()>());
        let mut reader = polls.join("a", START, |seen| {
            Box::pin(async move {
                seen.send_modify(|seen| seen.version = 2);
                let _ = end.await;
            })
        });
        reader.changed().await.unwrap();
        assert_eq!((reader.borrow().version, reader.borrow().has_ended), (2, false));
        drop(next);
        reader.wait_for(|seen| seen.has_ended).await.unwrap();
        assert!(polls.open.lock().is_empty());
    }
}
