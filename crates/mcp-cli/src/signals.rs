//! What tells the program to end: Ctrl-C, and on Unix also SIGTERM and the end of the terminal.

use tokio::sync::watch;

/// What a shell says of a program that Ctrl-C ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// Hears every signal from now on; each clone sees those that come after its last look. The value is the exit code.
#[derive(Clone)]
pub(crate) struct Signals(watch::Receiver<u8>);

impl Signals {
    /// Starts to listen. From now on no signal ends the process by itself.
    pub(crate) fn listen() -> Self {
        let (tell, told) = watch::channel(0);
        tokio::spawn(hear(tell));
        Self(told)
    }

    /// The next signal.
    pub(crate) async fn next(&mut self) -> u8 {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        *self.0.borrow_and_update()
    }

    /// The next signal that is no Ctrl-C, where that is somebody else's.
    pub(crate) async fn next_but_interrupts(&mut self) -> u8 {
        loop {
            let code = self.next().await;
            if code != INTERRUPTED {
                return code;
            }
        }
    }

    /// Forgets what has come so far.
    pub(crate) fn forget(&mut self) {
        self.0.mark_unchanged();
    }
}

#[cfg(unix)]
async fn hear(tell: watch::Sender<u8>) {
    use tokio::signal::unix::{SignalKind, signal};

    let signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    // Where signals cannot be heard, the system's own way of ending the process is left.
    let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = signals else { return };
    loop {
        let (heard, code) = tokio::select! {
            heard = interrupt.recv() => (heard, INTERRUPTED),
            heard = terminate.recv() => (heard, 143),
            heard = hangup.recv() => (heard, 129),
        };
        if heard.is_none() || tell.send(code).is_err() {
            return;
        }
    }
}

#[cfg(not(unix))]
async fn hear(tell: watch::Sender<u8>) {
    while tokio::signal::ctrl_c().await.is_ok() && tell.send(INTERRUPTED).is_ok() {}
}
