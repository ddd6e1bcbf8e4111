//! The end of a call: its notifications stop, and its span records the outcome.

use std::{borrow::Borrow, sync::atomic::Ordering};

use super::Context;
use crate::trace::{self, Ending};

impl Context {
    /// Stops all notifications of this request before its response is sent.
    pub(crate) fn finish(&self) {
        self.outgoing().finished = true;
        if let Some(collector) = &self.inner.collector {
            collector.end();
        }
    }

    /// Finishes the call, and records its end in the span. Only the first end counts.
    pub(crate) fn end(&self, ending: Ending<'_>) {
        self.finish();
        if !self.inner.ended.swap(true, Ordering::AcqRel) {
            trace::ended(&self.inner.span, ending);
        }
    }
}

/// Ends a call as cancelled when it is dropped before its end.
pub(crate) struct EndGuard<C: Borrow<Context>>(pub(crate) C);

impl<C: Borrow<Context>> Drop for EndGuard<C> {
    fn drop(&mut self) {
        self.0.borrow().end(Ending::Cancelled);
    }
}
