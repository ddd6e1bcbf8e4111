//! Lines that the user types at the terminal. Waiting for a line can be cancelled.

use std::io;

/// The longest line, in bytes. A terminal delivers at most 4096 bytes at once.
const MAX_LINE: usize = 64 << 10;

/// Discards the keys that the user typed before a question appeared: they do not answer it.
pub(crate) fn discard_typed() {
    #[cfg(unix)]
    let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
}

/// Reads one line without its end. Returns `None` if the user closes the input (Ctrl-D).
pub(crate) async fn read_line() -> io::Result<Option<String>> {
    let mut line = Vec::new();
    loop {
        let piece = read_piece().await?;
        let is_end = piece.is_empty();
        line.extend(piece);
        if line.len() > MAX_LINE {
            return Err(io::Error::other("the line is too long"));
        }
        if line.ends_with(b"\n") || is_end {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            return Ok((!is_end || !text.is_empty()).then_some(text));
        }
    }
}

/// Reads the available bytes: a line, or a part of it.
///
/// The function reads only after the terminal reports input. A cancelled call therefore leaves no thread behind that
/// reads the input of the next question or of the shell.
#[cfg(unix)]
async fn read_piece() -> io::Result<Vec<u8>> {
    use std::{fs::File, io::Read, os::fd::AsFd};

    use tokio::io::{Interest, unix::AsyncFd};

    let terminal = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Not `expect`: older versions of tokio do not deprecate it.
    #[allow(deprecated, reason = "its unsafe replacement requires a guarantee that the type `File` already gives")]
    let terminal = AsyncFd::with_interest(terminal, Interest::READABLE)?;
    let _ready = terminal.readable().await?;
    let mut buffer = vec![0; 4096];
    let length = terminal.get_ref().read(&mut buffer)?;
    buffer.truncate(length);
    Ok(buffer)
}

/// Reads a line. A cancelled read continues on its thread, and the next question receives its line.
#[cfg(not(unix))]
async fn read_piece() -> io::Result<Vec<u8>> {
    use tokio::{sync::Mutex, task::JoinHandle};

    static READING: Mutex<Option<JoinHandle<io::Result<String>>>> = Mutex::const_new(None);

    let mut reading = READING.lock().await;
    let handle = reading.get_or_insert_with(|| {
        tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            io::stdin().read_line(&mut line).map(|_| line)
        })
    });
    let line = handle.await.map_err(io::Error::other);
    *reading = None;
    Ok(line??.into_bytes())
}

/// Restores the settings of the terminal when it is dropped. An aborted line editor does not restore them.
pub(crate) struct TerminalGuard {
    #[cfg(unix)]
    saved: Option<rustix::termios::Termios>,
}

impl TerminalGuard {
    /// Saves the current settings of the terminal.
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(unix)]
            saved: rustix::termios::tcgetattr(io::stdin()).ok(),
        }
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(saved) = &self.saved {
            // A closed terminal has no settings to restore.
            let _ = rustix::termios::tcsetattr(io::stdin(), rustix::termios::OptionalActions::Now, saved);
        }
    }
}
