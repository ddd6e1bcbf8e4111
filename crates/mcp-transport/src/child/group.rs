//! A process and all processes that it starts: a process group on Unix, a job object on Windows.

use std::{
    ffi::{OsStr, OsString},
    io,
    process::ExitStatus,
};

use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

#[cfg(unix)]
use self::unix as system;
#[cfg(windows)]
use self::windows as system;

/// A running process and the group that it leads. Dropping it kills the group.
#[derive(Debug)]
pub(super) struct Group(system::Group);

/// The host's ends of the standard streams of the process.
pub(super) struct Streams {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

impl Group {
    /// Starts the command with pipes for the three standard streams.
    pub(super) fn spawn(command: Command) -> io::Result<Self> {
        system::Group::spawn(command).map(Self)
    }

    /// Returns the streams. Each can be taken once.
    pub(super) fn streams(&mut self) -> io::Result<Streams> {
        let gone = || io::Error::other("a standard stream of the process is not a pipe");
        let (stdin, stdout, stderr) = self.0.streams();
        Ok(Streams {
            stdin: stdin.ok_or_else(gone)?,
            stdout: stdout.ok_or_else(gone)?,
            stderr: stderr.ok_or_else(gone)?,
        })
    }

    /// Waits until the process has ended. Cancel safe.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.0.wait().await
    }

    /// Asks the group to end, where the system has such a request.
    pub(super) fn terminate(&mut self) {
        self.0.terminate();
    }

    /// Kills the group.
    pub(super) fn kill(&mut self) {
        self.0.kill();
    }

    /// Whether processes of the group may still run after the leader has ended.
    pub(super) fn has_processes(&self) -> bool {
        self.0.has_processes()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.0.kill();
    }
}

/// Returns the program to start. Windows does not find `npx.cmd` for `npx`, so names without an extension are looked
/// up here.
pub(super) fn resolve(program: &OsStr) -> OsString {
    system::resolve(program)
}

#[cfg(unix)]
mod unix {
    use std::{
        ffi::{OsStr, OsString},
        io,
        process::ExitStatus,
    };

    use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
    use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

    #[derive(Debug)]
    pub(super) struct Group {
        child: Child,
        /// The id of the leader, which names the group. `None` when the group has ended, because the system may reuse
        /// the id.
        id: Option<Pid>,
    }

    impl Group {
        pub(super) fn spawn(mut command: Command) -> io::Result<Self> {
            let child = command.process_group(0).kill_on_drop(true).spawn()?;
            let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
            Ok(Self { child, id })
        }

        pub(super) fn streams(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
            (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take())
        }

        pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
            let status = self.child.wait().await?;
            if !self.has_processes() {
                self.id = None;
            }
            Ok(status)
        }

        pub(super) fn terminate(&mut self) {
            self.signal(Signal::TERM);
        }

        pub(super) fn kill(&mut self) {
            self.signal(Signal::KILL);
        }

        pub(super) fn has_processes(&self) -> bool {
            self.id.is_some_and(|id| test_kill_process_group(id).is_ok())
        }

        fn signal(&mut self, signal: Signal) {
            if let Some(id) = self.id
                && kill_process_group(id, signal).is_err()
            {
                self.id = None;
            }
        }
    }

    pub(super) fn resolve(program: &OsStr) -> OsString {
        program.to_owned()
    }
}

#[cfg(windows)]
mod windows {
    use std::{
        env,
        ffi::{OsStr, OsString},
        io,
        path::Path,
        process::ExitStatus,
    };

    use process_wrap::tokio::{ChildWrapper, CommandWrap, JobObject, KillOnDrop};
    use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

    #[derive(Debug)]
    pub(super) struct Group {
        child: Box<dyn ChildWrapper>,
        ended: bool,
    }

    impl Group {
        pub(super) fn spawn(command: Command) -> io::Result<Self> {
            let child = CommandWrap::from(command).wrap(JobObject).wrap(KillOnDrop).spawn()?;
            Ok(Self { child, ended: false })
        }

        pub(super) fn streams(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
            (self.child.stdin().take(), self.child.stdout().take(), self.child.stderr().take())
        }

        pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
            let status = self.child.wait().await?;
            self.ended = true;
            Ok(status)
        }

        /// Windows has no signal for this: the closed input was the request.
        pub(super) fn terminate(&mut self) {}

        pub(super) fn kill(&mut self) {
            if !self.ended {
                // This fails when the job has already ended.
                let _ = self.child.start_kill();
            }
        }

        /// A job ends all its processes together.
        pub(super) fn has_processes(&self) -> bool {
            false
        }
    }

    /// `npx` is a script without an executable, and only names with an extension are found.
    pub(super) fn resolve(program: &OsStr) -> OsString {
        let path = Path::new(program);
        if path.extension().is_some() || path.components().count() != 1 {
            return program.to_owned();
        }
        let directories = env::var_os("PATH").unwrap_or_default();
        let extensions = env::var("PATHEXT").unwrap_or_else(|_| ".EXE;.CMD;.BAT".to_owned());
        let found = env::split_paths(&directories).find_map(|directory| {
            let candidates = extensions.split(';').map(|extension| {
                let mut name = program.to_owned();
                name.push(extension);
                directory.join(name)
            });
            candidates.into_iter().find(|candidate| candidate.is_file())
        });
        found.map_or_else(|| program.to_owned(), |path| path.into_os_string())
    }
}
