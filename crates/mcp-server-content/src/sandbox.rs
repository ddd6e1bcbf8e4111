//! Reads files inside of one directory, and refuses every path that leads out of it.
//!
//! A read has two steps. First the sandbox resolves the path with all links and checks that the target lies inside of the
//! root. Then it opens the resolved path through `cap-std`: one component after the other, each from the handle of its
//! parent, without following links. A link that appears between the two steps is an error.
//!
//! The walk from the top of the file system to the root needs `O_PATH`. Without it, each step needs the right to read the
//! directory, and a server often lacks this right above its root. Other systems open the root by its resolved path, so a link that
//! appears above the root is followed there. Below the root each system walks.
//!
//! The root itself may be a link, because its owner named it. Each read resolves it again, so the owner can exchange a
//! whole directory by a new target of the link.
//!
//! The first step is our own code, because `cap-std` alone breaks two rules of this crate. It refuses an absolute link to a
//! file inside of the root. It also follows a link to a hidden file.

use std::{
    fmt, io,
    io::Read as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::{
    ambient_authority,
    fs::{Dir, File, Metadata, OpenOptions},
};
use mcp_schema::safe_relative_path;

/// A directory whose files the server may read.
#[derive(Debug, Clone)]
pub(crate) struct Sandbox {
    root: PathBuf,
    hidden: bool,
}

/// The reason why a file was not read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The file has more bytes than this limit.
    TooLarge(u64),
    /// The path does not exist, leads out of the root, is hidden, or does not name a regular file.
    NotFound(io::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(limit) => write!(f, "the file is larger than {limit} bytes"),
            Self::NotFound(error) => write!(f, "the file cannot be read: {error}"),
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::NotFound(error)
    }
}

/// The metadata by which a change of a file is detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamp {
    /// The size in bytes.
    pub(crate) size: u64,
    modified: Option<SystemTime>,
    /// The number of the file in its file system: it differs when another file replaces this one.
    inode: u64,
}

impl FileStamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let inode = cap_std::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let inode = 0;
        let modified = metadata.modified().ok().map(cap_std::time::SystemTime::into_std);
        Self { size: metadata.len(), modified, inode }
    }

    /// The time of the last modification, in milliseconds since 1970.
    #[cfg(feature = "fs")]
    pub(crate) fn modified_millis(&self) -> Option<u64> {
        let since = self.modified?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_millis()).ok()
    }
}

impl Sandbox {
    /// A sandbox without hidden files.
    pub(crate) fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), hidden: false }
    }

    /// Allows hidden files: files with a component that begins with a dot, in the requested path or in the resolved path.
    #[cfg(feature = "fs")]
    pub(crate) fn with_hidden(self) -> Self {
        Self { hidden: true, ..self }
    }

    /// Whether the sandbox shows a directory entry of this name.
    pub(crate) fn shows(&self, name: &str) -> bool {
        self.hidden || !name.starts_with('.')
    }

    #[cfg(feature = "fs")]
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Reads a file of at most `limit` bytes. A client may have chosen the path.
    pub(crate) fn read(&self, relative: &str, limit: u64) -> Result<Vec<u8>, ReadError> {
        let (root, inner) = self.resolve(relative)?;
        let file = open(&root, &inner)?;
        let mut bytes = Vec::new();
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(ReadError::TooLarge(limit));
        }
        Ok(bytes)
    }

    /// Returns the metadata of a file, and follows links inside of the root.
    pub(crate) fn metadata(&self, relative: &str) -> io::Result<Metadata> {
        let (root, inner) = self.resolve(relative)?;
        let (directory, name) = open_parent(&root, &inner)?;
        directory.symlink_metadata(name)
    }

    /// Opens the root, to list its entries.
    pub(crate) fn open_root(&self) -> io::Result<Dir> {
        open_directory(&self.root.canonicalize()?)
    }

    /// Resolves all links. Returns the root, and the path from the root to the target.
    fn resolve(&self, relative: &str) -> io::Result<(PathBuf, PathBuf)> {
        let relative = safe_relative_path(relative).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        let root = self.root.canonicalize()?;
        let path = root.join(&relative).canonicalize()?;
        let inner = match path.strip_prefix(&root) {
            Ok(inner) if !inner.as_os_str().is_empty() => inner.to_owned(),
            _ => return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the path leads out of the directory")),
        };
        if !self.hidden && [&relative, &inner].into_iter().any(|path| is_hidden(path)) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is hidden"));
        }
        Ok((root, inner))
    }
}

