//! Calls that wait for an approval.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;

use super::PolicyInput;

/// A call that waits for an approval.
///
/// ```
/// use mcp_agent::policy::Gate;
///
/// assert!(Gate::new().pending().is_empty());
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PendingApproval {
    /// The number of the question, unique in its gate.
    pub id: u64,
    /// The call.
    pub input: PolicyInput,
    /// The reason of the rule or of the hook.
    pub reason: Option<String>,
    /// The time of the question.
    pub since: SystemTime,
    /// The wait after which the call is refused.
    pub limit: Duration,
}

/// The questions of a gate. A question ends with its [`Entry`].
#[derive(Debug, Default)]
pub(super) struct Questions {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    last: u64,
    open: BTreeMap<u64, PendingApproval>,
}

/// An open question, until it is dropped.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    questions: &'a Questions,
    pub(super) question: PendingApproval,
}

impl Questions {
    /// Adds a question, unless as many as the capacity are open, or the principal has a quarter of them.
    pub(super) fn add(
        &self,
        capacity: usize,
        input: &PolicyInput,
        reason: Option<&str>,
        limit: Duration,
    ) -> Option<Entry<'_>> {
        let mut inner = self.inner.lock();
        let of_principal = |principal: &String| {
            let is_own = |question: &&PendingApproval| question.input.principal.as_ref() == Some(principal);
            inner.open.values().filter(is_own).count()
        };
        let is_full_for = |principal: &String| of_principal(principal) >= (capacity / 4).max(1);
        if inner.open.len() >= capacity || input.principal.as_ref().is_some_and(is_full_for) {
            return None;
        }
        inner.last += 1;
        let question = PendingApproval {
            id: inner.last,
            input: input.clone(),
            reason: reason.map(str::to_owned),
            since: SystemTime::now(),
            limit,
        };
        inner.open.insert(question.id, question.clone());
        Some(Entry { questions: self, question })
    }

    pub(super) fn list(&self) -> Vec<PendingApproval> {
        self.inner.lock().open.values().cloned().collect()
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.questions.inner.lock().open.remove(&self.question.id);
    }
}
