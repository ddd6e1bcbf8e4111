//! A checker of histories of one register with compare-and-swap (the search of Wing and Gong, with a memory of states).

use std::{collections::HashSet, time::Duration};

/// An operation of a client, with the times of its call and of its return.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) start: Duration,
    pub(super) end: Duration,
    pub(super) call: Call,
}

/// A call with its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Read {
        value: Option<u64>,
    },
    /// A swap that replaced `expected` by `new`.
    Done {
        expected: Option<u64>,
        new: u64,
    },
    /// A swap that met another value than `expected`.
    Lost {
        expected: Option<u64>,
        value: Option<u64>,
    },
    /// A swap without a response: it took effect at any later time, or never.
    Maybe {
        expected: Option<u64>,
        new: u64,
    },
}

impl Call {
    /// Whether the call has no effect on the register.
    fn is_read(self) -> bool {
        matches!(self, Self::Read { .. } | Self::Lost { .. })
    }

    fn is_certain(self) -> bool {
        !matches!(self, Self::Maybe { .. })
    }

    /// Returns the register after the call, or `None` if the call has another outcome on this register.
    fn apply(self, register: Option<u64>) -> Option<Option<u64>> {
        match self {
            Self::Read { value } => (register == value).then_some(register),
            Self::Lost { expected, value } => (register == value && value != expected).then_some(register),
            Self::Done { expected, new } | Self::Maybe { expected, new } => (register == expected).then_some(Some(new)),
        }
    }
}

/// Returns true if there is an order of the operations of one register, initially absent, that explains each outcome and that keeps
/// the order of operations that do not overlap.
pub(super) fn is_linearizable(history: &[Operation]) -> bool {
    let mut history = history.to_vec();
    history.sort_by_key(|operation| operation.start);
    let certain = history.iter().filter(|operation| operation.call.is_certain()).count();
    let none_done = vec![false; history.len()];
    let mut seen = HashSet::from([(none_done.clone(), None)]);
    let mut open = vec![(none_done, None, 0)];
    while let Some((done, register, count)) = open.pop() {
        if count == certain {
            return true;
        }
        // An operation can be next if it started before each other certain operation has ended.
        let rest = || history.iter().zip(&done).enumerate().filter(|(_, (_, done))| !**done);
        let certain_rest = rest().filter(|(_, (operation, _))| operation.call.is_certain());
        let bound = certain_rest.map(|(_, (operation, _))| operation.end).min().unwrap_or(Duration::MAX);
        let next = rest()
            .take_while(|(_, (operation, _))| operation.start <= bound)
            .filter_map(|(place, (operation, _))| Some((place, operation.call, operation.call.apply(register)?)));
        let mut next: Vec<_> = next.collect();
        // A possible operation without an effect can come first in each order, so the search needs no other branch.
        if let Some(read) = next.iter().position(|(_, call, _)| call.is_read()) {
            next = vec![next.swap_remove(read)];
        }
        for (place, call, register) in next {
            let mut done = done.clone();
            done[place] = true;
            if seen.insert((done.clone(), register)) {
                open.push((done, register, count + usize::from(call.is_certain())));
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: u64, end: u64, call: Call) -> Operation {
        Operation { start: Duration::from_millis(start), end: Duration::from_millis(end), call }
    }

    #[test]
    fn the_checker_accepts_and_rejects_histories() {
        let read = |value| Call::Read { value };
        let done = |expected, new| Call::Done { expected, new };
        let lost = |expected, value| Call::Lost { expected, value };
        let maybe = |expected, new| Call::Maybe { expected, new };
        for (expected, history) in [
            (true, vec![]),
            (true, vec![at(0, 1, read(None)), at(2, 3, done(None, 1)), at(4, 5, read(Some(1)))]),
            // A read that begins after the swap has ended sees it.
            (false, vec![at(0, 1, done(None, 1)), at(2, 3, read(None))]),
            // An overlapping read sees the value before or after the swap.
            (true, vec![at(0, 5, done(None, 1)), at(1, 2, read(None)), at(3, 4, read(Some(1)))]),
            (false, vec![at(0, 5, done(None, 1)), at(1, 2, read(Some(1))), at(3, 4, read(None))]),
            // Two swaps cannot replace the same value.
            (false, vec![at(0, 5, done(None, 1)), at(0, 5, done(None, 2))]),
            (true, vec![at(0, 5, done(None, 1)), at(0, 5, lost(None, Some(1)))]),
            (false, vec![at(0, 5, done(None, 1)), at(0, 5, lost(Some(1), Some(1)))]),
            // A swap without a response took effect late, or never.
            (true, vec![at(0, 1, maybe(None, 1)), at(2, 3, read(None)), at(4, 5, read(Some(1)))]),
            (true, vec![at(0, 1, maybe(None, 1)), at(2, 3, read(None)), at(4, 5, done(None, 2))]),
            (false, vec![at(0, 1, maybe(None, 1)), at(2, 3, read(Some(1))), at(4, 5, read(None))]),
            (false, vec![at(2, 3, maybe(None, 1)), at(0, 1, read(Some(1)))]),
            // Many reads at the same time need no search.
            (true, (0..64).map(|_| at(0, 5, read(None))).chain([at(0, 5, done(None, 1))]).collect()),
            (false, (0..64).map(|_| at(0, 5, read(None))).chain([at(0, 5, read(Some(2)))]).collect()),
            // A lost acknowledged write.
            (false, vec![at(0, 1, done(None, 1)), at(2, 3, done(Some(1), 2)), at(4, 5, lost(Some(2), Some(1)))]),
        ] {
            assert_eq!(is_linearizable(&history), expected, "{history:?}");
        }
    }
}
