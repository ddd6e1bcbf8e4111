//! A counter of running calls that refuses more than its limit.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Counts running calls and rejects a call above the limit. Calls are not queued.
#[derive(Debug)]
pub(crate) struct Gate {
    used: AtomicUsize,
    cap: usize,
}

impl Gate {
    pub(crate) fn new(cap: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), cap })
    }

    pub(crate) fn enter(self: &Arc<Self>) -> Option<Pass> {
        let entered = self
            .used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| (used < self.cap).then_some(used + 1))
            .is_ok();
        entered.then(|| Pass { gate: self.clone() })
    }
}

/// A permit of a [`Gate`]. Dropping it releases the permit.
#[derive(Debug)]
pub(crate) struct Pass {
    gate: Arc<Gate>,
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.gate.used.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_rejects_above_its_limit_and_reuses_released_permits() {
        let gate = Gate::new(2);
        let first = gate.enter().unwrap();
        let second = gate.enter().unwrap();
        assert!(gate.enter().is_none());
        drop(first);
        let third = gate.enter();
        assert!(third.is_some());
        assert!(gate.enter().is_none());
        drop((second, third));
        assert_eq!(gate.used.load(Ordering::Acquire), 0);
    }
}
