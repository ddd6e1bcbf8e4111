//! Files and stdin as sources of arguments.

use std::{
    fs,
    io::Read,
    sync::atomic::{AtomicU8, Ordering},
};

use crate::{failure::Failure, screen};

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
        let read = off_the_runtime(move || fs::read_to_string(file));
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
        let read = off_the_runtime(|| {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        });
        let read = read.await.map_err(|error| Failure::usage(format!("cannot read stdin: {error}")));
        drop(turn);
        read
    }
}

/// Reads on a thread that the program can leave behind, so that a signal can cancel the command.
async fn off_the_runtime(read: impl FnOnce() -> std::io::Result<String> + Send + 'static) -> std::io::Result<String> {
    tokio::task::spawn_blocking(read).await.map_err(std::io::Error::other)?
}
