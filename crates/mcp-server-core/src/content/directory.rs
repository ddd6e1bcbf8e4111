//! A directory that is open: what lies in it is reached from it and not by its path, so that nobody can put another
//! directory in its place once it was opened. Links are not followed.

use std::{ffi::OsStr, fs, io, path::Path, time::SystemTime};

#[cfg(not(unix))]
pub(super) use self::by_path::Directory;
#[cfg(unix)]
pub(super) use self::open::Directory;

/// What an entry of a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    Link,
    /// A pipe, a socket or a device.
    Special,
}

/// What is known of an entry without opening it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) stamp: Stamp,
}

/// What tells that a file changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) size: u64,
    modified: Option<SystemTime>,
    /// The number that the file system gave it, so that a file that takes the place of another is seen.
    inode: u64,
}

impl Stamp {
    /// When it was changed last, in milliseconds since 1970.
    #[cfg(feature = "fs")]
    pub(crate) fn modified_millis(&self) -> Option<u64> {
        let since = self.modified?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_millis()).ok()
    }
}

/// Opens the directory that a path without links leads to, from the root down.
pub(super) fn enter(root: &Path, path: &Path) -> io::Result<Directory> {
    path.components().try_fold(Directory::root(root)?, |at, component| at.enter(component.as_os_str()))
}

#[cfg(unix)]
mod open {
    use std::{ffi::OsString, os::unix::ffi::OsStrExt as _, time::Duration};

    use rustix::{
        fd::OwnedFd,
        fs::{AtFlags, Dir, FileType, Mode, OFlags, open, openat, statat},
    };

    use super::*;

    const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW).union(OFlags::DIRECTORY);
    // A pipe that nobody writes into must not hold the thread.
    const FILE: OFlags =
        OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

    #[derive(Debug)]
    pub(in super::super) struct Directory(OwnedFd);

    impl Directory {
        /// Opens a directory by its path, which is no link.
        pub(in super::super) fn root(path: &Path) -> io::Result<Self> {
            Ok(Self(open(path, DIRECTORY, Mode::empty())?))
        }

        /// Opens a directory that lies in this one.
        pub(in super::super) fn enter(&self, name: &OsStr) -> io::Result<Self> {
            Ok(Self(openat(&self.0, name, DIRECTORY, Mode::empty())?))
        }

        /// Opens what lies in this directory, whatever it is.
        pub(in super::super) fn open(&self, name: &OsStr) -> io::Result<fs::File> {
            Ok(openat(&self.0, name, FILE, Mode::empty())?.into())
        }

        /// The first names in the directory, in no order.
        pub(in super::super) fn names(&self, limit: usize) -> io::Result<Vec<OsString>> {
            let names = Dir::read_from(&self.0)?.filter_map(Result::ok);
            let names = names.map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
            Ok(names.filter(|name| name != "." && name != "..").take(limit).collect())
        }

        /// What a name in the directory is.
        pub(in super::super) fn look(&self, name: &OsStr) -> io::Result<Entry> {
            let stat = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let kind = match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Directory,
                FileType::Symlink => Kind::Link,
                _ => Kind::Special,
            };
            let since = number(stat.st_mtime).zip(number(stat.st_mtime_nsec));
            let modified = since.and_then(|(seconds, nanoseconds)| {
                let since = Duration::from_secs(seconds).checked_add(Duration::from_nanos(nanoseconds))?;
                SystemTime::UNIX_EPOCH.checked_add(since)
            });
            let (size, inode) = (number(stat.st_size).unwrap_or(0), number(stat.st_ino).unwrap_or(0));
            Ok(Entry { kind, stamp: Stamp { size, modified, inode } })
        }
    }

    /// Systems have these numbers in types of different sizes and signs.
    fn number(value: impl TryInto<u64>) -> Option<u64> {
        value.try_into().ok()
    }
}

/// Where nothing can be opened from a directory down, a path is resolved again once something was done with it: whatever
/// was put in the way before has to be taken away again in between to be missed.
#[cfg(not(unix))]
mod by_path {
    use std::{ffi::OsString, path::PathBuf};

    use super::*;

    #[derive(Debug)]
    pub(in super::super) struct Directory(PathBuf);

    impl Directory {
        /// Takes a directory by its path, which is no link.
        pub(in super::super) fn root(path: &Path) -> io::Result<Self> {
            if !fs::symlink_metadata(path)?.is_dir() {
                return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a directory"));
            }
            Ok(Self(path.to_owned()))
        }

        /// Takes a directory that lies in this one.
        pub(in super::super) fn enter(&self, name: &OsStr) -> io::Result<Self> {
            Self::root(&self.0.join(name))
        }

        /// Opens a plain file that lies in this directory.
        pub(in super::super) fn open(&self, name: &OsStr) -> io::Result<fs::File> {
            let path = self.0.join(name);
            if !fs::symlink_metadata(&path)?.is_file() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file"));
            }
            let file = fs::File::open(&path)?;
            still(&path)?;
            Ok(file)
        }

        /// The first names in the directory, in no order.
        pub(in super::super) fn names(&self, limit: usize) -> io::Result<Vec<OsString>> {
            let names = fs::read_dir(&self.0)?.filter_map(|entry| Some(entry.ok()?.file_name())).take(limit).collect();
            still(&self.0)?;
            Ok(names)
        }

        /// What a name in the directory is.
        pub(in super::super) fn look(&self, name: &OsStr) -> io::Result<Entry> {
            let metadata = fs::symlink_metadata(self.0.join(name))?;
            still(&self.0)?;
            let kind = match metadata.file_type() {
                kind if kind.is_file() => Kind::File,
                kind if kind.is_dir() => Kind::Directory,
                kind if kind.is_symlink() => Kind::Link,
                _ => Kind::Special,
            };
            Ok(Entry { kind, stamp: Stamp { size: metadata.len(), modified: metadata.modified().ok(), inode: 0 } })
        }
    }

    fn still(path: &Path) -> io::Result<()> {
        if path.canonicalize()? == path {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "it lies outside of the directory"))
    }
}
