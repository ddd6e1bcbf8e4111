//! The CPU time of a target. Other processes do not change it.

use std::{env, sync::OnceLock, time::Duration};

use rustix::{
    process::{Signal, getpid, kill_process},
    time::{ClockId, clock_gettime},
};

/// The longest CPU time of one input.
const LONGEST: Duration = Duration::from_secs(10);
/// The variable with the seconds of CPU time after which the target ends. `cargo xtask fuzz` sets it.
const SECONDS: &str = "FUZZ_CPU_SECONDS";

/// Returns the CPU time of this process.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// Runs one input, and fails if it took too much CPU time. Ends the target after its time.
#[track_caller]
pub fn within_time(run: impl FnOnce()) {
    let start = cpu_time();
    if limit().is_some_and(|limit| start >= limit) {
        // libFuzzer then prints its figures and ends after this input.
        kill_process(getpid(), Signal::USR1).unwrap();
    }
    run();
    let used = cpu_time() - start;
    assert!(used < LONGEST, "the input took {used:?} of CPU time");
}

fn limit() -> Option<Duration> {
    static LIMIT: OnceLock<Option<Duration>> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let seconds = env::var(SECONDS).ok()?;
        Some(Duration::from_secs(seconds.parse().unwrap_or_else(|_| panic!("{SECONDS} is not a number: {seconds}"))))
    })
}

/// Defines the function of a target, with a limit of the CPU time of an input.
#[macro_export]
macro_rules! fuzz_target {
    (|$data:ident: &[u8]| $body:expr) => {
        ::libfuzzer_sys::fuzz_target!(|$data: &[u8]| $crate::within_time(|| $body));
    };
    (|$data:ident: &str| $body:expr) => {
        ::libfuzzer_sys::fuzz_target!(|$data: &str| $crate::within_time(|| $body));
    };
}
