//! What arguments are read from: files, and stdin once.

use std::{
    fs,
    io::Read,
    sync::atomic::{AtomicU8, Ordering},
};

use crate::{failure::Failure, screen};

/// Whose stdin is.
#[derive(Debug, Default)]
pub(crate) struct Input(AtomicU8);

const READ: u8 = 1;
const SHELL: u8 = 2;

impl Input {
    /// Stdin has the lines of a shell.
    pub(crate) fn of_shell() -> Self {
        Self(AtomicU8::new(SHELL))
    }

    /// The text of a file; `-` is stdin.
    pub(crate) async fn read(&self, name: &str) -> Result<String, Failure> {
        if name == "-" {
            return self.stdin().await;
        }
        // A pipe is a file too, and may never end.
        let file = name.to_owned();
        let read = off_the_runtime(move || fs::read_to_string(file));
        read.await.map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))
    }

    async fn stdin(&self) -> Result<String, Failure> {
        match self.0.fetch_or(READ, Ordering::Relaxed) {
            0 => {}
            READ => return Err(Failure::usage("stdin can be read once only")),
            _ => return Err(Failure::usage("stdin has the lines of this shell: name a file, as `@file`")),
        }
        // No question is asked meanwhile.
        let typing = screen::typing().await;
        let read = off_the_runtime(|| {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        });
        let read = read.await.map_err(|error| Failure::usage(format!("cannot read stdin: {error}")));
        drop(typing);
        read
    }
}

/// Reads on a thread that may be left behind, so that waiting can be given up.
async fn off_the_runtime(read: impl FnOnce() -> std::io::Result<String> + Send + 'static) -> std::io::Result<String> {
    tokio::task::spawn_blocking(read).await.map_err(std::io::Error::other)?
}
