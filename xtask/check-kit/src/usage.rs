//! The memory, the open files and the waits of a process.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

/// Returns the resident memory of a process in bytes. `None` without `/proc`.
pub fn resident(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns the number of the open file descriptors of a process. `None` without `/proc`.
pub fn open_files(pid: u32) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count())
}

/// Returns for each thread of a process how long it was ready to run, and waited for a processor. Empty without `/proc`.
pub fn processor_waits(pid: u32) -> BTreeMap<u32, Duration> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let wait = |thread: fs::DirEntry| {
        let id: u32 = thread.file_name().to_str()?.parse().ok()?;
        Some((id, wait_of(&thread.path())?))
    };
    threads.filter_map(wait).collect()
}

/// Returns how long this thread was ready to run, and waited for a processor. Zero without `/proc`.
pub fn own_wait() -> Duration {
    wait_of(Path::new("/proc/thread-self")).unwrap_or_default()
}

fn wait_of(thread: &Path) -> Option<Duration> {
    // The fields are the time on a processor, the time of the wait, and the number of time slices.
    let times = fs::read_to_string(thread.join("schedstat")).ok()?;
    Some(Duration::from_nanos(times.split_whitespace().nth(1)?.parse().ok()?))
}

/// Returns the longest wait of a thread between two readings of [`processor_waits`].
pub fn longest_wait(before: &BTreeMap<u32, Duration>, after: &BTreeMap<u32, Duration>) -> Duration {
    let waited = |(id, after): (&u32, &Duration)| after.saturating_sub(before.get(id).copied().unwrap_or_default());
    after.iter().map(waited).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_of_a_thread_begins_at_the_first_reading() {
        let reading = |waits: &[(u32, u64)]| -> BTreeMap<u32, Duration> {
            waits.iter().map(|(id, millis)| (*id, Duration::from_millis(*millis))).collect()
        };
        let before = reading(&[(1, 500), (2, 10), (3, 90)]);
        // The thread 3 has ended, and the thread 4 is new.
        for (after, expected) in [(&[(1, 520), (2, 40), (4, 20)][..], 30), (&[(1, 500), (4, 20)], 20), (&[], 0)] {
            assert_eq!(longest_wait(&before, &reading(after)), Duration::from_millis(expected), "{after:?}");
        }
        assert_eq!(processor_waits(std::process::id()).is_empty(), !fs::exists("/proc/self/schedstat").unwrap());
    }
}
