//! The runner of properties.

use proptest::{
    strategy::Strategy,
    test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner},
};

/// Checks a property of random values. Each run has the same values, and `PROPTEST_CASES` sets their number.
pub(crate) fn check<S: Strategy>(values: &S, property: impl Fn(S::Value) -> TestCaseResult) {
    let config = Config { failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config, rng).run(values, property).unwrap_or_else(|error| panic!("{error}"));
}
