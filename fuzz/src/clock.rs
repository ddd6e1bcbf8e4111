//! Runtimes of one input. Their clocks do not wait, so an input that reaches a time limit is as fast as any other input.

use std::{future::Future, time::Duration};

use tokio::{
    runtime::{Builder, Runtime},
    task::yield_now,
    time::advance,
};

/// The number of idle polls after which the clock of a runtime with sockets moves. The system delivers the bytes of a loopback
/// connection before the next poll.
const IDLE: usize = 16;
/// The step of that clock.
const STEP: Duration = Duration::from_millis(250);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// Runs a future on a runtime of its own, and ends all tasks of the future. If each task waits, the clock moves to the next timer.
pub fn isolated<F: Future>(future: F) -> F::Output {
    runtime().block_on(future)
}

/// Runs a future that uses sockets, as [`isolated`] does. The clock does not move while the sockets have bytes.
pub fn isolated_with_sockets<F: Future>(future: F) -> F::Output {
    runtime().block_on(async {
        // This task can always continue, so the runtime does not move the clock itself.
        tokio::spawn(async {
            loop {
                for _ in 0..IDLE {
                    yield_now().await;
                }
                advance(STEP).await;
            }
        });
        future.await
    })
}
