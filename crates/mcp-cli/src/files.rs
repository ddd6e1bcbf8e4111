//! The files that an option names.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{failure::Failure, text::line};

/// Checks that the directory of a file exists. A typing error in its path would create another directory.
pub(crate) fn check_directory(option: &str, file: &Path) -> Result<(), Failure> {
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if directory.is_dir() {
        return Ok(());
    }
    let directory = directory.display();
    Err(Failure::usage(line(&format!("{option}: there is no directory {directory}: create it, or correct the path"))))
}

/// Returns a path that two names of one file share. `None` for a device or a pipe, which several options can name.
pub(crate) fn identity(file: &Path) -> Option<PathBuf> {
    if let Ok(path) = fs::canonicalize(file) {
        return path.is_file().then_some(path);
    }
    let file = std::path::absolute(file).ok()?;
    Some(fs::canonicalize(file.parent()?).ok()?.join(file.file_name()?))
}
