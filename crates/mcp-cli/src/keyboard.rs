//! Lines that the user types at the terminal, read so that waiting for one can be given up.

use std::io;

/// The longest line. A terminal gives 4096 bytes at most without a key in between that ends a piece.
const LONGEST: usize = 64 << 10;

/// Forgets what was typed before anything was asked: nobody agrees to what is not shown yet.
pub(crate) fn forget() {
    #[cfg(unix)]
    let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
}

/// One line without its end; `None` where the user closes the input (Ctrl-D).
pub(crate) async fn line() -> io::Result<Option<String>> {
    let mut line = Vec::new();
    loop {
        let piece = read().await?;
        let is_end = piece.is_empty();
        line.extend(piece);
        if line.len() > LONGEST {
            return Err(io::Error::other("the line is too long"));
        }
        if line.ends_with(b"\n") || is_end {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            return Ok((!is_end || !text.is_empty()).then_some(text));
        }
    }
}

/// What the terminal gives at once: a line, or less of one.
///
/// The terminal is asked whether it has something before it is read, so that no thread is left reading what is meant for
/// another question, or for the shell.
#[cfg(unix)]
async fn read() -> io::Result<Vec<u8>> {
    use std::{fs::File, io::Read, os::fd::AsFd};

    use tokio::io::{Interest, unix::AsyncFd};

    let terminal = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Not `expect`: only since 1.54 is it deprecated.
    #[allow(deprecated, reason = "its unsafe replacement asks for what a `File` is by its type")]
    let terminal = AsyncFd::with_interest(terminal, Interest::READABLE)?;
    let _ready = terminal.readable().await?;
    let mut buffer = vec![0; 4096];
    let length = terminal.get_ref().read(&mut buffer)?;
    buffer.truncate(length);
    Ok(buffer)
}

/// Here a reading that was given up goes on, and the next question takes its line.
#[cfg(not(unix))]
async fn read() -> io::Result<Vec<u8>> {
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

/// The terminal as it was, whoever changed it: a line editor that is left in the middle of a line does not put it back.
pub(crate) struct Restored {
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

impl Restored {
    /// What it is now is put back when this is dropped.
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(unix)]
            before: rustix::termios::tcgetattr(io::stdin()).ok(),
        }
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(before) = &self.before {
            // A terminal that is gone needs nothing put back.
            let _ = rustix::termios::tcsetattr(io::stdin(), rustix::termios::OptionalActions::Now, before);
        }
    }
}
