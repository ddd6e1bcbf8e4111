//! Files beneath a directory, and nothing that lies elsewhere.
//!
//! A path is resolved first, links and all, and has to end beneath the root, which is resolved as well. What is opened
//! then is the resolved path, from the root down, one component after the other, and none of them may be a link: whoever
//! puts a link in the way between the two steps gets an error, and never a file from elsewhere.

use std::{
    ffi::OsStr,
    fmt, fs, io,
    io::Read as _,
    path::{Path, PathBuf},
};

use mcp_schema::safe_relative_path;

use super::directory::{Directory, Entry, enter};

/// A directory whose files may be read.
#[derive(Debug, Clone)]
pub(crate) struct Beneath {
    root: PathBuf,
    hidden: bool,
}

/// Why a file was not read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// It has more bytes than may be read.
    TooLarge(u64),
    /// There is none that may be read: it does not exist, lies elsewhere, or is no plain file.
    Missing(io::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(limit) => write!(f, "it is larger than {limit} bytes"),
            Self::Missing(error) => write!(f, "it cannot be read: {error}"),
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Missing(error)
    }
}

impl Beneath {
    pub(crate) fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), hidden: false }
    }

    /// Whether a name on the way to a file may begin with a dot: of the path that is asked for, and of what it leads to.
    #[cfg(feature = "fs")]
    pub(crate) fn hidden(self, on: bool) -> Self {
        Self { hidden: on, ..self }
    }

    pub(super) fn shows(&self, name: &str) -> bool {
        self.hidden || !name.starts_with('.')
    }

    #[cfg(feature = "fs")]
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Reads a file whose relative path somebody else may have chosen.
    pub(crate) fn read(&self, relative: &str, limit: u64) -> Result<Vec<u8>, ReadError> {
        let file = self.open(relative)?;
        let mut bytes = Vec::new();
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(ReadError::TooLarge(limit));
        }
        Ok(bytes)
    }

    /// Opens a plain file.
    fn open(&self, relative: &str) -> io::Result<fs::File> {
        let (root, inner) = self.resolve(relative)?;
        let (directory, name) = parent(&root, &inner)?;
        let file = directory.open(name)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file"));
        }
        Ok(file)
    }

    /// What is at a path beneath the root, links followed.
    pub(super) fn look(&self, relative: &str) -> io::Result<Entry> {
        let (root, inner) = self.resolve(relative)?;
        let (directory, name) = parent(&root, &inner)?;
        directory.look(name)
    }

    /// Opens the root, to look what lies in it.
    pub(super) fn directory(&self) -> io::Result<Directory> {
        Directory::root(&self.root.canonicalize()?)
    }

    /// The root, and a path beneath it, without any links.
    fn resolve(&self, relative: &str) -> io::Result<(PathBuf, PathBuf)> {
        let relative = safe_relative_path(relative).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        let root = self.root.canonicalize()?;
        let path = root.join(&relative).canonicalize()?;
        let inner = match path.strip_prefix(&root) {
            Ok(inner) if !inner.as_os_str().is_empty() => inner,
            _ => return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it lies outside of the directory")),
        };
        // A link shows no more than its target may be shown, whatever it is called itself.
        if !self.hidden && [relative.as_path(), inner].into_iter().any(is_hidden) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is hidden"));
        }
        Ok((root.clone(), inner.to_owned()))
    }
}

/// Whether a component of a path begins with a dot.
fn is_hidden(path: &Path) -> bool {
    path.components().any(|component| component.as_os_str().as_encoded_bytes().starts_with(b"."))
}

/// The directory that the last component of a path lies in, and that component.
fn parent<'a>(root: &Path, inner: &'a Path) -> io::Result<(Directory, &'a OsStr)> {
    let nameless = || io::Error::new(io::ErrorKind::InvalidInput, "it has no name");
    let (parent, name) = inner.parent().zip(inner.file_name()).ok_or_else(nameless)?;
    Ok((enter(root, parent)?, name))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_appears_between_looking_and_opening_is_not_followed() {
        let root = std::env::temp_dir().join(format!("mcp-beneath-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("inner")).unwrap();
        let root = root.canonicalize().unwrap();
        fs::write(root.join("inner/file"), "x").unwrap();
        std::os::unix::fs::symlink("inner/file", root.join("link")).unwrap();
        std::os::unix::fs::symlink("inner", root.join("directory")).unwrap();
        for (path, opens) in [("inner/file", true), ("link", false), ("directory/file", false), ("none", false)] {
            let opened = parent(&root, Path::new(path)).and_then(|(directory, name)| directory.open(name));
            assert_eq!(opened.is_ok(), opens, "{path}");
        }
        fs::remove_dir_all(&root).unwrap();
    }
}