/// Whether a component of a path begins with a dot.
fn is_hidden(path: &Path) -> bool {
    path.components().any(|component| component.as_os_str().as_encoded_bytes().starts_with(b"."))
}

/// Opens a regular file at a resolved path.
fn open(root: &Path, inner: &Path) -> io::Result<File> {
    let irregular = || io::Error::new(io::ErrorKind::InvalidInput, "the path does not name a regular file");
    let (directory, name) = open_parent(root, inner)?;
    // Opening a device can have effects of its own.
    if !directory.symlink_metadata(name)?.is_file() {
        return Err(irregular());
    }
    let mut options = OpenOptions::new();
    // Without `nonblock`, opening a pipe that just replaced the file would block the thread.
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    let file = directory.open_with(name, &options)?;
    if !file.metadata()?.is_file() {
        return Err(irregular());
    }
    Ok(file)
}

/// Whether a directory opens without the right to read it. `cap-std` uses `O_PATH` on these systems.
const OPENS_WITHOUT_READING: bool = cfg!(any(
    target_os = "android",
    target_os = "emscripten",
    target_os = "freebsd",
    target_os = "fuchsia",
    target_os = "linux",
    target_os = "redox"
));

/// Opens the directory at an absolute path without links. A link that appeared in it is an error on systems with `O_PATH`.
fn open_directory(path: &Path) -> io::Result<Dir> {
    if !OPENS_WITHOUT_READING {
        return Dir::open_ambient_dir(path, ambient_authority());
    }
    // Above the root there is no directory whose handle could refuse a link.
    let top = path.ancestors().last().unwrap_or(path);
    let below = path.strip_prefix(top).unwrap_or(path);
    let top = Dir::open_ambient_dir(top, ambient_authority())?;
    below.components().try_fold(top, |directory, component| directory.open_dir_nofollow(component))
}

/// Opens the parent directory of a resolved path. Returns it with the last component of the path.
fn open_parent<'a>(root: &Path, inner: &'a Path) -> io::Result<(Dir, &'a Path)> {
    let nameless = || io::Error::new(io::ErrorKind::InvalidInput, "the path does not end in a name");
    let (parent, name) = inner.parent().zip(inner.file_name()).ok_or_else(nameless)?;
    let directory =
        parent.components().try_fold(open_directory(root)?, |dir, component| dir.open_dir_nofollow(component))?;
    Ok((directory, Path::new(name)))
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn open_does_not_follow_a_link_that_appears_after_the_path_was_resolved() {
        let root = std::env::temp_dir().join(format!("mcp-sandbox-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("inner")).unwrap();
        let root = root.canonicalize().unwrap();
        fs::write(root.join("inner/file"), "x").unwrap();
        std::os::unix::fs::symlink("inner/file", root.join("link")).unwrap();
        std::os::unix::fs::symlink("inner", root.join("directory")).unwrap();
        for (path, opens) in [("inner/file", true), ("link", false), ("directory/file", false), ("none", false)] {
            assert_eq!(open(&root, Path::new(path)).is_ok(), opens, "{path}");
        }
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_root_that_is_a_link_is_resolved_and_not_followed_afterwards() {
        let top = std::env::temp_dir().join(format!("mcp-sandbox-root-{}", std::process::id()));
        let _ = fs::remove_dir_all(&top);
        for release in ["1", "2"] {
            fs::create_dir_all(top.join(release).join("inner")).unwrap();
            fs::write(top.join(release).join("inner/file"), release).unwrap();
        }
        let top = top.canonicalize().unwrap();
        let link = top.join("current");
        std::os::unix::fs::symlink("1", &link).unwrap();
        let sandbox = Sandbox::new(&link);
        assert_eq!(sandbox.read("inner/file", 10).unwrap(), b"1");
        assert!(sandbox.open_root().is_ok());
        // The link appeared after the root or a directory above it was resolved.
        for root in [link.clone(), link.join("inner")] {
            let fails = open(&root, Path::new("file")).is_err() && open_directory(&root).is_err();
            assert!(fails || !OPENS_WITHOUT_READING, "{}", root.display());
        }
        // The owner exchanges the directory.
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("2", &link).unwrap();
        assert_eq!(sandbox.read("inner/file", 10).unwrap(), b"2");
        fs::remove_dir_all(&top).unwrap();
    }
}
