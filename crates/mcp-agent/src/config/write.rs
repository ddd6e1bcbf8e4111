//! Atomic replacement of a file.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

/// Replaces a file as a whole. A process that ends during the write leaves the old file.
///
/// The new file has the permissions of the old one. Only the user can read a file that did not exist.
pub(crate) fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_directory(directory)?;
    let mut temporary = tempfile::Builder::new().prefix(".mcp-").suffix(".tmp").tempfile_in(directory)?;
    temporary.write_all(bytes)?;
    if let Ok(metadata) = fs::metadata(file) {
        temporary.as_file().set_permissions(metadata.permissions())?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(file).map_err(|error| error.error)?;
    #[cfg(unix)]
    fs::File::open(directory)?.sync_all()?;
    Ok(())
}

/// Creates a directory that only the user can read. An existing directory does not change.
pub(super) fn create_directory(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}
