//! The end of a gateway: its servers, its files, and the renewals of tokens.

use std::time::Duration;

use tokio::time::{Instant, timeout};

/// The longest time for the end of the servers.
const SERVERS: Duration = Duration::from_secs(10);
/// The longest time for the renewals of tokens that still run at the end, with the end of the servers. A lost renewal requires a new
/// login.
const RENEWALS: Duration = Duration::from_secs(30);

/// Ends a gateway after its last call: the servers, and then the files beside the renewals. `renewals` receives its time limit.
pub(super) async fn end<R: Future<Output = ()>>(
    servers: impl Future<Output = ()>,
    files: impl Future<Output = ()>,
    renewals: impl FnOnce(Duration) -> R,
) {
    let began = Instant::now();
    // If the time is not enough, the shutdown of the runtime kills the processes of the servers.
    let _ = timeout(SERVERS, servers).await;
    // The end of a server can write a line and begin a renewal, so both waits begin after it.
    tokio::join!(files, renewals(RENEWALS.saturating_sub(began.elapsed())));
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_parts_of_the_end_share_one_time_limit() {
        // Columns: the seconds that the servers, the files and the renewals need, and the seconds of the end.
        for (servers, files, renewals, expected) in
            [(0, 0, 0, 0), (2, 1, 0, 3), (600, 5, 0, 15), (2, 5, 7, 9), (0, 5, 600, 30), (600, 5, 600, 30)]
        {
            let took = |seconds| async move { sleep(Duration::from_secs(seconds)).await };
            let began = Instant::now();
            let renewed = |limit| async move { drop(timeout(limit, took(renewals)).await) };
            end(took(servers), took(files), renewed).await;
            assert_eq!(began.elapsed().as_secs(), expected, "{servers} {files} {renewals}");
        }
    }
}
