//! The limits of checks by the application.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::sync::Semaphore;

use crate::authenticator::Rejection;

/// The checks that run at once.
const RUNNING: usize = 64;
/// The longest time of a check with its wait for a permit.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Runs checks of the application: at most 64 at once, each for at most ten seconds.
#[derive(Debug, Clone)]
pub(crate) struct CheckLimit {
    running: Arc<Semaphore>,
}

impl CheckLimit {
    pub(crate) fn new() -> Self {
        Self { running: Arc::new(Semaphore::new(RUNNING)) }
    }

    /// Runs a check. The result is an outage if the check takes too long.
    pub(crate) async fn run<T, F: Future<Output = Result<T, Rejection>>>(
        &self,
        check: impl FnOnce() -> F,
    ) -> Result<T, Rejection> {
        let limited = async {
            let _permit = self.running.acquire().await;
            check().await
        };
        tokio::time::timeout(TIMEOUT, limited).await.unwrap_or_else(|_| {
            tracing::warn!("a check of credentials by the application takes too long");
            Err(Rejection::Unavailable { retry_after: Duration::from_secs(1) })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn checks_of_the_application_are_limited_in_number_and_time() {
        let limit = CheckLimit::new();
        let started: Arc<AtomicUsize> = Arc::default();
        let mut checks = tokio::task::JoinSet::new();
        for _ in 0..100 {
            let (limit, started) = (limit.clone(), Arc::clone(&started));
            checks.spawn(async move {
                let hang = || async move {
                    started.fetch_add(1, Ordering::SeqCst);
                    std::future::pending::<Result<(), Rejection>>().await
                };
                limit.run(hang).await
            });
        }
        let begin = tokio::time::Instant::now();
        tokio::time::sleep(TIMEOUT - Duration::from_secs(1)).await;
        assert_eq!(started.load(Ordering::SeqCst), 64);
        for result in checks.join_all().await {
            assert!(matches!(result, Err(Rejection::Unavailable { .. })), "{result:?}");
        }
        assert_eq!(begin.elapsed(), TIMEOUT);
        assert_eq!(limit.run(|| async { Ok(1) }).await, Ok(1));
    }
}
