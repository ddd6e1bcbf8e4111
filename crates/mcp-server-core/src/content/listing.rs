//! What a directory holds: its files by path, in order, as many as may be listed.

use std::{collections::BTreeMap, fs, io, path::Path, time::SystemTime};

use mcp_schema::safe_relative_path;

use super::beneath::Beneath;

/// Directories nest this deep at most; what lies deeper is not listed.
const DEPTH: usize = 32;
/// Entries that are looked at, listed or not.
const ENTRIES: usize = 100_000;

/// Files by their path, which has slashes whatever the system has.
pub(crate) type Listing = BTreeMap<String, Stamp>;

/// What tells that a file changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) size: u64,
    modified: Option<SystemTime>,
    /// The number that the file system gave it, so that a file that takes the place of another is seen.
    inode: u64,
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Self { size: metadata.len(), modified: metadata.modified().ok(), inode }
    }

    /// When it was changed last, in milliseconds since 1970.
    #[cfg(feature = "fs")]
    pub(crate) fn modified_millis(&self) -> Option<u64> {
        let since = self.modified?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_millis()).ok()
    }
}

/// Lists the first `limit` files that have `max_size` bytes at most, in the order of their paths.
pub(crate) fn list(beneath: &Beneath, limit: usize, max_size: u64) -> io::Result<Listing> {
    let mut walk = Walk { beneath, limit, max_size, left: ENTRIES, files: Listing::new() };
    walk.directory(beneath.root(), "", 0)?;
    Ok(walk.files)
}

struct Walk<'a> {
    beneath: &'a Beneath,
    limit: usize,
    max_size: u64,
    left: usize,
    files: Listing,
}

impl Walk<'_> {
    fn directory(&mut self, path: &Path, prefix: &str, depth: usize) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            let Ok(entry) = entry else { continue };
            // A name that is not UTF-8 has no URI that leads back to it.
            let Ok(name) = entry.file_name().into_string() else { continue };
            entries.push((name, entry));
        }
        entries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        for (name, entry) in entries {
            if self.files.len() >= self.limit {
                break;
            }
            let relative = format!("{prefix}{name}");
            let is_plain = safe_relative_path(&relative).is_ok() && !name.contains(char::is_control);
            if !is_plain || !self.beneath.shows(&name) {
                continue;
            }
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                // One that cannot be read has no files as far as anybody here can tell.
                if depth < DEPTH {
                    let _ = self.directory(&entry.path(), &format!("{relative}/"), depth + 1);
                }
                continue;
            }
            // A link is listed where it leads to a file beneath the root; directories behind links are not looked into.
            let metadata = if kind.is_file() { entry.metadata() } else { self.beneath.metadata(&relative) };
            if let Ok(metadata) = metadata
                && metadata.is_file()
                && metadata.len() <= self.max_size
            {
                self.files.insert(relative, Stamp::of(&metadata));
            }
        }
        Ok(())
    }
}
