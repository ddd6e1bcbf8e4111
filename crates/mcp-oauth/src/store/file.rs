//! The store in files of one user.

use std::{
    fmt, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use fs4::TryLockError;
use mcp_protocol::auth::Secret;
use mcp_transport::BoxFuture;
use sha2::{Digest as _, Sha256};

#[cfg(test)]
use self::tests::reach;
use super::{StoreLock, TokenStore};
use crate::error::{Error, ErrorKind};

/// The delay between two attempts to take a lock.
const PAUSE: Duration = Duration::from_millis(25);
/// The longest wait for another process that compares and writes a record.
const WRITE_LIMIT: Duration = Duration::from_secs(5);
/// The extension of a file that is not complete yet.
const TEMPORARY: &str = "tmp";
/// The age after which a temporary file belongs to no write.
const OLDEST_TEMPORARY: Duration = Duration::from_secs(3600);
/// The largest record that the store reads, in bytes.
const MAX_RECORD: u64 = 1 << 20;

/// Records in the files of a directory, for several processes on one machine.
///
/// On Unix only the user can read the directory (0700) and its files (0600). A file is replaced as a whole, so a process
/// that ends during a write leaves the old record. A lock is a lock of the operating system, which ends with its process.
///
/// ```no_run
/// use mcp_oauth::FileStore;
///
/// let store = FileStore::open("example/oauth")?;
/// # let _ = store;
/// # Ok::<_, mcp_oauth::Error>(())
/// ```
#[derive(Clone)]
pub struct FileStore {
    dir: Arc<PathBuf>,
}

impl FileStore {
    /// Returns the store of a directory, and creates it if it is missing.
    ///
    /// # Errors
    /// If the directory cannot be created, or its permissions cannot be set.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, Error> {
        let dir = dir.into();
        create(&dir).map_err(|error| {
            let text = format!("the token store {} cannot be created: {error}", dir.display());
            Error::with_source(ErrorKind::Store, text, error)
        })?;
        remove_old_temporary_files(&dir);
        Ok(Self { dir: Arc::new(dir) })
    }

    fn path(&self, key: &str, extension: &str) -> PathBuf {
        self.dir.join(format!("{}.{extension}", digest(key)))
    }

    /// Returns the path of the lock of the process that compares and writes a record, or removes it. A logout removes a record
    /// without the lock of its key, if another process holds that lock.
    fn changes(&self, key: &str) -> PathBuf {
        self.path(&format!("changes {key}"), "lock")
    }

    /// Runs a file operation on a thread for blocking work.
    async fn run<T: Send + 'static>(
        &self,
        action: &'static str,
        operation: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let result = tokio::task::spawn_blocking(operation).await;
        let result = result.unwrap_or_else(|_| Err(io::Error::other("the operation panicked")));
        result.map_err(|error| {
            let text = format!("the token store {} cannot be {action}: {error}", self.dir.display());
            Error::with_source(ErrorKind::Store, text, error)
        })
    }
}

/// Returns the name of a key: keys contain URLs, which are not names of files.
pub(super) fn digest(key: &str) -> String {
    Sha256::digest(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl TokenStore for FileStore {
    fn load<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Secret>, Error>> {
        let path = self.path(key, "json");
        Box::pin(self.run("read", move || read(&path)))
    }

    fn save<'a>(&'a self, key: &'a str, record: &'a Secret) -> BoxFuture<'a, Result<(), Error>> {
        let (path, record) = (self.path(key, "json"), record.clone());
        Box::pin(self.run("written", move || write(&path, &record)))
    }

    fn replace<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Secret>,
        record: &'a Secret,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        let (path, expected, record) = (self.path(key, "json"), expected.cloned(), record.clone());
        let changes = self.changes(key);
        Box::pin(self.run("written", move || {
            let _changing = changing(&changes)?;
            if read(&path)? != expected {
                return Ok(false);
            }
            write(&path, &record).map(|()| true)
        }))
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        let (path, changes) = (self.path(key, "json"), self.changes(key));
        Box::pin(self.run("written", move || {
            // A logout removes the tokens also if another process is stopped during its write.
            let _changing = changing(&changes)
                .inspect_err(|error| {
                    let remedy = "end the process that writes the record, and remove the record again";
                    tracing::warn!(%error, remedy, "a record is removed without its lock, so another process can restore it");
                })
                .ok();
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        }))
    }

    fn lock<'a>(&'a self, key: &'a str, limit: Duration) -> BoxFuture<'a, Result<StoreLock, Error>> {
        let path = self.path(key, "lock");
        Box::pin(async move {
            let file = self.run("locked", move || lock_file(&path)).await?;
            let taken = async {
                while !try_lock(&file)? {
                    tokio::time::sleep(PAUSE).await;
                }
                Ok::<_, io::Error>(())
            };
            match tokio::time::timeout(limit, taken).await {
                Ok(Ok(())) => Ok(StoreLock::new(file)),
                Ok(Err(error)) => {
                    let text = format!("the token store {} cannot be locked: {error}", self.dir.display());
                    Err(Error::with_source(ErrorKind::Store, text, error))
                }
                Err(_) => {
                    let text = "another process still logs in to the same server or refreshes its tokens";
                    Err(Error::new(ErrorKind::Unavailable, text))
                }
            }
        })
    }
}

