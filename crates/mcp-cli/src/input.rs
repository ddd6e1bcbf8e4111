//! Files and stdin as sources of arguments.

use std::{
    fs::File,
    io::{self, Read},
    sync::atomic::{AtomicU8, Ordering},
};

use crate::{failure::Failure, screen};

/// The most bytes of a file or of stdin.
const MAX_BYTES: u64 = 64 << 20;

/// Reads files, and reads stdin once if no shell uses it.
#[derive(Debug, Default)]
pub(crate) struct Input(AtomicU8);

const READ: u8 = 1;
const SHELL: u8 = 2;

impl Input {
    /// Returns an input for a shell, which reads its commands from stdin.
    pub(crate) fn of_shell() -> Self {
        Self(AtomicU8::new(SHELL))
    }

    /// Reads a file; `-` is stdin.
    pub(crate) async fn read(&self, name: &str) -> Result<String, Failure> {
        if name == "-" {
            return self.stdin().await;
        }
        // The file may be a pipe that never ends.
        let file = name.to_owned();
        let read = off_the_runtime(move || read_text(File::open(file)?, MAX_BYTES));
        read.await.map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))
    }

    async fn stdin(&self) -> Result<String, Failure> {
        match self.0.fetch_or(READ, Ordering::Relaxed) {
            0 => {}
            READ => return Err(Failure::usage("stdin can be read only once")),
            _ => return Err(Failure::usage("the shell reads its commands from stdin; give a file as `@file`")),
        }
        // The turn keeps questions of the server away from stdin.
        let turn = screen::input_turn().await;
        let read = off_the_runtime(|| read_text(io::stdin().lock(), MAX_BYTES));
        let read = read.await.map_err(|error| Failure::usage(format!("cannot read stdin: {error}")));
        drop(turn);
        read
    }
}

/// Reads a UTF-8 text of at most `limit` bytes.
fn read_text(source: impl Read, limit: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    source.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("the text exceeds {} MiB", limit >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("the text is not UTF-8"))
}

/// Reads on a thread that the program can leave behind, so that a signal can cancel the command.
async fn off_the_runtime(read: impl FnOnce() -> io::Result<String> + Send + 'static) -> io::Result<String> {
    tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_a_largest_size_and_is_utf_8() {
        let limit = 1 << 20;
        let read = |source: &mut dyn Read| read_text(source, limit).map_err(|error| error.to_string());
        let full = "é".repeat(1 << 19);
        assert_eq!(read(&mut full.as_bytes()).as_deref(), Ok(&*full));
        assert_eq!(read(&mut io::repeat(b'x')), Err("the text exceeds 1 MiB".to_owned()));
        assert_eq!(read(&mut &b"\xff"[..]), Err("the text is not UTF-8".to_owned()));
    }
}
