//! The CPU core, the CPU time and the memory of a process.

use std::time::Duration;

pub(crate) use check_kit::usage::resident;

use crate::{busy, error::Error};

/// The cores for the servers and for the generator; `None` when there are not two, or the system has no way to choose.
pub(crate) fn pair() -> Option<(usize, usize)> {
    let mut allowed = allowed().into_iter();
    Some((allowed.next()?, allowed.next()?))
}

#[cfg(target_os = "linux")]
fn allowed() -> Vec<usize> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> Vec<usize> {
    Vec::new()
}

/// Keeps this thread, and those that it starts, on one core.
#[cfg(target_os = "linux")]
pub(crate) fn pin(cpu: usize) -> Result<(), Error> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return Err(Error::new(format!("there is no core {cpu}")));
    }
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Keeps this thread on one core: only Linux can.
#[cfg(not(target_os = "linux"))]
pub(crate) fn pin(_cpu: usize) -> Result<(), Error> {
    Err(Error::new("this system cannot pin a process to a core"))
}

/// Starts a process on one core: the child inherits the core of this thread.
#[cfg(target_os = "linux")]
pub(crate) fn on<T>(core: Option<usize>, start: impl FnOnce() -> T) -> Result<T, Error> {
    use rustix::thread::{sched_getaffinity, sched_setaffinity};
    let Some(core) = core else { return Ok(start()) };
    let own = sched_getaffinity(None)?;
    pin(core)?;
    let started = start();
    sched_setaffinity(None, &own)?;
    Ok(started)
}

/// Starts a process on any core: only Linux can choose.
#[cfg(not(target_os = "linux"))]
pub(crate) fn on<T>(_core: Option<usize>, start: impl FnOnce() -> T) -> Result<T, Error> {
    Ok(start())
}

/// Lets the system kill this process when its parent process ends. A stopped process cannot read the end of its stdin.
#[cfg(target_os = "linux")]
pub(crate) fn end_with_parent() {
    use rustix::process::{Signal, set_parent_process_death_signal};
    // Without the signal, the end of stdin ends the process.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

/// Ends a process with its parent process: only on Linux.
#[cfg(not(target_os = "linux"))]
pub(crate) fn end_with_parent() {}

/// Replaces this process by a program. Returns the reason if the system cannot start it.
#[cfg(unix)]
pub(crate) fn replace_with(program: &str, args: &[String]) -> Error {
    use std::os::unix::process::CommandExt as _;
    std::process::Command::new(program).args(args).exec().into()
}

/// Runs a program: only Unix can replace a process.
#[cfg(not(unix))]
pub(crate) fn replace_with(program: &str, args: &[String]) -> Error {
    match std::process::Command::new(program).args(args).status() {
        Ok(status) => Error::new(format!("the program ended: {status}")),
        Err(error) => error.into(),
    }
}

/// A stopped process, which uses no core. The drop of this value continues it.
#[derive(Debug)]
pub(crate) struct Paused {
    #[cfg(target_os = "linux")]
    pid: rustix::process::Pid,
}

impl Paused {
    /// Stops a process with SIGSTOP.
    #[cfg(target_os = "linux")]
    pub(crate) fn new(pid: u32) -> Result<Self, Error> {
        use rustix::process::{Pid, Signal, kill_process};
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Error::new("a server has no valid process id"))?;
        kill_process(pid, Signal::STOP)?;
        Ok(Self { pid })
    }

    /// Stops no process: servers share a core only on Linux.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn new(_pid: u32) -> Result<Self, Error> {
        Ok(Self {})
    }
}

#[cfg(target_os = "linux")]
impl Drop for Paused {
    fn drop(&mut self) {
        // The process may have ended. Its next call then fails.
        let _ = rustix::process::kill_process(self.pid, rustix::process::Signal::CONT);
    }
}

/// Raises the limit of open files to the highest value that the system allows.
#[cfg(target_os = "linux")]
pub(crate) fn raise_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without more files, a measurement of many streams fails with the error of the system.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Raises the limit of open files: only on Linux.
#[cfg(not(target_os = "linux"))]
pub(crate) fn raise_files() {}

/// The user and system time of a process so far; `None` without `/proc`.
pub(crate) fn used(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse(&stat, false)
}

/// Reads user and system time: the fields 14 and 15. On demand, it adds the times of the child processes that have ended: the fields 16
/// and 17. The name in field 2 ends with the last brace.
pub(crate) fn parse(stat: &str, with_children: bool) -> Option<Duration> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let mut ticks = 0;
    for field in fields.get(11..if with_children { 15 } else { 13 })? {
        ticks += field.parse::<u64>().ok()?;
    }
    Some(busy::ticks(ticks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_user_and_system_time() {
        let stat =
            "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 150 75 3 4 20 0 1 0 12345 1000 10 18446744073709551615";
        assert_eq!(parse(stat, false), Some(Duration::from_millis(2250)));
        assert_eq!(parse(stat, true), Some(Duration::from_millis(2320)));
        assert_eq!(parse("42 (a) S 1 2", false), None);
        assert_eq!(parse("", false), None);
    }
}
