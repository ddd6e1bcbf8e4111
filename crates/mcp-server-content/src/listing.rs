//! Lists the files of a directory by path, in order and up to a limit.

use std::{collections::BTreeMap, io};

use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;
use mcp_schema::is_canonical_relative_path;

use crate::sandbox::{FileStamp, Sandbox};

/// The deepest level of directories that a listing enters.
const MAX_DEPTH: usize = 32;
/// The directory entries that a listing examines, whether it lists them or not.
const MAX_ENTRIES: usize = 100_000;

/// Files by their path. Its separator is a slash on every system.
pub(crate) type Listing = BTreeMap<String, FileStamp>;

/// Lists the first `limit` files of at most `max_size` bytes, in the order of their paths.
pub(crate) fn list(sandbox: &Sandbox, limit: usize, max_size: u64) -> io::Result<Listing> {
    let mut walk = Walk { sandbox, limit, max_size, entries_left: MAX_ENTRIES, files: Listing::new() };
    walk.directory(&sandbox.open_root()?, "", 0)?;
    Ok(walk.files)
}

struct Walk<'a> {
    sandbox: &'a Sandbox,
    limit: usize,
    max_size: u64,
    entries_left: usize,
    files: Listing,
}

impl Walk<'_> {
    fn directory(&mut self, directory: &Dir, prefix: &str, depth: usize) -> io::Result<()> {
        let entries = directory.entries()?.filter_map(Result::ok).take(self.entries_left);
        let names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        self.entries_left -= names.len();
        // A URI cannot name a file whose name is not UTF-8.
        let mut names: Vec<String> = names.into_iter().filter_map(|name| name.into_string().ok()).collect();
        names.sort_unstable();
        for name in names {
            if self.files.len() >= self.limit {
                break;
            }
            let relative = format!("{prefix}{name}");
            if !is_canonical_relative_path(&relative) || !self.sandbox.shows(&name) {
                continue;
            }
            // Clients cannot distinguish an unreadable file from a missing one.
            let Ok(mut metadata) = directory.symlink_metadata(&name) else { continue };
            if metadata.is_dir() {
                if depth < MAX_DEPTH
                    && let Ok(inner) = directory.open_dir_nofollow(&name)
                {
                    let _ = self.directory(&inner, &format!("{relative}/"), depth + 1);
                }
                continue;
            }
            // A link to a file inside of the root is listed. A listing does not enter directories through links.
            if metadata.is_symlink() {
                match self.sandbox.metadata(&relative) {
                    Ok(target) => metadata = target,
                    Err(_) => continue,
                }
            }
            if metadata.is_file() && metadata.len() <= self.max_size {
                self.files.insert(relative, FileStamp::of(&metadata));
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

    /// Stops the other thread when this one ends, also by a panic: the scope waits for both threads.
    struct StopOnDrop<'a>(&'a AtomicBool);

    impl Drop for StopOnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_directory_replaced_by_a_link_lists_no_files_outside_of_the_root() {
        let disk = std::env::temp_dir().join(format!("mcp-listing-{}", std::process::id()));
        let _ = fs::remove_dir_all(&disk);
        fs::create_dir_all(disk.join("root/directory")).unwrap();
        fs::create_dir_all(disk.join("elsewhere")).unwrap();
        fs::write(disk.join("root/directory/both"), "x").unwrap();
        fs::write(disk.join("elsewhere/both"), "secret").unwrap();
        fs::write(disk.join("elsewhere/secret"), "secret").unwrap();
        symlink("../elsewhere", disk.join("root/link")).unwrap();
        let (directory, link) = (disk.join("root/directory"), disk.join("root/link"));
        let (sandbox, done) = (Sandbox::new(disk.join("root")), AtomicBool::new(false));
        let mut seen = Listing::new();
        thread::scope(|scope| {
            let _stop = StopOnDrop(&done);
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    renameat_with(CWD, &directory, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                }
            });
            for _ in 0..2_000 {
                seen.extend(list(&sandbox, 10, 100).unwrap().into_iter().filter(|(_, stamp)| stamp.size != 1));
            }
        });
        assert_eq!(seen.keys().collect::<Vec<_>>(), Vec::<&String>::new());
        fs::remove_dir_all(&disk).unwrap();
    }
}
