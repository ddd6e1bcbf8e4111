//! The processes that a process has started, and their end.

use std::process::Child;

/// Kills a child that runs, and on Unix also the processes that it and they have started.
pub(super) fn kill(child: &mut Child) {
    #[cfg(unix)]
    unix::kill(rustix::process::Pid::from_child(child));
    // Fails only if the child has exited already.
    let _ = child.kill();
}

#[cfg(unix)]
mod unix {
    use std::{
        collections::BTreeSet,
        fs,
        process::{Command, Stdio},
    };

    use rustix::process::{Pid, Signal, kill_process};

    use super::super::{read_all, received};

    /// The searches for descendants. Each search finds at least one generation.
    const SEARCHES: usize = 100;

    /// A process of its own group would not receive Ctrl-C, so a group cannot replace the search.
    pub(super) fn kill(root: Pid) {
        let mut stopped = BTreeSet::from([root.as_raw_pid()]);
        signal(&stopped, Signal::STOP);
        // A stopped process starts no others, so the searches find all of them.
        for _ in 0..SEARCHES {
            let found: BTreeSet<i32> = parents()
                .into_iter()
                .filter(|(process, parent)| stopped.contains(parent) && !stopped.contains(process))
                .map(|(process, _)| process)
                .collect();
            if found.is_empty() {
                break;
            }
            signal(&found, Signal::STOP);
            stopped.extend(found);
        }
        signal(&stopped, Signal::KILL);
    }

    fn signal(processes: &BTreeSet<i32>, signal: Signal) {
        for process in processes.iter().filter_map(|process| Pid::from_raw(*process)) {
            // Fails only if the process has exited already.
            let _ = kill_process(process, signal);
        }
    }

    /// Returns each process of the system with its parent.
    fn parents() -> Vec<(i32, i32)> {
        let of_files = from_files();
        if of_files.is_empty() { from_program() } else { of_files }
    }

    /// Reads the files of Linux. A small system has no program `ps`.
    fn from_files() -> Vec<(i32, i32)> {
        let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        let parent = |process: i32| {
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
            // The name of the program before the last bracket can contain spaces.
            stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
        };
        let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        processes.filter_map(|process| Some((process, parent(process)?))).collect()
    }

    fn from_program() -> Vec<(i32, i32)> {
        let mut command = Command::new("ps");
        command.args(["-A", "-o", "pid=", "-o", "ppid="]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { return Vec::new() };
        let listed = received(child.stdout.take().map(read_all));
        // Both fail only if the program has exited already.
        let _ = child.kill();
        let _ = child.wait();
        let pair = |line: &str| {
            let (process, parent) = line.trim().split_once(' ')?;
            Some((process.parse().ok()?, parent.trim().parse().ok()?))
        };
        listed.lines().filter_map(pair).collect()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn each_source_has_the_parent_of_this_process() {
            let id = |id: u32| i32::try_from(id).unwrap();
            let this = (id(std::process::id()), id(std::os::unix::process::parent_id()));
            for (name, found) in [("/proc", from_files()), ("ps", from_program())] {
                // A system has one of the sources at least.
                assert!(found.is_empty() || found.contains(&this), "{name}: {found:?}");
            }
            assert!(parents().contains(&this));
        }
    }
}
