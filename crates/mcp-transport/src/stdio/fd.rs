//! Takes the standard descriptors and selects how to wait for each kind of file.
//!
//! `O_NONBLOCK` belongs to the open file, which the client or a shell may share, so it is never set on the given
//! descriptors. A pipe is opened again through `/proc`, a socket uses non-blocking calls, and any other file gets a
//! blocking thread.

use std::{
    fs::File,
    future::pending,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{FileType, Mode, OFlags, fstat, open},
    io::{Errno, fcntl_dupfd_cloexec},
    stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout},
};

use tokio::io::Interest;

use super::{
    Read, Write,
    socket::{Socket, register},
    thread,
};
use crate::BoxFuture;

/// Moves the two descriptors so that `std::io` and child processes cannot use them.
pub(super) fn take() -> io::Result<(OwnedFd, OwnedFd)> {
    // The minimum is 3, because a standard descriptor may be closed.
    let input = fcntl_dupfd_cloexec(stdin(), 3)?;
    let output = fcntl_dupfd_cloexec(stdout(), 3)?;
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    dup2_stdin(&null)?;
    if dup2_stdout(stderr()).is_err() {
        dup2_stdout(&null)?;
    }
    Ok((input, output))
}

/// Returns a reader for the kind of the descriptor.
pub(super) fn reader(fd: OwnedFd) -> io::Result<Box<dyn Read>> {
    match kind(&fd) {
        Kind::Socket => Ok(Box::new(Socket::reader(fd)?)),
        #[cfg(target_os = "linux")]
        Kind::Pipe(path) => match tokio::net::unix::pipe::OpenOptions::new().open_receiver(path) {
            Ok(pipe) => Ok(Box::new(pipe)),
            Err(_) => Ok(Box::new(thread::Reader::spawn(Blocking(fd.into()))?)),
        },
        Kind::Other => Ok(Box::new(thread::Reader::spawn(Blocking(fd.into()))?)),
    }
}

/// Returns a writer for the kind of the descriptor.
pub(super) fn writer(fd: OwnedFd) -> io::Result<Box<dyn Write>> {
    match kind(&fd) {
        Kind::Socket => Ok(Box::new(Socket::writer(fd)?)),
        #[cfg(target_os = "linux")]
        Kind::Pipe(path) => match tokio::net::unix::pipe::OpenOptions::new().open_sender(path) {
            Ok(pipe) => Ok(Box::new(pipe)),
            // The reading end is closed, or the pipe belongs to another user.
            Err(_) => Ok(Box::new(thread::Writer::spawn(Blocking(fd.into()))?)),
        },
        Kind::Other => Ok(Box::new(thread::Writer::spawn(Blocking(fd.into()))?)),
    }
}

/// Completes when the client has closed its end of the output. Never completes for a file, which has no other end.
pub(super) fn closed(output: &OwnedFd) -> BoxFuture<'static, ()> {
    // Errors and hang-ups are reported for each interest. On Linux this interest does not wake the task when the
    // client reads.
    let interest = if cfg!(target_os = "linux") { Interest::ERROR } else { Interest::WRITABLE };
    let Ok(fd) = output.try_clone().and_then(|fd| register(fd, interest)) else { return Box::pin(pending()) };
    Box::pin(async move {
        while let Ok(mut guard) = fd.ready(Interest::WRITABLE | Interest::ERROR).await {
            if guard.ready().is_write_closed() || guard.ready().is_error() {
                return;
            }
            guard.clear_ready();
        }
        // The runtime is shutting down.
        pending().await
    })
}

enum Kind {
    Socket,
    /// An anonymous pipe, with the path that opens it again. A named pipe uses a thread: opened after its last writer
    /// has closed it, it would never report the end.
    #[cfg(target_os = "linux")]
    Pipe(String),
    Other,
}

fn kind(fd: &OwnedFd) -> Kind {
    match fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Ok(FileType::Socket) => Kind::Socket,
        #[cfg(target_os = "linux")]
        Ok(FileType::Fifo) => {
            let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
            match std::fs::read_link(&path) {
                Ok(target) if target.to_string_lossy().starts_with("pipe:[") => Kind::Pipe(path),
                _ => Kind::Other,
            }
        }
        _ => Kind::Other,
    }
}

/// Blocking reads and writes. They also work when a process that shares the open file has set `O_NONBLOCK` on it.
struct Blocking(File);

impl Blocking {
    fn wait(&self, events: PollFlags) -> io::Result<()> {
        match poll(&mut [PollFd::from_borrowed_fd(self.0.as_fd(), events)], None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl io::Read for Blocking {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(PollFlags::IN)?,
                result => return result,
            }
        }
    }
}

impl io::Write for Blocking {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(PollFlags::OUT)?,
                result => return result,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
