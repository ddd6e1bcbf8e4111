//! What a directory holds: its files by path, in order, as many as may be listed.

use std::{collections::BTreeMap, io};

use mcp_schema::safe_relative_path;

use super::{
    beneath::Beneath,
    directory::{Directory, Kind, Stamp},
};

/// Directories nest this deep at most; what lies deeper is not listed.
const DEPTH: usize = 32;
/// Entries that are looked at, listed or not.
const ENTRIES: usize = 100_000;

/// Files by their path, which has slashes whatever the system has.
pub(crate) type Listing = BTreeMap<String, Stamp>;

/// Lists the first `limit` files that have `max_size` bytes at most, in the order of their paths.
pub(crate) fn list(beneath: &Beneath, limit: usize, max_size: u64) -> io::Result<Listing> {
    let mut walk = Walk { beneath, limit, max_size, left: ENTRIES, files: Listing::new() };
    walk.directory(&beneath.directory()?, "", 0)?;
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
    fn directory(&mut self, directory: &Directory, prefix: &str, depth: usize) -> io::Result<()> {
        let names = directory.names(self.left)?;
        self.left -= names.len();
        // A name that is not UTF-8 has no URI that leads back to it.
        let mut names: Vec<String> = names.into_iter().filter_map(|name| name.into_string().ok()).collect();
        names.sort_unstable();
        for name in names {
            if self.files.len() >= self.limit {
                break;
            }
            let relative = format!("{prefix}{name}");
            let is_plain = safe_relative_path(&relative).is_ok() && !name.contains(char::is_control);
            if !is_plain || !self.beneath.shows(&name) {
                continue;
            }
            // What cannot be read is not there as far as anybody here can tell.
            let Ok(mut entry) = directory.look(name.as_ref()) else { continue };
            if entry.kind == Kind::Directory {
                if depth < DEPTH
                    && let Ok(inner) = directory.enter(name.as_ref())
                {
                    let _ = self.directory(&inner, &format!("{relative}/"), depth + 1);
                }
                continue;
            }
            // A link is listed where it leads to a file beneath the root; directories behind links are not looked into.
            if entry.kind == Kind::Link {
                match self.beneath.look(&relative) {
                    Ok(target) => entry = target,
                    Err(_) => continue,
                }
            }
            if entry.kind == Kind::File && entry.stamp.size <= self.max_size {
                self.files.insert(relative, entry.stamp);
            }
        }
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{
        fs,
        os::unix::fs::symlink,
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    use super::*;

    /// Ends the other thread however this one ends, since the scope waits for both.
    struct Done<'a>(&'a AtomicBool);

    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_directory_that_turns_into_a_link_shows_nothing_from_elsewhere() {
        let disk = std::env::temp_dir().join(format!("mcp-listing-{}", std::process::id()));
        let _ = fs::remove_dir_all(&disk);
        fs::create_dir_all(disk.join("root/directory")).unwrap();
        fs::create_dir_all(disk.join("elsewhere")).unwrap();
        fs::write(disk.join("root/directory/both"), "x").unwrap();
        fs::write(disk.join("elsewhere/both"), "secret").unwrap();
        fs::write(disk.join("elsewhere/secret"), "secret").unwrap();
        symlink("../elsewhere", disk.join("root/link")).unwrap();
        let (directory, link) = (disk.join("root/directory"), disk.join("root/link"));
        let (beneath, done) = (Beneath::new(disk.join("root")), AtomicBool::new(false));
        let mut seen = Listing::new();
        thread::scope(|scope| {
            let _done = Done(&done);
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    renameat_with(CWD, &directory, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                }
            });
            for _ in 0..2_000 {
                seen.extend(list(&beneath, 10, 100).unwrap().into_iter().filter(|(_, stamp)| stamp.size != 1));
            }
        });
        assert_eq!(seen.keys().collect::<Vec<_>>(), Vec::<&String>::new());
        fs::remove_dir_all(&disk).unwrap();
    }
}
