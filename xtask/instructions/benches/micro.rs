//! The times of the hot paths, by `cargo xtask bench micro`.

use divan::{Bencher, counter::ItemsCount};
use instructions::Case;

/// The iterations of a measured run. They are so many that the preparation of a case has no weight.
const ITERATIONS: u32 = 2_000;

fn main() {
    divan::main();
}

#[divan::bench(args = Case::ALL.map(|case| case.name), sample_count = 20, sample_size = 1)]
fn path(bencher: Bencher<'_, '_>, name: &str) {
    let case = Case::ALL.into_iter().find(|case| case.name == name);
    bencher.counter(ItemsCount::new(ITERATIONS)).bench_local(|| match case {
        Some(case) => case.run(ITERATIONS).map_err(|error| error.to_string()),
        None => Err(format!("`{name}` is not a case")),
    });
}
