//! Random numbers that spread the waits of clients. They are no secrets. A thread that runs a random schedule sets their seed.

use std::{
    cell::Cell,
    hash::{BuildHasher as _, RandomState},
};

thread_local! {
    /// The state of the numbers of this thread. `None` outside of a schedule.
    static STATE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Returns a random number.
#[must_use]
pub fn next() -> u64 {
    match STATE.get() {
        Some(mut state) => {
            let number = step(&mut state);
            STATE.set(Some(state));
            number
        }
        // The keys of a hasher are random, which is sufficient here.
        None => RandomState::new().hash_one(0_u8),
    }
}

/// Returns the next number of a sequence (SplitMix64).
#[must_use]
pub fn step(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Sets the seed of the numbers of this thread until the guard is dropped.
#[must_use = "dropping the guard ends the seed"]
pub fn seed(seed: u64) -> Seeded {
    STATE.set(Some(seed));
    Seeded(())
}

/// The seed of the numbers of a thread.
#[derive(Debug)]
pub struct Seeded(());

impl Drop for Seeded {
    fn drop(&mut self) {
        STATE.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> Vec<u64> {
        (0..4).map(|_| next()).collect()
    }

    #[test]
    fn numbers_repeat_with_their_seed_alone() {
        let of_seed = |number| {
            let _seeded = seed(number);
            numbers()
        };
        assert_eq!(of_seed(7), of_seed(7));
        assert_ne!(of_seed(7), of_seed(8));
        assert_ne!(numbers(), numbers());
    }
}
