//! The guards of a running handler: side effects that it claims, and the time that it waits for answers.

use serde_json::Value;
use tokio::time::Instant;

use super::InputCollector;

impl InputCollector {
    /// Claims a side effect, or returns its earlier result. Waits while another claim of the same key runs.
    pub(in crate::inputs) async fn claim(&self, key: &str) -> Claim<'_> {
        loop {
            let woken = self.changed.notified();
            {
                let mut state = self.state();
                if let Some(value) = state.flow.done.get(key) {
                    return Claim::Done(value.clone());
                }
                match state.claims.get(key) {
                    Some(Claimed::Failed) => return Claim::Failed,
                    Some(Claimed::Running) => {}
                    None => {
                        state.flow.has_begun = true;
                        state.claims.insert(key.to_owned(), Claimed::Running);
                        return Claim::Mine(Attempt { collector: self, key: key.to_owned(), value: None });
                    }
                }
            }
            woken.await;
        }
    }

    /// Keeps input requests from ending the run until the guard is dropped.
    pub(in crate::inputs) fn effect(&self) -> Effect<'_> {
        self.state().effects += 1;
        Effect { collector: self }
    }

    /// Stops the time limit of the handler until the guard is dropped.
    pub(in crate::inputs) fn wait(&self) -> Waiting<'_> {
        let mut state = self.state();
        state.waiting += 1;
        state.waiting_since.get_or_insert_with(Instant::now);
        Waiting { collector: self }
    }
}

pub(in crate::inputs) struct Waiting<'a> {
    collector: &'a InputCollector,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.collector.state();
        state.waiting -= 1;
        if state.waiting == 0
            && let Some(since) = state.waiting_since.take()
        {
            state.waited += since.elapsed();
        }
        drop(state);
        self.collector.changed.notify_waiters();
    }
}

pub(in crate::inputs) struct Effect<'a> {
    collector: &'a InputCollector,
}

impl Drop for Effect<'_> {
    fn drop(&mut self) {
        let mut state = self.collector.state();
        state.effects -= 1;
        // Input requests that opened beside the side effect end the run now.
        let is_due = state.effects == 0 && !state.open.is_empty();
        let driver = if is_due { state.driver.take() } else { None };
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

/// The state of a side effect that has not succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claimed {
    Running,
    Failed,
}

/// The result of claiming a side effect.
pub(in crate::inputs) enum Claim<'a> {
    Mine(Attempt<'a>),
    Done(Value),
    Failed,
}

/// The attempt at a side effect. It fails when it is dropped without a value.
pub(in crate::inputs) struct Attempt<'a> {
    collector: &'a InputCollector,
    key: String,
    value: Option<Value>,
}

impl Attempt<'_> {
    pub(in crate::inputs) fn done(mut self, value: Value) {
        self.value = Some(value);
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let mut state = self.collector.state();
        let key = std::mem::take(&mut self.key);
        match self.value.take() {
            Some(value) => {
                state.claims.remove(&key);
                state.flow.done.insert(key, value);
            }
            None => {
                state.claims.insert(key, Claimed::Failed);
            }
        }
        drop(state);
        self.collector.changed.notify_waiters();
    }
}
