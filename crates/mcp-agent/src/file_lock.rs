//! Locks between processes that change the same files.

use std::{
    fs, io,
    time::{Duration, Instant},
};

use fs4::TryLockError;

/// The longest wait for another process.
const LIMIT: Duration = Duration::from_secs(5);
/// The delay between two attempts. Systems have no wait for a lock with a time limit.
const PAUSE: Duration = Duration::from_millis(20);

/// Locks an open file against other processes. The lock ends with the file.
///
/// The function blocks for at most 5 seconds.
pub(crate) fn lock(file: fs::File) -> io::Result<fs::File> {
    let end = Instant::now() + LIMIT;
    loop {
        match fs4::FileExt::try_lock(&file) {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < end => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "another process holds the lock"));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}
