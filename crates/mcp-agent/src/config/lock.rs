//! Locks between processes that change the same files.

use std::{
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

use fs4::TryLockError;

use super::write;

/// The longest wait for another process, and the delay between two attempts.
const LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// Locks a file against other processes. Creates the file and its directory. The lock ends when the file is dropped.
///
/// The function blocks for at most 5 seconds.
pub(crate) fn lock(file: &Path) -> io::Result<fs::File> {
    write::create_directory(file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
    let file = fs::File::options().create(true).truncate(false).write(true).open(file)?;
    let end = Instant::now() + LIMIT;
    loop {
        match fs4::FileExt::try_lock(&file) {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < end => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => return Err(io::Error::other("another process holds the lock")),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}
