//! Signals that end the program: Ctrl-C, and on Unix also SIGTERM and SIGHUP.

use std::time::Duration;

use tokio::{sync::watch, time::sleep};

use crate::failure::Failure;

/// The time in which a second signal counts as the first one.
const REPEATED: Duration = Duration::from_millis(250);

/// The exit code of a program that Ctrl-C ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// Receives signals as exit codes. Each clone receives the signals that arrive after its last call.
#[derive(Clone)]
pub(crate) struct Signals(watch::Receiver<u8>);

impl Signals {
    /// Installs the handlers. From then on, signals do not end the process directly.
    pub(crate) fn install() -> Self {
        let (sender, receiver) = watch::channel(0);
        tokio::spawn(forward(sender));
        Self(receiver)
    }

    /// Waits for the next signal, and returns its exit code.
    pub(crate) async fn next(&mut self) -> u8 {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        *self.0.borrow_and_update()
    }

    /// Runs a start. The next signal drops it.
    ///
    /// # Errors
    /// The failure of the start, or the signal.
    pub(crate) async fn interrupt<T>(&mut self, start: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            started = start => started,
            code = self.next() => Err(Failure::interrupted(code)),
        }
    }

    /// Waits for a further signal, and returns its exit code. Some launchers send each signal twice, so a signal in the next
    /// 250 ms does not count.
    pub(crate) async fn next_again(&mut self) -> u8 {
        sleep(REPEATED).await;
        self.discard_pending();
        self.next().await
    }

    /// Waits for the next signal except Ctrl-C, which the shell handles.
    pub(crate) async fn next_except_interrupt(&mut self) -> u8 {
        loop {
            let code = self.next().await;
            if code != INTERRUPTED {
                return code;
            }
        }
    }

    /// Returns signals that a test sends.
    #[cfg(test)]
    pub(crate) fn channel() -> (watch::Sender<u8>, Self) {
        let (sender, receiver) = watch::channel(0);
        (sender, Self(receiver))
    }

    /// Discards the signals that arrived before this call.
    pub(crate) fn discard_pending(&mut self) {
        self.0.mark_unchanged();
    }
}

#[cfg(unix)]
async fn forward(sender: watch::Sender<u8>) {
    use tokio::signal::unix::{SignalKind, signal};

    let signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    // If a handler cannot be installed, the signal ends the process directly.
    let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = signals else { return };
    loop {
        let (received, code) = tokio::select! {
            received = interrupt.recv() => (received, INTERRUPTED),
            received = terminate.recv() => (received, 143),
            received = hangup.recv() => (received, 129),
        };
        if received.is_none() || sender.send(code).is_err() {
            return;
        }
    }
}

#[cfg(not(unix))]
async fn forward(sender: watch::Sender<u8>) {
    while tokio::signal::ctrl_c().await.is_ok() && sender.send(INTERRUPTED).is_ok() {}
}
