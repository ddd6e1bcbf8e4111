//! The signals that ask a process to end, and an end in order.

use std::{io, pin::pin, task::Poll, time::Duration};

/// Resolves when the process is asked to end: SIGTERM or SIGINT, elsewhere Ctrl-C. It listens from the call on, not
/// only from the first poll; from then on these signals do not end the process by themselves.
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

/// Runs `work` to its end. When the process is asked to end, `shutdown` asks the work to; when it is asked a second time,
/// the work is given up, which `None` says.
///
/// A second signal that follows within a quarter of a second counts as the first: launchers pass on what the terminal has
/// sent to everybody already.
///
/// # Panics
/// Outside of a tokio runtime with I/O and time.
pub async fn until_terminated<T>(work: impl Future<Output = T>, shutdown: impl FnOnce()) -> Option<T> {
    until(work, terminated, shutdown).await
}

/// How soon after a signal another one is the same wish.
const ECHO: Duration = Duration::from_millis(250);

async fn until<T, S: Future<Output = ()>>(
    work: impl Future<Output = T>,
    listen: impl Fn() -> S,
    shutdown: impl FnOnce(),
) -> Option<T> {
    // Listened for from the start: whoever sees the work going on may rely on an orderly end.
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
            tracing::warn!("asked to end a second time: what still ran was cut off");
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

    /// Signals at these milliseconds after the start; who listens hears only what comes later.
    fn signals(at: &'static [u64]) -> impl Fn() -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
        let start = Instant::now();
        move || {
            let heard = start.elapsed();
            let next = at.iter().map(|at| Duration::from_millis(*at)).find(|at| *at > heard);
            Box::pin(async move {
                match next {
                    Some(at) => tokio::time::sleep_until(start + at).await,
                    None => pending().await,
                }
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_signal_asks_and_the_second_cuts_off() {
        // When signals come, when the work is done by itself, how long it takes to end once asked; when it was asked, and
        // when all was over, with a result or without.
        for (at, alone, asked_takes, asked, over, result) in [
            (&[][..], Some(700), 100, false, 700, Some(())),
            (&[1000], None, 600, true, 1600, Some(())),
            (&[1000, 1010, 1100], None, 600, true, 1600, Some(())),
            (&[1000, 1400], None, 600, true, 1400, None),
        ] {
            let start = Instant::now();
            let is_asked = Rc::new(Cell::new(false));
            let ending = Rc::new(tokio::sync::Notify::new());
            let work = async {
                match alone {
                    Some(after) => sleep(Duration::from_millis(after)).await,
                    None => {
                        ending.notified().await;
                        sleep(Duration::from_millis(asked_takes)).await;
                    }
                }
            };
            let ask = || {
                is_asked.set(true);
                ending.notify_one();
            };
            assert_eq!(until(work, signals(at), ask).await, result, "{at:?}");
            assert_eq!((is_asked.get(), start.elapsed().as_millis()), (asked, over), "{at:?}");
        }
    }
}
