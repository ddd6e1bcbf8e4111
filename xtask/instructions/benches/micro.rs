//! The times of the hot paths, by `cargo xtask bench micro`.
#![expect(clippy::panic, reason = "a path that fails has no time")]

use divan::{Bencher, counter::ItemsCount};
use instructions::Case;

/// The iterations of a measured run. They divide the time of the preparation of a case, which is a part of the measured time.
const ITERATIONS: u32 = 2_000;

fn main() {
    divan::main();
}

#[divan::bench(args = Case::ALL, sample_count = 20, sample_size = 1)]
fn path(bencher: Bencher<'_, '_>, case: Case) {
    bencher.counter(ItemsCount::new(ITERATIONS)).bench_local(|| {
        if let Err(error) = case.run(ITERATIONS) {
            panic!("{case}: {error}");
        }
    });
}