/// Waits on this thread for the lock of a key in a directory. Returns `None` if the lock is not free within the limit.
#[cfg(feature = "keyring")]
pub(super) fn lock(dir: &Path, key: &str, limit: Duration) -> io::Result<Option<fs::File>> {
    create(dir)?;
    wait_for(lock_file(&dir.join(format!("{}.lock", digest(key))))?, limit)
}

/// Waits on this thread until no other process changes the same record.
fn changing(path: &Path) -> io::Result<fs::File> {
    let busy = || io::Error::new(io::ErrorKind::TimedOut, "another process still changes the record");
    wait_for(lock_file(path)?, WRITE_LIMIT)?.ok_or_else(busy)
}

/// Waits on this thread for the lock of a file. Systems have no wait for a lock with a time limit, so this one tries again.
fn wait_for(file: fs::File, limit: Duration) -> io::Result<Option<fs::File>> {
    let start = Instant::now();
    while !try_lock(&file)? {
        if start.elapsed() >= limit {
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(Some(file))
}

fn lock_file(path: &Path) -> io::Result<fs::File> {
    options().read(true).create(true).truncate(false).open(path)
}

/// Takes the lock of a file. Returns `false` if another process holds it.
fn try_lock(file: &fs::File) -> io::Result<bool> {
    match fs4::FileExt::try_lock(file) {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn create(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
        builder.mode(0o700).create(dir)?;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
    }
    #[cfg(not(unix))]
    builder.create(dir)
}

/// Returns the options of a file that only its user can read.
fn options() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn read(path: &Path) -> io::Result<Option<Secret>> {
    let file = match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    #[cfg(unix)]
    tighten(&file, path);
    let mut bytes = Vec::new();
    let read = io::Read::read_to_end(&mut io::Read::take(file, MAX_RECORD + 1), &mut bytes)?;
    if read as u64 > MAX_RECORD {
        tracing::warn!("a record of the token store is larger than 1 MiB and is ignored");
        return Ok(None);
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(Secret::new(text))),
        Err(_) => {
            tracing::warn!("a record of the token store is not a text and is ignored");
            Ok(None)
        }
    }
}

/// Removes the permissions of other users, which another program added.
#[cfg(unix)]
fn tighten(file: &fs::File, path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;

    if file.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o077 == 0) {
        return;
    }
    let file_name = path.display();
    match file.set_permissions(fs::Permissions::from_mode(0o600)) {
        Ok(()) => tracing::warn!("other users could read {file_name} of the token store: its mode is 0600 now"),
        Err(error) => tracing::warn!(%error, "other users can read {file_name} of the token store"),
    }
}

/// Removes the files of processes that ended during a write.
fn remove_old_temporary_files(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let age = || path.metadata().ok()?.modified().ok()?.elapsed().ok();
        if path.extension().is_some_and(|extension| extension == TEMPORARY)
            && age().is_some_and(|age| age > OLDEST_TEMPORARY)
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::debug!(%error, "an old temporary file of the token store is not removed");
        }
    }
}

/// The completed steps of a write, at which a test stops the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Created,
    Written,
    Synced,
    Renamed,
}

#[cfg(not(test))]
const fn reach(_: Step, _: &fs::File) {}

/// Writes a file beside the old one, and replaces the old one with it.
fn write(path: &Path, record: &Secret) -> io::Result<()> {
    // Processes of several machines or containers may share the directory, so a process id is not unique.
    let temporary = path.with_extension(format!("{}.{TEMPORARY}", oauth2::CsrfToken::new_random().secret()));
    let mut file = options().create_new(true).open(&temporary)?;
    reach(Step::Created, &file);
    let written = (|| {
        file.write_all(record.expose().as_bytes())?;
        reach(Step::Written, &file);
        file.sync_all()?;
        reach(Step::Synced, &file);
        fs::rename(&temporary, path)?;
        reach(Step::Renamed, &file);
        Ok(())
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
        return written;
    }
    // The new name must survive a loss of power. Only Unix can open a directory as a file.
    #[cfg(unix)]
    if let Some(dir) = path.parent() {
        fs::File::open(dir)?.sync_all()?;
    }
    Ok(())
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore").field("dir", &self.dir).finish()
    }
}

#[cfg(test)]
mod tests;
