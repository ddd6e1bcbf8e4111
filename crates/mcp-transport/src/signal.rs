//! Signals that ask the process to end, and an orderly shutdown.

use std::{io, pin::pin, task::Poll, time::Duration};

/// Completes when the process is asked to end: by SIGTERM or SIGINT, elsewhere by Ctrl-C.
///
/// The function listens from the call on, before the first poll. From then on these signals do not end the process.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), std::io::Error> {
/// let stop = mcp_transport::signal::terminated();
/// let work = async { 7 };
/// tokio::select! {
///     value = work => assert_eq!(value, 7),
///     () = stop => {}
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Panics
/// Outside of a tokio runtime with I/O.
pub fn terminated() -> impl Future<Output = ()> + Send + 'static {
    let signals = Signals::listen();
    async move {
        match signals {
            Ok(mut signals) => signals.next().await,
            Err(error) => {
                tracing::warn!(%error, "cannot listen for signals");
                std::future::pending().await
            }
        }
    }
}

/// Runs `work` until it ends. The first signal calls `shutdown`, and a second signal drops the work and returns
/// `None`.
///
/// A second signal within a quarter of a second is ignored: launchers forward a signal that the terminal has already
/// sent to all processes.
///
/// ```no_run
/// use mcp_transport::signal::until_terminated;
/// use tokio::sync::Notify;
///
/// # async fn example() {
/// let stop = Notify::new();
/// let ended = until_terminated(stop.notified(), || stop.notify_one()).await;
/// assert!(ended.is_some(), "a second signal interrupted the shutdown");
/// # }
/// ```
///
/// # Panics
/// Outside of a tokio runtime with I/O and time.
pub async fn until_terminated<T>(work: impl Future<Output = T>, shutdown: impl FnOnce()) -> Option<T> {
    run_until_signals(work, terminated, shutdown).await
}

/// The time after a signal in which further signals are ignored.
const ECHO: Duration = Duration::from_millis(250);

async fn run_until_signals<T, S: Future<Output = ()>>(
    work: impl Future<Output = T>,
    listen: impl Fn() -> S,
    shutdown: impl FnOnce(),
) -> Option<T> {
    // Signals are handled from the start, before the work can be observed.
    let first = listen();
    let mut work = pin!(work);
    tokio::select! {
        done = &mut work => return Some(done),
        () = first => shutdown(),
    }
    let second = async {
        tokio::time::sleep(ECHO).await;
        listen().await;
    };
    tokio::select! {
        done = &mut work => Some(done),
        () = second => {
            tracing::warn!("a second signal aborted the running work");
            None
        }
    }
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        std::future::poll_fn(|cx| {
            if self.terminate.poll_recv(cx).is_ready() || self.interrupt.poll_recv(cx).is_ready() {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
    }
}

#[cfg(windows)]
struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    fn listen() -> io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Self)
    }

    async fn next(&mut self) {
        self.0.recv().await;
    }
}

#[cfg(not(any(unix, windows)))]
struct Signals;

#[cfg(not(any(unix, windows)))]
impl Signals {
    fn listen() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn next(&mut self) {}
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::pending, rc::Rc};

    use tokio::time::{Instant, sleep};

    use super::*;

    /// Signals at these milliseconds after the start. A listener receives later signals only.
    fn signals(at: &'static [u64]) -> impl Fn() -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
        let start = Instant::now();
        move || {
            let elapsed = start.elapsed();
            let next = at.iter().map(|at| Duration::from_millis(*at)).find(|at| *at > elapsed);
            Box::pin(async move {
                match next {
                    Some(at) => tokio::time::sleep_until(start + at).await,
                    None => pending().await,
                }
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_signal_requests_shutdown_and_the_second_aborts() {
        // Columns: times of the signals, end of the work without a request, its time to end after the request. Then the
        // expected time of the request, the expected end, and whether there is a result.
        for (at, alone, shutdown_takes, shutdown_requested, elapsed_millis, result) in [
            (&[][..], Some(700), 100, false, 700, Some(())),
            (&[1000], None, 600, true, 1600, Some(())),
            (&[1000, 1010, 1100], None, 600, true, 1600, Some(())),
            (&[1000, 1400], None, 600, true, 1400, None),
        ] {
            let start = Instant::now();
            let is_shutdown_requested = Rc::new(Cell::new(false));
            let ending = Rc::new(tokio::sync::Notify::new());
            let work = async {
                match alone {
                    Some(after) => sleep(Duration::from_millis(after)).await,
                    None => {
                        ending.notified().await;
                        sleep(Duration::from_millis(shutdown_takes)).await;
                    }
                }
            };
            let ask = || {
                is_shutdown_requested.set(true);
                ending.notify_one();
            };
            assert_eq!(run_until_signals(work, signals(at), ask).await, result, "{at:?}");
            assert_eq!(
                (is_shutdown_requested.get(), start.elapsed().as_millis()),
                (shutdown_requested, elapsed_millis),
                "{at:?}"
            );
        }
    }
}
