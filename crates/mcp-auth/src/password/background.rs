//! Computations with a lower priority than the threads of the runtime.

use std::{sync::Once, thread};

/// The report of the first thread that does not start.
static REPORT: Once = Once::new();

/// The steps by which the priority is lower. A thread with this priority has about a tenth of a busy core.
#[cfg(target_os = "linux")]
const STEPS: i32 = 10;

/// Runs a computation with a lower priority, and waits for it. `None` if the thread does not start, or if the computation panics.
///
/// The computation has a thread that ends with it, because a thread cannot raise its priority again.
pub(super) fn run<T: Send + 'static>(compute: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let thread = thread::Builder::new().name("mcp-password".to_owned()).spawn(move || {
        lower_priority();
        compute()
    });
    match thread {
        Ok(thread) => thread.join().ok(),
        Err(error) => {
            // A client can cause this with each password, so the log has one record.
            REPORT.call_once(|| tracing::error!(%error, "a thread for the digest of a password does not start"));
            None
        }
    }
}

/// Lowers the priority of this thread, so that digests do not delay calls. Only Linux has priorities of single threads.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(STEPS) {
        tracing::debug!(%error, "a thread for digests has the priority of the process");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_computation_has_a_lower_priority_than_its_caller() {
        assert_eq!(run(|| 7), Some(7));
        #[cfg(target_os = "linux")]
        {
            let priority = || rustix::process::getpriority_process(None).unwrap();
            let before = priority();
            assert_eq!(run(priority), Some((before + STEPS).min(19)));
            assert_eq!(priority(), before);
        }
    }
}
