//! Pins on disk.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::Pins;
use crate::{bounded_file, file_lock};

/// The largest file, in bytes.
const LARGEST: u64 = 64 << 20;
/// The version of the format.
const VERSION: u64 = 1;

/// A file with pins, for several processes on one machine.
///
/// A write replaces the file as a whole, so a process that ends during a write leaves the old file. On Unix only the user
/// can read the file (0600). Changes of several processes do not overwrite each other: [`update`](Self::update) reads and
/// writes under a lock of the operating system, in a file beside the pins.
///
/// The functions block the thread for the time of the file operations.
///
/// ```no_run
/// use std::time::SystemTime;
///
/// use mcp_agent::pins::{PinFile, PinRules};
///
/// # fn example(tools: &[mcp_protocol::Tool]) -> Result<(), mcp_agent::pins::PinError> {
/// let file = PinFile::new("example/pins.json");
/// let review = file.update(|pins| pins.review("files", tools, PinRules::new(), SystemTime::now()))?;
/// # let _ = review;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct PinFile {
    path: PathBuf,
}

/// The error of a file with pins.
///
/// ```
/// use mcp_agent::pins::{PinError, PinFile};
///
/// let error: PinError = PinFile::new("/").load().unwrap_err();
/// assert!(error.to_string().starts_with("the pins in `/` cannot be read"));
/// ```
#[derive(Debug, thiserror::Error)]
#[error("the pins in `{}` cannot be {action}: {source}", path.display())]
pub struct PinError {
    path: PathBuf,
    action: &'static str,
    source: io::Error,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u64,
    servers: Pins,
}

impl PinFile {
    /// Returns the file of a path. It need not exist.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the pins. A file that does not exist has no pins.
    ///
    /// # Errors
    /// The file cannot be read, or is not a file of pins. A damaged file is not treated as an empty one, because then each
    /// changed tool would have a new pin.
    pub fn load(&self) -> Result<Pins, PinError> {
        self.read().map_err(|source| self.error("read", source))
    }

    /// Reads the pins, changes them and writes them back, if they changed. Other processes wait for the end.
    ///
    /// # Errors
    /// The errors of [`load`](Self::load), a file that cannot be written, pins of more than 64 MiB, or another process that holds
    /// the lock for 5 seconds.
    pub fn update<T>(&self, change: impl FnOnce(&mut Pins) -> T) -> Result<T, PinError> {
        let _lock = self.lock().map_err(|source| self.error("locked", source))?;
        let mut pins = self.load()?;
        let before = pins.clone();
        let result = change(&mut pins);
        if pins != before {
            self.write(pins).map_err(|source| self.error("written", source))?;
        }
        Ok(result)
    }

    fn error(&self, action: &'static str, source: io::Error) -> PinError {
        PinError { path: self.path.clone(), action, source }
    }

    fn read(&self) -> io::Result<Pins> {
        let bytes = match bounded_file::read(&self.path, LARGEST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Pins::new()),
            bytes => bytes?,
        };
        let stored: Stored =
            serde_json::from_slice(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if stored.version != VERSION {
            let text = format!("the file has version {}, and this program reads version {VERSION}", stored.version);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(stored.servers)
    }

    /// Takes the lock. It ends with the file.
    fn lock(&self) -> io::Result<File> {
        if let Some(dir) = self.path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            fs::create_dir_all(dir)?;
        }
        file_lock::lock(options().read(true).create(true).truncate(false).open(self.beside("lock"))?)
    }

    fn write(&self, servers: Pins) -> io::Result<()> {
        let mut text = serde_json::to_string_pretty(&Stored { version: VERSION, servers })?;
        text.push('\n');
        // A larger file could not be read again.
        if text.len() as u64 > LARGEST {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the pins have more than 64 MiB"));
        }
        // The holder of the lock is the only writer, so the name is free, except for the rest of an interrupted write.
        let temporary = self.beside("tmp");
        let written = (|| {
            let mut file = options().create(true).truncate(true).open(&temporary)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&temporary, &self.path)
        })();
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
            return written;
        }
        // The new name must survive a loss of power. Only Unix can open a directory as a file.
        #[cfg(unix)]
        if let Some(dir) = self.path.parent() {
            File::open(if dir.as_os_str().is_empty() { Path::new(".") } else { dir })?.sync_all()?;
        }
        Ok(())
    }

    fn beside(&self, extension: &str) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".");
        name.push(extension);
        self.path.with_file_name(name)
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
