//! Time limits that pause while the authorizer of a connector waits.

use std::{convert::Infallible, pin::pin, time::Duration};

use mcp_transport::PauseClock;
use tokio::{
    select,
    time::{Instant, error::Elapsed, sleep, timeout},
};

/// Waits for a future within a limit. The time in which the clock is paused does not count, up to `longest_pause` in
/// total.
pub(crate) async fn timeout_unless_paused<T>(
    limit: Duration,
    longest_pause: Duration,
    clock: Option<&PauseClock>,
    future: impl Future<Output = T>,
) -> Result<T, Elapsed> {
    let Some(clock) = clock else { return timeout(limit, future).await };
    // Most connectors have no authorizer. Boxing keeps the future small.
    Box::pin(async {
        let mut future = pin!(future);
        let (mut left, mut pause_left) = (limit, longest_pause);
        while !pause_left.is_zero() {
            let since = Instant::now();
            select! {
                biased;
                done = &mut future => return Ok(done),
                () = clock.until_paused() => left = left.saturating_sub(since.elapsed()),
                () = sleep(left) => break,
            }
            let since = Instant::now();
            select! {
                biased;
                done = &mut future => return Ok(done),
                () = clock.until_running() => {}
                () = sleep(pause_left) => {}
            }
            pause_left = pause_left.saturating_sub(since.elapsed());
        }
        // The rest of the limit without pauses; nothing is left if the limit is over.
        let rest = if pause_left.is_zero() { left } else { Duration::ZERO };
        timeout(rest, future).await
    })
    .await
}

/// Pauses a clock with another one, for at most `longest` each time. Never returns.
pub(crate) async fn follow(clock: &PauseClock, other: &PauseClock, longest: Duration) -> Infallible {
    loop {
        other.until_paused().await;
        let pause = clock.pause();
        // After this time, the clock runs although the user has not answered.
        let _ = timeout(longest, other.until_running()).await;
        drop(pause);
        other.until_running().await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns the time until a limit of 5 s with a pause of at most 10 s is over. The clock pauses from 2 s on.
    async fn elapsed(pauses: &'static [u32]) -> Duration {
        let clock = PauseClock::new();
        let pausing = clock.clone();
        tokio::spawn(async move {
            sleep(2 * SECOND).await;
            for length in pauses {
                let pause = pausing.pause();
                sleep(*length * SECOND).await;
                drop(pause);
                sleep(SECOND).await;
            }
        });
        let since = Instant::now();
        timeout_unless_paused(5 * SECOND, 10 * SECOND, Some(&clock), pending::<()>()).await.unwrap_err();
        since.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn limits_pause_up_to_the_longest_pause() {
        for (pauses, expected) in [(&[][..], 5), (&[4], 9), (&[4, 3], 12), (&[10], 15), (&[100], 15), (&[6, 100], 15)] {
            // Timers have a resolution of one millisecond.
            let difference = elapsed(pauses).await.abs_diff(expected * SECOND);
            assert!(difference <= Duration::from_millis(20), "{pauses:?}: {difference:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_follows_another_one_for_a_limited_time() {
        let (clock, other) = (PauseClock::new(), PauseClock::new());
        let (follower, followed) = (clock.clone(), other.clone());
        tokio::spawn(async move { follow(&follower, &followed, 10 * SECOND).await });
        for (length, expected) in [(4, 4), (100, 14)] {
            let pause = other.pause();
            sleep(length * SECOND).await;
            drop(pause);
            sleep(SECOND).await;
            let difference = clock.paused().abs_diff(expected * SECOND);
            assert!(difference <= Duration::from_millis(20), "{length}: {difference:?}");
        }
    }
}
