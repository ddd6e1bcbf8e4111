//! The end of a request: its notifications stop, and its span and its access event record the outcome.

use std::ops::Deref;

use super::Context;
use crate::trace::{self, Ending};

impl Context {
    /// Ends the request before its response is sent: stops its notifications and its input requests, and records its end in its
    /// span and in the access log. Only the first end counts.
    pub(crate) fn end(&self, ending: Ending) {
        if std::mem::replace(&mut self.outgoing().finished, true) {
            return;
        }
        if let Some(collector) = &self.inner.collector {
            collector.end();
        }
        let ending = if self.has_expired() { ending.after_time_limit() } else { ending };
        trace::ended(&self.inner.span, ending);
        if let Some(access) = &self.inner.access {
            access.ended(&self.inner.span, ending, self.task_id().is_some());
        }
    }

    /// Whether the request has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.outgoing().finished
    }

    /// Records in the access log that the response to the call is a task.
    pub(crate) fn record_task(&self) {
        if let Some(access) = &self.inner.access {
            access.became_task(&self.inner.span);
        }
    }
}

/// The context of a request that must end. Dropping it ends the request as cancelled, unless the request has ended.
pub(crate) struct EndGuard(pub(crate) Context);

impl Deref for EndGuard {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.0
    }
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.end(Ending::Cancelled);
    }
}
