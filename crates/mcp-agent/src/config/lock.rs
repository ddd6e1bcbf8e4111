//! Locks between processes that change the same configuration.

use std::{fs, io, path::Path};

use super::write;
use crate::file_lock;

/// Locks a file against other processes. Creates the file and its directory. The lock ends when the file is dropped.
///
/// The function blocks for at most 5 seconds.
pub(crate) fn lock(file: &Path) -> io::Result<fs::File> {
    write::create_directory(file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
    file_lock::lock(fs::File::options().create(true).truncate(false).write(true).open(file)?)
}
